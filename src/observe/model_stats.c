/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/model_stats.h"

#include "base/clock.h"
#include "base/mem.h"
#include "observe/model_stats_private.h"

#include <string.h>

/* Statistics are kept for this many responses of a request, by index; later responses are not counted. */
#define MAX_RESPONSES 4096
#define FIRST_RESPONSES 4

/* A larger change of the difference between wall clock and monotonic clock means that the wall clock
 * was set. Slow corrections (slewing) change both clocks alike. */
#define MAX_WALL_DRIFT_NS (100 * NS_PER_MS)

static _Atomic unsigned                 n_threads;
static _Thread_local TLS_EARLY unsigned thread_number; /* 1, 2, … in order of first use */

static NOINLINE unsigned number_thread(void) {
        thread_number = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) + 1;
        return thread_number;
}

static inline struct stats_shard *own_shard(struct stats_series *s) {
        unsigned number = thread_number;

        if (number == 0)
                number = number_thread();
        return &s->shards[number % N_SHARDS].shard;
}

static inline uint64_t since(uint64_t start_ns, uint64_t end_ns) {
        return end_ns > start_ns ? end_ns - start_ns : 0;
}

/* Index of the first bound that is not below `value`; the bounds are base * 2^k for k = 0 to n_bounds
 * - 1. */
static inline unsigned power_bucket(uint64_t value, uint64_t base, unsigned n_bounds) {
        uint64_t whole = (value - (value > 0)) / base;
        unsigned n_bits = whole == 0 ? 0 : 64 - (unsigned)__builtin_clzll(whole);

        return MIN(n_bits, n_bounds);
}

static inline void add_phase(struct stats_sums *sums, enum phase phase, uint64_t ns) {
        sums->values[STAT_PHASE_NS + phase] += ns;
        sums->latency[phase][power_bucket(ns, LATENCY_BASE_NS, N_LATENCY_BOUNDS)]++;
}

static inline void add_success(struct stats_sums *sums, const struct request_times *t) {
        sums->values[STAT_SUCCESS]++;
        add_phase(sums, PHASE_REQUEST, since(t->request_start_ns, t->request_end_ns));
        add_phase(sums, PHASE_QUEUE, since(t->queue_start_ns, t->exec_start_ns));
        if (t->request_end_ns > sums->last_success_ns)
                sums->last_success_ns = t->request_end_ns;
}

void compute_sums_add(struct compute_sums *sums, const struct request_times *t) {
        sums->input_ns += since(t->exec_start_ns, t->compute_start_ns);
        sums->infer_ns += since(t->compute_start_ns, t->compute_end_ns);
        sums->output_ns += since(t->compute_end_ns, t->exec_end_ns);
}

void compute_sums_merge(struct compute_sums *to, const struct compute_sums *more) {
        to->input_ns += more->input_ns;
        to->infer_ns += more->infer_ns;
        to->output_ns += more->output_ns;
}

void compute_sums_to_times(const struct compute_sums *sums, uint64_t start_ns,
                           struct request_times *t) {
        t->exec_start_ns = start_ns;
        t->compute_start_ns = start_ns + sums->input_ns;
        t->compute_end_ns = t->compute_start_ns + sums->infer_ns;
        t->exec_end_ns = t->compute_end_ns + sums->output_ns;
}

static void add_request(struct stats_sums *sums, const struct request_times *t, uint64_t n_rows) {
        add_success(sums, t);
        sums->values[STAT_INFERENCES] += n_rows;
        add_phase(sums, PHASE_INPUT, since(t->exec_start_ns, t->compute_start_ns));
        add_phase(sums, PHASE_INFER, since(t->compute_start_ns, t->compute_end_ns));
        add_phase(sums, PHASE_OUTPUT, since(t->compute_end_ns, t->exec_end_ns));
}

static void add_one(struct stats_pair *to, uint64_t ns) {
        to->count++;
        to->ns += ns;
}

static void add_execution(struct stats_shard *shard, const struct request_times *t,
                          uint64_t n_rows) {
        struct batch_stats *item = batch_table_at(&shard->batches, n_rows);

        shard->sums.values[STAT_EXECUTIONS]++;
        shard->sums.values[STAT_EXECUTED_INFERENCES] += n_rows;
        shard->sums.batch[power_bucket(n_rows, 1, N_BATCH_BOUNDS)]++;
        if (item == NULL)
                return; /* the table is full, or memory is short */
        add_one(&item->compute_input, since(t->exec_start_ns, t->compute_start_ns));
        add_one(&item->compute_infer, since(t->compute_start_ns, t->compute_end_ns));
        add_one(&item->compute_output, since(t->compute_end_ns, t->exec_end_ns));
}

