/* SPDX-License-Identifier: BSD-3-Clause */
/* Protobuf messages to JSON (pb_json.h). */
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "codec/pb_field.h"
#include "codec/pb_json.h"
#include "codec/pb_order.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct json_printer {
        struct json_writer            writer;
        const struct pb_json_options *options; /* borrowed; may be NULL */
};

/* Recursion ends because our message types do not contain themselves. */
static void print_message(struct json_printer *p, const ProtobufCMessage *message);

/* In proto3 JSON, infinities and not-a-number are strings. */
static void print_real(struct json_printer *p, const ProtobufCFieldDescriptor *field, double real) {
        if (isnan(real))
                json_put_string(&p->writer, "NaN");
        else if (isinf(real))
                json_put_string(&p->writer, real > 0 ? "Infinity" : "-Infinity");
        else if (pb_field_bits(field) == 32)
                json_put_f32(&p->writer, (float)real);
        else
                json_put_f64(&p->writer, real);
}

static void print_bytes(struct json_printer *p, ProtobufCBinaryData bytes) {
        AUTO_STRBUF text = { 0 };

        if (bytes.len > 0)
                base64_encode(str_range((const char *)bytes.data, bytes.len), &text);
        strbuf_spoil(p->writer.out, &text);
        json_put_string(&p->writer, strbuf_cstr(&text));
}

/* Decimal digits, of a signed value if `is_signed`. `out` has room for 24 bytes. */
static struct str integer_text(char *out, bool is_signed, union pb_value value) {
        int len = is_signed ? snprintf(out, 24, "%" PRId64, value.i64)
                            : snprintf(out, 24, "%" PRIu64, value.u64);

        return str_range(out, (size_t)len);
}

/* `type` is the message that the field belongs to. */
static void print_integer(struct json_printer *p, const ProtobufCMessageDescriptor *type,
                          const ProtobufCFieldDescriptor *field, union pb_value value) {
        bool is_signed = pb_field_kind(field) == PB_SIGNED;
        bool is_number = pb_field_bits(field) == 32;
        char digits[24];

        if (!is_number && p->options != NULL && p->options->int64_as_number != NULL)
                is_number = p->options->int64_as_number(type, field);
        if (!is_number)
                json_put_str(&p->writer, integer_text(digits, is_signed, value));
        else if (is_signed)
                json_put_i64(&p->writer, value.i64);
        else
                json_put_u64(&p->writer, value.u64);
}

static void print_value(struct json_printer *p, const ProtobufCMessageDescriptor *type,
                        const ProtobufCFieldDescriptor *field, union pb_value value) {
        const char *name;

        switch (pb_field_kind(field)) {
        case PB_SIGNED:
        case PB_UNSIGNED: print_integer(p, type, field, value); return;
        case PB_REAL: print_real(p, field, value.real); return;
        case PB_BOOL: json_put_bool(&p->writer, value.truth); return;
        case PB_ENUM:
                name = pb_enum_name(field, (int)value.i64);
                if (name != NULL)
                        json_put_string(&p->writer, name);
                else
                        json_put_i64(&p->writer, value.i64);
                return;
        case PB_STRING: json_put_string(&p->writer, value.text != NULL ? value.text : ""); return;
        case PB_BYTES: print_bytes(p, value.bytes); return;
        case PB_MESSAGE: print_message(p, value.message); return;
        }
}

static void print_key(struct json_printer *p, const ProtobufCFieldDescriptor *field,
                      union pb_value value) {
        char digits[24];

        if (pb_field_kind(field) == PB_STRING)
                json_key(&p->writer, value.text != NULL ? value.text : "");
        else if (pb_field_kind(field) == PB_BOOL)
                json_key(&p->writer, value.truth ? "true" : "false");
        else
                json_key_str(&p->writer,
                             integer_text(digits, pb_field_kind(field) == PB_SIGNED, value));
}

static void print_map(struct json_printer *p, const ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *map) {
        const ProtobufCFieldDescriptor *field = pb_map_value(map);
        size_t                          n = pb_value_count(message, map);

        json_begin_object(&p->writer);
        for (size_t i = 0; i < n; i++) {
                const ProtobufCMessage *entry = pb_value_get(message, map, i).message;

                print_key(p, pb_map_key(map), pb_value_get(entry, pb_map_key(map), 0));
                print_value(p, pb_field_message(map), field, pb_value_get(entry, field, 0));
        }
        json_end_object(&p->writer);
}

static void print_list(struct json_printer *p, const ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field) {
        size_t n = pb_value_count(message, field);

        json_begin_array(&p->writer);
        for (size_t i = 0; i < n; i++)
                print_value(p, message->descriptor, field, pb_value_get(message, field, i));
        json_end_array(&p->writer);
}

static void print_field(struct json_printer *p, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field) {
        if (!pb_field_is_repeated(field) && pb_value_count(message, field) == 0)
                return;
        json_key(&p->writer, field->name);
        if (pb_field_is_map(field))
                print_map(p, message, field);
        else if (pb_field_is_repeated(field))
                print_list(p, message, field);
        else
                print_value(p, message->descriptor, field, pb_value_get(message, field, 0));
}

static void print_message(struct json_printer *p, const ProtobufCMessage *message) {
        const ProtobufCFieldDescriptor *field = NULL;

        json_begin_object(&p->writer);
        /* NULL: a value of a map that was not set on the wire. */
        while (message != NULL && (field = pb_order_next(message->descriptor, field)) != NULL)
                print_field(p, message, field);
        json_end_object(&p->writer);
}

void pb_json_print(const ProtobufCMessage *message, const struct pb_json_options *options,
                   struct strbuf *out) {
        struct json_printer p = { .options = options };

        json_writer_init(&p.writer, out);
        print_message(&p, message);
}
