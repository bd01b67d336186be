/* SPDX-License-Identifier: BSD-3-Clause */
/* What is traced: for all models, and for single ones. And the count of which request is next.
 *
 * A setting of a model that is not set falls back to the global one, and that to the command line.
 * A *source* is such a set of values in force, with its own counts: every rate-th request is
 * sampled, `count` of them at most. Models without settings of their own share the global source.
 * A change makes a new source, so counting starts again.
 *
 * Ownership.  The settings hold each source in force, and each record the source it came from.
 * Threads.  Any; a mutex (rank LOCK_MAILBOX) guards the settings. While nothing is traced a request
 * pays one atomic load.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/ref.h"
#include "base/str.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_CONFIG_MAX_RESOURCES 64

enum trace_mode { TRACE_MODE_TRITON, TRACE_MODE_OPENTELEMETRY };

struct trace_values {
        uint32_t level; /* of TRITONSERVER_InferenceTraceLevel, or'ed; 0 = OFF */
        uint32_t rate;
        int32_t  count; /* -1 = unlimited */
        uint32_t log_frequency;
};

/* What the command line says about traces, after parsing. Texts are borrowed: they live as long as
 * the tracer. */
struct trace_config {
        enum trace_mode     mode;
        struct trace_values values;
        const char         *file; /* mode triton; "" = none */
        /* mode opentelemetry */
        const char *url;
        const char *resources[TRACE_CONFIG_MAX_RESOURCES]; /* "key=value" */
        size_t      n_resources;
        uint32_t    bsp_max_queue_size;
        uint32_t    bsp_schedule_delay_ms;
        uint32_t    bsp_max_export_batch_size;
};

/* The defaults. */
void trace_config_init(struct trace_config *c);

enum trace_setting {
        TRACE_SETTING_LEVEL,
        TRACE_SETTING_RATE,
        TRACE_SETTING_COUNT,
        TRACE_SETTING_LOG_FREQUENCY,
        N_TRACE_SETTINGS,
};

/* A client's wish: what it does not name stays, what it clears falls back. */
enum trace_action { TRACE_KEEP, TRACE_CLEAR, TRACE_SET };

struct trace_change {
        struct trace_values values;
        enum trace_action   actions[N_TRACE_SETTINGS];
};

struct trace_source {
        struct ref          ref;
        struct trace_values values;

        uint64_t n_seen; /* guarded by the settings' lock, as is n_left */
        int64_t  n_left; /* of the count; -1 = unlimited */

        _Atomic uint64_t n_sampled;
        _Atomic uint64_t n_dropped;  /* of the sampled: never come to the writer */
        _Atomic bool     is_used_up; /* the count has reached 0 */
        _Atomic bool     is_retired; /* replaced: nothing is sampled any more */
};

void trace_source_ref(struct trace_source *source);
void trace_source_unref(struct trace_source *source); /* NULL is fine */

struct trace_settings {
        struct trace_config config; /* constant; its texts are borrowed */
        _Atomic bool        is_on;  /* something is traced, perhaps */

        struct mutex         lock;
        struct trace_values  global; /* those of `global_is_set` */
        bool                 global_is_set[N_TRACE_SETTINGS];
        struct trace_source *source; /* ref: for all models without one */
        struct map           models; /* struct model_settings, owned */
};

/* INVALID_ARG "Attempting to set invalid trace setting :<reason>" for values that cannot be; init()
 * says the same. */
struct error *trace_settings_check(const struct trace_config *config) NODISCARD;
struct error *trace_settings_init(struct trace_settings *s, const struct trace_config *config)
        NODISCARD;
void trace_settings_done(struct trace_settings *s);

/* `model` NULL = the global ones. Nothing changes on error. */
struct error *trace_settings_change(struct trace_settings *s, const char *model,
                                    const struct trace_change *change) NODISCARD;

enum trace_choice {
        TRACE_BY_RATE,
        TRACE_ALWAYS, /* the client records the trace that this request belongs to */
        TRACE_NEVER,  /* the client has decided not to */
};

/* For a request of that model that is to be traced: its source, referenced. Else NULL. */
struct trace_source *trace_settings_sample(struct trace_settings *s, const char *model,
                                           enum trace_choice choice);

/* One setting as clients are told it. */
struct trace_report_row {
        const char *key;       /* in arena, or static */
        const char *values[2]; /* the same; only a level may have two */
        size_t      n_values;
        bool        is_list;
};

#define TRACE_REPORT_MAX_ROWS 12

/* Those in force; returns how many rows there are. */
size_t trace_settings_report(struct trace_settings *s, const char *model, struct arena *arena,
                             struct trace_report_row rows[TRACE_REPORT_MAX_ROWS]);

/* ---- what clients write ---- */

/* Adds one level's name to *ret; `n_names` is how many the list has. Unknown names say nothing.
 * INVALID_ARG "Expect only one trace level 'OFF' is specified". */
struct error *trace_level_read(struct str name, size_t n_names, uint32_t *ret) NODISCARD;

/* `trace_rate`, `trace_count`, `log_frequency`: the number of a setting, or the text that says why it
 * is none. `blank` goes before the value where a count is too small: over gRPC there is one. */
struct error *trace_number_read(enum trace_setting setting, struct str text, const char *blank,
                                struct trace_values *ret) NODISCARD;
/* The setting that is called so by clients; N_TRACE_SETTINGS when there is none. */
enum trace_setting trace_setting_find(struct str key);
/* UNSUPPORTED "trace file location can not be updated through network protocol". */
struct error *trace_settings_refuse_file(void) NODISCARD;
