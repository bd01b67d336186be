/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and prints protobuf-c messages of any type as JSON, by the rules of proto3 JSON.
 *
 * Read: field names as in the .proto or in lowerCamelCase; null leaves a field unset; numbers may
 * be strings; enums by name in any case, or by number; bytes in base64, either alphabet, with or
 * without padding; maps as objects. An unknown field is an error. Errors are INVALID_ARG and name
 * the place: "input[0].data_type: ...".
 *
 * As the reference server does, the reader also accepts: one value where a list is meant, arrays
 * in arrays (their elements belong to the outer one), null in a list or a map (the type's
 * default), the words t, yes, y, 1 and f, no, n, 0 for booleans, signs and leading zeros in
 * numbers that are strings, enum numbers that are strings. It refuses text that is no JSON, a
 * field that is given twice, and numbers that an enum does not define.
 *
 * Print: names as in the .proto, fields in the order of the .proto. Fields without presence are
 * always printed, lists and maps even when empty; messages and members of oneofs only when set.
 * 64-bit integers are strings, as proto3 JSON has it, unless the options say otherwise. Map keys
 * are strings, in the order in which they are in the message. Enums by name, unknown ones by
 * number.
 *
 * Ownership.  The text is borrowed during the call. A message that was read is in the arena, with
 * all data that it points to.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct pb_json_options {
        /* True for 64-bit fields to be printed as numbers; NULL: none. For a map, `type` is its
         * entry and `field` the entry's value. */
        bool (*int64_as_number)(const ProtobufCMessageDescriptor *type,
                                const ProtobufCFieldDescriptor   *field);
};

/* *ret is written only on success. */
struct error *pb_json_read(const ProtobufCMessageDescriptor *type, struct str json,
                           struct arena *arena, ProtobufCMessage **ret) NODISCARD;

/* The same; members that the message does not have are skipped: for senders with more fields. */
struct error *pb_json_read_known(const ProtobufCMessageDescriptor *type, struct str json,
                                 struct arena *arena, ProtobufCMessage **ret) NODISCARD;

/* Prints compact JSON. `options` may be NULL. The strbuf reports overflow. */
void pb_json_print(const ProtobufCMessage *message, const struct pb_json_options *options,
                   struct strbuf *out);
