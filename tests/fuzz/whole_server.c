/* SPDX-License-Identifier: BSD-3-Clause */
#include "whole_server.h"

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/mem.h"
#include "call/infer_call.h"
#include "core_api/core_error.h"
#include "grpc/grpc_server.h"
#include "grpc/rpc_table.h"
#include "http/http_server.h"
#include "load/http_response.h"
#include "openai/openai_settings.h"
#include "shm/shared_memory.h"
#include "trace/tracer.h"
#include "triton/core/tritonserver.h"
#include "web/dashboard.h"
#include "whole_cloud.h"
#include "whole_models.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STOP_SECONDS 30 /* a busy machine with sanitizers needs more than a moment */

static struct {
        bool                is_started;
        struct whole_server server;
        char                models[64];
        struct tracer      *tracer;
        struct infer_core   infer;
        struct http_server *http;
        struct grpc_server *grpc;

        /* of a full server; else NULL */
        struct openai_settings openai;
        struct byte_budget     budget;
        struct dashboard      *dashboard;
        struct whole_cloud    *cloud;
} whole;

static NORETURN void end_with(const char *what, const char *why) {
        fprintf(stderr, "whole server: %s: %s\n", what, why);
        abort();
}

static void must(struct error *err, const char *what) {
        if (err != NULL)
                end_with(what, err->message);
}

static void must_core(struct TRITONSERVER_Error *err, const char *what) {
        must(core_error_take(err), what);
}

/* ---- the repository -------------------------------------------------------------------------- */

void whole_server_put_config(const char *name, struct str config) {
        char  path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", whole.models, name);
        mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/%s/1", whole.models, name);
        mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/%s/config.pbtxt", whole.models, name);
        file = fopen(path, "wb");
        if (file == NULL || fwrite(config.ptr, 1, config.len, file) != config.len ||
            fclose(file) != 0)
                end_with(path, "not written");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
        (void)st;
        (void)kind;
        (void)at;
        return remove(path);
}

static void make_repository(bool is_full) {
        snprintf(whole.models, sizeof(whole.models), "%s/neso_fuzz_XXXXXX", P_tmpdir);
        if (mkdtemp(whole.models) == NULL)
                end_with(whole.models, "not made");
        for (size_t i = 0; i < whole_models_count(is_full); i++)
                whole_server_put_config(whole_models[i].name, str_of(whole_models[i].config));
        whole.server.models = whole.models;
}

/* ---- inference without a port ------------------------------------------------------------------ */

static struct {
        struct TRITONSERVER_ResponseAllocator *allocator;
        struct mutex                           lock;
        struct cond                            changed;
        unsigned                               n_answers, n_releases; /* guarded by the lock */
} calls;

static void must_be(bool holds, const char *what) {
        if (!holds)
                end_with("inference", what);
}

static struct TRITONSERVER_Error *on_alloc(struct TRITONSERVER_ResponseAllocator *a,
                                           const char *name, size_t size,
                                           TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                           void **buffer, void **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_type,
                                           int64_t                 *actual_id) {
        (void)a;
        (void)name;
        (void)type;
        (void)id;
        (void)userp;
        *buffer = size > 0 ? calloc(1, size) : NULL;
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static struct TRITONSERVER_Error *on_free(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                          void *userp, size_t size, TRITONSERVER_MemoryType type,
                                          int64_t id) {
        (void)a;
        (void)userp;
        (void)size;
        (void)type;
        (void)id;
        free(buffer);
        return NULL;
}

static void count(unsigned *what) {
        MUTEX_GUARD(&calls.lock);

        (*what)++;
        cond_broadcast(&calls.changed);
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        (void)userp;
        error_free(core_error_take(TRITONSERVER_InferenceResponseDelete(response)));
        if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
                count(&calls.n_answers);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request;
        (void)flags;
        (void)userp;
        count(&calls.n_releases);
}

static void wait_for_end(void) {
        uint64_t give_up_ns = clock_now_ns() + STOP_SECONDS * NS_PER_S;
        MUTEX_GUARD(&calls.lock);

        while (calls.n_answers == 0 || calls.n_releases == 0)
                must_be(cond_wait_until(&calls.changed, &calls.lock, give_up_ns),
                        "the request is lost");
        must_be(calls.n_answers == 1 && calls.n_releases == 1, "answered or released twice");
}

void whole_server_infer(const char *model, bool cancels) {
        struct TRITONSERVER_InferenceRequest *request;
        struct error                         *err;

        calls.n_answers = calls.n_releases = 0;
        err = core_error_take(
                TRITONSERVER_InferenceRequestNew(&request, whole.server.core, model, -1));
        if (err == NULL) {
                must_be(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release,
                                                                        NULL) == NULL &&
                                TRITONSERVER_InferenceRequestSetResponseCallback(
                                        request, calls.allocator, NULL, on_response, NULL) == NULL,
                        "callbacks");
                error_free(
                        core_error_take(TRITONSERVER_InferenceRequestSetCorrelationId(request, 7)));
                error_free(core_error_take(TRITONSERVER_InferenceRequestSetFlags(
                        request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)));
                error_free(core_error_take(TRITONSERVER_InferenceRequestAddRawInput(request, "I")));
                error_free(core_error_take(
                        TRITONSERVER_InferenceRequestAppendInputData(request, "I", "01234567", 8,
                                                                     TRITONSERVER_MEMORY_CPU, 0)));
                err = core_error_take(
                        TRITONSERVER_ServerInferAsync(whole.server.core, request, NULL));
                if (err == NULL) {
                        if (cancels)
                                error_free(core_error_take(
                                        TRITONSERVER_InferenceRequestCancel(request)));
                        wait_for_end();
                }
                error_free(core_error_take(TRITONSERVER_InferenceRequestDelete(request)));
        }
        error_free(err);
}

