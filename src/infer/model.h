/* SPDX-License-Identifier: BSD-3-Clause */
/* One loaded version of a model, as requests, schedulers and statistics see it.
 *
 * Immutable after loading, but for its counters. Who loads models fills it in.
 *
 * Ownership.  Counted: requests and responses hold it, so that a version that was replaced lives
 * until its last request ended. The last model_unref() may happen anywhere (on an instance's own
 * thread, in a completion), so it only calls on_unused, which hands the model to whoever may
 * wait for its threads.
 */
#pragma once

#include "base/ref.h"
#include "base/siphash.h"
#include "config/model_config.h"
#include "config/model_io.h"
#include "infer/scheduler.h"
#include "observe/model_stats.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct labels;
struct model_generations;
struct response_cache;
struct state_plan;

struct model {
        struct ref  ref;
        const char *name;             /* owned by the loader, as all below */
        const char *namespace;        /* the path of its repository; "" without namespaces */
        const char            *label; /* for texts: "<namespace>::<name>", or the name */
        int64_t                version;
        struct model_config   *config;
        struct model_io_set   *io;
        struct labels         *labels; /* may be NULL */
        struct state_plan     *states; /* of its sequences; NULL: it has none */
        struct model_stats    *stats;
        struct scheduler      *scheduler;
        struct response_cache *cache;     /* borrowed: the server; NULL: answers are not kept */
        struct siphash_key     cache_key; /* of this load, so that a reload finds nothing old */
        _Atomic uint64_t cache_epoch;     /* of an ensemble: changes with the models of its steps */
        bool             is_decoupled;
        bool             has_next;           /* requests run on in other models: sched/chain.h */
        bool             may_be_unready;     /* its backend can say so of an instance */
        bool             needs_equal_shapes; /* see request_same_shape() */
        /* See infer/model_generations.h, which sets them. */
        struct model_generations *line;        /* ref; NULL until it serves */
        atomic_bool               is_routed;   /* a request may be for another load */
        atomic_bool               has_retired; /* another load, or none, begins sequences now */
        _Atomic uint64_t          n_in_flight; /* requests submitted and not yet released */
        void (*on_unused)(struct model *model);
        void *owner; /* the loader's */
};

static inline void model_ref(struct model *model) {
        ref_get(&model->ref);
}

/* No scheduler: it is still being loaded. */
static inline bool model_has_sequences(const struct model *model) {
        return model->scheduler != NULL && model->scheduler->sequences != NULL;
}

static inline void model_unref(struct model *model) {
        if (model != NULL && ref_put(&model->ref))
                model->on_unused(model);
}
