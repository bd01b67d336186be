/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/load_run.h"

#include "base/clock.h"
#include "base/mem.h"
#include "load/answer_checker.h"
#include "load/control.h"
#include "load/load_regions.h"
#include "load/local_server.h"
#include "load/prompt_set.h"
#include "load/request_language.h"
#include "load/waiter.h"
#include "load/worker.h"
#include "net/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONTROL_NS (30 * NS_PER_S)
#define DRAIN_NS (10 * NS_PER_S)
#define WARM_UP_NS NS_PER_S
#define TICK_NS NS_PER_S
/* A window with this many requests may end after a fifth of its time: its p99 has a hundred above it. */
#define ENOUGH_REQUESTS 10000
#define MAX_LANES 1024
/* A thread with a larger share of a core is taken to be the limit. */
#define BUSY_SHARE 0.95
/* Numbers of the logs of a run: 256 MiB. */
#define MAX_LOGGED ((size_t)32 << 20)
/* A window of a number of requests ends when none is answered for so long: for this, or for a multiple of the
 * longest latency of the load, as soon as there is one. */
#define MAX_STALL_NS (600 * NS_PER_S)
#define STALL_LATENCIES 100
/* A request without an answer that is this much older than any that has one is taken to be lost: one that merely takes
 * long would have been seen to do so. */
#define LOST_LATENCIES 2
/* A load without an end gives up here. */
#define MAX_CONCURRENCY 65536.0
#define MAX_RATE 1e8
/* The reference's default. */
#define SEQUENCE_LENGTH 20

struct load_run {
        const struct load_plan *plan; /* borrowed */
        struct target           target;
        bool                    has_target;
        struct loop_group      *loops; /* owned: of the workers, and one for `control` */
        struct channel_shard    control_shard;
        struct control         *control;
        struct load_model       model;
        bool                    has_model, has_stats;
        struct input_set        inputs;
        struct prompt_set       prompts; /* of a language model */
        struct request_set      requests;
        struct load_regions    *shm;
        struct answer_checker   checker;
        struct worker         **workers; /* owned */
        size_t                  n_workers;
        size_t                  n_active; /* the first ones: those that take part in the load */
        struct waiter           waiter;
        struct load_results     results;
        int                     server_pid; /* 0: not known */
        struct target           metrics_target;
        bool                    has_metrics_target;
        char                   *metrics_path; /* owned */
        struct channel_shard    metrics_shard;
        struct control         *metrics; /* NULL: --collect-metrics is not given */
        struct gauge_means     *gauges;  /* borrowed: of the load whose window it is; NULL: none */
        uint64_t                next_metrics_ns;
        bool                    is_live;
        uint64_t                begin_ns;
        uint64_t                longest_ns; /* latency of the load, as far as it was looked at */
        size_t                  n_logged;   /* numbers of all logs */
};

/* What is read from the server at the ends of a window. */
struct snapshot {
        struct server_stats  stats;
        struct server_stats *steps; /* owned */
        uint64_t             server_cpu_ns;
};

/* ---- opening ----------------------------------------------------------------------------------- */

static void on_progress(void *owner) {
        waiter_wake(&((struct load_run *)owner)->waiter);
}

static struct error *open_target(struct load_run *r) {
        size_t n = (size_t)r->plan->v->n_threads;

        /* Before signals are blocked: a name server may take long, and SIGINT ends the process. */
        TRY(target_open(&r->plan->target, &r->target));
        r->has_target = true;
        TRY(waiter_open(&r->waiter));
        TRY(loop_group_new("neso-bench", n + 1, &r->loops));
        r->control_shard = (struct channel_shard){ .loop = loop_group_get(r->loops, n),
                                                   .target = &r->target,
                                                   .room = mem_alloc(CHANNEL_ROOM_BYTES) };
        r->control = control_open(&r->control_shard, CONTROL_NS, &r->waiter);
        if (target_is_local(&r->target))
                r->server_pid = local_server_find(r->target.port);
        return NULL;
}

/* The page is on another port, and always HTTP. */
static struct error *open_metrics(struct load_run *r) {
        const char           *url = r->plan->v->metrics_url, *scheme = strstr(url, "://");
        const char           *slash = strchr(scheme != NULL ? scheme + 3 : url, '/');
        size_t                n = slash != NULL ? (size_t)(slash - url) : strlen(url);
        AUTO_CHARS            place = mem_strndup(url, n);
        struct target_options o = r->plan->target;
        AUTO_STRBUF           page = { 0 };

        if (!r->plan->v->collects_metrics)
                return NULL;
        o.protocol = TARGET_HTTP;
        o.url = place;
        o.has_tls = false;
        TRY(error_wrap(target_open(&o, &r->metrics_target), "--metrics-url"));
        r->has_metrics_target = true;
        r->metrics_path = mem_strdup(slash != NULL ? slash : "/metrics");
        r->metrics_shard = (struct channel_shard){ .loop = r->control_shard.loop,
                                                   .target = &r->metrics_target,
                                                   .room = mem_alloc(CHANNEL_ROOM_BYTES) };
        r->metrics = control_open(&r->metrics_shard, CONTROL_NS, &r->waiter);
        return error_wrap(control_ask(r->metrics, CONTROL_PAGE,
                                      &(struct control_subject){ .path = r->metrics_path }, &page),
                          "--collect-metrics");
}

