/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes instances of a model: each is initialised by its backend and warmed up, where it will run.
 *
 * They are made side by side when the backend allows it
 * (TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading), one after the other when it does
 * not. TRITON_PARALLEL_INSTANCE_LOADING of the environment overrides that: "1" allows it for all
 * backends, "0" for none. As many threads take part as the process has cores, but 4 at least, because
 * most of a start is often a wait for a disk or a network, and 16 at most.
 *
 * An instance is initialised, executed and finalised on one thread, its own, since backends keep contexts
 * of libraries and devices in thread-local state. Instances of backends that let any thread execute them
 * (NESO_BACKEND_INLINE_SAFE) are initialised on a loader's thread.
 *
 * Ownership.  The instances stay the caller's. Threads.  The caller's, and others until it returns.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct loaded_instance;
struct loaded_model;

/* One that is to be made. */
struct instance_start {
        struct loaded_instance *instance; /* owned by the caller; has its configuration and group */
        char                   *name;     /* likewise */
};

/* All or none: after an error no instance has a backend_instance, and those that had been initialised
 * are finalised. It is the error of the first that failed, in the order of the array; what had not
 * begun by then is not begun. */
struct error *instances_start(struct loaded_model *l, const struct instance_start *starts, size_t n)
        NODISCARD;

/* Finalises it; no scheduler has it any more. Nothing when it was never made. */
void instance_end(struct loaded_instance *in);
