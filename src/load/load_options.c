/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/load_options.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "load/prompt_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (24 * 3600 * UINT64_C(1000))

#define ROW(row_kind, row_name, member, ...)                                                       \
        {                                                                                          \
                .kind = OPTION_##row_kind, .name = row_name,                                       \
                .offset = offsetof(struct load_values, member), __VA_ARGS__                        \
        }
#define MISSING(row_name, what, row_argument)                                                      \
        ROW(TEXT, row_name, missing, .missing = what, .argument = row_argument, .help = what)

static const struct option_row rows[] = {
#include "load/load_rows.def"
        ROW(TEXT, "concurrency-range", concurrency, .argument = "S:E:STEP",
            .help = "closed loop: requests under way, from S to E in steps; 1. E 0: until the\n"
                    "latency exceeds --latency-threshold"),
        ROW(TEXT, "request-rate-range", rate, .argument = "S:E:STEP",
            .help = "open loop: requests a second, from S to E in steps"),
        ROW(TEXT, "request-distribution", distribution, .argument = "<constant|poisson>",
            .initial = "constant", .help = "open loop: distances of requests; constant"),
        ROW(TEXT, "request-intervals", intervals, .argument = "FILE",
            .help = "open loop: distances in microseconds, one a line, repeated"),
        ROW(TEXT, "periodic-concurrency-range", periodic, .argument = "S:E:STEP",
            .help = "streams: S requests at first, and STEP more as soon as each of the last ones\n"
                    "has --request-period responses, until E requests were sent, each once"),
        ROW(COUNT, "request-period", request_period, .argument = "N", .initial = "10",
            .help = "responses of a request before more requests are sent; 10"),
        ROW(FLAG, "binary-search", is_binary_search,
            .help = "find the highest load of the range within --latency-threshold"),
        ROW(COUNT, "latency-threshold", latency_limit_ms, .letter = 'l', .argument = "MS",
            .help = "end the range at the first load beyond this latency; none"),

        ROW(TEXT, "measurement-mode", window_mode, .argument = "<time_windows|count_windows>",
            .initial = "time_windows", .help = "how windows end; time_windows"),
        ROW(COUNT, "measurement-interval", window_ms, .letter = 'p', .argument = "MS",
            .initial = "5000",
            .help = "longest window. It ends after a fifth when it has 10000 requests; 5000"),
        ROW(COUNT, "measurement-request-count", window_requests, .argument = "N", .initial = "50",
            .help = "count_windows: requests of a window; 50"),
        ROW(REAL, "stability-percentage", stability, .letter = 's', .argument = "PCT",
            .initial = "10", .min = 0, .max = 1e6,
            .help = "stable: the last three windows differ by at most this; 10"),
        ROW(NUMBER, "max-trials", max_trials, .letter = 'r', .argument = "N", .initial = "10",
            .min = 1, .max = 10000, .help = "windows of a load at most; 10"),
        ROW(NUMBER, "percentile", percentile, .argument = "P", .initial = "-1", .min = -1,
            .max = 99, .help = "the latency that is judged, instead of the mean"),
        ROW(COUNT, "request-count", n_requests, .argument = "N",
            .help = "one window of exactly N requests; of N at least with sequences in a closed\n"
                    "loop, which go on to their ends"),
        ROW(COUNT, "warmup-request-count", n_warmup, .argument = "N",
            .help = "requests before the windows; 0: a window's time, at most 1 s"),

        ROW(TEXT, "latency-report-file", csv_path, .letter = 'f', .argument = "FILE",
            .help = "write CSV, a row for each load"),
        ROW(FLAG, "verbose-csv", has_verbose_csv, .help = "more columns"),
        ROW(TEXT, "profile-export-file", profile_path, .argument = "FILE",
            .help = "write JSON with the times of each request"),
        ROW(FLAG, "json", is_json, .help = "print the results as JSON"),
        ROW(TEXTS, "fail-if", limits, .argument = "FIGURE>BOUND",
            .help = "exit code 4 when it is true of a load: p99>20ms, mean>5ms, max>1s,\n"
                    "rate<1000, errors>0"),
        ROW(TEXT, "report", html_path, .argument = "FILE",
            .help = "write a report in HTML, with plots"),
        ROW(FLAG, "language", is_language,
            .help = "measures of language models: time to the first response, between\n"
                    "responses. HTTP: requests go to generate_stream; gRPC: --streaming"),
        ROW(TEXT, "endpoint", endpoint, .argument = "<chat|completions|embeddings|generate>",
            .help = "load on a language model by the OpenAI API, or by generate_stream: time to "
                    "the\n"
                    "first token, from token to token, tokens a second"),
        ROW(TEXT, "prompt-tokens", prompt_tokens, .argument = "MEAN,DEVIATION", .initial = "128",
            .help = "--endpoint: words of a prompt, at random; 128"),
        ROW(COUNT, "prefix-tokens", prefix_tokens, .argument = "N",
            .help = "--endpoint: words that all prompts begin with; 0"),
        ROW(COUNT, "output-tokens", output_tokens, .argument = "N",
            .help = "--endpoint: limit of the tokens of an answer; none"),
        ROW(TEXT, "prompts", prompts, .argument = "FILE",
            .help = "--endpoint: prompts from a file, one on each line"),
        ROW(FLAG, "whole", is_whole, .help = "--endpoint: answers as a whole, without streams"),
        ROW(FLAG, "collect-metrics", collects_metrics,
            .help = "report the means of the server's gauges during the windows"),
        ROW(TEXT, "metrics-url", metrics_url, .argument = "HOST:PORT/PATH",
            .initial = "localhost:8002/metrics", .help = "their page; localhost:8002/metrics"),
        ROW(COUNT, "metrics-interval", metrics_ms, .argument = "MS", .initial = "1000",
            .help = "time between two readings; 1000"),

        ROW(NUMBER, "threads", n_threads, .argument = "N", .initial = "1", .min = 1, .max = 64,
            .help = "threads that send; 1"),
        ROW(COUNT, "connections", n_connections, .argument = "N",
            .help = "connections; as many as requests under way. Open loop: at most 1024"),
        ROW(FLAG, "verbose", is_verbose, .letter = 'v', .help = "print each window"),
        ROW(FLAG, "extra-verbose", is_extra_verbose, .help = "the same"),
        ROW(FLAG, "async", is_async, .letter = 'a', .help = "as always here"),
        ROW(FLAG, "sync", is_sync, .help = "ignored: nothing waits for an answer here"),
        ROW(NUMBER, "max-threads", max_threads, .argument = "N", .min = 0, .max = 100000,
            .help = "ignored: --threads"),
        ROW(NUMBER, "concurrency", old_concurrency, .letter = 't', .argument = "N", .min = 0,
            .max = 65536, .help = "older form of --concurrency-range=N"),
        ROW(FLAG, "dynamic-concurrency", is_dynamic, .letter = 'd',
            .help = "older form of --concurrency-range=N:0"),
        ROW(NUMBER, "max-concurrency", old_max_concurrency, .letter = 'c', .argument = "N",
            .min = 0, .max = 65536, .help = "older form of the range's end"),
        ROW(TEXT, "service-kind", service_kind, .argument = "<triton|openai>", .initial = "triton",
            .help = "openai: --endpoint=chat, unless it is given; triton"),
        MISSING("bls-composing-models", "naming the models that a model calls", "NAME,..."),
        MISSING("model-repository", "a server within this process", "DIRECTORY"),
        MISSING("model-signature-name", "TensorFlow Serving", "NAME"),
        MISSING("trace-level", "the trace settings of a server", "LEVEL"),
        MISSING("trace-rate", "the trace settings of a server", "N"),
        MISSING("trace-count", "the trace settings of a server", "N"),
        MISSING("trace-file", "the trace settings of a server", "FILE"),
        MISSING("log-frequency", "the trace settings of a server", "N"),
};

