/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a repository: the objects and settings of the server that a load uses. All are
 * borrowed and outlive the repository.
 *
 * Threads.  Constant after repo_new().
 */
#pragma once

#include "sched/adaptive.h"

#include <stdatomic.h>
#include <stdbool.h>

struct agent_registry;
struct backend_registry;
struct byte_budget;
struct gpus;
struct host_policies;
struct metric_registry;
struct model;
struct model_key;
struct model_need;
struct event_source;
struct override_store;
struct rate_limiter;
struct reaper;
struct response_cache;
struct response_share;
struct model_metrics;
struct step_memory;
struct timer_thread;

struct repo_environment {
        struct backend_registry *backends;
        struct agent_registry   *agents;
        struct gpus             *gpus;                   /* NULL: there are none */
        double                   min_compute_capability; /* of these GPUs */
        struct model_metrics    *model_metrics;
        struct metric_registry  *metrics; /* for chains and scheduler libraries; NULL: no metrics */
        struct timer_thread     *timers;
        struct reaper           *reaper;
        struct response_cache   *cache;               /* NULL = none */
        struct host_policies    *policies;            /* NULL = none */
        struct byte_budget      *state_memory;        /* for states of sequences, and for what large
                                                       * configurations hold; NULL: no limit */
        struct byte_budget      *warmup_memory;       /* for warm-ups; NULL: no limit */
        struct step_memory      *step_memory;         /* of ensembles and chains */
        struct response_share   *responses;           /* of decoupled models */
        struct rate_limiter     *limiter;             /* NULL: executions are not limited */
        enum adaptive_mode       adaptive;            /* default of models */
        const char              *scheduler;           /* default of models; "" = the built-in one */
        const char              *scheduler_directory; /* "" = none */
        struct event_source     *ready;         /* published after changes of states; NULL = none */
        void                    *server;        /* TRITONSERVER_Server, for backends */
        bool                     auto_complete; /* configurations may be absent or partial */
        bool                     allows_uploaded_code; /* uploaded files may be executed */
        struct override_store   *places;               /* set by the repository; for agents */
        const char              *config_name;          /* --model-config-name; "" = config.pbtxt */
        /* Set by the repository: warm-ups end with an error. */
        const atomic_bool *ends_warmups;
        /* Called on the reaper's thread when a model has ended; only its name, version and address
         * are left. May be NULL. */
        void (*on_ended)(void *owner, const struct model *model);
        /* Returns the model of a step: a new reference, or NULL when it is not ready. NULL: models
         * that need others cannot be loaded. */
        struct model *(*find_step)(void *owner, const struct model_key *user,
                                   const struct model_need *need);
        /* Called on any thread, with no lock held, when the last sequence of a replaced model has
         * ended that composed models keep. */
        void (*on_left)(void *owner);
        void *owner; /* the repository */
};