struct stats_series *model_stats_series(struct model_stats *s, int device) {
        for (size_t i = 0; i < s->n_gpus; i++)
                if (s->on_gpu[i].device == device)
                        return &s->on_gpu[i];
        return &s->own;
}

void stats_series_success(struct stats_series *s, const struct request_times *t, uint64_t n_rows) {
        struct stats_shard *shard = own_shard(s);

        MUTEX_GUARD(&shard->lock);
        add_request(&shard->sums, t, n_rows);
}

void model_stats_success(struct model_stats *s, const struct request_times *t, uint64_t n_rows) {
        stats_series_success(&s->own, t, n_rows);
}

void model_stats_exemplar(struct model_stats *s, const struct request_times *t,
                          const char *trace_id) {
        uint64_t                   ns = since(t->request_start_ns, t->request_end_ns);
        struct prometheus_exemplar one = { .value = (double)ns / (double)NS_PER_S,
                                           .wall_ns = clock_wall_ns() };

        if (strlen(trace_id) >= sizeof(one.trace_id))
                return;
        strcpy(one.trace_id, trace_id);
        MUTEX_GUARD(&s->exemplars.lock);
        if (s->exemplars.items == NULL)
                s->exemplars.items = try_zalloc((N_LATENCY_BOUNDS + 1) * sizeof(one));
        if (s->exemplars.items != NULL)
                s->exemplars.items[power_bucket(ns, LATENCY_BASE_NS, N_LATENCY_BOUNDS)] = one;
}

void stats_series_failure(struct stats_series *s, enum failure_reason why, uint64_t duration_ns) {
        struct stats_shard *shard = own_shard(s);

        MUTEX_GUARD(&shard->lock);
        shard->sums.values[STAT_FAIL + why]++;
        shard->sums.values[STAT_FAIL_NS] += duration_ns;
}

void model_stats_failure(struct model_stats *s, enum failure_reason why, uint64_t duration_ns) {
        stats_series_failure(&s->own, why, duration_ns);
}

void stats_series_execution(struct stats_series *s, uint64_t n_rows,
                            const struct request_times *t) {
        struct stats_shard *shard = own_shard(s);

        MUTEX_GUARD(&shard->lock);
        add_execution(shard, t, n_rows);
}

void model_stats_execution(struct model_stats *s, uint64_t n_rows, const struct request_times *t) {
        stats_series_execution(&s->own, n_rows, t);
}

void model_stats_composed(struct model_stats *s, const struct request_times *t, uint64_t n_rows) {
        struct stats_shard *shard = own_shard(&s->own);

        MUTEX_GUARD(&shard->lock);
        add_request(&shard->sums, t, n_rows);
        add_execution(shard, t, n_rows);
}

void model_stats_cache_hit(struct model_stats *s, const struct request_times *t,
                           uint64_t lookup_ns) {
        struct stats_shard *shard = own_shard(&s->own);

        MUTEX_GUARD(&shard->lock);
        add_success(&shard->sums, t);
        shard->sums.values[STAT_CACHE_HIT]++;
        shard->sums.values[STAT_CACHE_HIT_NS] += lookup_ns;
}

void model_stats_cache_miss(struct model_stats *s, uint64_t lookup_insert_ns) {
        struct stats_shard *shard = own_shard(&s->own);

        MUTEX_GUARD(&shard->lock);
        shard->sums.values[STAT_CACHE_MISS]++;
        shard->sums.values[STAT_CACHE_MISS_NS] += lookup_insert_ns;
}

void model_stats_pending(struct model_stats *s, int change) {
        atomic_fetch_add_explicit(&own_shard(&s->own)->pending, change, memory_order_relaxed);
}

void model_stats_path(struct model_stats *s, bool was_inline) {
        struct stats_shard *shard = own_shard(&s->own);

        atomic_fetch_add_explicit(was_inline ? &shard->n_inline : &shard->n_queued, 1,
                                  memory_order_relaxed);
}

