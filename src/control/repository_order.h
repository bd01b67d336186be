/* SPDX-License-Identifier: BSD-3-Clause */
/* An order to the model repository: load a model, or unload it.
 *
 * A load takes as long as the model, so the core carries orders out on another thread:
 *
 *     repository_order_init -> add parameters -> the protocol offloads `work`
 *                           -> `done`, on the loop -> repository_order_end
 *
 * Ownership.  Embedded in the protocol's call; names and values of parameters are in its arena, which
 * lasts until repository_order_end(). That may be called whenever init() was.
 * Threads.  The call's loop; `work` runs on another thread, which touches nothing else of the call.
 */
#pragma once

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
        bool                            with_dependents; /* of an unload */
        size_t                          n_parameters;    /* of a load */
        struct TRITONSERVER_Parameter **parameters;      /* in arena; each owned */
        struct TRITONSERVER_Error      *failure;         /* owned */
};

/* What the value of a load parameter is. */
enum load_parameter_kind {
        LOAD_PARAMETER_UNKNOWN,
        LOAD_PARAMETER_TEXT,         /* config, and most of those of chains */
        LOAD_PARAMETER_TEXT_OR_BOOL, /* of chains: a boolean is the text "true" or "false" */
        LOAD_PARAMETER_FILE,         /* file:<path>: the bytes of a file */
};
enum load_parameter_kind load_parameter_kind(struct str name);

void repository_order_init(struct repository_order *o, enum repository_order_kind kind,
                           struct TRITONSERVER_Server *core, const char *model, loop_work_fn done);
/* Names and values are borrowed. INVALID_ARG when there are too many. */
struct error *repository_order_add_text(struct repository_order *o, struct arena *arena,
                                        const char *name, const char *value) NODISCARD;
struct error *repository_order_add_file(struct repository_order *o, struct arena *arena,
                                        const char *name, struct str bytes) NODISCARD;
/* Frees what it holds; what the core said. */
struct error *repository_order_end(struct repository_order *o) NODISCARD;

/* Reply to a request that names a repository. */
struct error *repository_order_refuse_name(void) NODISCARD;
