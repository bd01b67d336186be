/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement of a thread: its cores, and the NUMA node whose memory it prefers.
 *
 * A thread inherits both from the thread that starts it, so threads that a plug-in starts on a
 * placed thread are placed as well.
 *
 * The node is a preference: when it has no memory left, other nodes provide it.
 *
 * Ownership.  A plain value, 1.2 KiB.
 * Threads.  Not changed after it was filled.
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
        bool          has_cores;       /* false: the thread's cores stay */
        bool          needs_each_core; /* false: those of the cores that this process may use are
                                        * enough */
        cpu_set_t     cores[PLACEMENT_MAX_CORES / CPU_SETSIZE];
        bool          has_memory;  /* false: the thread's memory policy stays */
        int           memory_mode; /* mode of set_mempolicy(2), as are the nodes */
        unsigned long memory_nodes[PLACEMENT_MAX_NODES / (8 * sizeof(unsigned long))];
};

/* Parses "0-3,8". INVALID_ARG that names the part that is neither a core nor a range of cores. */
struct error *placement_read_cores(struct placement *p, const char *list) NODISCARD;
/* Selects the memory of this node, and those of its cores, if it has any, that this process may
 * use. `nodes_directory` is for tests: PLACEMENT_NODES_DIRECTORY. INVALID_ARG when `node` is not a
 * number or the node does not exist. */
struct error *placement_read_node(struct placement *p, const char *node,
                                  const char *nodes_directory) NODISCARD;

/* Reads the calling thread's cores, and its memory policy if `with_memory`. */
struct error *placement_get(struct placement *ret, bool with_memory) NODISCARD;
/* Places the calling thread. INVALID_ARG "core <n> is not there, or this process may not use it"; a
 * part may be in effect after an error. */
struct error *placement_apply(const struct placement *p) NODISCARD;

/* thread_start() of a thread that is placed before it runs anything; NULL: placed as the caller is. */
struct error *placement_start_thread(const struct placement *p, struct thread *t, const char *name,
                                     thread_fn run, void *arg) NODISCARD;
/* Runs the function on a placed thread and waits for its end; NULL: on the calling thread. After an
 * error it was not run. */
struct error *placement_run(const struct placement *p, const char *name, thread_fn run, void *arg)
        NODISCARD;