/* Reads the page when it is time. A page that does not come is left out: the load goes on. */
static void collect_metrics(struct load_run *r) {
        struct control_subject subject = { .path = r->metrics_path };
        AUTO_STRBUF            page = { 0 };
        AUTO_ERROR             err = NULL;

        if (r->metrics == NULL || r->gauges == NULL || clock_now_ns() < r->next_metrics_ns)
                return;
        r->next_metrics_ns = clock_now_ns() + r->plan->v->metrics_ms * NS_PER_MS;
        err = control_ask(r->metrics, CONTROL_PAGE, &subject, &page);
        if (err == NULL)
                gauge_means_add(r->gauges, strbuf_str(&page));
}

static struct error *read_model(struct load_run *r) {
        struct control_subject subject = { .model = r->plan->v->model,
                                           .version = r->plan->v->version };
        AUTO_STRBUF            metadata = { 0 }, config = { 0 };

        TRY(control_ask(r->control, CONTROL_METADATA, &subject, &metadata));
        TRY(control_ask(r->control, CONTROL_CONFIG, &subject, &config));
        TRY(load_model_read(subject.model, subject.version, strbuf_str(&metadata),
                            strbuf_str(&config), &r->model));
        r->has_model = true;
        return NULL;
}

/* Each thread has its part of the ids, so there is one more for each. */
static uint64_t n_sequences_at_a_time(const struct load_plan *p) {
        double   most = p->is_open ? (double)p->v->n_sequences : MAX(p->range.start, p->range.end);
        uint64_t n_threads = (uint64_t)p->v->n_threads;

        return ((uint64_t)most + n_threads - 1) / n_threads * n_threads;
}

static struct error *check_model(const struct load_run *r) {
        const struct load_values *v = r->plan->v;
        const struct load_model  *m = &r->model;

        if (v->batch > 1 && v->batch > m->max_batch)
                return error_new(ERR_INVALID_ARG,
                                 "-b %llu: model '%s' has a max_batch_size of %llu",
                                 (unsigned long long)v->batch, m->name,
                                 (unsigned long long)m->max_batch);
        if (m->is_decoupled && !v->is_streaming && !v->is_language)
                return error_new(ERR_INVALID_ARG,
                                 "model '%s' is decoupled: it needs -i grpc --streaming, or "
                                 "--language",
                                 m->name);
        if (m->is_sequence && v->is_language && !v->is_streaming)
                return error_new_text(ERR_INVALID_ARG,
                                      "--language with a sequence model needs -i grpc");
        if (m->is_sequence && r->plan->n_ids < n_sequences_at_a_time(r->plan))
                return error_new(ERR_INVALID_ARG,
                                 "--sequence-id-range has %llu ids, for %llu sequences at a time",
                                 (unsigned long long)r->plan->n_ids,
                                 (unsigned long long)n_sequences_at_a_time(r->plan));
        return NULL;
}

static struct error *check_inputs(const struct load_run *r) {
        const struct load_values *v = r->plan->v;

        if (!r->inputs.has_validation)
                return NULL;
        if (strcmp(v->shared_memory, "none") != 0)
                return error_new_text(ERR_UNSUPPORTED,
                                      "expected outputs with --shared-memory are not "
                                      "supported yet");
        if (strcmp(v->output_format, "json") == 0 && r->target.protocol == TARGET_HTTP)
                return error_new_text(ERR_UNSUPPORTED,
                                      "expected outputs with --output-tensor-format=json "
                                      "are not supported yet");
        if (r->model.is_decoupled || r->plan->v->is_language)
                return error_new_text(ERR_UNSUPPORTED,
                                      "expected outputs of decoupled models are not "
                                      "supported yet");
        return NULL;
}

/* By the OpenAI API any server may answer, and most have no statistics. */
static struct error *look_for_stats(struct load_run *r) {
        struct control_subject subject = { .model = r->plan->v->model };
        struct server_stats    stats;
        AUTO_STRBUF            text = { 0 };
        AUTO_ERROR             err = NULL;

        err = control_ask(r->control, CONTROL_STATISTICS, &subject, &text);
        if (err == NULL)
                err = server_stats_read(strbuf_str(&text), subject.model, NULL, &stats);
        r->has_stats = err == NULL;
        return err != NULL && err->code == ERR_UNAVAILABLE ? STEAL(err) : NULL;
}

static struct error *find_model(struct load_run *r) {
        r->has_stats = true;
        if (language_endpoint_path(r->plan->endpoint) == NULL)
                return read_model(r);
        load_model_init_bare(r->plan->v->model, &r->model);
        r->has_model = true;
        return look_for_stats(r);
}

