/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to protobuf-c descriptors: fields by name, the kinds of their values, their places in the
 * struct.
 *
 * protobuf-c describes seventeen wire types; readers and printers of text distinguish eight kinds,
 * and a width. Maps are repeated messages `<Field>Entry` with `key` and `value`.
 *
 * Threads.  Descriptors are constant; every function may be called from any thread.
 */
#pragma once

#include "base/str.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pb_kind {
        PB_SIGNED,
        PB_UNSIGNED,
        PB_REAL,
        PB_BOOL,
        PB_ENUM,
        PB_STRING,
        PB_BYTES,
        PB_MESSAGE,
};

/* One value of any kind; the field's kind selects the member. */
union pb_value {
        int64_t             i64;     /* PB_SIGNED; PB_ENUM: the number */
        uint64_t            u64;     /* PB_UNSIGNED */
        double              real;    /* PB_REAL */
        bool                truth;   /* PB_BOOL */
        char               *text;    /* PB_STRING: borrowed, NUL-terminated */
        ProtobufCBinaryData bytes;   /* PB_BYTES: borrowed */
        ProtobufCMessage   *message; /* PB_MESSAGE: borrowed */
};

enum pb_kind pb_field_kind(const ProtobufCFieldDescriptor *field);
/* Width of a number: 32 or 64; 0 for other kinds. */
unsigned pb_field_bits(const ProtobufCFieldDescriptor *field);
/* "int32", "string", "DataType", "ModelInput": for error texts. */
const char *pb_field_type_name(const ProtobufCFieldDescriptor *field);
bool        pb_field_is_repeated(const ProtobufCFieldDescriptor *field);
bool        pb_field_is_oneof(const ProtobufCFieldDescriptor *field);
bool        pb_field_is_map(const ProtobufCFieldDescriptor *field);
/* Fields of a map's entry. */
const ProtobufCFieldDescriptor *pb_map_key(const ProtobufCFieldDescriptor *map);
const ProtobufCFieldDescriptor *pb_map_value(const ProtobufCFieldDescriptor *map);
/* The type of a message field. */
const ProtobufCMessageDescriptor *pb_field_message(const ProtobufCFieldDescriptor *field);

/* Finds a field by its name in the .proto; NULL when there is none. */
const ProtobufCFieldDescriptor *pb_field_find(const ProtobufCMessageDescriptor *type,
                                              struct str                        name);
/* Finds a field by its name in the .proto or by the lowerCamelCase name of proto3 JSON. */
const ProtobufCFieldDescriptor *pb_field_find_json(const ProtobufCMessageDescriptor *type,
                                                   struct str                        name);
/* The field name nearest to `name`, NULL when none is near. */
const char *pb_field_suggest(const ProtobufCMessageDescriptor *type, struct str name);
/* The type's name without its package: "ModelSequenceBatching.Control". */
const char *pb_type_name(const ProtobufCMessageDescriptor *type);

/* True when `name` is a value of the field's enum; *ret_number is written only then. */
bool pb_enum_find(const ProtobufCFieldDescriptor *field, struct str name, bool ignore_case,
                  int *ret_number);
/* Name of an enum value; NULL for numbers that the enum does not define. */
const char *pb_enum_name(const ProtobufCFieldDescriptor *field, int number);
const char *pb_enum_suggest(const ProtobufCFieldDescriptor *field, struct str name);

/* Converts an integer for a PB_SIGNED or PB_UNSIGNED field; false when it is out of the field's
 * range. */
bool pb_integer_fit(const ProtobufCFieldDescriptor *field, bool is_negative, uint64_t magnitude,
                    union pb_value *ret);

/* Number of values in the field: the length if repeated, else 0 or 1. Without presence (proto3
 * scalars outside of a oneof) it is always 1. */
size_t pb_value_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
/* The value at `index` (0 unless repeated); index must be below pb_value_count(). */
union pb_value pb_value_get(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                            size_t index);
/* Writes the value to memory that holds values of the field's type: a struct member or an array
 * element. */
void   pb_value_store(const ProtobufCFieldDescriptor *field, void *at, union pb_value value);
size_t pb_value_bytes(const ProtobufCFieldDescriptor *field); /* size of one value in memory */
