/* SPDX-License-Identifier: BSD-3-Clause */
/* All options of a server.
 *
 * Filled through TRITONSERVER_ServerOptionsSet... and read once, when the server is created. Log
 * settings are not included: they act on the process at once (base/log.h).
 *
 * Ownership.  Texts are copied; server_options_free() frees all. A server keeps no pointer into the
 * options.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/settings.h"
#include "gpu/gpu.h"
#include "options/option_row.h"
#include "sched/adaptive.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_ModelControlMode. */
enum model_control_mode {
        MODEL_CONTROL_NONE = 0,     /* loads every model at the start, changes nothing later */
        MODEL_CONTROL_POLL = 1,     /* follows the repositories */
        MODEL_CONTROL_EXPLICIT = 2, /* loads and unloads on request */
};

/* Values are those of TRITONSERVER_RateLimitMode. */
enum rate_limit_mode {
        RATE_LIMIT_OFF = 0,
        RATE_LIMIT_EXEC_COUNT = 1,
};

#define RATE_LIMIT_EACH_DEVICE (-1) /* the value of sched/rate_pool.h */

struct server;
typedef void (*server_start_fn)(struct server *s, void *userp);

struct rate_limit_resource {
        char  *name; /* owned */
        size_t count;
        int    device; /* or RATE_LIMIT_EACH_DEVICE */
};

struct cache_setting {
        char *name;        /* owned; "local" */
        char *config_json; /* owned; an object with string values */
};

struct server_options {
        /* The options of the library that have a row in options/option_rows.def: a member each, which
         * NESO_ServerOptionsSetByName() sets. */
#define OPTION(...)
#define CORE_OPTION(kind, member, ...) OPTION_TYPE_##kind member;
#include "options/option_rows.def"

        /* models */
        enum model_control_mode control_mode;
        bool                    strict_model_config; /* true: configurations are not completed */
        bool                    load_reasons; /* answers to load requests contain the reason */

        /* NULL, or called before models are loaded, and with NULL after it; see server_end_start() */
        server_start_fn on_start;
        void           *on_start_userp;

        /* memory and devices */
        uint64_t             memory_bytes; /* of requests; 0: byte_budget_default() */
        _Atomic size_t      *memory_used;  /* borrowed; NULL: a counter of the server's */
        struct gpu_bytes    *cuda_pools;   /* owned */
        size_t               n_cuda_pools;
        struct gpu_bytes    *cuda_virtual_sizes; /* owned */
        size_t               n_cuda_virtual_sizes;
        struct gpu_fraction *load_limits; /* owned */
        size_t               n_load_limits;
        struct settings      host_policies;

        /* scheduling */
        enum rate_limit_mode        rate_limit_mode;
        struct rate_limit_resource *rate_limit_resources; /* owned */
        size_t                      n_rate_limit_resources;

        /* plug-ins */
        char                 *backend_directory;   /* owned */
        char                 *repoagent_directory; /* owned */
        char                 *cache_directory;     /* owned */
        struct settings       backend_settings;
        struct cache_setting *caches; /* owned; at most one per name */
        size_t                n_caches;

        struct settings metrics_settings;
};

/* Returns options with the defaults of TRITONSERVER_ServerOptionsNew(). */
struct server_options *server_options_new(void);
void                   server_options_free(struct server_options *o); /* NULL is fine */

/* Sets the option of that name from text, as the command line does. INVALID_ARG names the option and
 * what is allowed. */
struct error *server_options_set(struct server_options *o, const char *name, const char *text)
        NODISCARD;

/* The adaptive batching of models without a setting of their own. */
enum adaptive_mode server_options_adaptive_mode(const struct server_options *o);

/* Each replaces the entry of the same device or cache, if there is one. */
void server_options_set_cuda_pool(struct server_options *o, int device, uint64_t bytes);
void server_options_set_cuda_virtual_size(struct server_options *o, int device, uint64_t bytes);
void server_options_set_load_limit(struct server_options *o, int device, double fraction);
void server_options_set_cache(struct server_options *o, const char *name, const char *config_json);

/* ALREADY_EXISTS when the resource has a count for this device. */
struct error *server_options_add_resource(struct server_options *o, const char *name, size_t count,
                                          int device) NODISCARD;
