/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/serve.h"

#include "auth/admission.h"
#include "auth/api_keys.h"
#include "auth/endpoint.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "call/drain.h"
#include "call/header_forward.h"
#include "call/memory_metrics.h"
#include "call/service.h"
#include "cli/access_log.h"
#include "cli/command_page.h"
#include "cli/core_options.h"
#include "cli/open_files.h"
#include "cli/option_parse.h"
#include "cli/option_print.h"
#include "cli/poller.h"
#include "cli/port_file.h"
#include "cli/serve_cloud.h"
#include "cli/serve_grpc.h"
#include "cli/serve_tls.h"
#include "cli/signals.h"
#include "cli/supervisor.h"
#include "cli/trace_options.h"
#include "core_api/core_error.h"
#include "core_api/core_version.h"
#include "gpu/gpu.h"
#include "grpc/grpc_server.h"
#include "http/http_server.h"
#include "net/loop.h"
#include "openai/openai_metrics.h"
#include "openai/openai_settings.h"
#include "shm/shared_memory.h"
#include "trace/tracer.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"
#include "web/dashboard.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A smaller budget would not suffice for the read buffers of a few clients. */
#define MIN_BUDGET_BYTES (16 << 20)
#define WATCHDOG_SIGNS                                                                             \
        4 /* signs of life within the watchdog's time: a loop may be late for three of them */

struct serve {
        struct cli_options          options;
        struct TRITONSERVER_Server *core;
        struct api_keys            *keys;           /* NULL without a key file */
        struct endpoint_policy      policy;         /* for HTTP and the metrics port */
        struct admission            admission;      /* for both protocols */
        struct byte_budget          budget;         /* for both protocols and the metrics port */
        struct memory_metrics      *memory_metrics; /* NULL without a metrics port */
        struct openai_settings      openai;
        struct gpus                *gpus;          /* NULL without GPUs or --allow-client-shm */
        struct shared_memory       *shared_memory; /* NULL without --allow-client-shm */
        struct serve_tls            tls;
        struct infer_core           infer; /* for HTTP and the fronts of cloud platforms */
        struct http_server         *http;
        struct http_server         *openai_port; /* NULL without --openai-port */
        struct serve_cloud          cloud;
        struct serve_grpc           grpc;
        struct http_server         *metrics;
        struct dashboard           *dashboard; /* NULL without --allow-dashboard */
        struct poller              *poller;    /* NULL unless the model control mode is poll */
        bool                        logs_access;
        struct trace_config         trace_config;
        struct tracer              *tracer;
        struct drain                drain;
        struct mutex                start_lock; /* rank LOCK_SERVER; guards `starting` */
        struct TRITONSERVER_Server *starting;   /* borrowed; while it loads models at the start */
        struct supervisor           supervisor;
        bool                        has_port_file;
        int port_fd; /* the file, open and locked; owned when has_port_file */
};

/* Passes log lines of this link unit to the core's log. */
static void to_core_log(enum log_level level, const char *file, int line, const char *message) {
        struct TRITONSERVER_Error *err =
                TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)level, file, line, message);

        TRITONSERVER_ErrorDelete(err);
}

static bool core_log_is_enabled(enum log_level level) {
        return TRITONSERVER_LogIsEnabled((TRITONSERVER_LogLevel)level);
}

static void on_rejected(void *owner, const char *limit) {
        struct serve *s = owner;

        TRITONSERVER_ErrorDelete(NESO_ServerObserveRejected(s->core, limit));
}

static void on_key_refused(void *owner, const char *key, const char *reason) {
        struct serve *s = owner;

        TRITONSERVER_ErrorDelete(NESO_ServerObserveKeyRefused(s->core, key, reason));
}

/* Adds the failed step: "<what>: <Code> - <text>", the reference server's form of an error that
 * ends its start. Takes `err`. */
static struct error *start_error(struct error *err, const char *what) {
        struct error *named;

        if (err == NULL)
                return NULL;
        named = error_new(err->code, "%s: %s - %s", what, error_code_string(err->code),
                          err->message);
        error_free(err);
        return named;
}

/* The server and the signal may come in either order. */
static void end_start_locked(struct serve *s) {
        if (s->starting != NULL && signals_first() != 0)
                core_error_drop(NESO_ServerEndStart(s->starting));
}

