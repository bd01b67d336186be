/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/request_set.h"

#include "base/mem.h"
#include "codec/gzip.h"
#include "load/request_private.h"
#include "load/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 255 /* of a parameter */

/* ---- parameters -------------------------------------------------------------------------------- */

static struct error *wrong_parameter(const char *text) {
        return error_new(
                ERR_INVALID_ARG,
                "--request-parameter %s: expected name:value:type with the type bool, int, "
                "uint, double or string",
                text);
}

static bool read_real(struct str value, double *ret) {
        AUTO_CHARS text = mem_strndup(value.ptr, value.len);
        char      *end;

        *ret = strtod(text, &end);
        return value.len > 0 && *end == '\0';
}

struct error *request_parameter_read(const char *text, struct request_parameter *p) {
        struct str rest = str_split(str_of(text), ':', &p->name), type;
        size_t     colon = rest.len;

        while (colon > 0 && rest.ptr[colon - 1] != ':')
                colon--;
        if (rest.ptr == NULL || colon == 0 || p->name.len == 0 || p->name.len > MAX_NAME)
                return wrong_parameter(text);
        p->text = str_range(rest.ptr, colon - 1);
        type = str_skip(rest, colon);
        if (STR_IS(type, "string")) {
                p->kind = PARAMETER_TEXT;
        } else if (STR_IS(type, "int") || STR_IS(type, "uint")) {
                p->kind = PARAMETER_INT;
                if (!str_to_i64(p->text, &p->number) || (type.ptr[0] == 'u' && p->number < 0))
                        return wrong_parameter(text);
        } else if (STR_IS(type, "bool")) {
                p->kind = PARAMETER_BOOL;
                p->number = str_equal_nocase(p->text, STR_LIT("true")) || STR_IS(p->text, "1");
                if (p->number == 0 && !str_equal_nocase(p->text, STR_LIT("false")) &&
                    !STR_IS(p->text, "0"))
                        return wrong_parameter(text);
        } else if (STR_IS(type, "double")) {
                p->kind = PARAMETER_REAL;
                if (!read_real(p->text, &p->real))
                        return wrong_parameter(text);
        } else {
                return wrong_parameter(text);
        }
        return NULL;
}

/* ---- batches ----------------------------------------------------------------------------------- */

/* The k-th row of the request that begins with `first`. Rows of a sequence are copies of its entry. */
static const struct input_values *row_of(const struct input_set *inputs, const struct load_model *m,
                                         size_t first, uint64_t k, size_t input) {
        size_t entry = m->is_sequence ? first : (size_t)((first + k) % inputs->n_entries);

        return &inputs->entries[entry].inputs[input];
}

static struct error *check_rows(const struct input_set *inputs, const struct request_content *p,
                                size_t first, size_t input) {
        const struct input_values *head = row_of(inputs, p->model, first, 0, input);

        for (uint64_t k = 1; k < p->options->batch; k++) {
                const struct input_values *row = row_of(inputs, p->model, first, k, input);

                if ((row->bytes.ptr == NULL) != (head->bytes.ptr == NULL) ||
                    !load_shape_equal(&row->shape, &head->shape))
                        return error_new(
                                ERR_INVALID_ARG,
                                "input '%s': entries %zu and %llu have different shapes, and "
                                "so cannot be rows of one request (-b %llu)",
                                p->model->inputs[input].name, first,
                                (unsigned long long)((first + k) % inputs->n_entries),
                                (unsigned long long)p->options->batch);
        }
        return NULL;
}

static void put_rows(const struct input_set *inputs, const struct request_content *p, size_t first,
                     size_t input, struct strbuf *out) {
        for (uint64_t k = 0; k < p->options->batch; k++) {
                struct str bytes = row_of(inputs, p->model, first, k, input)->bytes;

                strbuf_put(out, bytes.ptr, bytes.len);
        }
}

static struct load_shape batch_shape(const struct request_content *p,
                                     const struct input_values    *row) {
        struct load_shape s = row->shape;

        if (p->model->max_batch == 0 || s.n == LOAD_MAX_DIMS)
                return s;
        memmove(s.dims + 1, s.dims, s.n * sizeof(*s.dims));
        s.dims[0] = (int64_t)p->options->batch;
        s.n++;
        return s;
}

/* ---- one request ------------------------------------------------------------------------------- */

struct maker {
        struct request_content  plan;
        const struct input_set *inputs;
        struct request_set     *set;
        struct strbuf          *rows;  /* owned: of each input of this request */
        struct shm_part        *parts; /* owned: of each input of this request */
};

