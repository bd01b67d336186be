/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/trace_options.h"

#include "base/compiler.h"
#include "base/str.h"
#include "cli/cli_options.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MODES_ANY, MODES_TRITON, MODES_OPENTELEMETRY };

static const struct {
        const char *name;
        int         modes; /* modes that have the setting; global settings have no mode */
} settings[] = {
        { "mode", MODES_ANY },
        { "level", MODES_ANY },
        { "rate", MODES_ANY },
        { "count", MODES_ANY },
        { "file", MODES_TRITON },
        { "log-frequency", MODES_TRITON },
        { "url", MODES_OPENTELEMETRY },
        { "resource", MODES_OPENTELEMETRY },
        { "bsp_max_queue_size", MODES_OPENTELEMETRY },
        { "bsp_schedule_delay", MODES_OPENTELEMETRY },
        { "bsp_max_export_batch_size", MODES_OPENTELEMETRY },
};

static const char *const mode_names[] = {
        [MODES_ANY] = NULL,
        [MODES_TRITON] = "triton",
        [MODES_OPENTELEMETRY] = "opentelemetry",
};

/* One argument, or one environment variable, and its name in errors. */
struct source {
        const char *what;
        const char *text; /* the whole argument */
};

static struct error *bad_setting(const struct source *s, const char *reason) {
        return error_new(ERR_INVALID_ARG, "%s: %s, got: %s", s->what, reason, s->text);
}

/* Reads a whole number in [min, max]. */
static struct error *read_number(const struct source *s, const char *value, int64_t min,
                                 int64_t max, int64_t *ret) {
        if (!str_to_i64(str_of(value), ret))
                return bad_setting(s, "expects an integer");
        if (*ret < min || *ret > max)
                return error_new(ERR_INVALID_ARG,
                                 "%s: value is out of range [ %lld, %lld ], got: %s", s->what,
                                 (long long)min, (long long)max, s->text);
        return NULL;
}

static struct error *read_u32(const struct source *s, const char *value, int64_t min,
                              uint32_t *ret) {
        int64_t number = 0;

        TRY(read_number(s, value, min, UINT32_MAX, &number));
        *ret = (uint32_t)number;
        return NULL;
}

static struct error *read_count(const struct source *s, const char *value, int32_t *ret) {
        int64_t number = 0;

        TRY(read_number(s, value, -1, INT32_MAX, &number));
        *ret = (int32_t)number;
        return NULL;
}

/* The words that the reference server takes. Its help and Neso's name three of them; the others are older
 * ones. */
static struct error *read_level(const struct source *s, const char *value, uint32_t *ret) {
        static const struct {
                const char *word;
                uint32_t    level;
        } words[] = {
                { "OFF", TRITONSERVER_TRACE_LEVEL_DISABLED },
                { "FALSE", TRITONSERVER_TRACE_LEVEL_DISABLED },
                { "TIMESTAMPS", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS },
                { "ON", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS },
                { "TRUE", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS },
                { "MIN", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS },
                { "MAX", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS },
                { "TENSORS", TRITONSERVER_TRACE_LEVEL_TENSORS },
        };

        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
                if (strcasecmp(value, words[i].word) != 0)
                        continue;
                if (words[i].level == TRITONSERVER_TRACE_LEVEL_DISABLED)
                        *ret = TRITONSERVER_TRACE_LEVEL_DISABLED;
                *ret |= words[i].level;
                return NULL;
        }
        return bad_setting(s, "expects OFF, TIMESTAMPS or TENSORS as trace level");
}

static struct error *read_mode(const struct source *s, const char *value, enum trace_mode *ret) {
        if (strcasecmp(value, "triton") == 0)
                *ret = TRACE_MODE_TRITON;
        else if (strcasecmp(value, "opentelemetry") == 0)
                *ret = TRACE_MODE_OPENTELEMETRY;
        else
                return bad_setting(s, "expects triton or opentelemetry as trace mode");
        return NULL;
}

/* An address without a scheme is an HTTP address. */
static struct error *read_url(const struct source *s, const char *value, const char **ret) {
        if (*value == '\0' ||
            (strstr(value, "://") != NULL && strncasecmp(value, "http://", 7) != 0 &&
             strncasecmp(value, "https://", 8) != 0))
                return bad_setting(s, "expects an address of http:// or https://");
        *ret = value;
        return NULL;
}

