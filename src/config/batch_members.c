/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/batch_members.h"

#include "base/mem.h"
#include "base/str.h"
#include "config/config_edit.h"
#include "config/model_config.h"

#include <stdio.h>
#include <string.h>

#define MAX_SHORT_GROUPS 256
#define MAX_SHORT_COUNT 1024

#define RANGES "batch_ranges"
#define FILES "member_files"
#define CONCURRENCY "member_concurrency"
#define SHORT_MIN "batch_min"
#define SHORT_MAX "batch_max"
#define SHORT_COUNT "instance_num"

/* ---- "1&4&8" --------------------------------------------------------------------------------- */

struct short_list {
        uint32_t items[MAX_SHORT_GROUPS];
        size_t   n;
};

static struct error *read_list(const struct model_config *c, const char *key, uint32_t otherwise,
                               uint64_t limit, struct short_list *ret) {
        const char *text = model_config_find_parameter(c, key);

        ret->n = 0;
        if (text == NULL)
                ret->items[ret->n++] = otherwise;
        STR_FOR_EACH(str_of(text), '&', item) {
                uint64_t number;

                if (ret->n == MAX_SHORT_GROUPS)
                        return error_new(ERR_INVALID_ARG, "parameter '%s' has more than %d members",
                                         key, MAX_SHORT_GROUPS);
                if (!str_to_u64(str_trim(item), &number) || number == 0 || number > limit)
                        return error_new(ERR_INVALID_ARG,
                                         "parameter '%s' must be numbers from 1 to %llu with '&' "
                                         "between them, got '%s'",
                                         key, (unsigned long long)limit, text);
                ret->items[ret->n++] = (uint32_t)number;
        }
        return NULL;
}

static uint32_t list_at(const struct short_list *l, size_t i) {
        return l->items[MIN(i, l->n - 1)];
}

struct short_members {
        struct short_list min, max, count;
        size_t            n; /* 0: the parameters are not in the short form */
};

static struct error *read_short(const struct model_config *c, struct short_members *ret) {
        ret->n = 0;
        if (model_config_find_parameter(c, SHORT_MAX) == NULL)
                return NULL;
        if (model_config_find_parameter(c, RANGES) != NULL)
                return model_config_at_parameter(c, RANGES,
                                                 error_new(ERR_INVALID_ARG,
                                                           "parameters '" RANGES "' and '" SHORT_MAX
                                                           "' say the same twice"));
        TRY(model_config_at_parameter(c, SHORT_MIN,
                                      read_list(c, SHORT_MIN, 1, INT32_MAX, &ret->min)));
        TRY(model_config_at_parameter(c, SHORT_MAX,
                                      read_list(c, SHORT_MAX, 1, INT32_MAX, &ret->max)));
        TRY(model_config_at_parameter(c, SHORT_COUNT,
                                      read_list(c, SHORT_COUNT, 1, MAX_SHORT_COUNT, &ret->count)));
        ret->n = MAX(MAX(ret->min.n, ret->max.n), ret->count.n);
        return NULL;
}

static bool is_expanded(const struct model_config *c, const struct short_members *s) {
        bool is_same = c->pb->n_instance_group == s->n;

        for (size_t i = 0; i < s->n && is_same; i++) {
                char name[24]; /* 'm' and the digits of a size_t */

                snprintf(name, sizeof(name), "m%zu", i);
                is_same = config_text_is(c->pb->instance_group[i]->name, name);
        }
        return is_same;
}

static struct error *add_groups(struct model_config *c, const struct short_members *s) {
        c->pb->instance_group = arena_try_calloc(&c->arena, s->n, sizeof(*c->pb->instance_group));
        if (c->pb->instance_group == NULL)
                return model_config_full(&c->arena);
        for (size_t i = 0; i < s->n; i++) {
                Inference__ModelInstanceGroup *group =
                        config_edit_new(c, &inference__model_instance_group__descriptor);
                char number[24]; /* the digits of a size_t */

                if (group == NULL)
                        return model_config_full(&c->arena);
                snprintf(number, sizeof(number), "%zu", i);
                TRY(config_edit_text(c, &group->name, "m", number));
                group->count = (int32_t)list_at(&s->count, i);
                c->pb->instance_group[i] = group;
                c->pb->n_instance_group = i + 1;
        }
        return NULL;
}

struct error *batch_members_expand(struct model_config *c) {
        struct short_members s;

        TRY(read_short(c, &s));
        if (s.n == 0)
                return NULL;
        if (c->pb->n_instance_group == 0)
                return add_groups(c, &s);
        if (is_expanded(c, &s))
                return NULL;
        return error_in_field(
                "instance_group",
                "parameter '" SHORT_MAX
                "' makes the instance groups of model %s itself: instance_group must not be given",
                c->pb->name);
}

