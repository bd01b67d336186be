/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server.h"

#include "backend/backend_registry.h"
#include "backend/host_policy.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "base/str.h"
#include "base/timer.h"
#include "cache/cache_library.h"
#include "cache/response_cache.h"
#include "gpu/gpu.h"
#include "infer/model.h"
#include "infer/model_generations.h"
#include "infer/model_submit.h"
#include "infer/request.h"
#include "infer/trace.h"
#include "observe/load_meter.h"
#include "observe/metric.h"
#include "observe/model_stats.h"
#include "repo/agent.h"
#include "repo/reaper.h"
#include "repo/repo.h"
#include "sched/rate_limiter.h"
#include "server/core_metrics.h"
#include "server/server_gpus.h"
#include "server/server_report.h"

/* At this time before the exit timeout, server_stop() ends sequences that have no requests, so that
 * the models can end in time. Half of the timeout when that is shorter. */
#define MODELS_END_NS (5 * NS_PER_S)

static struct backend_registry *make_backends(struct server *s, const struct server_options *o) {
        return backend_registry_new(&(struct backend_registry_options){
                .directory = o->backend_directory,
                .auto_complete = !o->strict_model_config,
                .gpus = s->gpus,
                .min_compute_capability = o->min_compute_capability,
                .settings = o->backend_settings.items,
                .n_settings = o->backend_settings.n_items });
}

static struct error *make_policies(struct server *s, const struct server_options *o) {
        return host_policies_new(
                &(struct host_policies_options){ .settings = o->host_policies.items,
                                                 .n_settings = o->host_policies.n_items },
                &s->policies);
}

static bool is_false(const char *text) {
        return text != NULL && (strcmp(text, "false") == 0 || strcmp(text, "0") == 0);
}

