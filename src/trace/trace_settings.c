/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_settings.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <stdio.h>

/* A model's own settings. */
struct model_settings {
        struct trace_values  values; /* valid where `is_set` */
        bool                 is_set[N_TRACE_SETTINGS];
        struct trace_source *source; /* ref */
};

void trace_config_init(struct trace_config *c) {
        *c = (struct trace_config){
                .mode = TRACE_MODE_TRITON,
                .values = { .rate = 1000, .count = -1 },
                .file = "",
                .url = "http://localhost:4318/v1/traces",
                .bsp_max_queue_size = 2048,
                .bsp_schedule_delay_ms = 5000,
                .bsp_max_export_batch_size = 512,
        };
}

/* ---- sources --------------------------------------------------------------------------------- */

static struct trace_source *source_new(const struct trace_values *values) {
        struct trace_source *source = mem_zalloc(sizeof(*source));

        ref_init(&source->ref);
        source->values = *values;
        source->n_left = values->count;
        atomic_init(&source->is_used_up, values->count == 0);
        return source;
}

void trace_source_ref(struct trace_source *source) {
        ref_get(&source->ref);
}

void trace_source_unref(struct trace_source *source) {
        if (source != NULL && ref_put(&source->ref))
                free(source);
}

static void replace_source(struct trace_source **place, const struct trace_values *values) {
        struct trace_source *old = *place;

        *place = source_new(values);
        if (old == NULL)
                return;
        atomic_store(&old->is_retired, true);
        trace_source_unref(old);
}

/* ---- the values in force --------------------------------------------------------------------- */

static void copy_value(struct trace_values *to, const struct trace_values *from,
                       enum trace_setting setting) {
        switch (setting) {
        case TRACE_SETTING_LEVEL: to->level = from->level; break;
        case TRACE_SETTING_RATE: to->rate = from->rate; break;
        case TRACE_SETTING_COUNT: to->count = from->count; break;
        case TRACE_SETTING_LOG_FREQUENCY: to->log_frequency = from->log_frequency; break;
        case N_TRACE_SETTINGS: break;
        }
}

static void apply_set(struct trace_values *base, const struct trace_values *values,
                      const bool *is_set) {
        for (int i = 0; i < N_TRACE_SETTINGS; i++)
                if (is_set[i])
                        copy_value(base, values, (enum trace_setting)i);
}

static void apply_change(struct trace_values *values, bool *is_set,
                         const struct trace_change *change) {
        for (int i = 0; i < N_TRACE_SETTINGS; i++) {
                if (change->actions[i] == TRACE_KEEP)
                        continue;
                is_set[i] = change->actions[i] == TRACE_SET;
                copy_value(values, &change->values, (enum trace_setting)i);
        }
}

static bool has_any(const bool *is_set) {
        for (int i = 0; i < N_TRACE_SETTINGS; i++)
                if (is_set[i])
                        return true;
        return false;
}

static struct error *check_values(const struct trace_config *c, const struct trace_values *v) {
        const char *reason = NULL;

        if (v->level == TRITONSERVER_TRACE_LEVEL_DISABLED)
                return NULL;
        if (v->rate == 0)
                reason = "sample rate must be non-zero";
        else if (c->mode == TRACE_MODE_TRITON && *c->file == '\0')
                reason = "trace file name is not given (--trace-config=triton,file=<path>)";
        if (reason == NULL)
                return NULL;
        return error_new(ERR_INVALID_ARG, "Attempting to set invalid trace setting :%s", reason);
}

static struct error *check_global(const struct trace_settings *s, const struct trace_values *v) {
        return check_values(&s->config, v);
}

struct error *trace_settings_check(const struct trace_config *config) {
        return check_values(config, &config->values);
}

/* Spans consist of points in time, so tensors alone make no span. */
static bool is_traced(const struct trace_settings *s, const struct trace_source *source) {
        if (s->config.mode == TRACE_MODE_OPENTELEMETRY)
                return (source->values.level & TRITONSERVER_TRACE_LEVEL_TIMESTAMPS) != 0;
        return source->values.level != TRITONSERVER_TRACE_LEVEL_DISABLED;
}

