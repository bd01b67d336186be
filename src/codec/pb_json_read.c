/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON to protobuf messages (pb_json.h). */
#include "codec/base64.h"
#include "codec/json_reader.h"
#include "codec/pb_build.h"
#include "codec/pb_json.h"

#include <math.h>

/* The reader's path in the document, for errors: a chain on the stack. Its length is bounded, as
 * json_reader bounds the nesting. */
struct json_place {
        const struct json_place *outer; /* borrowed; NULL for the outermost message */
        struct str               name;  /* name of a field or key of a map */
        size_t                   index; /* index of an element, if there is no name */
        bool                     is_key;
};

struct json_message_reader {
        struct json_reader json;
        struct arena      *arena; /* borrowed */
        bool               skips_unknown;
};

static struct error *read_message(struct json_message_reader       *r,
                                  const ProtobufCMessageDescriptor *type,
                                  const struct json_place *place, ProtobufCMessage **ret);

static bool take_null(struct json_message_reader *r) {
        if (json_peek(&r->json) != JSON_NULL)
                return false;
        json_read_null(&r->json);
        return true;
}

static void print_place(const struct json_place *place, struct strbuf *out) {
        if (place == NULL)
                return;
        print_place(place->outer, out);
        if (place->name.ptr == NULL)
                strbuf_printf(out, "[%zu]", place->index);
        else if (place->is_key)
                strbuf_printf(out, "[\"%.*s\"]", STR_ARG(place->name));
        else
                strbuf_printf(out, "%s%.*s", place->outer != NULL ? "." : "", STR_ARG(place->name));
}

/* Prepends "input[0].dims: " to the text of an error; takes `err`. */
static struct error *locate(const struct json_place *place, struct error *err) {
        AUTO_STRBUF text = { 0 };

        if (place == NULL || err == NULL)
                return err;
        print_place(place, &text);
        if (text.overflowed)
                return err; /* a place that is cut would be another one */
        return error_prefix(err, "%s: ", strbuf_cstr(&text));
}