static struct error *add_resource(const struct source *s, const char *value,
                                  struct trace_config *c) {
        if (strchr(value, '=') == NULL || *value == '=')
                return bad_setting(s, "expects resource=<key>=<value>");
        if (c->n_resources == TRACE_CONFIG_MAX_RESOURCES)
                return bad_setting(s, "too many resources");
        c->resources[c->n_resources++] = value;
        return NULL;
}

static struct error *set_setting(const struct source *s, const char *name, const char *value,
                                 struct trace_config *c) {
        if (strcmp(name, "mode") == 0)
                return read_mode(s, value, &c->mode);
        if (strcmp(name, "level") == 0)
                return read_level(s, value, &c->values.level);
        if (strcmp(name, "rate") == 0)
                return read_u32(s, value, 0, &c->values.rate);
        if (strcmp(name, "count") == 0)
                return read_count(s, value, &c->values.count);
        if (strcmp(name, "log-frequency") == 0)
                return read_u32(s, value, 0, &c->values.log_frequency);
        if (strcmp(name, "resource") == 0)
                return add_resource(s, value, c);
        if (strcmp(name, "bsp_max_queue_size") == 0)
                return read_u32(s, value, 1, &c->bsp_max_queue_size);
        if (strcmp(name, "bsp_schedule_delay") == 0)
                return read_u32(s, value, 0, &c->bsp_schedule_delay_ms);
        if (strcmp(name, "bsp_max_export_batch_size") == 0)
                return read_u32(s, value, 1, &c->bsp_max_export_batch_size);
        if (strcmp(name, "url") == 0)
                return read_url(s, value, &c->url);
        c->file = value;
        return NULL;
}

/* The setting of that name, where it stands; its name in the table. */
static const char *find_setting(struct str mode, struct str name) {
        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
                const char *wanted = mode_names[settings[i].modes];

                if (str_is(name, settings[i].name) &&
                    (wanted != NULL ? str_is(mode, wanted) : mode.ptr == NULL))
                        return settings[i].name;
        }
        return NULL;
}

/* "[<mode>,]<setting>=<value>"; the value may have commas and equal signs. */
static struct error *read_setting(const char *text, struct trace_config *c) {
        struct source s = { "--trace-config", text };
        struct str    mode = { 0 }, name;
        struct str    value = str_split(str_of(text), '=', &name);
        struct str    rest;
        const char   *setting;

        if (value.ptr == NULL)
                return bad_setting(&s, "expects [<mode>,]<setting>=<value>");
        rest = str_split(name, ',', &mode);
        if (rest.ptr != NULL)
                name = rest;
        else
                mode = (struct str){ 0 };
        setting = find_setting(mode, name);
        if (setting == NULL)
                return bad_setting(&s, "unknown trace setting");
        return set_setting(&s, setting, value.ptr, c);
}

/* ---- the environment, older options ---------------------------------------------------------- */

static struct error *read_environment(struct trace_config *c) {
        static const struct {
                const char *variable;
                const char *setting;
        } rows[] = {
                { "OTEL_BSP_MAX_QUEUE_SIZE", "bsp_max_queue_size" },
                { "OTEL_BSP_SCHEDULE_DELAY", "bsp_schedule_delay" },
                { "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "bsp_max_export_batch_size" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const char *value = getenv(rows[i].variable);

                if (value != NULL && *value != '\0')
                        TRY(set_setting(&(struct source){ rows[i].variable, value },
                                        rows[i].setting, value, c));
        }
        return NULL;
}

/* -2 and NULL: not given. */
static struct error *read_older(const struct cli_options *o, struct trace_config *c) {
        for (size_t i = 0; i < o->trace_level.n_items; i++)
                TRY(read_level(&(struct source){ "--trace-level", o->trace_level.items[i] },
                               o->trace_level.items[i], &c->values.level));
        if (o->trace_file != NULL)
                c->file = o->trace_file;
        if (o->trace_rate >= 0)
                c->values.rate = (uint32_t)o->trace_rate;
        if (o->trace_count >= -1)
                c->values.count = (int32_t)o->trace_count;
        if (o->trace_log_frequency >= 0)
                c->values.log_frequency = (uint32_t)o->trace_log_frequency;
        return NULL;
}

struct error *trace_options_read(const struct cli_options *o, struct trace_config *ret) {
        trace_config_init(ret);
        TRY(read_environment(ret));
        TRY(read_older(o, ret));
        for (size_t i = 0; i < o->trace_config.n_items; i++)
                TRY(read_setting(o->trace_config.items[i], ret));
        return NULL;
}
