/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a field stands in a text of the protobuf text format.
 *
 * A message that was read does not know where its fields stood; messages about it are rare. So the
 * text is scanned again when a mistake is to be shown, for a path such as "input[1].dims[0]".
 *
 * Ownership.  Text and path are borrowed during the call.
 */
#pragma once

#include "base/str.h"
#include "codec/pb_text_lexer.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* `patches` are those that the message was read with; none for a text without mistakes. Of a field
 * the place of its name, of an element of a list that of its value; what stands nearest to it
 * when it is not there: the message that it is missing in. False when not even the first part of
 * the path is there, or the text cannot be read. */
bool pb_text_find_place(const ProtobufCMessageDescriptor *type, struct str text,
                        struct pb_patches patches, const char *path, struct pb_place *ret)
        NODISCARD;