/* ---- start and stop --------------------------------------------------------------------------- */

static void start_core(const struct whole_server_options *with) {
        bool                               may_load = with->may_load;
        size_t                             n_models = whole_models_count(with->is_full);
        struct TRITONSERVER_ServerOptions *o;

        must_core(TRITONSERVER_ServerOptionsNew(&o), "options");
        must_core(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, whole.models), "models");
        must_core(TRITONSERVER_ServerOptionsSetBackendDirectory(o, FUZZ_BACKENDS), "backends");
        must_core(TRITONSERVER_ServerOptionsSetModelControlMode(
                          o, may_load ? TRITONSERVER_MODEL_CONTROL_EXPLICIT
                                      : TRITONSERVER_MODEL_CONTROL_NONE),
                  "mode");
        for (size_t i = 0; may_load && i < n_models; i++)
                must_core(TRITONSERVER_ServerOptionsSetStartupModel(o, whole_models[i].name),
                          whole_models[i].name);
        if (with->cache != NULL) {
                must_core(TRITONSERVER_ServerOptionsSetCacheDirectory(o, FUZZ_CACHES), "caches");
                must_core(TRITONSERVER_ServerOptionsSetCacheConfig(o, with->cache, "{}"), "cache");
        }
        must_core(TRITONSERVER_ServerOptionsSetLogInfo(o, false), "log");
        must_core(TRITONSERVER_ServerOptionsSetLogWarn(o, false), "log");
        must_core(TRITONSERVER_ServerOptionsSetLogError(o, false), "log");
        must_core(TRITONSERVER_ServerOptionsSetExitTimeout(o, STOP_SECONDS), "exit timeout");
        for (const char *const *c = with->python_settings; c != NULL && *c != NULL; c += 2)
                must_core(TRITONSERVER_ServerOptionsSetBackendConfig(o, "python", c[0], c[1]),
                          c[0]);
        must_core(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, with->is_strict), "strict");
        must_core(TRITONSERVER_ServerNew(&whole.server.core, o), "start");
        TRITONSERVER_ServerOptionsDelete(o);
}

static struct net_server_options net_options(const char *name) {
        struct net_server_options net = { .name = name, .address = "127.0.0.1", .n_threads = 1 };

        net_limits_init(&net.limits);
        return net;
}

static struct service make_service(void) {
        return (struct service){ .core = whole.server.core,
                                 .infer = &whole.infer,
                                 .shared_memory = whole.server.regions,
                                 .tracer = whole.tracer };
}

static void start_tracer(void) {
        struct trace_config c;

        trace_config_init(&c);
        must(tracer_new(&c, whole.server.core, &whole.tracer), "traces");
}

static struct http_server_options http_options(void) {
        struct http_server_options o;

        http_server_options_init(&o);
        o.net = net_options("fuzz-http");
        o.limits.header_bytes = 4096;
        o.limits.input_bytes = 1 << 20;
        o.limits.chunks = 64;
        o.service = make_service();
        o.service.max_input_bytes = o.limits.input_bytes;
        return o;
}

static void read_no_ports(void *owner, struct dashboard_port_state ret[N_DASHBOARD_PORTS]) {
        (void)owner;
        for (int i = 0; i < N_DASHBOARD_PORTS; i++)
                ret[i] = (struct dashboard_port_state){ 0 };
}

