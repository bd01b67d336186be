/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `neso bench`: their rows, and what their values mean.
 *
 * Ownership.  load_values are of the table (options/option_row.h); load_plan borrows their texts.
 */
#pragma once

#include "base/error.h"
#include "load/language.h"
#include "load/request_set.h"
#include "load/schedule.h"
#include "load/target.h"
#include "options/option_row.h"

#include <stdbool.h>
#include <stdint.h>

/* The values as they are given. */
struct load_values {
        char               *model, *version, *protocol, *url, *key;
        bool                is_streaming;
        uint64_t            batch;
        struct option_texts shapes, input_data;
        uint64_t            string_length, n_distinct, seed;
        char               *string, *data_directory;
        bool                is_zero;
        char               *input_format, *output_format, *shared_memory;
        uint64_t            output_region_bytes;
        char               *concurrency, *rate, *periodic;
        uint64_t            request_period;
        bool                is_language;
        char               *endpoint, *prompt_tokens, *prompts;
        uint64_t            output_tokens, prefix_tokens;
        bool                is_whole;
        char               *distribution, *intervals;
        bool                is_binary_search;
        uint64_t            latency_limit_ms;
        char               *window_mode;
        uint64_t            window_ms, window_requests, n_requests, n_warmup;
        double              stability;
        int64_t             max_trials;
        int64_t             percentile;
        uint64_t            n_sequences, sequence_length;
        double              sequence_variation;
        char               *sequence_ids;
        bool                is_serial;
        struct option_texts headers, parameters;
        char               *compression;
        bool                https_any; /* --insecure */
        int64_t             https_verify_peer, https_verify_host;
        char               *https_ca, *https_cert, *https_key;
        bool                grpc_tls;
        char               *grpc_ca, *grpc_cert, *grpc_key;
        char               *csv_path, *profile_path, *html_path;
        bool                has_verbose_csv;
        bool                collects_metrics;
        char               *metrics_url;
        uint64_t            metrics_ms;
        bool                is_verbose, is_extra_verbose;
        bool                is_async, is_sync, is_dynamic;
        int64_t             old_concurrency, old_max_concurrency, max_threads;
        char               *service_kind;
        struct option_texts limits;
        bool                is_json;
        int64_t             n_threads;
        uint64_t            n_connections;
        char               *old_pem_type, *old_key_type;
        char               *missing; /* of rows that are not supported; always NULL */
};

extern const struct option_table load_option_table;

/* A range s:e:step. e = 0: until the limit of latency. */
struct load_range {
        double start, end, step;
        bool   is_given;
};

enum fail_figure { FAIL_PERCENTILE, FAIL_MEAN, FAIL_MAX, FAIL_RATE, FAIL_ERRORS };

/* --fail-if 'p99>20ms' */
struct fail_limit {
        const char      *text;
        enum fail_figure figure;
        double           percent;
        bool             is_above; /* > */
        double           bound;    /* nanoseconds, a second, a number */
};

#define LOAD_MAX_LIMITS 16

/* A window that has ended. */
struct load_window {
        size_t number;     /* of the load, from 1 */
        double rate;       /* inferences a second */
        double latency_ns; /* the mean, or the percentile of the plan */
        double server_cpu; /* cores; below 0: not known */
};

struct load_plan {
        struct load_values   *v; /* borrowed */
        struct target_options target;
        bool              is_open, is_periodic; /* periodic: the load grows while it is measured */
        struct load_range range;
        uint64_t         *intervals_ns; /* owned */
        size_t            n_intervals;
        bool              is_poisson, counts_requests;
        enum language_endpoint endpoint; /* NONE: inference */
        double                 prompt_tokens, prompt_deviation;
        uint64_t               window_ns, first_id, n_ids;
        uint64_t               latency_limit_ns;
        struct fail_limit      limits[LOAD_MAX_LIMITS];
        size_t                 n_limits;
        struct strbuf          notes; /* owned: lines about options that are ignored */
        /* Called after each window; false ends the load. NULL: windows follow as the options say. */
        bool (*on_window)(void *owner, const struct load_window *w);
        void *owner; /* borrowed */
};

/* Checks the values and their combinations; INVALID_ARG names the option, UNSUPPORTED what is missing. */
struct error *load_plan_read(struct load_values *v, struct load_plan *ret) NODISCARD;
void          load_plan_done(struct load_plan *p);
/* True when answers of a language model come as streams. */
bool load_plan_has_streams(const struct load_plan *p);

struct error *load_range_read(const char *option, const char *text, struct load_range *ret)
        NODISCARD;
struct error *fail_limit_read(const char *text, struct fail_limit *ret) NODISCARD;
