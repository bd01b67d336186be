/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of the command line after parsing, with their defaults.
 *
 * Ownership.  Texts point into argv or are static; lists own their arrays.
 * Threads.  The main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_texts {
        const char **items; /* owned array; the texts are argv's */
        size_t       n_items;
};

/* A text is "" when its option was not given. */
struct cli_tls {
        bool        use_ssl;
        bool        use_ssl_mutual; /* implies use_ssl */
        const char *server_cert, *server_key, *root_cert;
};

struct cli_options {
        /* help and logging */
        bool        help;
        const char *log_verbose; /* a number, or true/false */
        bool        log_info, log_warning, log_error;
        const char *log_format;
        const char *log_file;

        /* server and models */
        const char      *id;
        int64_t          exit_timeout_secs;
        struct cli_texts model_repository;
        bool             exit_on_error;
        bool             disable_auto_complete;
        bool             strict_model_config;
        bool             strict_readiness;
        const char      *api_key_file; /* NULL = no API keys are required */
        struct cli_texts in_flight_limit;
        int64_t          memory_budget_bytes; /* 0 = a quarter of the memory that the process may
                                               * use */
        const char      *model_control_mode;
        int64_t          poll_secs;
        struct cli_texts load_model;
        const char      *model_config_name;
        int64_t          model_load_threads;
        int64_t          model_load_retries;
        bool             model_namespacing;
        const char      *backend_directory;
        struct cli_texts backend_config;
        struct cli_texts host_policy;
        const char      *repoagent_directory;
        struct cli_texts cache_config;
        const char      *cache_directory;
        const char      *rate_limit;
        const char      *adaptive_batching;
        const char      *scheduler;
        const char      *scheduler_directory;
        struct cli_texts rate_limit_resource;
        struct cli_texts cuda_pool_bytes; /* these three: for GPUs, which this build has none of */
        struct cli_texts cuda_virtual_bytes;
        struct cli_texts model_load_gpu_limit;
        int64_t          cache_bytes; /* of the older option; -1 = not given */
        int64_t          pinned_pool_bytes;
        int64_t          buffer_manager_threads;
        bool             peer_access;
        double           min_compute_capability;

        /* HTTP */
        bool             allow_http;
        const char      *http_address;
        int64_t          http_port;
        bool             reuse_http_port;
        const char      *http_header_forward_pattern;
        int64_t          http_threads;
        int64_t          http_max_input_bytes;
        struct cli_texts http_restricted_api;
        int64_t          http_max_connections;
        int64_t          http_max_connections_per_address; /* or CLI_CONNECTIONS_SHARE; 0 = any number */
        int64_t          http_max_header_bytes;
        int64_t          http_max_header_fields;
        int64_t          http_header_timeout_ms;
        int64_t          http_idle_timeout_ms;
        int64_t          http_min_body_rate;
        int64_t          http_min_answer_rate;
        struct cli_tls   http_tls;

        /* GRPC */
        bool             allow_grpc;
        const char      *grpc_address;
        int64_t          grpc_port;
        bool             reuse_grpc_port;
        const char      *grpc_header_forward_pattern;
        int64_t          grpc_threads;
        int64_t          grpc_allocation_pool;
        int64_t          grpc_max_responses;
        const char      *grpc_compression;
        int64_t          grpc_keepalive_ms;
        int64_t          grpc_keepalive_timeout_ms;
        bool             grpc_keepalive_without_calls;
        int64_t          grpc_max_pings;
        int64_t          grpc_ping_interval_ms;
        int64_t          grpc_max_ping_strikes;
        int64_t          grpc_max_age_ms;       /* 0 = unlimited */
        int64_t          grpc_max_age_grace_ms; /* 0 = unlimited */
        struct cli_texts grpc_restricted_protocol;
        int64_t          grpc_max_message_bytes;
        int64_t          grpc_max_decompressed_bytes;
        int64_t          grpc_max_connections;
        int64_t          grpc_max_connections_per_address; /* or CLI_CONNECTIONS_SHARE; 0 = any number */
        int64_t          grpc_max_streams;
        int64_t          grpc_max_header_bytes;
        int64_t          grpc_max_header_fields;
        int64_t          grpc_header_timeout_ms;
        int64_t          grpc_min_message_rate;
        int64_t          grpc_min_answer_rate;
        struct cli_tls   grpc_tls;

        /* metrics */
        bool             allow_metrics, allow_gpu_metrics, allow_cpu_metrics;
        const char      *metrics_address; /* NULL = the HTTP address */
        int64_t          metrics_port;
        double           metrics_interval_ms;
        struct cli_texts metrics_config;
        struct cli_tls   metrics_tls; /* without a certificate, that of HTTP is used */

        /* permissions of clients */
        bool allow_client_shm;
        bool allow_uploaded_backends;

        /* chains */
        bool chain_strict_unload;

        /* traces; the older forms are -2 or NULL when they were not given */
        struct cli_texts trace_config;
        const char      *trace_file;
        struct cli_texts trace_level;
        int64_t          trace_rate;
        int64_t          trace_count;
        int64_t          trace_log_frequency;
};

/* --*-max-connections-per-address when it was not given: a part, so that no address takes all. */
#define CLI_CONNECTIONS_SHARE (-1)

/* The limit of an address; 0 = none. */
static inline size_t cli_connections_per_address(int64_t wished, int64_t connections) {
        if (wished != CLI_CONNECTIONS_SHARE)
                return (size_t)wished;
        return (size_t)(connections - connections / 4);
}

void cli_options_init(struct cli_options *o); /* defaults */
void cli_options_done(struct cli_options *o);
