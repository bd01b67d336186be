/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of a load as bytes, made once for each distinct input. A request of a sequence has a gap for
 * its id and flags, which request_set_patch() fills for each call.
 *
 * Ownership.  The set owns the bytes. It borrows model, inputs and target.
 * Threads.  Constant after it was made.
 */
#pragma once

#include "base/error.h"
#include "load/channel.h"
#include "load/input_set.h"
#include "load/load_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct load_regions;

struct request_options {
        uint64_t             batch;
        bool                 input_is_json, output_is_json; /* HTTP */
        bool                 is_stream;                     /* ModelStreamInfer */
        bool                 is_events;                     /* HTTP: generate_stream */
        const char          *compression; /* gRPC: "gzip" or "deflate"; NULL: none */
        char *const         *parameters;  /* "name:value:type" */
        size_t               n_parameters;
        struct load_regions *shm; /* borrowed; NULL: tensors are in the request */
};

struct request_set {
        struct wire_message *messages; /* owned */
        size_t              *entries;  /* owned: the first entry of each */
        struct strbuf       *texts;    /* owned: bytes of the messages, two each */
        size_t               n;
        struct strbuf        head; /* owned: the header block of gRPC */
        enum target_protocol protocol;
        bool                 is_sequence;
        const char          *compression; /* of each call of a sequence; NULL: none */
};

/* A message of a sequence, compressed for one call. All zero: none. */
struct request_pack {
        struct wire_message message;
        struct buf         *bytes; /* owned */
};

struct request_step {
        uint64_t id;
        bool     is_start, is_end;
};

struct error *request_set_make(const struct target *t, const struct load_model *m,
                               const struct input_set *inputs, const struct request_options *o,
                               struct request_set *ret) NODISCARD;
void          request_set_done(struct request_set *s);
/* Writes the part of the call that depends on its sequence. */
void request_set_patch(const struct request_set *s, const struct request_step *step,
                       struct call *c);
/* Compresses the message with the part of the call when it was not compressed before, since that part differs. The
 * call has this message then, which is borrowed until it is done. Without memory the message goes as it is. */
void request_set_pack(const struct request_set *s, struct call *c, struct request_pack *p);
void request_pack_done(struct request_pack *p);
