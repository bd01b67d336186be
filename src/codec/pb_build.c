/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_build.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4 /* capacity of repeated fields; then doubled */

struct error *pb_out_of_memory(void) {
        static struct error full =
                ERROR_STATIC(ERR_UNAVAILABLE, "not enough memory to read the message");

        return &full;
}

struct error *pb_message_new(const ProtobufCMessageDescriptor *type, struct arena *arena,
                             ProtobufCMessage **ret) {
        ProtobufCMessage *message = arena_try_alloc(arena, type->sizeof_message);

        if (message == NULL)
                return pb_out_of_memory();
        protobuf_c_message_init(type, message);
        *ret = message;
        return NULL;
}

struct error *pb_build_start(struct pb_build *b, const ProtobufCMessageDescriptor *type,
                             struct arena *arena) {
        b->arena = arena;
        b->has_map = false;
        TRY(pb_message_new(type, arena, &b->message));
        b->was_given = arena_try_alloc(arena, MAX(type->n_fields, 1) * sizeof(bool));
        if (b->was_given == NULL)
                return pb_out_of_memory();
        memset(b->was_given, 0, type->n_fields * sizeof(bool));
        return NULL;
}

static void *member_at(struct pb_build *b, unsigned offset) {
        return (char *)b->message + offset;
}

struct error *pb_build_claim(struct pb_build *b, const ProtobufCFieldDescriptor *field) {
        const ProtobufCMessageDescriptor *type = b->message->descriptor;
        size_t                            index = (size_t)(field - type->fields);

        if (pb_field_is_repeated(field))
                return NULL;
        if (b->was_given[index])
                return error_new(ERR_INVALID_ARG,
                                 "non-repeated field \"%s\" is specified multiple times",
                                 field->name);
        for (unsigned i = 0; pb_field_is_oneof(field) && i < type->n_fields; i++) {
                const ProtobufCFieldDescriptor *other = &type->fields[i];

                if (b->was_given[i] && pb_field_is_oneof(other) &&
                    other->quantifier_offset == field->quantifier_offset)
                        return error_new(ERR_INVALID_ARG,
                                         "field \"%s\" is specified along with field \"%s\", "
                                         "another member of the same oneof",
                                         field->name, other->name);
        }
        b->was_given[index] = true;
        return NULL;
}

/* Makes room for one more element. The capacity is not stored: arrays are full at 4, 8, 16, ... */
static struct error *grow_repeated(struct pb_build *b, const ProtobufCFieldDescriptor *field,
                                   size_t n) {
        void **array = member_at(b, field->offset);
        size_t each = pb_value_bytes(field);
        size_t bytes;
        void  *larger;

        if (n > 0 && (n < FIRST_CAPACITY || (n & (n - 1)) != 0))
                return NULL;
        if (!size_mul(n > 0 ? n * 2 : FIRST_CAPACITY, each, &bytes))
                return pb_out_of_memory();
        larger = arena_try_alloc(b->arena, bytes);
        if (larger == NULL)
                return pb_out_of_memory();
        if (n > 0)
                memcpy(larger, *array, n * each);
        *array = larger;
        return NULL;
}

/* When protobuf-c packs a member of a oneof, it leaves out the default text by its address. */
static struct error *own_empty_text(struct pb_build *b, const ProtobufCFieldDescriptor *field,
                                    union pb_value *value) {
        if (pb_field_kind(field) != PB_STRING || value->text[0] != '\0')
                return NULL;
        value->text = arena_try_str(b->arena, STR_LIT(""));
        return value->text != NULL ? NULL : pb_out_of_memory();
}

struct error *pb_build_put(struct pb_build *b, const ProtobufCFieldDescriptor *field,
                           union pb_value value) {
        if (pb_field_is_repeated(field)) {
                size_t *n = member_at(b, field->quantifier_offset);

                TRY(grow_repeated(b, field, *n));
                pb_value_store(field,
                               *(char **)member_at(b, field->offset) + *n * pb_value_bytes(field),
                               value);
                (*n)++;
                b->has_map = b->has_map || pb_field_is_map(field);
                return NULL;
        }
        if (pb_field_is_oneof(field)) {
                TRY(own_empty_text(b, field, &value));
                *(uint32_t *)member_at(b, field->quantifier_offset) = field->id;
        } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->quantifier_offset > 0) {
                *(protobuf_c_boolean *)member_at(b, field->quantifier_offset) = true;
        }
        pb_value_store(field, member_at(b, field->offset), value);
        return NULL;
}

