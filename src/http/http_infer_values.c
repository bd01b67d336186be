/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_infer_values.h"

#include <string.h>

/* ---- scalars ---- */

struct error *http_infer_missing(const char *member) {
        return error_new(ERR_INVALID_ARG,
                         "Unable to parse '%s': attempt to access non-existing object member '%s'",
                         member, member);
}

/* Names shorter than this are copied as one vector. */
#define SHORT_TEXT_BYTES 16

/* Copies a text that is a range of the JSON, or that was unescaped into the arena. The fixed-size copy
 * reads beyond the text and must stay within the JSON. */
static ALWAYS_INLINE struct error *copy_text(struct http_infer_decoder *d, struct str text,
                                             const char **ret) {
        size_t left = (size_t)((uintptr_t)d->json.end - (uintptr_t)text.ptr);
        char  *copy;

        if (text.len < SHORT_TEXT_BYTES && left >= SHORT_TEXT_BYTES &&
            left <= d->source->json_bytes) {
                copy = arena_try_alloc(d->source->arena, SHORT_TEXT_BYTES);
                if (copy != NULL) {
                        memcpy(copy, text.ptr, SHORT_TEXT_BYTES);
                        copy[text.len] = '\0';
                }
        } else {
                copy = arena_try_str(d->source->arena, text);
        }
        if (copy == NULL)
                return infer_no_memory();
        *ret = copy;
        return NULL;
}

struct error *http_infer_copy_text(struct http_infer_decoder *d, const char *what, struct str text,
                                   const char **ret) {
        if (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse '%s': the text contains a NUL character", what);
        return copy_text(d, text, ret);
}

static struct error *refuse_type(struct http_infer_decoder *d, const char *what,
                                 const char *expected) {
        json_skip(&d->json);
        return error_new(ERR_INVALID_ARG,
                         "Unable to parse '%s': attempt to access JSON non-%s as %s", what,
                         expected, expected);
}

struct error *http_infer_read_str(struct http_infer_decoder *d, const char *what, struct str *ret) {
        struct str text;

        if (json_try_string(&d->json, &text)) {
                ret->len = text.len;
                return copy_text(d, text, &ret->ptr);
        }
        if (json_peek(&d->json) != JSON_STRING)
                return refuse_type(d, what, "string");
        text = json_read_string(&d->json, d->source->arena);
        ret->len = text.len;
        return http_infer_copy_text(d, what, text, &ret->ptr);
}

struct error *http_infer_read_text(struct http_infer_decoder *d, const char *what,
                                   const char **ret) {
        struct str text;

        TRY(http_infer_read_str(d, what, &text));
        *ret = text.ptr;
        return NULL;
}

struct error *http_infer_read_bool(struct http_infer_decoder *d, const char *what, bool *ret) {
        if (json_peek(&d->json) != JSON_BOOL)
                return refuse_type(d, what, "boolean");
        *ret = json_read_bool(&d->json);
        return NULL;
}

struct error *http_infer_read_u64(struct http_infer_decoder *d, const char *what, uint64_t *ret) {
        struct json_reader before;
        struct json_number n;

        if (json_try_u64(&d->json, ret))
                return NULL;
        before = d->json;
        if (json_peek(&d->json) != JSON_NUMBER)
                return refuse_type(d, what, "unsigned-integer");
        n = json_read_number(&d->json);
        if (!n.is_integer || (n.is_negative && n.magnitude > 0)) {
                d->json = before;
                return refuse_type(d, what, "unsigned-integer");
        }
        *ret = n.magnitude;
        return NULL;
}

/* ---- arrays and objects ---- */

struct error *http_infer_enter(struct http_infer_decoder *d, const char *what,
                               enum json_type expected) {
        if (json_try_enter(&d->json, expected))
                return NULL;
        return refuse_type(d, what, expected == JSON_ARRAY ? "array" : "object");
}

struct error *http_infer_read_list(struct http_infer_decoder *d, const char *what,
                                   http_infer_read_fn read_one) {
        struct error *first = NULL;

        TRY(http_infer_enter(d, what, JSON_ARRAY));
        while (json_next_element(&d->json)) {
                if (first != NULL)
                        json_skip(&d->json);
                else
                        first = read_one(d);
        }
        return first;
}

/* True on the first call. */
static bool is_first(bool *seen) {
        bool was_seen = *seen;

        *seen = true;
        return !was_seen;
}

struct error *http_infer_read_place(struct http_infer_decoder *d, struct str key,
                                    struct http_infer_place    *seen,
                                    struct infer_shared_memory *ret) {
        if (STR_IS(key, "shared_memory_region") && is_first(&seen->has_region))
                return http_infer_read_text(d, "shared_memory_region", &ret->region);
        if (STR_IS(key, "shared_memory_offset") && is_first(&seen->has_offset))
                return http_infer_read_u64(d, "shared_memory_offset", &ret->offset);
        if (STR_IS(key, "shared_memory_byte_size") && is_first(&seen->has_size))
                return http_infer_read_u64(d, "shared_memory_byte_size", &ret->byte_size);
        json_skip(&d->json);
        return NULL;
}
