/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/bench.h"

#include "base/mem.h"
#include "cli/bench_report.h"
#include "cli/command_line.h"
#include "cli/command_page.h"
#include "load/plain_text.h"
#include "load/report_csv.h"
#include "load/report_html.h"
#include "load/report_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_UNREACHABLE = 3, BENCH_LIMIT = 4 };

const struct command_page bench_page = {
        .name = "bench",
        .summary = "measure the rate and the latency of a model on a running server",
        .arguments = "-m MODEL [options]",
        .about = "Sends requests to a running server, in a closed loop (--concurrency-range) or at "
                 "a "
                 "given rate\n(--request-rate-range), and reports rates and latencies. Options "
                 "have the "
                 "names of\nperf_analyzer.",
        .options = &load_option_table,
        .exit_codes =
                "0 measured, 1 not measured, 2 wrong usage, 3 no answer, 4 a limit of --fail-if",
};

struct bench {
        struct load_values values;
        struct load_plan   plan;
        bool               has_plan;
        struct load_run   *run;
        int                exit_code;
};

static struct error *write_file(const char *path, const struct strbuf *text) {
        FILE *file = fopen(path, "we");
        bool  is_written;

        if (file == NULL)
                return error_errno(errno, "unable to write '%s'", path);
        is_written = fwrite(strbuf_cstr(text), 1, text->len, file) == text->len;
        if (fclose(file) != 0 || !is_written)
                return error_errno(errno, "unable to write '%s'", path);
        return NULL;
}

/* The server names the steps, and must not choose the folder of the file. */
static struct error *check_step(const struct load_step *s, const char *version) {
        if (strchr(s->model, '/') == NULL && strchr(version, '/') == NULL)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "the server has a step '%s' of version '%s': a name with '/' cannot be a "
                         "part of the name of a file",
                         s->model, version);
}

/* "<folder>/<model>_v<version>.<file>" */
static struct error *write_step(const struct bench *b, size_t step) {
        const struct load_model *m = load_run_model(b->run);
        const char              *version = load_model_step_file_version(m, step);
        const char              *path = b->plan.v->csv_path, *slash = strrchr(path, '/');
        const char              *name = slash != NULL ? slash + 1 : path;
        AUTO_CHARS               whole = mem_printf("%.*s%s_v%s.%s", (int)(name - path), path,
                                                    m->steps[step].model, version, name);
        AUTO_STRBUF              text = { 0 };

        TRY(check_step(&m->steps[step], version));
        report_csv_put_step(load_run_results(b->run), step, &b->plan, &text);
        return write_file(whole, &text);
}

static struct error *write_csv(const struct bench *b) {
        const struct load_model *m = load_run_model(b->run);
        AUTO_STRBUF              text = { 0 };

        if (b->plan.v->csv_path == NULL)
                return NULL;
        report_csv_put(load_run_results(b->run), m, &b->plan, &text);
        TRY(write_file(b->plan.v->csv_path, &text));
        for (size_t i = 0; i < m->n_steps; i++)
                TRY(write_step(b, i));
        return NULL;
}

static struct error *write_profile(const struct bench *b) {
        AUTO_STRBUF text = { .max = (size_t)4 << 30 };

        if (b->plan.v->profile_path == NULL)
                return NULL;
        if (load_run_results(b->run)->n_unlogged > 0)
                fprintf(stderr,
                        "neso bench: %llu requests are not in %s, which has no room for them\n",
                        (unsigned long long)load_run_results(b->run)->n_unlogged,
                        b->plan.v->profile_path);
        report_json_put_requests(load_run_results(b->run), load_run_model(b->run), &b->plan,
                                 load_run_target(b->run), &text);
        TRY(strbuf_check(&text, "the profile"));
        return write_file(b->plan.v->profile_path, &text);
}

static struct error *write_html(const struct bench *b) {
        AUTO_STRBUF text = { 0 };

        if (b->plan.v->html_path == NULL)
                return NULL;
        report_html_put(load_run_results(b->run), load_run_model(b->run), &b->plan,
                        load_run_target(b->run), &text);
        TRY(strbuf_check(&text, "the report"));
        return write_file(b->plan.v->html_path, &text);
}

static struct error *write_files(const struct bench *b) {
        TRY(write_csv(b));
        TRY(write_html(b));
        return write_profile(b);
}

static void print_results(const struct bench *b) {
        AUTO_STRBUF text = { 0 };

        if (b->plan.v->is_json)
                report_json_put(load_run_results(b->run), load_run_model(b->run), &b->plan,
                                load_run_target(b->run), &text);
        else
                bench_report_put(load_run_results(b->run), load_run_model(b->run), &b->plan, &text);
        plain_text_print(&text, b->plan.v->is_json);
        fflush(stdout);
}