/* A signal has come during the start. */
static void on_start_ended(void *owner) {
        struct serve *s = owner;

        MUTEX_GUARD(&s->start_lock);
        end_start_locked(s);
}

static void on_core_start(struct TRITONSERVER_Server *core, void *userp) {
        struct serve *s = userp;

        MUTEX_GUARD(&s->start_lock);
        s->starting = core;
        end_start_locked(s);
}

static struct error *set_start_options(struct serve                      *s,
                                       struct TRITONSERVER_ServerOptions *options) {
        TRY(core_error_take(NESO_ServerOptionsSetMemoryBudget(options, s->budget.max,
                                                              (size_t *)s->budget.used)));
        return core_error_take(NESO_ServerOptionsSetStartFunction(options, on_core_start, s));
}

static struct error *start_core(struct serve *s) {
        struct TRITONSERVER_ServerOptions *core_options;
        struct error                      *err;

        TRY(core_version_check_library());
        TRY(core_options_make(&s->options, &core_options));
        err = set_start_options(s, core_options);
        if (err == NULL)
                err = core_error_take(TRITONSERVER_ServerNew(&s->core, core_options));
        TRITONSERVER_ServerOptionsDelete(core_options);
        return start_error(err, "creating server");
}

static void set_http_limits(const struct cli_options *o, struct http_limits *l) {
        l->header_bytes = (size_t)o->http_max_header_bytes;
        l->header_fields = (size_t)o->http_max_header_fields;
        l->input_bytes = (size_t)o->http_max_input_bytes;
        l->header_time_ns = (uint64_t)o->http_header_timeout_ms * NS_PER_MS;
        l->idle_time_ns = (uint64_t)o->http_idle_timeout_ms * NS_PER_MS;
        l->body_window_bytes =
                (size_t)((uint64_t)o->http_min_body_rate * (l->body_window_ns / NS_PER_S));
        l->write_window_bytes =
                (size_t)o->http_min_answer_rate * (size_t)o->http_idle_timeout_ms / 1000;
}

/* Returns NULL when there are no limits; then requests are not counted. */
static struct admission *get_admission(struct serve *s) {
        return s->options.in_flight_limit.n_items > 0 ? &s->admission : NULL;
}

/* Options common to all listening servers of the program. */
static struct net_server_options shared_net_options(struct serve *s) {
        struct net_server_options net = { .budget = &s->budget,
                                          .on_rejected = on_rejected,
                                          .rejected_owner = s };

        net_limits_init(&net.limits);
        return net;
}

static struct service shared_service(struct serve *s) {
        return (struct service){ .core = s->core,
                                 .policy = &s->policy,
                                 .shared_memory = s->shared_memory,
                                 .drain = &s->drain,
                                 .tracer = s->tracer };
}

/* The service of a server whose requests the access log lists. */
static struct service logged_service(struct serve *s) {
        struct service service = shared_service(s);

        if (s->logs_access)
                service.on_access = access_log_write;
        return service;
}

/* What the OpenAI API needs, on whichever port. */
static struct error *init_openai(struct serve *s) {
        const struct cli_options *o = &s->options;

        TRY(openai_settings_init(&s->openai));
        s->openai.lists_all = o->openai_list_all;
        s->openai.lora_separator = o->openai_lora_separator;
        s->openai.max_choices = (uint32_t)o->openai_max_choices;
        s->openai.may_load = strcasecmp(o->model_control_mode, "explicit") == 0;
        s->openai.heartbeat_ns = (uint64_t)o->openai_heartbeat_ms * NS_PER_MS;
        s->openai.request_ns = (uint64_t)o->openai_request_timeout_ms * NS_PER_MS;
        s->openai.template_ns = (uint64_t)o->openai_template_timeout_ms * NS_PER_MS;
        return o->allow_metrics ? openai_metrics_new(&s->openai.metrics) : NULL;
}

/* Options of the HTTP port that the fronts of cloud platforms have, too. */
static struct http_server_options shared_http_options(struct serve *s) {
        const struct cli_options  *o = &s->options;
        struct http_server_options options;

