/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the entries of a set, or reads them from files (input_set.h). */
#include "base/file.h"
#include "base/mem.h"
#include "load/input_json.h"
#include "load/input_set.h"
#include "load/input_set_private.h"
#include "load/schedule.h"

#include <string.h>

/* More random entries would only fill memory. */
#define MAX_DISTINCT 65536
#define MAX_FILE ((size_t)1 << 30)

/* ---- shapes ------------------------------------------------------------------------------------ */

/* The shapes of --shape, or of the model where they are fixed. */
static struct error *read_shapes(const struct load_model *m, const struct input_options *o,
                                 struct load_shape *shapes) {
        for (size_t i = 0; i < m->n_inputs; i++)
                shapes[i] = m->inputs[i].shape;
        for (size_t i = 0; i < o->n_shapes; i++) {
                struct str                name, text = str_split(str_of(o->shapes[i]), ':', &name);
                const struct load_tensor *t = load_model_input(m, name);
                struct load_shape         shape = { 0 };

                if (text.ptr == NULL)
                        return error_new(ERR_INVALID_ARG, "--shape %s: expected NAME:d,d,...",
                                         o->shapes[i]);
                if (t == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "--shape %s: model '%s' has no input '%.*s'", o->shapes[i],
                                         m->name, STR_ARG(name));
                TRY(error_wrap(load_shape_read(text, &shape), "--shape %s", o->shapes[i]));
                if (!load_shape_fits(&shape, &t->shape))
                        return error_new(ERR_INVALID_ARG,
                                         "--shape %s: it does not fit the model's dimensions",
                                         o->shapes[i]);
                shapes[t - m->inputs] = shape;
        }
        return NULL;
}

/* ---- made values ------------------------------------------------------------------------------- */

static void put_letters(char *to, size_t n, uint64_t *random) {
        for (size_t i = 0; i < n; i++)
                to[i] = (char)('a' + (random_next(random) >> 32) % 26);
}

/* BYTES: zeros are empty texts. */
static struct error *make_texts(struct input_set *s, const struct input_options *o, uint64_t n,
                                uint64_t *random, struct str *ret) {
        size_t   given = o->string != NULL ? strlen(o->string) : 0;
        uint32_t len = (uint32_t)(random == NULL      ? 0
                                  : o->string != NULL ? given
                                                      : o->string_length);
        size_t   bytes;
        char    *to;

        if (!size_mul((size_t)n, sizeof(len) + len, &bytes) ||
            (to = arena_try_alloc(&s->arena, bytes + 1)) == NULL)
                return input_set_no_room();
        *ret = str_range(to, bytes);
        for (uint64_t i = 0; i < n; i++, to += len) {
                memcpy(to, &len, sizeof(len)); /* the byte order of all our machines */
                to += sizeof(len);
                if (o->string != NULL && len > 0)
                        memcpy(to, o->string, len);
                else
                        put_letters(to, len, random);
        }
        return NULL;
}

/* Small values, which every type can represent; floats are within [0, 1). */
static void put_element(const struct load_tensor *t, char *to, uint64_t random) {
        uint64_t small = random >> 57; /* 7 bits */
        float    real = (float)(random >> 40) / 16777216.0F;
        double   wide = (double)(random >> 11) / 9007199254740992.0;
        uint16_t half;

        if (strcmp(t->datatype, "FP32") == 0) {
                memcpy(to, &real, sizeof(real));
        } else if (strcmp(t->datatype, "FP64") == 0) {
                memcpy(to, &wide, sizeof(wide));
        } else if (strcmp(t->datatype, "FP16") == 0) {
                half = (uint16_t)(0x3800 | (random >> 54)); /* within [0.5, 1) */
                memcpy(to, &half, sizeof(half));
        } else if (strcmp(t->datatype, "BF16") == 0) {
                half = (uint16_t)(0x3f00 | small); /* within [0.5, 1) */
                memcpy(to, &half, sizeof(half));
        } else if (strcmp(t->datatype, "BOOL") == 0) {
                *to = (char)(small & 1);
        } else {
                memcpy(to, &small, t->element_bytes);
        }
}

/* `random` NULL: zeros. */
static struct error *make_values(struct input_set *s, const struct load_tensor *t,
                                 const struct input_options *o, uint64_t *random,
                                 struct input_values *v) {
        uint64_t n;
        size_t   bytes;
        char    *to;

        TRY(input_shape_count(t, &v->shape, &n));
        if (t->element_bytes == 0)
                return make_texts(s, o, n, random, &v->bytes);
        if (!size_mul((size_t)n, t->element_bytes, &bytes) ||
            (to = arena_try_alloc(&s->arena, bytes + 1)) == NULL)
                return input_set_no_room();
        memset(to, 0, bytes);
        for (uint64_t i = 0; random != NULL && i < n; i++)
                put_element(t, to + i * t->element_bytes, random_next(random));
        v->bytes = str_range(to, bytes);
        return NULL;
}

static struct error *make_entry(struct input_set *s, const struct load_model *m,
                                const struct input_options *o, const struct load_shape *shapes,
                                uint64_t *random) {
        struct input_entry *e;

        TRY(input_set_add(s, m, &e));
        for (size_t i = 0; i < m->n_inputs; i++) {
                if (m->inputs[i].is_optional)
                        continue;
                e->inputs[i].shape = shapes[i];
                TRY(make_values(s, &m->inputs[i], o, random, &e->inputs[i]));
        }
        return NULL;
}

/* ---- directories ------------------------------------------------------------------------------- */

struct error *input_lines_read(struct input_set *s, struct str text, size_t max, struct str *ret) {
        AUTO_STRBUF out = { .max = max };