struct map_place {
        const ProtobufCFieldDescriptor *key;   /* borrowed: field of the entry's type */
        ProtobufCMessage               *entry; /* in arena */
        size_t                          index;
};

static int compare_places(const void *left, const void *right) {
        const struct map_place *a = left, *b = right;
        union pb_value          x = pb_value_get(a->entry, a->key, 0);
        union pb_value          y = pb_value_get(b->entry, b->key, 0);
        int                     order;

        switch (pb_field_kind(a->key)) {
        case PB_STRING: order = strcmp(x.text, y.text); break;
        case PB_BOOL: order = x.truth - y.truth; break;
        default:
                /* Only equality matters, so signed numbers need no order of their own. */
                order = (x.u64 > y.u64) - (x.u64 < y.u64);
                break;
        }
        if (order != 0)
                return order;
        return (a->index > b->index) - (a->index < b->index);
}

static bool is_same_key(const struct map_place *a, const struct map_place *b) {
        struct map_place other = *b;

        other.index = a->index;
        return compare_places(a, &other) == 0;
}

/* Keeps the last of the entries with the same key; the others keep their order. Sorting is fast for
 * maps of any size. */
static struct error *drop_repeated_keys(struct pb_build *b, const ProtobufCFieldDescriptor *map) {
        size_t            *n = member_at(b, map->quantifier_offset);
        ProtobufCMessage **entries = *(ProtobufCMessage ***)member_at(b, map->offset);
        struct map_place  *places;
        size_t             bytes, n_left = 0;

        if (*n < 2)
                return NULL;
        if (!size_mul(*n, sizeof(*places), &bytes))
                return pb_out_of_memory();
        places = arena_try_alloc(b->arena, bytes);
        if (places == NULL)
                return pb_out_of_memory();
        for (size_t i = 0; i < *n; i++)
                places[i] = (struct map_place){ pb_map_key(map), entries[i], i };
        qsort(places, *n, sizeof(*places), compare_places);
        for (size_t i = 0; i + 1 < *n; i++)
                if (is_same_key(&places[i], &places[i + 1]))
                        entries[places[i].index] = NULL;
        for (size_t i = 0; i < *n; i++)
                if (entries[i] != NULL)
                        entries[n_left++] = entries[i];
        *n = n_left;
        return NULL;
}

/* An entry without a value gets the default: an empty message. */
static struct error *fill_values(struct pb_build *b, const ProtobufCFieldDescriptor *map) {
        const ProtobufCFieldDescriptor *field = pb_map_value(map);
        size_t                          n = pb_value_count(b->message, map);

        if (pb_field_kind(field) != PB_MESSAGE)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                ProtobufCMessage *entry = pb_value_get(b->message, map, i).message;
                union pb_value    value;

                if (pb_value_count(entry, field) > 0)
                        continue;
                TRY(pb_message_new(pb_field_message(field), b->arena, &value.message));
                pb_value_store(field, (char *)entry + field->offset, value);
        }
        return NULL;
}

struct error *pb_build_finish(struct pb_build *b) {
        const ProtobufCMessageDescriptor *type = b->message->descriptor;

        for (unsigned i = 0; b->has_map && i < type->n_fields; i++) {
                if (!pb_field_is_map(&type->fields[i]))
                        continue;
                TRY(drop_repeated_keys(b, &type->fields[i]));
                TRY(fill_values(b, &type->fields[i]));
        }
        return NULL;
}

struct error *pb_text_value(struct str bytes, struct arena *arena, union pb_value *ret) {
        if (!str_is_utf8(bytes))
                return error_new(ERR_INVALID_ARG, "string is not valid UTF-8");
        if (bytes.len > 0 && memchr(bytes.ptr, '\0', bytes.len) != NULL)
                return error_new(ERR_INVALID_ARG, "string contains a NUL byte");
        if (bytes.len == 0) {
                ret->text = (char *)protobuf_c_empty_string;
                return NULL;
        }
        ret->text = arena_try_str(arena, bytes);
        return ret->text != NULL ? NULL : pb_out_of_memory();
}
