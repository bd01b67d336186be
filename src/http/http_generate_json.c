/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_generate_json.h"

#include "base/mem.h"
#include "core_api/datatype.h"
#include "http/http_infer_encode.h"
#include "http/http_infer_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct generate_decoder {
        struct http_infer_decoder infer; /* state of the functions shared with infer requests */
        const struct http_generate_source *source;
        size_t                             tensor_bytes; /* sum of all inputs so far */
        bool                               has_id;
};

/* ---- shapes ---- */

static struct error *refuse_shape(const struct infer_input *in) {
        return error_new(ERR_INVALID_ARG,
                         "The schema can not convert input '%s' to tensor with proper shape",
                         in->name);
}

/* Replaces the model's dimensions in `shape` by those of a tensor with n_elements. */
static struct error *divide(const struct infer_input *in, int64_t *shape, size_t n_elements) {
        size_t left = n_elements;

        for (uint32_t i = 0; i < in->n_dims; i++) {
                if (shape[i] < 0)
                        continue;
                if (shape[i] == 0 || left % (size_t)shape[i] != 0)
                        return refuse_shape(in);
                left /= (size_t)shape[i];
        }
        for (uint32_t i = in->n_dims; i-- > 0;) {
                if (shape[i] >= 0)
                        continue;
                shape[i] = (int64_t)left;
                left = 1;
        }
        return left == 1 ? NULL : refuse_shape(in);
}

static struct error *make_shape(struct generate_decoder *g, const struct http_generate_input *model,
                                struct infer_input *in, size_t n_elements) {
        size_t   n_dims = (size_t)model->n_dims + model->is_batched;
        int64_t *shape = arena_try_alloc(g->source->arena, (n_dims + 1) * sizeof(*shape));

        if (shape == NULL)
                return infer_no_memory();
        shape[0] = -1;
        if (model->n_dims > 0)
                memcpy(shape + model->is_batched, model->dims, model->n_dims * sizeof(*shape));
        in->shape = shape;
        in->n_dims = (uint32_t)n_dims;
        return divide(in, shape, n_elements);
}

/* ---- tensors ---- */

/* Opens a value as an array: an array as it stands, a scalar in a copy with brackets. */
static struct error *open_array(struct generate_decoder *g, struct str text,
                                struct json_reader *ret) {
        char *copy;

        if (text.len > 0 && text.ptr[0] == '[') {
                json_reader_init(ret, text);
                return NULL;
        }
        copy = arena_try_alloc(g->source->arena, text.len + 2);
        if (copy == NULL)
                return infer_no_memory();
        copy[0] = '[';
        memcpy(copy + 1, text.ptr, text.len);
        copy[text.len + 1] = ']';
        json_reader_init(ret, str_range(copy, text.len + 2));
        return NULL;
}

static size_t count_elements(struct json_reader r) {
        size_t n = 0;

        json_enter_array(&r);
        while (json_next_element(&r)) {
                json_skip(&r);
                n++;
        }
        return n;
}

static struct error *check_size(const struct generate_decoder *g, const struct infer_input *in,
                                size_t bytes) {
        size_t max = g->source->max_input_bytes;
        size_t sum;

        if (size_add(g->tensor_bytes, bytes, &sum) && sum <= max)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "request size of %zu bytes with input '%s' of size %zu bytes exceeds the "
                         "maximum allowed input size of %zu. Use --http-max-input-size to increase "
                         "the limit.",
                         g->tensor_bytes + bytes, in->name, bytes, max);
}

static struct error *read_elements(struct generate_decoder          *g,
                                   const struct http_generate_input *model, struct str text,
                                   struct infer_input *in) {
        struct json_reader json;
        size_t             n;

        TRY(open_array(g, text, &json));
        n = count_elements(json);
        TRY(make_shape(g, model, in, n));
        /* The product cannot overflow: each element is at least one character of the text. */
        TRY(check_size(g, in, n * datatype_bytes(in->datatype)));
        TRY(http_infer_read_tensor(&g->infer, &json, in));
        TRY(check_size(g, in, in->bytes.len)); /* the size of BYTES is known only now */
        g->tensor_bytes += in->bytes.len;
        return NULL;
}

