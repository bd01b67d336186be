/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/tune.h"

#include "cli/command_line.h"
#include "cli/command_page.h"
#include "cli/tune_report.h"
#include "load/plain_text.h"

#include <stdio.h>

enum { TUNE_DONE = 0, TUNE_FAILED = 1, TUNE_USAGE = 2, TUNE_UNREACHABLE = 3 };

const struct command_page tune_page = {
        .name = "tune",
        .summary = "find the configuration of a model that serves a load best, on a running server",
        .arguments = "MODEL --latency-budget=MS [options]",
        .about = "Sends configurations to a running server (--model-control-mode=explicit) with "
                 "load requests,\nmeasures a load with each, prints the best one, and loads the "
                 "model's own configuration\nagain. It writes nothing to the repository.",
        .options = &tune_option_table,
        .exit_codes = "0 measured and restored, 1 not measured or not restored, 2 wrong usage, "
                      "3 no answer",
};

struct tune {
        struct tune_values values;
        struct tune_plan   plan;
        bool               has_plan;
        struct tune_run   *run;
        int                exit_code;
};

static void print_results(const struct tune *t) {
        AUTO_STRBUF text = { 0 };

        if (t->values.load.is_json)
                tune_report_put_json(tune_run_results(t->run), &t->plan, &text);
        else
                tune_report_put(tune_run_results(t->run), &t->plan, &text);
        plain_text_print(&text, t->values.load.is_json);
        fflush(stdout);
}

static void announce(const struct tune *t) {
        AUTO_STRBUF text = { 0 };

        tune_run_announce(t->run, &text);
        fputs(strbuf_cstr(&text), stderr);
}

/* The models get their configurations back before anything is printed: a reader that has gone away does not
 * prevent it. */
static struct error *run_tune(struct tune *t) {
        struct error *err;
        AUTO_ERROR    not_restored = NULL;

        t->exit_code = TUNE_UNREACHABLE;
        TRY(tune_run_new(&t->plan, &t->run));
        announce(t);
        err = tune_run_search(t->run);
        not_restored = error_wrap(tune_run_restore(t->run),
                                  "the model's own configuration is not restored");
        if (not_restored != NULL) {
                plain_text_print_error("tune", not_restored);
                fputs("`neso ctl unload` and `neso ctl load` read it from the repository.\n",
                      stderr);
        }
        print_results(t);
        if (err != NULL)
                return err;
        t->exit_code = not_restored != NULL || tune_run_results(t->run)->is_interrupted
                               ? TUNE_FAILED
                               : TUNE_DONE;
        return NULL;
}

static int report_failure(const struct tune *t, const struct error *err) {
        fflush(stdout);
        plain_text_print_error("tune", err);
        if (t->exit_code == TUNE_USAGE)
                fprintf(stderr, "`neso tune --help` lists the options.\n");
        if (t->exit_code == TUNE_UNREACHABLE && err->code != ERR_UNAVAILABLE)
                return TUNE_FAILED;
        return t->exit_code;
}

static struct error *read_line(struct tune *t, struct command_line *l, int argc, char **argv) {
        t->exit_code = TUNE_USAGE;
        TRY(command_line_read(l, argc, argv));
        if (l->wants_help)
                return NULL;
        if (l->words.n_items > 1)
                return error_new(ERR_INVALID_ARG, "'%s' is no option", l->words.items[1]);
        TRY(tune_plan_read(&t->values, l->words.n_items > 0 ? l->words.items[0] : NULL, &t->plan));
        t->has_plan = true;
        return NULL;
}

static int read_and_run(struct tune *t, struct command_line *l, int argc, char **argv) {
        AUTO_ERROR err = read_line(t, l, argc, argv);

        if (err == NULL && l->wants_help) {
                command_page_print_help(&tune_page);
                return TUNE_DONE;
        }
        if (err == NULL) {
                fputs(strbuf_cstr(&t->plan.load.notes), stderr);
                err = run_tune(t);
        }
        return err != NULL ? report_failure(t, err) : t->exit_code;
}

int tune_main(int argc, char **argv) {
        struct tune         t = { .exit_code = TUNE_DONE };
        struct command_line line = { .options = &tune_option_table, .values = &t.values };
        int                 code;

        tune_values_init(&t.values);
        code = read_and_run(&t, &line, argc, argv);
        tune_run_free(t.run);
        if (t.has_plan)
                tune_plan_done(&t.plan);
        command_line_done(&line);
        tune_values_done(&t.values);
        return code;
}
