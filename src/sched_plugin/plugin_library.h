/* SPDX-License-Identifier: BSD-3-Clause */
/* The library of a plug-in scheduler (include/triton/core/neso_scheduler.h): finds, tries and opens it.
 *
 * The name x means libscheduler_x.so in the directory of the model's version, else in the model's
 * directory, else in the server's directory of schedulers. Before the server opens the library, a
 * separate program (schedulers/trial) opens it, calls init() and fini(), and ends. So a crash, a hang
 * or an exit there is an error of that model and harms nothing else. The server kills the program after
 * TRIAL_SECONDS. Without that program, as in a server that is linked into another program, it logs a
 * warning and opens the library untried.
 *
 * Ownership.  The caller closes the opened library with dl_close().
 * Threads.  One at a time for each library.
 */
#pragma once

#include "base/error.h"
#include "triton/core/neso_scheduler.h"

#include <stdbool.h>
#include <stdint.h>

struct dl;

#define TRIAL_SECONDS 20

/* Arguments of init(). */
struct plugin_init {
        const char         *config_json;
        const sched_member *members;
        uint32_t            n_members;
        uint32_t            max_batch;
};

struct plugin_query {
        const char *name;  /* "edf" */
        const char *model; /* for error messages */
        int64_t     version;
        const char *directory;        /* the model's directory; NULL: it has none */
        const char *server_directory; /* NULL: there is none */
        /* the model's files were uploaded with the load request */
        bool                      is_sent;
        const struct plugin_init *init; /* arguments of the trial */
};

/* Checks that there is a library of that name, without opening it. Errors as in
 * plugin_library_open(). */
struct error *plugin_library_check(const struct plugin_query *wanted) NODISCARD;

/* Errors: INVALID_ARG for an invalid name; NOT_FOUND with the searched directories; UNSUPPORTED for
 * a version that does not fit, or a library that was uploaded with the load request; INTERNAL with
 * the loader's message, or with how the trial ended. */
struct error *plugin_library_open(const struct plugin_query *wanted, struct dl **ret,
                                  const sched_vtbl **ret_functions) NODISCARD;
