/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/model_config.h"

#include "base/mem.h"
#include "codec/pb_json.h"
#include "codec/pb_text.h"
#include "codec/pb_text_review.h"

static struct model_config *config_alloc(void) {
        struct model_config *c = mem_zalloc(sizeof(*c));

        arena_init(&c->arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        return c;
}

struct model_config *model_config_new(void) {
        struct model_config *c = config_alloc();

        c->pb = ARENA_NEW(&c->arena, Inference__ModelConfig);
        inference__model_config__init(c->pb);
        return c;
}

void model_config_free(struct model_config *c) {
        if (c == NULL)
                return;
        arena_done(&c->arena);
        free(c);
}

/* A text of empty messages ("{},") takes some fifty times its size in memory, and again for each copy. Those
 * that say something take some four times. The part for any text is more than most configurations need. */
#define FREE_BYTES ((size_t)1 << 20) /* for any text */
#define BYTES_PER_TEXT_BYTE 4

/* Half of the arena is reserved for additions of normalize and complete. */
static void begin_reading(struct model_config *c, size_t n_text) {
        arena_set_max(&c->arena, MIN(FREE_BYTES + BYTES_PER_TEXT_BYTE * n_text,
                                     MODEL_CONFIG_ARENA_MAX_BYTES / 2));
}

/* Ends the reading. Takes `err`, which may be NULL; a message that the arena has no room for is too large. */
static struct error *end_reading(struct model_config *c, size_t n_text, struct error *err) {
        size_t max = arena_max(&c->arena);

        arena_set_max(&c->arena, MODEL_CONFIG_ARENA_MAX_BYTES);
        if (err == NULL || err->code != ERR_UNAVAILABLE || c->arena.lacked_memory)
                return err;
        error_free(err);
        return error_new(ERR_INVALID_ARG,
                         "model configuration is too large: its text of %zu bytes takes more than "
                         "%zu bytes of memory",
                         n_text, max);
}

static struct error *check_text_size(struct str text) {
        if (text.len > MODEL_CONFIG_TEXT_MAX_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "model configuration has %zu bytes, more than %zu", text.len,
                                 MODEL_CONFIG_TEXT_MAX_BYTES);
        return NULL;
}

struct error *model_config_read_text(struct str text, const char *path, struct model_config **ret) {
        AUTO_MODEL_CONFIG c = NULL;
        ProtobufCMessage *message;

        TRY(check_text_size(text));
        c = config_alloc();
        begin_reading(c, text.len);
        TRY(end_reading(c, text.len,
                        pb_text_read(&inference__model_config__descriptor, text, path, &c->arena,
                                     &message)));
        c->pb = (Inference__ModelConfig *)message;
        *ret = STEAL(c);
        return NULL;
}

struct error *model_config_read_all(struct pb_text_review *review, struct str text,
                                    struct model_config **ret) {
        AUTO_MODEL_CONFIG c = NULL;
        ProtobufCMessage *message;

        TRY(check_text_size(text));
        c = config_alloc();
        begin_reading(c, text.len);
        TRY(end_reading(c, text.len,
                        pb_text_read_all(review, &inference__model_config__descriptor, text, NULL,
                                         &c->arena, &message)));
        c->pb = (Inference__ModelConfig *)message;
        *ret = STEAL(c);
        return NULL;
}

struct error *model_config_read_json(struct str json, struct model_config **ret) {
        AUTO_MODEL_CONFIG c = NULL;
        ProtobufCMessage *message;

