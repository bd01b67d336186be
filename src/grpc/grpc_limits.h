/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of what a gRPC client may cost: sizes, counts, how slow it may be, and how often it may do
 * something. Each refusal is counted under the name of its limit (metric neso_rejected_total, label
 * "limit"). Nothing here knows a clock or a socket.
 *
 * Pings.  A client gets a strike for each ping that comes within `min_recv_ping_interval_without_data`
 * of the one before while the server sends it nothing but control frames. Beyond `max_ping_strikes` the
 * server closes the connection. Without calls the interval is two hours, unless keepalive without calls
 * is permitted. Any other frame sent to the client clears its strikes (gRPC, "Server-side connection
 * management", as its C core does it).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum grpc_limit {
        GRPC_LIMIT_NONE,
        GRPC_LIMIT_HEADER_BYTES,
        GRPC_LIMIT_HEADER_FIELDS,
        GRPC_LIMIT_HEADER_TIME,
        GRPC_LIMIT_MESSAGE_BYTES,
        GRPC_LIMIT_MESSAGE_RATE,
        GRPC_LIMIT_STREAMS,
        GRPC_LIMIT_WRITE_STALL,
        GRPC_LIMIT_WRITE_RATE,
        GRPC_LIMIT_UNSENT_BYTES,
        GRPC_LIMIT_MEMORY,
        GRPC_LIMIT_RESETS,
        GRPC_LIMIT_CONTROL_FRAMES,
        GRPC_LIMIT_CONTINUATIONS,
        GRPC_LIMIT_PINGS,
        N_GRPC_LIMITS,
};

struct grpc_limits {
        size_t header_bytes;  /* of one header list: names, values, and 32 for each field; 32 KiB */
        size_t header_fields; /* 100 */
        size_t message_bytes; /* of a received message; INT32_MAX */
        size_t decompressed_bytes; /* of a message that was compressed; 64 MiB */
        uint32_t streams;          /* concurrent streams of a connection; 256 */
        uint32_t calls;            /* of a connection, including calls that the client has cancelled
                                      * and whose handler is still at work; 1024 */
        size_t   unsent_bytes;     /* queued bytes of a call; 64 MiB */
        size_t   unsent_pause_bytes; /* beyond it nothing more is read from that stream; 4 MiB */
        uint64_t header_time_ns; /* for the preface and first frame, and for a header block; 10 s */
        uint64_t message_window_ns;    /* length of a window; 10 s */
        size_t   message_window_bytes; /* minimum in each window while a message is incomplete;
                                        * 1 KiB per second of it */
        uint64_t write_stall_ns;       /* of a write, or an ended call, without progress; 75 s */
        size_t   write_window_bytes;   /* minimum of all calls together that the client must take in
                                        * that time while bytes wait; 1 KiB per second of it */
        uint64_t linger_ns;            /* reading after a refusal, so that it arrives; 2 s */

        /* Token buckets: their size, and how many tokens return per second. */
        uint32_t resets_at_once;         /* streams that end in an error; 1000; 0 = no limit */
        uint32_t resets_per_s;           /* 100 */
        uint32_t control_frames_at_once; /* frames without payload; 1000 */
        uint32_t control_frames_per_s;   /* 500 */
        uint32_t continuations;          /* CONTINUATION frames of a header block; 6 */

        /* See the --grpc-... options of the same names. */
        uint64_t keepalive_time_ns;                      /* 7200 s */
        uint64_t keepalive_timeout_ns;                   /* 20 s */
        bool     keepalive_permit_without_calls;         /* false */
        uint32_t max_pings_without_data;                 /* 2; 0 = no limit */
        uint64_t min_recv_ping_interval_without_data_ns; /* 300 s */
        uint32_t max_ping_strikes;                       /* 2; 0 = no limit */
        uint64_t max_connection_age_ns;                  /* CLOCK_NEVER */
        uint64_t max_connection_age_grace_ns;            /* CLOCK_NEVER */
};

void        grpc_limits_init(struct grpc_limits *l); /* the defaults above */
const char *grpc_limit_name(enum grpc_limit limit);  /* "header_bytes"; "none" for NONE */

struct grpc_token_bucket {
        uint64_t left_ns; /* tokens left, as the time that refilling them takes */
        uint64_t at_ns;   /* time of that state; 0 = full */
};

/* Takes a token; false when there is none. `per_s` 0 = tokens never return. */
bool grpc_token_bucket_take(struct grpc_token_bucket *a, uint32_t at_once, uint32_t per_s,
                            uint64_t now_ns);
void grpc_token_bucket_refill(struct grpc_token_bucket *a);

struct grpc_pings {
        uint64_t last_read_ns;
        uint64_t sent_ns;           /* the server's unacknowledged ping; 0 = none */
        uint32_t n_without_payload; /* the server's pings since it sent anything else */
        uint64_t
                last_received_ns; /* the client's last ping; 0 = none since the server sent anything else */
        uint32_t n_strikes;
};

enum grpc_pings_verdict {
        GRPC_PINGS_QUIET,
        GRPC_PINGS_SEND, /* send a ping now; it counts as sent */
        GRPC_PINGS_DEAD, /* the last ping was not answered in time */
};

void grpc_pings_init(struct grpc_pings *p, uint64_t now_ns);
void grpc_pings_on_read(struct grpc_pings *p, uint64_t now_ns); /* any bytes were read */
void grpc_pings_on_ack(struct grpc_pings *p);
void grpc_pings_on_payload_sent(struct grpc_pings *p);
/* The peer sent a ping; false when it has sent too many. */
bool grpc_pings_on_ping(struct grpc_pings *p, const struct grpc_limits *l, bool has_calls,
                        uint64_t now_ns);
enum grpc_pings_verdict grpc_pings_check(struct grpc_pings *p, const struct grpc_limits *l,
                                         bool has_calls, uint64_t now_ns);