static struct error *make_prompts(struct load_run *r) {
        const struct load_values       *v = r->plan->v;
        struct prompt_options           prompts = { .path = v->prompts,
                                                    .tokens = r->plan->prompt_tokens,
                                                    .deviation = r->plan->prompt_deviation,
                                                    .n_prefix = v->prefix_tokens,
                                                    .n_distinct = MAX(v->n_distinct, v->batch),
                                                    .seed = v->seed };
        struct language_request_options o = { .endpoint = r->plan->endpoint,
                                              .target = &r->target,
                                              .model = &r->model,
                                              .prompts = &r->prompts,
                                              .is_whole = v->is_whole,
                                              .batch = v->batch,
                                              .max_tokens = v->output_tokens,
                                              .parameters = v->parameters.items,
                                              .n_parameters = v->parameters.n_items };

        TRY(prompt_set_make(&prompts, &r->prompts));
        return request_set_make_language(&o, &r->requests);
}

static struct error *make_requests(struct load_run *r) {
        const struct load_values *v = r->plan->v;
        struct input_options      inputs = { .sources = v->input_data.items,
                                             .n_sources = v->input_data.n_items,
                                             .shapes = v->shapes.items,
                                             .n_shapes = v->shapes.n_items,
                                             .string_length = v->string_length,
                                             .string = v->string,
                                             .n_distinct = v->n_distinct,
                                             .seed = v->seed };
        struct request_options    o = { .batch = v->batch,
                                        .input_is_json = strcmp(v->input_format, "json") == 0,
                                        .output_is_json = strcmp(v->output_format, "json") == 0,
                                        .is_stream = v->is_streaming,
                                        .is_events = v->is_language && !v->is_streaming,
                                        .compression = strcmp(v->compression, "none") != 0
                                                               ? v->compression
                                                               : NULL,
                                        .parameters = v->parameters.items,
                                        .n_parameters = v->parameters.n_items };

        TRY(input_set_make(&r->model, &inputs, &r->inputs));
        TRY(check_inputs(r));
        if (strcmp(v->shared_memory, "none") != 0)
                r->shm = o.shm =
                        load_regions_new(&r->model,
                                         strcmp(v->shared_memory, "cuda") == 0 ? LOAD_MEMORY_CUDA
                                                                               : LOAD_MEMORY_SYSTEM,
                                         v->output_region_bytes);
        TRY(request_set_make(&r->target, &r->model, &r->inputs, &o, &r->requests));
        return r->shm != NULL ? load_regions_open(r->shm, r->control) : NULL;
}

static uint64_t share_of(uint64_t total, size_t part, size_t n_parts) {
        return total / n_parts + (part < total % n_parts);
}

static struct worker *make_worker(struct load_run *r, size_t part) {
        const struct load_values *v = r->plan->v;
        bool                      is_http = r->target.protocol == TARGET_HTTP;
        uint64_t                  connections =
                v->n_connections > 0 ? MAX(share_of(v->n_connections, part, r->n_workers), 1) : 0;
        uint64_t lanes = r->model.is_sequence ? MAX(share_of(v->n_sequences, part, r->n_workers), 1)
                         : is_http && connections > 0 ? connections
                                                      : MAX_LANES;

        return worker_new(&(struct worker_options){
                .loop = loop_group_get(r->loops, part),
                .target = &r->target,
                .model = &r->model,
                .inputs = &r->inputs,
                .requests = &r->requests,
                .checker = r->inputs.has_validation ? &r->checker : NULL,
                .part = part,
                .n_parts = r->n_workers,
                .n_channels = (size_t)connections,
                .max_lanes = (size_t)lanes,
                .ends_at_first = !r->model.is_decoupled,
                .endpoint = r->plan->endpoint,
                .has_log = v->profile_path != NULL,
                .n_sequences = v->n_sequences,
                .sequence_length = v->sequence_length > 0 ? v->sequence_length : SEQUENCE_LENGTH,
                .follows_data = v->sequence_length == 0,
                .sequence_variation = v->sequence_variation,
                .first_id = r->plan->first_id,
                .n_ids = r->plan->n_ids,
                .on_progress = on_progress,
                .owner = r,
        });
}

static struct error *open_run(struct load_run *r) {
        TRY(open_target(r));
        TRY(open_metrics(r));
        TRY(find_model(r));
        if (r->plan->endpoint == LANGUAGE_NONE)
                TRY(check_model(r));
        TRY(r->plan->endpoint == LANGUAGE_NONE ? make_requests(r) : make_prompts(r));
        r->checker = (struct answer_checker){ &r->model, &r->inputs, r->target.protocol,
                                              r->plan->v->batch };
        r->n_workers = (size_t)r->plan->v->n_threads;
        r->workers = mem_zalloc(r->n_workers * sizeof(*r->workers));
        for (size_t i = 0; i < r->n_workers; i++)
                r->workers[i] = make_worker(r, i);
        r->is_live = isatty(STDERR_FILENO) == 1 && !r->plan->v->is_json;
        return NULL;
}

struct error *load_run_new(const struct load_plan *plan, struct load_run **ret) {
        struct load_run *r = mem_zalloc(sizeof(*r));
        struct error    *err;

        r->plan = plan;
        r->waiter = (struct waiter){ .signal_fd = -1, .wake_fd = -1 };
        err = open_run(r);
        if (err != NULL) {
                load_run_free(r);
                return err;
        }
        *ret = r;
        return NULL;
}

