/* SPDX-License-Identifier: BSD-3-Clause */
/* An order to the model repository: load a model, or unload it.
 *
 * A load takes as long as the model needs, so the core carries out orders on another thread:
 *
 *     repository_order_init -> add parameters -> the protocol offloads `work`
 *                           -> `done`, on the loop -> repository_order_end
 *
 * Ownership.  Embedded in the protocol's call. Names and values of parameters are in the call's
 * arena, which lasts until repository_order_end(). That function may be called at any time after
 * init().
 * Threads.  The call's loop. `work` runs on another thread, which accesses nothing else of the
 * call.
 */
#pragma once

#include "auth/access.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stddef.h>

struct TRITONSERVER_Error;
struct TRITONSERVER_Parameter;
struct TRITONSERVER_Server;

enum repository_order_kind { REPOSITORY_LOAD, REPOSITORY_UNLOAD };

struct repository_order {
        struct loop_work                work;
        struct TRITONSERVER_Server     *core;            /* borrowed */
        const char                     *model;           /* borrowed */
        bool                            with_dependents; /* for an unload */
        size_t                          n_parameters;    /* for a load */
        struct TRITONSERVER_Parameter **parameters;      /* in arena; each owned */
        struct TRITONSERVER_Error      *failure;         /* owned */
        const struct access            *access; /* borrowed: the call's; constant while `work`
                                                          * runs; NULL: all models */
        char *refused; /* owned; the model to which the caller has no right; NULL: none */
};

/* The form of the value of a load parameter. */
enum load_parameter_kind {
        LOAD_PARAMETER_UNKNOWN,
        LOAD_PARAMETER_TEXT,         /* config */
        LOAD_PARAMETER_TEXT_OR_BOOL, /* the parameters of chains; a boolean becomes the text
                                      * "true" or "false" */
        LOAD_PARAMETER_FILE,         /* file:<path>; the value is the content of a file */
};
enum load_parameter_kind load_parameter_kind(struct str name);

void repository_order_init(struct repository_order *o, enum repository_order_kind kind,
                           struct TRITONSERVER_Server *core, const char *model, loop_work_fn done);
/* Names and values are borrowed. INVALID_ARG when there are too many parameters. */
struct error *repository_order_add_text(struct repository_order *o, struct arena *arena,
                                        const char *name, const char *value) NODISCARD;
struct error *repository_order_add_file(struct repository_order *o, struct arena *arena,
                                        const char *name, struct str bytes) NODISCARD;
/* Makes the order reach only models that the API key of the call permits. */
void repository_order_limit(struct repository_order *o, const struct access *access);
/* Frees what the order holds, and returns the core's error. */
struct error *repository_order_end(struct repository_order *o) NODISCARD;
/* The same, for the answer. When a right was missing, *ret_verdict is not GRANTED, and the error has
 * the text of the refusal. */
struct error *repository_order_answer(struct repository_order *o, struct access *access,
                                      struct arena *arena, enum access_verdict *ret_verdict)
        NODISCARD;

/* UNSUPPORTED, for a request that names a repository. */
struct error *repository_order_refuse_name(void) NODISCARD;
