/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills a protobuf-c message field by field; shared by the text reader and the JSON reader.
 *
 * A reader finds the field, claims it (refused when it or another member of its oneof is already
 * set), and puts one or more values. pb_build_finish() converts maps to the form that a protobuf
 * parser gives: one entry for each key, the last one, and no entry without a value.
 *
 * Ownership.  The message and the builder's own state are allocated in the arena; values must be in
 * the arena before they are put. Such a message must not be freed with
 * protobuf_c_message_free_unpacked(). Errors have the code INVALID_ARG without a place (the reader
 * adds it), or UNAVAILABLE when the arena is full.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "codec/pb_field.h"

struct pb_build {
        struct arena     *arena;     /* borrowed */
        ProtobufCMessage *message;   /* in arena */
        bool             *was_given; /* in arena; by index of the field */
        bool              has_map;   /* a map has an entry */
};

/* Creates an empty message: all fields at their defaults. */
struct error *pb_message_new(const ProtobufCMessageDescriptor *type, struct arena *arena,
                             ProtobufCMessage **ret) NODISCARD;

struct error *pb_build_start(struct pb_build *b, const ProtobufCMessageDescriptor *type,
                             struct arena *arena) NODISCARD;
/* Called once for each occurrence of a field. For repeated fields it never fails. */
struct error *pb_build_claim(struct pb_build *b, const ProtobufCFieldDescriptor *field) NODISCARD;
/* Sets the field, or appends to it if it is repeated. */
struct error *pb_build_put(struct pb_build *b, const ProtobufCFieldDescriptor *field,
                           union pb_value value) NODISCARD;
struct error *pb_build_finish(struct pb_build *b) NODISCARD;

/* Creates a string value from bytes: a copy in the arena, checked to be UTF-8 without NUL bytes. */
struct error *pb_text_value(struct str bytes, struct arena *arena, union pb_value *ret) NODISCARD;

/* Error for every allocation that fails here and in the readers. */
struct error *pb_out_of_memory(void);