static void free_results(struct load_results *s) {
        for (size_t i = 0; i < s->n_items; i++) {
                struct load_result *x = &s->items[i];

                for (size_t k = 0; x->logs != NULL && k < x->n_windows; k++)
                        tally_free(x->logs[k]);
                free(x->logs);
                free(x->boundaries);
                free(x->steps);
                free(x->points);
                gauge_means_done(&x->gauges);
                tally_free(x->total);
        }
        free(s->items);
}

void load_run_free(struct load_run *r) {
        if (r == NULL)
                return;
        for (size_t i = 0; r->workers != NULL && i < r->n_workers; i++)
                worker_free(r->workers[i]);
        free(r->workers);
        load_regions_close(r->shm, r->control);
        control_close(r->control);
        control_close(r->metrics);
        loop_group_free(r->loops);
        free(r->control_shard.room);
        free(r->metrics_shard.room);
        free(r->metrics_path);
        free_results(&r->results);
        request_set_done(&r->requests);
        prompt_set_done(&r->prompts);
        if (r->has_model) {
                input_set_done(&r->inputs);
                load_model_done(&r->model);
        }
        if (r->has_target)
                target_done(&r->target);
        if (r->has_metrics_target)
                target_done(&r->metrics_target);
        waiter_close(&r->waiter);
        free(r);
}

/* ---- figures ----------------------------------------------------------------------------------- */

double load_result_latency(const struct tally *t, const struct load_plan *plan) {
        if (plan->v->percentile > 0)
                return (double)histogram_percentile(&t->latency, (double)plan->v->percentile);
        return histogram_mean(&t->latency);
}

double load_result_rate(const struct load_result *r, const struct load_plan *plan) {
        double n = (double)r->total->latency.n * (double)plan->v->batch;

        return r->seconds > 0.0 ? n / r->seconds : 0.0;
}

/* A time that has no answer in it is longer than any limit. */
static bool is_endless(const struct load_result *r, const struct fail_limit *limit) {
        double n = (double)r->total->latency.n, all = n + (double)r->n_lost;

        switch (limit->figure) {
        case FAIL_PERCENTILE: return n == 0.0 || limit->percent / 100.0 * all > n;
        case FAIL_MEAN:
        case FAIL_MAX: return n == 0.0 || r->n_lost > 0;
        case FAIL_RATE:
        case FAIL_ERRORS: break;
        }
        return false;
}

bool load_result_fails(const struct load_result *r, const struct load_plan *plan,
                       const struct fail_limit *limit) {
        const struct histogram *h = &r->total->latency;
        double                  figure = 0.0;

        if (is_endless(r, limit))
                return limit->is_above;
        switch (limit->figure) {
        case FAIL_PERCENTILE: figure = (double)histogram_percentile(h, limit->percent); break;
        case FAIL_MEAN: figure = histogram_mean(h); break;
        case FAIL_MAX: figure = (double)h->max; break;
        case FAIL_RATE: figure = load_result_rate(r, plan); break;
        case FAIL_ERRORS: figure = (double)(r->total->n_failed + r->n_lost); break;
        }
        return limit->is_above ? figure > limit->bound : figure < limit->bound;
}

/* How far the largest is above the smallest, in percent. */
static double spread_of(const double *values, size_t n) {
        double least = values[0], most = values[0];

        for (size_t i = 1; i < n; i++) {
                least = MIN(least, values[i]);
                most = MAX(most, values[i]);
        }
        return least > 0.0 ? (most / least - 1.0) * 100.0 : most > 0.0 ? INFINITY : 0.0;
}

/* ---- windows ----------------------------------------------------------------------------------- */

static struct error *take_snapshot(struct load_run *r, struct snapshot *s) {
        bool                   has_steps = r->model.n_steps > 0;
        struct control_subject subject = { .model = has_steps ? NULL : r->model.name,
                                           .version = has_steps ? NULL : r->model.version };
        AUTO_STRBUF            text = { 0 };
        struct str             json;

        s->server_cpu_ns = r->server_pid > 0 ? local_server_cpu_ns(r->server_pid) : 0;
        if (!r->has_stats)
                return NULL;
        TRY(control_ask(r->control, CONTROL_STATISTICS, &subject, &text));
        json = strbuf_str(&text);
        TRY(server_stats_read(json, r->model.name, r->model.version, &s->stats));
        if (s->steps == NULL)
                s->steps = mem_zalloc((r->model.n_steps + 1) * sizeof(*s->steps));
        for (size_t i = 0; i < r->model.n_steps; i++)
                TRY(server_stats_read(json, r->model.steps[i].model, r->model.steps[i].version,
                                      &s->steps[i]));
        return NULL;
}

/* One window of all workers. */
struct window {
        struct tally *total; /* owned */
        double        seconds, rate, latency, cpu_share;
};

static struct tally *swap_all(struct load_run *r, double *ret_cpu_share) {
        struct tally *total = tally_new(r->plan->v->profile_path != NULL);
        struct tally *empty = tally_new(r->plan->v->profile_path != NULL);

        *ret_cpu_share = 0.0;
        for (size_t i = 0; i < r->n_active; i++) {
                struct tally *part = worker_swap(r->workers[i], empty);
                double        wall = (double)(part->end_ns - part->begin_ns);

                tally_merge(total, part);
                r->results.n_wrong += part->n_wrong;
                if (wall > 0.0)
                        *ret_cpu_share = MAX(*ret_cpu_share, (double)part->cpu_ns / wall);
                if (total->log != NULL)
                        tally_append_log(total, part);
                tally_clear(part);
                empty = part;
        }
        tally_free(empty);
        return total;
}