static void update_is_on_locked(struct trace_settings *s) {
        bool is_on = is_traced(s, s->source);

        MAP_FOR_EACH(&s->models, e)
                is_on = is_on || is_traced(s, ((struct model_settings *)e->value)->source);
        atomic_store(&s->is_on, is_on);
}

struct error *trace_settings_init(struct trace_settings *s, const struct trace_config *config) {
        s->config = *config;
        s->global = config->values;
        memset(s->global_is_set, 0, sizeof(s->global_is_set));
        s->source = source_new(&config->values);
        atomic_init(&s->is_on, is_traced(s, s->source));
        mutex_init(&s->lock, LOCK_LEAF);
        map_init(&s->models);
        s->max_models = TRACE_SETTINGS_MANY;
        return check_global(s, &config->values);
}

static void free_model(struct model_settings *m) {
        atomic_store(&m->source->is_retired, true);
        trace_source_unref(m->source);
        free(m);
}

void trace_settings_done(struct trace_settings *s) {
        MAP_FOR_EACH(&s->models, e)
                free_model(e->value);
        map_done(&s->models);
        trace_source_unref(s->source);
        mutex_done(&s->lock);
}

/* ---- changes --------------------------------------------------------------------------------- */

static struct error *change_model_locked(struct trace_settings *s, const char *model,
                                         const struct trace_change *change) {
        struct model_settings *m = map_find(&s->models, str_of(model));
        struct model_settings  next = m != NULL ? *m : (struct model_settings){ 0 };
        struct trace_values    in_force = s->config.values;

        apply_change(&next.values, next.is_set, change);
        apply_set(&in_force, &s->global, s->global_is_set);
        apply_set(&in_force, &next.values, next.is_set);
        TRY(check_global(s, &in_force));
        if (!has_any(next.is_set)) {
                if (m != NULL)
                        free_model(map_remove(&s->models, str_of(model)));
                return NULL;
        }
        if (m == NULL) {
                m = mem_alloc(sizeof(*m));
                map_set(&s->models, str_of(model), m);
        }
        *m = next;
        replace_source(&m->source, &in_force);
        return NULL;
}

/* Returns the values of a model: its own ones, else those of `base`. */
static struct trace_values values_of(const struct model_settings *m, struct trace_values base) {
        apply_set(&base, &m->values, m->is_set);
        return base;
}

static bool is_same(const struct trace_values *a, const struct trace_values *b) {
        return a->level == b->level && a->rate == b->rate && a->count == b->count &&
               a->log_frequency == b->log_frequency;
}

static struct error *change_global_locked(struct trace_settings     *s,
                                          const struct trace_change *change) {
        struct trace_values global = s->global, in_force = s->config.values;
        bool                is_set[N_TRACE_SETTINGS];

        memcpy(is_set, s->global_is_set, sizeof(is_set));
        apply_change(&global, is_set, change);
        apply_set(&in_force, &global, is_set);
        TRY(check_global(s, &in_force));
        MAP_FOR_EACH(&s->models, e) {
                struct trace_values v = values_of(e->value, in_force);

                TRY(check_global(s, &v));
        }

        s->global = global;
        memcpy(s->global_is_set, is_set, sizeof(is_set));
        replace_source(&s->source, &in_force);
        MAP_FOR_EACH(&s->models, e) {
                struct model_settings *m = e->value;
                struct trace_values    v = values_of(m, in_force);

                if (!is_same(&v, &m->source->values))
                        replace_source(&m->source, &v);
        }
        return NULL;
}

struct error *trace_settings_change(struct trace_settings *s, const char *model,
                                    const struct trace_change *change) {
        MUTEX_GUARD(&s->lock);

        TRY(model != NULL ? change_model_locked(s, model, change)
                          : change_global_locked(s, change));
        update_is_on_locked(s);
        return NULL;
}

/* ---- models that are gone -------------------------------------------------------------------- */

bool trace_settings_are_many(struct trace_settings *s) {
        MUTEX_GUARD(&s->lock);

        return map_size(&s->models) >= s->max_models;
}

/* Copies the names; the caller owns *ret and its texts. */
static size_t list_models(struct trace_settings *s, char ***ret) {
        size_t n = 0;

        MUTEX_GUARD(&s->lock);
        *ret = mem_zalloc((map_size(&s->models) + 1) * sizeof(char *));
        MAP_FOR_EACH(&s->models, e)
                (*ret)[n++] = mem_strndup(e->key, e->key_len);
        return n;
}