/* Without the sampler: readings of its own are no part of an input. */
static void make_full(struct http_server_options *o) {
        byte_budget_init(&whole.budget, 0);
        whole.dashboard = dashboard_new(&(struct dashboard_options){
                .core = whole.server.core, .budget = &whole.budget, .read_ports = read_no_ports });
        must(openai_settings_init(&whole.openai), "OpenAI");
        whole.openai.lora_separator = "_lora_";
        whole.openai.max_choices = 4;
        o->routes = http_api_routes();
        o->service.dashboard = whole.dashboard;
        o->service.openai = &whole.openai;
}

static void start_http(const struct whole_server_options *with) {
        struct http_server_options o = http_options();

        o.routes = http_api_routes_without_dashboard();
        o.routes.openai = NULL;
        if (with->is_full)
                make_full(&o);
        whole.openai.may_load = with->may_load;
        must(http_server_new(&o, &whole.http), "HTTP");
        net_server_start(http_server_net(whole.http));
        whole.server.http_port = net_server_port(http_server_net(whole.http));
        if (with->has_cloud)
                must(whole_cloud_start(http_options(), &whole.server, &whole.cloud), "cloud");
}

static void start_grpc(void) {
        struct grpc_server_options o;

        grpc_server_options_init(&o);
        o.net = net_options("fuzz-grpc");
        o.limits.message_bytes = 1 << 20;
        o.methods = rpc_table();
        o.service = make_service();
        o.service.max_responses = 8;
        must(grpc_server_new(&o, &whole.grpc), "gRPC");
        net_server_start(grpc_server_net(whole.grpc));
        whole.server.grpc_port = net_server_port(grpc_server_net(whole.grpc));
}

/* No connection that its client has closed may be left. */
static void end_net(struct net_server *net, const char *name) {
        if (net == NULL)
                return;
        net_server_stop(net);
        if (net_server_wait(net, clock_now_ns() + STOP_SECONDS * NS_PER_S) != 0)
                end_with(name, "connections are left");
}

static void stop(void) {
        end_net(http_server_net(whole.http), "HTTP");
        end_net(grpc_server_net(whole.grpc), "gRPC");
        for (size_t i = 0; i < N_CLOUD_PORTS; i++)
                end_net(whole_cloud_net(whole.cloud, i), "cloud");
        must_core(TRITONSERVER_ServerStop(whole.server.core), "stop");
        http_server_free(whole.http);
        grpc_server_free(whole.grpc);
        whole_cloud_free(whole.cloud);
        dashboard_free(whole.dashboard);
        tracer_free(whole.tracer);
        must_core(TRITONSERVER_ServerDelete(whole.server.core), "end");
        infer_core_done(&whole.infer);
        shared_memory_free(whole.server.regions);
        must_core(TRITONSERVER_ResponseAllocatorDelete(calls.allocator), "allocator");
        nftw(whole.models, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const struct whole_server *whole_server_get(const struct whole_server_options *options) {
        if (whole.is_started)
                return &whole.server;
        whole.is_started = true;
        make_repository(options->is_full);
        start_core(options);
        if (options->has_regions)
                must(shared_memory_new(NULL, &whole.server.regions), "regions");
        must(infer_core_init(&whole.infer,
                             &(struct infer_core_options){ .server = whole.server.core,
                                                           .shared_memory = whole.server.regions }),
             "inference");
        mutex_init(&calls.lock, LOCK_SERVER);
        cond_init(&calls.changed);
        must_core(TRITONSERVER_ResponseAllocatorNew(&calls.allocator, on_alloc, on_free, NULL),
                  "allocator");
        start_tracer();
        if (!options->needs_no_net) {
                start_http(options);
                start_grpc();
        }
        atexit(stop);
        return &whole.server;
}

/* A server that is silent for so long waits for bytes that do not come. */
#define SILENCE_MS 20

/* ---- the client ------------------------------------------------------------------------------- */

/* The alarm of libFuzzer's clock may interrupt it; then the connection is made meanwhile. */
static bool connect_to(int fd, uint16_t port) {
        const struct sockaddr_in to = { .sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct pollfd            wait = { .fd = fd, .events = POLLOUT };

        if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
                return true;
        if (errno != EINTR)
                return false;
        while (poll(&wait, 1, -1) < 0 && errno == EINTR)
                ;
        return (wait.revents & POLLERR) == 0;
}

static int open_client(uint16_t port) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || !connect_to(fd, port) ||
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) != 0)
                end_with("client", strerror(errno));
        return fd;
}