static struct error *gather_inputs(struct maker *k, size_t first) {
        struct request_content *p = &k->plan;

        p->n_inputs = 0;
        for (size_t i = 0; i < p->model->n_inputs; i++) {
                const struct input_values *row = row_of(k->inputs, p->model, first, 0, i);
                struct request_input      *in = &p->inputs[p->n_inputs];

                if (row->bytes.ptr == NULL)
                        continue;
                TRY(check_rows(k->inputs, p, first, i));
                strbuf_clear(&k->rows[i]);
                put_rows(k->inputs, p, first, i, &k->rows[i]);
                TRY(strbuf_check(&k->rows[i], "an input"));
                *in = (struct request_input){ .tensor = &p->model->inputs[i],
                                              .shape = batch_shape(p, row),
                                              .bytes = strbuf_str(&k->rows[i]) };
                if (p->options->shm != NULL) {
                        k->parts[i] = load_regions_add(p->options->shm, i, in->bytes);
                        in->part = &k->parts[i];
                }
                p->n_inputs++;
        }
        return NULL;
}

static enum gzip_format format_of(const char *algorithm) {
        return strcmp(algorithm, "gzip") == 0 ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB;
}

/* Replaces the message by its compressed form. */
static struct error *compress(const char *algorithm, struct strbuf *message) {
        enum gzip_format format = format_of(algorithm);
        struct iovec     part = { message->ptr, message->len };
        struct buf      *shorter;
        enum gzip_status status = gzip_deflate_buf(format, &part, 1, NULL, &shorter);

        if (status != GZIP_OK)
                return error_new(ERR_UNAVAILABLE, "compressing a request: %s",
                                 gzip_status_text(status));
        strbuf_clear(message);
        strbuf_put(message, shorter->bytes, shorter->len);
        buf_unref(shorter);
        return strbuf_check(message, "a request");
}

static struct error *make_one(struct maker *k, size_t first) {
        struct request_set  *s = k->set;
        struct wire_message *m = &s->messages[s->n];
        struct strbuf       *before = &s->texts[2 * s->n], *after = &s->texts[2 * s->n + 1];
        const char          *compression = s->is_sequence ? NULL : k->plan.options->compression;

        s->entries[s->n] = first;
        s->n++;
        TRY(gather_inputs(k, first));
        if (k->plan.options->is_events)
                TRY(request_http_make_generate(&k->plan, before));
        else if (s->protocol == TARGET_HTTP)
                TRY(request_http_make(&k->plan, before, after));
        else
                TRY(request_grpc_make(&k->plan, before));
        if (compression != NULL)
                TRY(compress(compression, before));
        *m = (struct wire_message){ .head = strbuf_str(&s->head),
                                    .before = strbuf_str(before),
                                    .after = strbuf_str(after),
                                    .is_compressed = compression != NULL,
                                    .is_stream = k->plan.options->is_stream,
                                    .is_events = k->plan.options->is_events };
        return NULL;
}

/* ---- all requests ------------------------------------------------------------------------------ */

static size_t divisor(size_t a, size_t b) {
        while (b != 0) {
                size_t rest = a % b;

                a = b;
                b = rest;
        }
        return a;
}

/* Requests take `batch` entries in turn, until they begin with the first one again. */
static size_t count_requests(const struct load_model *m, const struct input_set *inputs,
                             uint64_t batch) {
        if (m->is_sequence)
                return inputs->n_entries;
        return inputs->n_entries / divisor(inputs->n_entries, (size_t)batch);
}

static struct error *make_all(struct maker *k, size_t n) {
        uint64_t batch = k->plan.model->is_sequence ? 1 : k->plan.options->batch;
        size_t   total = 0;

        for (size_t i = 0; i < k->plan.options->n_parameters; i++)
                TRY(request_parameter_read(k->plan.options->parameters[i], &k->plan.parameters[i]));
        k->plan.n_parameters = k->plan.options->n_parameters;
        for (size_t i = 0; i < n; i++) {
                TRY(make_one(k, (size_t)(i * batch % k->inputs->n_entries)));
                total += k->set->texts[2 * i].len + k->set->texts[2 * i + 1].len;
                if (total > REQUEST_SET_MAX_BYTES)
                        return error_new_text(ERR_INVALID_ARG,
                                              "the requests have more than 4 GiB: fewer or smaller "
                                              "inputs, or --shared-memory system");
        }
        return NULL;
}

