/* SPDX-License-Identifier: BSD-3-Clause */
/* Compressed request bodies. */
#include "http/http_call.h"

#include "base/buf.h"
#include "codec/gzip.h"
#include "control/service.h"

static struct error *inflate_error(const struct http_call *call, enum gzip_status status) {
        if (status == GZIP_TOO_LARGE)
                return error_new(ERR_INVALID_ARG,
                                 "Decompressed data size exceeds the maximum allowed value of %zu "
                                 "bytes. Use --http-max-input-size to increase the limit.",
                                 call->service->max_input_bytes);
        if (status == GZIP_NO_MEMORY)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        if (status == GZIP_OVER_BUDGET)
                return error_new(ERR_UNAVAILABLE, "unable to decompress the request body: %s",
                                 gzip_status_text(status));
        return error_new(ERR_INVALID_ARG, "unable to decompress the request body: %s",
                         gzip_status_text(status));
}

struct error *http_body_decode(struct http_call *call) {
        bool unused;

        return http_body_try_decode(call, SIZE_MAX, &unused);
}

struct error *http_body_try_decode(struct http_call *call, size_t max_bytes, bool *ret_is_more) {
        struct str       encoding = http_call_find(call, HTTP_NAME_CONTENT_ENCODING);
        size_t           max_input_bytes = call->service->max_input_bytes;
        enum gzip_status status = GZIP_TOO_LARGE;
        struct buf      *plain;

        *ret_is_more = false;
        if (encoding.len == 0 || str_is(encoding, "identity"))
                return NULL;
        if (!str_is(encoding, "gzip") && !str_is(encoding, "deflate"))
                return error_new(ERR_UNSUPPORTED, "Unsupported compression type");
        /* What is long as it came is not tried. */
        if (call->body.len <= max_bytes)
                status = gzip_inflate_buf(call->body, MIN(max_bytes, max_input_bytes),
                                          http_call_buf_pool(call), &plain);
        if (status == GZIP_TOO_LARGE && max_bytes < max_input_bytes) {
                *ret_is_more = true;
                return NULL;
        }
        if (status != GZIP_OK)
                return inflate_error(call, status);
        buf_unref(call->body_buf);
        call->body_buf = plain;
        call->body = str_range(plain->bytes, plain->len);
        return NULL;
}

void http_call_reply_encoding_error(struct http_call *call, struct error *err,
                                    const char *content_type) {
        static const struct http_header accepted = { STR_LIT("Accept-Encoding"),
                                                     STR_LIT("gzip, deflate") };
        static const struct http_part   body = { "{\"error\":\"Unsupported compression type\"}", 40,
                                                 NULL };
        const struct http_reply reply = { .status = 501,
                                          .content_type = content_type,
                                          .headers = &accepted,
                                          .n_headers = 1,
                                          .parts = &body,
                                          .n_parts = 1 };

        if (err->code != ERR_UNSUPPORTED) {
                http_call_reply_error(call, err, content_type);
                return;
        }
        error_free(err);
        http_call_reply(call, &reply);
}
