/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fake backend does: it counts its calls, fails where it is told to, lets executions
 * wait at a gate, and answers requests by repeating their inputs: the n-th output asked for is
 * the n-th input.
 *
 * There is one host per program, because entry points of a library have no place for a pointer.
 *
 * Threads.  Any.
 */
#pragma once

#include "backend/fake_backend.h"
#include "backend/temp_tree.h"

#include <stdbool.h>

enum fake_call {
        FAKE_INITIALIZE,
        FAKE_FINALIZE,
        FAKE_GET_ATTRIBUTES,
        FAKE_MODEL_INITIALIZE,
        FAKE_MODEL_FINALIZE,
        FAKE_INSTANCE_INITIALIZE,
        FAKE_INSTANCE_FINALIZE,
        FAKE_INSTANCE_READY,
        FAKE_EXECUTE,
        FAKE_N_CALLS,
};

/* No calls counted, no failures, the gate open. */
void fake_host_reset(void);

/* How often this entry point was called since fake_host_reset(). */
unsigned fake_host_count(enum fake_call call);

/* From now on this entry point returns an error, when it is called for `name`: "m" is model m in
 * all its versions, "m/2" one version, "m_0_1" an instance; NULL is every call. One failure per
 * entry point; text NULL takes it back. The text is borrowed. */
void fake_host_fail(enum fake_call call, const char *name, TRITONSERVER_Error_Code code,
                    const char *text);

/* What the library has to offer, in TRITONBACKEND_GetBackendAttribute(): one preferred group of
 * that many instances on CPUs; 0: none. */
void fake_host_prefer_instances(unsigned count);

/* The library lets its instances be made side by side, in TRITONBACKEND_GetBackendAttribute(). */
void fake_host_allow_parallel(void);

/* JSON for TRITONBACKEND_ModelSetConfig() in each TRITONBACKEND_ModelInitialize(); NULL: it is not
 * called. Borrowed. */
void fake_host_complete_config(const char *json);

/* Executions wait until the gate opens. */
void fake_host_close_gate(void);
void fake_host_open_gate(void);
/* From now on each call of the entry point does this first; NULL: nothing. */
void fake_host_on_call(enum fake_call call, void (*run)(void *userp), void *userp);
/* Waits until this many calls of the entry point have begun. */
void fake_host_await(enum fake_call call, unsigned n);

/* A copy of the library lib<kind>.so in the tree, connected with the host as long as it is open;
 * `to` is its path in the tree. */
struct fake_library {
        char *path; /* owned */
        void *native;
};

struct fake_library fake_library_open(const struct temp_tree *tree, const char *kind,
                                      const char *to);
void                fake_library_close(struct fake_library *library);
/* Is a library of that path loaded in this process? */
bool fake_library_is_loaded(const char *path);