static struct response_stats *response_at_locked(struct stats_responses *r, uint32_t index) {
        struct response_stats *items;
        size_t                 n = MAX(FIRST_RESPONSES, r->n);

        if (index < r->n)
                return &r->items[index];
        if (index >= MAX_RESPONSES)
                return NULL;
        while (n <= index)
                n *= 2;
        items = try_realloc(r->items, n * sizeof(*items));
        if (items == NULL)
                return NULL;
        memset(&items[r->n], 0, (n - r->n) * sizeof(*items));
        r->items = items;
        r->n = n;
        return &items[index];
}

void model_stats_response(struct model_stats *s, uint32_t index, enum response_outcome outcome,
                          uint64_t compute_infer_ns, uint64_t compute_output_ns) {
        struct response_stats *item;
        uint64_t               all_ns = compute_infer_ns + compute_output_ns;

        MUTEX_GUARD(&s->responses.lock);
        item = response_at_locked(&s->responses, index);
        if (item == NULL)
                return;
        /* As in the reference server: an output phase counts only for responses with outputs. */
        if (outcome != RESPONSE_CANCEL)
                add_one(&item->compute_infer, compute_infer_ns);
        if (outcome == RESPONSE_SUCCESS || (outcome == RESPONSE_FAIL && compute_output_ns > 0))
                add_one(&item->compute_output, compute_output_ns);
        switch (outcome) {
        case RESPONSE_SUCCESS: add_one(&item->success, all_ns); break;
        case RESPONSE_FAIL: add_one(&item->fail, all_ns); break;
        case RESPONSE_EMPTY: add_one(&item->empty_response, all_ns); break;
        case RESPONSE_CANCEL: add_one(&item->cancel, all_ns); break;
        }
}

void model_stats_first_response(struct model_stats *s, uint64_t since_start_ns) {
        struct stats_responses *r = &s->responses;
        double                  ms = (double)since_start_ns / (double)NS_PER_MS;
        size_t                  at = 0;

        MUTEX_GUARD(&r->lock);
        while (at < r->n_first_bounds && ms > r->first_bounds_ms[at])
                at++;
        r->first_counts[at]++;
        r->first_sum_ns += since_start_ns;
}

static void add_all(uint64_t *to, const uint64_t *more, size_t n) {
        for (size_t i = 0; i < n; i++)
                to[i] += more[i];
}

void stats_sums_add(struct stats_sums *to, const struct stats_sums *more) {
        add_all(to->values, more->values, N_STATS);
        for (int phase = 0; phase < N_PHASES; phase++)
                add_all(to->latency[phase], more->latency[phase], N_LATENCY_BOUNDS + 1);
        add_all(to->batch, more->batch, N_BATCH_BOUNDS + 1);
        to->last_success_ns = MAX(to->last_success_ns, more->last_success_ns);
}

void stats_series_add(struct stats_series *s, struct stats_sums *to) {
        for (size_t i = 0; i < N_SHARDS; i++) {
                MUTEX_GUARD(&s->shards[i].shard.lock);
                stats_sums_add(to, &s->shards[i].shard.sums);
        }
}

bool model_stats_get_exemplars(struct model_stats *s, struct prometheus_exemplar *ret) {
        MUTEX_GUARD(&s->exemplars.lock);
        if (s->exemplars.items == NULL)
                return false;
        memcpy(ret, s->exemplars.items, (N_LATENCY_BOUNDS + 1) * sizeof(*ret));
        return true;
}

/* The shards are read one after the other, so a request's -1 may be read without its +1; a negative
 * sum is reported as 0. */
uint64_t model_stats_get_pending(struct model_stats *s) {
        int64_t sum = 0;

        for (size_t i = 0; i < N_SHARDS; i++)
                sum += atomic_load_explicit(&s->own.shards[i].shard.pending, memory_order_relaxed);
        return sum > 0 ? (uint64_t)sum : 0;
}

uint64_t model_stats_get_path(struct model_stats *s, bool was_inline) {
        uint64_t sum = 0;

        for (size_t i = 0; i < N_SHARDS; i++) {
                struct stats_shard *shard = &s->own.shards[i].shard;

                sum += atomic_load_explicit(was_inline ? &shard->n_inline : &shard->n_queued,
                                            memory_order_relaxed);
        }
        return sum;
}

