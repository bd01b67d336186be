/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/load_model.h"

#include "base/mem.h"
#include "codec/data_types.h"
#include "codec/json_find.h"

#include <string.h>

#define MAX_ELEMENTS ((uint64_t)1 << 28)
#define ARENA_BYTES ((size_t)64 << 20)
#define MAX_TENSORS 4096

/* ---- shapes ------------------------------------------------------------------------------------ */

struct error *load_shape_read(struct str text, struct load_shape *ret) {
        struct load_shape s = { .n = 0 };
        struct str        left = str_trim(text), part;

        while (left.ptr != NULL && (left.len > 0 || s.n > 0)) {
                left = str_split(left, ',', &part);
                if (s.n == LOAD_MAX_DIMS || !str_to_i64(str_trim(part), &s.dims[s.n++]))
                        return error_new(ERR_INVALID_ARG, "'%.*s' is not a shape such as 3,224,224",
                                         STR_ARG(text));
        }
        *ret = s;
        return NULL;
}

struct error *load_shape_count(const struct load_shape *s, uint64_t *ret) {
        uint64_t n = 1;

        for (size_t i = 0; i < s->n; i++) {
                if (s->dims[i] < 0)
                        return error_new_text(ERR_INVALID_ARG, "a dimension is variable");
                if (__builtin_mul_overflow(n, (uint64_t)s->dims[i], &n) || n > MAX_ELEMENTS)
                        return error_new(ERR_INVALID_ARG, "a shape has more than %llu elements",
                                         (unsigned long long)MAX_ELEMENTS);
        }
        *ret = n;
        return NULL;
}

bool load_shape_equal(const struct load_shape *a, const struct load_shape *b) {
        return a->n == b->n && memcmp(a->dims, b->dims, a->n * sizeof(*a->dims)) == 0;
}

bool load_shape_fits(const struct load_shape *s, const struct load_shape *model) {
        if (s->n != model->n)
                return false;
        for (size_t i = 0; i < s->n; i++)
                if (s->dims[i] < 0 || (model->dims[i] >= 0 && model->dims[i] != s->dims[i]))
                        return false;
        return true;
}

/* ---- tensors ----------------------------------------------------------------------------------- */

/* clang-format off */
#define ROW(name, value, config_name, bytes, json) { #name, bytes },
static const struct {
        const char *name;
        size_t      bytes;
} types[] = {
        DATA_TYPES(ROW)
};
/* clang-format on */

static struct error *set_type(struct load_tensor *t, struct str name) {
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
                if (str_is(name, types[i].name)) {
                        t->datatype = types[i].name;
                        t->element_bytes = types[i].bytes;
                        return NULL;
                }
        return error_new(ERR_INVALID_ARG, "tensor '%s' has the unknown data type '%.*s'", t->name,
                         STR_ARG(name));
}

/* The shape of the metadata has the batch dimension in front when the model batches. */
static struct error *set_shape(struct load_model *m, struct load_tensor *t, struct str shape) {
        bool skips = m->max_batch > 0;

        JSON_FOR_EACH(shape, dim) {
                if (skips)
                        skips = false;
                else if (t->shape.n == LOAD_MAX_DIMS ||
                         !str_to_i64(dim, &t->shape.dims[t->shape.n++]))
                        return error_new(ERR_INVALID_ARG, "tensor '%s' has no shape", t->name);
        }
        return NULL;
}

static struct error *read_tensors(struct load_model *m, struct str array, struct load_tensor **ret,
                                  size_t *ret_n) {
        size_t              n = json_list_count(array);
        struct load_tensor *t;

        if (n > MAX_TENSORS)
                return error_new_text(ERR_INVALID_ARG, "the model has too many tensors");
        t = *ret = arena_zalloc(&m->arena, (n + 1) * sizeof(*t));
        *ret_n = n;
        JSON_FOR_EACH(array, item) {
                t->name = arena_str(&m->arena, json_find_text(item, "name", &m->arena));
                TRY(set_type(t, json_find_text(item, "datatype", &m->arena)));
                TRY(set_shape(m, t, json_find(item, "shape")));
                t++;
        }
        return NULL;
}

static const struct load_tensor *find_tensor(const struct load_tensor *tensors, size_t n,
                                             struct str name) {
        for (size_t i = 0; i < n; i++)
                if (str_is(name, tensors[i].name))
                        return &tensors[i];
        return NULL;
}

const struct load_tensor *load_model_input(const struct load_model *m, struct str name) {
        return find_tensor(m->inputs, m->n_inputs, name);
}

const struct load_tensor *load_model_output(const struct load_model *m, struct str name) {
        return find_tensor(m->outputs, m->n_outputs, name);
}

/* ---- the model --------------------------------------------------------------------------------- */

static void read_optional(struct load_model *m, struct str config) {
        JSON_FOR_EACH(json_find(config, "input"), item) {
                struct str          name = json_find_text(item, "name", &m->arena);
                struct load_tensor *t = (struct load_tensor *)(uintptr_t)load_model_input(m, name);

                if (t != NULL)
                        t->is_optional = json_find_flag(item, "optional");
        }
}

