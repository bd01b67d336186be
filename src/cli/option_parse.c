/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/option_parse.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/option_table.h"

#include <locale.h>
#include <math.h>
#include <string.h>

#define NO_TLS { .server_cert = "", .server_key = "", .root_cert = "" }

void cli_options_init(struct cli_options *o) {
        *o = (struct cli_options){
                .log_verbose = "0",
                .log_info = true,
                .log_warning = true,
                .log_error = true,
                .log_format = "default",
                .log_file = "",
                .id = "triton",
                .exit_timeout_secs = 30,
                .exit_on_error = true,
                .strict_readiness = true,
                .model_control_mode = "none",
                .rate_limit = "off",
                .adaptive_batching = "",
                .scheduler = "default",
                .scheduler_directory = "",
                .poll_secs = 15,
                .model_config_name = "",
                .model_load_threads = 4,
                .backend_directory = "",
                .repoagent_directory = "",
                .cache_directory = "",
                .cache_bytes = -1,
                .pinned_pool_bytes = 268435456,
                .peer_access = true,
                .allow_http = true,
                .http_address = "0.0.0.0",
                .http_port = 8000,
                .http_header_forward_pattern = "",
                .http_max_input_bytes = 67108864,
                .http_max_connections = 16384,
                .http_max_connections_per_address = CLI_CONNECTIONS_SHARE,
                .http_max_header_bytes = 32768,
                .http_max_header_fields = 100,
                .http_header_timeout_ms = 10000,
                .http_idle_timeout_ms = 75000,
                .http_min_body_rate = 1024,
                .http_min_answer_rate = 1024,
                .http_tls = NO_TLS,
                .allow_grpc = true,
                .grpc_address = "0.0.0.0",
                .grpc_port = 8001,
                .grpc_header_forward_pattern = "",
                .grpc_allocation_pool = 8,
                .grpc_max_responses = 2147483647,
                .grpc_compression = "none",
                .grpc_keepalive_ms = 7200000,
                .grpc_keepalive_timeout_ms = 20000,
                .grpc_max_pings = 2,
                .grpc_ping_interval_ms = 300000,
                .grpc_max_ping_strikes = 2,
                .grpc_max_message_bytes = 1073741824,
                .grpc_max_decompressed_bytes = 67108864,
                .grpc_max_connections = 16384,
                .grpc_max_connections_per_address = CLI_CONNECTIONS_SHARE,
                .grpc_max_streams = 256,
                .grpc_max_header_bytes = 32768,
                .grpc_max_header_fields = 100,
                .grpc_header_timeout_ms = 10000,
                .grpc_min_message_rate = 1024,
                .grpc_min_answer_rate = 1024,
                .grpc_tls = NO_TLS,
                .allow_metrics = true,
                .allow_gpu_metrics = true,
                .allow_cpu_metrics = true,
                .metrics_port = 8002,
                .metrics_interval_ms = 2000,
                .trace_rate = -2,
                .trace_count = -2,
                .trace_log_frequency = -2,
                .metrics_tls = NO_TLS,
        };
}

void cli_options_done(struct cli_options *o) {
        free(o->model_repository.items);
        free(o->load_model.items);
        free(o->backend_config.items);
        free(o->host_policy.items);
        free(o->cache_config.items);
        free(o->rate_limit_resource.items);
        free(o->cuda_pool_bytes.items);
        free(o->cuda_virtual_bytes.items);
        free(o->model_load_gpu_limit.items);
        free(o->http_restricted_api.items);
        free(o->grpc_restricted_protocol.items);
        free(o->metrics_config.items);
        free(o->trace_config.items);
        free(o->trace_level.items);
        free(o->in_flight_limit.items);
}

static struct error *bad(const struct option_row *row, const char *format, const char *value) {
        AUTO_CHARS text = mem_printf(format, value);

        return error_new(ERR_INVALID_ARG, "Bad option: \"--%s\".\n%s", row->name, text);
}

static bool read_bool(const char *value, bool *ret) {
        struct str v = str_of(value);

        if (str_equal_nocase(v, STR_LIT("true")) || str_equal_nocase(v, STR_LIT("on")) ||
            str_is(v, "1"))
                *ret = true;
        else if (str_equal_nocase(v, STR_LIT("false")) || str_equal_nocase(v, STR_LIT("off")) ||
                 str_is(v, "0"))
                *ret = false;
        else
                return false;
        return true;
}