/* Converts a monotonic time to milliseconds since the epoch. Keeps the offset between the clocks, so
 * that the same time always gives the same millisecond. */
static uint64_t wall_ms(struct model_stats *s, uint64_t monotonic_ns) {
        uint64_t now = clock_wall_ns() - clock_now_ns();
        uint64_t kept = atomic_load_explicit(&s->wall_offset_ns, memory_order_relaxed);

        if (MAX(now, kept) - MIN(now, kept) > MAX_WALL_DRIFT_NS) {
                kept = now;
                atomic_store_explicit(&s->wall_offset_ns, kept, memory_order_relaxed);
        }
        return (monotonic_ns + kept) / NS_PER_MS;
}

static void add_batches(struct stats_series *s, struct batch_table *to) {
        for (size_t i = 0; i < N_SHARDS; i++) {
                struct stats_shard *shard = &s->shards[i].shard;

                MUTEX_GUARD(&shard->lock);
                for (size_t k = 0; k < shard->batches.n; k++)
                        batch_table_add(to, &shard->batches.items[k]);
        }
}

static void read_batches(struct model_stats *s, struct model_stats_snapshot *ret) {
        struct batch_table all = { 0 };

        add_batches(&s->own, &all);
        for (size_t i = 0; i < s->n_gpus; i++)
                add_batches(&s->on_gpu[i], &all);
        ret->batches = all.items;
        ret->n_batches = all.n;
}

static bool was_seen(const struct response_stats *item) {
        return item->success.count + item->fail.count + item->empty_response.count +
                       item->cancel.count >
               0;
}

static void read_responses(struct model_stats *s, struct model_stats_snapshot *ret) {
        struct stats_responses *r = &s->responses;

        MUTEX_GUARD(&r->lock);
        if (r->n == 0)
                return;
        ret->responses = mem_alloc(r->n * sizeof(*ret->responses)); /* n <= MAX_RESPONSES */
        for (size_t i = 0; i < r->n; i++) {
                if (!was_seen(&r->items[i]))
                        continue;
                ret->responses[ret->n_responses] = r->items[i];
                ret->responses[ret->n_responses++].index = (uint32_t)i;
        }
}

static void read_sums(struct model_stats *s, struct model_stats_snapshot *ret) {
        struct stats_sums sums = { 0 };
        const uint64_t   *values = sums.values, *phase_ns = &sums.values[STAT_PHASE_NS];
        uint64_t          n_computed;

        stats_series_add(&s->own, &sums);
        for (size_t i = 0; i < s->n_gpus; i++)
                stats_series_add(&s->on_gpu[i], &sums);
        n_computed = values[STAT_SUCCESS] - values[STAT_CACHE_HIT];
        *ret = (struct model_stats_snapshot){
                .inference_count = values[STAT_INFERENCES],
                .execution_count = values[STAT_EXECUTIONS],
                .success = { values[STAT_SUCCESS], phase_ns[PHASE_REQUEST] },
                .fail = { 0, values[STAT_FAIL_NS] },
                .queue = { values[STAT_SUCCESS], phase_ns[PHASE_QUEUE] },
                .compute_input = { n_computed, phase_ns[PHASE_INPUT] },
                .compute_infer = { n_computed, phase_ns[PHASE_INFER] },
                .compute_output = { n_computed, phase_ns[PHASE_OUTPUT] },
                .cache_hit = { values[STAT_CACHE_HIT], values[STAT_CACHE_HIT_NS] },
                .cache_miss = { values[STAT_CACHE_MISS], values[STAT_CACHE_MISS_NS] },
        };
        for (int why = 0; why < N_FAILURE_REASONS; why++)
                ret->fail.count += values[STAT_FAIL + why];
        if (values[STAT_SUCCESS] > 0)
                ret->last_inference_ms = wall_ms(s, sums.last_success_ns);
}

void model_stats_read(struct model_stats *s, struct model_stats_snapshot *ret) {
        read_sums(s, ret);
        read_batches(s, ret);
        read_responses(s, ret);
        if (s->memory != NULL)
                ret->memory = memory_reports_sum(s->memory, &ret->n_memory);
}

void model_stats_snapshot_done(struct model_stats_snapshot *snapshot) {
        free(snapshot->batches);
        free(snapshot->responses);
        free(snapshot->memory);
        *snapshot = (struct model_stats_snapshot){ 0 };
}