static void forget_model(struct trace_settings *s, const char *model) {
        struct model_settings *m;

        MUTEX_GUARD(&s->lock);
        m = map_remove(&s->models, str_of(model));
        if (m != NULL)
                free_model(m);
}

void trace_settings_forget(struct trace_settings *s, trace_model_fn is_there, void *owner) {
        char **models;
        size_t n = list_models(s, &models);

        for (size_t i = 0; i < n; i++) {
                if (!is_there(owner, models[i]))
                        forget_model(s, models[i]);
                free(models[i]);
        }
        free(models);
        MUTEX_GUARD(&s->lock);
        s->max_models = MAX((size_t)TRACE_SETTINGS_MANY, 2 * map_size(&s->models));
        update_is_on_locked(s);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static struct trace_source *find_source_locked(struct trace_settings *s, const char *model) {
        const struct model_settings *m = model != NULL ? map_find(&s->models, str_of(model)) : NULL;

        return m != NULL ? m->source : s->source;
}

struct trace_source *trace_settings_sample(struct trace_settings *s, const char *model,
                                           enum trace_choice choice) {
        struct trace_source *source;

        if (!atomic_load_explicit(&s->is_on, memory_order_relaxed) || choice == TRACE_NEVER)
                return NULL;

        MUTEX_GUARD(&s->lock);
        source = find_source_locked(s, model);
        if (!is_traced(s, source) || source->n_left == 0)
                return NULL;
        if (choice == TRACE_BY_RATE && ++source->n_seen % source->values.rate != 0)
                return NULL;
        atomic_fetch_add(&source->n_sampled, 1);
        if (source->n_left > 0 && --source->n_left == 0)
                atomic_store(&source->is_used_up, true);
        trace_source_ref(source);
        return source;
}

/* ---- the report for clients
 * ------------------------------------------------------------------- */

static struct trace_report_row *add_row(struct trace_report_row *rows, size_t *n, const char *key,
                                        const char *value) {
        struct trace_report_row *row = &rows[(*n)++];

        *row = (struct trace_report_row){ .key = key, .values = { value }, .n_values = 1 };
        return row;
}

static const char *print_number(struct arena *arena, int64_t value) {
        char text[24]; /* an int64_t and the NUL */

        snprintf(text, sizeof(text), "%" PRId64, value);
        return arena_strdup(arena, text);
}

static void add_level(struct trace_report_row *rows, size_t *n, uint32_t level) {
        struct trace_report_row *row = add_row(rows, n, "trace_level", "OFF");

        row->is_list = true;
        row->n_values = 0;
        if ((level & TRITONSERVER_TRACE_LEVEL_TIMESTAMPS) != 0)
                row->values[row->n_values++] = "TIMESTAMPS";
        if ((level & TRITONSERVER_TRACE_LEVEL_TENSORS) != 0)
                row->values[row->n_values++] = "TENSORS";
        if (row->n_values == 0)
                row->n_values = 1;
}

/* Returns all resources as one text, separated by commas. */
static const char *join_resources(const struct trace_config *c, struct arena *arena) {
        AUTO_STRBUF text = { 0 };
        size_t      bytes = 0;

        for (size_t i = 0; i < c->n_resources; i++)
                bytes += strlen(c->resources[i]) + strlen(",");
        strbuf_need(&text, bytes);
        for (size_t i = 0; i < c->n_resources; i++)
                strbuf_printf(&text, "%s%s", i > 0 ? "," : "", c->resources[i]);
        return arena_strdup(arena, strbuf_cstr(&text));
}

size_t trace_settings_report(struct trace_settings *s, const char *model, struct arena *arena,
                             struct trace_report_row rows[TRACE_REPORT_MAX_ROWS]) {
        const struct trace_config *c = &s->config;
        struct trace_values        v;
        size_t                     n = 0;

        mutex_lock(&s->lock);
        const struct trace_source *source = find_source_locked(s, model);

        v = source->values;
        v.count = (int32_t)source->n_left;
        mutex_unlock(&s->lock);

        add_level(rows, &n, v.level);
        add_row(rows, &n, "trace_rate", print_number(arena, v.rate));
        add_row(rows, &n, "trace_count", print_number(arena, v.count));
        if (c->mode == TRACE_MODE_TRITON) {
                add_row(rows, &n, "log_frequency", print_number(arena, v.log_frequency));
                add_row(rows, &n, "trace_file", c->file);
                add_row(rows, &n, "trace_mode", "triton");
                return n;
        }
        add_row(rows, &n, "trace_mode", "opentelemetry");
        add_row(rows, &n, "url", c->url);
        if (c->n_resources > 0)
                add_row(rows, &n, "resource", join_resources(c, arena));
        add_row(rows, &n, "bsp_max_queue_size", print_number(arena, c->bsp_max_queue_size));
        add_row(rows, &n, "bsp_schedule_delay", print_number(arena, c->bsp_schedule_delay_ms));
        add_row(rows, &n, "bsp_max_export_batch_size",
                print_number(arena, c->bsp_max_export_batch_size));
        return n;
}

/* ---- what clients write ---------------------------------------------------------------------- */

static const char *const setting_names[N_TRACE_SETTINGS] = {
        [TRACE_SETTING_LEVEL] = "trace_level",
        [TRACE_SETTING_RATE] = "trace_rate",
        [TRACE_SETTING_COUNT] = "trace_count",
        [TRACE_SETTING_LOG_FREQUENCY] = "log_frequency",
};

enum trace_setting trace_setting_find(struct str key) {
        for (int i = 0; i < N_TRACE_SETTINGS; i++)
                if (str_is(key, setting_names[i]))
                        return (enum trace_setting)i;
        return N_TRACE_SETTINGS;
}

struct error *trace_settings_refuse_file(void) {
        return error_new_text(ERR_UNSUPPORTED, "trace file location can not be updated "
                                               "through network protocol");
}

struct error *trace_level_read(struct str name, size_t n_names, uint32_t *ret) {
        if (str_is(name, "OFF") && n_names > 1)
                return error_new_text(ERR_INVALID_ARG,
                                      "Expect only one trace level 'OFF' is specified");
        if (str_is(name, "TIMESTAMPS"))
                *ret |= TRITONSERVER_TRACE_LEVEL_TIMESTAMPS;
        else if (str_is(name, "TENSORS"))
                *ret |= TRITONSERVER_TRACE_LEVEL_TENSORS;
        return NULL;
}

/* True for digits, with or without a sign. */
static bool is_number(struct str s) {
        if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+'))
                s = str_skip(s, 1);
        for (size_t i = 0; i < s.len; i++)
                if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return false;
        return s.len > 0;
}

/* Reads a number in [min, max], or returns an error that says why the text is none. */
static struct error *read_within(const char *name, struct str text, int64_t min, int64_t max,
                                 int64_t *ret) {
        struct str digits = text;

        if (!is_number(text))
                return error_new(ERR_INVALID_ARG, "Unable to parse '%s', got: %.*s", name,
                                 STR_ARG(text));
        if (*digits.ptr == '+')
                digits = str_skip(digits, 1);
        if (str_to_i64(digits, ret) && *ret >= min && *ret <= max)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "Unable to parse '%s', value is out of range [ %lld, %lld ], got: %.*s",
                         name, (long long)(min < -1 ? -1 : min), (long long)max, STR_ARG(text));
}

static struct error *read_count(struct str text, const char *blank, int32_t *ret) {
        int64_t number;

        TRY(read_within("trace_count", text, INT32_MIN, INT32_MAX, &number));
        if (number < -1)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse 'trace_count'. Expecting value >= -1, got:%s%.*s",
                                 blank, STR_ARG(text));
        *ret = (int32_t)number;
        return NULL;
}

struct error *trace_number_read(enum trace_setting setting, struct str text, const char *blank,
                                struct trace_values *ret) {
        int64_t number = 0;

        if (setting == TRACE_SETTING_COUNT)
                return read_count(text, blank, &ret->count);
        TRY(read_within(setting_names[setting], text, 0, UINT32_MAX, &number));
        if (setting == TRACE_SETTING_RATE)
                ret->rate = (uint32_t)number;
        else
                ret->log_frequency = (uint32_t)number;
        return NULL;
}
