/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes compact JSON to a strbuf, with the commas.
 *
 *     json_begin_object(&w); json_member_string(&w, "name", name); json_end_object(&w);
 *
 * FP32 is written as the shortest digits that round-trip as FP32, always with a dot or an exponent;
 * FP64 likewise for FP64; not-a-number and infinities are written as NaN, Infinity and -Infinity.
 *
 * Ownership.  The strbuf is borrowed; the caller checks it for overflow at the end.
 */
#pragma once

#include "base/strbuf.h"
#include "codec/json_reader.h"

struct json_writer {
        struct strbuf *out; /* borrowed */
        bool           needs_comma;
        bool           has_replaced; /* json_put_str() has replaced bytes that are not UTF-8 */
};

void json_writer_init(struct json_writer *w, struct strbuf *out); /* as { .out = out } */
void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_key_str(struct json_writer *w, struct str key);
void json_put_string(struct json_writer *w, const char *text);
void json_put_str(struct json_writer *w, struct str s); /* malformed UTF-8 becomes U+FFFD */
void json_put_bool(struct json_writer *w, bool value);
void json_put_i64(struct json_writer *w, int64_t value);
void json_put_u64(struct json_writer *w, uint64_t value);
void json_put_f32(struct json_writer *w, float value);
void json_put_f64(struct json_writer *w, double value);
void json_put_raw(struct json_writer *w, struct str json); /* a complete value, unchanged */
/* A member of an object: its key and its value. */
void json_member_string(struct json_writer *w, const char *key, const char *text);
void json_member_str(struct json_writer *w, const char *key, struct str text);
void json_member_bool(struct json_writer *w, const char *key, bool value);
void json_member_i64(struct json_writer *w, const char *key, int64_t value);
void json_member_u64(struct json_writer *w, const char *key, uint64_t value);
void json_member_f64(struct json_writer *w, const char *key, double value);
void json_member_raw(struct json_writer *w, const char *key, struct str json);
/* A member whose value begins here, and ends with json_end_object() or json_end_array(). */
void json_member_object(struct json_writer *w, const char *key);
void json_member_array(struct json_writer *w, const char *key);
/* Writes n elements as a flat array. */
void json_put_tensor(struct json_writer *w, enum json_element element, const void *in, size_t n);

/* Quotes and escapes s as a JSON string; used for the log as well. Returns true when bytes that are not
 * UTF-8 were replaced. */
bool json_quote(struct strbuf *out, struct str s);

/* Prints the shortest digits that round-trip; writes at most 32 bytes, returns the end. */
char *json_format_f32(char *out, float value);
