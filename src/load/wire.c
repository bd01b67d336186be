/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/wire.h"

#include "base/mem.h"
#include "codec/url.h"
#include "load/h2_client.h"

#include <string.h>

void wire_put_model_path(const char *model, const char *version, struct strbuf *out) {
        strbuf_puts(out, "/v2/models/");
        url_put_name(str_of(model), out);
        if (version != NULL) {
                strbuf_puts(out, "/versions/");
                url_put_name(str_of(version), out);
        }
}

void wire_put_http_head(const struct target *t, const struct wire_parts *parts,
                        struct strbuf *out) {
        strbuf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", parts->method, parts->path,
                      t->authority);
        strbuf_put(out, t->headers.ptr, t->headers.len);
        if (parts->json_bytes > 0)
                strbuf_printf(out,
                              "Content-Type: application/octet-stream\r\n"
                              "Inference-Header-Content-Length: %zu\r\n",
                              parts->json_bytes);
        else if (parts->body_bytes > 0)
                strbuf_puts(out, "Content-Type: application/json\r\n");
        if (strcmp(parts->method, "POST") == 0)
                strbuf_printf(out, "Content-Length: %zu\r\n", parts->body_bytes);
        strbuf_puts(out, "\r\n");
}

void wire_put_post(const struct target *t, struct str path, struct str body, struct strbuf *out) {
        AUTO_CHARS        text = mem_strndup(path.ptr, path.len);
        struct wire_parts parts = { .method = "POST", .path = text, .body_bytes = body.len };

        wire_put_http_head(t, &parts, out);
        strbuf_put(out, body.ptr, body.len);
}

void wire_put_grpc_head(const struct target *t, const char *method, struct strbuf *out) {
        AUTO_STRBUF path = { 0 };

        strbuf_printf(&path, "/inference.GRPCInferenceService/%s", method);
        strbuf_putc(out, (char)0x83); /* :method POST (RFC 7541, appendix A) */
        strbuf_putc(out, t->security.context != NULL ? (char)0x87 : (char)0x86); /* :scheme */
        h2_block_put(out, STR_LIT(":path"), strbuf_str(&path));
        h2_block_put(out, STR_LIT(":authority"), str_of(t->authority));
        h2_block_put(out, STR_LIT("te"), STR_LIT("trailers"));
        h2_block_put(out, STR_LIT("content-type"), STR_LIT("application/grpc"));
        strbuf_put(out, t->headers.ptr, t->headers.len);
}

/* ---- protobuf ---------------------------------------------------------------------------------- */

void wire_put_varint(struct strbuf *out, uint64_t value) {
        for (; value >= 0x80; value >>= 7)
                strbuf_putc(out, (char)(value | 0x80));
        strbuf_putc(out, (char)value);
}

void wire_put_bytes_field(struct strbuf *out, unsigned number, struct str bytes) {
        wire_put_varint(out, number << 3 | 2);
        wire_put_varint(out, bytes.len);
        strbuf_put(out, bytes.ptr, bytes.len);
}

void wire_put_number_field(struct strbuf *out, unsigned number, uint64_t value) {
        wire_put_varint(out, number << 3);
        wire_put_varint(out, value);
}

static void put_parameter(struct strbuf *out, unsigned number, const char *key,
                          const struct strbuf *value) {
        AUTO_STRBUF entry = { 0 };

        wire_put_bytes_field(&entry, 1, str_of(key));
        wire_put_bytes_field(&entry, 2, strbuf_str(value));
        wire_put_bytes_field(out, number, strbuf_str(&entry));
}

void wire_put_bool_parameter(struct strbuf *out, unsigned number, const char *key, bool value) {
        AUTO_STRBUF choice = { 0 };

        wire_put_number_field(&choice, 1, value);
        put_parameter(out, number, key, &choice);
}

void wire_put_int_parameter(struct strbuf *out, unsigned number, const char *key, int64_t value) {
        AUTO_STRBUF choice = { 0 };

        wire_put_number_field(&choice, 2, (uint64_t)value);
        put_parameter(out, number, key, &choice);
}

void wire_put_text_parameter(struct strbuf *out, unsigned number, const char *key,
                             struct str value) {
        AUTO_STRBUF choice = { 0 };

        wire_put_bytes_field(&choice, 3, value);
        put_parameter(out, number, key, &choice);
}

void wire_put_real_parameter(struct strbuf *out, unsigned number, const char *key, double value) {
        AUTO_STRBUF choice = { 0 };

        wire_put_varint(&choice, 4 << 3 | 1);
        strbuf_put(&choice, &value, sizeof(value)); /* the byte order of all our machines */
        put_parameter(out, number, key, &choice);
}
