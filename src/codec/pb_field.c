/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_field.h"

#include <string.h>

/* Sizes of values in memory, by ProtobufCType. protobuf-c stores bools and enums as int. */
static const struct field_type {
        const char  *name;
        enum pb_kind kind;
        uint8_t      bits;
        uint8_t      bytes;
} types[] = {
        [PROTOBUF_C_TYPE_INT32] = { "int32", PB_SIGNED, 32, 4 },
        [PROTOBUF_C_TYPE_SINT32] = { "sint32", PB_SIGNED, 32, 4 },
        [PROTOBUF_C_TYPE_SFIXED32] = { "sfixed32", PB_SIGNED, 32, 4 },
        [PROTOBUF_C_TYPE_INT64] = { "int64", PB_SIGNED, 64, 8 },
        [PROTOBUF_C_TYPE_SINT64] = { "sint64", PB_SIGNED, 64, 8 },
        [PROTOBUF_C_TYPE_SFIXED64] = { "sfixed64", PB_SIGNED, 64, 8 },
        [PROTOBUF_C_TYPE_UINT32] = { "uint32", PB_UNSIGNED, 32, 4 },
        [PROTOBUF_C_TYPE_FIXED32] = { "fixed32", PB_UNSIGNED, 32, 4 },
        [PROTOBUF_C_TYPE_UINT64] = { "uint64", PB_UNSIGNED, 64, 8 },
        [PROTOBUF_C_TYPE_FIXED64] = { "fixed64", PB_UNSIGNED, 64, 8 },
        [PROTOBUF_C_TYPE_FLOAT] = { "float", PB_REAL, 32, 4 },
        [PROTOBUF_C_TYPE_DOUBLE] = { "double", PB_REAL, 64, 8 },
        [PROTOBUF_C_TYPE_BOOL] = { "bool", PB_BOOL, 0, sizeof(protobuf_c_boolean) },
        [PROTOBUF_C_TYPE_ENUM] = { "enum", PB_ENUM, 0, sizeof(int) },
        [PROTOBUF_C_TYPE_STRING] = { "string", PB_STRING, 0, sizeof(char *) },
        [PROTOBUF_C_TYPE_BYTES] = { "bytes", PB_BYTES, 0, sizeof(ProtobufCBinaryData) },
        [PROTOBUF_C_TYPE_MESSAGE] = { "message", PB_MESSAGE, 0, sizeof(ProtobufCMessage *) },
};

enum pb_kind pb_field_kind(const ProtobufCFieldDescriptor *field) {
        return types[field->type].kind;
}

unsigned pb_field_bits(const ProtobufCFieldDescriptor *field) {
        return types[field->type].bits;
}

size_t pb_value_bytes(const ProtobufCFieldDescriptor *field) {
        return types[field->type].bytes;
}

static const ProtobufCEnumDescriptor *field_enum(const ProtobufCFieldDescriptor *field) {
        return field->descriptor;
}

const ProtobufCMessageDescriptor *pb_field_message(const ProtobufCFieldDescriptor *field) {
        return field->descriptor;
}

const char *pb_field_type_name(const ProtobufCFieldDescriptor *field) {
        if (field->type == PROTOBUF_C_TYPE_ENUM)
                return field_enum(field)->short_name;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                return pb_type_name(pb_field_message(field));
        return types[field->type].name;
}

bool pb_field_is_repeated(const ProtobufCFieldDescriptor *field) {
        return field->label == PROTOBUF_C_LABEL_REPEATED;
}

