/* SPDX-License-Identifier: BSD-3-Clause */
/* The object that owns all others of the core: TRITONSERVER_Server.
 *
 *     INITIALIZING -> READY -> EXITING -> (freed)
 *          '--> FAILED ----^
 *
 * FAILED: the server could read no repository, and runs nevertheless, since exit_on_error is false.
 * It serves its metadata, reports that it is neither live nor ready, and refuses requests about
 * models.
 *
 * Ownership.  Owns the repository, the backends, metrics, timers; freed in the reverse order of their
 * creation.
 * Threads.  Any. server_new(), server_stop() and server_free(): one thread at a time, and
 * server_free() with no other call running. server_end_start(): any thread, while server_new() runs.
 */
#pragma once

#include "base/byte_budget.h"
#include "base/error.h"
#include "base/event_source.h"
#include "infer/message.h"
#include "infer/response_stream.h"
#include "pipeline/step_memory.h"
#include "server/server_options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct agent_registry;
struct backend_registry;
struct core_metrics;
struct gpus;
struct host_policies;
struct load_permit;
struct metric_registry;
struct model;
struct rate_limiter;
struct reaper;
struct repo;
struct repo_name;
struct repo_override;
struct request;
struct response_cache;
struct model_metrics;
struct timer_thread;
struct trace;

enum server_state { SERVER_INITIALIZING, SERVER_READY, SERVER_FAILED, SERVER_EXITING };

struct server {
        _Atomic int              state; /* enum server_state */
        char                    *id;    /* owned */
        bool                     strict_readiness;
        enum model_control_mode  control_mode;
        _Atomic uint32_t         exit_timeout_s;
        _Atomic bool             is_draining;
        _Atomic bool             is_start_ended; /* by server_end_start() */
        struct event_source      ready; /* signalled when server, model or version changes state */
        struct gpus             *gpus;  /* owned; NULL: there are none */
        struct metric_registry  *metrics;       /* owned */
        struct core_metrics     *core;          /* owned; metrics that belong to no model */
        struct model_metrics    *model_metrics; /* owned */
        struct timer_thread     *timers;        /* owned */
        struct response_cache   *cache;         /* owned; NULL = none */
        struct byte_budget       state_memory;  /* of the sequences of all models */
        struct byte_budget       warmup_memory; /* of the warm-ups of all models */
        struct byte_budget       memory;        /* of requests; the program may share it */
        struct step_memory       step_memory;
        struct response_share    responses;
        struct rate_limiter     *limiter;   /* owned; NULL: no limit of executions */
        struct backend_registry *backends;  /* owned */
        struct host_policies    *policies;  /* owned; NULL = none */
        struct agent_registry   *agents;    /* owned; repository agents */
        char                    *scheduler; /* owned; default of models without a setting */
        char                    *scheduler_directory; /* owned */
        struct reaper           *reaper;              /* owned */
        struct repo             *repo;                /* owned */
};

/* Blocks until the models are loaded. With exit_on_error, a failed model is an error: INTERNAL "failed
 * to load all models". Without it, a server that can read no repository is FAILED. */
struct error *server_new(const struct server_options *options, struct server **ret) NODISCARD;
/* Ends the loads of server_new(), which then fails with UNAVAILABLE "Server exiting". To be called between the two
 * calls of the options' on_start(), from any thread; does not wait. Later it has no effect. */
void server_end_start(struct server *s);
/* Refuses new requests and sequences, waits for those in flight up to the exit timeout, and unloads all
 * models. Live sequences continue until they end or the exit timeout is nearly over. INTERNAL "Exit
 * timeout expired. Exiting immediately." when the timeout expires. */
struct error *server_stop(struct server *s) NODISCARD;
void          server_free(struct server *s);

bool server_is_live(const struct server *s);
bool server_is_ready(struct server *s);
/* While it drains, a server is not ready, and serves as before. */
void server_set_draining(struct server *s, bool is_draining);
/* The same without the backends, in constant time. */
struct readiness server_readiness(struct server *s);
/* UNAVAILABLE "Server not ready" when FAILED: for calls that are also served while EXITING. */
struct error *server_check_started(const struct server *s) NODISCARD;

/* Checks a request against its model and submits it to the scheduler. On error the caller still owns
 * it. While the server exits, only requests of live sequences are accepted. */