/* ---- lists of "<group>:<text>" --------------------------------------------------------------- */

static struct batch_member *find_member(const struct batch_members *m, struct str name) {
        for (size_t i = 0; i < m->n_items; i++)
                if (str_is(name, m->items[i].name))
                        return &m->items[i];
        return NULL;
}

typedef struct error *(*put_fn)(const struct model_config *c, struct batch_member *member,
                                struct str text);

static struct error *put_each(const struct model_config *c, const char *key, const char *what,
                              put_fn put, struct batch_members *m) {
        const char *text = model_config_find_parameter(c, key);

        STR_FOR_EACH(str_of(text), ',', entry) {
                struct str           name, value = str_split(str_trim(entry), ':', &name);
                struct batch_member *member;

                if (value.ptr == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "parameter '%s' must be entries <group>:%s with ',' "
                                         "between them, got '%s'",
                                         key, what, text);
                member = find_member(m, str_trim(name));
                if (member == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "parameter '%s' names the instance group '%.*s', which "
                                         "model %s does not have",
                                         key, STR_ARG(str_trim(name)), c->pb->name);
                TRY(put(c, member, str_trim(value)));
        }
        return NULL;
}

static struct error *set_range(const struct model_config *c, struct batch_member *member,
                               uint64_t min_rows, uint64_t max_rows) {
        int32_t     limit = c->pb->max_batch_size;
        const char *why = NULL;

        if (min_rows < 1)
                why = "it must begin at 1 or more";
        else if (min_rows > max_rows)
                why = "its end is before its beginning";
        else if (limit <= 0)
                why = "the model does not batch (max_batch_size is 0)";
        else if (max_rows > (uint64_t)limit)
                why = "it is beyond max_batch_size";
        if (why != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "batch range %llu-%llu of instance group '%s' of model %s: %s",
                                 (unsigned long long)min_rows, (unsigned long long)max_rows,
                                 member->name, c->pb->name, why);
        if (member->has_range)
                return error_new(ERR_INVALID_ARG,
                                 "instance group '%s' of model %s has two batch ranges",
                                 member->name, c->pb->name);
        member->min_rows = (uint32_t)min_rows;
        member->max_rows = (uint32_t)max_rows;
        member->has_range = true;
        return NULL;
}

static struct error *put_range(const struct model_config *c, struct batch_member *member,
                               struct str text) {
        struct str from, to = str_split(text, '-', &from);
        uint64_t   min_rows, max_rows;

        if (!str_to_u64(from, &min_rows) || !str_to_u64(to, &max_rows))
                return error_new(ERR_INVALID_ARG,
                                 "batch range of instance group '%s' of model %s must be "
                                 "<min>-<max>, got '%.*s'",
                                 member->name, c->pb->name, STR_ARG(text));
        return set_range(c, member, min_rows, max_rows);
}

static struct error *put_file(const struct model_config *c, struct batch_member *member,
                              struct str text) {
        if (member->file != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "instance group '%s' of model %s has two member files",
                                 member->name, c->pb->name);
        if (text.len == 0 || memchr(text.ptr, '/', text.len) != NULL || str_is(text, "..") ||
            str_is(text, "."))
                return error_new(
                        ERR_INVALID_ARG,
                        "member file '%.*s' of instance group '%s' of model %s must be the "
                        "name of a file in the version's directory",
                        STR_ARG(text), member->name, c->pb->name);
        member->file = mem_strndup(text.ptr, text.len);
        return NULL;
}

/* ---- all parameters -------------------------------------------------------------------------- */

bool batch_members_are_given(const struct model_config *c) {
        static const char *const keys[] = { RANGES, FILES, SHORT_MAX, CONCURRENCY };

        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (model_config_find_parameter(c, keys[i]) != NULL)
                        return true;
        return false;
}

/* Sets *ret to whether the parameter has the second value; leaves it unchanged without the
 * parameter. */
static struct error *read_choice(const struct model_config *c, const char *key, const char *first,
                                 const char *second, bool *ret) {
        const char *value = model_config_find_parameter(c, key);

        if (value == NULL)
                return NULL;
        if (strcmp(value, first) == 0 || strcmp(value, second) == 0) {
                *ret = strcmp(value, second) == 0;
                return NULL;
        }
        /* For any other model it may be a parameter of the model's backend. */
        if (!batch_members_are_given(c))
                return NULL;
        return model_config_at_parameter(
                c, key,
                error_new(ERR_INVALID_ARG,
                          "parameter '%s' of model %s must be '%s' or '%s', got '%s'", key,
                          c->pb->name, first, second, value));
}

