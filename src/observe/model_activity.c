/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/model_activity.h"

#include "observe/model_stats_private.h"

static_assert((int)ACTIVITY_FAILURES == (int)N_FAILURE_REASONS, "one count for each reason");
static_assert((int)ACTIVITY_PHASES == (int)N_PHASES, "one histogram for each phase");
static_assert(ACTIVITY_BUCKETS == N_LATENCY_BOUNDS + 1, "the same buckets");

static uint64_t busy_ns_locked(const struct stats_shard *shard) {
        uint64_t sum = 0;

        for (size_t i = 0; i < shard->batches.n; i++) {
                const struct batch_stats *b = &shard->batches.items[i];

                sum += b->compute_input.ns + b->compute_infer.ns + b->compute_output.ns;
        }
        return sum;
}

static void add_latencies(struct model_activity *to, const struct stats_sums *sums) {
        for (size_t phase = 0; phase < N_PHASES; phase++) {
                to->phase_ns[phase] += sums->values[STAT_PHASE_NS + phase];
                for (size_t k = 0; k < ACTIVITY_BUCKETS; k++)
                        to->latency[phase][k] += sums->latency[phase][k];
        }
}

static void add_shard_locked(struct model_activity *to, const struct stats_shard *shard) {
        const uint64_t *values = shard->sums.values;

        to->success += values[STAT_SUCCESS];
        for (int why = 0; why < N_FAILURE_REASONS; why++)
                to->failures[why] += values[STAT_FAIL + why];
        to->inferences += values[STAT_INFERENCES];
        to->executions += values[STAT_EXECUTIONS];
        to->executed_inferences += values[STAT_EXECUTED_INFERENCES];
        to->cache_hits += values[STAT_CACHE_HIT];
        to->cache_misses += values[STAT_CACHE_MISS];
        to->busy_ns += busy_ns_locked(shard);
        /* Durations are counted with a success: so most shards of most models are read quickly. */
        if (values[STAT_SUCCESS] > 0)
                add_latencies(to, &shard->sums);
}

static uint64_t count_sequences(const struct sequence_counts *c) {
        if (c == NULL)
                return 0;
        return atomic_load_explicit(&c->n_active, memory_order_relaxed) +
               atomic_load_explicit(&c->n_backlog, memory_order_relaxed);
}

static void add_series(struct model_activity *to, struct stats_series *s) {
        for (size_t i = 0; i < N_SHARDS; i++) {
                struct stats_shard *shard = &s->shards[i].shard;

                MUTEX_GUARD(&shard->lock);
                add_shard_locked(to, shard);
        }
}

void model_activity_read(struct model_stats *s, struct model_activity *ret) {
        *ret = (struct model_activity){ .pending = model_stats_get_pending(s),
                                        .n_sequences = count_sequences(s->sequences) };
        add_series(ret, &s->own);
        for (size_t i = 0; i < s->n_gpus; i++)
                add_series(ret, &s->on_gpu[i]);
}
