/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the protobuf text format (config.pbtxt) into a protobuf-c message of any type.
 *
 * Accepted forms: `name: value`, `name { ... }`, `name: { ... }`, `name < ... >`; lists `[a, b]`
 * for repeated fields, and fields that occur repeatedly; `#` comments; an optional `,` or `;` after
 * each field; strings in single or double quotes with C escapes (octal, \x, \u, \U), adjacent ones
 * joined; enums by name or number; true, false, True, False, t, f, 1, 0; integers in decimal, octal
 * and hexadecimal; numbers with a trailing f; inf and nan; map entries as
 * `{ key: ... value: ... }`.
 *
 * Errors are INVALID_ARG, "file:line:column: what is wrong"; lines and columns count from 1,
 * columns in bytes. The reader is stricter than the format: a field that is not repeated may be set
 * once, even if the first value was the default; strings must not contain NUL bytes; an enum number
 * must have a name.
 *
 * Ownership.  The text is borrowed during the call. The message and all data that it points to is
 * in the arena.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <protobuf-c/protobuf-c.h>

/* Deepest nesting of messages, the outermost not counted. */
#define PB_TEXT_MAX_DEPTH 100

/* `file_for_errors` is printed before line and column; NULL omits it. *ret is written only on
 * success. */
struct error *pb_text_read(const ProtobufCMessageDescriptor *type, struct str text,
                           const char *file_for_errors, struct arena *arena, ProtobufCMessage **ret)
        NODISCARD;
