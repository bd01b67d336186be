/* SPDX-License-Identifier: BSD-3-Clause */
/* A policy whose decisions a plug-in makes (include/triton/core/neso_scheduler.h).
 *
 * The engine's events become calls of the plug-in. What the plug-in asks for in such a call is checked
 * at once. Rows that it dispatches leave the queue and are assigned to their instance
 * (policy_assign()); decide() passes them to the engine. With a rate limiter they wait there for the
 * instance's permit. So a plug-in never waits and never holds a request: until it dispatches or rejects
 * rows, they are in the engine's queue. There they can be cancelled, time out, or be served by the
 * built-in policy after the server gave up the plug-in.
 *
 *     USED --items wait, a member is free, no timer: 1 s--> GIVEN UP: the built-in policy decides
 *       '---instances change: fini(), init(), all items are announced again; init() fails: -^
 *
 * Ownership.  The policy owns the library and the built-in policy.
 * Threads.  The caller holds the engine's lock, as for each policy. The plug-in is called under it.
 */
#pragma once

#include "base/error.h"
#include "sched/policy.h"
#include "sched_plugin/plugin_library.h"

#include <stdint.h>

struct dl;
struct executor;
struct metric_registry;
struct model;

/* A plug-in that stalls for this long is given up. */
#define PLUGIN_STALL_NS UINT64_C(1000000000)
/* While draining: requests are refused after this long without a dispatch or a completion. */
#define PLUGIN_GRACE_NS UINT64_C(5000000000)

struct policy_plugin_options {
        const struct model     *model;     /* borrowed: outlives the policy */
        struct executor       **executors; /* borrowed for the call; passive ones are no members */
        uint32_t                n_executors;
        struct batching_config *batching;       /* taken: moved from */
        struct policy          *builtin;        /* taken, also on error */
        struct metric_registry *metrics;        /* borrowed; NULL: nothing is counted */
        struct dl              *library;        /* taken, also on error; NULL: the test owns it */
        const sched_vtbl       *functions;      /* functions of the library */
        const struct plugin_init *init;         /* borrowed for the call */
        bool                      may_split;    /* requests may run in parts */
        bool                      is_exclusive; /* one member of a virtual instance at a time */
        uint64_t (*now)(void);                  /* NULL: clock_now_ns() */
};

/* Calls init(). INVALID_ARG when init() fails. */
struct error *policy_plugin_new(const struct policy_plugin_options *options, struct policy **ret)
        NODISCARD;
