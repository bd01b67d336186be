/* SPDX-License-Identifier: BSD-3-Clause */
/* Compact JSON into a strbuf, commas kept by the writer.
 *
 *     json_begin_object(&w); json_key(&w, "name"); json_put_string(&w, name); json_end_object(&w);
 *
 * FP32 is written as the shortest digits that round-trip as FP32, always with a dot or an
 * exponent; FP64 likewise for FP64; NaN, Infinity, -Infinity as these words.
 *
 * Ownership.  The strbuf is borrowed; overflow is asked of it at the end.
 */
#pragma once

#include "base/strbuf.h"
#include "codec/json_reader.h"

struct json_writer {
        struct strbuf *out; /* borrowed */
        bool           needs_comma;
};

void json_writer_init(struct json_writer *w, struct strbuf *out);
void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_key_str(struct json_writer *w, struct str key);
void json_put_string(struct json_writer *w, const char *text);
void json_put_str(struct json_writer *w, struct str s); /* bytes that are not UTF-8 become U+FFFD */
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
void json_put_i64(struct json_writer *w, int64_t value);
void json_put_u64(struct json_writer *w, uint64_t value);
void json_put_f32(struct json_writer *w, float value);
void json_put_f64(struct json_writer *w, double value);
void json_put_raw(struct json_writer *w, struct str json); /* a complete value, as it is */
/* n elements as a flat array. */
void json_put_tensor(struct json_writer *w, enum json_element element, const void *in, size_t n);

/* Quotes and escapes s as a JSON string; the same function serves the log. */
void json_quote(struct strbuf *out, struct str s);

/* Shortest round-trip digits; writes at most 32 bytes, returns the end. */
char *json_format_f32(char *out, float value);
char *json_format_f64(char *out, double value);