static void show_live(struct load_run *r, double value, uint64_t end_ns) {
        struct worker_progress all = { 0 };
        uint64_t               now_ns = clock_now_ns();

        if (!r->is_live)
                return;
        for (size_t i = 0; i < r->n_active; i++) {
                struct worker_progress p = worker_look(r->workers[i]);

                all.n_done += p.n_done;
                all.n_failed += p.n_failed;
                all.p50_ns = MAX(all.p50_ns, p.p50_ns);
                all.p99_ns = MAX(all.p99_ns, p.p99_ns);
        }
        fprintf(stderr,
                "\r\033[K%s %g: %llu done, p50 %.0f us, p99 %.0f us, %llu errors, %.0f s left",
                r->plan->is_open ? "rate" : "concurrency", value, (unsigned long long)all.n_done,
                all.p50_ns / 1e3, all.p99_ns / 1e3, (unsigned long long)all.n_failed,
                end_ns > now_ns ? (double)(end_ns - now_ns) / 1e9 : 0.0);
}

static void hide_live(const struct load_run *r) {
        if (r->is_live)
                fprintf(stderr, "\r\033[K");
}

static bool all_drained(const struct load_run *r) {
        for (size_t i = 0; i < r->n_workers; i++)
                if (!worker_is_drained(r->workers[i]))
                        return false;
        return true;
}

/* Counts the answers of the present window. A worker without a part still has those of an earlier load. */
static uint64_t count_done(struct load_run *r) {
        uint64_t n = 0;

        for (size_t i = 0; i < r->n_active; i++) {
                struct worker_progress p = worker_look(r->workers[i]);

                n += p.n_done;
                r->longest_ns = MAX(r->longest_ns, p.longest_ns);
        }
        return n;
}

static uint64_t stall_time(const struct load_run *r) {
        if (r->longest_ns == 0 || r->longest_ns > MAX_STALL_NS / STALL_LATENCIES)
                return MAX_STALL_NS;
        return MAX(r->longest_ns * STALL_LATENCIES, DRAIN_NS);
}

/* Waits for the end of a window: its time, its number of requests, the end of all requests, or a signal. */
static void wait_window(struct load_run *r, double value, uint64_t wanted) {
        uint64_t begin_ns = clock_now_ns(), end_ns = begin_ns + r->plan->window_ns;
        uint64_t early_ns = begin_ns + r->plan->window_ns / 5;
        uint64_t n_done = 0, answered_ns = begin_ns;
        bool     is_early = false;

        if (wanted > 0)
                end_ns = CLOCK_NEVER;
        for (size_t i = 0; wanted > 0 && i < r->n_active; i++)
                worker_want(r->workers[i], MAX(share_of(wanted, i, r->n_active), 1));
        for (;;) {
                uint64_t now_ns = clock_now_ns(), next_ns = MIN(end_ns, now_ns + TICK_NS);

                if (now_ns >= end_ns || r->waiter.is_interrupted || all_drained(r))
                        break;
                if (wanted > 0) {
                        uint64_t n = count_done(r);

                        answered_ns = n > n_done ? now_ns : answered_ns;
                        n_done = n;
                        if (n >= wanted || now_ns - answered_ns >= stall_time(r))
                                break;
                }
                if (wanted == 0 && !is_early && now_ns >= early_ns) {
                        is_early = true;
                        if (count_done(r) >= ENOUGH_REQUESTS)
                                break;
                }
                if (wanted == 0 && !is_early)
                        next_ns = MIN(next_ns, early_ns);
                collect_metrics(r);
                if (r->metrics != NULL && r->gauges != NULL)
                        next_ns = MIN(next_ns, r->next_metrics_ns);
                waiter_wait(&r->waiter, next_ns);
                show_live(r, value, end_ns);
        }
}

static void measure_window(struct load_run *r, double value, uint64_t wanted, struct window *w) {
        double ignored;

        if (r->plan->v->n_requests == 0) /* else the load has just begun */
                tally_free(swap_all(r, &ignored));
        wait_window(r, value, wanted);
        w->total = swap_all(r, &w->cpu_share);
        w->seconds = tally_seconds(w->total);
        w->rate = w->seconds > 0.0 ? (double)w->total->latency.n / w->seconds : 0.0;
        w->latency = load_result_latency(w->total, r->plan);
}

/* ---- a load ------------------------------------------------------------------------------------ */