/* Says which limits of --fail-if a load exceeds. */
static void check_limits(struct bench *b) {
        const struct load_results *results = load_run_results(b->run);

        for (size_t i = 0; i < results->n_items; i++)
                for (size_t k = 0; k < b->plan.n_limits; k++)
                        if (load_result_fails(&results->items[i], &b->plan, &b->plan.limits[k])) {
                                fprintf(stderr, "neso bench: load %g: %s\n",
                                        results->items[i].value, b->plan.limits[k].text);
                                b->exit_code = BENCH_LIMIT;
                        }
}

static bool has_answers(const struct bench *b) {
        const struct load_results *results = load_run_results(b->run);

        for (size_t i = 0; i < results->n_items; i++)
                if (results->items[i].total->latency.n > 0)
                        return true;
        return false;
}

/* The figures are those of the last windows; a wrong output counts whenever it came. */
static void report_hidden_wrong(const struct load_results *results) {
        uint64_t n = results->n_wrong;

        for (size_t i = 0; i < results->n_items; i++)
                n -= MIN(n, results->items[i].total->n_wrong);
        if (n > 0)
                fprintf(stderr,
                        "neso bench: %llu outputs that are not in the figures were not the "
                        "expected ones\n",
                        (unsigned long long)n);
}

static void check_answers(struct bench *b) {
        const struct load_results *results = load_run_results(b->run);

        if (!has_answers(b) || results->is_interrupted)
                b->exit_code = BENCH_FAILED;
        if (results->n_wrong > 0)
                b->exit_code = BENCH_FAILED;
        report_hidden_wrong(results);
}

static void keep_results(struct bench *b) {
        AUTO_ERROR err = NULL;

        print_results(b);
        err = write_files(b);
        if (err != NULL)
                plain_text_print_error("bench", err);
}

static struct error *run_bench(struct bench *b) {
        struct error *err;

        b->exit_code = BENCH_UNREACHABLE;
        TRY(load_run_new(&b->plan, &b->run));
        b->exit_code = BENCH_DONE;
        err = load_run_measure(b->run);
        if (err != NULL) { /* the server went away: what was measured before is printed */
                b->exit_code = BENCH_UNREACHABLE;
                if (has_answers(b))
                        keep_results(b);
                return err;
        }
        check_answers(b);
        print_results(b);
        check_limits(b);
        err = write_files(b);
        if (err != NULL)
                b->exit_code = BENCH_FAILED;
        return err;
}

static int report_failure(const struct bench *b, const struct error *err) {
        fflush(stdout);
        plain_text_print_error("bench", err);
        if (b->exit_code == BENCH_USAGE)
                fprintf(stderr, "`neso bench --help` lists the options.\n");
        /* What the user asked for does not fit the model, or the server refused. */
        if (b->exit_code == BENCH_UNREACHABLE && err->code != ERR_UNAVAILABLE)
                return BENCH_FAILED;
        return b->exit_code;
}

static struct error *read_line(struct bench *b, struct command_line *l, int argc, char **argv) {
        b->exit_code = BENCH_USAGE;
        TRY(command_line_read(l, argc, argv));
        if (l->wants_help)
                return NULL;
        if (l->words.n_items > 0)
                return error_new(ERR_INVALID_ARG, "'%s' is no option", l->words.items[0]);
        TRY(load_plan_read(&b->values, &b->plan));
        b->has_plan = true;
        return NULL;
}

static int read_and_run(struct bench *b, struct command_line *l, int argc, char **argv) {
        AUTO_ERROR err = read_line(b, l, argc, argv);

        if (err == NULL && l->wants_help) {
                command_page_print_help(&bench_page);
                return BENCH_DONE;
        }
        if (err == NULL) {
                fputs(strbuf_cstr(&b->plan.notes), stderr);
                err = run_bench(b);
        }
        return err != NULL ? report_failure(b, err) : b->exit_code;
}

int bench_main(int argc, char **argv) {
        struct bench        b = { .exit_code = BENCH_DONE };
        struct command_line line = { .options = &load_option_table, .values = &b.values };
        int                 code;

        option_table_init(&load_option_table, &b.values, sizeof(b.values));
        code = read_and_run(&b, &line, argc, argv);
        load_run_free(b.run);
        if (b.has_plan)
                load_plan_done(&b.plan);
        command_line_done(&line);
        option_table_done(&load_option_table, &b.values);
        return code;
}
