/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences of the testing backend: what an instance remembers of each, and implicit states. */
#include "kit/input.h"
#include "kit/output.h"
#include "kit/string_tensor.h"
#include "testing/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ID 256

/* Returns false when the request has no correlation id. */
static bool read_id(TRITONBACKEND_Request *request, char ret[MAX_ID]) {
        const char         *text = "";
        uint64_t            number = 0;
        TRITONSERVER_Error *err = TRITONBACKEND_RequestCorrelationId(request, &number);

        if (err == NULL) {
                snprintf(ret, MAX_ID, "%llu", (unsigned long long)number);
                return number != 0;
        }
        TRITONSERVER_ErrorDelete(err);
        err = TRITONBACKEND_RequestCorrelationIdString(request, &text);
        if (err != NULL) {
                TRITONSERVER_ErrorDelete(err);
                return false;
        }
        snprintf(ret, MAX_ID, "'%s'", text);
        return true;
}

static uint32_t flags_of(TRITONBACKEND_Request *request) {
        uint32_t            flags = 0;
        TRITONSERVER_Error *err = TRITONBACKEND_RequestFlags(request, &flags);

        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return flags;
}

bool testing_sequence_begins(TRITONBACKEND_Request *request) {
        return (flags_of(request) & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0;
}

static bool is_cancelled(TRITONBACKEND_Request *request) {
        bool                is_cancelled = false;
        TRITONSERVER_Error *err = TRITONBACKEND_RequestIsCancelled(request, &is_cancelled);

        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return is_cancelled;
}

bool testing_sequence_is_closing(TRITONBACKEND_Request *request) {
        return is_cancelled(request) &&
               (flags_of(request) & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0;
}

void testing_sequence_forget(struct testing_instance *instance, TRITONBACKEND_Request *request) {
        struct testing_sequence **at = &instance->sequences;
        struct testing_sequence  *found;
        char                      id[MAX_ID];

        if (!read_id(request, id))
                return;
        while (*at != NULL && strcmp((*at)->id, id) != 0)
                at = &(*at)->next;
        found = *at;
        if (found == NULL)
                return;
        *at = found->next;
        free(found);
}

TRITONSERVER_Error *testing_sequence_note(const struct testing_instance *instance,
                                          TRITONBACKEND_Request         *request) {
        char line[MAX_ID + 64], id[MAX_ID];
        int  len;

        if (instance->model->sequence_log < 0)
                return NULL;
        if (!read_id(request, id))
                strcpy(id, "-");
        len = snprintf(line, sizeof(line), "%s %u %d\n", id, flags_of(request),
                       is_cancelled(request));
        return testing_write(instance->model->sequence_log, line, (size_t)len);
}

struct testing_sequence *testing_sequence_of(struct testing_instance *instance,
                                             TRITONBACKEND_Request   *request) {
        struct testing_sequence *s = instance->sequences;
        char                     id[MAX_ID];

        if (!read_id(request, id))
                return NULL;
        while (s != NULL && strcmp(s->id, id) != 0)
                s = s->next;
        if (s == NULL) {
                s = malloc(sizeof(*s) + strlen(id) + 1);
                if (s == NULL)
                        return NULL;
                *s = (struct testing_sequence){ .next = instance->sequences };
                strcpy(s->id, id);
                instance->sequences = s;
        }
        return s;
}

int32_t testing_first_value(const struct testing_instance *instance,
                            TRITONBACKEND_Request         *request) {
        struct kit_input input;
        void            *bytes;
        int32_t          value = 0;

        if (!kit_input_find(request, "INPUT0", &input) || input.n_bytes < sizeof(value) ||
            (bytes = malloc(input.n_bytes)) == NULL)
                return 0;
        kit_error_log(testing_copy(instance, &input, bytes), "a value cannot be read");
        memcpy(&value, bytes, sizeof(value));
        free(bytes);
        return value;
}

void testing_sequences_free(struct testing_instance *instance) {
        for (struct testing_sequence *s = instance->sequences, *next; s != NULL; s = next) {
                next = s->next;
                free(s);
        }
}

/* ---- states --------------------------------------------------------------------------------- */

/* One state of one request. */
struct step {
        const struct testing_instance *instance; /* borrowed */
        const char                    *output;   /* borrowed: the configuration */
        struct kit_input               old;
        const char                    *bytes; /* borrowed: the old value */
        size_t                         n_elements;
        int32_t                        value; /* of the request */
        bool                           has_open_dim;
        bool                           is_left; /* the new value is not kept */
        struct testing_addresses      *addresses;
};

static bool has_open_dim(const struct kit_json_value *state) {
        const struct kit_json_value *dims = kit_json_find(state, "dims");

        for (const struct kit_json_value *at = dims != NULL ? dims->first : NULL; at != NULL;
             at = at->next)
                if (kit_json_int(at, 0) < 0)
                        return true;
        return false;
}

static TRITONSERVER_Error *make(TRITONBACKEND_Request *request, const struct step *s,
                                const int64_t *shape, size_t n_bytes, TRITONBACKEND_State **ret,
                                struct testing_buffer *ret_buffer) {
        struct kit_output output = {
                .name = s->output, .type = s->old.type, .shape = shape, .n_dims = s->old.n_dims
        };

        KIT_TRY(testing_state_new(s->instance, request, &output, n_bytes, ret, ret_buffer));
        s->addresses->written = ret_buffer->at;
        return NULL;
}

static TRITONSERVER_Error *finish_state(const struct step *s, TRITONBACKEND_State *state,
                                        const struct testing_buffer *buffer) {
        KIT_TRY(testing_put(s->instance, buffer));
        return s->is_left ? NULL : TRITONBACKEND_StateUpdate(state);
}

static TRITONSERVER_Error *step_numbers(TRITONBACKEND_Request *request, const struct step *s) {
        size_t                n_new = s->n_elements + (s->has_open_dim ? 1 : 0);
        int64_t               shape[KIT_MAX_DIMS];
        struct testing_buffer buffer;
        TRITONBACKEND_State  *state;

        memcpy(shape, s->old.shape, s->old.n_dims * sizeof(*shape));
        if (s->has_open_dim)
                shape[s->old.n_dims - 1]++;
        KIT_TRY(make(request, s, shape, n_new * sizeof(int32_t), &state, &buffer));
        for (size_t i = 0; i < n_new; i++) {
                int32_t old = 0;

                if (i < s->n_elements)
                        memcpy(&old, s->bytes + i * sizeof(old), sizeof(old));
                if (!s->has_open_dim || i == s->n_elements)
                        old += s->value;
                memcpy((char *)buffer.bytes + i * sizeof(old), &old, sizeof(old));
        }
        return finish_state(s, state, &buffer);
}

/* Appends the number and a semicolon to each text. */
static TRITONSERVER_Error *put_texts(TRITONBACKEND_Request *request, const struct step *s,
                                     struct kit_string *texts, char *room) {
        size_t                end_len, n_bytes;
        struct testing_buffer buffer;
        TRITONBACKEND_State  *state;
        char                  end[16];

        KIT_TRY(kit_strings_decode(s->bytes, s->old.n_bytes, s->n_elements, s->old.name, texts));
        end_len = (size_t)snprintf(end, sizeof(end), "%" PRId32 ";", s->value);
        for (size_t i = 0; i < s->n_elements; i++) {
                memcpy(room, texts[i].chars, texts[i].len);
                memcpy(room + texts[i].len, end, end_len);
                texts[i].chars = room;
                texts[i].len += (uint32_t)end_len;
                room += texts[i].len;
        }
        n_bytes = kit_string_list_size(texts, s->n_elements);
        KIT_TRY(make(request, s, s->old.shape, n_bytes, &state, &buffer));
        kit_string_list_encode(texts, s->n_elements, buffer.bytes);
        return finish_state(s, state, &buffer);
}

static TRITONSERVER_Error *step_texts(TRITONBACKEND_Request *request, const struct step *s) {
        struct kit_string  *texts = kit_alloc_array(s->n_elements, sizeof(*texts));
        char               *room = malloc(s->old.n_bytes + 16 * s->n_elements + 1);
        TRITONSERVER_Error *err;

        if (texts == NULL || room == NULL)
                err = kit_error_no_memory(s->old.n_bytes, s->old.name);
        else
                err = put_texts(request, s, texts, room);
        free(texts);
        free(room);
        return err;
}

static TRITONSERVER_Error *step_one(TRITONBACKEND_Request       *request,
                                    const struct kit_json_value *state, struct step *s) {
        const char *input = kit_json_string(kit_json_find(state, "input_name"), "");
        const void *bytes, *at;

        s->output = kit_json_string(kit_json_find(state, "output_name"), "");
        s->has_open_dim = has_open_dim(state);
        KIT_TRY(kit_input_open(request, input, &s->old));
        KIT_TRY(testing_borrow(s->instance, &s->old, &bytes, &at));
        KIT_TRY(kit_count_elements(s->old.shape, s->old.n_dims, input, &s->n_elements));
        s->bytes = bytes;
        s->addresses->read = at;
        return s->old.type == TRITONSERVER_TYPE_BYTES ? step_texts(request, s)
                                                      : step_numbers(request, s);
}

TRITONSERVER_Error *testing_states_step(const struct testing_instance *instance,
                                        TRITONBACKEND_Request *request, bool is_left,
                                        struct testing_addresses *ret) {
        const struct kit_json_value *list =
                kit_json_find(kit_json_root(instance->model->kit.config),
                              "sequence_batching/state");

        for (const struct kit_json_value *at = list != NULL ? list->first : NULL; at != NULL;
             at = at->next) {
                struct step s = { .instance = instance,
                                  .value = testing_first_value(instance, request),
                                  .is_left = is_left,
                                  .addresses = ret };

                KIT_TRY(step_one(request, at, &s));
        }
        return NULL;
}
