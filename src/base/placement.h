/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a thread runs, and which memory it gets: cores, and a NUMA node whose memory comes first.
 *
 * A thread inherits both from the one that starts it, so threads that somebody's code starts in a
 * placed one belong there as well.
 *
 * Memory is preferred, not demanded: when the node has none left, the rest comes from elsewhere.
 *
 * Ownership.  A plain value, 1.2 KiB. Threads.  It changes only while it is made.
 */
#pragma once

#include "base/error.h"
#include "base/thread.h"

#include <sched.h>
#include <stdbool.h>

#define PLACEMENT_MAX_CORES 8192 /* more than any kernel is built for (NR_CPUS) */
#define PLACEMENT_MAX_NODES 1024 /* likewise (NODES_SHIFT) */

#define PLACEMENT_NODES_DIRECTORY "/sys/devices/system/node"

struct placement {
        bool          has_cores;       /* else they stay as they are */
        bool          needs_each_core; /* else those that this process may use are enough */
        cpu_set_t     cores[PLACEMENT_MAX_CORES / CPU_SETSIZE];
        bool          has_memory;  /* else it stays as it is */
        int           memory_mode; /* of set_mempolicy(2), as the nodes */
        unsigned long memory_nodes[PLACEMENT_MAX_NODES / (8 * sizeof(unsigned long))];
};

/* "0-3,8". INVALID_ARG that names the part which is no core and no range of them. */
struct error *placement_read_cores(struct placement *p, const char *list) NODISCARD;
/* The memory of this node, and of its cores, if it has any, those that this process may use.
 * `nodes_directory` is for tests: PLACEMENT_NODES_DIRECTORY. INVALID_ARG for what is no number and
 * for a node that is not there. */
struct error *placement_read_node(struct placement *p, const char *node,
                                  const char *nodes_directory) NODISCARD;

/* Of the calling thread: its cores, and its memory if asked. */
struct error *placement_get(struct placement *ret, bool with_memory) NODISCARD;
/* For the calling thread. INVALID_ARG "core <n> is not there, or this process may not use it"; some
 * of it may hold after an error. */
struct error *placement_apply(const struct placement *p) NODISCARD;

/* thread_start() of a thread that is there before it runs anything; NULL: where the caller is. */
struct error *placement_start_thread(const struct placement *p, struct thread *t, const char *name,
                                     thread_fn run, void *arg) NODISCARD;
/* Runs it on a thread there and waits for its end; NULL: on the calling one. On error it was not
 * run. */
struct error *placement_run(const struct placement *p, const char *name, thread_fn run, void *arg)
        NODISCARD;