static struct load_level level_of(const struct load_run *r, double value, size_t part,
                                  uint64_t n_requests) {
        const struct load_plan *p = r->plan;
        struct load_level       level = { .mode = p->is_open ? LOAD_OPEN : LOAD_CLOSED };

        level.n_requests = n_requests > 0 ? share_of(n_requests, part, r->n_active) : 0;
        if (p->is_periodic) {
                level.concurrency = (size_t)p->range.start;
                level.step = (size_t)p->range.step;
                level.period = p->v->request_period;
                return level;
        }
        if (!p->is_open) {
                level.concurrency = (size_t)share_of((uint64_t)value, part, r->n_active);
                return level;
        }
        level.schedule = (struct schedule_options){
                .kind = p->n_intervals > 0 ? SCHEDULE_INTERVALS
                        : p->is_poisson    ? SCHEDULE_POISSON
                                           : SCHEDULE_CONSTANT,
                .rate = value,
                .intervals_ns = p->intervals_ns,
                .n_intervals = p->n_intervals,
                .part = part,
                .n_parts = r->n_active,
                .seed = p->v->seed,
        };
        return level;
}

/* The number of workers that have a part of the load: fewer than all when the load is small. */
static size_t count_active(const struct load_run *r, double value, uint64_t n_requests) {
        size_t n = r->n_workers;

        if (n_requests > 0)
                n = (size_t)MIN(n, n_requests);
        if (!r->plan->is_open && !r->plan->is_periodic)
                n = MIN(n, (size_t)value);
        return MAX(n, 1);
}

static struct error *start_all(struct load_run *r, double value, uint64_t n_requests) {
        r->n_active = count_active(r, value, n_requests);
        for (size_t i = 0; i < r->n_active; i++) {
                struct load_level level = level_of(r, value, i, n_requests);

                TRY(worker_start(r->workers[i], &level));
        }
        return NULL;
}

/* An interruption leaves a second of the time. */
static void wait_answers(struct load_run *r) {
        uint64_t deadline_ns = clock_now_ns() + DRAIN_NS;
        bool     was_interrupted = false;

        while (!all_drained(r) && clock_now_ns() < deadline_ns) {
                if (r->waiter.is_interrupted && !was_interrupted) {
                        was_interrupted = true;
                        deadline_ns = MIN(deadline_ns, clock_now_ns() + NS_PER_S);
                }
                waiter_wait(&r->waiter, deadline_ns);
        }
}

/* Requests that are still without an answer after the time for it are dropped. */
static struct worker_dropped stop_all(struct load_run *r, uint64_t longest_ns) {
        uint64_t              lost_ns = MAX(longest_ns, DRAIN_NS / LOST_LATENCIES) * LOST_LATENCIES;
        struct worker_dropped all = { 0 };
        double                ignored;

        for (size_t i = 0; i < r->n_workers; i++)
                worker_stop(r->workers[i]);
        wait_answers(r);
        tally_free(swap_all(r, &ignored)); /* for its wrong outputs */
        for (size_t i = 0; i < r->n_workers; i++) {
                struct worker_dropped d = worker_drop(r->workers[i], lost_ns);

                all.n_requests += d.n_requests;
                all.n_lost += r->waiter.is_interrupted ? 0 : d.n_lost;
        }
        return all;
}

/* Waits until the requests of a load with a number of them have their answers. */
static void wait_drained(struct load_run *r) {
        double ignored;

        wait_answers(r);
        if (all_drained(r))
                tally_free(swap_all(r, &ignored));
        else
                stop_all(r, 0);
}

/* The requests before a load whose requests are counted. The connections stay. */
static struct error *warm_up_counted(struct load_run *r, double value) {
        uint64_t n = r->plan->v->n_warmup;

        if (n == 0)
                return NULL;
        TRY(start_all(r, value, n));
        wait_window(r, value, n);
        wait_drained(r);
        return NULL;
}

static void warm_up(struct load_run *r, double value) {
        struct load_plan        short_plan = *r->plan;
        const struct load_plan *plan = r->plan;

        short_plan.window_ns = MIN(plan->window_ns, WARM_UP_NS);
        r->plan = &short_plan;
        wait_window(r, value, plan->v->n_warmup);
        r->plan = plan;
}

/* Frees the room that the log has not used, and all of it when the run has kept enough. */
static void trim_log(struct load_run *r, struct tally *t) {
        uint64_t *shorter;

        if (r->n_logged + t->n_log > MAX_LOGGED) {
                for (size_t at = 0; at + 3 <= t->n_log; at += 3 + t->log[at + 2])
                        t->n_unlogged++;
                t->n_log = 0;
        }
        r->n_logged += t->n_log;
        shorter = realloc(t->log, (t->n_log + 1) * sizeof(*t->log));
        t->log = shorter != NULL ? shorter : t->log;
        r->results.n_unlogged += t->n_unlogged;
}

static void keep_log(struct load_run *r, struct load_result *x, struct window *w) {
        uint64_t offset_ns = clock_wall_ns() - clock_now_ns();

        if (r->plan->v->profile_path == NULL)
                return;
        trim_log(r, w->total);
        x->logs = mem_realloc(x->logs, (x->n_windows + 1) * sizeof(*x->logs));
        x->boundaries = mem_realloc(x->boundaries, (x->n_windows + 2) * sizeof(*x->boundaries));
        x->boundaries[x->n_windows] = w->total->begin_ns + offset_ns;
        x->boundaries[x->n_windows + 1] = w->total->end_ns + offset_ns;
        x->logs[x->n_windows] = w->total;
        x->n_windows++;
}