        if (text.len == 0)
                text.ptr = NULL; /* not one empty line */
        else if (str_ends(text, STR_LIT("\n")))
                text.len--;
        STR_FOR_EACH(text, '\n', line) {
                uint32_t len = (uint32_t)line.len;

                strbuf_put(&out, &len, sizeof(len));
                strbuf_put(&out, line.ptr, line.len);
        }
        ret->ptr = out.overflowed ? NULL : arena_try_str(&s->arena, strbuf_str(&out));
        ret->len = out.len;
        return ret->ptr != NULL ? NULL : input_set_no_room();
}

/* The server names the tensors, and must not choose files outside the directory: it would get what is in them. */
static struct error *check_name(const char *name) {
        STR_FOR_EACH(str_of(name), '/', part)
                if (STR_IS(part, ".."))
                        return error_new(ERR_INVALID_ARG,
                                         "the server has a tensor '%s': a name with '..' cannot be "
                                         "that of a file in the directory of --input-data",
                                         name);
        return NULL;
}

static struct error *check_names(const struct load_model *m) {
        for (size_t i = 0; i < m->n_inputs; i++)
                TRY(check_name(m->inputs[i].name));
        for (size_t i = 0; i < m->n_outputs; i++)
                TRY(check_name(m->outputs[i].name));
        return NULL;
}

static struct error *read_tensor_file(struct input_set *s, const struct load_tensor *t,
                                      const char *path, struct str *ret) {
        AUTO_STRBUF text = { .max = MAX_FILE };

        TRY(file_read(path, MAX_FILE, &text));
        if (t->element_bytes == 0)
                return input_lines_read(s, strbuf_str(&text), MAX_FILE, ret);
        ret->ptr = arena_try_str(&s->arena, strbuf_str(&text));
        ret->len = text.len;
        return ret->ptr != NULL ? NULL : input_set_no_room();
}

/* A file that is not there is no expectation. */
static struct error *read_expected(struct input_set *s, const struct load_model *m,
                                   const char *directory, struct input_entry *e) {
        for (size_t i = 0; i < m->n_outputs; i++) {
                AUTO_CHARS path = path_join(directory, m->outputs[i].name);

                if (!file_exists(path))
                        continue;
                TRY(input_set_expect(s, m, e));
                TRY(read_tensor_file(s, &m->outputs[i], path, &e->outputs[i].bytes));
        }
        return NULL;
}

static struct error *read_directory(struct input_set *s, const struct load_model *m,
                                    const struct load_shape *shapes, const char *directory) {
        struct input_entry *e;

        TRY(check_names(m));
        TRY(input_set_add(s, m, &e));
        for (size_t i = 0; i < m->n_inputs; i++) {
                AUTO_CHARS path = path_join(directory, m->inputs[i].name);

                if (m->inputs[i].is_optional && !file_exists(path))
                        continue;
                TRY(read_tensor_file(s, &m->inputs[i], path, &e->inputs[i].bytes));
                e->inputs[i].shape = shapes[i];
                TRY(error_wrap(input_check_count(&m->inputs[i], &e->inputs[i]), "%s", path));
        }
        return read_expected(s, m, directory, e);
}

/* ---- the set ----------------------------------------------------------------------------------- */

static struct error *read_json_file(struct input_set *s, const struct load_model *m,
                                    const struct load_shape *shapes, const char *path) {
        AUTO_STRBUF text = { .max = MAX_FILE };

        TRY(file_read(path, MAX_FILE, &text));
        return error_wrap(input_json_read(s, m, shapes, strbuf_str(&text)), "%s", path);
}

static struct error *make_random(struct input_set *s, const struct load_model *m,
                                 const struct input_options *o, const struct load_shape *shapes) {
        uint64_t state = random_state(o->seed), n = MAX(o->n_distinct, 1);

        if (n > MAX_DISTINCT)
                return error_new(ERR_INVALID_ARG, "--distinct: at most %d", MAX_DISTINCT);
        for (uint64_t i = 0; i < n; i++)
                TRY(make_entry(s, m, o, shapes, &state));
        return NULL;
}

static struct error *read_source(struct input_set *s, const struct load_model *m,
                                 const struct input_options *o, const struct load_shape *shapes,
                                 const char *source) {
        struct file_stat stat;

        if (strcmp(source, "random") == 0)
                return make_random(s, m, o, shapes);
        if (strcmp(source, "zero") == 0)
                return make_entry(s, m, o, shapes, NULL);
        TRY(error_wrap(file_stat(source, &stat), "--input-data"));
        return stat.is_directory ? read_directory(s, m, shapes, source)
                                 : read_json_file(s, m, shapes, source);
}

struct error *input_set_make(const struct load_model *m, const struct input_options *o,
                             struct input_set *ret) {
        struct load_shape *shapes = mem_zalloc((m->n_inputs + 1) * sizeof(*shapes));
        struct error      *err;

        memset(ret, 0, sizeof(*ret));
        arena_init(&ret->arena, NULL, 0, INPUT_SET_MAX_BYTES);
        err = read_shapes(m, o, shapes);
        if (err == NULL && o->n_sources == 0)
                err = make_random(ret, m, o, shapes);
        for (size_t i = 0; i < o->n_sources && err == NULL; i++)
                err = read_source(ret, m, o, shapes, o->sources[i]);
        if (err == NULL && ret->n_entries == 0)
                err = error_new_text(ERR_INVALID_ARG, "--input-data has no entries");
        free(shapes);
        if (err != NULL)
                input_set_done(ret);
        return err;
}