const struct option_table load_option_table = { rows, ARRAY_LEN(rows) };

/* ---- numbers ----------------------------------------------------------------------------------- */

/* `*end` is after the number. */
static bool read_real(const char *text, double *ret, char **end) {
        *ret = strtod(text, end);
        return *end != text && isfinite(*ret) && *ret >= 0.0;
}

struct error *load_range_read(const char *option, const char *text, struct load_range *ret) {
        struct load_range r = { .step = 1.0, .is_given = true };
        double           *parts[] = { &r.start, &r.end, &r.step };
        const char       *at = text;
        size_t            n = 0;
        char             *end;

        while (n < ARRAY_LEN(parts) && read_real(at, parts[n], &end)) {
                n++;
                at = end;
                if (*at != ':')
                        break;
                at++;
        }
        if (n == 1)
                r.end = r.start;
        if (n == 0 || *at != '\0' || (at > text && at[-1] == ':') || r.start <= 0.0 ||
            r.step <= 0.0 || (r.end != 0.0 && r.end < r.start))
                return error_new(ERR_INVALID_ARG,
                                 "--%s: '%s' is no range START:END:STEP with START above 0", option,
                                 text);
        if (r.end != r.start && MAX(r.start, r.end) + r.step == MAX(r.start, r.end))
                return error_new(ERR_INVALID_ARG, "--%s: '%s': the step is too small", option,
                                 text);
        *ret = r;
        return NULL;
}

