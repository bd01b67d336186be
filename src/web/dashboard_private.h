/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs behind dashboard.h, shared by dashboard.c, which reads, and dashboard_print.c.
 *
 * Ownership.  The dashboard owns its models; each owns its texts, counters and history.
 * Threads.  The dashboard's lock guards everything but what the comments except.
 */
#pragma once

#include "base/lock.h"
#include "base/map.h"
#include "base/thread.h"
#include "triton/core/neso.h"
#include "web/dashboard.h"

#include <stdatomic.h>

#define STATE_BYTES 16 /* "UNAVAILABLE", the longest, and its NUL */

/* One version of a model; or a model without versions. */
struct shown_model {
        char    *name;    /* owned; as the next two */
        char    *version; /* "" when there is none */
        char    *reason;  /* "" when there is none */
        char     state[STATE_BYTES];
        uint32_t id; /* never used again */

        uint64_t state_seq; /* reading at which name, state or reason changed */
        uint64_t row_seq;   /* ... at which the row changed; 0: never had one */
        uint64_t gone_seq;  /* ... at which it was gone; 0: it is there */
        uint64_t index_seq; /* latest reading of the index that had it */
        uint64_t live_seq;  /* latest reading of the counters that had it */
        uint64_t row[N_DASHBOARD_NUMBERS];

        /* Counters at the latest reading and at the latest sample; NULL: all zero. Owned. */
        struct NESO_ModelActivity *at_reading, *at_sample;
        struct sample_ring        *history; /* owned; NULL: none */
};

struct dashboard {
        struct dashboard_options options;
        struct NESO_ReadyWatch  *watch; /* owned; NULL: not started */
        struct thread            thread;
        atomic_bool              has_changed; /* a model's state; set on any thread */
        uint64_t                 boot_ms;     /* never changes, as start_ns */
        uint64_t                 start_ns;

        struct mutex lock;    /* rank LOCK_SERVER; guards everything below */
        struct cond  changed; /* signalled when is_stopping is set */
        bool         shows_ports, is_stopping;

        struct map           by_key; /* struct shown_model, borrowed, by name, NUL, version */
        struct shown_model **models; /* owned, and each; in order of id */
        size_t               n_models;
        uint32_t             next_id;

        uint64_t seq;        /* of the latest reading; 0: none yet */
        uint64_t read_ns;    /* when that was */
        uint64_t index_ns;   /* when the index was read; 0: never */
        uint64_t forget_seq; /* models that were gone before that reading are forgotten */
        uint64_t window_ns;  /* between the latest reading and the one before */

        uint32_t period;    /* of the latest sample */
        uint64_t sample_ns; /* when that was */
        uint64_t sample_window_ns;
        uint64_t sample_cpu_us;
        size_t   n_histories;
        /* Sums over the models of the sample that is being taken. */
        uint64_t            sample_requests, sample_failures;
        struct sample_ring *server_history; /* owned */
        bool                is_sampling;    /* the reading under way is a sample, too */
};

/* CPU time of the process. */
uint64_t dashboard_cpu_us(void);
/* Resident memory of the process; 0 when it cannot be read. */
uint64_t dashboard_rss_bytes(void);
/* Zeros after dashboard_stop(). */
void dashboard_read_ports_locked(struct dashboard           *d,
                                 struct dashboard_port_state ret[N_DASHBOARD_PORTS]);
/* Reads the counters unless that was done a moment ago; also the index when it may have changed. */
struct error *dashboard_refresh_locked(struct dashboard *d) NODISCARD;
/* Returns the model, or NULL. A model that is gone counts as missing. */
struct shown_model *dashboard_find_locked(struct dashboard *d, struct str name, struct str version);
/* Takes a sample now; for the sampler and for tests. */
struct error *dashboard_sample_locked(struct dashboard *d) NODISCARD;