/* Takes what has come. Returns 1 for more to come, 0 for the end, -1 for a reset. */
static int take_answer(int fd, int flags, struct strbuf *ret) {
        char    piece[16384];
        ssize_t n = recv(fd, piece, sizeof(piece), flags);

        if (n > 0)
                strbuf_put(ret, piece, (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
                return -1;
        return n != 0;
}

/* A server that answers before it has read all must not wait for a client that only writes. */
static void send_all(int fd, struct str bytes, size_t piece, struct strbuf *ret) {
        while (bytes.len > 0) {
                size_t  n = piece > 0 ? MIN(piece, bytes.len) : bytes.len;
                ssize_t sent = send(fd, bytes.ptr, n, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (sent < 0 && errno != EAGAIN && errno != EINTR)
                        return; /* the server has closed: what it said can still be read */
                if (sent > 0)
                        bytes = str_range(bytes.ptr + sent, bytes.len - (size_t)sent);
                if (take_answer(fd, sent < 0 ? 0 : MSG_DONTWAIT, ret) <= 0)
                        return;
        }
}

/* Returns as take_answer(). */
static int wait_for_silence(int fd, struct strbuf *ret) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int           n, rc = 1;

        while (rc > 0 && (n = poll(&wait, 1, SILENCE_MS)) != 0)
                if (n > 0)
                        rc = take_answer(fd, MSG_DONTWAIT, ret);
        return rc;
}

/* Returns false when the connection was reset. `rc`: as take_answer(). */
static bool end_client(int fd, int rc, struct strbuf *ret) {
        shutdown(fd, SHUT_WR);
        while (rc > 0)
                rc = take_answer(fd, 0, ret);
        close(fd);
        return rc == 0;
}

bool whole_server_talk(uint16_t port, struct str bytes, size_t piece, struct strbuf *ret) {
        int fd = open_client(port);

        send_all(fd, bytes, piece, ret);
        return end_client(fd, 1, ret);
}

bool whole_server_talk_to_end(uint16_t port, struct str bytes, struct str last, size_t piece,
                              struct strbuf *ret) {
        int fd = open_client(port);

        send_all(fd, bytes, piece, ret);
        send_all(fd, last, 0, ret);
        return end_client(fd, wait_for_silence(fd, ret), ret);
}

bool whole_server_talk_http(uint16_t port, struct str bytes, uint8_t how, struct strbuf *ret) {
        static const char last[] = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";

        if ((how & WHOLE_CLOSES_AT_ONCE) != 0)
                return whole_server_talk(port, bytes, how & ~WHOLE_CLOSES_AT_ONCE, ret);
        return whole_server_talk_to_end(port, bytes, str_of(last), how, ret);
}

bool whole_server_is_slow(struct str requests) {
        return memmem(requests.ptr, requests.len, "delay_ms", 8) != NULL ||
               memmem(requests.ptr, requests.len, "responses", 9) != NULL;
}

bool whole_server_can_check(struct str requests) {
        return memmem(requests.ptr, requests.len, "HEAD", 4) == NULL &&
               memmem(requests.ptr, requests.len, "HTTP/1.0", 8) == NULL;
}

void whole_server_check_answers(struct str text) {
        struct http_response r;

        http_response_init(&r);
        while (text.len > 0)
                if (http_response_read(&r, &text) == HTTP_RESPONSE_BAD)
                        end_with("answer", r.wrong);
        http_response_done(&r);
}

/* Reads into `text` until it has an answer, which is at its begin. */
static void read_answer(int fd, struct strbuf *text, struct http_response *r) {
        enum http_response_result rc = HTTP_RESPONSE_MORE;

        for (;;) {
                struct str in = strbuf_str(text); /* some may have come already */

                http_response_done(r);
                http_response_init(r);
                while (in.len > 0 && rc == HTTP_RESPONSE_MORE)
                        rc = http_response_read(r, &in);
                if (rc != HTTP_RESPONSE_MORE)
                        break;
                if (take_answer(fd, 0, text) <= 0)
                        end_with("answer", "the connection ended before it");
        }
        if (rc == HTTP_RESPONSE_BAD)
                end_with("answer", r->wrong);
}

int whole_server_ask(const char *path, struct str body, struct strbuf *ret_body) {
        struct http_response r;
        AUTO_STRBUF          request, text;
        int                  fd = open_client(whole.server.http_port);

        strbuf_init(&request, 0);
        strbuf_init(&text, 0);
        strbuf_printf(&request, "POST %s HTTP/1.1\r\nHost: fuzz\r\nContent-Length: %zu\r\n\r\n",
                      path, body.len);
        strbuf_put(&request, body.ptr, body.len);
        send_all(fd, strbuf_str(&request), 0, &text);
        http_response_init(&r);
        read_answer(fd, &text, &r);
        strbuf_put(ret_body, r.body.ptr, r.body.len);
        http_response_done(&r);
        close(fd);
        return r.status;
}
