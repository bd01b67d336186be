/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/tune_config.h"

#include "base/arena.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"

#include <stdio.h>
#include <string.h>

#define SCRATCH_BYTES ((size_t)16 << 20)

/* ---- reading ----------------------------------------------------------------------------------- */

static void read_instances(struct str config, const struct tune_bounds *b, struct tune_limits *l) {
        struct str groups = json_find(config, "instance_group");

        /* The groups of a composite model have each a part of their own. */
        if (json_list_count(groups) != 1 ||
            json_find(config, "parameters.batch_ranges").ptr != NULL ||
            json_find(config, "parameters.batch_min").ptr != NULL)
                return;
        l->has_instances = true;
        l->instances = MAX(json_find_count(json_list_first(groups), "count"), 1);
        l->max_instances = MAX(b->max_instances, 1);
}

static void read_threads(struct str config, const struct tune_bounds *b, struct tune_limits *l,
                         struct arena *scratch) {
        struct str text =
                json_find_text(config, "parameters.intra_op_thread_count.string_value", scratch);

        if (!str_is(json_find_text(config, "backend", scratch), "onnxruntime"))
                return;
        l->has_threads = true;
        l->max_threads = MAX(b->max_threads, 1);
        if (!str_to_u64(text, &l->threads) || l->threads > 1024)
                l->threads = 0;
}

static enum tune_adaptive read_adaptive(struct str config, struct arena *scratch) {
        struct str mode =
                json_find_text(config, "parameters.adaptive_batching.string_value", scratch);

        return str_is(mode, "flow")   ? TUNE_FLOW
               : str_is(mode, "idle") ? TUNE_IDLE
                                      : TUNE_ADAPTIVE_OFF;
}

static void read_batching(struct str config, const struct tune_bounds *b, struct tune_limits *l,
                          struct arena *scratch) {
        struct str batching = json_find(config, "dynamic_batching"), sizes;

        l->max_batch = json_find_count(config, "max_batch_size");
        if (l->max_batch < 2 || json_find(config, "sequence_batching").ptr != NULL ||
            json_find(config, "parameters.scheduler").ptr != NULL ||
            json_find(config, "parameters.TRITON_BATCH_STRATEGY_PATH").ptr != NULL)
                return;
        l->has_batching = l->has_adaptive = true;
        l->is_batching = batching.ptr != NULL;
        /* Priorities, policies and the order exist with a batcher only. */
        l->may_disable_batching =
                !l->is_batching || (json_find_count(batching, "priority_levels") == 0 &&
                                    json_find(batching, "default_queue_policy").ptr == NULL &&
                                    !json_find_flag(batching, "preserve_ordering"));
        if (json_find(config, "parameters.batch_ranges").ptr != NULL ||
            json_find(config, "parameters.batch_min").ptr != NULL)
                l->may_disable_batching = false;
        l->delay_us = json_find_count(batching, "max_queue_delay_microseconds");
        l->max_delay_us = b->max_delay_us;
        sizes = json_find(batching, "preferred_batch_size");
        if (json_list_count(sizes) > 0 && str_to_u64(json_list_first(sizes), &l->preferred) &&
            l->preferred == l->max_batch)
                l->preferred = 0; /* as the server fills it in */
        l->adaptive = read_adaptive(config, scratch);
}

struct error *tune_config_read(struct str config, const struct tune_bounds *b,
                               struct tune_limits *ret) {
        AUTO_ARENA scratch = arena_of(SCRATCH_BYTES);

        TRY(error_wrap(json_check(config, JSON_OBJECT), "the model's configuration"));
        memset(ret, 0, sizeof(*ret));
        read_instances(config, b, ret);
        read_threads(config, b, ret, &scratch);
        read_batching(config, b, ret, &scratch);
        return NULL;
}

/* ---- writing JSON ------------------------------------------------------------------------------ */

struct change {
        const struct tune_space *space;
        const struct tune_point *point;
        struct json_writer       w;
        struct arena *scratch; /* borrowed: for names with escapes; NULL: nothing is copied */
};

static uint64_t value_of(const struct change *c, enum tune_axis_name axis) {
        return tune_space_value(c->space, c->point, axis);
}

/* Copies the members of an object, apart from those of `left_out`. */
static void copy_members(struct change *c, struct str object, const char *const *left_out) {
        struct json_reader r;
        struct str         key;

        if (object.ptr == NULL)
                return;
        json_reader_init(&r, object);
        for (json_enter_object(&r); json_next_key(&r, c->scratch, &key);) {
                struct str value = json_skip(&r);
                bool       is_left_out = false;

                for (size_t i = 0; left_out[i] != NULL; i++)
                        is_left_out = is_left_out || str_is(key, left_out[i]);
                if (is_left_out)
                        continue;
                json_key_str(&c->w, key);
                json_put_raw(&c->w, value);
        }
}

static void put_groups(struct change *c, struct str groups) {
        static const char *const left_out[] = { "count", NULL };

        json_member_array(&c->w, "instance_group");
        json_begin_object(&c->w);
        copy_members(c, json_list_first(groups), left_out);
        json_member_u64(&c->w, "count", value_of(c, TUNE_INSTANCES));
        json_end_object(&c->w);
        json_end_array(&c->w);
}

