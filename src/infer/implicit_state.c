/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/implicit_state.h"

#include "base/mem.h"
#include "config/shape.h"
#include "config/state_specs.h"
#include "gpu/gpu.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/state_memory.h"

#include <string.h>

/* A state has at most one buffer each for the value that is read, the updated value and the value being
 * written. Most models use two of them. */
#define N_BUFFERS 3
#define NO_BUFFER N_BUFFERS

/* The type and shape of a value. */
struct state_form {
        enum data_type type;
        uint32_t       n_dims;
        uint32_t       n_room;
        size_t         n_bytes;
        int64_t       *dims; /* owned */
};

struct implicit_state {
        const struct state_spec *spec;   /* borrowed from the specs */
        struct implicit_states  *owner;  /* borrowed */
        struct request_input     input;  /* the value that is read */
        struct state_form        read;   /* of the value that is read */
        struct state_form        update; /* of the updated value; valid with `updated` */
        struct state_form        next;   /* of the value being written */
        struct state_memory      buffers[N_BUFFERS];
        unsigned                 reading;
        unsigned                 updated; /* index of the updated buffer; NO_BUFFER: none */
        unsigned                 writing; /* index of the buffer being written; NO_BUFFER: none */
        struct buffer_attributes attributes;
};

struct implicit_states {
        const struct state_specs *specs; /* borrowed */
        struct implicit_states   *next;  /* next in a list of sets to be freed */
        /* The link in the request that points to the first of them; NULL: not attached. */
        struct request_input    **attached;
        uint32_t                  n_attached;
        enum implicit_states_kind kind;
        struct implicit_state     states[];
};

/* ---- values ---------------------------------------------------------------------------------- */

static struct state_source source_of(const struct implicit_state *state) {
        const struct state_specs *specs = state->owner->specs;

        return (struct state_source){ specs->gpus, specs->budget };
}

/* A null request has zeros, which need not grow. */
static bool grows_at(const struct implicit_state *state, struct state_place place) {
        return state->spec->is_growable && place.type == MEMORY_GPU &&
               state->owner->kind != STATES_OF_NULL;
}

static void free_buffer(const struct implicit_state *state, struct state_memory *b) {
        struct state_source source = source_of(state);

        state_memory_free(&source, b);
}

static struct error *reserve_buffer(const struct implicit_state *state, struct state_memory *b,
                                    struct state_place place, size_t n_bytes) {
        struct state_source source = source_of(state);

        return state_memory_reserve(&source, b, place, grows_at(state, place), n_bytes);
}

static bool set_form(struct state_form *f, enum data_type type, const int64_t *dims,
                     uint32_t n_dims) {
        if (f->n_room < n_dims || f->dims == NULL) {
                int64_t *larger = try_realloc(f->dims, MAX(n_dims, 1) * sizeof(*larger));

                if (larger == NULL)
                        return false;
                f->dims = larger;
                f->n_room = MAX(n_dims, 1);
        }
        if (n_dims > 0)
                memcpy(f->dims, dims, n_dims * sizeof(*dims));
        f->type = type;
        f->n_dims = n_dims;
        return true;
}

static void swap_forms(struct state_form *a, struct state_form *b) {
        struct state_form old = *a;

        *a = *b;
        *b = old;
}

/* Makes the input refer to the buffer that is read. */
static void update_input(struct implicit_state *state) {
        struct request_input *in = &state->input;

        in->type = state->read.type;
        in->shape = in->given_shape = state->read.dims;
        in->n_dims = in->n_given_dims = state->read.n_dims;
        in->byte_size = state->read.n_bytes;
        in->only_chunk.base = state->buffers[state->reading].bytes;
        in->only_chunk.attributes =
                state_place_attributes(state->buffers[state->reading].place, state->read.n_bytes);
}

/* `bytes` NULL: sets zeros. */
static struct error *set_value(struct implicit_state *state, struct state_place place,
                               const void *bytes, size_t n_bytes) {
        struct state_memory *buffer = &state->buffers[state->reading];
        struct state_source  source = source_of(state);

        state->read.n_bytes =
                0; /* after a failure the buffer may be another one, with anything in it */
        TRY(reserve_buffer(state, buffer, place, n_bytes));
        TRY(state_memory_write(&source, buffer, bytes, n_bytes));
        state->read.n_bytes = n_bytes;
        state->updated = state->writing = NO_BUFFER;
        update_input(state);
        return NULL;
}