static bool is_true(const char *text) {
        return text != NULL && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

static void make_metrics(struct server *s, const struct server_options *o) {
        const struct settings *m = &o->metrics_settings;

        s->metrics = metric_registry_new();
        s->model_metrics = model_metrics_new(
                s->metrics,
                &(struct model_metrics_options){
                        .counter_latencies = !is_false(settings_find(m, "", "counter_latencies")),
                        .summary_latencies = is_true(settings_find(m, "", "summary_latencies")),
                        .histogram_latencies =
                                is_true(settings_find(m, "", "histogram_latencies")) });
        s->core = core_metrics_new(
                s->metrics, &(struct core_metrics_options){
                                    .gpus = { .gpus = s->gpus,
                                              .pinned_pool_bytes = (uint64_t)o->pinned_pool_bytes,
                                              .reads_nvml = o->allow_gpu_metrics,
                                              .interval_ms = (uint64_t)o->metrics_interval_ms },
                                    .cpu = o->allow_cpu_metrics,
                                    .interval_ms = (uint64_t)o->metrics_interval_ms });
}

static struct error *make_repo(struct server *s, const struct server_options *o) {
        struct repo_options options = {
                .env = { .backends = s->backends,
                         .agents = s->agents,
                         .gpus = s->gpus,
                         .min_compute_capability = o->min_compute_capability,
                         .model_metrics = s->model_metrics,
                         .metrics = s->metrics,
                         .timers = s->timers,
                         .reaper = s->reaper,
                         .cache = s->cache,
                         .policies = s->policies,
                         .state_memory = &s->state_memory,
                         .warmup_memory = &s->warmup_memory,
                         .step_memory = &s->step_memory,
                         .responses = &s->responses,
                         .limiter = s->limiter,
                         .adaptive = server_options_adaptive_mode(o),
                         .scheduler = s->scheduler,
                         .scheduler_directory = s->scheduler_directory,
                         .ready = &s->ready,
                         .server = s,
                         .auto_complete = !o->strict_model_config,
                         .allows_uploaded_code = o->allow_uploaded_backends,
                         .config_name = o->model_config_name },
                .paths = (const char *const *)o->model_repository.items,
                .n_paths = o->model_repository.n_items,
                .n_load_threads = (unsigned)o->model_load_threads,
                .n_load_retries = (unsigned)o->model_load_retries,
                .is_followed = o->control_mode != MODEL_CONTROL_NONE,
                .has_namespaces = o->model_namespacing,
                .reports_reasons = o->load_reasons,
                .is_strict_unload = o->chain_strict_unload,
                .model_name = o->model_name,
                .stores = { .cache_directory = o->repository_cache_directory,
                            .cache_bytes = (uint64_t)o->repository_cache_bytes,
                            .n_transfers = (unsigned)o->repository_transfers,
                            .retry_ns = (uint64_t)o->repository_retry_s * NS_PER_S },
        };

        return repo_new(&options, &s->repo);
}

/* Refuses a second cache instead of ignoring it. */
static struct error *check_options(const struct server_options *o) {
        if (o->n_caches > 1)
                return error_new(ERR_INVALID_ARG,
                                 "found multiple cache configurations, but only a single cache is "
                                 "currently supported");
        return NULL;
}

static struct error *make_cache(struct server *s, const struct server_options *o) {
        if (o->n_caches == 0)
                return NULL;
        return response_cache_new(
                &(struct cache_library_options){ .directory = o->cache_directory,
                                                 .name = o->caches[0].name,
                                                 .config_json = o->caches[0].config_json },
                &s->cache);
}

static struct rate_limiter *make_limiter(const struct server_options *o) {
        size_t               n = o->n_rate_limit_resources;
        struct rate_supply  *supplies;
        struct rate_limiter *l;

        if (o->rate_limit_mode == RATE_LIMIT_OFF)
                return NULL;
        supplies = mem_zalloc((n + 1) * sizeof(*supplies));
        for (size_t i = 0; i < n; i++)
                supplies[i] = (struct rate_supply){ .name = o->rate_limit_resources[i].name,
                                                    .count = o->rate_limit_resources[i].count,
                                                    .device = o->rate_limit_resources[i].device };
        l = rate_limiter_new(supplies, n);
        free(supplies);
        return l;
}

static size_t max_or_default(uint64_t max_bytes) {
        return max_bytes > 0 ? (size_t)MIN(max_bytes, SIZE_MAX / 2) : byte_budget_default();
}

static void on_over_budget(void *owner) {
        struct server *s = owner;

        error_free(core_metrics_count_rejected(s->core, "memory_budget"));
}

static void init_memory(struct server *s, const struct server_options *o) {
        size_t max = max_or_default(o->memory_bytes);
        size_t budget = max_or_default((uint64_t)MAX(o->memory_budget_bytes, 0));

        byte_budget_init(&s->state_memory, budget);
        byte_budget_init(&s->warmup_memory, budget);
        if (o->memory_used != NULL)
                byte_budget_share(&s->memory, max, o->memory_used);
        else
                byte_budget_init(&s->memory, max);
        s->memory.on_refused = on_over_budget;
        s->memory.owner = s;
        step_memory_init(&s->step_memory, &s->memory, s->timers);
        s->step_memory.gpus = s->gpus;
        response_share_init(&s->responses, &s->memory);
}

static struct error *create_parts(struct server *s, const struct server_options *o) {
        TRY(check_options(o));
        TRY(make_policies(s, o));
        TRY(server_gpus_open(o, &s->gpus));
        make_metrics(s, o);
        TRY(timer_thread_new(&s->timers));
        load_meter_start(s->model_metrics, s->timers);
        TRY(make_cache(s, o));
        s->limiter = make_limiter(o);
        init_memory(s, o);
        s->backends = make_backends(s, o);
        s->agents = agent_registry_new(o->repoagent_directory);
        TRY(reaper_new(&s->reaper));
        return make_repo(s, o);
}

static struct error *load_models(struct server *s, const struct server_options *o) {
        const struct option_texts *names = &o->load_model;
        struct error              *err;

        if (o->exit_on_error)
                TRY(repo_check_paths(s->repo)); /* before long loads that would be useless */
        if (o->control_mode == MODEL_CONTROL_EXPLICIT)
                return repo_load_named(s->repo, names->items, names->n_items);
        err = repo_load_all(s->repo);
        if (o->control_mode == MODEL_CONTROL_POLL)
                repo_poll(s->repo); /* records the current state of the files */
        return err;
}

/* Between the two calls another thread may call server_end_start(). */
static struct error *load_unless_ended(struct server *s, const struct server_options *o) {
        struct error *err;

        if (o->on_start != NULL)
                o->on_start(s, o->on_start_userp);
        err = load_models(s, o);
        if (o->on_start != NULL)
                o->on_start(NULL, o->on_start_userp);
        if (!atomic_load(&s->is_start_ended))
                return err;
        error_free(err);
        return error_new_text(ERR_UNAVAILABLE, "Server exiting");
}

void server_end_start(struct server *s) {
        if (atomic_load(&s->state) != SERVER_INITIALIZING)
                return;
        atomic_store(&s->is_start_ended, true);
        repo_end_changes(s->repo);
}

/* Whether an error of the start is one of server_new(). Without a repository there is no server. */
static bool start_has_failed(const struct server *s, const struct server_options *o) {
        return o->exit_on_error || s->repo == NULL || atomic_load(&s->is_start_ended);
}

/* After a start that has failed the log names the models that were not loaded, since the error does not. A start that
 * was ended is no failure. */
static void stop_failed_start(struct server *s) {
        error_free(server_stop(s));
        if (!atomic_load(&s->is_start_ended))
                repo_log_not_loaded(s->repo);
}

static enum server_state state_after_start(struct server *s) {
        if (repo_is_readable(s->repo))
                return SERVER_READY;
        log_error("no model repository can be read: the server serves no models until it is "
                  "started again");
        return SERVER_FAILED;
}

struct error *server_new(const struct server_options *o, struct server **ret) {
        struct server *s;
        struct error  *err;

        TRY(reserve_open());
        s = mem_zalloc(sizeof(*s));
        err = log_start();
        if (err != NULL) {
                reserve_close();
                free(s);
                return err;
        }
        atomic_init(&s->state, SERVER_INITIALIZING);
        event_source_init(&s->ready);
        s->id = mem_strdup(o->id);
        s->scheduler = mem_strdup(o->scheduler);
        s->scheduler_directory = mem_strdup(o->scheduler_directory);
        s->strict_readiness = o->strict_readiness;
        s->control_mode = o->control_mode;
        atomic_init(&s->exit_timeout_s, (uint32_t)o->exit_timeout_s);
        err = create_parts(s, o);
        if (err == NULL) {
                err = load_unless_ended(s, o);
                server_report_start(s, o);
        }
        if (err != NULL && start_has_failed(s, o)) {
                if (s->repo != NULL)
                        stop_failed_start(s);
                server_free(s);
                return err;
        }
        error_free(err);
        atomic_store(&s->state, state_after_start(s));
        event_source_publish(&s->ready);
        *ret = s;
        return NULL;
}

static void log_in_flight(const struct model *m, uint64_t n, void *userp) {
        (void)userp;
        log_info("Model '%s' (version %lld) has %llu in-flight inferences", m->label,
                 (long long)m->version, (unsigned long long)n);
}

/* Ends the live sequences that have no request now; the others end after theirs. */
static void end_sequences(struct server *s) {
        log_info("The exit timeout is nearly over: sequences without requests end");
        repo_end_idle_sequences(s->repo, NULL);
}

/* Waits for the models to end and logs a line each second; from `end_sequences_ns` on it does not wait
 * for sequences. */
static struct error *wait_for_models(struct server *s, uint64_t deadline_ns,
                                     uint64_t end_sequences_ns) {
        uint64_t now_ns;
        uint32_t n_live;

        while ((n_live = reaper_wait(s->reaper, 0)) > 0) {
                now_ns = clock_now_ns();
                if (now_ns >= end_sequences_ns) {
                        end_sequences(s);
                        end_sequences_ns = CLOCK_NEVER;
                }
                if (now_ns >= deadline_ns) {
                        repo_log_leaving(s->repo);
                        return error_new(ERR_INTERNAL,
                                         "Exit timeout expired. Exiting immediately.");
                }
                log_info(
                        "Timeout %llu: Found %u live models and 0 in-flight non-inference requests",
                        (unsigned long long)((deadline_ns - now_ns) / NS_PER_S), n_live);
                reaper_wait(s->reaper, MIN(now_ns + NS_PER_S, MIN(deadline_ns, end_sequences_ns)));
        }
        return NULL;
}

/* Stops loads, unloads and updates. An update of instances may have to wait for sequences on the
 * instances that it removes. */
static struct error *stop_changes(struct server *s, uint64_t deadline_ns,
                                  uint64_t end_sequences_ns) {
        if (repo_stop_changes(s->repo, end_sequences_ns) == 0)
                return NULL;
        end_sequences(s);
        if (repo_stop_changes(s->repo, deadline_ns) == 0)
                return NULL;
        return error_new(ERR_INTERNAL, "Exit timeout expired. Exiting immediately.");
}

struct error *server_stop(struct server *s) {
        uint32_t      timeout_s = atomic_load(&s->exit_timeout_s);
        uint64_t      deadline_ns = clock_now_ns() + timeout_s * NS_PER_S;
        uint64_t      end_sequences_ns = deadline_ns - MIN(MODELS_END_NS, timeout_s * NS_PER_S / 2);
        struct error *err;

        if (atomic_exchange(&s->state, SERVER_EXITING) == SERVER_EXITING &&
            reaper_wait(s->reaper, 0) == 0)
                return NULL; /* was stopped before */
        event_source_publish(&s->ready);
        log_info("Waiting for in-flight requests to complete.");
        err = stop_changes(s, deadline_ns, end_sequences_ns);
        if (err != NULL) {
                log_flush(); /* the caller may end the process now */
                return err;
        }
        repo_stop_all(s->repo);
        log_info("Timeout %u: Found %llu model versions that have in-flight inferences", timeout_s,
                 (unsigned long long)repo_count_in_flight(s->repo, log_in_flight, NULL));
        log_info("All models are stopped, unloading models");
        repo_unload_all(s->repo);
        err = wait_for_models(s, deadline_ns, end_sequences_ns);
        if (err != NULL)
                log_flush();
        return err;
}

void server_measure(struct server *s) {
        load_meter_scrape(s->model_metrics, clock_now_ns());
        core_metrics_measure(s->core, s->repo);
}

void server_free(struct server *s) {
        if (s == NULL)
                return;
        repo_free(s->repo);
        reaper_free(s->reaper);
        agent_registry_free(s->agents);
        backend_registry_free(s->backends);
        rate_limiter_free(s->limiter);
        response_cache_free(s->cache);
        if (s->step_memory.pool != NULL)
                step_memory_done(&s->step_memory);
        if (s->model_metrics != NULL)
                load_meter_stop(s->model_metrics);
        timer_thread_free(s->timers);
        if (s->core != NULL)
                core_metrics_free(s->core);
        if (s->model_metrics != NULL)
                model_metrics_free(s->model_metrics);
        if (s->metrics != NULL)
                metric_registry_free(s->metrics);
        host_policies_free(s->policies);
        gpus_close(s->gpus);
        event_source_done(&s->ready);
        free(s->scheduler);
        free(s->scheduler_directory);
        free(s->id);
        free(s);
        log_stop();
        reserve_close();
}

/* "out of memory", as a static error that needs no memory. */
static struct error *out_of_memory(void) {
        static struct error full = ERROR_STATIC(ERR_UNAVAILABLE, "out of memory");

        return &full;
}

bool server_is_live(const struct server *s) {
        return atomic_load(&s->state) == SERVER_READY;
}

bool server_is_ready(struct server *s) {
        if (atomic_load(&s->state) != SERVER_READY || atomic_load(&s->is_draining))
                return false;
        return !s->strict_readiness || repo_all_ready(s->repo);
}

void server_set_draining(struct server *s, bool is_draining) {
        if (atomic_exchange(&s->is_draining, is_draining) != is_draining)
                event_source_publish(&s->ready);
}

struct readiness server_readiness(struct server *s) {
        if (atomic_load(&s->state) != SERVER_READY || atomic_load(&s->is_draining))
                return (struct readiness){ 0 };
        return s->strict_readiness ? repo_readiness(s->repo)
                                   : (struct readiness){ .is_ready = true };
}

static COLD struct error *not_ready(void) {
        return error_new_text(ERR_UNAVAILABLE, "Server not ready");
}

/* UNAVAILABLE "Server not ready" before READY, while EXITING, and when FAILED. */
static struct error *check_serving(const struct server *s) {
        if (atomic_load_explicit(&s->state, memory_order_relaxed) == SERVER_READY)
                return NULL;
        return not_ready();
}

struct error *server_check_started(const struct server *s) {
        return atomic_load(&s->state) == SERVER_FAILED ? not_ready() : NULL;
}

struct error *server_get_model(struct server *s, const char *name, int64_t version,
                               struct model **ret) {
        TRY(check_serving(s));
        if (reserve_is_short())
                return out_of_memory();
        return repo_get(s->repo, name, version, ret);
}

struct error *server_get_model_for_request(struct server *s, const char *name, int64_t version,
                                           struct model **ret) {
        int        state = atomic_load_explicit(&s->state, memory_order_relaxed);
        AUTO_ERROR err = NULL;

        if (state != SERVER_READY && state != SERVER_EXITING)
                return not_ready();
        if (reserve_is_short())
                return out_of_memory();
        err = repo_get_for_request(s->repo, name, version, ret);
        if (state == SERVER_READY)
                return STEAL(err);
        if (err != NULL)
                return not_ready();
        if (!model_has_sequences(*ret) && !atomic_load(&(*ret)->needs_routing)) {
                model_unref(*ret);
                return not_ready();
        }
        return NULL;
}

/* ---- requests of clients -------------------------------------------------------------------- */

/* True when the server accepts the request: while it exits, only requests of live sequences. */
static bool may_submit(const struct server *s, struct request *req) {
        int state = atomic_load_explicit(&s->state, memory_order_relaxed);

        return state == SERVER_READY || (state == SERVER_EXITING && !request_is_in_use(req) &&
                                         model_generations_continues(req));
}

/* The error for a request whose model was unloaded after its look-up: that of a new look-up. */
static COLD struct error *unloaded_error(struct server *s, const struct request *req) {
        struct model *model;
        struct error *err = repo_get(s->repo, req->model->name,
                                     req->has_version ? req->model->version : -1, &model);

        if (err != NULL)
                return err;
        model_unref(model); /* it was loaded again meanwhile */
        return model_generations_retired();
}

struct error *server_infer(struct server *s, struct request *req) {
        struct error *err;

        if (!may_submit(s, req))
                return error_new(ERR_UNAVAILABLE, "Server not ready");
        if (req->on_response == NULL || req->on_release == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "release and response callbacks must be set before inference");
        err = model_submit(req);
        if (err != NULL && err == model_generations_retired())
                err = unloaded_error(s, req);
        return err;
}

/* Releases a trace whose inference did not begin. */
static struct error *release_trace(struct trace *t, struct error *err) {
        t->options.on_release(t, t->options.userp);
        return err;
}

struct error *server_infer_traced(struct server *s, struct request *req, struct trace *t) {
        struct error *err;

        if (atomic_load(&t->n_holders) > 0)
                return trace_begin(t, req);
        if (request_is_in_use(req))
                return release_trace(t, model_submit_in_use());
        err = trace_begin(t, req);
        if (err != NULL)
                return release_trace(t, err);
        err = server_infer(s, req);
        if (err != NULL)
                trace_refuse(req);
        return err;
}

/* ---- models and repositories, as the model control mode permits ----------------------------- */

/* The reference server has this text for the modes "none" and "poll". */
static struct error *check_explicit(const struct server *s) {
        TRY(check_serving(s));
        if (s->control_mode != MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_UNAVAILABLE,
                                      "explicit model load / unload is not allowed if polling is "
                                      "enabled");
        return NULL;
}

static bool may_leave_directory(struct str name) {
        struct str bare = str_trim(name);

        if (str_is(bare, ".") || str_is(bare, ".."))
                return true;
        for (size_t i = 0; i < name.len; i++)
                if (name.ptr[i] == '/' || name.ptr[i] == '\\')
                        return true;
        return name.len > MODEL_NAME_MAX_BYTES;
}

/* Nothing but white space, line breaks included. */
static bool is_blank(const char *name) {
        return name[strspn(name, " \t\n\v\f\r")] == '\0';
}

/* The text does not repeat the name: a program may write it to a log of its own. */
static struct error *check_control_characters(struct str name) {
        for (size_t i = 0; i < name.len; i++)
                if ((unsigned char)name.ptr[i] < ' ')
                        return error_new(ERR_INVALID_ARG,
                                         "invalid model name: byte %zu is a control character "
                                         "(0x%02x)",
                                         i + 1, (unsigned)(unsigned char)name.ptr[i]);
        return NULL;
}

/* For loading only. Unloading needs no such check: no loaded model has such a name, and unloading a
 * model that is not loaded succeeds. */
static struct error *check_name(const char *name) {
        struct str s = str_of(name);

        if (is_blank(name))
                return error_new_text(ERR_INVALID_ARG, "Model name cannot be empty. Please enter a "
                                                       "valid name to deploy.");
        TRY(check_control_characters(s));
        if (may_leave_directory(s))
                return error_new(ERR_INVALID_ARG,
                                 "invalid model name '%.*s', model name must not contain path "
                                 "traversal characters",
                                 (int)MIN(s.len, (size_t)MODEL_NAME_MAX_BYTES), s.ptr);
        return NULL;
}

struct error *server_load_model(struct server *s, const char *name, const struct repo_override *o) {
        TRY(check_explicit(s));
        TRY(check_name(name));
        if (reserve_is_short())
                return out_of_memory();
        return repo_load(s->repo, name, o);
}

struct error *server_unload_model(struct server *s, const char *name) {
        TRY(check_explicit(s));
        return repo_unload(s->repo, name);
}

struct error *server_unload_model_with_needs(struct server *s, const char *name,
                                             const struct load_permit *permit) {
        TRY(check_explicit(s));
        return repo_unload_with_needs(s->repo, name, permit);
}

static struct error *check_poll(const struct server *s) {
        if (s->control_mode != MODEL_CONTROL_POLL)
                return error_new_text(ERR_UNAVAILABLE, "polling is disabled");
        return check_serving(s);
}

struct error *server_poll(struct server *s) {
        TRY(check_poll(s));
        repo_poll(s->repo);
        return NULL;
}

struct error *server_start_poll(struct server *s) {
        TRY(check_poll(s));
        repo_start_poll(s->repo);
        return NULL;
}

struct error *server_register_repository(struct server *s, const char *path,
                                         const struct repo_name *names, size_t n_names) {
        TRY(check_serving(s));
        if (s->control_mode != MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_UNSUPPORTED,
                                      "repository registration is not allowed if model control "
                                      "mode is not EXPLICIT");
        return repo_add_path(s->repo, path, names, n_names);
}

struct error *server_unregister_repository(struct server *s, const char *path) {
        TRY(check_serving(s));
        if (s->control_mode != MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_UNSUPPORTED,
                                      "repository unregistration is not allowed if model control "
                                      "mode is not EXPLICIT");
        return repo_remove_path(s->repo, path);
}
