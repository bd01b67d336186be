/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_order.h"

#include "base/compiler.h"
#include "codec/pb_field.h"

#include <string.h>

/* Oneofs that are not last in their message, by the field that follows them. */
static const struct oneof_place {
        const char *message;
        const char *next_field;
} oneof_places[] = {
        { "inference.ModelConfig", "instance_group" },
        { "inference.ModelSequenceBatching", "max_sequence_idle_microseconds" },
        { "inference.ModelSequenceBatching.InitialState", "name" },
};

/* Offset of the field that stands after the message's oneof; UINT_MAX if the oneof is last. */
static unsigned offset_after_oneof(const ProtobufCMessageDescriptor *type) {
        for (size_t i = 0; i < ARRAY_LEN(oneof_places); i++) {
                const struct oneof_place       *place = &oneof_places[i];
                const ProtobufCFieldDescriptor *next;

                if (strcmp(type->name, place->message) != 0)
                        continue;
                next = pb_field_find(type, str_of(place->next_field));
                if (next != NULL)
                        return next->offset;
        }
        return UINT32_MAX;
}

/* Sort key in the order of declaration. Members of a oneof share an offset; their numbers order
 * them. */
static uint64_t place_of(const ProtobufCFieldDescriptor *field, unsigned after_oneof) {
        uint64_t place;

        if (pb_field_is_oneof(field) && after_oneof != UINT32_MAX)
                place = 2 * (uint64_t)after_oneof - 1;
        else
                place = 2 * (uint64_t)field->offset;
        return place << 29 | field->id; /* numbers have 29 bits, structs less than 2^34 bytes */
}

const ProtobufCFieldDescriptor *pb_order_next(const ProtobufCMessageDescriptor *type,
                                              const ProtobufCFieldDescriptor   *previous) {
        const ProtobufCFieldDescriptor *next = NULL;
        unsigned                        after_oneof = offset_after_oneof(type);
        uint64_t floor = previous != NULL ? place_of(previous, after_oneof) : 0;
        uint64_t nearest = UINT64_MAX;

        for (unsigned i = 0; i < type->n_fields; i++) {
                uint64_t place = place_of(&type->fields[i], after_oneof);

                if (place > floor && place < nearest) {
                        nearest = place;
                        next = &type->fields[i];
                }
        }
        return next;
}
