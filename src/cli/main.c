/* SPDX-License-Identifier: BSD-3-Clause */
/* The executable: `neso <command>`, and `tritonserver`, which means `neso serve`.
 */
#include "base/compiler.h"
#include "base/file.h"
#include "cli/bench.h"
#include "cli/check.h"
#include "cli/command_page.h"
#include "cli/ctl.h"
#include "cli/endpoint_list.h"
#include "cli/option_parse.h"
#include "cli/option_print.h"
#include "cli/serve.h"
#include "cli/tune.h"
#include "triton/core/neso.h"

#include <stdio.h>
#include <string.h>

static int refuse(const char *command, const char *word, const char *usage) {
        fprintf(stderr, "neso %s: unexpected argument '%s'\nUsage: neso %s%s\n", command, word,
                command, usage);
        return 1;
}

static int print_version(int argc, char **argv) {
        if (argc > 1)
                return refuse("version", argv[1], "");
        printf("neso %s\n", NESO_Version());
        return 0;
}

static struct error *put_values(int argc, char **argv, struct strbuf *out) {
        struct cli_options o;
        struct error      *err;

        cli_options_init(&o);
        err = option_parse(argc, argv, &o);
        if (err == NULL)
                option_print_values(&o, out);
        cli_options_done(&o);
        return err;
}

/* Without arguments: the page of all options. With options of `neso serve`: their values in force. */
static int print_options(int argc, char **argv) {
        AUTO_STRBUF text = { 0 };
        AUTO_ERROR  err = NULL;

        if (argc > 1)
                err = put_values(argc, argv, &text);
        else
                option_print_markdown(&text);
        fputs(strbuf_cstr(&text), stdout);
        if (err != NULL)
                fprintf(stderr, "%s\n`neso serve --help` lists all options.\n", err->message);
        return err != NULL;
}

static int print_endpoints(int argc, char **argv) {
        AUTO_STRBUF text = { 0 };
        bool        is_json = argc > 1 && strcmp(argv[1], "--json") == 0;

        if (argc > 1 + is_json)
                return refuse("endpoints", argv[1 + is_json], " [--json]");
        if (is_json)
                endpoint_list_print_json(&text);
        else
                endpoint_list_print(&text);
        fputs(strbuf_cstr(&text), stdout);
        return 0;
}

static int print_manual(int argc, char **argv);
static int print_completion(int argc, char **argv);

static const struct command_page options_page = {
        .name = "options",
        .summary = "print the options of serve as Markdown; with options, the values in force",
};
static const struct command_page endpoints_page = {
        .name = "endpoints",
        .summary = "print the server's endpoints, and the group of each (--json)",
};
static const struct command_page version_page = {
        .name = "version",
        .summary = "print the version",
};

static const struct command_page *const listed[] = {
        &serve_page, &check_page,   &ctl_page,       &bench_page,
        &tune_page,  &options_page, &endpoints_page, &version_page,
};
static const struct command_pages pages = { listed, ARRAY_LEN(listed) };

/* The last two are for the build: `neso help` does not list them. */
static const struct command {
        const char *name;
        int (*run)(int argc, char **argv);
} commands[] = {
        { "serve", serve_main },
        { "check", check_main },
        { "ctl", ctl_main },
        { "bench", bench_main },
        { "tune", tune_main },
        { "options", print_options },
        { "endpoints", print_endpoints },
        { "version", print_version },
        { "manual", print_manual },
        { "completion", print_completion },
};

/* `neso manual` prints neso.1, `neso manual serve` neso-serve.1. */
static int print_manual(int argc, char **argv) {
        AUTO_STRBUF text = { 0 };

        if (argc < 2)
                command_pages_print_manual(&pages, &text);
        for (size_t i = 0; argc == 2 && i < ARRAY_LEN(listed); i++)
                if (listed[i]->options != NULL && strcmp(argv[1], listed[i]->name) == 0)
                        command_page_print_manual(listed[i], &text);
        fputs(strbuf_cstr(&text), stdout);
        if (text.len > 0)
                return 0;
        return refuse("manual", argv[argc > 2 ? 2 : 1], " [serve | check | ctl | bench | tune]");
}

static int print_completion(int argc, char **argv) {
        AUTO_STRBUF text = { 0 };

        if (argc > 1)
                return refuse("completion", argv[1], "");
        command_pages_print_completion(&pages, &text);
        fputs(strbuf_cstr(&text), stdout);
        return 0;
}

static int print_help(FILE *to, int code) {
        fprintf(to, "Usage: neso <command> [options]\n\n");
        for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
                fprintf(to, "  %-10s %s", listed[i]->name, listed[i]->summary);
                if (listed[i]->options != NULL)
                        fprintf(to, "; `neso %s --help`", listed[i]->name);
                fprintf(to, "\n");
        }
        return code;
}

/* What was printed may be lost: on a disk that is full, or in a pipe that is closed. */
static int end_output(int code) {
        if (fflush(stdout) == 0 && !ferror(stdout))
                return code;
        fputs("neso: unable to write all of the output\n", stderr);
        return code != 0 ? code : 1;
}

/* A server does not depend on what its standard output leads to. */
static int run_one(const struct command *c, int argc, char **argv) {
        int code = c->run(argc, argv);

        return c->run == serve_main ? code : end_output(code);
}

static int run_command(const char *name, int argc, char **argv) {
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                if (strcmp(name, commands[i].name) == 0)
                        return run_one(&commands[i], argc, argv);
        fprintf(stderr, "neso: unknown command '%s'\n", name);
        return print_help(stderr, 1);
}

/* `neso help` and `neso help <command>`. */
static int help_command(int argc, char **argv) {
        static char help_option[] = "--help";
        char       *asked[] = { argv[0], help_option, NULL };

        return argc < 3 ? end_output(print_help(stdout, 0)) : run_command(argv[2], 2, asked);
}

int main(int argc, char **argv) {
        if (argc > 0 && strcmp(path_basename(argv[0]), "tritonserver") == 0)
                return serve_main(argc, argv);
        if (argc < 2)
                return print_help(stderr, 1);
        if (strcmp(argv[1], "--version") == 0)
                return end_output(print_version(argc - 1, argv + 1));
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
                return end_output(print_help(stdout, 0));
        if (strcmp(argv[1], "help") == 0)
                return help_command(argc, argv);
        if (strncmp(argv[1], "--", 2) == 0) /* the reference server is started without a command */
                return serve_main(argc, argv);
        return run_command(argv[1], argc - 1, argv + 1);
}
