/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_infer_decode.h"

#include <string.h>

#include "http/http_infer_reading.h"

/* The reference reads this as a C int. */
static NOINLINE struct error *read_odd_json_bytes(struct str value, size_t body_bytes,
                                                  size_t *ret) {
        struct str digits = value;
        bool       is_negative = false;
        uint64_t   n;

        if (digits.len > 0 && (*digits.ptr == '-' || *digits.ptr == '+')) {
                is_negative = *digits.ptr == '-';
                digits = str_range(digits.ptr + 1, digits.len - 1);
        }
        for (size_t i = 0; i < digits.len; i++)
                if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
                        digits.len = 0;
        if (digits.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse Inference-Header-Content-Length, got: %.*s",
                                 STR_ARG(value));
        if (!str_to_u64(digits, &n) || n > (uint64_t)INT32_MAX + is_negative)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse Inference-Header-Content-Length, value is out "
                                 "of range [ -2147483648, 2147483647 ], got: %.*s",
                                 STR_ARG(value));
        if ((is_negative && n > 0) || n > body_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "inference header size should be in range (0, %zu), got: %.*s",
                                 body_bytes, STR_ARG(value));
        *ret = (size_t)n;
        return NULL;
}

struct error *http_infer_read_json_bytes(struct str value, size_t body_bytes, size_t *ret) {
        size_t n = 0, i = 0;

        if (!value.ptr) {
                *ret = body_bytes;
                return NULL;
        }
        /* 9 digits fit in an int: the plain case. */
        while (i < value.len && i < 9 && value.ptr[i] >= '0' && value.ptr[i] <= '9')
                n = n * 10 + (size_t)(value.ptr[i++] - '0');
        if (UNLIKELY(i == 0 || i < value.len || n > body_bytes))
                return read_odd_json_bytes(value, body_bytes, ret);
        *ret = n;
        return NULL;
}

/* The parts of a request, in the order in which their faults are told. */
enum part {
        PART_ID,
        PART_PARAMETERS,
        PART_INPUTS,
        PART_LEFT_OVER,
        PART_OUTPUTS,
        N_PARTS,
};

static struct error *read_part(struct http_infer_reading *d, enum part part) {
        switch (part) {
        case PART_ID: return http_infer_read_text(d, "id", &d->request->id);
        case PART_PARAMETERS: return http_infer_read_parameters(d);
        case PART_INPUTS: return http_infer_read_inputs(d);
        case PART_OUTPUTS: return http_infer_read_outputs(d);
        case PART_LEFT_OVER:
        case N_PARTS: break;
        }
        return NULL;
}

static enum part find_part(struct str key) {
        if (STR_IS(key, "inputs"))
                return PART_INPUTS;
        if (STR_IS(key, "outputs"))
                return PART_OUTPUTS;
        if (STR_IS(key, "id"))
                return PART_ID;
        return STR_IS(key, "parameters") ? PART_PARAMETERS : N_PARTS;
}

/* Of equal keys the first counts. */
static void read_document(struct http_infer_reading *d, struct error **errors, bool *is_seen) {
        struct str key;

        if (!json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                json_read_end(&d->json);
                return;
        }
        while (json_next_key(&d->json, d->source->arena, &key)) {
                enum part part = find_part(key);

                if (part == N_PARTS || is_seen[part]) {
                        json_skip(&d->json);
                        continue;
                }
                is_seen[part] = true;
                errors[part] = read_part(d, part);
        }
        json_read_end(&d->json);
}

static struct error *take_first(struct error **errors) {
        struct error *first = NULL;

        for (size_t i = 0; i < N_PARTS; i++)
                if (errors[i])
                        http_infer_keep_first(&first, errors[i]);
        return first;
}

static struct error *decode_json(const struct http_infer_source *s, struct infer_request *q) {
        struct error             *errors[N_PARTS] = { 0 };
        bool                      is_seen[N_PARTS] = { false };
        struct http_infer_reading d = {
                .source = s,
                .request = q,
                .binary = str_range(s->body.ptr + s->json_bytes, s->body.len - s->json_bytes),
        };

        json_reader_init(&d.json, str_range(s->body.ptr, s->json_bytes));
        read_document(&d, errors, is_seen);
        if (json_failed(&d.json)) {
                error_free(take_first(errors));
                return json_syntax_error(&d.json);
        }

        if (!is_seen[PART_INPUTS])
                errors[PART_INPUTS] = http_infer_missing("inputs");
        else if (d.binary.len > 0)
                errors[PART_LEFT_OVER] =
                        error_new(ERR_INVALID_ARG,
                                  "unexpected additional input data for model '%s'", s->model_name);
        return take_first(errors);
}

static struct error *decode_raw(const struct http_infer_source *s, struct infer_request *q) {
        if (s->body.len > s->max_input_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "Raw input has a byte_size (%zu bytes) that exceeds the maximum "
                                 "allowed value of %zu bytes. Use --http-max-input-size to "
                                 "increase the limit.",
                                 s->body.len, s->max_input_bytes);
        q->is_raw = true;
        q->raw = s->body;
        q->is_binary_by_default = true;
        return NULL;
}

struct error *http_infer_decode(const struct http_infer_source *source, struct infer_request *ret) {
        struct error *err;
        size_t        max;

        infer_request_init(ret);
        if (source->json_bytes == 0)
                return decode_raw(source, ret);
        if (source->json_bytes > source->max_input_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "request JSON size of %zu bytes exceeds the maximum allowed input "
                                 "size of %zu bytes. Use --http-max-input-size to increase the "
                                 "limit.",
                                 source->json_bytes, source->max_input_bytes);
        infer_arena_limit(source->arena, source->body.len, &max);
        err = decode_json(source, ret);
        infer_arena_release(source->arena, max);
        if (err)
                infer_request_done(ret);
        return err;
}