/* Where the value that is read is, or will be. */
static struct state_place place_of(const struct implicit_state *state) {
        const struct state_memory *m = &state->buffers[state->reading];

        return m->bytes != NULL ? m->place : (struct state_place){ MEMORY_CPU, GPU_HOST };
}

/* ---- sets of states -------------------------------------------------------------------------- */

static void init_state(struct implicit_states *s, uint32_t i) {
        struct implicit_state *state = &s->states[i];

        state->spec = &s->specs->states[i];
        state->owner = s;
        state->updated = state->writing = NO_BUFFER;
        state->input.name = state->spec->input_name;
        state->input.n_chunks = state->input.n_plain = 1;
        state->input.first_chunk = state->input.last_chunk = &state->input.only_chunk;
}

struct implicit_states *implicit_states_new(const struct state_specs *specs,
                                            enum implicit_states_kind kind) {
        struct implicit_states *s;
        size_t                  n;

        if (!size_mul(specs->n, sizeof(struct implicit_state), &n) || !size_add(n, sizeof(*s), &n))
                return NULL;
        s = try_zalloc(n);
        if (s == NULL)
                return NULL;
        s->specs = specs;
        s->kind = kind;
        for (uint32_t i = 0; i < specs->n; i++)
                init_state(s, i);

        AUTO_ERROR err = implicit_states_reset(s);

        if (err == NULL)
                return s;
        implicit_states_free(s);
        return NULL;
}

static void free_state(struct implicit_state *state) {
        for (unsigned i = 0; i < N_BUFFERS; i++)
                free_buffer(state, &state->buffers[i]);
        free(state->read.dims);
        free(state->update.dims);
        free(state->next.dims);
}

void implicit_states_free(struct implicit_states *s) {
        if (s == NULL)
                return;
        for (uint32_t i = 0; i < s->specs->n; i++)
                free_state(&s->states[i]);
        free(s);
}

void implicit_states_put(struct implicit_states **list, struct implicit_states *s) {
        if (s == NULL)
                return;
        s->next = *list;
        *list = s;
}

void implicit_states_free_list(struct implicit_states *list) {
        for (struct implicit_states *next; list != NULL; list = next) {
                next = list->next;
                implicit_states_free(list);
        }
}

static struct error *out_of_memory(const struct implicit_state *state) {
        return error_new(ERR_UNAVAILABLE, "out of memory for state '%s'", state->spec->output_name);
}

static struct error *reset_state(struct implicit_state *state) {
        const struct state_spec *spec = state->spec;
        bool                     is_null = state->owner->kind == STATES_OF_NULL;

        if (!set_form(&state->read, spec->type, spec->dims, spec->n_dims))
                return out_of_memory(state);
        return set_value(state, place_of(state), is_null ? NULL : spec->initial, spec->n_bytes);
}

struct error *implicit_states_reset(struct implicit_states *s) {
        for (uint32_t i = 0; i < s->specs->n; i++)
                TRY(reset_state(&s->states[i]));
        return NULL;
}

/* Whether an instance on that device can read the value where it is. */
static bool may_stay(const struct implicit_state *state, int device) {
        struct state_place place = place_of(state);

        if (place.type == MEMORY_GPU)
                return place.device == device;
        return device == GPU_HOST || !state->spec->is_in_place;
}

/* Leaves no memory at the former place. */
static struct error *move_state(struct implicit_state *state, int device) {
        struct state_place  place = { device != GPU_HOST ? MEMORY_GPU : MEMORY_CPU, device };
        struct state_source source = source_of(state);
        struct state_memory moved = { 0 };

        if (state_memory_is_at(&state->buffers[state->reading], place))
                return NULL; /* the device had no room before */
        TRY(reserve_buffer(state, &moved, place, state->read.n_bytes));
        TRY_OR(state_memory_copy(&source, &moved, &state->buffers[state->reading],
                                 state->read.n_bytes),
               free_buffer(state, &moved));
        for (unsigned i = 0; i < N_BUFFERS; i++)
                free_buffer(state, &state->buffers[i]);
        state->buffers[state->reading] = moved;
        update_input(state);
        return NULL;
}

struct error *implicit_states_move(struct implicit_states *s, int device) {
        for (uint32_t i = 0; i < s->specs->n; i++)
                if (!may_stay(&s->states[i], device))
                        TRY(move_state(&s->states[i], device));
        return NULL;
}

struct error *implicit_states_bring(struct implicit_states *s, const struct model *model, int gpu) {
        if (model->gpus == NULL || (model->takes_device_memory && gpu == GPU_HOST))
                return NULL;
        return implicit_states_move(s, model->takes_device_memory ? gpu : GPU_HOST);
}