static void set_stats(struct load_run *r, struct load_result *x, const struct snapshot *first,
                      const struct snapshot *last) {
        x->has_stats = r->has_stats;
        if (r->has_stats) {
                x->stats = server_stats_since(&first->stats, &last->stats);
                x->steps = mem_zalloc((r->model.n_steps + 1) * sizeof(*x->steps));
        }
        for (size_t i = 0; i < r->model.n_steps; i++)
                x->steps[i] = server_stats_since(&first->steps[i], &last->steps[i]);
        x->server_cpu = -1.0;
        x->server_rss = r->server_pid > 0 ? local_server_resident(r->server_pid) : 0;
        if (r->server_pid > 0 && x->seconds > 0.0 && last->server_cpu_ns >= first->server_cpu_ns)
                x->server_cpu =
                        (double)(last->server_cpu_ns - first->server_cpu_ns) / 1e9 / x->seconds;
}

/* The generator is the limit when a thread of it is busy, or when it starts requests late though a
 * connection is free: by more than a tenth of the latency. */
static bool is_generator_limit(const struct load_run *r, const struct load_result *x) {
        const struct tally *t = x->total;
        double              late = (double)histogram_percentile(&t->lateness, 99.0);

        if (x->cpu_share >= BUSY_SHARE)
                return true;
        return r->plan->is_open && x->cpu_share > 0.5 && late > 1e6 &&
               late > (double)histogram_percentile(&t->service, 50.0) / 10.0;
}

/* The windows of a load in a ring: the last three. */
struct windows {
        struct window   ring[LOAD_STABLE_WINDOWS];
        struct snapshot begins[LOAD_STABLE_WINDOWS];
        size_t          n;
};

static bool are_stable(const struct load_run *r, const struct windows *s, struct load_result *x) {
        double rates[LOAD_STABLE_WINDOWS], latencies[LOAD_STABLE_WINDOWS];
        size_t n = MIN(s->n, LOAD_STABLE_WINDOWS);

        for (size_t i = 0; i < n; i++) {
                rates[i] = s->ring[i].rate;
                latencies[i] = s->ring[i].latency;
        }
        x->rate_spread = spread_of(rates, n);
        x->latency_spread = spread_of(latencies, n);
        return n == LOAD_STABLE_WINDOWS && rates[0] > 0.0 &&
               x->rate_spread <= r->plan->v->stability &&
               x->latency_spread <= r->plan->v->stability;
}

static void print_window(const struct load_run *r, const struct window *w, size_t number) {
        if (!r->plan->v->is_verbose && !r->plan->v->is_extra_verbose)
                return;
        hide_live(r);
        fprintf(stderr, "  window %zu: %.1f s, %.1f requests/s, %s %.0f us, %llu errors\n", number,
                w->seconds, w->rate, r->plan->v->percentile > 0 ? "latency" : "mean",
                w->latency / 1e3, (unsigned long long)w->total->n_failed);
}

/* False: the owner of the plan does not want another window. */
static bool wants_more(const struct load_run *r, const struct window *w, size_t number,
                       const struct snapshot *begin) {
        struct load_window told = { .number = number,
                                    .latency_ns = w->latency,
                                    .server_cpu = -1.0 };
        uint64_t           cpu_ns = 0;

        if (r->plan->on_window == NULL)
                return true;
        if (r->server_pid > 0)
                cpu_ns = local_server_cpu_ns(r->server_pid);
        told.rate = w->rate * (double)r->plan->v->batch;
        if (w->seconds > 0.0 && cpu_ns > begin->server_cpu_ns)
                told.server_cpu = (double)(cpu_ns - begin->server_cpu_ns) / 1e9 / w->seconds;
        return r->plan->on_window(r->plan->owner, &told);
}

static void keep_point(const struct load_run *r, struct load_result *x, const struct window *w) {
        const struct histogram *h = &w->total->latency;

        if (h->n == 0)
                return;
        x->points = mem_realloc(x->points, (x->n_points + 1) * sizeof(*x->points));
        x->points[x->n_points++] =
                (struct load_point){ .at_s = (double)(w->total->end_ns - r->begin_ns) / 1e9,
                                     .p50_ns = (double)histogram_percentile(h, 50.0),
                                     .p99_ns = (double)histogram_percentile(h, 99.0) };
}

/* Runs windows until they are stable; the last snapshot is in *end. */
static struct error *run_windows(struct load_run *r, struct load_result *x, struct windows *s,
                                 struct snapshot *end) {
        bool   is_counted = r->plan->v->n_requests > 0;
        size_t most = is_counted ? 1 : (size_t)r->plan->v->max_trials;

        while (s->n < most && !r->waiter.is_interrupted) {
                size_t         at = s->n % LOAD_STABLE_WINDOWS;
                struct window *w = &s->ring[at];

                TRY(take_snapshot(r, &s->begins[at]));
                if (s->n >= LOAD_STABLE_WINDOWS && x->logs == NULL)
                        tally_free(w->total);
                if (is_counted) /* begun here, so that all requests are in the window */
                        TRY(start_all(r, x->value, r->plan->v->n_requests));
                measure_window(r, x->value,
                               is_counted                 ? r->plan->v->n_requests
                               : r->plan->counts_requests ? r->plan->v->window_requests
                                                          : 0,
                               w);
                keep_point(r, x, w);
                keep_log(r, x, w);
                s->n++;
                print_window(r, w, s->n);
                x->is_stable = are_stable(r, s, x);
                if (!wants_more(r, w, s->n, &s->begins[at]) || x->is_stable ||
                    w->total->n_sent + w->total->latency.n + w->total->n_failed == 0)
                        break;
        }
        return take_snapshot(r, end);
}