        http_server_options_init(&options);
        options.net = shared_net_options(s);
        options.net.address = o->http_address;
        options.net.limits = (struct net_limits){
                .connections = (size_t)o->http_max_connections,
                .connections_per_address =
                        cli_connections_per_address(o->http_max_connections_per_address,
                                                    o->http_max_connections),
                .handshake_time_ns = (uint64_t)o->http_header_timeout_ms * NS_PER_MS,
        };
        set_http_limits(o, &options.limits);
        options.service = logged_service(s);
        options.service.infer = &s->infer;
        options.service.max_input_bytes = (size_t)o->http_max_input_bytes;
        return options;
}

static struct error *init_infer(struct serve *s) {
        return infer_core_init(&s->infer, &(struct infer_core_options){
                                                  .server = s->core,
                                                  .shared_memory = s->shared_memory,
                                                  .admission = get_admission(s),
                                                  .header_forward_pattern =
                                                          s->options.http_header_forward_pattern });
}

static struct error *start_http(struct serve *s) {
        const struct cli_options  *o = &s->options;
        struct http_server_options options = shared_http_options(s);

        options.net.name = "neso-http";
        options.net.port = (uint16_t)o->http_port;
        options.net.set_by = "--http-address and --http-port";
        options.net.reuse_port = o->reuse_http_port;
        options.net.inherited_fd = supervisor_take_listener(&s->supervisor, SUPERVISOR_HTTP);
        options.net.tls = s->tls.http;
        options.net.n_threads = (size_t)o->http_threads;
        options.routes =
                s->dashboard != NULL ? http_api_routes() : http_api_routes_without_dashboard();
        options.service.dashboard = s->dashboard;
        if (!o->allow_openai)
                options.routes.openai = NULL;
        options.service.openai = &s->openai;
        return http_server_start(&options, "HTTPService", &s->http);
}

static bool has_openai_port(const struct cli_options *o) {
        return o->openai_port >= 0;
}

static struct error *start_openai_port(struct serve *s) {
        const struct cli_options  *o = &s->options;
        struct http_server_options options = shared_http_options(s);

        options.net.name = "neso-openai";
        options.net.port = (uint16_t)o->openai_port;
        options.net.set_by = "--http-address and --openai-port";
        options.net.tls = s->tls.http;
        options.net.n_threads = (size_t)o->http_threads;
        options.routes = http_openai_routes();
        options.service.openai = &s->openai;
        return http_server_start(&options, "OpenAI service", &s->openai_port);
}

static struct error *start_cloud(struct serve *s) {
        struct http_server_options options = shared_http_options(s);

        options.service.memory_metrics = s->memory_metrics;
        return serve_cloud_start(&s->cloud, s->core, &options);
}

static struct error *start_grpc(struct serve *s) {
        struct net_server_options net = shared_net_options(s);
        const struct service      service = logged_service(s);

        net.inherited_fd = supervisor_take_listener(&s->supervisor, SUPERVISOR_GRPC);

        return serve_grpc_start(&s->grpc, &service, &net, get_admission(s));
}

static const char *metrics_address(const struct cli_options *o) {
        return o->metrics_address != NULL ? o->metrics_address : o->http_address;
}

static struct error *start_metrics(struct serve *s) {
        const struct cli_options  *o = &s->options;
        struct http_server_options options;

        http_server_options_init(&options);
        options.net = shared_net_options(s);
        options.net.name = "neso-metrics";
        options.net.address = metrics_address(o);
        options.net.port = (uint16_t)o->metrics_port;
        options.net.set_by = o->metrics_address != NULL ? "--metrics-address and --metrics-port"
                                                        : "--http-address and --metrics-port";
        options.net.inherited_fd = supervisor_take_listener(&s->supervisor, SUPERVISOR_METRICS);
        options.net.tls = s->tls.metrics;
        options.net.n_threads = 1;
        options.routes = http_metrics_routes();
        options.service = shared_service(s);
        options.service.memory_metrics = s->memory_metrics;
        return http_server_start(&options, "Metrics Service", &s->metrics);
}

struct port {
        const char *name;
        bool        is_on;
        const char *address;
        int64_t     port;
};