/* For BYTES: empty strings, each a length of zero in four bytes. */
static size_t zero_bytes_like(const struct implicit_state *like) {
        int64_t n_strings;

        if (like->read.type != DATA_TYPE_BYTES)
                return like->read.n_bytes;
        n_strings = shape_element_count(like->read.dims, like->read.n_dims);
        return n_strings > 0 && n_strings < INT64_MAX / 4 ? (size_t)n_strings * sizeof(uint32_t)
                                                          : 0;
}

/* A device without room, or one that fails, is no reason to have no null request. */
static bool set_zeros(struct implicit_state *state, struct state_place place, size_t n_bytes) {
        static const struct state_place on_host = { MEMORY_CPU, GPU_HOST };
        AUTO_ERROR                      err = set_value(state, place, NULL, n_bytes);
        AUTO_ERROR                      second = err != NULL && place.type == MEMORY_GPU
                                                         ? set_value(state, on_host, NULL, n_bytes)
                                                         : NULL;

        return err == NULL || (place.type == MEMORY_GPU && second == NULL);
}

static bool imitate_state(struct implicit_state *state, const struct implicit_state *pattern) {
        struct state_place place = place_of(pattern);
        size_t             n_bytes = zero_bytes_like(pattern);

        if (!set_form(&state->read, pattern->read.type, pattern->read.dims, pattern->read.n_dims))
                return false;
        /* The buffer still holds zeros, unless a backend could write to it. */
        if (n_bytes != state->read.n_bytes || state->spec->is_in_place ||
            !state_memory_is_at(&state->buffers[state->reading], place))
                return set_zeros(state, place, n_bytes);
        update_input(state);
        return true;
}

bool implicit_states_imitate(struct implicit_states *null, const struct implicit_states *like) {
        for (uint32_t i = 0; i < null->specs->n; i++)
                if (!imitate_state(&null->states[i], &like->states[i]))
                        return false;
        return true;
}

bool implicit_states_same_shape(const struct implicit_states *a, const struct implicit_states *b) {
        for (uint32_t i = 0; i < a->specs->n; i++) {
                const struct state_form *x = &a->states[i].read, *y = &b->states[i].read;

                if (x->type != y->type || !shape_equal(x->dims, x->n_dims, y->dims, y->n_dims))
                        return false;
        }
        return true;
}

/* ---- attaching and detaching ------------------------------------------------------------------ */

void implicit_states_attach(struct implicit_states *s, struct request *req) {
        struct request_input **end = &req->first_input;

        while (*end != NULL)
                end = &(*end)->next;
        s->attached = end;
        s->n_attached = 0;
        for (uint32_t i = 0; i < s->specs->n; i++) {
                struct request_input *in = &s->states[i].input;

                if (s->kind == STATES_OF_SAMPLE && request_find_input(req, in->name) != NULL)
                        continue;
                in->next = NULL;
                *end = in;
                end = &in->next;
                s->n_attached++;
        }
        req->n_inputs += s->n_attached;
        req->states = s;
        req->has_states = true;
}

static void apply_update(struct implicit_state *state) {
        unsigned old = state->reading;

        state->writing = NO_BUFFER;
        if (state->updated == NO_BUFFER)
                return;
        state->reading = state->updated;
        state->updated = NO_BUFFER;
        swap_forms(&state->read, &state->update);
        if (state->spec->is_in_place && state->reading != old)
                free_buffer(state, &state->buffers[old]); /* outgrown by the new value */
        update_input(state);
}

void implicit_states_detach(struct request *req) {
        struct implicit_states *s = req->has_states ? req->states : NULL;

        if (s == NULL)
                return;
        *s->attached = NULL;
        req->n_inputs -= s->n_attached;
        req->has_states = false;
        for (uint32_t i = 0; i < s->specs->n; i++)
                apply_update(&s->states[i]);
}

/* ---- calls of backends ------------------------------------------------------------------------ */

static struct implicit_state *find_state(const struct request *req, const char *name) {
        struct implicit_states *s = req->states;

        for (uint32_t i = 0; i < s->specs->n; i++)
                if (strcmp(s->states[i].spec->output_name, name) == 0)
                        return &s->states[i];
        return NULL;
}