static void merge_windows(struct load_run *r, struct load_result *x, struct windows *s) {
        size_t n = MIN(s->n, LOAD_STABLE_WINDOWS);

        x->total = tally_new(false);
        for (size_t i = 0; i < n; i++) {
                tally_merge(x->total, s->ring[i].total);
                x->seconds += s->ring[i].seconds;
                x->cpu_share = MAX(x->cpu_share, s->ring[i].cpu_share);
                if (x->logs == NULL)
                        tally_free(s->ring[i].total);
        }
        x->n_measured = s->n;
        x->is_counted = r->plan->v->n_requests > 0;
        x->is_generator_limit = is_generator_limit(r, x);
}

static struct error *run_load(struct load_run *r, struct load_result *x) {
        struct windows        s = { .n = 0 };
        struct snapshot       end = { 0 };
        struct worker_dropped dropped;
        struct error         *err = NULL;
        size_t                oldest;

        r->longest_ns = 0;
        if (r->plan->v->n_requests == 0) {
                err = start_all(r, x->value, 0);
                if (err == NULL)
                        warm_up(r, x->value);
        } else {
                err = warm_up_counted(r, x->value);
        }
        r->gauges = &x->gauges;
        if (err == NULL)
                err = run_windows(r, x, &s, &end);
        r->gauges = NULL;
        merge_windows(r, x, &s);
        dropped = stop_all(r, x->total->latency.max);
        hide_live(r);
        x->n_unanswered = dropped.n_requests;
        x->n_lost = dropped.n_lost;
        oldest = s.n > LOAD_STABLE_WINDOWS ? s.n % LOAD_STABLE_WINDOWS : 0;
        if (err == NULL && s.n > 0)
                set_stats(r, x, &s.begins[oldest], &end);
        for (size_t i = 0; i < LOAD_STABLE_WINDOWS; i++)
                free(s.begins[i].steps);
        free(end.steps);
        return err;
}

/* ---- the range --------------------------------------------------------------------------------- */

static struct error *measure(struct load_run *r, double value, struct load_result **ret) {
        struct load_results *all = &r->results;

        all->items = mem_realloc(all->items, (all->n_items + 1) * sizeof(*all->items));
        *ret = &all->items[all->n_items];
        **ret = (struct load_result){ .value = value, .server_cpu = -1.0 };
        gauge_means_init(&(*ret)->gauges);
        all->n_items++;
        TRY(run_load(r, *ret));
        return NULL;
}

/* A server that refuses what is too much for it has low latencies: a load with errors is beyond the limit, as one
 * without answers, or with requests that were lost, is. */
static bool is_within(const struct load_run *r, const struct load_result *x) {
        return r->plan->latency_limit_ns == 0 ||
               (x->total->latency.n > 0 && x->total->n_failed == 0 && x->n_lost == 0 &&
                load_result_latency(x->total, r->plan) <= (double)r->plan->latency_limit_ns);
}

static struct error *measure_range(struct load_run *r) {
        struct load_range range = r->plan->range;
        double end = range.end > 0.0 ? range.end : r->plan->is_open ? MAX_RATE : MAX_CONCURRENCY;
        struct load_result *x;

        if (r->plan->is_periodic)
                return measure(r, range.end, &x);
        for (double value = range.start; value <= end * (1.0 + 1e-9); value += range.step) {
                TRY(measure(r, value, &x));
                if (r->waiter.is_interrupted || !is_within(r, x))
                        break;
        }
        return NULL;
}

/* Halves the interval between a load within the limit and one beyond it, down to a step. */
static struct error *search_range(struct load_run *r) {
        struct load_range   range = r->plan->range;
        double              low = range.start, high = range.end, value = low;
        bool                is_first = true;
        struct load_result *x;

        for (;;) {
                TRY(measure(r, value, &x));
                if (r->waiter.is_interrupted)
                        return NULL;
                if (is_within(r, x)) {
                        r->results.has_found = true;
                        r->results.found = low = value;
                } else if (is_first) {
                        return NULL; /* the least load is beyond the limit */
                } else {
                        high = value;
                }
                if (is_first)
                        value = high;
                else
                        value = low + range.step * floor((high - low) / 2.0 / range.step);
                is_first = false;
                if (value <= low || (value >= high && high != range.end) || low >= high)
                        return NULL;
        }
}

struct error *load_run_measure(struct load_run *r) {
        struct error *err;

        r->begin_ns = clock_now_ns();
        err = r->plan->v->is_binary_search ? search_range(r) : measure_range(r);
        r->results.is_interrupted = r->waiter.is_interrupted;
        return err;
}

const struct load_results *load_run_results(const struct load_run *r) {
        return &r->results;
}

const struct load_model *load_run_model(const struct load_run *r) {
        return &r->model;
}

const struct target *load_run_target(const struct load_run *r) {
        return &r->target;
}
