/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_generate_print.h"

#include "core_api/datatype.h"
#include "http/http_infer_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One key; exactly one of the three is set. */
struct member {
        const char                   *key;
        const char                   *text;
        const struct infer_parameter *parameter;
        const struct infer_output    *output;
        size_t                        place; /* of equal keys the lowest counts */
};

struct member_list {
        struct member *members; /* in arena */
        size_t         n;
};

static int compare(const void *a, const void *b) {
        const struct member *x = a, *y = b;
        int                  order = strcmp(x->key, y->key);

        if (order != 0)
                return order;
        return x->place < y->place ? -1 : 1;
}

static struct member *add(struct member_list *l, const char *key) {
        struct member *m = &l->members[l->n];

        *m = (struct member){ .key = key, .place = l->n };
        l->n++;
        return m;
}

static void list_members(const struct infer_response *r, const char *version,
                         struct member_list *l) {
        if (r->id[0] != '\0')
                add(l, "id")->text = r->id;
        add(l, "model_name")->text = r->model_name;
        add(l, "model_version")->text = version;
        for (uint32_t i = 0; i < r->n_parameters; i++)
                add(l, r->parameters[i].name)->parameter = &r->parameters[i];
        for (uint32_t i = 0; i < r->n_outputs; i++)
                add(l, r->outputs[i].name)->output = &r->outputs[i];
        qsort(l->members, l->n, sizeof(*l->members), compare);
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

        json_key(w, output->name);
        begin = out->len;
        TRY(http_infer_put_elements(out, output));
        w->needs_comma = true; /* it did not see the value */
        if (!has_one_element(output) || out->overflowed)
                return NULL;
        out->len -= 2; /* the brackets */
        memmove(out->ptr + begin, out->ptr + begin + 1, out->len - begin);
        out->ptr[out->len] = '\0';
        return NULL;
}

static struct error *put_member(struct json_writer *w, const struct member *m) {
        if (m->output)
                return put_output(w, m->output);
        if (m->parameter) {
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
        struct member_list l = { .members = arena_try_alloc(scratch, max * sizeof(*l.members)) };
        struct json_writer w;
        char               version[24]; /* the digits and sign of an int64_t */

        if (!l.members)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        snprintf(version, sizeof(version), "%lld", (long long)r->model_version);
        list_members(r, version, &l);
        json_writer_init(&w, out);
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
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        json_key(&w, "error");
        json_put_string(&w, message);
        json_end_object(&w);
}