static struct error *read_choices(const struct model_config *c, struct batch_members *m) {
        m->may_split = true;
        TRY(read_choice(c, "partial", "error", "wait", &m->may_wait));
        TRY(read_choice(c, "split_requests", "false", "true", &m->may_split));
        TRY(read_choice(c, CONCURRENCY, "members", "exclusive", &m->is_exclusive));
        m->may_split = m->may_split && !model_config_is_decoupled(c);
        return NULL;
}

static struct error *put_short(const struct model_config *c, struct batch_members *m) {
        struct short_members s;

        TRY(read_short(c, &s));
        for (size_t i = 0; i < MIN(s.n, m->n_items); i++)
                TRY(model_config_at_parameter(c, SHORT_MAX,
                                              set_range(c, &m->items[i], list_at(&s.min, i),
                                                        list_at(&s.max, i))));
        return NULL;
}

/* Checks that the groups cover all sizes up to max_batch_size, and from 1 on unless requests may
 * wait. */
static struct error *check_cover(const struct model_config *c, const struct batch_members *m) {
        const struct batch_member *smallest = NULL, *largest = NULL;

        for (size_t i = 0; i < m->n_items; i++) {
                if (c->pb->instance_group[i]->passive)
                        continue;
                if (smallest == NULL || m->items[i].min_rows < smallest->min_rows)
                        smallest = &m->items[i];
                if (largest == NULL || m->items[i].max_rows > largest->max_rows)
                        largest = &m->items[i];
        }
        if (largest == NULL)
                return NULL;
        if (largest->max_rows < (uint32_t)c->pb->max_batch_size)
                return error_new(ERR_INVALID_ARG,
                                 "batch range %u-%u of instance group '%s' of model %s reaches "
                                 "furthest, but max_batch_size is %d",
                                 largest->min_rows, largest->max_rows, largest->name, c->pb->name,
                                 c->pb->max_batch_size);
        if (smallest->min_rows > 1 && !m->may_wait)
                return error_new(ERR_INVALID_ARG,
                                 "cannot serve batch size 1 (smallest member minimum is %u): "
                                 "instance group '%s' of model %s",
                                 smallest->min_rows, smallest->name, c->pb->name);
        return NULL;
}

static struct error *check_choice_of_scheduler(const struct model_config *c) {
        if (c->pb->scheduling_choice_case !=
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return NULL;
        return error_in_field(
                "sequence_batching",
                "model %s has members with batch ranges, which sequence_batching does not go with",
                c->pb->name);
}

static struct error *read_members(const struct model_config *c, struct batch_members *m) {
        m->are_given = batch_members_are_given(c);
        m->n_items = c->pb->n_instance_group;
        m->items = try_zalloc(MAX(m->n_items, 1u) * sizeof(*m->items));
        if (m->items == NULL)
                return config_out_of_memory();
        for (size_t i = 0; i < m->n_items; i++)
                m->items[i] = (struct batch_member){
                        .name = c->pb->instance_group[i]->name,
                        .min_rows = 1,
                        .max_rows = (uint32_t)MAX(c->pb->max_batch_size, 1),
                };
        TRY(read_choices(c, m));
        if (!m->are_given)
                return NULL;
        TRY(check_choice_of_scheduler(c));
        if (c->pb->max_batch_size > BATCH_MEMBERS_MAX_BATCH)
                return error_in_field("max_batch_size",
                                      "model %s has members with batch ranges: its max_batch_size "
                                      "may be %d at most",
                                      c->pb->name, BATCH_MEMBERS_MAX_BATCH);
        TRY(put_short(c, m));
        TRY(model_config_at_parameter(c, RANGES, put_each(c, RANGES, "<min>-<max>", put_range, m)));
        TRY(model_config_at_parameter(c, FILES, put_each(c, FILES, "<file>", put_file, m)));
        return model_config_at_parameter(c,
                                         model_config_find_parameter(c, RANGES) != NULL ? RANGES
                                                                                        : SHORT_MAX,
                                         check_cover(c, m));
}

struct error *batch_members_read(const struct model_config *c, struct batch_members *ret) {
        struct error *err;

        *ret = (struct batch_members){ 0 };
        if (model_config_is_ensemble(c))
                return NULL;
        err = read_members(c, ret);
        if (err != NULL)
                batch_members_done(ret);
        return err;
}

void batch_members_done(struct batch_members *m) {
        for (size_t i = 0; i < m->n_items && m->items != NULL; i++)
                free(m->items[i].file);
        free(m->items);
        *m = (struct batch_members){ 0 };
}

struct error *batch_members_check(const struct model_config *c) {
        struct batch_members m;

        TRY(batch_members_read(c, &m));
        batch_members_done(&m);
        return NULL;
}
