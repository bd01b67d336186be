/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of one model version: counts, durations, batch sizes, latency histograms.
 *
 * Each thread updates one of a few shards, so their mutexes (rank LOCK_METRIC) are rarely contended;
 * readers add the shards up. The statistics extension (JSON), the nv_inference_* families and the
 * neso_* histograms use the same numbers.
 *
 * Ownership.  The model owns its model_stats. A model_metrics lists those whose metrics are printed.
 * Threads.  Any.
 */
#pragma once

#include "observe/metric.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The models of a server whose metrics are printed, in order of loading. */
struct model_metrics;
struct batch_counts;
struct model_stats;
/* The part of a model's statistics that its instances on one GPU count, or the part that all others do.
 * The statistics extension and the histograms add the parts up; the counters of GET /metrics have a
 * series for each, with the label gpu_uuid for a GPU. */
struct stats_series;

enum failure_reason {
        FAILURE_OTHER,
        FAILURE_BACKEND,
        FAILURE_CANCELED,
        FAILURE_REJECTED,
        N_FAILURE_REASONS
};

/* Times of one request, in monotonic nanoseconds. The backend reports the four from exec_start_ns to
 * exec_end_ns. */
struct request_times {
        uint64_t request_start_ns;
        uint64_t queue_start_ns;
        uint64_t exec_start_ns;    /* compute start: the backend starts to prepare the inputs */
        uint64_t compute_start_ns; /* inputs ready */
        uint64_t compute_end_ns;   /* outputs computed */
        uint64_t exec_end_ns;      /* outputs delivered */
        uint64_t request_end_ns;
};

/* Sums of the compute durations of the steps of a composed model's request. One owner at a time: steps
 * that run concurrently have separate sums, which are merged. */
struct compute_sums {
        uint64_t input_ns, infer_ns, output_ns;
};

void compute_sums_add(struct compute_sums *sums, const struct request_times *t);
void compute_sums_merge(struct compute_sums *to, const struct compute_sums *more);
/* Sets exec_start_ns to exec_end_ns of `t` as if the phases had run one after the other from
 * `start_ns` on. */
void compute_sums_to_times(const struct compute_sums *sums, uint64_t start_ns,
                           struct request_times *t);

struct stats_gpu {
        int         device;
        const char *uuid;
};

struct model_stats_options {
        const char *model;
        const char *namespace; /* NULL or "": no label */
        int64_t                    version;
        const struct stats_gpu    *gpus; /* on which it has instances; borrowed for the call */
        size_t                     n_gpus;
        const struct metric_label *tags; /* metric_tags of the configuration */
        size_t                     n_tags;
        bool                       has_cache; /* the families of the response cache are printed */
        bool                       is_decoupled;  /* response_stats, first-response histogram */
        bool                       has_sequences; /* families of sequences are printed */
        bool                       has_batches;   /* families of batching are printed */
        struct memory_reports     *memory; /* borrowed: while the statistics are read; NULL: none */
        /* Bounds in ms of nv_inference_first_response_histogram_ms (model configuration:
         * model_metrics), ascending; NULL: 100, 500, 2000, 5000. */
        const double *first_response_ms;
        size_t        n_first_response_ms;
};

/* Options of --metrics-config and --allow-metrics. */
struct model_metrics_options {
        bool counter_latencies; /* default true */
        bool summary_latencies; /* not supported yet */
        bool histogram_latencies;
};

struct model_metrics *model_metrics_new(struct metric_registry             *r,
                                        const struct model_metrics_options *o);
void                  model_metrics_free(struct model_metrics *metrics);

struct model_stats *model_stats_new(struct model_metrics             *metrics,
                                    const struct model_stats_options *o);
void                model_stats_free(struct model_stats *s);
/* The labels of the model's metrics, as text: `{model="m",version="1"}`. */
const char *model_stats_labels(const struct model_stats *s);
/* _show() lists the model in its model_metrics, to be called after it was loaded; _hide() removes it. */
void model_stats_show(struct model_stats *s, double load_secs);
void model_stats_hide(struct model_stats *s);

/* The series of the GPU; of a device that is none of the model's GPUs, that of all other instances. */
struct stats_series *model_stats_series(struct model_stats *s, int device);
/* As model_stats_success(), model_stats_failure() and model_stats_execution(), which count what no
 * instance on a GPU does. */