static struct error *read_tensor(struct generate_decoder *g, const char *name,
                                 const struct http_generate_input *model) {
        struct http_infer_decoder *d = &g->infer;
        struct str                 text = json_skip(&d->json);
        struct infer_input        *in;
        enum json_element          element;

        if (json_failed(&d->json))
                return NULL;
        if (model->datatype != TRITONSERVER_TYPE_BYTES &&
            !datatype_json_element(model->datatype, &element))
                return error_new(ERR_INVALID_ARG, "input '%s' has unsupported datatype %s", name,
                                 datatype_name(model->datatype));
        TRY(infer_request_add_input(d->request, g->source->arena, &in));
        in->name = name;
        in->datatype = model->datatype;
        in->datatype_name = datatype_name(model->datatype);
        return read_elements(g, model, text, in);
}

/* ---- members ---- */

/* Other names that begin with triton_ have no meaning here. */
static struct error *refuse_api_key_name(struct generate_decoder *g) {
        json_skip(&g->infer.json);
        return error_new(ERR_INVALID_ARG, "parameter '" INFER_API_KEY_NAME
                                          "' is set by the server and should not be "
                                          "specified");
}

static struct error *read_named(struct generate_decoder *g, struct str key) {
        struct http_infer_decoder *d = &g->infer;
        struct http_generate_input model;
        const char                *name;

        TRY_OR(http_infer_copy_text(d, "parameters", key, &name), json_skip(&d->json));
        TRY_OR(g->source->find(g->source->owner, name, &model), json_skip(&d->json));
        if (model.datatype != TRITONSERVER_TYPE_INVALID)
                return read_tensor(g, name, &model);
        if (strcmp(name, INFER_API_KEY_NAME) == 0)
                return refuse_api_key_name(g);
        return http_infer_read_free_parameter(d, key);
}

/* "id" is the request's id, and is then handled as any other member. */
static struct error *read_id(struct generate_decoder *g) {
        struct http_infer_decoder *d = &g->infer;
        struct http_generate_input model;
        struct json_reader         before = d->json;

        if (g->has_id)
                return read_named(g, STR_LIT("id"));
        g->has_id = true;
        TRY(g->source->find(g->source->owner, "id", &model));
        /* An input tensor named "id" may have any type; then only a string is an id. */
        if (json_peek(&d->json) == JSON_STRING || model.datatype == TRITONSERVER_TYPE_INVALID)
                TRY(http_infer_read_text(d, "id", &d->request->id));
        d->json = before;
        return read_named(g, STR_LIT("id"));
}

static struct error *read_nested(struct generate_decoder *g) {
        struct http_infer_decoder *d = &g->infer;
        struct http_generate_input model;
        struct error              *first = NULL;
        struct str                 key;

        first = g->source->find(g->source->owner, "parameters", &model);
        if (first == NULL && model.datatype != TRITONSERVER_TYPE_INVALID)
                first = error_new(ERR_INVALID_ARG, "Keyword 'parameters' for nested schema also "
                                                   "given as input tensor name");
        if (first == NULL && json_peek(&d->json) != JSON_OBJECT)
                first = error_new(ERR_INVALID_ARG, "Expected JSON object for keyword: "
                                                   "'parameters': attempt to access JSON "
                                                   "non-object as object");
        if (first != NULL) {
                json_skip(&d->json);
                return first;
        }
        json_enter_object(&d->json);
        while (json_next_key(&d->json, g->source->arena, &key)) {
                if (first != NULL)
                        json_skip(&d->json);
                else
                        first = read_named(g, key);
        }
        return error_wrap(first, "Converting keyword: 'parameters'");
}

static struct error *read_member(struct generate_decoder *g, struct str key) {
        if (STR_IS(key, "id"))
                return read_id(g);
        if (STR_IS(key, "parameters"))
                return read_nested(g);
        return read_named(g, key);
}

static struct error *read_document(struct generate_decoder *g) {
        struct json_reader *json = &g->infer.json;
        struct error       *first = NULL;
        struct str          key;

        if (!json_try_enter(json, JSON_OBJECT)) {
                json_skip(json);
                json_read_end(json);
                return error_new(ERR_INVALID_ARG, "attempt to get members for non-object");
        }
        while (json_next_key(json, g->source->arena, &key)) {
                if (first != NULL)
                        json_skip(json);
                else
                        first = read_member(g, key);
        }
        json_read_end(json);
        return first;
}