struct error *implicit_state_new(struct request *req, const char *name, enum data_type type,
                                 const int64_t *shape, uint32_t n_dims,
                                 struct implicit_state **ret) {
        struct implicit_state *state;

        if (!req->has_states)
                return request_error(req, ERR_INVALID_ARG,
                                     "unable to add state '%s'. State configuration is missing for "
                                     "model '%s'.",
                                     name, req->model->name);
        state = find_state(req, name);
        if (state == NULL)
                return error_new(ERR_INVALID_ARG, "state '%s' is not a valid state name.", name);
        if (n_dims > REQUEST_MAX_DIMS)
                return error_new(ERR_INVALID_ARG,
                                 "state '%s' has %u dimensions, at most %d are supported", name,
                                 n_dims, REQUEST_MAX_DIMS);
        if (data_type_name(type) == data_type_name(DATA_TYPE_INVALID))
                return error_new(ERR_INVALID_ARG, "state '%s' has an invalid data type", name);
        if (!set_form(&state->next, type, shape, n_dims))
                return out_of_memory(state);
        state->writing = NO_BUFFER;
        state->attributes = (struct buffer_attributes){ 0 };
        *ret = state;
        return NULL;
}

/* True when the value that is read may be replaced where it is. */
static bool is_replaced(const struct implicit_state *state, struct state_place place,
                        size_t n_bytes) {
        const struct state_memory *m = &state->buffers[state->reading];

        return state->spec->is_in_place && state_memory_is_at(m, place) &&
               (m->n_room >= n_bytes || m->growable != NULL);
}

static unsigned pick_buffer(const struct implicit_state *state, struct state_place place,
                            size_t n_bytes) {
        unsigned i = 0;

        if (is_replaced(state, place, n_bytes))
                return state->reading;
        while (i == state->reading || i == state->updated)
                i++;
        return i;
}

/* Moves a state with one buffer to another kind of memory. */
static struct error *take_old_value(struct implicit_state *state, unsigned to,
                                    struct state_place place, size_t n_bytes) {
        const struct state_memory *old = &state->buffers[state->reading];
        struct state_source        source = source_of(state);

        if (!state->spec->is_in_place || to == state->reading || state_memory_is_at(old, place))
                return NULL;
        return state_memory_copy(&source, &state->buffers[to], old,
                                 MIN(n_bytes, state->read.n_bytes));
}

static struct error *no_memory(const struct implicit_state *state, uint64_t n_bytes,
                               struct state_place place, struct error *why) {
        struct error *err;

        if (place.type == MEMORY_GPU)
                return error_prefix(why, "state '%s': ", state->spec->output_name);
        err = error_new(ERR_UNAVAILABLE, "out of memory for the %llu bytes of state '%s'",
                        (unsigned long long)n_bytes, state->spec->output_name);
        error_free(why);
        return err;
}

struct error *implicit_state_buffer(struct implicit_state *state, uint64_t n_bytes,
                                    enum memory_type *type, int64_t *id, void **ret) {
        struct state_place place;
        struct error      *err;
        unsigned           i;

        TRY(state_place_find(state->owner->specs->gpus, *type, *id, &place));
        i = pick_buffer(state, place, (size_t)n_bytes);
        err = reserve_buffer(state, &state->buffers[i], place, (size_t)n_bytes);
        if (err != NULL)
                return no_memory(state, n_bytes, place, err);
        TRY(take_old_value(state, i, place, (size_t)n_bytes));
        state->writing = i;
        state->next.n_bytes = (size_t)n_bytes;
        state->attributes = state_place_attributes(state->buffers[i].place, (size_t)n_bytes);
        *type = state->attributes.memory_type;
        *id = state->attributes.memory_id;
        *ret = state->buffers[i].bytes;
        return NULL;
}

struct buffer_attributes *implicit_state_attributes(struct implicit_state *state) {
        return &state->attributes;
}

struct error *implicit_state_update(struct implicit_state *state) {
        if (state->writing == NO_BUFFER)
                return error_new(ERR_INVALID_ARG,
                                 "state '%s' has no new value: TRITONBACKEND_StateBuffer comes "
                                 "before TRITONBACKEND_StateUpdate",
                                 state->spec->output_name);
        if (state->owner->kind == STATES_OF_SEQUENCE) {
                /* Copies the form, since the backend may begin another value with the same state. */
                if (!set_form(&state->update, state->next.type, state->next.dims,
                              state->next.n_dims))
                        return out_of_memory(state);
                state->update.n_bytes = state->next.n_bytes;
                state->updated = state->writing;
        }
        state->writing = NO_BUFFER;
        return NULL;
}