void stats_series_success(struct stats_series *s, const struct request_times *t, uint64_t n_rows);
void stats_series_failure(struct stats_series *s, enum failure_reason why, uint64_t duration_ns);
void stats_series_execution(struct stats_series *s, uint64_t n_rows, const struct request_times *t);

/* Counts one successful request of `n_rows` rows (inferences, in the terms of the protocol). */
void model_stats_success(struct model_stats *s, const struct request_times *t, uint64_t n_rows);
/* Keeps a traced request that model_stats_success(), _composed() or _cache_hit() counts as the exemplar
 * of its bucket of neso_request_duration_seconds, in place of an earlier one. The id is copied; one that
 * is longer than 32 characters is not kept. */
void model_stats_exemplar(struct model_stats *s, const struct request_times *t,
                          const char *trace_id);
/* Counts a failed request; request_end - request_start is added to "fail". */
void model_stats_failure(struct model_stats *s, enum failure_reason why, uint64_t duration_ns);
/* Counts one execution of `n_rows` rows. At most 4096 different sizes are counted separately. */
void model_stats_execution(struct model_stats *s, uint64_t n_rows, const struct request_times *t);
/* Counts a successful request of a composed model, and one execution with it, since composed models
 * form no batches. */
void model_stats_composed(struct model_stats *s, const struct request_times *t, uint64_t n_rows);
void model_stats_cache_hit(struct model_stats *s, const struct request_times *t,
                           uint64_t lookup_ns);
void model_stats_cache_miss(struct model_stats *s, uint64_t lookup_insert_ns);
/* Adds `change` to the number of pending requests: +1 when a request is queued, -1 when it leaves the
 * queue. */
void model_stats_pending(struct model_stats *s, int change);
/* Counts one execution: on the submitting thread (true), or on another thread (false). */
void model_stats_path(struct model_stats *s, bool was_inline);

/* Counters of a model's sequences. The scheduler writes them, GET /metrics reads them. */
enum { N_SEQUENCE_REASONS = 4 };
struct sequence_counts {
        _Atomic uint64_t n_active;  /* sequences with a slot */
        _Atomic uint64_t n_backlog; /* sequences without one */
        _Atomic uint64_t n_slots;
        _Atomic uint64_t n_started;
        _Atomic uint64_t n_ended[N_SEQUENCE_REASONS]; /* by reason: end, idle, cancelled, timeout */
};

/* NULL without has_batches. */
struct batch_counts *model_stats_batches(struct model_stats *s);

/* NULL without has_sequences. */
struct sequence_counts *model_stats_sequences(struct model_stats *s);

/* Decoupled models: counts the index-th response (0, 1, …) of a request; those from 4096 on are
 * ignored. */
enum response_outcome { RESPONSE_SUCCESS, RESPONSE_FAIL, RESPONSE_EMPTY, RESPONSE_CANCEL };
void model_stats_response(struct model_stats *s, uint32_t index, enum response_outcome outcome,
                          uint64_t compute_infer_ns, uint64_t compute_output_ns);

/* Counts the first response of a request of a decoupled model, sent `since_start_ns` after the start. */
void model_stats_first_response(struct model_stats *s, uint64_t since_start_ns);

struct stats_pair {
        uint64_t count;
        uint64_t ns;
};

struct batch_stats {
        uint64_t          batch_size;
        struct stats_pair compute_input, compute_infer, compute_output;
};

struct response_stats {
        uint32_t          index;
        struct stats_pair compute_infer, compute_output, success, fail, empty_response, cancel;
};

/* The sums at one point in time, as the statistics extension reports them. */
struct model_stats_snapshot {
        uint64_t               inference_count;
        uint64_t               execution_count;
        uint64_t               last_inference_ms; /* since the epoch; 0 = never */
        struct stats_pair      success, fail, queue, compute_input, compute_infer, compute_output;
        struct stats_pair      cache_hit, cache_miss;
        struct batch_stats    *batches; /* owned; ascending batch size */
        size_t                 n_batches;
        struct response_stats *responses; /* owned; ascending index */
        size_t                 n_responses;
        struct memory_usage   *memory; /* owned */
        size_t                 n_memory;
};

void model_stats_read(struct model_stats *s, struct model_stats_snapshot *ret);
void model_stats_snapshot_done(struct model_stats_snapshot *snapshot);
