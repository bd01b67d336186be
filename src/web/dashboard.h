/* SPDX-License-Identifier: BSD-3-Clause */
/* What the dashboard shows: the models with their states and live numbers, the server, the last
 * warnings and errors, and the last 15 minutes of the most important numbers.
 *
 * A reading (seq 1, 2, ...) compares the counters of all models with those of the reading before. The
 * sampler's thread reads each SAMPLE_PERIOD_S seconds, for the history. A page that asks causes a reading
 * when the latest is older than DASHBOARD_READING_NS, so that any number of pages cost as much as one. The
 * path of requests to models is not touched: the counters are those of the library's statistics.
 *
 * An answer has what changed since the reading that the page has seen; see dashboard_print().
 *
 * Ownership.  The program's front end. For a model: about 500 bytes and its texts; once it had a request
 * 2 KiB for the counters of the readings before, and DASHBOARD_HISTORY_BYTES for its history. At most
 * DASHBOARD_HISTORIES models have a history; it ends after 15 minutes without a request.
 * Threads.  new, start, stop, free: one thread. The others: any. The lock (rank LOCK_SERVER) is held while
 * the library's counters are read, which takes about a microsecond for an idle model; only pages and the
 * sampler take it.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "web/sample_ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct byte_budget;
struct dashboard;

#define DASHBOARD_READING_NS ((uint64_t)900 * 1000 * 1000)
#define DASHBOARD_HISTORIES 1024
#define DASHBOARD_SAMPLE_NUMBERS 12
#define DASHBOARD_HISTORY_BYTES (SAMPLE_RING_LENGTH * (DASHBOARD_SAMPLE_NUMBERS + 1) * 4)

enum dashboard_port { DASHBOARD_HTTP, DASHBOARD_GRPC, DASHBOARD_METRICS, N_DASHBOARD_PORTS };

/* What the dashboard asks the program about a port. */
struct dashboard_port_state {
        size_t n_connections;
        size_t n_loops; /* 0: the port is not open */
};

struct dashboard_options {
        struct TRITONSERVER_Server *core;   /* borrowed */
        const struct byte_budget   *budget; /* borrowed */
        /* Called with the dashboard's lock held, between start and stop; must not block. */
        void (*read_ports)(void *owner, struct dashboard_port_state ret[N_DASHBOARD_PORTS]);
        void *owner; /* borrowed */
        /* The monotonic clock; NULL: clock_now_ns(). Of tests. */
        uint64_t (*now_ns)(void);
};

struct dashboard *dashboard_new(const struct dashboard_options *o);
/* Starts the sampler. Called before the ports are open, so that a server whose ports are open has all threads that
 * it needs. */
struct error *dashboard_start(struct dashboard *d) NODISCARD;
/* The ports are open: from now on, until dashboard_stop(), read_ports() is called. */
void dashboard_show_ports(struct dashboard *d);
/* Ends the sampler; does not ask for ports any more. Answers are given until _free(). */
void dashboard_stop(struct dashboard *d);
void dashboard_free(struct dashboard *d); /* NULL is fine; stops first when necessary */

struct dashboard_question {
        uint64_t since;     /* `seq` of the answer that the page had before; 0: everything */
        uint64_t log_since; /* number of the last line that it has; 0: all */
        bool     with_log;
        /* Models that the page may not see are left out. NULL: it may see all. */
        bool (*sees)(void *owner, struct str model);
        void *owner; /* borrowed */
};

/* Puts JSON:
 *
 *     {"boot": 1700000000000, "seq": 7, "full": false, "window_ms": 1000, "period_s": 5,
 *      "server": {"now_ms": .., "uptime_ms": .., "cpu_us": .., "rss_bytes": .., "budget_used": ..,
 *                 "budget_max": .., "ports": [["http", connections, loops], ...]},
 *      "models": [[id, "name", "version", "state", "reason"], ...],
 *      "gone": [id, ...],
 *      "rows": [[id, ...], ...],
 *      "log": [[number, wall_ms, "warning", "file.c:12", "text"], ...]}
 *
 * "boot" is another one after a restart: then the page begins anew. With "full" true the answer has all
 * models, and the page forgets those that it had. A row has the numbers of the latest reading, in the
 * order of enum dashboard_number; a model without a row has zeros only. Without `with_log` "log" is
 * missing. */
struct error *dashboard_print(struct dashboard *d, const struct dashboard_question *q,
                              struct strbuf *out) NODISCARD;

/* Puts the history of a model, or of the server when `model` is empty:
 *
 *     {"period_s": 5, "end_ms": .., "samples": [[...] or 0, ...]}
 *
 * The samples are 180 at most, the oldest first, in the order of enum dashboard_sample or enum
 * server_sample; 0 stands for zeros only. NOT_FOUND when there is no such model. */
struct error *dashboard_print_history(struct dashboard *d, struct str model, struct str version,
                                      struct strbuf *out) NODISCARD;

/* What a row has, after the id. Requests, failures and so on are of the window. */
enum dashboard_number {
        DASHBOARD_REQUESTS, /* successful ones */
        DASHBOARD_FAILURES, /* four: other, backend, canceled, rejected */
        DASHBOARD_EXECUTIONS = DASHBOARD_FAILURES + 4,
        DASHBOARD_ROWS, /* of the executions */
        DASHBOARD_CACHE_HITS,
        DASHBOARD_CACHE_MISSES,
        DASHBOARD_PENDING,
        DASHBOARD_BUSY_PERMILLE, /* 1000: one instance all the time */
        DASHBOARD_INSTANCES,
        DASHBOARD_SEQUENCES,
        DASHBOARD_QUANTILES, /* in us: 50 %, 95 % and 99 % of request, queue, input, infer, output */
        DASHBOARD_TOTAL = DASHBOARD_QUANTILES + 15, /* since the load */
        DASHBOARD_TOTAL_FAILURES,
        DASHBOARD_MEANS, /* in ns, exact, of the window: of request, queue, input, infer, output */
        N_DASHBOARD_NUMBERS = DASHBOARD_MEANS + 5,
};

enum dashboard_sample {
        SAMPLE_REQUESTS,
        SAMPLE_FAILURES,
        SAMPLE_EXECUTIONS,
        SAMPLE_ROWS,
        SAMPLE_PENDING,
        SAMPLE_BUSY_PERMILLE,
        SAMPLE_SEQUENCES,
        SAMPLE_P50_US,
        SAMPLE_P95_US,
        SAMPLE_P99_US,
        SAMPLE_QUEUE_P95_US,
        SAMPLE_INFER_P95_US,
        N_DASHBOARD_SAMPLE,
};

enum server_sample {
        SERVER_SAMPLE_REQUESTS,
        SERVER_SAMPLE_FAILURES,
        SERVER_SAMPLE_CPU_PERMILLE, /* 1000: one core */
        SERVER_SAMPLE_RSS_KIB,
        SERVER_SAMPLE_CONNECTIONS,
        N_SERVER_SAMPLE,
};