static struct error *out_of_range(const struct option_row *row, const char *value) {
        AUTO_CHARS text = mem_printf("value is out of range [ %.0f, %.0f ], got: %s", row->min,
                                     row->max, value);

        return bad(row, "%s", text);
}

static struct error *set_number(const struct option_row *row, const char *value, int64_t *target) {
        int64_t number;

        if (!str_to_i64(str_of(value), &number))
                return bad(row, "expects an integer, got: %s", value);
        if (number < (int64_t)row->min || number > (int64_t)row->max)
                return out_of_range(row, value);
        *target = number;
        return NULL;
}

static struct error *set_real(const struct option_row *row, const char *value, double *target) {
        char  *end;
        double number = strtod(value, &end);

        if (*value == '\0' || *end != '\0' || !isfinite(number))
                return bad(row, "expects a number, got: %s", value);
        if (number < row->min || number > row->max)
                return out_of_range(row, value);
        *target = number;
        return NULL;
}

static void add_text(struct cli_texts *texts, const char *value) {
        texts->items = mem_realloc(texts->items, (texts->n_items + 1) * sizeof(*texts->items));
        texts->items[texts->n_items++] = value;
}

/* True when the value requests none of the option's missing feature. */
static bool is_harmless(const struct option_row *row, const char *value) {
        bool given, harmless;

        if (row->harmless == NULL)
                return false;
        if (row->kind == OPTION_BOOL)
                return read_bool(value, &given) && read_bool(row->harmless, &harmless) &&
                       given == harmless;
        return strcmp(row->harmless, value) == 0;
}

static struct error *set(const struct option_row *row, const char *value, struct cli_options *o) {
        void *target = (char *)o + row->offset;

        if (row->missing != NULL) {
                if (is_harmless(row, value))
                        return NULL;
                return error_new(ERR_UNSUPPORTED, "--%s: %s is not supported yet", row->name,
                                 row->missing);
        }
        switch (row->kind) {
        case OPTION_FLAG:
                *(bool *)target = true;
                break;
        case OPTION_BOOL:
                if (!read_bool(value, target))
                        return bad(row, "expects true or false, got: %s", value);
                break;
        case OPTION_NUMBER:
                return set_number(row, value, target);
        case OPTION_REAL:
                return set_real(row, value, target);
        case OPTION_TEXT:
                if (row->refuses_empty && *value == '\0')
                        return error_new(ERR_INVALID_ARG, "Error: empty argument for --%s",
                                         row->name);
                *(const char **)target = value;
                break;
        case OPTION_TEXTS:
                add_text(target, value);
                break;
        }
        return NULL;
}

static struct error *unknown(struct str name) {
        const struct option_group *groups;
        const char                *names[256];
        size_t                     n_groups;
        size_t                     n = 0;
        const char                *near;

        groups = option_groups(&n_groups);
        for (size_t g = 0; g < n_groups; g++)
                for (size_t i = 0; i < groups[g].n_rows && n < ARRAY_LEN(names); i++)
                        names[n++] = groups[g].rows[i].name;
        near = str_suggest(name, names, n);
        if (near != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "unrecognized option '--%.*s'; did you mean '--%s'?",
                                 STR_ARG(name), near);
        return error_new(ERR_INVALID_ARG, "unrecognized option '--%.*s'", STR_ARG(name));
}

static struct error *ambiguous(struct str prefix) {
        const struct option_group *groups;
        size_t                     n_groups;
        AUTO_STRBUF                names = { 0 };

        strbuf_init(&names, 0);
        groups = option_groups(&n_groups);
        for (size_t g = 0; g < n_groups; g++)
                for (size_t i = 0; i < groups[g].n_rows; i++)
                        if (str_starts(str_of(groups[g].rows[i].name), prefix))
                                strbuf_printf(&names, " '--%s'", groups[g].rows[i].name);
        TRY(strbuf_check(&names, "the text of an error"));
        return error_new(ERR_INVALID_ARG, "option '--%.*s' is ambiguous; possibilities:%s",
                         STR_ARG(prefix), strbuf_cstr(&names));
}

