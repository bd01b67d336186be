/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_report.h"

#include "backend/backend_registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "repo/agent.h"
#include "repo/repo.h"
#include "server/server.h"

#include <string.h>

#define MAX_COLUMNS 3

/* A table of texts, which log_and_free() logs with borders, one line per row, each column as wide as
 * its widest cell. Cells have no control characters: the reason of a model may be a stack trace, and
 * names come from directories and options. */
struct report_table {
        size_t n_columns;
        size_t n_rows;
        char *(*rows)[MAX_COLUMNS]; /* owned, as is each cell */
};

/* Returns a copy, owned by the caller: line breaks and tabs become blanks, other control characters
 * question marks. */
static char *clean_cell(const char *text) {
        char *cell = mem_strdup(text);

        for (char *at = cell; *at != '\0'; at++) {
                if ((unsigned char)*at >= ' ' && *at != 0x7f)
                        continue;
                *at = strchr("\t\n\v\f\r", *at) != NULL ? ' ' : '?';
        }
        return cell;
}

static void add_row(struct report_table *t, const char *a, const char *b, const char *c) {
        t->rows = mem_realloc(t->rows, (t->n_rows + 1) * sizeof(*t->rows));
        t->rows[t->n_rows][0] = clean_cell(a);
        t->rows[t->n_rows][1] = clean_cell(b);
        t->rows[t->n_rows][2] = clean_cell(c != NULL ? c : "");
        t->n_rows++;
}

static void print_rule(struct strbuf *out, const size_t *widths, size_t n) {
        strbuf_clear(out);
        for (size_t c = 0; c < n; c++) {
                strbuf_putc(out, '+');
                for (size_t i = 0; i < widths[c] + 2; i++)
                        strbuf_putc(out, '-');
        }
        strbuf_putc(out, '+');
        log_info("%s", strbuf_cstr(out));
}

static void print_row(struct strbuf *out, const size_t *widths, size_t n, char *const *cells) {
        strbuf_clear(out);
        for (size_t c = 0; c < n; c++)
                strbuf_printf(out, "| %-*s ", (int)widths[c], cells[c]);
        strbuf_putc(out, '|');
        log_info("%s", strbuf_cstr(out));
}

/* Logs the table and frees it. */
static void log_and_free(struct report_table *t) {
        AUTO_STRBUF out = { 0 };
        size_t      widths[MAX_COLUMNS] = { 0 };

        for (size_t r = 0; r < t->n_rows; r++)
                for (size_t c = 0; c < t->n_columns; c++)
                        widths[c] = MAX(widths[c], strlen(t->rows[r][c]));
        print_rule(&out, widths, t->n_columns);
        for (size_t r = 0; r < t->n_rows; r++) {
                print_row(&out, widths, t->n_columns, t->rows[r]);
                if (r == 0)
                        print_rule(&out, widths, t->n_columns);
                for (size_t c = 0; c < MAX_COLUMNS; c++)
                        free(t->rows[r][c]);
        }
        print_rule(&out, widths, t->n_columns);
        free(t->rows);
}

static void add_agent(const struct agent *a, void *userp) {
        add_row(userp, a->name, a->path, NULL);
}

static void report_agents(struct server *s) {
        struct report_table t = { .n_columns = 2 };

        add_row(&t, "Repository Agent", "Path", NULL);
        agent_registry_each(s->agents, add_agent, &t);
        log_and_free(&t);
}

static void add_backend(const struct backend *b, void *userp) {
        add_row(userp, b->name, b->path, b->config->text);
}

static void report_backends(struct server *s) {
        struct report_table t = { .n_columns = 3 };

        add_row(&t, "Backend", "Path", "Config");
        backend_registry_each(s->backends, add_backend, &t);
        log_and_free(&t);
}

static void report_models(struct server *s) {
        struct report_table t = { .n_columns = 3 };
        struct repo_index   index;

        add_row(&t, "Model", "Version", "Status");
        repo_index_read(s->repo, false, &index);
        for (size_t i = 0; i < index.n_entries; i++) {
                const struct repo_index_entry *e = &index.entries[i];
                AUTO_CHARS version = e->version >= 0 ? mem_printf("%lld", (long long)e->version)
                                                     : mem_strdup("-");
                AUTO_CHARS status =
                        e->reason != NULL
                                ? mem_printf("%s: %s", version_state_name(e->state), e->reason)
                                : mem_strdup(version_state_name(e->state));
                AUTO_CHARS label = model_key_label(&(struct model_key){ e->namespace, e->name });

                add_row(&t, label, version, status);
        }
        repo_index_done(&index);
        log_and_free(&t);
}

static void add_number(struct report_table *t, const char *name, unsigned long long value) {
        AUTO_CHARS text = mem_printf("%llu", value);

        add_row(t, name, text, NULL);
}

static void report_options(struct server *s, const struct server_options *o) {
        static const char *const modes[] = { "MODE_NONE", "MODE_POLL", "MODE_EXPLICIT" };
        struct report_table      t = { .n_columns = 2 };
        /* A build of the reference server without GPUs says 0. */
        AUTO_CHARS capability =
                mem_printf("%.1f", s->gpus != NULL ? o->min_compute_capability : 0.0);

        add_row(&t, "Option", "Value", NULL);
        add_row(&t, "server_id", s->id, NULL);
        for (size_t i = 0; i < o->model_repository.n_items; i++) {
                AUTO_CHARS name = mem_printf("model_repository_path[%zu]", i);

                add_row(&t, name, o->model_repository.items[i], NULL);
        }
        add_row(&t, "model_control_mode", modes[o->control_mode], NULL);
        add_number(&t, "strict_model_config", o->strict_model_config);
        add_row(&t, "model_config_name", o->model_config_name, NULL);
        add_row(&t, "rate_limit", o->rate_limit_mode == RATE_LIMIT_OFF ? "OFF" : "EXEC_COUNT",
                NULL);
        add_number(&t, "pinned_memory_pool_byte_size", (unsigned long long)o->pinned_pool_bytes);
        add_row(&t, "min_supported_compute_capability", capability, NULL);
        add_number(&t, "strict_readiness", o->strict_readiness);
        add_number(&t, "exit_timeout", (unsigned long long)o->exit_timeout_s);
        add_number(&t, "cache_enabled", o->n_caches > 0);
        log_and_free(&t);
}

void server_report_start(struct server *s, const struct server_options *o) {
        if (!log_is_enabled(LOG_INFO))
                return;
        report_agents(s);
        report_backends(s);
        report_models(s);
        report_options(s, o);
}