/* "expected <what>, got <the next value>"; NULL when no value follows: then the reader failed. */
static struct error *expected(struct json_message_reader *r, const struct json_place *place,
                              const char *what) {
        static const char *const names[] = {
                [JSON_NULL] = "null",       [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
                [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
        };
        enum json_type next = json_peek(&r->json);

        if (next == JSON_INVALID) {
                json_skip(&r->json); /* here the end of the text is a failure too */
                return NULL;
        }
        return locate(place, error_new(ERR_INVALID_ARG, "expected %s, got %s", what, names[next]));
}

static struct error *out_of_range(const ProtobufCFieldDescriptor *field,
                                  const struct json_place *place, struct str shown) {
        return locate(place, error_new(ERR_INVALID_ARG, "value %.*s is out of range for %s",
                                       STR_ARG(shown), pb_field_type_name(field)));
}

/* Reads "007" and "+1", which are no JSON numbers. False when the text is another one. */
static bool read_plain_integer(struct str text, struct json_number *ret) {
        bool has_sign = text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+');

        if (!str_to_u64(str_skip(text, has_sign), &ret->magnitude))
                return false;
        ret->is_integer = true;
        ret->is_negative = has_sign && text.ptr[0] == '-';
        ret->real = (ret->is_negative ? -1.0 : 1.0) * (double)ret->magnitude;
        return true;
}

/* Reads a number, or a string that holds one, as proto3 JSON writes 64-bit integers, NaN and the
 * infinities. *ret_text is the number as written. */
static struct error *read_number(struct json_message_reader *r, const struct json_place *place,
                                 struct json_number *ret, struct str *ret_text) {
        struct json_reader inner;
        enum json_type     next = json_peek(&r->json);

        *ret = (struct json_number){ .real = 0 };
        if (next == JSON_NUMBER) {
                const char *start = r->json.at; /* json_peek() has skipped blanks */

                *ret = json_read_number(&r->json);
                *ret_text = str_range(start, (size_t)(r->json.at - start));
                return NULL;
        }
        if (next != JSON_STRING)
                return expected(r, place, "a number");
        *ret_text = json_read_string(&r->json, r->arena);
        if (json_failed(&r->json) || read_plain_integer(*ret_text, ret))
                return NULL;
        json_reader_init(&inner, *ret_text);
        *ret = json_read_number(&inner);
        json_read_end(&inner);
        if (json_failed(&inner))
                return locate(place, error_new(ERR_INVALID_ARG, "expected a number, got \"%.*s\"",
                                               STR_ARG(*ret_text)));
        return NULL;
}

/* 1.0 and 1e3 are integers too. Doubles from 2^64 on do not fit. */
static bool to_integer(const struct json_number *number, bool *ret_negative, uint64_t *ret) {
        double magnitude = fabs(number->real);

        if (number->is_integer) {
                *ret_negative = number->is_negative;
                *ret = number->magnitude;
                return true;
        }
        if (!(magnitude < 0x1p64) || magnitude != floor(magnitude))
                return false;
        *ret_negative = number->real < 0;
        *ret = (uint64_t)magnitude;
        return true;
}

static struct error *read_integer(struct json_message_reader     *r,
                                  const ProtobufCFieldDescriptor *field,
                                  const struct json_place *place, union pb_value *ret) {
        struct json_number number = { .real = 0 };
        struct str         text = { NULL, 0 };
        bool               is_negative;
        uint64_t           magnitude;

        TRY(read_number(r, place, &number, &text));
        if (json_failed(&r->json))
                return NULL;
        if (!to_integer(&number, &is_negative, &magnitude) && fabs(number.real) < 0x1p64)
                return locate(place, error_new(ERR_INVALID_ARG, "expected an integer, got %.*s",
                                               STR_ARG(text)));
        if (!to_integer(&number, &is_negative, &magnitude) ||
            !pb_integer_fit(field, is_negative, magnitude, ret))
                return out_of_range(field, place, text);
        return NULL;
}

static struct error *read_real(struct json_message_reader *r, const ProtobufCFieldDescriptor *field,
                               const struct json_place *place, union pb_value *ret) {
        struct json_number number = { .real = 0 };
        struct str         text = { NULL, 0 };

        TRY(read_number(r, place, &number, &text));
        if (pb_field_bits(field) == 32 && isfinite(number.real) && !isfinite((float)number.real))
                return out_of_range(field, place, text);
        ret->real = number.real;
        return NULL;
}

/* The words that the reference server's JSON reader takes for a boolean, in any case. */
static bool find_bool_word(struct str word, bool *ret) {
        static const char *const words[] = { "true", "t", "yes", "y", "1" };
        static const char *const opposites[] = { "false", "f", "no", "n", "0" };

        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
                *ret = str_equal_nocase(word, str_of(words[i]));
                if (*ret || str_equal_nocase(word, str_of(opposites[i])))
                        return true;
        }
        return false;
}

static struct error *read_bool(struct json_message_reader *r, const struct json_place *place,
                               union pb_value *ret) {
        enum json_type next = json_peek(&r->json);
        struct str     word;

        if (next == JSON_BOOL) {
                ret->truth = json_read_bool(&r->json);
                return NULL;
        }
        if (next != JSON_STRING)
                return expected(r, place, "true or false");
        word = json_read_string(&r->json, r->arena);
        if (json_failed(&r->json) || find_bool_word(word, &ret->truth))
                return NULL;
        return locate(place, error_new(ERR_INVALID_ARG, "expected true or false, got \"%.*s\"",
                                       STR_ARG(word)));
}

static struct error *unknown_enum_value(const ProtobufCFieldDescriptor *field,
                                        const struct json_place *place, struct str name) {
        struct error *err = error_new(ERR_INVALID_ARG, "enum '%s' has no value '%.*s'",
                                      pb_field_type_name(field), STR_ARG(name));

        return locate(place, error_suggest(err, "", pb_enum_suggest(field, name)));
}

/* True when the number is one that the field's enum names. */
static bool is_enum_number(const ProtobufCFieldDescriptor *field, const struct json_number *number,
                           int *ret) {
        bool     is_negative;
        uint64_t magnitude;

        if (!to_integer(number, &is_negative, &magnitude) || magnitude > INT32_MAX)
                return false;
        *ret = is_negative ? -(int)magnitude : (int)magnitude;
        return pb_enum_name(field, *ret) != NULL;
}

static struct error *read_enum(struct json_message_reader *r, const ProtobufCFieldDescriptor *field,
                               const struct json_place *place, union pb_value *ret) {
        enum json_type     next = json_peek(&r->json);
        struct json_number number = { .real = 0 };
        struct str         text = { NULL, 0 };
        bool               is_known;
        int                value = 0;

        if (next != JSON_STRING && next != JSON_NUMBER)
                return expected(r, place, "the name of an enum value");
        if (next == JSON_NUMBER)
                TRY(read_number(r, place, &number, &text));
        else
                text = json_read_string(&r->json, r->arena);
        if (json_failed(&r->json))
                return NULL;
        if (next == JSON_NUMBER)
                is_known = is_enum_number(field, &number, &value);
        else
                is_known = pb_enum_find(field, text, true, &value) ||
                           (read_plain_integer(text, &number) &&
                            is_enum_number(field, &number, &value));
        if (!is_known)
                return unknown_enum_value(field, place, text);
        ret->i64 = value;
        return NULL;
}

/* Converts to the form of the strict decoder: the standard alphabet and full groups. Also false when
 * memory is short: then `out` has overflowed. */
static bool decode_base64(struct str in, struct strbuf *out) {
        AUTO_STRBUF standard = { 0 };

        for (size_t i = 0; i < in.len; i++) {
                char c = in.ptr[i];

                strbuf_putc(&standard, c == '-' ? '+' : c == '_' ? '/' : c);
        }
        while (standard.len % 4 != 0 && !standard.overflowed)
                strbuf_putc(&standard, '=');
        strbuf_spoil(out, &standard);
        return !out->overflowed && base64_decode(strbuf_str(&standard), out) && !out->overflowed;
}

static struct error *read_bytes(struct json_message_reader *r, const struct json_place *place,
                                union pb_value *ret) {
        AUTO_STRBUF decoded = { 0 };
        struct str  text;

        if (json_peek(&r->json) != JSON_STRING)
                return expected(r, place, "a string in base64");
        text = json_read_string(&r->json, r->arena);
        if (!decode_base64(text, &decoded) && !decoded.overflowed)
                return locate(place, error_new(ERR_INVALID_ARG, "string is not valid base64"));
        if (decoded.overflowed)
                return pb_out_of_memory();
        ret->bytes.len = decoded.len;
        ret->bytes.data = NULL;
        if (decoded.len == 0)
                return NULL;
        ret->bytes.data = arena_try_alloc(r->arena, decoded.len);
        if (ret->bytes.data == NULL)
                return pb_out_of_memory();
        memcpy(ret->bytes.data, decoded.ptr, decoded.len);
        return NULL;
}

/* Reads one value of the field's type. Without an error the caller still checks json_failed(). */
static struct error *read_value(struct json_message_reader     *r,
                                const ProtobufCFieldDescriptor *field,
                                const struct json_place *place, union pb_value *ret) {
        switch (pb_field_kind(field)) {
        case PB_SIGNED:
        case PB_UNSIGNED: return read_integer(r, field, place, ret);
        case PB_REAL: return read_real(r, field, place, ret);
        case PB_BOOL: return read_bool(r, place, ret);
        case PB_ENUM: return read_enum(r, field, place, ret);
        case PB_STRING:
                if (json_peek(&r->json) != JSON_STRING)
                        return expected(r, place, "a string");
                return locate(place,
                              pb_text_value(json_read_string(&r->json, r->arena), r->arena, ret));
        case PB_BYTES: return read_bytes(r, place, ret);
        case PB_MESSAGE: return read_message(r, pb_field_message(field), place, &ret->message);
        }
        return NULL;
}

/* Null as an element of a list or as the value of a map's key is the default of the type. */
static struct error *default_value(struct json_message_reader     *r,
                                   const ProtobufCFieldDescriptor *field, union pb_value *ret) {
        *ret = (union pb_value){ .u64 = 0 };
        switch (pb_field_kind(field)) {
        case PB_REAL: ret->real = 0; break;
        case PB_STRING: ret->text = (char *)protobuf_c_empty_string; break;
        case PB_BYTES: ret->bytes = (ProtobufCBinaryData){ .len = 0 }; break;
        case PB_MESSAGE: return pb_message_new(pb_field_message(field), r->arena, &ret->message);
        default: break;
        }
        return NULL;
}

static struct error *read_value_or_null(struct json_message_reader     *r,
                                        const ProtobufCFieldDescriptor *field,
                                        const struct json_place *place, union pb_value *ret) {
        return take_null(r) ? default_value(r, field, ret) : read_value(r, field, place, ret);
}

/* An array in an array is part of the outer one, as for the reference server. json_reader bounds
 * the depth. */
static struct error *read_elements(struct json_message_reader *r, struct pb_build *b,
                                   const ProtobufCFieldDescriptor *field,
                                   const struct json_place        *outer) {
        struct json_place place = { .outer = outer };
        union pb_value    value = { .u64 = 0 };

        json_enter_array(&r->json);
        for (; json_next_element(&r->json); place.index++) {
                if (json_peek(&r->json) == JSON_ARRAY) {
                        TRY(read_elements(r, b, field, &place));
                        continue;
                }
                TRY(read_value_or_null(r, field, &place, &value));
                if (json_failed(&r->json))
                        break;
                TRY(pb_build_put(b, field, value));
        }
        return NULL;
}

/* Any other value than an array is a list of one. */
static struct error *read_list(struct json_message_reader *r, struct pb_build *b,
                               const ProtobufCFieldDescriptor *field,
                               const struct json_place        *outer) {
        union pb_value value = { .u64 = 0 };

        if (json_peek(&r->json) == JSON_ARRAY)
                return read_elements(r, b, field, outer);
        TRY(read_value(r, field, outer, &value));
        return json_failed(&r->json) ? NULL : pb_build_put(b, field, value);
}

/* Map keys are strings in JSON, whatever type they have in the message. */
static struct error *read_key(const ProtobufCFieldDescriptor *field, struct str key,
                              struct arena *arena, union pb_value *ret) {
        uint64_t magnitude;
        bool     is_negative = key.len > 0 && key.ptr[0] == '-';

        if (pb_field_kind(field) == PB_STRING)
                return pb_text_value(key, arena, ret);
        if (pb_field_kind(field) == PB_BOOL) {
                ret->truth = str_is(key, "true");
                if (ret->truth || str_is(key, "false"))
                        return NULL;
        } else if (str_to_u64(str_skip(key, is_negative), &magnitude) &&
                   pb_integer_fit(field, is_negative, magnitude, ret)) {
                return NULL;
        }
        return error_new(ERR_INVALID_ARG, "key '%.*s' is not a value of type %s", STR_ARG(key),
                         pb_field_type_name(field));
}

static struct error *read_map(struct json_message_reader *r, struct pb_build *b,
                              const ProtobufCFieldDescriptor *map, const struct json_place *outer) {
        struct json_place place = { .outer = outer, .is_key = true };

        if (json_peek(&r->json) != JSON_OBJECT)
                return expected(r, outer, "an object");
        json_enter_object(&r->json);
        while (json_next_key(&r->json, r->arena, &place.name)) {
                struct pb_build entry;
                union pb_value  value = { .u64 = 0 };

                TRY(pb_build_start(&entry, pb_field_message(map), r->arena));
                TRY(locate(outer, read_key(pb_map_key(map), place.name, r->arena, &value)));
                TRY(pb_build_put(&entry, pb_map_key(map), value));
                value.u64 = 0;
                TRY(read_value_or_null(r, pb_map_value(map), &place, &value));
                if (json_failed(&r->json))
                        break;
                TRY(pb_build_put(&entry, pb_map_value(map), value));
                value.message = entry.message;
                TRY(pb_build_put(b, map, value));
        }
        return NULL;
}

static struct error *unknown_field(const ProtobufCMessageDescriptor *type,
                                   const struct json_place *place, struct str name) {
        struct error *err = error_new(ERR_INVALID_ARG, "message '%s' has no field named '%.*s'",
                                      pb_type_name(type), STR_ARG(name));

        return locate(place, error_suggest(err, "", pb_field_suggest(type, name)));
}

/* Reads one member of an object, whose key was read. */
static struct error *read_field(struct json_message_reader *r, struct pb_build *b,
                                const ProtobufCFieldDescriptor *field,
                                const struct json_place        *outer) {
        struct json_place place = { .outer = outer, .name = str_of(field->name) };
        union pb_value    value = { .u64 = 0 };

        if (take_null(r))
                return NULL;
        TRY(locate(outer, pb_build_claim(b, field)));
        if (pb_field_is_map(field))
                return read_map(r, b, field, &place);
        if (pb_field_is_repeated(field))
                return read_list(r, b, field, &place);
        TRY(read_value(r, field, &place, &value));
        if (json_failed(&r->json))
                return NULL;
        return pb_build_put(b, field, value);
}

static struct error *read_message(struct json_message_reader       *r,
                                  const ProtobufCMessageDescriptor *type,
                                  const struct json_place *place, ProtobufCMessage **ret) {
        struct pb_build b;
        struct str      name;

        if (json_peek(&r->json) != JSON_OBJECT)
                return expected(r, place, "an object");
        TRY(pb_build_start(&b, type, r->arena));
        json_enter_object(&r->json);
        while (json_next_key(&r->json, r->arena, &name)) {
                const ProtobufCFieldDescriptor *field = pb_field_find_json(type, name);

                if (field == NULL && r->skips_unknown) {
                        json_skip(&r->json);
                        continue;
                }
                if (field == NULL)
                        return unknown_field(type, place, name);
                TRY(read_field(r, &b, field, place));
        }
        TRY(pb_build_finish(&b));
        *ret = b.message;
        return NULL;
}

static struct error *read_all(struct json_message_reader r, const ProtobufCMessageDescriptor *type,
                              struct str json, ProtobufCMessage **ret) {
        ProtobufCMessage *message = NULL;

        json_reader_init(&r.json, json);
        TRY(read_message(&r, type, NULL, &message));
        if (!json_failed(&r.json))
                json_read_end(&r.json);
        if (json_failed(&r.json))
                return error_new(ERR_INVALID_ARG, "JSON at offset %zu: %s",
                                 json_error_offset(&r.json), json_error_text(&r.json));
        *ret = message;
        return NULL;
}

struct error *pb_json_read(const ProtobufCMessageDescriptor *type, struct str json,
                           struct arena *arena, ProtobufCMessage **ret) {
        return read_all((struct json_message_reader){ .arena = arena }, type, json, ret);
}

struct error *pb_json_read_known(const ProtobufCMessageDescriptor *type, struct str json,
                                 struct arena *arena, ProtobufCMessage **ret) {
        return read_all((struct json_message_reader){ .arena = arena, .skips_unknown = true }, type,
                        json, ret);
}
