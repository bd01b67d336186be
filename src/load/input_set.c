/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/input_set.h"

#include "base/mem.h"
#include "load/input_set_private.h"

#include <string.h>

struct error *input_set_no_room(void) {
        return error_new(ERR_INVALID_ARG, "the inputs have more than %zu MiB",
                         INPUT_SET_MAX_BYTES >> 20);
}

/* ---- growing ----------------------------------------------------------------------------------- */

struct error *input_set_add(struct input_set *s, const struct load_model *m,
                            struct input_entry **ret) {
        struct input_entry *e;

        s->entries = mem_grow(s->entries, s->n_entries, sizeof(*s->entries));
        e = &s->entries[s->n_entries];
        *e = (struct input_entry){
                .inputs = arena_try_alloc(&s->arena, (m->n_inputs + 1) * sizeof(*e->inputs)),
        };
        if (e->inputs == NULL)
                return input_set_no_room();
        memset(e->inputs, 0, (m->n_inputs + 1) * sizeof(*e->inputs));
        s->n_entries++;
        *ret = e;
        return NULL;
}

void input_set_add_stream(struct input_set *s, struct input_stream stream) {
        s->streams = mem_grow(s->streams, s->n_streams, sizeof(*s->streams));
        s->streams[s->n_streams++] = stream;
}

struct error *input_set_expect(struct input_set *s, const struct load_model *m,
                               struct input_entry *e) {
        size_t bytes = (m->n_outputs + 1) * sizeof(*e->outputs);

        if (e->outputs != NULL)
                return NULL;
        e->outputs = arena_try_alloc(&s->arena, bytes);
        if (e->outputs == NULL)
                return input_set_no_room();
        memset(e->outputs, 0, bytes);
        s->has_validation = true;
        return NULL;
}

/* ---- elements --------------------------------------------------------------------------------- */

struct error *input_shape_count(const struct load_tensor *t, const struct load_shape *shape,
                                uint64_t *ret) {
        for (size_t i = 0; i < shape->n; i++)
                if (shape->dims[i] < 0)
                        return error_new(ERR_INVALID_ARG,
                                         "input '%s' has a variable shape: --shape %s:d,d,...",
                                         t->name, t->name);
        return error_wrap(load_shape_count(shape, ret), "input '%s'", t->name);
}

/* Counts the elements of raw values; false when the last one is cut. */
bool input_count_elements(const struct load_tensor *t, struct str bytes, uint64_t *ret) {
        uint64_t n = 0;

        if (t->element_bytes > 0) {
                *ret = bytes.len / t->element_bytes;
                return bytes.len % t->element_bytes == 0;
        }
        while (bytes.len > 0) {
                uint32_t len;

                if (bytes.len < sizeof(len))
                        return false;
                memcpy(&len, bytes.ptr, sizeof(len));
                if (len > bytes.len - sizeof(len))
                        return false;
                bytes = str_skip(bytes, sizeof(len) + len);
                n++;
        }
        *ret = n;
        return true;
}

struct error *input_check_count(const struct load_tensor *t, const struct input_values *v) {
        uint64_t wanted, n;

        TRY(input_shape_count(t, &v->shape, &wanted));
        if (!input_count_elements(t, v->bytes, &n))
                return error_new(ERR_INVALID_ARG, "'%s': its bytes end within an element of %s",
                                 t->name, t->datatype);
        if (n != wanted)
                return error_new(ERR_INVALID_ARG, "'%s' has %llu elements, its shape has %llu",
                                 t->name, (unsigned long long)n, (unsigned long long)wanted);
        return NULL;
}

void input_set_done(struct input_set *s) {
        arena_done(&s->arena);
        free(s->entries);
        free(s->streams);
        s->entries = NULL;
        s->streams = NULL;
}