        TRY(check_text_size(json));
        c = config_alloc();
        begin_reading(c, json.len);
        TRY(end_reading(c, json.len,
                        pb_json_read(&inference__model_config__descriptor, json, &c->arena,
                                     &message)));
        c->pb = (Inference__ModelConfig *)message;
        *ret = STEAL(c);
        return NULL;
}

static void *allocate_piece(void *arena, size_t bytes) {
        return arena_try_alloc(arena, bytes);
}

/* Frees nothing: the arena frees all its memory at once. */
static void free_piece(void *arena, void *piece) {
        (void)arena;
        (void)piece;
}

Inference__ModelConfig *model_config_copy_message(struct model_config          *c,
                                                  const Inference__ModelConfig *from) {
        ProtobufCAllocator      allocator = { allocate_piece, free_piece, &c->arena };
        size_t                  n_bytes = inference__model_config__get_packed_size(from);
        uint8_t                *wire = try_alloc(MAX(n_bytes, 1));
        Inference__ModelConfig *copy;

        if (wire == NULL) {
                c->arena.lacked_memory = true;
                return NULL;
        }
        inference__model_config__pack(from, wire);
        copy = inference__model_config__unpack(&allocator, n_bytes, wire);
        free(wire);
        return copy;
}

struct error *model_config_copy(const struct model_config *from, struct model_config **ret) {
        AUTO_MODEL_CONFIG c = config_alloc();

        c->pb = model_config_copy_message(c, from->pb);
        if (c->pb == NULL)
                return model_config_full(&c->arena);
        *ret = STEAL(c);
        return NULL;
}

/* proto3 JSON writes 64-bit integers as strings; the reference server converts them to numbers
 * after printing, except in these three messages (model configuration: JSON form). */
static bool is_number(const ProtobufCMessageDescriptor *type,
                      const ProtobufCFieldDescriptor   *field) {
        (void)field;
        return type != &inference__model_sequence_batching__initial_state__descriptor &&
               type != &inference__model_optimization_policy__cuda__graph_spec__shape__descriptor &&
               type != &inference__model_instance_group__secondary_device__descriptor;
}

struct error *model_config_print_json(const struct model_config *c, uint32_t config_version,
                                      struct strbuf *to) {
        static const struct pb_json_options options = { .int64_as_number = is_number };

        if (config_version != MODEL_CONFIG_VERSION)
                return error_new(ERR_INVALID_ARG,
                                 "model configuration version %u not supported, supported versions "
                                 "are: %d",
                                 config_version, MODEL_CONFIG_VERSION);
        pb_json_print(&c->pb->base, &options, to);
        if (to->overflowed && !to->no_memory)
                return error_new(ERR_INTERNAL, "model configuration of '%s' is too large to print",
                                 c->pb->name);
        return strbuf_check(to, "the text of a model configuration");
}

bool model_config_is_ensemble(const struct model_config *c) {
        return c->pb->scheduling_choice_case ==
               INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING;
}

bool model_config_is_decoupled(const struct model_config *c) {
        return c->pb->model_transaction_policy != NULL &&
               c->pb->model_transaction_policy->decoupled;
}

bool model_config_has_response_cache(const struct model_config *c) {
        return c->pb->response_cache != NULL && c->pb->response_cache->enable;
}

bool model_config_is_added_input(const struct model_config *c, const char *name) {
        const Inference__ModelSequenceBatching *sequence = c->pb->sequence_batching;

        if (c->pb->scheduling_choice_case !=
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return false;
        for (size_t i = 0; i < sequence->n_control_input; i++)
                if (config_text_is(sequence->control_input[i]->name, name))
                        return true;
        for (size_t i = 0; i < sequence->n_state; i++)
                if (config_text_is(sequence->state[i]->input_name, name))
                        return true;
        return false;
}

const char *model_config_find_parameter(const struct model_config *c, const char *key) {
        for (size_t i = 0; i < c->pb->n_parameters; i++) {
                const Inference__ModelConfig__ParametersEntry *entry = c->pb->parameters[i];

                if (config_text_is(entry->key, key))
                        return entry->value != NULL ? entry->value->string_value : "";
        }
        return NULL;
}

struct error *model_config_at_parameter(const struct model_config *c, const char *key,
                                        struct error *err) {
        size_t i = 0;

        while (i < c->pb->n_parameters && !config_text_is(c->pb->parameters[i]->key, key))
                i++;
        return error_at(err, "parameters[%zu]", i);
}