static struct error *check_ports(const struct cli_options *o) {
        const struct port ports[] = {
                { "HTTP", o->allow_http, o->http_address, o->http_port },
                { "OpenAI", has_openai_port(o), o->http_address, o->openai_port },
                { "GRPC", o->allow_grpc, o->grpc_address, o->grpc_port },
                { "metrics", o->allow_metrics, metrics_address(o), o->metrics_port },
                { "SageMaker", o->allow_sagemaker, o->http_address, o->sagemaker_port },
                { "Vertex AI", o->allow_vertex_ai, o->http_address, o->vertex_ai_port },
        };

        for (size_t i = 0; i < ARRAY_LEN(ports); i++)
                for (size_t j = i + 1; j < ARRAY_LEN(ports); j++) {
                        const struct port *a = &ports[i], *b = &ports[j];

                        if (!a->is_on || !b->is_on || a->port == 0 || a->port != b->port ||
                            strcmp(a->address, b->address) != 0)
                                continue;
                        return error_new(ERR_INVALID_ARG,
                                         "The server cannot listen to %s requests and %s requests "
                                         "at the same address and port %s:%lld",
                                         a->name, b->name, a->address, (long long)a->port);
                }
        return NULL;
}

static struct error *check_options(const struct cli_options *o) {
        if (o->model_repository.n_items == 0)
                return error_new(ERR_INVALID_ARG, "--model-repository must be specified");
        if (o->memory_budget_bytes > 0 && o->memory_budget_bytes < MIN_BUDGET_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "--memory-budget must be at least %d bytes, got: %lld",
                                 MIN_BUDGET_BYTES, (long long)o->memory_budget_bytes);
        return check_ports(o);
}

/* Makes the policy's front end require API keys if there is a key file. */
static void require_keys(struct serve *s, struct endpoint_policy *policy) {
        policy->keys = s->keys;
        policy->on_key_refused = on_key_refused;
        policy->owner = s;
}

/* Called before the core loads the models, which may take long. */
static struct error *read_policy(struct serve *s) {
        const struct option_texts *apis = &s->options.http_restricted_api;

        if (s->options.api_key_file != NULL)
                TRY(api_keys_open(s->options.api_key_file, &s->keys));
        require_keys(s, &s->policy);
        require_keys(s, &s->grpc.policy);
        for (size_t i = 0; i < apis->n_items; i++)
                TRY(endpoint_policy_add(&s->policy, apis->items[i], "api", ""));
        return NULL;
}

static struct error *read_admission(struct serve *s) {
        const struct option_texts *limits = &s->options.in_flight_limit;

        for (size_t i = 0; i < limits->n_items; i++)
                TRY(admission_add(&s->admission, limits->items[i]));
        s->admission.on_rejected = on_rejected;
        s->admission.owner = s;
        return NULL;
}

static void on_over_budget(void *owner) {
        on_rejected(owner, "memory_budget");
}

static void init_budget(struct serve *s) {
        int64_t wished = s->options.memory_budget_bytes;

        byte_budget_init(&s->budget, wished > 0 ? (size_t)wished : byte_budget_default());
        s->budget.on_refused = on_over_budget;
        s->budget.owner = s;
}

static struct error *start_poller(struct serve *s) {
        if (strcasecmp(s->options.model_control_mode, "poll") != 0 || s->options.poll_secs == 0)
                return NULL;
        return poller_start(s->core, (uint64_t)s->options.poll_secs * NS_PER_S, &s->poller);
}

static void log_keys(struct api_keys *keys) {
        const char *path = api_keys_path(keys);
        size_t      n = api_keys_count(keys);

        log_info("%zu API key%s in force, from %s", n, n == 1 ? " is" : "s are", path);
        if (api_keys_are_writable_by_others(keys))
                log_warn("%s may be written to by others than its owner, who could give "
                         "themselves any right",
                         path);
}

/* Called after the log was opened. */
static void log_open_files(const struct cli_options *o, uint64_t may_open) {
        uint64_t needed = open_files_needed(o);

        if (may_open < needed)
                log_info("The process may have %llu files open; for all connections that the "
                         "options allow it would need %llu (see ulimit -Hn)",
                         (unsigned long long)may_open, (unsigned long long)needed);
}

