/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/ctl.h"

#include "cli/command_line.h"
#include "cli/command_page.h"
#include "cli/ctl_private.h"
#include "load/plain_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX_BYTES ((size_t)8 << 30) /* a request and its answer, in several forms each */
#define DEFAULT_URL "http://127.0.0.1:8000"
#define KEY_VARIABLE "NESO_API_KEY" /* a command line would show the key in the list of processes */

/* Groups of options, a bit each. */
#define FOR_LOAD (1U << 0)
#define FOR_INFER (1U << 1)
#define FOR_VERSION (1U << 2)
#define FOR_INDEX (1U << 3)
#define FOR_UNLOAD (1U << 4)
#define FOR_GRAPH (1U << 5)
#define FOR_READY (1U << 6)
#define FOR_DRAIN (1U << 7)
#define FOR_ALL 0U

static const struct command_word commands[] = {
        { "index", "", "the models of the repositories, their versions and states", FOR_INDEX,
          ctl_index },
        { "load", "MODEL", "load a model, or load it again", FOR_LOAD, ctl_load },
        { "unload", "MODEL", "unload a model", FOR_UNLOAD, ctl_unload },
        { "ready", "[MODEL]", "readiness of the server, or of a model; exit code 1: not ready",
          FOR_VERSION | FOR_READY, ctl_ready },
        { "drain", "", "make the server not ready while it goes on to serve; needs --allow-drain",
          FOR_DRAIN, ctl_drain },
        { "stats", "[MODEL]", "requests, executions, mean times, batch sizes", FOR_VERSION,
          ctl_stats },
        { "sequences", "MODEL", "a model's live sequences: place, age, idle time", FOR_VERSION,
          ctl_sequences },
        { "stacks", "MODEL", "call stacks of a model's processes, for a model that hangs",
          FOR_VERSION, ctl_stacks },
        { "gpus", "", "the GPUs of the server: memory, utilization, power", FOR_ALL, ctl_gpus },
        { "members", "MODEL", "the instance groups of a model that take certain batch sizes",
          FOR_VERSION, ctl_members },
        { "metadata", "[MODEL]", "name and version of the server, or a model's inputs and outputs",
          FOR_VERSION, ctl_metadata },
        { "config", "MODEL", "a model's configuration", FOR_VERSION, ctl_config },
        { "graph", "MODEL", "the steps of an ensemble or a chain, and the tensors between them",
          FOR_VERSION | FOR_GRAPH, ctl_graph },
        { "infer", "MODEL", "run a model once", FOR_VERSION | FOR_INFER, ctl_infer },
};

#define ROW(row_kind, row_name, member, ...)                                                       \
        {                                                                                          \
                .kind = OPTION_##row_kind, .name = row_name,                                       \
                .offset = offsetof(struct ctl, member), __VA_ARGS__                                \
        }

static const struct option_row rows[] = {
        ROW(TEXT, "url", url, .argument = "URL", .initial = DEFAULT_URL,
            .help = "address of the server; " DEFAULT_URL),
        ROW(TEXT, "key", key, .argument = "KEY",
            .help = "API key; by default the environment's " KEY_VARIABLE),
        ROW(FLAG, "json", is_json, .help = "print the server's answer unchanged"),
        ROW(COUNT, "timeout", timeout_s, .argument = "SECONDS",
            .help = "time limit for an answer; none"),
        ROW(TEXT, "cacert", cacert, .argument = "FILE",
            .help = "PEM: authorities of the server's certificate"),
        ROW(TEXT, "cert", cert, .argument = "FILE", .help = "PEM: a client certificate"),
        ROW(TEXT, "key-file", key_file, .argument = "FILE", .help = "PEM: the key of --cert"),
        ROW(FLAG, "insecure", is_insecure, .help = "accept any certificate of the server"),
        ROW(FLAG, "dot", is_dot, .used_by = FOR_GRAPH, .help = "graph: print for Graphviz"),
        ROW(FLAG, "ready", only_ready, .used_by = FOR_INDEX, .help = "index: only ready models"),
        ROW(TEXT, "version", version, .used_by = FOR_VERSION, .argument = "V",
            .help = "infer, config, ready, stats, sequences, stacks, members, metadata, graph: "
                    "of this version"),
        ROW(TEXT, "config", config_file, .used_by = FOR_LOAD, .argument = "FILE",
            .help = "load: JSON, instead of the model's configuration"),
        ROW(TEXTS, "file", files, .used_by = FOR_LOAD, .argument = "V/NAME=PATH",
            .help = "load: a file instead of those in the repository; needs --config"),
        ROW(FLAG, "dependents", dependents, .used_by = FOR_UNLOAD,
            .help = "unload: also the models that were loaded for it alone"),
        ROW(FLAG, "undo", is_undone, .used_by = FOR_DRAIN, .help = "drain: make it ready again"),
        ROW(COUNT, "wait", wait_s, .used_by = FOR_READY | FOR_DRAIN, .argument = "SECONDS",
            .help = "ready: until it is ready, at most so long; drain: so long, for the balancer; "
                    "0"),
        ROW(TEXTS, "input", inputs, .used_by = FOR_INFER, .argument = "NAME=JSON",
            .help = "infer: values, nested or flat; NAME=@PATH reads a file"),
        ROW(FLAG, "zeros", zeros, .used_by = FOR_INFER,
            .help = "infer: zeros for the other inputs"),
        ROW(FLAG, "random", random, .used_by = FOR_INFER,
            .help = "infer: random values for the other inputs"),
        ROW(COUNT, "seed", seed, .used_by = FOR_INFER, .argument = "N", .initial = "1",
            .help = "infer: seed of --random; 1"),
        ROW(TEXTS, "shape", shapes, .used_by = FOR_INFER, .argument = "NAME=1,2,3",
            .help = "infer: shape of an input"),
        ROW(COUNT, "values", n_values, .used_by = FOR_INFER, .argument = "N", .initial = "16",
            .help = "infer: values shown of each output, 0 for all; 16"),
};