struct error *server_infer(struct server *s, struct request *req) NODISCARD;
/* As server_infer(), with a trace. Takes the trace: on error it is released at once. Exception: a
 * trace that another inference holds is refused and left unchanged. */
struct error *server_infer_traced(struct server *s, struct request *req, struct trace *t) NODISCARD;

/* Returns a new reference. UNAVAILABLE "Server not ready" before READY, while EXITING, and when
 * FAILED. */
struct error *server_get_model(struct server *s, const char *name, int64_t version,
                               struct model **ret) NODISCARD;
/* As server_get_model(), for a request, which may continue a live sequence: see repo_get_for_request().
 * While the server exits, only for models with sequences. */
struct error *server_get_model_for_request(struct server *s, const char *name, int64_t version,
                                           struct model **ret) NODISCARD;

/* Answers of the management endpoints, as JSON; the caller owns *ret. version -1 = the latest. */
struct error *server_metadata(struct server *s, struct message **ret) NODISCARD;
struct error *server_model_metadata(struct server *s, const char *name, int64_t version,
                                    struct message **ret) NODISCARD;
struct error *server_model_config(struct server *s, const char *name, int64_t version,
                                  uint32_t config_version, struct message **ret) NODISCARD;
/* The lines of the configuration's file; see NESO_ServerModelConfigSource(). Reads the file. */
struct error *server_model_config_source(struct server *s, const char *name, int64_t version,
                                         struct message **ret) NODISCARD;
/* Calls `visit` for each READY version, with no lock held. */
struct model_activity;
typedef void (*server_activity_fn)(const char *name, int64_t version, size_t n_instances,
                                   const struct model_activity *activity, void *userp);
struct error *server_visit_activity(struct server *s, server_activity_fn visit, void *userp)
        NODISCARD;
/* name "" = all models; version -1 = all READY versions. */
struct error *server_model_statistics(struct server *s, const char *name, int64_t version,
                                      struct message **ret) NODISCARD;
/* The live sequences of one model, also on its replaced or unloaded loads: at most a thousand, and the
 * number of those left out. version -1 = all. */
struct error *server_model_sequences(struct server *s, const char *name, int64_t version,
                                     struct message **ret) NODISCARD;
/* Call stacks of the processes that run a model's instances. UNSUPPORTED when the instances are not
 * processes. Takes seconds for a process that does not respond. */
struct error *server_model_stacks(struct server *s, const char *name, int64_t version,
                                  struct message **ret) NODISCARD;
/* The GPUs and their readings, which may take some milliseconds. */
struct error *server_gpus(struct server *s, struct message **ret) NODISCARD;
/* Reads what the metrics page shows of queues, instances and models at this moment. To be called before the
 * registry is printed, whose lock has a higher rank than theirs. */
void server_measure(struct server *s);

struct error *server_model_index(struct server *s, bool only_ready, struct message **ret) NODISCARD;

/* Limit of model names in requests: the limit of file systems. */
#define MODEL_NAME_MAX_BYTES 255

/* Mode EXPLICIT only, else UNAVAILABLE; see repo_load() and repo_unload(). Block until done. Loading
 * returns INVALID_ARG for an invalid name. `o` may be NULL. */
struct error *server_load_model(struct server *s, const char *name, const struct repo_override *o)
        NODISCARD;
struct error *server_unload_model(struct server *s, const char *name) NODISCARD;
/* Also unloads the models that were loaded only because this one needs them: repo_unload_with_needs(). */
struct error *server_unload_model_with_needs(struct server *s, const char *name,
                                             const struct load_permit *permit) NODISCARD;
/* Mode POLL only, else UNAVAILABLE; blocks until the changed models are loaded. */
struct error *server_poll(struct server *s) NODISCARD;
/* As server_poll(), but returns after the repositories were read; the models are loaded later. */
struct error *server_start_poll(struct server *s) NODISCARD;
/* Mode EXPLICIT only, else UNSUPPORTED; see repo_add_path() and repo_remove_path(). */
struct error *server_register_repository(struct server *s, const char *path,
                                         const struct repo_name *names, size_t n_names) NODISCARD;
struct error *server_unregister_repository(struct server *s, const char *path) NODISCARD;