static void read_port(struct net_server *server, struct dashboard_port_state *ret) {
        if (server != NULL)
                *ret = (struct dashboard_port_state){ net_server_n_connections(server),
                                                      net_server_n_loops(server) };
}

static void read_ports(void *owner, struct dashboard_port_state *ret) {
        struct serve *s = owner;

        read_port(http_server_net(s->http), &ret[DASHBOARD_HTTP]);
        read_port(grpc_server_net(s->grpc.server), &ret[DASHBOARD_GRPC]);
        read_port(http_server_net(s->metrics), &ret[DASHBOARD_METRICS]);
}

static bool has_dashboard(const struct serve *s) {
        return s->options.allow_http && s->options.allow_dashboard;
}

/* Before the ports: a page may ask as soon as they are open. */
static struct error *new_dashboard(struct serve *s) {
        s->dashboard = dashboard_new(&(struct dashboard_options){
                .core = s->core, .budget = &s->budget, .read_ports = read_ports, .owner = s });
        if (s->dashboard == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        return dashboard_start(s->dashboard);
}

static struct error *start_services(struct serve *s) {
        const struct cli_options *o = &s->options;
        bool                      has_cloud = o->allow_sagemaker || o->allow_vertex_ai;

        if (o->allow_metrics || o->allow_vertex_ai)
                TRY(memory_metrics_new(&s->budget, &s->memory_metrics));
        if (o->allow_http || has_cloud || has_openai_port(o))
                TRY(init_infer(s));
        if ((o->allow_http && o->allow_openai) || has_openai_port(o))
                TRY(start_error(init_openai(s), "failed to start the OpenAI API"));
        if (o->allow_grpc)
                TRY(start_error(start_grpc(s), "failed to start GRPC service"));
        if (o->allow_http)
                TRY(start_error(start_http(s), "failed to start HTTP service"));
        if (has_openai_port(o))
                TRY(start_error(start_openai_port(s), "failed to start OpenAI service"));
        if (has_cloud)
                TRY(start_error(start_cloud(s), "failed to start the service of a cloud platform"));
        if (o->allow_metrics)
                TRY(start_error(start_metrics(s), "failed to start Metrics service"));
        return NULL;
}

static uint16_t port_of(struct net_server *server) {
        return server != NULL ? net_server_port(server) : 0;
}

static struct error *write_ports(struct serve *s) {
        const struct port_entry ports[] = {
                { "http", port_of(http_server_net(s->http)) },
                { "openai", port_of(http_server_net(s->openai_port)) },
                { "grpc", port_of(grpc_server_net(s->grpc.server)) },
                { "metrics", port_of(http_server_net(s->metrics)) },
                { "sagemaker", port_of(http_server_net(s->cloud.sagemaker)) },
                { "vertex-ai", port_of(http_server_net(s->cloud.vertex_ai)) },
        };

        if (s->options.port_file == NULL)
                return NULL;
        TRY(port_file_write(s->options.port_file, ports, ARRAY_LEN(ports), &s->port_fd));
        s->has_port_file = true;
        return NULL;
}

/* The GPUs open CUDA regions of clients; the core has its own struct of the same devices, and both use
 * the same contexts. Without pools, since the front end allocates no memory there. */
static struct error *new_shared_memory(struct serve *s) {
        const struct gpus_options options = {
                .min_compute_capability = s->options.min_compute_capability,
                .is_quiet = true, /* the core logs the devices */
        };

        TRY(gpus_open(&options, &s->gpus));
        TRY(shared_memory_new(s->gpus, &s->shared_memory));
        shared_memory_limit_gpus(s->shared_memory, s->options.client_shm_gpu_limit);
        return NULL;
}

static struct error *serve_start(struct serve *s) {
        uint64_t may_open = open_files_raise(open_files_needed(&s->options));

