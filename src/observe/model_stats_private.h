/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs behind model_stats.h, shared by model_stats.c and the model_metrics files.
 *
 * Ownership.  A model_stats owns its shards and texts; a model_metrics lists the models whose metrics
 * are printed.
 * Threads.  The comments in each struct name the lock that guards it. Order of locks while printing:
 * the registry's, that of model_metrics, then one lock of a model at a time.
 */
#pragma once

#include "base/compiler.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/timer.h"
#include "observe/batch_table.h"
#include "observe/load_meter.h"
#include "observe/load_window.h"
#include "observe/memory_reports.h"
#include "observe/model_stats.h"
#include "observe/prometheus.h"

#include <assert.h>
#include <stdatomic.h>

/* Number of shards, a power of two. About as many threads as there are cores update at the same time;
 * with eight shards, most of them use different ones. */
#define N_SHARDS 8

/* The bounds of the latency buckets are 10 us * 2^k, up to 10.5 s. So a quantile is exact to a factor
 * of two, and the bucket of a duration is found by counting leading zeros. */
#define LATENCY_BASE_NS 10000
#define N_LATENCY_BOUNDS 21
/* The bounds of the batch size buckets are 2^k, up to 1024. */
#define N_BATCH_BOUNDS 11

enum phase { PHASE_REQUEST, PHASE_QUEUE, PHASE_INPUT, PHASE_INFER, PHASE_OUTPUT, N_PHASES };

enum stat {
        STAT_SUCCESS, /* cache hits included */
        STAT_INFERENCES,
        STAT_EXECUTIONS,
        STAT_EXECUTED_INFERENCES,
        STAT_CACHE_HIT,
        STAT_CACHE_HIT_NS,
        STAT_CACHE_MISS,
        STAT_CACHE_MISS_NS,
        STAT_FAIL, /* one value for each enum failure_reason */
        STAT_FAIL_NS = STAT_FAIL + N_FAILURE_REASONS,
        STAT_PHASE_NS, /* one value for each enum phase */
        N_STATS = STAT_PHASE_NS + N_PHASES,
};

/* All values that are summed up over the shards of a model. */
struct stats_sums {
        uint64_t values[N_STATS];
        uint64_t latency[N_PHASES][N_LATENCY_BOUNDS + 1];
        uint64_t batch[N_BATCH_BOUNDS + 1];
        uint64_t last_success_ns; /* monotonic; of the latest success */
};

struct stats_shard {
        struct mutex       lock; /* rank LOCK_METRIC; guards sums and batches */
        struct stats_sums  sums;
        struct batch_table batches;
        /* What the threads of this shard have counted; the value is the sum over all shards (`pending`
         * of one shard may be negative). Relaxed accesses. */
        _Atomic int64_t  pending;
        _Atomic uint64_t n_inline;
        _Atomic uint64_t n_queued;
};

/* A shard, padded to whole cache lines, so that threads of different shards share none. */
struct padded_shard {
        struct stats_shard shard;
        char padding[CACHE_LINE_BYTES - sizeof(struct stats_shard) % CACHE_LINE_BYTES];
};

/* What some of a model's instances count, and how it is labelled. */
struct stats_series {
        struct padded_shard *shards;        /* N_SHARDS, aligned, within shards_memory */
        void                *shards_memory; /* owned, as the texts that follow */
        char                *labels;        /* `{model="m",version="1"}` */
        char                *failure_labels[N_FAILURE_REASONS]; /* with reason="…" */
        int                  device;                            /* of a GPU's series */
};

/* Responses of decoupled models. One lock is enough, since a response costs far more than taking it. */
struct stats_responses {
        struct mutex lock; /* rank LOCK_METRIC; guards everything below */
        struct response_stats
                 *items; /* owned; item i is response i, all zero when there was none */
        size_t    n;
        double   *first_bounds_ms; /* owned; never changes */
        size_t    n_first_bounds;
        uint64_t *first_counts; /* owned; n_first_bounds + 1 */
        uint64_t  first_sum_ns;
};

/* One traced request for each bucket of neso_request_duration_seconds. Only traced requests use it. */
struct stats_exemplars {
        struct mutex lock; /* rank LOCK_METRIC; guards the pointer and what it refers to */
        struct prometheus_exemplar
                *items; /* owned; N_LATENCY_BOUNDS + 1; NULL before the first one */
};

/* What load_meter.h measures of one model. */
struct model_load {
        struct list_node
                    node; /* in the meter's `measured`, or not linked; guarded, as the next ones */
        struct list sources;      /* struct load_source, borrowed */
        struct load_reading gone; /* sums of sources that were removed */
        struct load_window  window;
        atomic_bool         is_measured; /* has had a source: the metrics are printed */
        _Atomic double      ratio;
        _Atomic uint64_t    oldest_age_ns;
};

struct model_stats {
        struct list_node      node;    /* in metrics->shown, or not linked */
        struct model_metrics *metrics; /* borrowed: outlives its models */
        bool                  has_cache;
        bool                  is_decoupled;
        double                load_secs;      /* guarded by the lock of model_metrics */
        char                 *path_labels[2]; /* owned; with path="…": inline, queued */

        struct batch_counts    *batching;  /* owned; NULL: the model has no batches */
        struct sequence_counts *sequences; /* owned; NULL: the model has none */
        char                   *ended_labels[N_SEQUENCE_REASONS]; /* with reason="…" */
        char                   *slot_labels[2];                   /* with state="…": used, free */

        struct model_load load;

        struct stats_series    own;    /* all that no instance on a GPU counts */
        struct stats_series   *on_gpu; /* owned; one for each GPU with instances */
        size_t                 n_gpus;
        struct stats_responses responses;
        struct stats_exemplars exemplars;
        _Atomic uint64_t       wall_offset_ns; /* wall clock - monotonic clock */

        struct memory_reports *memory; /* borrowed; NULL: none */
};

static_assert(sizeof(struct padded_shard) % CACHE_LINE_BYTES == 0, "shards keep the alignment");

struct load_meter {
        struct mutex         lock;     /* rank LOCK_LOAD_METER; guards everything below */
        struct list          measured; /* struct model_load, borrowed: models with a source */
        struct timer_thread *timers;   /* borrowed; NULL: no timer */
        struct timer         timer;
        bool                 is_armed;
        uint64_t             scraped_ns; /* time of the last scrape */
};

void load_meter_init(struct load_meter *meter);
void load_meter_done(struct load_meter *meter);

struct model_metrics {
        struct model_metrics_options options;
        struct metric_registry      *registry;  /* borrowed */
        struct metric_collector     *collector; /* owned */
        struct mutex                 lock;      /* rank LOCK_MODEL_METRICS; guards shown */
        struct list                  shown;     /* struct model_stats, in order of loading */
        struct load_meter            meter;
};

void stats_sums_add(struct stats_sums *to, const struct stats_sums *more);
/* Adds the shards of a series to the sums. */
void stats_series_add(struct stats_series *s, struct stats_sums *to);
/* Copies N_LATENCY_BOUNDS + 1 exemplars; returns false when there is none. */
bool     model_stats_get_exemplars(struct model_stats *s, struct prometheus_exemplar *ret);
uint64_t model_stats_get_pending(struct model_stats *s);
uint64_t model_stats_get_path(struct model_stats *s, bool was_inline);

/* A metric_collect_fn: writes the families of all models in the model_metrics `owner`. */
void model_metrics_print(void *owner, struct strbuf *out);
