/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes instances of a model. A backend initialises each instance, which is then warmed up, on the
 * thread and cores on which it will run.
 *
 * Instances are made in parallel when the backend allows it
 * (TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading), otherwise one after the other.
 * The environment variable TRITON_PARALLEL_INSTANCE_LOADING overrides that: "1" allows it for all
 * backends, "0" for none. The number of threads is the number of the process's cores, at least 4,
 * because most of a start is often a wait for a disk or a network, and at most 16.
 *
 * An instance is initialised, executed and finalised on one thread of its own, since backends keep
 * contexts of libraries and devices in thread-local state. Backends that any thread may execute
 * (NESO_BACKEND_INLINE_SAFE) are an exception: a loader's thread initialises their instances.
 *
 * Ownership.  The caller owns the instances.
 * Threads.  The caller's thread, and others until the function returns.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct loaded_instance;
struct loaded_model;

/* One instance to be made. */
struct instance_start {
        struct loaded_instance *instance; /* owned by the caller; has its configuration and group */
        char                   *name;     /* owned by the caller */
};

/* Makes all instances or none. After an error no instance has a backend_instance, and those that
 * were initialised are finalised. The error is that of the first failed instance in the order of
 * the array. Instances that were not started by then are not started. */
struct error *instances_start(struct loaded_model *l, const struct instance_start *starts, size_t n)
        NODISCARD;

/* Finalises the instance, which no scheduler may use any more. Does nothing for one that was never
 * made. */
void instance_end(struct loaded_instance *in);
