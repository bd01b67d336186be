/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelined requests and chunked bodies through the connections of HTTP/1.1. The first byte is the size of
 * the pieces. However the bytes are cut, the same answers come back, in the same order; a difference is a
 * fault.
 *
 * Routes: /echo answers with the body, /pieces with the body in chunks, /late with the body after the loop
 * has gone on, so that further requests wait for it.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "expect.h"
#include "http/http_call.h"
#include "http/http_conn.h"
#include "http/http_server.h"
#include "whole_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER_BYTES ((size_t)16 << 20)

static struct http_server *server;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void echo(struct http_call *call) {
        const struct http_part  part = { call->body.ptr, call->body.len, call->body_buf };
        const struct http_reply reply = { .status = 200, .parts = &part, .n_parts = 1 };

        if (call->body_buf != NULL)
                buf_ref(call->body_buf);
        http_call_reply(call, &reply);
}

static void send_piece(struct http_call *call, struct str bytes) {
        struct buf      *b = buf_new(http_call_buf_pool(call), bytes.len);
        struct http_part part = { b->bytes, bytes.len, b };

        memcpy(b->bytes, bytes.ptr, bytes.len);
        http_call_send_chunk(call, &part);
}

static void answer_in_pieces(struct http_call *call) {
        const struct http_reply reply = { .status = 200 };
        struct str              left = call->body;

        http_call_begin_chunks(call, &reply);
        while (left.len > 0) {
                size_t n = MIN(left.len, 7);

                send_piece(call, str_range(left.ptr, n));
                left = str_range(left.ptr + n, left.len - n);
        }
        http_call_end_chunks(call);
}

struct late {
        struct mail       mail;
        struct http_call *call;
};

static void on_late(struct mail *m) {
        echo(CONTAINER_OF(m, struct late, mail)->call);
}

static void answer_late(struct http_call *call) {
        struct late *late = arena_zalloc(&call->arena, sizeof(*late));

        EXPECT(late != NULL);
        late->mail.deliver = on_late;
        late->call = call;
        mailbox_post(http_call_mailbox(call), &late->mail);
}

static const struct http_route rows[] = {
        { "/echo", HTTP_METHOD_POST, ENDPOINT_HEALTH, NULL, echo },
        { "/echo", HTTP_METHOD_GET, ENDPOINT_HEALTH, NULL, echo },
        { "/pieces", HTTP_METHOD_POST, ENDPOINT_HEALTH, NULL, answer_in_pieces },
        { "/late", HTTP_METHOD_POST, ENDPOINT_HEALTH, NULL, answer_late },
};

static void stop(void) {
        struct net_server *net = http_server_net(server);

        net_server_stop(net);
        EXPECT(net_server_wait(net, clock_now_ns() + 30 * NS_PER_S) == 0);
        http_server_free(server);
}

static uint16_t get_port(void) {
        struct http_server_options o;

        if (server != NULL)
                return net_server_port(http_server_net(server));
        http_server_options_init(&o);
        o.net.name = "fuzz";
        o.net.address = "127.0.0.1";
        o.net.n_threads = 1;
        o.limits.header_bytes = 1024;
        o.limits.header_fields = 16;
        o.limits.input_bytes = 32768;
        o.limits.input_slack_bytes = 100;
        o.limits.chunks = 20;
        o.limits.chunk_extension_bytes = 24;
        o.routes = (struct http_route_table){ .rows = rows, .n_rows = ARRAY_LEN(rows) };
        o.service.max_input_bytes = o.limits.input_bytes;
        EXPECT(http_server_new(&o, &server) == NULL);
        net_server_start(http_server_net(server));
        atexit(stop);
        return net_server_port(http_server_net(server));
}

static bool has(struct str s, const char *text) {
        return s.len > 0 && memmem(s.ptr, s.len, text, strlen(text)) != NULL;
}

/* What is refused by its head ends the connection unless its body is there already, and limits of a head are met
 * at different places when the pieces differ. A late answer is dropped when the end of the connection is
 * read together with its request. */
static bool is_comparable(struct str in, struct str a, struct str b) {
        static const char *const early[] = { " 404 ", " 405 ", " 413 ", " 417 ", " 431 ", " 501 " };

        for (size_t i = 0; i < ARRAY_LEN(early); i++)
                if (has(a, early[i]) || has(b, early[i]))
                        return false;
        return !has(in, "late");
}

/* `100 Continue` is sent when a body has not come with its head, which depends on the pieces. */
static void put_final_answers(struct strbuf *out, struct str answers) {
        static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
        size_t            at = 0;

        while (at < answers.len) {
                struct str rest = str_skip(answers, at);

                if (str_starts(rest, str_of(interim))) {
                        at += sizeof(interim) - 1;
                } else {
                        strbuf_putc(out, answers.ptr[at]);
                        at++;
                }
        }
}

static bool are_same_answers(struct str a, struct str b) {
        AUTO_STRBUF final_a;
        AUTO_STRBUF final_b;

        strbuf_init(&final_a, MAX_ANSWER_BYTES);
        strbuf_init(&final_b, MAX_ANSWER_BYTES);
        put_final_answers(&final_a, a);
        put_final_answers(&final_b, b);
        return str_equal(strbuf_str(&final_a), strbuf_str(&final_b));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        uint16_t    port = get_port();
        AUTO_STRBUF whole, pieces;
        struct str  in;
        bool        is_whole;

        strbuf_init(&whole, MAX_ANSWER_BYTES);
        strbuf_init(&pieces, MAX_ANSWER_BYTES);
        if (size < 2)
                return 0;
        in = str_range((const char *)bytes + 1, size - 1);
        is_whole = whole_server_talk(port, in, 0, &whole);
        is_whole &= whole_server_talk(port, in, 1 + bytes[0] % 97, &pieces);
        if (is_whole && whole_server_can_check(in)) {
                whole_server_check_answers(strbuf_str(&whole));
                whole_server_check_answers(strbuf_str(&pieces));
        }
        if (is_whole && is_comparable(in, strbuf_str(&whole), strbuf_str(&pieces)) &&
            !are_same_answers(strbuf_str(&whole), strbuf_str(&pieces))) {
                fprintf(stderr, "whole:\n%s\npieces:\n%s\n", strbuf_cstr(&whole),
                        strbuf_cstr(&pieces));
                abort();
        }
        return 0;
}
