/* SPDX-License-Identifier: BSD-3-Clause */
/* What the load generator reads from a server: HTTP/1.1 responses, HTTP/2 frames, messages of ModelStreamInfer.
 * The first byte chooses the decoder and the size of the pieces; the result must not depend on the pieces. */
#include "base/compiler.h"
#include "load/grpc_answer.h"
#include "load/h2_client.h"
#include "load/http_response.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Each piece is a copy of its own size: reading beyond it is seen. */
static char *copy_piece(const char *from, size_t n) {
        char *copy = malloc(n + 1);

        if (copy == NULL)
                abort();
        memcpy(copy, from, n);
        return copy;
}

static void read_http(struct str in, size_t n_piece, struct strbuf *out) {
        struct http_response      r;
        enum http_response_result rc = HTTP_RESPONSE_MORE;

        http_response_init(&r);
        while (in.len > 0 && rc != HTTP_RESPONSE_BAD) {
                size_t     n = MIN(n_piece, in.len);
                char      *copy = copy_piece(in.ptr, n);
                struct str piece = str_range(copy, n);

                while (piece.len > 0 && rc != HTTP_RESPONSE_BAD) {
                        rc = http_response_read(&r, &piece);
                        if (rc == HTTP_RESPONSE_DONE) {
                                strbuf_printf(out, "%d ", r.status);
                                strbuf_put(out, r.body.ptr, r.body.len);
                        }
                }
                free(copy);
                in = str_range(in.ptr + n, in.len - n);
        }
        http_response_done(&r);
}

static struct strbuf *seen;

static void on_field(struct h2_client_stream *s, struct str name, struct str value) {
        (void)s;
        strbuf_put(seen, name.ptr, name.len);
        strbuf_put(seen, value.ptr, value.len);
}

static void on_data(struct h2_client_stream *s, struct str data) {
        (void)s;
        strbuf_put(seen, data.ptr, data.len);
}

static void on_end(struct h2_client_stream *s, uint32_t code) {
        (void)s;
        strbuf_printf(seen, "end %u", code);
}

static void on_refused(struct h2_client_stream *s) {
        strbuf_printf(seen, "refused %u", s->id);
}

static void read_h2(struct str in, size_t n_piece, struct strbuf *out) {
        static const struct h2_client_ops ops = {
                .on_field = on_field, .on_data = on_data, .on_end = on_end, .on_refused = on_refused
        };
        static char             message[100000];
        struct h2_client        c;
        struct h2_client_stream streams[2];
        bool                    is_sound = true;

        seen = out;
        if (!h2_client_init(&c, &ops))
                abort();
        for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
                h2_client_open(&c, &streams[i], STR_LIT("\x83"));
                h2_client_send(&c, &streams[i], &(struct str){ message, sizeof(message) }, 1, true);
        }
        while (in.len > 0 && is_sound) {
                size_t n = MIN(n_piece, in.len);
                char  *copy = copy_piece(in.ptr, n);

                is_sound = h2_client_read(&c, str_range(copy, n));
                free(copy);
                in = str_range(in.ptr + n, in.len - n);
        }
        h2_client_done(&c);
}

static bool on_output(void *owner, const struct grpc_output *o) {
        strbuf_put(owner, o->name.ptr, o->name.len);
        strbuf_put(owner, o->bytes.ptr, o->bytes.len);
        return true;
}

static void read_message(struct str in, size_t n_piece, struct strbuf *out) {
        char              *copy = copy_piece(in.ptr, in.len);
        struct grpc_answer a;

        (void)n_piece;
        if (grpc_stream_answer_read(str_range(copy, in.len), &a)) {
                strbuf_put(out, a.error.ptr, a.error.len);
                grpc_outputs_read(a.response, on_output, out);
        }
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
        static void (*const decoders[])(struct str in, size_t n_piece,
                                        struct strbuf * out) = { read_http, read_h2, read_message };
        struct strbuf whole, pieces;
        struct str    in;

        if (n == 0)
                return 0;
        in = str_range((const char *)bytes + 1, n - 1);
        strbuf_init(&whole, 0);
        strbuf_init(&pieces, 0);
        decoders[bytes[0] % 3](in, SIZE_MAX, &whole);
        decoders[bytes[0] % 3](in, 1 + bytes[0] / 3, &pieces);
        if (!str_equal(strbuf_str(&whole), strbuf_str(&pieces)))
                abort();
        strbuf_done(&whole);
        strbuf_done(&pieces);
        return 0;
}
