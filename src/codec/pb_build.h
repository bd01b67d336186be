/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills a protobuf-c message field by field: what the text and the JSON reader have in common.
 *
 * A reader finds the field, claims it (refused when it was given before, or another member of
 * its oneof), and puts one or more values. pb_build_finish() brings maps into the form that a
 * protobuf parser gives: one entry for each key, the last one given, and no entry without value.
 *
 * Ownership.  Everything is allocated in the arena, the builder's notes too; values put must be
 * there already. Nothing in such a message may be freed with protobuf_c_message_free_unpacked().
 * Errors have the code INVALID_ARG and no place in them (the reader adds it), or UNAVAILABLE
 * when the arena is full.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "codec/pb_field.h"

struct pb_build {
        struct arena     *arena;     /* borrowed */
        ProtobufCMessage *message;   /* in arena */
        bool             *was_given; /* in arena; by index of the field */
        bool              has_map;   /* a map got an entry */
};

/* An empty message: all fields at their defaults. */
struct error *pb_message_new(const ProtobufCMessageDescriptor *type, struct arena *arena,
                             ProtobufCMessage **ret) NODISCARD;

struct error *pb_build_start(struct pb_build *b, const ProtobufCMessageDescriptor *type,
                             struct arena *arena) NODISCARD;
/* Once for each occurrence of a field. For repeated fields it never fails. */
struct error *pb_build_claim(struct pb_build *b, const ProtobufCFieldDescriptor *field) NODISCARD;
/* Sets the field, or appends to it if it is repeated. */
struct error *pb_build_put(struct pb_build *b, const ProtobufCFieldDescriptor *field,
                           union pb_value value) NODISCARD;
struct error *pb_build_finish(struct pb_build *b) NODISCARD;

/* A string value from bytes: a copy in the arena, checked to be UTF-8 without NUL bytes. */
struct error *pb_text_value(struct str bytes, struct arena *arena, union pb_value *ret) NODISCARD;

/* For every allocation that fails here and in the readers. */
struct error *pb_out_of_memory(void);