        TRY(check_options(&s->options));
        init_budget(s);
        TRY(read_policy(s));
        TRY(read_admission(s));
        TRY(serve_tls_prepare(&s->tls, &s->options));
        if (s->options.allow_grpc)
                TRY(serve_grpc_prepare(&s->grpc, &s->options, s->tls.grpc));
        if (s->options.allow_client_shm)
                TRY(new_shared_memory(s));
        TRY(serve_cloud_prepare(&s->cloud, &s->options));
        TRY(trace_options_read(&s->options, &s->trace_config));
        TRY(tracer_check(&s->trace_config));
        s->logs_access = strcmp(s->options.log_format, "json") == 0;
        if (has_dashboard(s))
                TRY(core_error_take(NESO_LogKeepRecent(true))); /* from the first load on */
        if (s->options.port_file != NULL) /* a server that was killed has left it, with its ports */
                port_file_remove_left(s->options.port_file);
        TRY(start_core(s));
        s->drain.core = s->core;
        s->drain.delay_ns = (uint64_t)s->options.drain_delay_s * NS_PER_S;
        s->drain.is_offered = s->options.allow_drain;
        log_open_files(&s->options, may_open);
        TRY(tracer_new(&s->trace_config, s->core, &s->tracer));
        if (s->keys != NULL)
                log_keys(s->keys);
        if (has_dashboard(s))
                TRY(new_dashboard(s));
        TRY(start_services(s));
        if (s->dashboard != NULL)
                dashboard_show_ports(s->dashboard);
        TRY(start_poller(s));
        return write_ports(s);
}

static struct error *check_pattern(const char *pattern) {
        struct header_forward f;

        TRY(header_forward_init(&f, pattern));
        header_forward_done(&f);
        return NULL;
}

static struct error *check_all_options(struct serve *s) {
        struct TRITONSERVER_ServerOptions *core_options;

        TRY(check_options(&s->options));
        TRY(read_policy(s));
        TRY(read_admission(s));
        TRY(serve_grpc_prepare(&s->grpc, &s->options, NULL));
        TRY(check_pattern(s->options.http_header_forward_pattern));
        TRY(check_pattern(s->options.grpc_header_forward_pattern));
        TRY(trace_options_read(&s->options, &s->trace_config));
        TRY(tracer_check(&s->trace_config));
        TRY(core_options_make(&s->options, &core_options));
        core_error_drop(TRITONSERVER_ServerOptionsDelete(core_options));
        return NULL;
}

struct error *serve_check(const struct cli_options *o) {
        struct serve  s = { .options = *o };
        struct error *err;
        char          no_file[] = "";

        s.options.api_key_file = NULL;
        s.options.log_file = no_file;
        endpoint_policy_init(&s.policy);
        admission_init(&s.admission);
        serve_grpc_init(&s.grpc);
        err = check_all_options(&s);
        endpoint_policy_done(&s.policy);
        serve_grpc_done(&s.grpc);
        admission_done(&s.admission);
        return err;
}

/* Closes a front end's port and waits for its connections until the deadline. */
static void end_server(struct net_server *server, const char *name, uint64_t deadline_ns) {
        size_t left;

        if (server == NULL)
                return;
        net_server_stop(server);
        left = net_server_wait(server, deadline_ns);
        if (left > 0)
                log_info("Timeout 0: Found %zu %s service connections", left, name);
}

static void end_http(struct http_server *server, uint64_t deadline_ns) {
        end_server(http_server_net(server), "HTTP", deadline_ns);
        http_server_free(server);
}

static void end_grpc(struct serve_grpc *g, uint64_t deadline_ns) {
        end_server(grpc_server_net(g->server), "GRPC", deadline_ns);
        grpc_server_free(STEAL(g->server));
}

static void serve_free_all(struct serve *s) {
        if (s->has_port_file)
                port_file_remove(s->options.port_file, s->port_fd);
        endpoint_policy_done(&s->policy);
        api_keys_free(s->keys);
        serve_grpc_done(&s->grpc);
        serve_tls_done(&s->tls);
        serve_cloud_done(&s->cloud);
        infer_core_done(&s->infer);
        shared_memory_free(s->shared_memory);
        gpus_close(s->gpus);
        admission_done(&s->admission);
        cli_options_done(&s->options);
        supervisor_close(&s->supervisor);
}

/* Stops everything in order and returns the exit code. */
static int serve_stop(struct serve *s) {
        uint64_t deadline_ns = clock_now_ns() + (uint64_t)s->options.exit_timeout_s * NS_PER_S;

        if (s->core != NULL) {
                AUTO_ERROR err = core_error_take(TRITONSERVER_ServerStop(s->core));

                if (err != NULL) {
                        /* Models are still running: nothing that they use may be freed. */
                        AUTO_CHARS text = mem_printf("%s\n", err->message);

                        log_last_words(text);
                        tracer_flush(s->tracer);
                        _exit(1);
                }
        }
        poller_stop(s->poller);
        dashboard_stop(s->dashboard); /* which looks at the ports */
        end_http(s->http, deadline_ns);
        end_http(s->openai_port, deadline_ns);
        end_http(s->cloud.sagemaker, deadline_ns);
        end_http(s->cloud.vertex_ai, deadline_ns);
        end_grpc(&s->grpc, deadline_ns);
        end_http(s->metrics, deadline_ns);
        dashboard_free(s->dashboard);
        tracer_free(s->tracer);
        memory_metrics_free(s->memory_metrics);
        openai_metrics_free(s->openai.metrics);
        if (s->core != NULL)
                TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(s->core));
        serve_free_all(s);
        return 0;
}