/* "20ms", "1.5s", "300us", "5000ns" */
static bool read_duration(const char *text, double *ret_ns) {
        static const struct {
                const char *unit;
                double      ns;
        } units[] = { { "ns", 1.0 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
        char  *end;
        double number;

        if (!read_real(text, &number, &end))
                return false;
        for (size_t i = 0; i < ARRAY_LEN(units); i++)
                if (strcmp(end, units[i].unit) == 0) {
                        *ret_ns = number * units[i].ns;
                        return true;
                }
        return false;
}

static struct error *wrong_limit(const char *text) {
        return error_new(
                ERR_INVALID_ARG,
                "--fail-if '%s': expected a figure (p50, p99.9, mean, max, rate, errors), < or "
                ">, and a bound, as in p99>20ms or rate<1000",
                text);
}

static bool read_figure(struct str name, struct fail_limit *l) {
        AUTO_CHARS text = mem_strndup(name.ptr, name.len);
        char      *end;

        if (STR_IS(name, "mean"))
                l->figure = FAIL_MEAN;
        else if (STR_IS(name, "max"))
                l->figure = FAIL_MAX;
        else if (STR_IS(name, "rate"))
                l->figure = FAIL_RATE;
        else if (STR_IS(name, "errors"))
                l->figure = FAIL_ERRORS;
        else if (name.len > 1 && name.ptr[0] == 'p' && read_real(text + 1, &l->percent, &end) &&
                 *end == '\0' && l->percent > 0.0 && l->percent <= 100.0)
                l->figure = FAIL_PERCENTILE;
        else
                return false;
        return true;
}

struct error *fail_limit_read(const char *text, struct fail_limit *ret) {
        struct fail_limit l = { .text = text };
        size_t            at = strcspn(text, "<>");
        char             *end;

        if (text[at] == '\0' || !read_figure(str_trim(str_range(text, at)), &l))
                return wrong_limit(text);
        l.is_above = text[at] == '>';
        at++;
        at += strspn(text + at, " ");
        if (l.figure == FAIL_RATE || l.figure == FAIL_ERRORS) {
                if (!read_real(text + at, &l.bound, &end) || *end != '\0')
                        return wrong_limit(text);
        } else if (!read_duration(text + at, &l.bound)) {
                return wrong_limit(text);
        }
        *ret = l;
        return NULL;
}

/* ---- what the values mean ---------------------------------------------------------------------- */

static struct error *check_word(const char *option, const char *value, const char *const *words) {
        AUTO_STRBUF known = { 0 };

        for (size_t i = 0; words[i] != NULL; i++)
                if (strcmp(value, words[i]) == 0)
                        return NULL;
        for (size_t i = 0; words[i] != NULL; i++)
                strbuf_printf(&known, "%s%s", i > 0 ? ", " : "", words[i]);
        return error_new(ERR_INVALID_ARG, "--%s: unknown value '%s', not one of %s", option, value,
                         strbuf_cstr(&known));
}

static struct error *check_words(const struct load_values *v) {
        static const char *const protocols[] = { "http", "grpc", NULL };
        static const char *const formats[] = { "binary", "json", NULL };
        static const char *const places[] = { "none", "system", "cuda", NULL };
        static const char *const distributions[] = { "constant", "poisson", NULL };
        static const char *const modes[] = { "time_windows", "count_windows", NULL };
        static const char *const types[] = { "PEM", NULL };
        static const char *const algorithms[] = { "none", "gzip", "deflate", NULL };

        if (strcmp(v->service_kind, "triton") != 0 && strcmp(v->service_kind, "openai") != 0)
                return error_new(ERR_UNSUPPORTED, "--service-kind: '%s' is not supported",
                                 v->service_kind);
        if (strcmp(v->compression, "none") != 0 && strcmp(v->protocol, "grpc") != 0)
                return error_new_text(ERR_INVALID_ARG,
                                      "--grpc-compression-algorithm needs -i grpc");
        TRY(check_word("protocol", v->protocol, protocols));
        TRY(check_word("input-tensor-format", v->input_format, formats));
        TRY(check_word("output-tensor-format", v->output_format, formats));
        TRY(check_word("shared-memory", v->shared_memory, places));
        TRY(check_word("request-distribution", v->distribution, distributions));
        TRY(check_word("measurement-mode", v->window_mode, modes));
        TRY(check_word("grpc-compression-algorithm", v->compression, algorithms));
        TRY(check_word("ssl-https-client-certificate-type", v->old_pem_type, types));
        return check_word("ssl-https-private-key-type", v->old_key_type, types);
}

static struct error *read_intervals(struct load_plan *p) {
        AUTO_STRBUF text = { .max = (size_t)64 << 20 };
        uint64_t    us, sum = 0;
        size_t      number = 0;
        double      rate;

        TRY(error_wrap(file_read(p->v->intervals, (size_t)64 << 20, &text), "--request-intervals"));
        STR_FOR_EACH(strbuf_str(&text), '\n', line) {
                number++;
                if (str_trim(line).len == 0)
                        continue;
                if (!str_to_u64(str_trim(line), &us) || us > UINT64_C(1000000000000))
                        return error_new(ERR_INVALID_ARG,
                                         "%s:%zu: '%.*s' is no number of microseconds",
                                         p->v->intervals, number, STR_ARG(line));
                p->intervals_ns =
                        mem_grow(p->intervals_ns, p->n_intervals, sizeof(*p->intervals_ns));
                p->intervals_ns[p->n_intervals++] = us * NS_PER_US;
                sum += us;
        }
        if (sum == 0)
                return error_new(ERR_INVALID_ARG, "%s has no intervals", p->v->intervals);
        p->is_open = true;
        rate = (double)p->n_intervals * 1e6 / (double)sum; /* the mean, for the reports */
        p->range = (struct load_range){ .start = rate, .end = rate, .step = rate };
        return NULL;
}

/* -t, -c and -d: the reference's older options. */
static struct error *read_old_concurrency(struct load_plan *p) {
        const struct load_values *v = p->v;
        double                    start = v->old_concurrency > 0 ? (double)v->old_concurrency : 1.0;

        p->range = (struct load_range){ .start = start, .end = start, .step = 1 };
        if (v->is_dynamic || v->old_max_concurrency > 0)
                p->range.end = (double)v->old_max_concurrency;
        if (p->range.end != 0.0 && p->range.end < start)
                return error_new_text(ERR_INVALID_ARG, "-c is below -t");
        return NULL;
}

/* One load of as many requests as the range ends with. */
static struct error *read_periodic(struct load_plan *p) {
        struct load_values *v = p->v;

        TRY(load_range_read("periodic-concurrency-range", v->periodic, &p->range));
        if (p->range.start != floor(p->range.start) || p->range.step != floor(p->range.step) ||
            p->range.end != floor(p->range.end) || p->range.end == 0.0 || p->range.end > 65536.0)
                return error_new_text(ERR_INVALID_ARG,
                                      "--periodic-concurrency-range: whole numbers up to 65536, "
                                      "with an end");
        if (!v->is_streaming && !v->is_language && !load_plan_has_streams(p))
                return error_new_text(ERR_INVALID_ARG,
                                      "--periodic-concurrency-range needs streams: -i grpc "
                                      "--streaming, --language, or --endpoint");
        if (v->request_period == 0)
                return error_new_text(ERR_INVALID_ARG, "--request-period: at least 1");
        if (v->n_threads > 1 || v->n_requests > 0 || v->is_binary_search)
                return error_new_text(ERR_INVALID_ARG,
                                      "--periodic-concurrency-range: not with --threads, "
                                      "--request-count or --binary-search");
        p->is_periodic = true;
        v->n_requests = (uint64_t)p->range.end;
        return NULL;
}

static struct error *read_range(struct load_plan *p) {
        struct load_values *v = p->v;
        bool has_old = v->old_concurrency > 0 || v->is_dynamic || v->old_max_concurrency > 0;

        if ((v->concurrency != NULL) + (v->rate != NULL) + (v->intervals != NULL) +
                    (v->periodic != NULL) + has_old >
            1)
                return error_new_text(ERR_INVALID_ARG, "--concurrency-range, --request-rate-range, "
                                                       "--request-intervals: one of them");
        if (v->periodic != NULL)
                return read_periodic(p);
        if (v->intervals != NULL)
                return read_intervals(p);
        p->is_open = v->rate != NULL;
        if (v->rate != NULL)
                return load_range_read("request-rate-range", v->rate, &p->range);
        if (v->concurrency == NULL)
                return read_old_concurrency(p);
        TRY(load_range_read("concurrency-range", v->concurrency, &p->range));
        if (p->range.start != floor(p->range.start) || p->range.step != floor(p->range.step) ||
            MAX(p->range.start, p->range.end) > 65536.0)
                return error_new_text(ERR_INVALID_ARG,
                                      "--concurrency-range: whole numbers up to 65536");
        return NULL;
}

static struct error *check_range(const struct load_plan *p) {
        if (p->range.end == 0.0 && p->latency_limit_ns == 0)
                return error_new_text(ERR_INVALID_ARG, "a range without an end needs "
                                                       "--latency-threshold");
        if (p->v->is_binary_search && (p->latency_limit_ns == 0 || p->range.end == 0.0))
                return error_new_text(ERR_INVALID_ARG,
                                      "--binary-search needs a range with an end, and "
                                      "--latency-threshold");
        return NULL;
}

static struct error *read_ids(struct load_plan *p) {
        const char *text = p->v->sequence_ids;
        struct str  start, end;

        p->first_id = 1;
        p->n_ids = INT64_MAX - 1;
        if (text == NULL)
                return NULL;
        end = str_split(str_of(text), ':', &start);
        if (!str_to_u64(start, &p->first_id) || p->first_id == 0 || p->first_id > INT64_MAX - 1)
                return error_new(ERR_INVALID_ARG, "--sequence-id-range: '%s' is no range START:END",
                                 text);
        p->n_ids = INT64_MAX - p->first_id;
        if (end.ptr == NULL || end.len == 0)
                return NULL;
        if (!str_to_u64(end, &p->n_ids) || p->n_ids <= p->first_id || p->n_ids > INT64_MAX)
                return error_new(ERR_INVALID_ARG, "--sequence-id-range: '%s' is no range START:END",
                                 text);
        p->n_ids -= p->first_id;
        return NULL;
}

static void read_target(struct load_plan *p) {
        struct load_values *v = p->v;
        bool                is_http = strcmp(v->protocol, "http") == 0;
        const char *url = v->url != NULL ? v->url : is_http ? "localhost:8000" : "localhost:8001";

        p->target = (struct target_options){
                .protocol = is_http ? TARGET_HTTP : TARGET_GRPC,
                .url = url,
                .key = v->key != NULL ? v->key : getenv("NESO_API_KEY"),
                .headers = v->headers.items,
                .n_headers = v->headers.n_items,
                .has_tls = !is_http && v->grpc_tls,
                .ca_path = is_http ? v->https_ca : v->grpc_ca,
                .cert_path = is_http ? v->https_cert : v->grpc_cert,
                .key_path = is_http ? v->https_key : v->grpc_key,
                .accepts_any_certificate = v->https_any || (is_http && v->https_verify_peer == 0),
                .accepts_any_host = v->https_any || (is_http && v->https_verify_host == 0),
        };
}

static void put_notes(struct load_plan *p) {
        const struct load_values *v = p->v;
        bool                      is_grpc = p->target.protocol == TARGET_GRPC;

        if (v->is_sync)
                strbuf_puts(&p->notes, "--sync is ignored: no thread waits for an answer here\n");
        if (v->max_threads > 0)
                strbuf_puts(&p->notes,
                            "--max-threads is ignored: --threads says how many threads send\n");
        if (is_grpc &&
            (strcmp(v->input_format, "json") == 0 || strcmp(v->output_format, "json") == 0))
                strbuf_puts(&p->notes, "tensors of gRPC are binary: the format json is ignored\n");
        if (!is_grpc && v->n_connections > 0 && !p->is_open)
                strbuf_puts(&p->notes,
                            "--connections is ignored: over HTTP each request under way has a "
                            "connection of its own\n");
        if (p->is_poisson && v->rate == NULL)
                strbuf_puts(&p->notes,
                            "--request-distribution is ignored without --request-rate-range\n");
        if (!is_grpc && v->grpc_tls)
                strbuf_puts(&p->notes, "--ssl-grpc-use-ssl is ignored: the protocol is HTTP\n");
}

static struct error *check_numbers(const struct load_values *v) {
        if (v->model == NULL || *v->model == '\0')
                return error_new_text(ERR_INVALID_ARG, "which model? neso bench -m NAME");
        if (v->batch == 0 || v->batch > 1U << 20)
                return error_new_text(ERR_INVALID_ARG, "--batch-size: 1 to 1048576");
        if (v->window_ms == 0 || v->window_ms > DAY_MS)
                return error_new_text(ERR_INVALID_ARG, "--measurement-interval: 1 ms to a day");
        if (v->window_requests == 0)
                return error_new_text(ERR_INVALID_ARG, "--measurement-request-count: at least 1");
        if (v->n_sequences == 0 || v->n_sequences > 65536)
                return error_new_text(ERR_INVALID_ARG, "--num-of-sequences: 1 to 65536");
        if (v->n_connections > 65536)
                return error_new_text(ERR_INVALID_ARG, "--connections: at most 65536");
        if (v->string_length > 1U << 28)
                return error_new_text(ERR_INVALID_ARG, "--string-length: at most 268435456");
        if (v->metrics_ms == 0 || v->metrics_ms > DAY_MS)
                return error_new_text(ERR_INVALID_ARG, "--metrics-interval: 1 ms to a day");
        if (v->latency_limit_ms > DAY_MS)
                return error_new_text(ERR_INVALID_ARG, "--latency-threshold: at most a day");
        if (v->percentile == 0)
                return error_new_text(ERR_INVALID_ARG, "--percentile: 1 to 99");
        if (v->is_streaming && strcmp(v->protocol, "grpc") != 0)
                return error_new_text(ERR_INVALID_ARG, "--streaming needs -i grpc");
        return NULL;
}

/* ---- language models --------------------------------------------------------------------------- */

static struct error *refuse_without_endpoint(const struct load_values *v) {
        const char *given = v->prompts != NULL                     ? "prompts"
                            : strcmp(v->prompt_tokens, "128") != 0 ? "prompt-tokens"
                            : v->prefix_tokens > 0                 ? "prefix-tokens"
                            : v->output_tokens > 0                 ? "output-tokens"
                            : v->is_whole                          ? "whole"
                                                                   : NULL;

        return given != NULL ? error_new(ERR_INVALID_ARG, "--%s needs --endpoint", given) : NULL;
}

static struct error *check_endpoint(const struct load_plan *p) {
        const struct load_values *v = p->v;
        bool                      is_openai = language_endpoint_path(p->endpoint) != NULL;

        if (strcmp(v->protocol, "http") != 0)
                return error_new_text(ERR_INVALID_ARG, "--endpoint needs -i http");
        if (strcmp(v->shared_memory, "none") != 0 || v->is_language || v->input_data.n_items > 0 ||
            v->shapes.n_items > 0 || v->is_zero || v->data_directory != NULL)
                return error_new_text(ERR_INVALID_ARG,
                                      "--endpoint makes requests of prompts: no --language, "
                                      "--input-data, --shape or --shared-memory");
        if (v->version != NULL && is_openai)
                return error_new_text(ERR_INVALID_ARG,
                                      "--model-version: the OpenAI API has no versions");
        if (v->batch > 1 && p->endpoint != LANGUAGE_EMBEDDINGS)
                return error_new_text(ERR_INVALID_ARG,
                                      "--batch-size with --endpoint: of embeddings alone");
        if (v->is_whole && p->endpoint == LANGUAGE_GENERATE)
                return error_new_text(ERR_INVALID_ARG,
                                      "--whole: the endpoint generate is a stream");
        if (v->prompts != NULL && (v->prefix_tokens > 0 || strcmp(v->prompt_tokens, "128") != 0))
                return error_new_text(ERR_INVALID_ARG,
                                      "--prompts: no --prompt-tokens or --prefix-tokens, since the "
                                      "prompts are those of the file");
        if (v->prefix_tokens > PROMPT_SET_MAX_TOKENS)
                return error_new(ERR_INVALID_ARG, "--prefix-tokens: at most %d",
                                 PROMPT_SET_MAX_TOKENS);
        return NULL;
}

static struct error *read_endpoint(struct load_plan *p) {
        struct load_values *v = p->v;
        bool                is_openai = strcmp(v->service_kind, "openai") == 0;

        if (v->endpoint == NULL && !is_openai)
                return refuse_without_endpoint(v);
        p->endpoint =
                v->endpoint != NULL ? language_endpoint_find(str_of(v->endpoint)) : LANGUAGE_CHAT;
        if (p->endpoint == LANGUAGE_NONE)
                return error_new(ERR_INVALID_ARG,
                                 "--endpoint: unknown value '%s', not one of chat, completions, "
                                 "embeddings, generate",
                                 v->endpoint);
        TRY(check_endpoint(p));
        v->is_streaming = false; /* --streaming of the reference: as always here */
        return prompt_length_read("prompt-tokens", v->prompt_tokens, &p->prompt_tokens,
                                  &p->prompt_deviation);
}

static struct error *read_limits(struct load_plan *p) {
        if (p->v->limits.n_items > LOAD_MAX_LIMITS)
                return error_new(ERR_INVALID_ARG, "--fail-if: at most %d", LOAD_MAX_LIMITS);
        for (size_t i = 0; i < p->v->limits.n_items; i++)
                TRY(fail_limit_read(p->v->limits.items[i], &p->limits[p->n_limits++]));
        return NULL;
}

static struct error *read_plan(struct load_plan *p) {
        struct load_values *v = p->v;

        str_lower(v->protocol); /* the reference takes "gRPC" and "HTTP", too */
        TRY(check_words(v));
        TRY(read_endpoint(p));
        TRY(check_numbers(v));
        if (v->is_language && strcmp(v->protocol, "grpc") == 0)
                v->is_streaming = true;
        if (v->is_language && strcmp(v->protocol, "http") == 0 &&
            (strcmp(v->shared_memory, "none") != 0))
                return error_new_text(ERR_INVALID_ARG,
                                      "--language over HTTP: no --shared-memory, since the "
                                      "requests are plain JSON");
        if (v->is_zero)
                option_texts_add(&v->input_data, "zero");
        if (v->data_directory != NULL)
                option_texts_add(&v->input_data, v->data_directory);
        p->latency_limit_ns = v->latency_limit_ms * NS_PER_MS;
        p->window_ns = v->window_ms * NS_PER_MS;
        p->is_poisson = strcmp(v->distribution, "poisson") == 0;
        p->counts_requests = strcmp(v->window_mode, "count_windows") == 0;
        TRY(read_range(p));
        TRY(check_range(p));
        TRY(read_ids(p));
        TRY(read_limits(p));
        read_target(p);
        put_notes(p);
        return NULL;
}

struct error *load_plan_read(struct load_values *v, struct load_plan *ret) {
        struct load_plan p = { .v = v };
        struct error    *err;

        err = read_plan(&p);
        if (err != NULL) {
                load_plan_done(&p);
                return err;
        }
        *ret = p;
        return NULL;
}

bool load_plan_has_streams(const struct load_plan *p) {
        return p->endpoint != LANGUAGE_NONE && p->endpoint != LANGUAGE_EMBEDDINGS &&
               !p->v->is_whole;
}

void load_plan_done(struct load_plan *p) {
        free(p->intervals_ns);
        strbuf_done(&p->notes);
}
