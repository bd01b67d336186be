/* SPDX-License-Identifier: BSD-3-Clause */
/* The object that owns everything in the core: TRITONSERVER_Server.
 *
 *     INITIALIZING -> READY -> EXITING -> (freed)
 *                '--> FAILED ----^
 *
 * FAILED: the server was to go on although it could read no repository. It says who it is and that it
 * is neither live nor ready; anything about models is refused.
 *
 * Ownership.  Owns the repository, the backends, metrics, timers; freed in the reverse order of
 * their creation. Threads.  Any, but for server_new(), server_stop() and server_free().
 */
#pragma once

#include "base/error.h"
#include "base/event_source.h"
#include "infer/message.h"
#include "server/server_options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct agent_registry;
struct backend_registry;
struct core_metrics;
struct host_policies;
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
        struct event_source      ready;   /* told when server, model or version changed its state */
        struct metric_registry  *metrics; /* owned */
        struct core_metrics     *core;    /* owned; CPU, memory pool, refusals */
        struct model_metrics    *board;   /* owned */
        struct timer_thread     *timers;  /* owned */
        struct response_cache   *cache;   /* owned; NULL = none */
        struct rate_limiter     *limiter; /* owned; NULL: executions are not limited */
        struct backend_registry *backends;            /* owned */
        struct host_policies    *policies;            /* owned; NULL = none */
        struct agent_registry   *agents;              /* owned; of repositories */
        char                    *scheduler;           /* owned; of models that do not say */
        char                    *scheduler_directory; /* owned */
        struct reaper           *reaper;              /* owned */
        struct repo             *repo;                /* owned */
};

/* Blocks until the models are loaded. With exit_on_error, a model that failed is an error: INTERNAL
 * "failed to load all models"; without it a server that can read no repository is FAILED. */
struct error *server_new(const struct server_options *options, struct server **ret) NODISCARD;
/* Refuses new requests and sequences, waits for those in flight up to the exit timeout, unloads all
 * models. Live sequences go on until they end, or the exit timeout is nearly over. INTERNAL "Exit
 * timeout expired. Exiting immediately." when it took longer. */
struct error *server_stop(struct server *s) NODISCARD;
void          server_free(struct server *s);

bool server_is_live(const struct server *s);
bool server_is_ready(struct server *s);
/* UNAVAILABLE "Server not ready" before and after the server's life, and when it is FAILED. */
struct error *server_check_serving(const struct server *s) NODISCARD;
/* The same for what is answered while the server exits, too: refused when it is FAILED alone. */
struct error *server_check_started(const struct server *s) NODISCARD;

/* A request against its model, then to its scheduler. The caller keeps it on error. While the server
 * exits, only requests of live sequences are taken. */
struct error *server_infer(struct server *s, struct request *req) NODISCARD;
/* The same with a trace, which is taken whatever happens: on error it is released at once. Only
 * one that another inference holds is left alone. */
struct error *server_infer_traced(struct server *s, struct request *req, struct trace *t) NODISCARD;

/* Static, for when the memory of the process is used up. */
struct error *server_no_memory(void);

/* A new reference. UNAVAILABLE "Server not ready" before and after the server's life. */
struct error *server_get_model(struct server *s, const char *name, int64_t version,
                               struct model **ret) NODISCARD;
/* The same for a request, which may be the next one of a live sequence: see repo_get_for_request().
 * While the server exits, of models with sequences only. */
struct error *server_get_model_for_request(struct server *s, const char *name, int64_t version,
                                           struct model **ret) NODISCARD;

/* JSON for the management protocols; *ret is the caller's. version -1 = the latest. */
struct error *server_metadata(struct server *s, struct message **ret) NODISCARD;
struct error *server_model_metadata(struct server *s, const char *name, int64_t version,
                                    struct message **ret) NODISCARD;
struct error *server_model_config(struct server *s, const char *name, int64_t version,
                                  uint32_t config_version, struct message **ret) NODISCARD;
/* name "" = all models. */
struct error *server_model_statistics(struct server *s, const char *name, int64_t version,
                                      struct message **ret) NODISCARD;
/* The live sequences of one model, also of loads that were replaced or unloaded; a thousand at most,
 * and how many were left out. */
struct error *server_model_sequences(struct server *s, const char *name, int64_t version,
                                     struct message **ret) NODISCARD;
/* The stacks of the processes that are a model's instances. UNSUPPORTED when they are none. Takes seconds
 * for a process that does not answer. */
struct error *server_model_stacks(struct server *s, const char *name, int64_t version,
                                  struct message **ret) NODISCARD;
struct error *server_model_index(struct server *s, bool only_ready, struct message **ret) NODISCARD;

/* Names of models in requests: what file systems take. */
#define MODEL_NAME_MAX_BYTES 255

/* Mode EXPLICIT only, else UNAVAILABLE; see repo_load() and repo_unload(). Loading answers INVALID_ARG
 * for a name that is none. `o` may be NULL. Block until it is done. */
struct error *server_load_model(struct server *s, const char *name, const struct repo_override *o)
        NODISCARD;
struct error *server_unload_model(struct server *s, const char *name) NODISCARD;
/* And what was loaded for it alone: repo_unload_with_needs(). */
struct error *server_unload_model_with_needs(struct server *s, const char *name) NODISCARD;
/* Mode POLL only, else UNAVAILABLE; blocks until what changed is loaded. */
struct error *server_poll(struct server *s) NODISCARD;
/* The same, and returns when it has looked. */
struct error *server_start_poll(struct server *s) NODISCARD;
/* Mode EXPLICIT only, else UNSUPPORTED; see repo_add_path() and repo_remove_path(). */
struct error *server_register_repository(struct server *s, const char *path,
                                         const struct repo_name *names, size_t n_names) NODISCARD;
struct error *server_unregister_repository(struct server *s, const char *path) NODISCARD;