static int serve_fail(struct serve *s, struct error *err) {
        AUTO_CHARS text = mem_printf("error: %s\n", err->message);

        log_last_words(text);
        error_free(err);
        serve_stop(s);
        return 1;
}

/* Reads the key file again. The old keys stay in force when the file has a mistake. */
static void reload_keys(struct serve *s) {
        AUTO_ERROR err = NULL;

        if (s->keys == NULL)
                return;
        err = api_keys_reload(s->keys);
        if (err != NULL)
                log_error("the API keys stay what they were: %s", err->message);
        else
                log_keys(s->keys);
}

/* Opens the log file again, in both link units: a program that rotates logs has renamed it. Without that, its room on
 * the disk could not be freed. */
static struct error *open_log_again(const char *path) {
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetLogFile(NULL, path)));
        return log_set_file(path);
}

/* True for a file, and for one that was renamed. A pipe or a device stays open: the open of a pipe without a reader would
 * hold the thread that stops the server. */
static bool may_be_rotated(const char *path) {
        struct file_stat stat;
        AUTO_ERROR       err = file_stat(path, &stat);

        return err != NULL || stat.is_regular;
}

static void reopen_log(const struct serve *s) {
        AUTO_ERROR err = NULL;

        if (*s->options.log_file == '\0' || !may_be_rotated(s->options.log_file))
                return;
        err = open_log_again(s->options.log_file);
        if (err != NULL)
                log_error("the log stays in the file that is open: %s", err->message);
        else
                log_info("opened the log file again");
}

/* On SIGHUP: opens the log file again, and reads the files again that may change while the server runs. Connections
 * stay open. A file that cannot be opened changes nothing. */
static void serve_reload(void *owner) {
        struct serve *s = owner;

        supervisor_tell_reloading(&s->supervisor);
        reopen_log(s);
        reload_keys(s);
        serve_tls_reload(&s->tls);
        supervisor_tell_ready(&s->supervisor);
}

/* On SIGUSR1. */
static void serve_drain(void *owner) {
        struct serve *s = owner;
        AUTO_ERROR    err = drain_begin(&s->drain);

        if (err != NULL)
                log_error("cannot drain: %s", err->message);
}

/* Tells the supervisor's watchdog that the server lives, if each loop has done a round since the last time. */
static void tell_alive(void *owner) {
        struct serve      *s = owner;
        struct net_server *servers[] = { http_server_net(s->http),
                                         grpc_server_net(s->grpc.server),
                                         http_server_net(s->metrics),
                                         http_server_net(s->openai_port),
                                         http_server_net(s->cloud.sagemaker),
                                         http_server_net(s->cloud.vertex_ai) };
        bool               are_alive = true;

        for (size_t i = 0; i < ARRAY_LEN(servers); i++)
                are_alive = (servers[i] == NULL || net_server_probe(servers[i])) && are_alive;
        if (are_alive)
                supervisor_tell_alive(&s->supervisor);
}

/* Model processes share the standard output. If it is a pipe that they have filled and that has no
 * reader, the server ends without printing this line, so that it does not block. */
