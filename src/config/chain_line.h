/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains: models that run one after the other, as a configuration declares them.
 *
 *     parameters { key: "next"     value { string_value: "B" } }        or "B:2" for one version
 *     parameters { key: "next_map" value { string_value: "OUT0:IN0,OUT1:IN1" } }
 *
 * puts this model before B in a chain. A separate chain model is declared by
 *
 *     platform: "chain"
 *     parameters { key: "stages" value { string_value: "decode,classify:2,encode" } }
 *
 * Both may set chain_batching ("rebatch", "keep"), chain_allow_end and chain_autoload ("true",
 * "false").
 *
 * Ownership.  A chain_line owns copies of its texts; an edge borrows nothing.
 * Threads.  Immutable after chain_line_read().
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;
struct model_io_set;

enum chain_kind {
        CHAIN_NONE,
        CHAIN_NEXT,   /* this model, then `stages`: the next model */
        CHAIN_STAGES, /* `stages` */
};

struct chain_stage {
        char   *name;    /* owned */
        int64_t version; /* -1: the highest version that is ready */
};

/* Connects one output to one input of the next stage. */
struct chain_pair {
        char *output; /* owned */
        char *input;  /* owned */
};

struct chain_line {
        enum chain_kind     kind;
        struct chain_stage *stages; /* owned */
        size_t              n_stages;
        struct chain_pair  *map; /* owned; for CHAIN_NEXT */
        size_t              n_map;
        bool                keeps_batches; /* chain_batching: "keep" */
        bool                may_end;       /* chain_allow_end: "true" */
        bool                is_strict;     /* chain_autoload: "false" */
};

/* INVALID_ARG names the parameter that is wrong; error_at() gives its place. An empty `next` counts
 * as absent. */
struct error *chain_line_read(const struct model_config *c, struct chain_line *ret) NODISCARD;
void          chain_line_done(struct chain_line *line);

/* True for platform: "chain". */
bool chain_line_is_platform(const struct model_config *c);

/* ---- from one stage to the next ---- */

enum chain_bridge {
        CHAIN_SAME,
        CHAIN_ADD_ONE,  /* from a model without batches to one with batches: a batch of one */
        CHAIN_DROP_ONE, /* from a model with batches to one without: the batch must be one */
};

/* The source of one input of the later stage. */
struct chain_link {
        bool              is_linked; /* false: an optional input that no output feeds */
        uint32_t          output;    /* index among the earlier stage's outputs */
        enum chain_bridge bridge;
};

struct chain_edge {
        uint32_t          n_inputs;
        struct chain_link inputs[]; /* in the order of the later stage's configuration */
};

struct chain_end {
        const char                *model; /* for error texts */
        const struct model_io_set *io;
};

/* Connects by the map if there is one; else by name, if every required input has an output of its
 * name; else by position, if the numbers of tensors match. INVALID_ARG names the tensors that do
 * not fit. *ret is released with free(). */
struct error *chain_edge_new(const struct chain_end *from, const struct chain_end *to,
                             const struct chain_pair *map, size_t n_map, struct chain_edge **ret)
        NODISCARD;