bool pb_field_is_oneof(const ProtobufCFieldDescriptor *field) {
        return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* The descriptor lacks the option map_entry; a map is recognised by protoc's name for the type and
 * by its two fields. */
bool pb_field_is_map(const ProtobufCFieldDescriptor *field) {
        const ProtobufCMessageDescriptor *entry;

        if (field->type != PROTOBUF_C_TYPE_MESSAGE || !pb_field_is_repeated(field))
                return false;
        entry = pb_field_message(field);
        return entry->n_fields == 2 && str_ends(str_of(entry->short_name), STR_LIT("Entry")) &&
               strcmp(entry->fields[0].name, "key") == 0 && entry->fields[0].id == 1 &&
               strcmp(entry->fields[1].name, "value") == 0 && entry->fields[1].id == 2;
}

const ProtobufCFieldDescriptor *pb_map_key(const ProtobufCFieldDescriptor *map) {
        return &pb_field_message(map)->fields[0];
}

const ProtobufCFieldDescriptor *pb_map_value(const ProtobufCFieldDescriptor *map) {
        return &pb_field_message(map)->fields[1];
}

const char *pb_type_name(const ProtobufCMessageDescriptor *type) {
        size_t package = strlen(type->package_name);

        if (package > 0 && strncmp(type->name, type->package_name, package) == 0 &&
            type->name[package] == '.')
                return type->name + package + 1;
        return type->name;
}

const ProtobufCFieldDescriptor *pb_field_find(const ProtobufCMessageDescriptor *type,
                                              struct str                        name) {
        for (unsigned i = 0; i < type->n_fields; i++)
                if (str_is(name, type->fields[i].name))
                        return &type->fields[i];
        return NULL;
}

static char upper(char c) {
        return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* proto3 JSON names: no underscores, and each letter after one in upper case. */
static bool is_camel_case_of(struct str name, const char *snake) {
        size_t at = 0;

        for (const char *c = snake; *c; c++) {
                bool after_underscore = *c == '_';

                while (*c == '_')
                        c++;
                if (!*c)
                        break;
                if (at == name.len || name.ptr[at] != (after_underscore ? upper(*c) : *c))
                        return false;
                at++;
        }
        return at == name.len;
}

const ProtobufCFieldDescriptor *pb_field_find_json(const ProtobufCMessageDescriptor *type,
                                                   struct str                        name) {
        const ProtobufCFieldDescriptor *field = pb_field_find(type, name);

        for (unsigned i = 0; field == NULL && i < type->n_fields; i++)
                if (is_camel_case_of(name, type->fields[i].name))
                        field = &type->fields[i];
        return field;
}

/* Returns the better of two suggestions, so that no array of names is needed; `nearest` may be
 * NULL. Names that differ only in case are always near. */
static const char *nearer(struct str name, const char *nearest, const char *candidate) {
        const char *pair[] = { nearest, candidate };

        if (nearest != NULL && str_equal_nocase(name, str_of(nearest)))
                return nearest;
        if (str_equal_nocase(name, str_of(candidate)))
                return candidate;
        return nearest != NULL ? str_suggest(name, pair, 2) : str_suggest(name, pair + 1, 1);
}

const char *pb_field_suggest(const ProtobufCMessageDescriptor *type, struct str name) {
        const char *nearest = NULL;

        for (unsigned i = 0; i < type->n_fields; i++)
                nearest = nearer(name, nearest, type->fields[i].name);
        return nearest;
}

bool pb_enum_find(const ProtobufCFieldDescriptor *field, struct str name, bool ignore_case,
                  int *ret_number) {
        const ProtobufCEnumDescriptor *type = field_enum(field);

        for (unsigned i = 0; i < type->n_value_names; i++) {
                struct str candidate = str_of(type->values_by_name[i].name);

                if (ignore_case ? !str_equal_nocase(name, candidate) : !str_equal(name, candidate))
                        continue;
                *ret_number = type->values[type->values_by_name[i].index].value;
                return true;
        }
        return false;
}

const char *pb_enum_name(const ProtobufCFieldDescriptor *field, int number) {
        const ProtobufCEnumDescriptor *type = field_enum(field);

        for (unsigned i = 0; i < type->n_values; i++)
                if (type->values[i].value == number)
                        return type->values[i].name;
        return NULL;
}

/* True when the value is the name behind a prefix, in any case: TYPE_FP32 for fp32. */
static bool is_prefixed(const char *value, struct str name) {
        struct str all = str_of(value);

        return name.len > 0 && all.len > name.len + 1 && value[all.len - name.len - 1] == '_' &&
               str_equal_nocase(str_skip(all, all.len - name.len), name);
}

const char *pb_enum_suggest(const ProtobufCFieldDescriptor *field, struct str name) {
        const ProtobufCEnumDescriptor *type = field_enum(field);
        const char                    *nearest = NULL;

        for (unsigned i = 0; i < type->n_value_names; i++) {
                if (is_prefixed(type->values_by_name[i].name, name))
                        return type->values_by_name[i].name;
                nearest = nearer(name, nearest, type->values_by_name[i].name);
        }
        return nearest;
}

bool pb_integer_fit(const ProtobufCFieldDescriptor *field, bool is_negative, uint64_t magnitude,
                    union pb_value *ret) {
        unsigned bits = pb_field_bits(field);

        if (pb_field_kind(field) == PB_UNSIGNED) {
                if (is_negative && magnitude > 0)
                        return false;
                if (bits == 32 && magnitude > UINT32_MAX)
                        return false;
                ret->u64 = magnitude;
                return true;
        }
        if (magnitude > (UINT64_C(1) << (bits - 1)) - (is_negative ? 0 : 1))
                return false;
        /* In unsigned arithmetic, as the least number has no positive counterpart. */
        ret->i64 = (int64_t)(is_negative ? UINT64_C(0) - magnitude : magnitude);
        return true;
}

static const void *member_at(const ProtobufCMessage *message, unsigned offset) {
        return (const char *)message + offset;
}

/* For fields with the label `optional`: presence is a flag, or a pointer that is not the default. */
static bool is_optional_set(const ProtobufCMessage         *message,
                            const ProtobufCFieldDescriptor *field) {
        if (pb_field_kind(field) == PB_STRING) {
                const char *text = *(char *const *)member_at(message, field->offset);

                return text != NULL && text != field->default_value;
        }
        return *(const protobuf_c_boolean *)member_at(message, field->quantifier_offset);
}

size_t pb_value_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        if (pb_field_is_repeated(field))
                return *(const size_t *)member_at(message, field->quantifier_offset);
        if (pb_field_is_oneof(field))
                return *(const uint32_t *)member_at(message, field->quantifier_offset) == field->id;
        if (pb_field_kind(field) == PB_MESSAGE)
                return *(ProtobufCMessage *const *)member_at(message, field->offset) != NULL;
        if (field->label == PROTOBUF_C_LABEL_OPTIONAL)
                return is_optional_set(message, field);
        return 1;
}

static union pb_value value_load(const ProtobufCFieldDescriptor *field, const void *at) {
        union pb_value value = { .u64 = 0 };

        switch (pb_field_kind(field)) {
        case PB_SIGNED:
                value.i64 =
                        pb_field_bits(field) == 32 ? *(const int32_t *)at : *(const int64_t *)at;
                break;
        case PB_UNSIGNED:
                value.u64 =
                        pb_field_bits(field) == 32 ? *(const uint32_t *)at : *(const uint64_t *)at;
                break;
        case PB_REAL:
                value.real = pb_field_bits(field) == 32 ? (double)*(const float *)at
                                                        : *(const double *)at;
                break;
        case PB_BOOL: value.truth = *(const protobuf_c_boolean *)at; break;
        case PB_ENUM: value.i64 = *(const int *)at; break;
        case PB_STRING: value.text = *(char *const *)at; break;
        case PB_BYTES: value.bytes = *(const ProtobufCBinaryData *)at; break;
        case PB_MESSAGE: value.message = *(ProtobufCMessage *const *)at; break;
        }
        return value;
}

union pb_value pb_value_get(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                            size_t index) {
        const void *at = member_at(message, field->offset);

        if (pb_field_is_repeated(field))
                at = *(const char *const *)at + index * pb_value_bytes(field);
        return value_load(field, at);
}

void pb_value_store(const ProtobufCFieldDescriptor *field, void *at, union pb_value value) {
        switch (pb_field_kind(field)) {
        case PB_SIGNED:
        case PB_UNSIGNED:
                if (pb_field_bits(field) == 32)
                        *(uint32_t *)at = (uint32_t)value.u64;
                else
                        *(uint64_t *)at = value.u64;
                break;
        case PB_REAL:
                if (pb_field_bits(field) == 32)
                        *(float *)at = (float)value.real;
                else
                        *(double *)at = value.real;
                break;
        case PB_BOOL: *(protobuf_c_boolean *)at = value.truth; break;
        case PB_ENUM: *(int *)at = (int)value.i64; break;
        case PB_STRING: *(char **)at = value.text; break;
        case PB_BYTES: *(ProtobufCBinaryData *)at = value.bytes; break;
        case PB_MESSAGE: *(ProtobufCMessage **)at = value.message; break;
        }
}
