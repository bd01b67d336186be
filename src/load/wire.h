/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of requests: heads of HTTP/1.1, header blocks of gRPC, fields of protobuf messages.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"
#include "load/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_parts {
        const char *method, *path;
        size_t      body_bytes;
        size_t json_bytes; /* of a body that begins with JSON and has binary tensors after it; else 0 */
};

/* "/v2/models/NAME" or "/v2/models/NAME/versions/V", escaped; version NULL: none. */
void wire_put_model_path(const char *model, const char *version, struct strbuf *out);
/* The head with the empty line. */
void wire_put_http_head(const struct target *t, const struct wire_parts *parts, struct strbuf *out);
/* A whole request with JSON. */
void wire_put_post(const struct target *t, struct str path, struct str body, struct strbuf *out);
/* The header block of a call of "/inference.GRPCInferenceService/<method>". */
void wire_put_grpc_head(const struct target *t, const char *method, struct strbuf *out);

/* Fields of protobuf. */
void wire_put_varint(struct strbuf *out, uint64_t value);
void wire_put_bytes_field(struct strbuf *out, unsigned number, struct str bytes);
void wire_put_number_field(struct strbuf *out, unsigned number, uint64_t value);
/* An entry of a map of InferParameter, as field `number`. */
void wire_put_bool_parameter(struct strbuf *out, unsigned number, const char *key, bool value);
void wire_put_int_parameter(struct strbuf *out, unsigned number, const char *key, int64_t value);
void wire_put_text_parameter(struct strbuf *out, unsigned number, const char *key,
                             struct str value);
void wire_put_real_parameter(struct strbuf *out, unsigned number, const char *key, double value);
