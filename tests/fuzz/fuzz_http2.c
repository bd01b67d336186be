/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a client sends on a gRPC connection: frames, header compression, calls, messages.
 *
 * The first byte says how the rest is fed: in which pieces, whether preface and SETTINGS are put
 * before it, whether messages may stay in the read buffer. What must hold: no handler loses a call
 * or is told twice that it is aborted, and nothing is left when the connection has ended.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "grpc/grpc_server.h"
#include "grpc/h2_conn.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
        WITH_PREFACE = 1,
        WITH_OWNER = 2,
        IN_PIECES = 4,
        WITH_COMPRESSION = 8,
};

#define MAX_HELD 8

static struct grpc_call *held[MAX_HELD];
static size_t            n_held;
static int               n_given; /* to handlers, and not finished */

static void finish(struct grpc_call *call, enum grpc_code code, const char *text) {
        n_given--;
        grpc_call_finish(call, code, text);
}

static void echo(struct grpc_call *call, struct str message, struct buf *owner) {
        const struct grpc_part part = { message.ptr, message.len, owner };

        if (owner != NULL)
                buf_ref(owner);
        grpc_call_reply(call, &part, 1);
}

static void fail(struct grpc_call *call, struct str message, struct buf *owner) {
        (void)owner;
        grpc_call_fail(call, error_new(ERR_INVALID_ARG, "%.*s", STR_ARG(message)));
}

/* Answered when the input ends, or when it is aborted. */
static void hold(struct grpc_call *call, struct str message, struct buf *owner) {
        (void)message;
        (void)owner;
        n_given++;
        if (n_held < MAX_HELD)
                held[n_held++] = call;
        else
                finish(call, GRPC_UNAVAILABLE, "busy");
}

static void release(struct grpc_call *call) {
        for (size_t i = 0; i < n_held; i++)
                if (held[i] == call) {
                        held[i] = held[--n_held];
                        finish(call, GRPC_CANCELLED, NULL);
                        return;
                }
        abort(); /* nobody has it */
}

static void open_chat(struct grpc_call *call) {
        n_given++;
        if (grpc_call_metadata(call, "x").ptr != NULL)
                grpc_call_add_initial(call, STR_LIT("x"), grpc_call_metadata(call, "x"));
}

static void chat(struct grpc_call *call, struct str message, struct buf *owner) {
        const struct grpc_part part = { message.ptr, message.len, NULL };

        (void)owner;
        grpc_call_send(call, &part, 1);
        if (message.len > 0 && message.ptr[0] == 'p')
                grpc_call_pause(call);
        if (message.len > 0 && message.ptr[0] == 'r')
                grpc_call_resume(call);
}

static void end_chat(struct grpc_call *call) {
        finish(call, GRPC_OK, NULL);
}

static const struct grpc_method rows[] = {
        { .path = "/e", .group = ENDPOINT_HEALTH, .is_compressible = true, .on_message = echo },
        { .path = "/f", .group = ENDPOINT_HEALTH, .on_message = fail },
        { .path = "/h", .group = ENDPOINT_HEALTH, .on_message = hold, .on_abort = release },
        { .path = "/c",
          .group = ENDPOINT_HEALTH,
          .is_client_stream = true,
          .is_server_stream = true,
          .on_open = open_chat,
          .on_message = chat,
          .on_half_close = end_chat,
          .on_abort = end_chat },
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                              "\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0";

/* The bytes lie in a buffer that ends where they end. */
static void feed(struct h2_conn *c, const uint8_t *bytes, size_t len, bool with_owner) {
        struct buf *b = buf_new(NULL, len);

        memcpy(b->bytes, bytes, len);
        h2_conn_feed(c, str_range(b->bytes, len), with_owner ? b : NULL);
        buf_unref(b);
}

static void feed_all(struct h2_conn *c, const uint8_t *bytes, size_t len, unsigned how) {
        size_t piece = how & IN_PIECES ? 1 + (how >> 4) : len;

        while (len > 0) {
                size_t n = MIN(piece, len);

                c->now_ns += NS_PER_MS;
                feed(c, bytes, n, how & WITH_OWNER);
                bytes += n;
                len -= n;
        }
}

static struct grpc_server_options make_options(unsigned how) {
        struct grpc_server_options o;

        grpc_server_options_init(&o);
        o.methods = (struct grpc_method_table){ rows, ARRAY_LEN(rows) };
        o.limits.message_bytes = 1 << 16;
        o.limits.unsent_bytes = 1 << 16;
        o.limits.unsent_pause_bytes = 1 << 10;
        o.compression = how & WITH_COMPRESSION ? GRPC_COMPRESSION_LOW : GRPC_COMPRESSION_NONE;
        return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len) {
        struct grpc_server_options options;
        struct str                 paths[ARRAY_LEN(rows)];
        struct h2_shard            shard = { 0 };
        struct h2_conn            *c;
        unsigned                   how;

        if (len < 1 || len > 1 << 16)
                return 0;
        how = input[0];
        options = make_options(how);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                paths[i] = str_of(rows[i].path);
        list_init(&shard.net.conns);
        grpc_server_init_shard(&shard, &options, paths);
        shard.pool = buf_pool_new(0);
        n_held = 0;
        n_given = 0;
        c = h2_conn_new(&shard, NS_PER_S);
        if (how & WITH_PREFACE)
                h2_conn_feed(c, str_range(preface, sizeof(preface) - 1), NULL);
        feed_all(c, input + 1, len - 1, how);
        while (n_held > MAX_HELD / 2)
                release(held[0]); /* some before the end, the others because of it */
        h2_conn_end(c);
        assert(n_held == 0 && n_given == 0);
        assert(list_is_empty(&shard.net.conns));
        h2_shard_done(&shard);
        buf_pool_unref(shard.pool);
        return 0;
}
