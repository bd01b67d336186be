/* SPDX-License-Identifier: BSD-3-Clause */
/* The "parameters" of an infer request ("KServe v2, parameters, sequence and schedule policy
 * extensions"): those with a meaning here, and those that travel to the backend.
 */
#include "http/http_infer_reading.h"

/* The reference's limit for a correlation id that is text. */
#define MAX_SEQUENCE_NAME_BYTES 128

/* A number, or else a name: the reference server says of any other number that it is no string. */
static struct error *read_sequence_number(struct http_infer_reading *d) {
        AUTO_ERROR err = http_infer_read_u64(d, "sequence_id", &d->request->sequence_id);

        return err ? error_new(ERR_INVALID_ARG, "Unable to parse 'sequence_id': attempt to access "
                                                "JSON non-string as string")
                   : NULL;
}

static struct error *read_sequence_id(struct http_infer_reading *d) {
        struct infer_request *q = d->request;

        if (json_peek(&d->json) == JSON_NUMBER)
                return read_sequence_number(d);
        TRY(http_infer_read_text(d, "sequence_id", &q->sequence_name));
        if (str_of(q->sequence_name).len > MAX_SEQUENCE_NAME_BYTES)
                return error_new(ERR_UNSUPPORTED,
                                 "string correlation ID cannot be longer than %d characters",
                                 MAX_SEQUENCE_NAME_BYTES);
        return NULL;
}

static struct error *read_flag(struct http_infer_reading *d, const char *key, uint32_t flag) {
        bool is_set = false;

        TRY(http_infer_read_bool(d, key, &is_set));
        if (is_set)
                d->request->flags |= flag;
        return NULL;
}

static void store_number(struct json_number n, struct infer_parameter *p) {
        bool is_int64 =
                n.is_integer && n.magnitude <= (uint64_t)INT64_MAX + (n.is_negative ? 1 : 0);

        if (!is_int64) {
                p->type = TRITONSERVER_PARAMETER_DOUBLE;
                p->value.real = n.real;
                return;
        }
        p->type = TRITONSERVER_PARAMETER_INT;
        p->value.integer = (int64_t)(n.is_negative ? 0 - n.magnitude : n.magnitude);
}

struct error *http_infer_read_free_parameter(struct http_infer_reading *d, struct str key) {
        struct infer_parameter  p = { 0 };
        struct infer_parameter *slot;
        struct error           *err = http_infer_copy_text(d, "parameters", key, &p.name);

        if (err) {
                json_skip(&d->json);
                return err;
        }
        switch (json_peek(&d->json)) {
        case JSON_STRING:
                p.type = TRITONSERVER_PARAMETER_STRING;
                TRY(http_infer_read_text(d, p.name, &p.value.text));
                break;
        case JSON_BOOL:
                p.type = TRITONSERVER_PARAMETER_BOOL;
                p.value.boolean = json_read_bool(&d->json);
                break;
        case JSON_NUMBER: store_number(json_read_number(&d->json), &p); break;
        default:
                json_skip(&d->json);
                return error_new(ERR_INVALID_ARG,
                                 "parameter '%s' has invalid type. It should be either 'int', "
                                 "'bool', or 'string'.",
                                 p.name);
        }
        TRY(infer_request_add_parameter(d->request, d->source->arena, &slot));
        *slot = p;
        return NULL;
}

static struct error *read_parameter(struct http_infer_reading *d, struct str key) {
        if (STR_IS(key, "sequence_id"))
                return read_sequence_id(d);
        if (STR_IS(key, "sequence_start"))
                return read_flag(d, "sequence_start", TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
        if (STR_IS(key, "sequence_end"))
                return read_flag(d, "sequence_end", TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
        if (STR_IS(key, "priority"))
                return http_infer_read_u64(d, "priority", &d->request->priority);
        if (STR_IS(key, "timeout"))
                return http_infer_read_u64(d, "timeout", &d->request->timeout_us);
        if (STR_IS(key, "binary_data_output"))
                return http_infer_read_bool(d, "binary_data_output",
                                            &d->request->is_binary_by_default);

        if (str_starts(key, STR_LIT("triton_"))) {
                json_skip(&d->json);
                return error_new(ERR_INVALID_ARG,
                                 "parameter keys starting with 'triton_' are reserved for Triton "
                                 "usage and should not be specified.");
        }
        return http_infer_read_free_parameter(d, key);
}

struct error *http_infer_read_parameters(struct http_infer_reading *d) {
        struct error *first = NULL;
        struct str    key;

        if (!json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                return error_new(ERR_INVALID_ARG,
                                 "failed to get request params.: attempt to get members for "
                                 "non-object");
        }
        while (json_next_key(&d->json, d->source->arena, &key)) {
                if (first)
                        json_skip(&d->json);
                else
                        first = read_parameter(d, key);
        }
        return first;
}
