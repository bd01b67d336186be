/* SPDX-License-Identifier: BSD-3-Clause */
/* One loaded version of a model, as requests, schedulers and statistics see it.
 *
 * Immutable after loading, except for its counters. The model loader fills it in.
 *
 * Ownership.  Reference counted: requests and responses hold it, so that a replaced version lives
 * until its last request has ended. The last model_unref() may happen on any thread, even on a thread
 * of the model's own instance. So it only calls on_unused, which passes the model to the reaper: that
 * thread can wait for the model's threads.
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

struct gpus;
struct labels;
struct model_generations;
struct response_cache;
struct response_share;
struct state_specs;

struct model {
        struct ref  ref;
        const char *name;      /* owned by the loader, as are the following fields unless noted */
        const char *namespace; /* path of its repository; "" without namespaces */
        const char *label;     /* for log and error texts: "<namespace>::<name>", or the name */
        int64_t     version;
        uint64_t    loaded_at_s; /* when its load began, in seconds since the epoch */
        struct model_config   *config;
        struct model_io_set   *io;
        struct labels         *labels; /* may be NULL */
        struct state_specs    *states; /* implicit states of its sequences; NULL: none */
        struct model_stats    *stats;
        struct scheduler      *scheduler;
        struct gpus           *gpus;  /* borrowed from the server; NULL: there are none */
        struct response_cache *cache; /* borrowed from the server; NULL: answers are not cached */
        struct response_share *responses; /* borrowed from the server; NULL: not bounded */
        /* Differs for each load, so that a reloaded model finds no old entries in the cache. */
        struct siphash_key cache_key;
        _Atomic uint64_t   cache_epoch; /* for ensembles: changes with the models of the steps */
        bool               is_decoupled;
        /* A request may leave any input out, as long as their number is right: the program in the model
         * decides, as in the reference server. */
        bool counts_inputs;
        bool has_next;           /* requests continue in other models: pipeline/chain.h */
        bool may_be_unready;     /* its backend can report that an instance is not ready */
        bool needs_equal_shapes; /* see request_same_shape() */
        /* Its backend looks at the memory types of tensors: it says so, or all instance groups are KIND_GPU, or
         * KIND_MODEL where the backend does so there, too. */
        bool takes_device_memory;
        bool writes_device_memory; /* likewise of outputs alone */
        int  device; /* the one GPU of all its GPU instances; GPU_HOST: none; GPU_SEVERAL */
        /* Set by infer/model_generations.h. */
        struct model_generations *generations; /* ref; NULL until the model serves */
        /* Requests for this model go through model_generations_route(). */
        atomic_bool      needs_routing;
        atomic_bool      has_retired; /* it begins no more sequences */
        atomic_bool      has_left;    /* its last sequence has ended after that */
        atomic_bool      is_replaced; /* it was replaced or unloaded; it retires soon */
        atomic_bool      is_kept;     /* steps keep it for its sequences: pipeline/step_models.h */
        _Atomic uint64_t n_in_flight; /* requests submitted and not yet released */
        void (*on_unused)(struct model *model);
        /* Called when its last sequence has ended, for a model with is_kept. NULL: not needed. */
        void (*on_left)(struct model *model);
        void *owner; /* belongs to the loader */
};

static inline void model_ref(struct model *model) {
        ref_get(&model->ref);
}

/* False without a scheduler, while the model is still being loaded. */
static inline bool model_has_sequences(const struct model *model) {
        return model->scheduler != NULL && model->scheduler->sequences != NULL;
}

static inline void model_unref(struct model *model) {
        if (model != NULL && ref_put(&model->ref))
                model->on_unused(model);
}
