/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to the target beside the load: metadata, configuration, statistics, shared memory. One at a time,
 * on a channel of its own; answers are JSON with the names of the HTTP protocol, over gRPC, too.
 *
 * Ownership.  control_close() ends the channel. The target is borrowed.
 * Threads.  One thread that runs no loop; it waits for each answer, and the waiter is its own.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "load/channel.h"

#include <stdint.h>

struct control;
struct waiter;

/* Enough for a server that answers at all: the last statistics, and the regions of shared memory, are asked for after
 * an interruption. */
#define CONTROL_INTERRUPTED_NS ((uint64_t)1000000000)

enum control_question {
        CONTROL_METADATA, /* of the model */
        CONTROL_CONFIG,
        CONTROL_STATISTICS, /* of the model; of all models when `model` is NULL */
        CONTROL_REGISTER,   /* a region of system shared memory */
        CONTROL_UNREGISTER,
        CONTROL_REGISTER_CUDA,
        CONTROL_UNREGISTER_CUDA,
        CONTROL_LOAD, /* loads the model, with `config` */
        CONTROL_PAGE, /* HTTP: any page, by its path */
};

struct control_subject {
        const char *model, *version; /* version NULL: the newest */
        const char *region;          /* its name and, with a slash before, its key */
        uint64_t    region_bytes;
        struct str  handle; /* of CONTROL_REGISTER_CUDA */
        int         device;
        const char *path;   /* of CONTROL_PAGE */
        struct str  config; /* of CONTROL_LOAD: a whole configuration as JSON */
};

/* The target is asked over the loop; `shard` is borrowed and used by its thread. With the waiter, which is
 * borrowed, an interruption ends the wait for an answer after CONTROL_INTERRUPTED_NS. */
struct control *control_open(struct channel_shard *shard, uint64_t timeout_ns,
                             struct waiter *waiter);
void            control_close(struct control *c); /* NULL is fine */
/* Appends the answer to `ret`. UNAVAILABLE: no answer; INVALID_ARG: the server refused, with its reason. */
struct error *control_ask(struct control *c, enum control_question question,
                          const struct control_subject *subject, struct strbuf *ret) NODISCARD;
