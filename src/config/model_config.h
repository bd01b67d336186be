/* SPDX-License-Identifier: BSD-3-Clause */
/* One model's configuration, from config.pbtxt, a load override or a backend.
 *
 * The message of proto/model_config.proto, with everything in one arena. Stages of its life, in the
 * order of a load:
 *
 *   read_text / read_json / new     the text, the override, or nothing at all
 *   model_config_fill               (config_fill.h)      name, platform, backend, file name
 *   model_config_normalize          (config_normalize.h) defaults made explicit
 *   model_config_check              (config_check.h)     rules that need no backend
 *   model_config_normalize_groups, model_config_check_groups     once the backend is known
 *   model_config_complete           (config_complete.h)  what the backend found out
 *   model_config_check_io, _states, _warmup
 *
 * Ownership.  The struct owns its arena, the arena owns the message: everything reachable from `pb`
 * is in the arena or static, so never call inference__model_config__free_unpacked() on it. Strings
 * in it may be the static empty string. Additions to the message must be allocated in `arena` with
 * arena_try_alloc(): their sizes come from a file.
 * Threads.  One owner until the configuration is complete; read-only and shared freely afterwards.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "codec/pb_text_lexer.h"
#include "model_config.pb-c.h"

#include <stdint.h>
#include <string.h>

/* Far above any real configuration (long ones have some 100 KiB), and small enough to be harmless. */
#define MODEL_CONFIG_TEXT_MAX_BYTES ((size_t)16 << 20)
#define MODEL_CONFIG_ARENA_MAX_BYTES ((size_t)256 << 20)

/* Of inputs, outputs, states and preferred batch sizes, each. A request with more tensors is refused as well. */
#define MODEL_CONFIG_MAX_ELEMENTS 4096

struct pb_text_review;

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

/* Reads config.pbtxt. `path` is for error texts: INVALID_ARG "<path>:<line>:<column>: ...". */
struct error *model_config_read_text(struct str text, const char *path, struct model_config **ret)
        NODISCARD;

/* The same, but continues after mistakes to the end of the text: pb_text_read_all(). */
struct error *model_config_read_all(struct pb_text_review *review, struct str text,
                                    struct model_config **ret) NODISCARD;

/* Reads proto3 JSON: a load override, or the argument of a backend's ModelSetConfig. */
struct error *model_config_read_json(struct str json, struct model_config **ret) NODISCARD;

struct error *model_config_copy(const struct model_config *from, struct model_config **ret)
        NODISCARD;

/* Copies another configuration's message to this one's arena; NULL when the arena is full: return
 * model_config_full() then. */
Inference__ModelConfig *model_config_copy_message(struct model_config          *c,
                                                  const Inference__ModelConfig *from) NODISCARD;

/* For an allocation in `a` that failed: INVALID_ARG "model configuration is too large", or
 * UNAVAILABLE when memory was short. Static. */
struct error *model_config_full(const struct arena *a);

/* The JSON form of GET .../config and of the backend API: original field names, every scalar of
 * a printed message, absent messages left out, 64-bit integers as numbers where the reference
 * server has numbers. config_version other than 1: INVALID_ARG
 * "model configuration version <n> not supported, supported versions are: 1". */
struct error *model_config_print_json(const struct model_config *c, uint32_t config_version,
                                      struct strbuf *to) NODISCARD;

/* Properties that several layers need. */
bool model_config_is_ensemble(const struct model_config *c); /* ensemble_scheduling is set */
bool model_config_is_decoupled(const struct model_config *c);
bool model_config_has_response_cache(const struct model_config *c); /* response_cache.enable */
/* Whether the server adds the input to requests of sequences: a control or a state. */
bool model_config_is_added_input(const struct model_config *c, const char *name);
/* Returns parameters[key].string_value, NULL when absent. */
const char *model_config_find_parameter(const struct model_config *c, const char *key);
/* Locates an error at that parameter, which must exist. Takes `err`; NULL stays NULL. */
struct error *model_config_at_parameter(const struct model_config *c, const char *key,
                                        struct error *err);

/* A string of a message is never NULL after reading, but may be in a message that code built. */
static inline bool config_text_is_set(const char *text) {
        return text != NULL && text[0] != '\0';
}

static inline bool config_text_is(const char *text, const char *expected) {
        return text != NULL && expected != NULL && strcmp(text, expected) == 0;
}
