/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the place of a field in a text of the protobuf text format.
 *
 * A message does not record the places of its fields, and errors about them are rare. So the text
 * is scanned again to report a mistake, for a path such as "input[1].dims[0]".
 *
 * Ownership.  Text and path are borrowed during the call.
 */
#pragma once

#include "base/str.h"
#include "codec/pb_text_lexer.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* `patches` are those that the message was read with; none for a text without mistakes. The place
 * is that of a field's name, or of an element's value in a list. For an absent field or element it
 * is that of the message that lacks it. False when not even the first part of the path exists, or
 * the text cannot be read. */
bool pb_text_find_place(const ProtobufCMessageDescriptor *type, struct str text,
                        struct pb_patches patches, const char *path, struct pb_place *ret)
        NODISCARD;
