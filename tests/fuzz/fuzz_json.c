/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as JSON. What skipping takes, reading takes too, with the same failure at the same
 * place; what is read and written again reads the same; and as a tensor, the text gives the floats
 * that reading its numbers one by one gives.
 */
#include "base/mem.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void copy_value(struct json_reader *r, struct json_writer *w, struct arena *arena);

static void copy_object(struct json_reader *r, struct json_writer *w, struct arena *arena) {
        struct str key;

        json_begin_object(w);
        for (json_enter_object(r); json_next_key(r, arena, &key);) {
                json_key_str(w, key);
                copy_value(r, w, arena);
        }
        json_end_object(w);
}

static void copy_array(struct json_reader *r, struct json_writer *w, struct arena *arena) {
        json_begin_array(w);
        for (json_enter_array(r); json_next_element(r);)
                copy_value(r, w, arena);
        json_end_array(w);
}

static void copy_number(struct json_reader *r, struct json_writer *w) {
        struct json_number number = json_read_number(r);

        if (!number.is_integer)
                json_put_f64(w, number.real);
        else if (number.is_negative)
                json_put_i64(w, (int64_t)(0 - number.magnitude));
        else
                json_put_u64(w, number.magnitude);
}

static void copy_value(struct json_reader *r, struct json_writer *w, struct arena *arena) {
        switch (json_peek(r)) {
        case JSON_OBJECT: copy_object(r, w, arena); break;
        case JSON_ARRAY: copy_array(r, w, arena); break;
        case JSON_NUMBER: copy_number(r, w); break;
        case JSON_STRING: json_put_str(w, json_read_string(r, arena)); break;
        case JSON_BOOL: json_put_bool(w, json_read_bool(r)); break;
        case JSON_NULL:
        case JSON_INVALID: /* the failure of whatever is read here */
                json_read_null(r);
                json_put_raw(w, STR_LIT("null"));
                break;
        }
}

static bool copy(struct str text, struct strbuf *out, struct arena *arena,
                 struct json_reader *ret_reader) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_reader_init(ret_reader, text);
        copy_value(ret_reader, &w, arena);
        json_read_end(ret_reader);
        return !json_failed(ret_reader);
}

static void stop(const char *what, const struct json_reader *r) {
        fprintf(stderr, "%s: '%s' at %zu\n", what, json_error_text(r), json_error_offset(r));
        abort();
}

static void check_reading(struct str text, struct arena *arena) {
        struct json_reader skipper, reader, again;
        AUTO_STRBUF        first;
        AUTO_STRBUF        second;
        bool               is_good;

        strbuf_init(&first, 0);
        strbuf_init(&second, 0);
        json_reader_init(&skipper, text);
        json_skip(&skipper);
        json_read_end(&skipper);
        is_good = copy(text, &first, arena, &reader);
        if (is_good == json_failed(&skipper) ||
            json_error_offset(&reader) != json_error_offset(&skipper) ||
            !str_is(str_of(json_error_text(&reader)), json_error_text(&skipper)))
                stop("reading and skipping differ", &reader);
        if (json_error_offset(&reader) > text.len)
                stop("offset beyond the text", &reader);
        if (!is_good || first.overflowed)
                return;
        if (!str_is_utf8(strbuf_str(&first)))
                stop("what was written is not UTF-8", &reader);
        if (!copy(strbuf_str(&first), &second, arena, &again) ||
            !str_equal(strbuf_str(&first), strbuf_str(&second)))
                stop("what was written reads differently", &again);
}

/* The numbers of an array of any nesting, one by one; false when something else is met. */
static bool take_numbers(struct json_reader *r, double *out, size_t n, size_t *n_done) {
        for (json_enter_array(r); json_next_element(r);) {
                enum json_type type = json_peek(r);

                if (type == JSON_ARRAY) {
                        if (!take_numbers(r, out, n, n_done))
                                return false;
                        continue;
                }
                if (type != JSON_NUMBER || *n_done == n)
                        return false;
                out[(*n_done)++] = json_read_number(r).real;
        }
        return !json_failed(r);
}

static void check_tensor(struct str text) {
        size_t             n = text.len / 2 + 1, n_done = 0; /* more than there can be */
        double            *wanted = mem_alloc(n * sizeof(double));
        double            *out = mem_alloc(n * sizeof(double));
        struct json_reader r, tensor;

        json_reader_init(&r, text);
        if (json_peek(&r) == JSON_ARRAY && take_numbers(&r, wanted, n, &n_done)) {
                json_reader_init(&tensor, text);
                if (json_read_tensor(&tensor, JSON_ELEMENT_F64, out, n_done) != JSON_TENSOR_OK ||
                    tensor.at != r.at)
                        stop("not a tensor", &tensor);
                for (size_t i = 0; i < n_done; i++) {
                        bool are_nan = wanted[i] != wanted[i] && out[i] != out[i];

                        if (!are_nan && memcmp(&wanted[i], &out[i], sizeof(double)) != 0)
                                stop("another number", &tensor);
                }
        }
        free(wanted);
        free(out);
}

/* Every kind, into memory of exactly its size: nothing is written beyond. */
static void check_elements(struct str text) {
        static const size_t sizes[] = {
                [JSON_ELEMENT_BOOL] = 1, [JSON_ELEMENT_U8] = 1,  [JSON_ELEMENT_U16] = 2,
                [JSON_ELEMENT_U32] = 4,  [JSON_ELEMENT_U64] = 8, [JSON_ELEMENT_I8] = 1,
                [JSON_ELEMENT_I16] = 2,  [JSON_ELEMENT_I32] = 4, [JSON_ELEMENT_I64] = 8,
                [JSON_ELEMENT_F32] = 4,  [JSON_ELEMENT_F64] = 8,
        };

        for (unsigned element = JSON_ELEMENT_BOOL; element <= JSON_ELEMENT_F64; element++) {
                void                   *out = mem_alloc(3 * sizes[element]);
                struct json_reader      r;
                enum json_tensor_status status;

                json_reader_init(&r, text);
                status = json_read_tensor(&r, (enum json_element)element, out, 3);
                if (json_failed(&r) !=
                    (status == JSON_TENSOR_SYNTAX || status == JSON_TENSOR_TOO_DEEP))
                        stop("status and failure differ", &r);
                free(out);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct str   text = str_range((const char *)bytes, size);
        struct arena arena;

        arena_init(&arena, NULL, 0, 256u << 20);
        check_reading(text, &arena);
        check_tensor(text);
        check_elements(text);
        arena_done(&arena);
        return 0;
}
