/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/implicit_state.h"

#include "base/byte_budget.h"
#include "base/mem.h"
#include "config/shape.h"
#include "config/state_specs.h"
#include "infer/model.h"
#include "infer/request.h"

#include <string.h>

#define STATE_ALIGNMENT 64
/* A state has at most one buffer each for the value that is read, the updated value and the value being
 * written. Most models use two of them. */
#define N_BUFFERS 3
#define NO_BUFFER N_BUFFERS

struct state_buffer {
        void  *bytes; /* owned */
        size_t n_room;
};

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
        struct state_buffer      buffers[N_BUFFERS];
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

static struct byte_budget *budget_of(const struct implicit_state *state) {
        return state->owner->specs->budget;
}

static void free_buffer(const struct implicit_state *state, struct state_buffer *b) {
        if (b->bytes == NULL)
                return;
        mem_free_large(b->bytes, b->n_room);
        if (budget_of(state) != NULL)
                byte_budget_give(budget_of(state), b->n_room);
        *b = (struct state_buffer){ 0 };
}

static void *alloc_charged(struct byte_budget *budget, size_t n) {
        void *bytes;

        if (budget != NULL && !byte_budget_take(budget, n))
                return NULL;
        bytes = try_aligned_alloc(STATE_ALIGNMENT, n);
        if (bytes == NULL && budget != NULL)
                byte_budget_give(budget, n);
        return bytes;
}

static bool reserve_buffer(const struct implicit_state *state, struct state_buffer *b,
                           size_t n_bytes) {
        size_t n_room = MAX(n_bytes, (size_t)STATE_ALIGNMENT);
        void  *bytes;

        if (b->n_room >= n_bytes && b->bytes != NULL)
                return true;
        /* Room for growth: a value that grows with each request is not reallocated each time. */
        if (b->bytes != NULL && b->n_room / 2 <= SIZE_MAX - b->n_room)
                n_room = MAX(n_room, b->n_room + b->n_room / 2);
        if (n_room > SIZE_MAX - STATE_ALIGNMENT)
                return false;
        n_room = (n_room + STATE_ALIGNMENT - 1) / STATE_ALIGNMENT * STATE_ALIGNMENT;
        bytes = alloc_charged(budget_of(state), n_room);
        if (bytes == NULL)
                return false;
        free_buffer(state, b);
        *b = (struct state_buffer){ bytes, n_room };
        return true;
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
        in->only_chunk.attributes = (struct buffer_attributes){ .byte_size = state->read.n_bytes };
}

/* `bytes` NULL: sets zeros. */
static bool set_value(struct implicit_state *state, const void *bytes, size_t n_bytes) {
        struct state_buffer *buffer = &state->buffers[state->reading];

        if (!reserve_buffer(state, buffer, n_bytes))
                return false;
        if (bytes != NULL)
                memcpy(buffer->bytes, bytes, n_bytes);
        else
                memset(buffer->bytes, 0, n_bytes);
        state->read.n_bytes = n_bytes;
        state->updated = state->writing = NO_BUFFER;
        update_input(state);
        return true;
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
        if (!implicit_states_reset(s)) {
                implicit_states_free(s);
                return NULL;
        }
        return s;
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

bool implicit_states_reset(struct implicit_states *s) {
        for (uint32_t i = 0; i < s->specs->n; i++) {
                struct implicit_state   *state = &s->states[i];
                const struct state_spec *spec = state->spec;

                if (!set_form(&state->read, spec->type, spec->dims, spec->n_dims) ||
                    !set_value(state, s->kind != STATES_OF_NULL ? spec->initial : NULL,
                               spec->n_bytes))
                        return false;
        }
        return true;
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

bool implicit_states_imitate(struct implicit_states *null, const struct implicit_states *like) {
        for (uint32_t i = 0; i < null->specs->n; i++) {
                struct implicit_state       *state = &null->states[i];
                const struct implicit_state *pattern = &like->states[i];
                size_t                       n_bytes = zero_bytes_like(pattern);

                if (!set_form(&state->read, pattern->read.type, pattern->read.dims,
                              pattern->read.n_dims))
                        return false;
                /* The buffer still holds zeros, unless a backend could write to it. */
                if (n_bytes == state->read.n_bytes && !state->spec->is_in_place)
                        update_input(state);
                else if (!set_value(state, NULL, n_bytes))
                        return false;
        }
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
                return error_new(ERR_UNAVAILABLE, "out of memory for state '%s'", name);
        state->writing = NO_BUFFER;
        state->attributes = (struct buffer_attributes){ 0 };
        *ret = state;
        return NULL;
}

static unsigned pick_buffer(const struct implicit_state *state, size_t n_bytes) {
        unsigned i = 0;

        if (state->spec->is_in_place && state->buffers[state->reading].n_room >= n_bytes)
                return state->reading;
        while (i == state->reading || i == state->updated)
                i++;
        return i;
}

struct error *implicit_state_buffer(struct implicit_state *state, uint64_t n_bytes, void **ret) {
        unsigned i = pick_buffer(state, (size_t)n_bytes);

        if (!reserve_buffer(state, &state->buffers[i], (size_t)n_bytes))
                return error_new(ERR_UNAVAILABLE, "out of memory for the %llu bytes of state '%s'",
                                 (unsigned long long)n_bytes, state->spec->output_name);
        state->writing = i;
        state->next.n_bytes = (size_t)n_bytes;
        state->attributes = (struct buffer_attributes){ .byte_size = (size_t)n_bytes };
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
                        return error_new(ERR_UNAVAILABLE, "out of memory for state '%s'",
                                         state->spec->output_name);
                state->update.n_bytes = state->next.n_bytes;
                state->updated = state->writing;
        }
        state->writing = NO_BUFFER;
        return NULL;
}