static void print_signal(int number) {
        struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

        if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0)
                return;
        printf("Signal (%d) received.\n", number);
        fflush(stdout);
}

/* Without the watch all signals wait for the end of the start. */
static struct error *watch_and_start(struct serve *s) {
        const struct start_actions actions = { .on_stop = on_start_ended,
                                               .owner = s,
                                               .exit_ns = (uint64_t)s->options.exit_timeout_s *
                                                          NS_PER_S };
        AUTO_ERROR                 err = signals_watch_start(&actions);

        if (err != NULL)
                log_warn("%s", err->message);
        return serve_start(s);
}

/* A start that a signal has ended is a stop, and no failure. */
static int stop_in_start(struct serve *s, struct error *err, int number) {
        log_info("the start has ended: %s", err->message);
        error_free(err);
        supervisor_tell_stopping(&s->supervisor);
        print_signal(number);
        return serve_stop(s);
}

static int end_failed_start(struct serve *s, struct error *err) {
        int number = signals_first();
        int code = number != 0 ? stop_in_start(s, err, number) : serve_fail(s, err);

        signals_end_start();
        return code;
}

static int serve_run(struct serve *s) {
        struct error         *err = watch_and_start(s);
        struct signal_actions actions = { .on_hangup = serve_reload,
                                          .on_drain = serve_drain,
                                          .on_tick = tell_alive,
                                          .tick_ns = s->supervisor.watchdog_ns / WATCHDOG_SIGNS,
                                          .owner = s };
        int                   number;

        if (err != NULL)
                return end_failed_start(s, err);
        signals_end_start();
        supervisor_tell_ready(&s->supervisor);
        number = signals_wait(&actions);
        supervisor_tell_stopping(&s->supervisor);
        print_signal(number);
        return serve_stop(s);
}

const struct command_page serve_page = {
        .name = "serve",
        .summary = "serve models",
        .arguments = "--model-repository <directory> [options]",
        .about = "Serves the models of one or more repositories over HTTP and gRPC, with metrics\n"
                 "on a port of their own. tritonserver is another name of this command.\n"
                 "SIGINT or SIGTERM stops the server: it refuses new requests, finishes those in\n"
                 "flight, and ends; while it starts, it loads no further model and ends. A second\n"
                 "signal ends it at once. On SIGHUP it reads API keys and certificates again, and\n"
                 "opens the log file again.",
        .options = &cli_option_table,
        .exit_codes = "0 after a stop, 1 when the server cannot start or a stop takes too long",
};

static int print_usage(struct error *err) {
        AUTO_STRBUF text = { 0 };

        option_print_usage(&text);
        if (err != NULL)
                fprintf(stderr, "%s\n", err->message);
        else
                fputs(strbuf_cstr(&text), stderr);
        if (err != NULL)
                fprintf(stderr, "`neso serve --help` lists all options.\n");
        error_free(err);
        return 1;
}

int serve_main(int argc, char **argv) {
        struct serve  s = { 0 };
        struct error *err;
        int           code;

        signals_block();
        err = reserve_open();
        if (err != NULL) {
                fprintf(stderr, "%s\n", err->message);
                return 1;
        }
        loop_use_reserve();
        /* Before shared_memory_new(), which handles SIGBUS. If it fails, reports of crashes are
         * shorter. */
        TRITONSERVER_ErrorDelete(NESO_ReportCrashes());
        log_set_sink(to_core_log, core_log_is_enabled);
        endpoint_policy_init(&s.policy);
        admission_init(&s.admission);
        serve_grpc_init(&s.grpc);
        cli_options_init(&s.options);
        supervisor_init(&s.supervisor);
        drain_init(&s.drain);
        mutex_init(&s.start_lock, LOCK_SERVER);
        err = serve_cloud_set_defaults(&s.options);
        if (err == NULL)
                err = option_parse(argc, argv, &s.options);
        if (err == NULL)
                err = serve_cloud_complete(&s.options);
        if (err == NULL)
                err = supervisor_open(&s.supervisor);
        if (err != NULL || s.options.help) {
                code = print_usage(err);
                serve_free_all(&s);
        } else {
                code = serve_run(&s);
        }
        mutex_done(&s.start_lock); /* after the watch of the start, which takes it */
        return code;
}
