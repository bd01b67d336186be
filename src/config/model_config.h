/* SPDX-License-Identifier: BSD-3-Clause */
/* One model's configuration: what config.pbtxt, a load override or a backend say about it.
 *
 * The message of proto/model_config.proto, with everything in one arena. Stages of its life, in
 * the order of a load:
 *
 *   read_text / read_json / new     the text, the override, or nothing at all
 *   model_config_fill               (config_fill.h)      name, platform, backend, file name
 *   model_config_normalize          (config_normalize.h) defaults made explicit
 *   model_config_check              (config_check.h)     rules that need no backend
 *   model_config_normalize_groups, model_config_check_groups     once the backend is known
 *   model_config_complete           (config_complete.h)  what the backend found out
 *   model_config_check_io, _states, _warmup
 *
 * Ownership.  The struct owns its arena, the arena owns the message: everything reachable from
 * `pb` is in the arena or static, so never call inference__model_config__free_unpacked() on it.
 * Strings in it may be the static empty string. Whatever is added to the message must be
 * allocated in `arena` with arena_try_alloc(): its size comes from a file.
 * Threads.  One owner while it is made; read-only and shared freely afterwards.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "codec/pb_text_lexer.h"
#include "model_config.pb-c.h"

#include <stdint.h>

/* Far above any real configuration (long ones have some 100 KiB), far below what hurts. */
#define MODEL_CONFIG_TEXT_MAX_BYTES ((size_t)16 << 20)
#define MODEL_CONFIG_ARENA_MAX_BYTES ((size_t)256 << 20)

struct pb_recovery;

/* The version of the JSON form that callers ask for. */
#define MODEL_CONFIG_VERSION 1

struct model_config {
        struct arena            arena;
        Inference__ModelConfig *pb; /* in arena */
};

struct model_config *model_config_new(void);                    /* an empty message */
void                 model_config_free(struct model_config *c); /* NULL is fine */
DEFINE_CLEANUP(model_config_cleanup, struct model_config *, model_config_free)
#define AUTO_MODEL_CONFIG CLEANUP(model_config_cleanup) struct model_config *

/* config.pbtxt. `path` is for the messages: INVALID_ARG "<path>:<line>:<column>: ...". */
struct error *model_config_read_text(struct str text, const char *path, struct model_config **ret)
        NODISCARD;

/* The same to the end of a text with mistakes: pb_text_read_all(). *ret is NULL when there are too
 * many. */
struct error *model_config_read_all(struct pb_recovery *rec, struct str text,
                                    struct model_config **ret) NODISCARD;

/* Where a field that an error names stands in such a text: pb_text_find_place(). */
bool model_config_find_place(struct str text, struct pb_patches patches, const char *field,
                             struct pb_place *ret) NODISCARD;

/* proto3 JSON: a load override, or what a backend hands to ModelSetConfig. */
struct error *model_config_read_json(struct str json, struct model_config **ret) NODISCARD;

struct error *model_config_copy(const struct model_config *from, struct model_config **ret)
        NODISCARD;

/* The JSON form of GET .../config and of the backend API: original field names, every scalar of
 * a printed message, absent messages left out, 64-bit integers as numbers where the reference
 * server has numbers. config_version other than 1: INVALID_ARG
 * "model configuration version <n> not supported, supported versions are: 1". */
struct error *model_config_print_json(const struct model_config *c, uint32_t config_version,
                                      struct strbuf *to) NODISCARD;

/* Questions that several layers ask. */
bool model_config_is_ensemble(const struct model_config *c); /* ensemble_scheduling is set */
bool model_config_is_decoupled(const struct model_config *c);
bool model_config_has_response_cache(const struct model_config *c); /* response_cache.enable */
/* An input that the server adds to requests of sequences: a control or a state. */
bool model_config_is_added_input(const struct model_config *c, const char *name);
/* parameters[key].string_value, NULL when absent. */
const char *model_config_find_parameter(const struct model_config *c, const char *key);
/* An error about that parameter, which is there. Takes `err`; NULL stays NULL. */
struct error *model_config_at_parameter(const struct model_config *c, const char *key,
                                        struct error *err);

/* A string of the message is never NULL when read, but may be in a message that code made. */
static inline bool config_text_is_set(const char *text) {
        return text != NULL && text[0] != '\0';
}
