/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of what an HTTP client may cost: sizes, counts, and how slow it may be. Each refusal is counted
 * under the name of its limit (metric neso_rejected_total, label "limit").
 *
 * http_rate_watch_check() decides whether a client is too slow. Its caller passes the time and the number
 * of bytes; it uses no clock and no socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_limit {
        HTTP_LIMIT_NONE,
        HTTP_LIMIT_HEADER_BYTES,
        HTTP_LIMIT_HEADER_FIELDS,
        HTTP_LIMIT_HEADER_TIME,
        HTTP_LIMIT_IDLE_TIME,
        HTTP_LIMIT_BODY_BYTES,
        HTTP_LIMIT_BODY_RATE,
        HTTP_LIMIT_CHUNKS,
        HTTP_LIMIT_CHUNK_EXTENSION,
        HTTP_LIMIT_WRITE_STALL,
        HTTP_LIMIT_WRITE_RATE,
        HTTP_LIMIT_UNSENT_BYTES,
        HTTP_LIMIT_MEMORY,
        N_HTTP_LIMITS,
};

struct http_limits {
        size_t   header_bytes;      /* request line and fields; 32 KiB */
        size_t   header_fields;     /* 100 */
        size_t   input_bytes;       /* JSON, as --http-max-input-size; 64 MiB */
        size_t   input_slack_bytes; /* added to input_bytes for the JSON around tensors; 1 MiB */
        size_t   chunks;            /* non-empty chunks of a body; 65536 */
        size_t   chunk_extension_bytes; /* extension of one chunk; 256 */
        size_t   unsent_bytes;          /* queued bytes of an answer in chunks; 64 MiB */
        uint64_t header_time_ns;        /* from the first byte to the blank line; 10 s */
        uint64_t idle_time_ns;   /* of an idle connection, and of a write without progress; 75 s */
        uint64_t body_window_ns; /* length of a window; 10 s */
        size_t   body_window_bytes; /* minimum in each window; 1 KiB per second of it */
        size_t write_window_bytes;  /* minimum of an answer that the peer must take in idle_time_ns;
                                         * 1 KiB per second of it */
        uint64_t linger_ns;         /* reading after a refusal, so that it arrives; 2 s */
        uint64_t leave_ns; /* a stopping server still accepts requests on open connections; 0.1 s */
};

void http_limits_init(struct http_limits *l); /* the defaults above */
/* Limit of a body: input_bytes and the slack. */
size_t      http_limits_body_bytes(const struct http_limits *l);
const char *http_limit_name(enum http_limit limit); /* "header_bytes"; "none" for NONE */

enum http_phase {
        HTTP_PHASE_IDLE, /* no byte of a request has arrived */
        HTTP_PHASE_HEAD,
        HTTP_PHASE_BODY,
        HTTP_PHASE_HANDLER, /* no limit: models have their own timeouts */
        HTTP_PHASE_WRITE,
        HTTP_PHASE_LINGER,
};

struct http_rate_watch {
        enum http_phase phase;
        bool            is_based; /* WRITE: `bytes` was set since the phase began */
        uint64_t        since_ns; /* start of the phase or of the current window */
        uint64_t        bytes;    /* `moved` at the start of the window */
};

void http_rate_watch_enter(struct http_rate_watch *p, enum http_phase phase, uint64_t now_ns);
/* Returns HTTP_LIMIT_NONE while the peer is fast enough. `moved` is, in phase BODY, the number of bytes of
 * the body received since the phase began; in phase WRITE, the number of bytes of answers that the peer
 * has taken, counted from any base. */
enum http_limit http_rate_watch_check(struct http_rate_watch *p, const struct http_limits *l,
                                      uint64_t now_ns, uint64_t moved);