static void put_batching(struct change *c, struct str batching) {
        static const char *const left_out[] = { "preferred_batch_size",
                                                "max_queue_delay_microseconds", NULL };
        uint64_t                 size = value_of(c, TUNE_BATCHING);

        if (size == TUNE_NO_BATCHING)
                return;
        json_member_object(&c->w, "dynamic_batching");
        copy_members(c, batching, left_out);
        if (size > 0) {
                json_member_array(&c->w, "preferred_batch_size");
                json_put_u64(&c->w, size);
                json_end_array(&c->w);
        }
        json_member_u64(&c->w, "max_queue_delay_microseconds", value_of(c, TUNE_DELAY));
        json_end_object(&c->w);
}

static bool changes_adaptive(const struct change *c) {
        return value_of(c, TUNE_ADAPTIVE) != TUNE_KEEP && value_of(c, TUNE_DELAY) != TUNE_KEEP &&
               value_of(c, TUNE_DELAY) > 0;
}

static void put_parameter(struct change *c, const char *key, const char *value) {
        json_member_object(&c->w, key);
        json_member_string(&c->w, "string_value", value);
        json_end_object(&c->w);
}

static void put_parameters(struct change *c, struct str parameters) {
        const char *left_out[3] = { NULL };
        uint64_t    threads = value_of(c, TUNE_THREADS);
        size_t      n = 0;
        char        text[24];

        if (value_of(c, TUNE_ADAPTIVE) != TUNE_KEEP)
                left_out[n++] = "adaptive_batching";
        if (threads != TUNE_KEEP)
                left_out[n++] = "intra_op_thread_count";
        json_member_object(&c->w, "parameters");
        copy_members(c, parameters, left_out);
        if (changes_adaptive(c))
                put_parameter(c, "adaptive_batching",
                              tune_adaptive_name(value_of(c, TUNE_ADAPTIVE)));
        if (threads != TUNE_KEEP) {
                snprintf(text, sizeof(text), "%llu", (unsigned long long)threads);
                put_parameter(c, "intra_op_thread_count", text);
        }
        json_end_object(&c->w);
}

void tune_config_put(struct str config, const struct tune_space *s, const struct tune_point *p,
                     struct strbuf *out) {
        AUTO_ARENA    scratch = arena_of(SCRATCH_BYTES);
        struct change c = { .space = s, .point = p, .scratch = &scratch };
        const char   *left_out[4] = { "parameters" };
        size_t        n = 1;

        if (value_of(&c, TUNE_INSTANCES) != TUNE_KEEP)
                left_out[n++] = "instance_group";
        if (value_of(&c, TUNE_BATCHING) != TUNE_KEEP)
                left_out[n++] = "dynamic_batching";
        json_writer_init(&c.w, out);
        json_begin_object(&c.w);
        copy_members(&c, config, left_out);
        if (value_of(&c, TUNE_INSTANCES) != TUNE_KEEP)
                put_groups(&c, json_find(config, "instance_group"));
        if (value_of(&c, TUNE_BATCHING) != TUNE_KEEP)
                put_batching(&c, json_find(config, "dynamic_batching"));
        put_parameters(&c, json_find(config, "parameters"));
        json_end_object(&c.w);
}

/* ---- lines of config.pbtxt --------------------------------------------------------------------- */

static void put_parameter_line(struct strbuf *out, const char *key, const char *value) {
        strbuf_printf(out, "parameters { key: \"%s\" value { string_value: \"%s\" } }\n", key,
                      value);
}

static void put_batching_line(const struct change *c, struct strbuf *out) {
        uint64_t size = value_of(c, TUNE_BATCHING), delay = value_of(c, TUNE_DELAY);

        if (size == TUNE_NO_BATCHING) {
                strbuf_puts(out, "# no dynamic_batching\n");
                return;
        }
        strbuf_puts(out, "dynamic_batching {");
        if (size > 0)
                strbuf_printf(out, " preferred_batch_size: [ %llu ]", (unsigned long long)size);
        if (delay > 0)
                strbuf_printf(out, " max_queue_delay_microseconds: %llu",
                              (unsigned long long)delay);
        strbuf_puts(out, " }\n");
}

void tune_config_put_lines(struct str config, const struct tune_space *s,
                           const struct tune_point *p, struct strbuf *out) {
        struct change c = { .space = s, .point = p };
        struct str kind = json_find(json_list_first(json_find(config, "instance_group")), "kind");
        uint64_t   threads = value_of(&c, TUNE_THREADS);
        char       text[24];

        if (value_of(&c, TUNE_INSTANCES) != TUNE_KEEP)
                strbuf_printf(out, "instance_group { count: %llu kind: %.*s }\n",
                              (unsigned long long)value_of(&c, TUNE_INSTANCES),
                              kind.len > 2 ? (int)kind.len - 2 : 9,
                              kind.len > 2 ? kind.ptr + 1 : "KIND_AUTO");
        if (value_of(&c, TUNE_BATCHING) != TUNE_KEEP)
                put_batching_line(&c, out);
        if (changes_adaptive(&c))
                put_parameter_line(out, "adaptive_batching",
                                   tune_adaptive_name(value_of(&c, TUNE_ADAPTIVE)));
        if (threads != TUNE_KEEP) {
                snprintf(text, sizeof(text), "%llu", (unsigned long long)threads);
                put_parameter_line(out, "intra_op_thread_count", text);
        }
}
