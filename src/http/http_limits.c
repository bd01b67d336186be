/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_limits.h"

#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>

#define KIB ((size_t)1024)

void http_limits_init(struct http_limits *l) {
        *l = (struct http_limits){
                .header_bytes = 32 * KIB,
                .header_fields = 100,
                .input_bytes = 64 * KIB * KIB,
                .input_slack_bytes = KIB * KIB,
                .chunks = 65536,
                .chunk_extension_bytes = 256,
                .unsent_bytes = 64 * KIB * KIB,
                .header_time_ns = 10 * NS_PER_S,
                .idle_time_ns = 75 * NS_PER_S,
                .body_window_ns = 10 * NS_PER_S,
                .body_window_bytes = 10 * KIB,
                .write_window_bytes = 75 * KIB,
                .linger_ns = 2 * NS_PER_S,
                .leave_ns = 100 * NS_PER_MS,
        };
}

size_t http_limits_body_bytes(const struct http_limits *l) {
        size_t max;

        return size_add(l->input_bytes, l->input_slack_bytes, &max) ? max : SIZE_MAX;
}

const char *http_limit_name(enum http_limit limit) {
        static const char *const names[N_HTTP_LIMITS] = {
                [HTTP_LIMIT_NONE] = "none",
                [HTTP_LIMIT_HEADER_BYTES] = "header_bytes",
                [HTTP_LIMIT_HEADER_FIELDS] = "header_fields",
                [HTTP_LIMIT_HEADER_TIME] = "header_time",
                [HTTP_LIMIT_IDLE_TIME] = "idle_time",
                [HTTP_LIMIT_BODY_BYTES] = "body_bytes",
                [HTTP_LIMIT_BODY_RATE] = "body_rate",
                [HTTP_LIMIT_CHUNKS] = "chunks",
                [HTTP_LIMIT_CHUNK_EXTENSION] = "chunk_extension_bytes",
                [HTTP_LIMIT_WRITE_STALL] = "write_stall",
                [HTTP_LIMIT_WRITE_RATE] = "write_rate",
                [HTTP_LIMIT_UNSENT_BYTES] = "unsent_bytes",
                [HTTP_LIMIT_MEMORY] = "memory",
        };

        assert(limit < N_HTTP_LIMITS);
        return names[limit];
}

void http_rate_watch_enter(struct http_rate_watch *p, enum http_phase phase, uint64_t now_ns) {
        p->phase = phase;
        p->since_ns = now_ns;
        p->bytes = 0;
        p->is_based = false;
}

/* Ends a window; true when at least `bytes` moved in it. */
static bool end_window(struct http_rate_watch *p, uint64_t now_ns, uint64_t moved, uint64_t bytes) {
        uint64_t gained = moved - p->bytes;

        p->since_ns = now_ns;
        p->bytes = moved;
        return gained >= bytes;
}

/* The first check of a phase sets the base of `moved`, because the socket first sends bytes of earlier
 * answers. `moved` may decrease a little, because TLS records are larger than their contents. */
static enum http_limit check_write(struct http_rate_watch *p, const struct http_limits *l,
                                   uint64_t now_ns, uint64_t age_ns, uint64_t moved) {
        int64_t gained = (int64_t)(moved - p->bytes);

        if (!p->is_based) {
                p->is_based = true;
                p->bytes = moved;
                gained = 0;
        }
        if (age_ns < l->idle_time_ns)
                return HTTP_LIMIT_NONE;
        if (gained <= 0)
                return HTTP_LIMIT_WRITE_STALL;
        if ((uint64_t)gained < l->write_window_bytes)
                return HTTP_LIMIT_WRITE_RATE;
        p->since_ns = now_ns;
        p->bytes = moved;
        return HTTP_LIMIT_NONE;
}

enum http_limit http_rate_watch_check(struct http_rate_watch *p, const struct http_limits *l,
                                      uint64_t now_ns, uint64_t moved) {
        uint64_t age_ns = now_ns > p->since_ns ? now_ns - p->since_ns : 0;

        switch (p->phase) {
        case HTTP_PHASE_IDLE:
                return age_ns >= l->idle_time_ns ? HTTP_LIMIT_IDLE_TIME : HTTP_LIMIT_NONE;
        case HTTP_PHASE_HEAD:
                return age_ns >= l->header_time_ns ? HTTP_LIMIT_HEADER_TIME : HTTP_LIMIT_NONE;
        case HTTP_PHASE_BODY:
                if (age_ns < l->body_window_ns ||
                    end_window(p, now_ns, moved, l->body_window_bytes))
                        return HTTP_LIMIT_NONE;
                return HTTP_LIMIT_BODY_RATE;
        case HTTP_PHASE_WRITE: return check_write(p, l, now_ns, age_ns, moved);
        case HTTP_PHASE_LINGER:
                return age_ns >= l->linger_ns ? HTTP_LIMIT_IDLE_TIME : HTTP_LIMIT_NONE;
        case HTTP_PHASE_HANDLER: break;
        }
        return HTTP_LIMIT_NONE;
}
