/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream of HTTP/1 requests, cut into pieces. The first byte says how long a piece is. However
 * the stream is cut, the same requests come out of it; a difference is a fault. A head that comes
 * whole is read by http_head.c when it is plain, one in pieces by llhttp: so the two are compared.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "http/http_message.h"
#include "http/http_reply.h"

#include <stdlib.h>
#include <string.h>

#define MAX_REQUESTS 64

/* What was understood of a request; ends with the first refusal or incomplete request. */
struct understood {
        enum http_parse verdict;
        unsigned        status;
        size_t          n_fields;
        size_t          head_bytes;
        size_t          total_bytes;
        size_t          body_bytes;
        uint64_t        hash; /* of names, values, target and a chunked body */
};

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static uint64_t mix(uint64_t hash, struct str s) {
        for (size_t i = 0; i < s.len; i++)
                hash = (hash ^ (unsigned char)s.ptr[i]) * UINT64_C(0x100000001b3);
        return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Small limits, so that short inputs meet them. */
static void set_limits(struct http_limits *l) {
        http_limits_init(l);
        l->header_bytes = 600;
        l->header_fields = 12;
        l->input_bytes = 4096;
        l->input_slack_bytes = 100;
        l->chunks = 20;
        l->chunk_extension_bytes = 24;
}

/* A copy of exactly that size: reading beyond it is seen by the sanitizer. */
static struct str copy_of(struct str bytes, char **ret_copy) {
        free(*ret_copy);
        *ret_copy = mem_alloc(bytes.len > 0 ? bytes.len : 1);
        memcpy(*ret_copy, bytes.ptr, bytes.len);
        return str_range(*ret_copy, bytes.len);
}

static void look_at_fields(const struct http_message *m, const char *base, struct understood *u) {
        struct http_encoding_choice choice = { 0 };

        u->hash = mix(u->hash, http_message_target(m, base));
        u->hash = mix(u->hash, str_of(m->method_text));
        u->hash = mix(u->hash, str_range((const char *)m->known, sizeof(m->known)));
        u->hash = (u->hash ^ (m->keep_alive | m->is_http10 << 1 | m->is_chunked << 2 |
                              m->expects_continue << 3 | (unsigned)m->method << 4)) *
                  UINT64_C(0x100000001b3);
        for (size_t i = 0; i < m->n_fields; i++) {
                struct http_header h = http_message_header(m, base, i);

                if (memchr(h.name.ptr, '\n', h.name.len) != NULL ||
                    memchr(h.value.ptr, '\n', h.value.len) != NULL ||
                    memchr(h.value.ptr, '\r', h.value.len) != NULL || h.name.len == 0)
                        abort();
                u->hash = mix(mix(u->hash, h.name), h.value);
                http_encoding_consider(&choice, h.value);
        }
}

static void read_chunks(struct http_message *m, struct str rest, size_t step,
                        struct understood *u) {
        size_t at = 0;

        u->verdict = HTTP_PARSE_MORE;
        while (u->verdict == HTTP_PARSE_MORE && at < rest.len) {
                size_t used = 0;

                u->verdict = http_message_parse_chunks(
                        m, str_range(rest.ptr + at, MIN(step, rest.len - at)), &used);
                at += used;
        }
        u->total_bytes = m->head_bytes + at;
        if (u->verdict != HTTP_PARSE_DONE || m->body == NULL)
                return;
        u->body_bytes = m->body->len;
        u->hash = mix(u->hash, str_range(m->body->bytes, m->body->len));
}

static void read_request(struct http_message *m, struct str in, size_t step, struct understood *u) {
        char  *copy = NULL;
        size_t len = 0;

        *u = (struct understood){ 0 };
        do {
                len = MIN(len + step, in.len);
                u->verdict = http_message_parse_head(m, copy_of(str_range(in.ptr, len), &copy));
        } while (u->verdict == HTTP_PARSE_MORE && len < in.len);
        if (u->verdict == HTTP_PARSE_DONE) {
                u->n_fields = m->n_fields;
                u->head_bytes = m->head_bytes;
                u->total_bytes = m->head_bytes + (size_t)MIN(m->content_length, in.len + 1);
                look_at_fields(m, copy, u);
                if (m->is_chunked)
                        read_chunks(m, str_range(in.ptr + m->head_bytes, in.len - m->head_bytes),
                                    step, u);
        }
        if (u->verdict == HTTP_PARSE_REFUSED)
                u->status = m->refusal.status;
        free(copy);
}

static size_t read_stream(struct str in, size_t step, struct understood *all) {
        struct http_limits   limits;
        struct http_message *m;
        size_t               n = 0;

        set_limits(&limits);
        m = http_message_new(&limits, NULL);
        while (in.len > 0 && n < MAX_REQUESTS) {
                struct understood *u = &all[n++];

                read_request(m, in, step, u);
                if (u->verdict == HTTP_PARSE_REFUSED && u->status == 0)
                        abort();
                if (u->verdict != HTTP_PARSE_DONE || u->total_bytes > in.len)
                        break;
                in = str_range(in.ptr + u->total_bytes, in.len - u->total_bytes);
                http_message_reset(m);
        }
        http_message_free(m);
        return n;
}

/* A size that is passed is told at different places when the pieces differ. */
static bool is_same(const struct understood *a, const struct understood *b) {
        if (a->status == 431 || b->status == 431)
                return true;
        return a->verdict == b->verdict && a->status == b->status && a->n_fields == b->n_fields &&
               (a->verdict != HTTP_PARSE_DONE ||
                (a->head_bytes == b->head_bytes && a->total_bytes == b->total_bytes &&
                 a->body_bytes == b->body_bytes && a->hash == b->hash));
}

static void compare(const struct understood *a, size_t n_a, const struct understood *b,
                    size_t n_b) {
        for (size_t i = 0; i < n_a && i < n_b; i++) {
                if (!is_same(&a[i], &b[i]))
                        abort();
                if (a[i].verdict != HTTP_PARSE_DONE || b[i].verdict != HTTP_PARSE_DONE)
                        break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        struct understood *whole, *other;
        struct str         in;
        size_t             step, n;

        if (size < 1)
                return 0;
        whole = mem_zalloc(2 * MAX_REQUESTS * sizeof(*whole));
        other = whole + MAX_REQUESTS;
        in = str_range((const char *)input + 1, size - 1);
        step = 1 + (size_t)input[0] % 61;
        n = read_stream(in, SIZE_MAX / 2, whole);
        compare(whole, n, other, read_stream(in, step, other));
        free(whole);
        return 0;
}
