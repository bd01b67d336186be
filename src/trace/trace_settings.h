/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of traces, global ones and those of single models, and the choice of the requests
 * that are traced.
 *
 * A setting that a model does not set has the global value. A global setting that is not set has
 * the value of the command line. A *source* is such a set of values in force with its own counts:
 * it samples every rate-th request, and at most `count` of them. Models without settings of their
 * own share the global source. A change makes a new source, so counting starts again.
 *
 * Ownership.  The settings hold each source in force. Each record holds the source from which it
 * came.
 * Threads.  Any. A mutex (rank LOCK_LEAF) guards the settings. While nothing is traced, a
 * request costs one atomic load.
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
        uint32_t level; /* flags of TRITONSERVER_InferenceTraceLevel; 0 = OFF */
        uint32_t rate;
        int32_t  count; /* -1 = unlimited */
        uint32_t log_frequency;
};

/* The trace options of the command line, after parsing. Texts are borrowed; they live as long as
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

/* Sets the defaults. */
void trace_config_init(struct trace_config *c);

enum trace_setting {
        TRACE_SETTING_LEVEL,
        TRACE_SETTING_RATE,
        TRACE_SETTING_COUNT,
        TRACE_SETTING_LOG_FREQUENCY,
        N_TRACE_SETTINGS,
};

/* What a change does to a setting: leave it, clear it (it falls back), or set it. */
enum trace_action { TRACE_KEEP, TRACE_CLEAR, TRACE_SET };

struct trace_change {
        struct trace_values values;
        enum trace_action   actions[N_TRACE_SETTINGS];
};

struct trace_source {
        struct ref          ref;
        struct trace_values values;

        uint64_t n_seen; /* guarded by the settings' lock, as is n_left */
        int64_t  n_left; /* rest of the count; -1 = unlimited */

        _Atomic uint64_t n_sampled;
        _Atomic uint64_t n_dropped;  /* sampled, but never passed to the writer */
        _Atomic bool     is_used_up; /* the count has reached 0 */
        _Atomic bool     is_retired; /* replaced: samples no more requests */
};

void trace_source_ref(struct trace_source *source);
void trace_source_unref(struct trace_source *source); /* NULL is fine */

struct trace_settings {
        struct trace_config config; /* constant; its texts are borrowed */
        _Atomic bool        is_on;  /* false: no request is traced */

        struct mutex         lock;
        struct trace_values  global; /* valid where `global_is_set` */
        bool                 global_is_set[N_TRACE_SETTINGS];
        struct trace_source *source;     /* ref: for all models without a source of their own */
        struct map           models;     /* struct model_settings, owned */
        size_t               max_models; /* see trace_settings_are_many() */
};

/* INVALID_ARG "Attempting to set invalid trace setting :<reason>" for invalid values.
 * trace_settings_init() returns the same error. */
struct error *trace_settings_check(const struct trace_config *config) NODISCARD;
struct error *trace_settings_init(struct trace_settings *s, const struct trace_config *config)
        NODISCARD;
void trace_settings_done(struct trace_settings *s);

/* Changes the settings of a model, or with `model` NULL the global ones. Nothing changes on
 * error. */
struct error *trace_settings_change(struct trace_settings *s, const char *model,
                                    const struct trace_change *change) NODISCARD;

/* The settings of a model stay when it is unloaded, so that they hold again after the next load. Clients that may load
 * models under any name could add settings without end: when so many models have some that it is time, those of
 * models that are gone are to be forgotten. */
#define TRACE_SETTINGS_MANY 1024
bool trace_settings_are_many(struct trace_settings *s);
/* Drops the settings of the models for which `is_there` returns false; called without a lock. They are many again when
 * there are twice as many as now, so a forgetting costs little for each change. */
typedef bool (*trace_model_fn)(void *owner, const char *model);
void trace_settings_forget(struct trace_settings *s, trace_model_fn is_there, void *owner);

enum trace_choice {
        TRACE_BY_RATE,
        TRACE_ALWAYS, /* the client records the trace of this request */
        TRACE_NEVER,  /* the client does not record it */
};

/* Returns the source of the request, a new reference, when the request is to be traced; else
 * NULL. */
struct trace_source *trace_settings_sample(struct trace_settings *s, const char *model,
                                           enum trace_choice choice);

/* One setting in the form that clients read. */
struct trace_report_row {
        const char *key;       /* in arena or static */
        const char *values[2]; /* in arena or static; only a level may have two */
        size_t      n_values;
        bool        is_list;
};

#define TRACE_REPORT_MAX_ROWS 12

/* Reports the settings in force; returns the number of rows. */
size_t trace_settings_report(struct trace_settings *s, const char *model, struct arena *arena,
                             struct trace_report_row rows[TRACE_REPORT_MAX_ROWS]);

/* ---- what clients write ---- */

/* Adds the level of that name to *ret. `n_names` is the length of the list. Unknown names are
 * ignored. INVALID_ARG "Expect only one trace level 'OFF' is specified". */
struct error *trace_level_read(struct str name, size_t n_names, uint32_t *ret) NODISCARD;

/* Reads the number of `trace_rate`, `trace_count` or `log_frequency`, or returns an error that says
 * why the text is no such number. `blank` is put before the value in the message for a count that
 * is too small: a blank over gRPC. */
struct error *trace_number_read(enum trace_setting setting, struct str text, const char *blank,
                                struct trace_values *ret) NODISCARD;
/* Returns the setting that clients call by this name; N_TRACE_SETTINGS when there is none. */
enum trace_setting trace_setting_find(struct str key);
/* UNSUPPORTED "trace file location can not be updated through network protocol". */
struct error *trace_settings_refuse_file(void) NODISCARD;
