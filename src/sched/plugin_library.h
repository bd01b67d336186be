/* SPDX-License-Identifier: BSD-3-Clause */
/* The library of a plug-in scheduler (include/triton/core/neso_scheduler.h): found, tried, opened.
 *
 * A name x stands for libscheduler_x.so in the directory of the model's version, in the model's, or in
 * the server's directory of schedulers; the first one counts. Before it is opened, a program of its own
 * (schedulers/trial) opens it, calls init() and fini() and ends: what crashes, hangs or exits there is an
 * error of that model and harms nothing else. It is ended after TRIAL_SECONDS. Where the program is
 * missing, as in a server that is linked into another program, a warning says so.
 *
 * Ownership.  plugin_library_close() ends what plugin_library_open() gave.
 * Threads.  One at a time for each library.
 */
#pragma once

#include "base/error.h"
#include "triton/core/neso_scheduler.h"

#include <stdbool.h>
#include <stdint.h>

struct dl;

#define TRIAL_SECONDS 20

/* What init() is called with. */
struct plugin_init {
        const char         *config_json;
        const sched_member *members;
        uint32_t            n_members;
        uint32_t            max_batch;
};

struct plugin_query {
        const char               *name;  /* "edf" */
        const char               *model; /* for messages */
        int64_t                   version;
        const char               *directory;        /* the model's; NULL: it has none */
        const char               *server_directory; /* NULL: there is none */
        bool                      is_sent;          /* the model's files came with its load */
        const struct plugin_init *init;             /* of the trial */
};

/* May it be the name of a scheduler: letters, digits, '_' and '-'? */
bool plugin_name_is_valid(const char *name);

/* Whether there is one for that name; nothing is opened. Errors as of plugin_library_open(). */
struct error *plugin_library_check(const struct plugin_query *wanted) NODISCARD;

/* Errors: INVALID_ARG a name that is none; NOT_FOUND with the places that were searched; UNSUPPORTED a
 * version that does not fit, or a library that came with the load; INTERNAL what the loader says, or
 * how the trial ended. */
struct error *plugin_library_open(const struct plugin_query *wanted, struct dl **ret,
                                  const sched_vtbl **ret_functions) NODISCARD;