/* Finds an option by its name or by a unique beginning of its name, as getopt_long() does. */
static struct error *find_row(struct str name, const struct option_row **ret) {
        size_t n_matches;

        *ret = option_find(name.ptr, name.len);
        if (*ret == NULL && name.len > 0) {
                *ret = option_find_prefix(name, &n_matches);
                if (n_matches > 1)
                        return ambiguous(name);
        }
        return *ret != NULL ? NULL : unknown(name);
}

/* Reads one option. *at is the index of its argument, and moves on when the value is an argument of
 * its own. */
static struct error *parse_one(int argc, char **argv, int *at, struct cli_options *o) {
        const char              *arg = argv[*at];
        struct str               name;
        struct str               value;
        const struct option_row *row;

        if (strncmp(arg, "--", 2) != 0 || arg[2] == '\0')
                return error_new(ERR_INVALID_ARG, "Unexpected argument: %s", arg);
        value = str_split(str_of(arg + 2), '=', &name);
        TRY(find_row(name, &row));
        if (row->kind == OPTION_FLAG) {
                if (value.ptr != NULL)
                        return error_new(ERR_INVALID_ARG, "option '--%s' takes no value",
                                         row->name);
                return set(row, "", o);
        }
        if (value.ptr != NULL)
                return set(row, value.ptr, o);
        if (*at + 1 >= argc)
                return error_new(ERR_INVALID_ARG, "option '--%s' needs a value", row->name);
        return set(row, argv[++*at], o);
}

struct error *option_parse(int argc, char **argv, struct cli_options *ret) {
        for (int at = 1; at < argc; at++)
                TRY(parse_one(argc, argv, &at, ret));
        return NULL;
}

void option_print_usage(struct strbuf *out) {
        const struct option_group *groups;
        size_t                     n_groups;

        strbuf_puts(out, "Usage: neso serve --model-repository <directory> [options]\n");
        groups = option_groups(&n_groups);
        for (size_t g = 0; g < n_groups; g++) {
                strbuf_printf(out, "\n%s:\n", groups[g].title);
                for (size_t i = 0; i < groups[g].n_rows; i++) {
                        const struct option_row *row = &groups[g].rows[i];

                        strbuf_printf(out, "  --%s %s\n\t%s", row->name,
                                      row->argument != NULL ? row->argument : "", row->help);
                        if (row->default_text != NULL)
                                strbuf_printf(out, " Default: %s.", row->default_text);
                        if (row->missing != NULL)
                                strbuf_printf(out, " (Not supported yet.)");
                        strbuf_putc(out, '\n');
                }
        }
}

/* Puts a cell of a Markdown table, in which "|" is escaped. */
static void put_cell(struct strbuf *out, const char *text) {
        for (; *text != '\0'; text++) {
                if (*text == '|')
                        strbuf_putc(out, '\\');
                strbuf_putc(out, *text);
        }
}

void option_print_markdown(struct strbuf *out) {
        const struct option_group *groups;
        size_t                     n_groups;

        strbuf_puts(out, "# Options of `neso serve`\n\n"
                         "Generated by `neso options`; do not edit. Long options only, "
                         "`--name=value` or `--name value`.\n");
        groups = option_groups(&n_groups);
        for (size_t g = 0; g < n_groups; g++) {
                strbuf_printf(out, "\n## %s\n\n| option | default | what it does |\n|---|---|---|\n",
                              groups[g].title);
                for (size_t i = 0; i < groups[g].n_rows; i++) {
                        const struct option_row *row = &groups[g].rows[i];

                        strbuf_printf(out, "| `--%s", row->name);
                        if (row->argument != NULL) {
                                strbuf_putc(out, ' ');
                                put_cell(out, row->argument);
                        }
                        strbuf_puts(out, "` | ");
                        put_cell(out, row->default_text != NULL ? row->default_text : "");
                        strbuf_puts(out, " | ");
                        put_cell(out, row->help);
                        strbuf_puts(out, row->missing != NULL ? " *Not supported yet.* |\n"
                                                              : " |\n");
                }
        }
}
