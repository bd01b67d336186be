/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads values of the protobuf text format that are not messages. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "codec/pb_field.h"
#include "codec/pb_text_lexer.h"

/* Reads one value of the field's type; strings and bytes are copied to the arena. `scratch` is
 * memory that the caller keeps from one value to the next; its contents are overwritten. */
struct error *pb_text_scalar_read(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                                  struct arena *arena, struct strbuf *scratch, union pb_value *ret)
        NODISCARD;
