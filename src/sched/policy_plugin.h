/* SPDX-License-Identifier: BSD-3-Clause */
/* A policy whose decisions are made by a plug-in (include/triton/core/neso_scheduler.h).
 *
 * The engine's events become calls of the plug-in; what it asks for in such a call is checked at once.
 * Rows that it dispatches leave the queue and are assigned to their instance (policy_assign()), and
 * decide() hands them to the engine. With a rate limiter they wait there for the instance's turn. So a
 * plug-in never waits, and never holds a request: as long as it does not dispatch or reject them, they
 * are in the engine's queue, where they can be cancelled, time out, or be served by the built-in policy
 * when the plug-in is given up.
 *
 *     USED --items wait, a member is free, no timer: 1 s--> GIVEN UP: the built-in policy decides
 *       '---instances change: fini(), init(), all that waits is announced again; an error of init: ^
 *
 * Ownership.  The policy owns the library and the built-in policy.
 * Threads.  As every policy: the engine's lock.
 */
#pragma once

#include "base/error.h"
#include "sched/plugin_library.h"
#include "sched/policy.h"

#include <stdint.h>

struct dl;
struct executor;
struct metric_registry;
struct model;

#define PLUGIN_STALL_NS UINT64_C(1000000000)
#define PLUGIN_GRACE_NS UINT64_C(5000000000)

struct policy_plugin_options {
        const struct model     *model;     /* borrowed: outlives the policy */
        struct executor       **executors; /* borrowed for the call; passive ones are no members */
        uint32_t                n_executors;
        struct batching_config *batching;       /* taken: moved out of */
        struct policy          *builtin;        /* taken, also on error */
        struct metric_registry *metrics;        /* borrowed; NULL: nothing is counted */
        struct dl              *library;        /* taken, also on error; NULL: it is the test's */
        const sched_vtbl       *functions;      /* of it */
        const struct plugin_init *init;         /* borrowed for the call */
        bool                      may_split;    /* requests may run in parts */
        bool                      is_exclusive; /* one member of each virtual instance at a time */
        uint64_t (*now)(void);                  /* NULL: clock_now_ns() */
};

/* Calls init(). INVALID_ARG when it refuses. */
struct error *policy_plugin_new(const struct policy_plugin_options *options, struct policy **ret)
        NODISCARD;