struct error *http_generate_decode(const struct http_generate_source *source,
                                   struct infer_request              *ret) {
        /* check_size() limits the tensors, so the shared functions need not. */
        const struct http_infer_source shared = {
                .body = source->body,
                .json_bytes = source->body.len,
                .max_input_bytes = SIZE_MAX,
                .arena = source->arena,
                .pool = source->pool,
        };
        struct generate_decoder g = { .infer = { .source = &shared, .request = ret },
                                      .source = source };
        struct error           *err;
        size_t                  max;

        infer_request_init(ret);
        if (source->body.len > source->max_input_bytes)
                return http_infer_json_too_large(source->body.len, source->max_input_bytes);
        json_reader_init(&g.infer.json, source->body);
        infer_arena_limit(source->arena, source->body.len, &max);
        err = read_document(&g);
        infer_arena_release(source->arena, max);
        if (json_failed(&g.infer.json)) {
                error_free(err);
                err = json_syntax_error(&g.infer.json);
        }
        if (err != NULL)
                infer_request_done(ret);
        return err;
}

/* ---- printing a response ---- */

/* One member of the object; exactly one of text, parameter, output is set. */
struct member {
        const char                   *key;
        const char                   *text;
        const struct infer_parameter *parameter;
        const struct infer_output    *output;
        size_t                        place; /* position; of equal keys the lowest is printed */
};

struct member_list {
        struct member *members; /* in arena */
        size_t         n;
};

static int compare_members(const void *a, const void *b) {
        const struct member *x = a, *y = b;
        int                  order = strcmp(x->key, y->key);

        if (order != 0)
                return order;
        return x->place < y->place ? -1 : 1;
}

static struct member *add_member(struct member_list *l, const char *key) {
        struct member *m = &l->members[l->n];

        *m = (struct member){ .key = key, .place = l->n };
        l->n++;
        return m;
}

static void list_members(const struct infer_response *r, const char *version,
                         struct member_list *l) {
        if (r->id[0] != '\0')
                add_member(l, "id")->text = r->id;
        add_member(l, "model_name")->text = r->model_name;
        add_member(l, "model_version")->text = version;
        for (uint32_t i = 0; i < r->n_parameters; i++)
                add_member(l, r->parameters[i].name)->parameter = &r->parameters[i];
        for (uint32_t i = 0; i < r->n_outputs; i++)
                add_member(l, r->outputs[i].name)->output = &r->outputs[i];
        qsort(l->members, l->n, sizeof(*l->members), compare_members);
}

static bool has_one_element(const struct infer_output *output) {
        struct str bytes = output->bytes;
        uint32_t   len;

        if (output->datatype != TRITONSERVER_TYPE_BYTES)
                return bytes.len == datatype_bytes(output->datatype);
        if (bytes.len < sizeof(len))
                return false;
        memcpy(&len, bytes.ptr, sizeof(len));
        return bytes.len - sizeof(len) == len;
}

static struct error *put_output(struct json_writer *w, const struct infer_output *output) {
        struct strbuf *out = w->out;
        size_t         begin;
        bool           has_replaced; /* the answer has no place for it */

        json_key(w, output->name);
        begin = out->len;
        TRY(http_infer_put_elements(out, output, &has_replaced));
        w->needs_comma = true; /* put_elements() has bypassed the writer */
        if (!has_one_element(output) || out->overflowed)
                return NULL;
        out->len -= 2; /* the brackets */
        memmove(out->ptr + begin, out->ptr + begin + 1, out->len - begin);
        out->ptr[out->len] = '\0';
        return NULL;
}

static struct error *put_member(struct json_writer *w, const struct member *m) {
        if (m->output != NULL)
                return put_output(w, m->output);
        if (m->parameter != NULL) {
                http_infer_put_parameter(w, m->parameter);
                return NULL;
        }
        json_key(w, m->key);
        json_put_string(w, m->text);
        return NULL;
}

struct error *http_generate_print(const struct infer_response *r, struct arena *scratch,
                                  struct strbuf *out) {
        size_t             max = 3 + (size_t)r->n_parameters + r->n_outputs;
        struct json_writer w = { .out = out };
        struct member_list l = { .members = arena_try_alloc(scratch, max * sizeof(*l.members)) };
        char               version[24]; /* fits an int64_t in decimal */

        if (l.members == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        snprintf(version, sizeof(version), "%lld", (long long)r->model_version);
        list_members(r, version, &l);
        json_begin_object(&w);
        for (size_t i = 0; i < l.n; i++) {
                if (i > 0 && strcmp(l.members[i].key, l.members[i - 1].key) == 0)
                        continue;
                TRY(put_member(&w, &l.members[i]));
        }
        json_end_object(&w);
        return NULL;
}

void http_generate_print_error(const char *message, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_string(&w, "error", message);
        json_end_object(&w);
}
