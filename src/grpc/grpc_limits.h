/* SPDX-License-Identifier: BSD-3-Clause */
/* What a gRPC client may cost: sizes, counts, how slow it may be, and how often it may ping. Each
 * refusal has a name, under which it is counted (metric neso_rejected_total, label "limit").
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
        size_t   header_bytes;       /* of one header list: names, values, 32 each; 32 KiB */
        size_t   header_fields;      /* 100 */
        size_t   message_bytes;      /* of one message received, plain; 1 GiB */
        size_t   decompressed_bytes; /* of one that was compressed; 64 MiB */
        uint32_t streams;            /* concurrent, of one connection; 256 */
        uint32_t calls;              /* of one connection, those included whose client has gone and
                                      * whose handler is still at work; 1024 */
        size_t   unsent_bytes;       /* of one call; 64 MiB */
        size_t   unsent_pause_bytes; /* from here on nothing more is read from that stream; 4 MiB */
        uint64_t header_time_ns;     /* preface and first frame, or a header block; 10 s */
        uint64_t message_window_ns;  /* 10 s */
        size_t   message_window_bytes; /* that must come in each window while a message is
                                        * incomplete; 1 KiB per second of it */
        uint64_t write_stall_ns;       /* a write, or an ended call, without progress; 75 s */
        size_t   write_window_bytes;   /* that a client must take in that time while something waits
                                      * for it, in all; 1 KiB per second of it */
        uint64_t linger_ns;            /* reading on after a refusal so that it arrives; 2 s */

        /* Allowances: so many at once, and so many more per second. */
        uint32_t resets_at_once;         /* streams that end in an error; 1000 */
        uint32_t resets_per_s;           /* 100 */
        uint32_t control_frames_at_once; /* those that carry nothing; 1000 */
        uint32_t control_frames_per_s;   /* 500 */
        uint32_t continuations;          /* of one header block; 6 */

        /* As the --grpc-... options of those names. */
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