static void maker_done(struct maker *k) {
        for (size_t i = 0; i < k->plan.model->n_inputs; i++)
                strbuf_done(&k->rows[i]);
        free(k->rows);
        free(k->parts);
        free(k->plan.inputs);
        free(k->plan.parameters);
}

struct error *request_set_make(const struct target *t, const struct load_model *m,
                               const struct input_set *inputs, const struct request_options *o,
                               struct request_set *ret) {
        size_t        n = count_requests(m, inputs, o->batch), n_inputs = m->n_inputs + 1;
        struct maker  k = { .plan = { .target = t, .model = m, .options = o },
                            .inputs = inputs,
                            .set = ret };
        struct error *err;

        k.plan.inputs = mem_zalloc(n_inputs * sizeof(*k.plan.inputs));
        k.plan.parameters = mem_zalloc((o->n_parameters + 1) * sizeof(*k.plan.parameters));
        k.rows = mem_zalloc(n_inputs * sizeof(*k.rows));
        k.parts = mem_zalloc(n_inputs * sizeof(*k.parts));
        *ret = (struct request_set){ .protocol = t->protocol,
                                     .is_sequence = m->is_sequence,
                                     .compression = m->is_sequence ? o->compression : NULL };
        ret->messages = mem_zalloc(n * sizeof(*ret->messages));
        ret->entries = mem_zalloc(n * sizeof(*ret->entries));
        ret->texts = mem_zalloc(2 * n * sizeof(*ret->texts));
        if (t->protocol == TARGET_GRPC)
                wire_put_grpc_head(t, o->is_stream ? "ModelStreamInfer" : "ModelInfer", &ret->head);
        if (o->compression != NULL)
                h2_block_put(&ret->head, STR_LIT("grpc-encoding"), str_of(o->compression));
        err = make_all(&k, n);
        maker_done(&k);
        if (err != NULL)
                request_set_done(ret);
        return err;
}

void request_set_done(struct request_set *s) {
        for (size_t i = 0; i < 2 * s->n; i++)
                strbuf_done(&s->texts[i]);
        strbuf_done(&s->head);
        free(s->texts);
        free(s->entries);
        free(s->messages);
        *s = (struct request_set){ 0 };
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* Blanks keep the length, which the head of the request has already. */
static void patch_http(const struct request_step *step, struct call *c) {
        int n = snprintf(c->patch, sizeof(c->patch),
                         ",\"sequence_id\":%20llu,\"sequence_start\":%-5s,\"sequence_end\":%-5s",
                         (unsigned long long)step->id, step->is_start ? "true" : "false",
                         step->is_end ? "true" : "false");

        memset(c->patch + n, ' ', REQUEST_HTTP_PATCH_BYTES - (size_t)n);
        c->n_patch = REQUEST_HTTP_PATCH_BYTES;
}

static void patch_grpc(const struct request_step *step, struct call *c) {
        AUTO_STRBUF fields = { .max = sizeof(c->patch) };

        wire_put_int_parameter(&fields, 4, "sequence_id", (int64_t)step->id);
        if (step->is_start)
                wire_put_bool_parameter(&fields, 4, "sequence_start", true);
        if (step->is_end)
                wire_put_bool_parameter(&fields, 4, "sequence_end", true);
        memcpy(c->patch, fields.ptr, fields.len);
        c->n_patch = fields.len;
}

void request_set_patch(const struct request_set *s, const struct request_step *step,
                       struct call *c) {
        c->n_patch = 0;
        if (!s->is_sequence)
                return;
        if (s->protocol == TARGET_HTTP)
                patch_http(step, c);
        else
                patch_grpc(step, c);
}

void request_set_pack(const struct request_set *s, struct call *c, struct request_pack *p) {
        const struct wire_message *m = c->message;
        const struct iovec         parts[] = { { (char *)(uintptr_t)m->before.ptr, m->before.len },
                                               { c->patch, c->n_patch },
                                               { (char *)(uintptr_t)m->after.ptr, m->after.len } };

        if (s->compression == NULL)
                return;
        request_pack_done(p);
        if (gzip_deflate_buf(format_of(s->compression), parts, ARRAY_LEN(parts), NULL, &p->bytes) !=
            GZIP_OK)
                return;
        p->message = (struct wire_message){ .head = m->head,
                                            .before = str_range(p->bytes->bytes, p->bytes->len),
                                            .is_compressed = true,
                                            .is_stream = m->is_stream };
        c->message = &p->message;
        c->n_patch = 0;
}

void request_pack_done(struct request_pack *p) {
        if (p->bytes != NULL)
                buf_unref(p->bytes);
        *p = (struct request_pack){ 0 };
}