static const struct option_table ctl_options = { rows, ARRAY_LEN(rows) };

/* ---- the command line ------------------------------------------------------------------------ */

const struct command_page ctl_page = {
        .name = "ctl",
        .summary = "query a running server, load and unload its models",
        .arguments = "<command> [options]",
        .about = "Sends requests to a running server over HTTP.",
        .words = commands,
        .n_words = ARRAY_LEN(commands),
        .options = &ctl_options,
        .exit_codes = "0 done, 1 the server said no, 2 wrong usage, 3 no answer",
};

static const struct command_word *find_command(const char *name) {
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                if (strcmp(name, commands[i].name) == 0)
                        return &commands[i];
        return NULL;
}

static struct error *unknown_command(const char *name) {
        const char *names[ARRAY_LEN(commands)];

        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                names[i] = commands[i].name;
        return error_suggest(error_new(ERR_INVALID_ARG, "unknown command '%s'", name), "",
                             str_suggest(str_of(name), names, ARRAY_LEN(names)));
}

static struct error *check_words(const struct command_word *k, const struct option_texts *words) {
        bool   needs_model = strcmp(k->argument, "MODEL") == 0;
        size_t most = *k->argument == '\0' ? 1 : 2;

        if (needs_model && (words->n_items == 1 || *words->items[1] == '\0'))
                return error_new(ERR_INVALID_ARG, "which model? neso ctl %s MODEL", k->name);
        if (words->n_items > most)
                return error_new(ERR_INVALID_ARG, "'%s' is too much for %s", words->items[most],
                                 k->name);
        return NULL;
}

static struct error *check_options(const struct command_word *k, const struct command_line *l) {
        for (size_t i = 0; i < ctl_options.n_rows; i++)
                if (l->given[i] && rows[i].used_by != FOR_ALL && (rows[i].used_by & k->takes) == 0)
                        return error_new(ERR_INVALID_ARG, "%s takes no option --%s", k->name,
                                         rows[i].name);
        return NULL;
}

static struct error *read_command(struct ctl *c, const struct command_line *l,
                                  const struct command_word **ret) {
        if (l->words.n_items == 0)
                return error_new_text(ERR_INVALID_ARG, "which command?");
        *ret = find_command(l->words.items[0]);
        if (*ret == NULL)
                return unknown_command(l->words.items[0]);
        TRY(check_words(*ret, &l->words));
        TRY(check_options(*ret, l));
        if (c->zeros && c->random)
                return error_new_text(ERR_INVALID_ARG, "--zeros or --random: not both");
        if (c->files.n_items > 0 && c->config_file == NULL)
                return error_new_text(ERR_INVALID_ARG, "--file needs --config: what is sent takes "
                                                       "the place of the whole directory");
        if (l->words.n_items == 1 && c->version != NULL)
                return error_new_text(ERR_INVALID_ARG, "--version: of which model?");
        c->http =
                (struct http_client_options){ .url = c->url,
                                              .key = c->key != NULL ? c->key : getenv(KEY_VARIABLE),
                                              .cacert = c->cacert,
                                              .cert = c->cert,
                                              .key_file = c->key_file,
                                              .is_insecure = c->is_insecure,
                                              .timeout_ms = ctl_timeout_ms(c) };
        if (l->words.n_items > 1)
                c->model = l->words.items[1];
        return NULL;
}

static int ctl_fail(struct ctl *c, const struct error *err) {
        fflush(stdout);
        plain_text_print_error("ctl", err);
        return c->exit_code;
}

static int ctl_run(struct ctl *c, const struct command_word *k) {
        AUTO_ERROR err = k->run(c);

        /* Partial output is printed even when an error followed. */
        plain_text_print(&c->out, c->is_json);
        if (err != NULL)
                return ctl_fail(c, err);
        if (c->out.overflowed)
                fprintf(stderr, "neso ctl: there is too much to print\n");
        return c->exit_code == CTL_REFUSED ? CTL_REFUSED : CTL_DONE;
}

static int ctl_read_and_run(struct ctl *c, struct command_line *l, int argc, char **argv) {
        const struct command_word *k;
        AUTO_ERROR                 err = command_line_read(l, argc, argv);

        c->exit_code = CTL_USAGE;
        if (err == NULL && l->wants_help) {
                command_page_print_help(&ctl_page);
                return CTL_DONE;
        }
        if (err == NULL)
                err = read_command(c, l, &k);
        if (err != NULL) {
                ctl_fail(c, err);
                fprintf(stderr, "`neso ctl --help` lists commands and options.\n");
                return CTL_USAGE;
        }
        return ctl_run(c, k);
}

int ctl_main(int argc, char **argv) {
        struct ctl          c;
        struct command_line line = { .options = &ctl_options, .values = &c };
        int                 code;

        option_table_init(&ctl_options, &c, sizeof(c));
        arena_init(&c.arena, NULL, 0, ARENA_MAX_BYTES);
        code = ctl_read_and_run(&c, &line, argc, argv);
        http_client_free(c.client);
        strbuf_done(&c.out);
        arena_done(&c.arena);
        command_line_done(&line);
        option_table_done(&ctl_options, &c);
        return code;
}