/* The version of a step is a text or a number; -1: the newest. */
static const char *step_version(struct load_model *m, struct str step) {
        struct str version = json_find(step, "model_version");

        if (version.len >= 2 && version.ptr[0] == '"')
                version = str_range(version.ptr + 1, version.len - 2);
        if (version.len == 0 || version.ptr[0] == '-')
                return NULL;
        return arena_str(&m->arena, version);
}

static void read_steps(struct load_model *m, struct str steps) {
        m->steps = arena_zalloc(&m->arena, (json_list_count(steps) + 1) * sizeof(*m->steps));
        JSON_FOR_EACH(steps, item)
                m->steps[m->n_steps++] = (struct load_step){
                        .model =
                                arena_str(&m->arena, json_find_text(item, "model_name", &m->arena)),
                        .version = step_version(m, item),
                };
}

/* "decode,classify:2,encode" */
static void read_stages(struct load_model *m, struct str stages) {
        size_t n = 1;

        for (size_t i = 0; i < stages.len; i++)
                n += stages.ptr[i] == ',';
        m->steps = arena_zalloc(&m->arena, (n + 1) * sizeof(*m->steps));
        while (stages.ptr != NULL && stages.len > 0) {
                struct str stage, name, version;

                stages = str_split(stages, ',', &stage);
                version = str_split(str_trim(stage), ':', &name);
                m->steps[m->n_steps++] = (struct load_step){
                        .model = arena_str(&m->arena, name),
                        .version = version.len > 0 ? arena_str(&m->arena, version) : NULL,
                };
        }
}

static void read_config(struct load_model *m, struct str config) {
        m->max_batch = json_find_count(config, "max_batch_size");
        m->is_sequence = json_find(config, "sequence_batching").ptr != NULL;
        m->is_decoupled = json_find_flag(config, "model_transaction_policy.decoupled");
        m->has_cache = json_find_flag(config, "response_cache.enable");
        if (str_is(json_find_text(config, "platform", &m->arena), "chain"))
                read_stages(m, json_find_text(config, "parameters.stages.string_value", &m->arena));
        else
                read_steps(m, json_find(config, "ensemble_scheduling.step"));
}

static void read_version(struct load_model *m, struct str versions) {
        m->found_version = m->version != NULL ? m->version : "1";
        JSON_FOR_EACH(versions, item)
                if (m->version == NULL && item.len > 2)
                        m->found_version = arena_strndup(&m->arena, item.ptr + 1, item.len - 2);
}

static struct error *read_model(struct load_model *m, struct str metadata, struct str config) {
        TRY(error_wrap(json_check(metadata, JSON_OBJECT), "the model's metadata"));
        TRY(error_wrap(json_check(config, JSON_OBJECT), "the model's configuration"));
        read_config(m, config);
        read_version(m, json_find(metadata, "versions"));
        TRY(read_tensors(m, json_find(metadata, "inputs"), &m->inputs, &m->n_inputs));
        TRY(read_tensors(m, json_find(metadata, "outputs"), &m->outputs, &m->n_outputs));
        read_optional(m, config);
        return NULL;
}

struct error *load_model_read(const char *name, const char *version, struct str metadata,
                              struct str config, struct load_model *ret) {
        struct error *err;

        memset(ret, 0, sizeof(*ret));
        arena_init(&ret->arena, NULL, 0, ARENA_BYTES);
        ret->name = arena_strdup(&ret->arena, name);
        ret->version = version != NULL ? arena_strdup(&ret->arena, version) : NULL;
        err = read_model(ret, metadata, config);
        if (err != NULL)
                load_model_done(ret);
        return err;
}

void load_model_init_bare(const char *name, struct load_model *ret) {
        memset(ret, 0, sizeof(*ret));
        arena_init(&ret->arena, NULL, 0, ARENA_BYTES);
        ret->name = arena_strdup(&ret->arena, name);
        ret->found_version = "";
}

void load_model_done(struct load_model *m) {
        arena_done(&m->arena);
}

/* ---- its steps --------------------------------------------------------------------------------- */

static bool is_same_version(const struct load_step *a, const struct load_step *b) {
        if (a->version == NULL || b->version == NULL)
                return a->version == b->version;
        return strcmp(a->version, b->version) == 0;
}

bool load_model_repeats_step(const struct load_model *m, size_t step) {
        for (size_t i = 0; i < step; i++)
                if (strcmp(m->steps[i].model, m->steps[step].model) == 0 &&
                    is_same_version(&m->steps[i], &m->steps[step]))
                        return true;
        return false;
}

const char *load_model_step_file_version(const struct load_model *m, size_t step) {
        const struct load_step *s = &m->steps[step];

        if (s->version != NULL)
                return s->version;
        for (size_t i = 0; i < m->n_steps; i++)
                if (strcmp(m->steps[i].model, s->model) == 0 && m->steps[i].version != NULL &&
                    strcmp(m->steps[i].version, "1") == 0)
                        return "newest";
        return "1";
}

char *load_model_step_name(const struct load_model *m, size_t step) {
        const struct load_step *s = &m->steps[step];
        bool                    is_ambiguous = false;

        for (size_t i = 0; i < m->n_steps; i++)
                is_ambiguous = is_ambiguous || (strcmp(m->steps[i].model, s->model) == 0 &&
                                                !is_same_version(&m->steps[i], s));
        return is_ambiguous && s->version != NULL ? mem_printf("%s:%s", s->model, s->version)
                                                  : mem_strdup(s->model);
}
