/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line: arguments that end with a NUL each. Options that are understood become those of
 * the core, but for the log's file, which would be written.
 */
#include "base/mem.h"
#include "base/str.h"
#include "cli/core_options.h"
#include "cli/option_parse.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 64

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* argv of exactly that size, each argument in memory of its own. */
static char **split(struct str in, int *ret_argc) {
        char **argv = mem_alloc((MAX_ARGUMENTS + 1) * sizeof(*argv));
        int    argc = 0;

        while (in.ptr != NULL && argc < MAX_ARGUMENTS) {
                struct str argument;

                in = str_split(in, '\0', &argument);
                argv[argc++] = mem_strndup(argument.ptr, argument.len);
        }
        argv[argc] = NULL;
        *ret_argc = argc;
        return argv;
}

/* A refusal says something. */
static void look_at_error(struct error *err) {
        if (err != NULL && *err->message == '\0')
                abort();
        error_free(err);
}

static void make_core_options(struct cli_options *o) {
        struct TRITONSERVER_ServerOptions *made = NULL;
        struct error                      *err;

        err = cli_options_set(o, "log-file", "");
        if (err != NULL)
                abort();
        err = core_options_make(o, &made);
        if (err == NULL)
                TRITONSERVER_ServerOptionsDelete(made);
        else if (made != NULL)
                abort();
        look_at_error(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        struct cli_options o;
        struct error      *err;
        char             **argv;
        int                argc;

        argv = split(str_range((const char *)input, size), &argc);
        cli_options_init(&o);
        err = option_parse(argc, argv, &o);
        if (err == NULL)
                make_core_options(&o);
        look_at_error(err);
        cli_options_done(&o);
        for (int i = 0; i < argc; i++)
                free(argv[i]);
        free(argv);
        return 0;
}
