/* SPDX-License-Identifier: BSD-3-Clause */
#include "pb_node.h"

static const ProtobufCEnumValue node_color_values[] = {
        { "BELOW", "NODE_BELOW", -2 },
        { "RED", "NODE_RED", 0 },
        { "GREEN", "NODE_GREEN", 1 },
};
static const ProtobufCEnumValueIndex node_color_names[] = {
        { "BELOW", 0 },
        { "GREEN", 2 },
        { "RED", 1 },
};
static const ProtobufCEnumDescriptor node_color_type = {
        .magic = PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,
        .name = "test.Node.Color",
        .short_name = "Color",
        .package_name = "test",
        .n_values = 3,
        .values = node_color_values,
        .n_value_names = 3,
        .values_by_name = node_color_names,
};

#define NODE_FIELD(field_label, field_type, owner, member, quantifier, number_, type_, flags_)     \
        {                                                                                          \
                .name = #member, .id = (number_), .label = PROTOBUF_C_LABEL_##field_label,         \
                .type = PROTOBUF_C_TYPE_##field_type, .quantifier_offset = (quantifier),           \
                .offset = offsetof(struct owner, member), .descriptor = (type_), .flags = (flags_) \
        }
#define NODE_PLAIN(field_type, member, number_, type_)                                             \
        NODE_FIELD(NONE, field_type, node, member, 0, number_, type_, 0)
#define NODE_LIST(field_type, member, number_, type_)                                              \
        NODE_FIELD(REPEATED, field_type, node, member, offsetof(struct node, n_##member), number_, \
                   type_, 0)
#define NODE_CHOICE(field_type, member, number_, type_)                                            \
        NODE_FIELD(NONE, field_type, node, member, offsetof(struct node, choice_case), number_,    \
                   type_, PROTOBUF_C_FIELD_FLAG_ONEOF)

static const ProtobufCFieldDescriptor node_number_fields[] = {
        NODE_FIELD(NONE, INT64, node_number_entry, key, 0, 1, NULL, 0),
        NODE_FIELD(NONE, STRING, node_number_entry, value, 0, 2, NULL, 0),
};
static const ProtobufCFieldDescriptor node_switch_fields[] = {
        NODE_FIELD(NONE, BOOL, node_switch_entry, key, 0, 1, NULL, 0),
        NODE_FIELD(NONE, MESSAGE, node_switch_entry, value, 0, 2, &node_type, 0),
};

static void node_number_init(ProtobufCMessage *message);
static void node_switch_init(ProtobufCMessage *message);
static void node_init(ProtobufCMessage *message);

static const ProtobufCMessageDescriptor node_number_type = {
        .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
        .name = "test.Node.NumbersEntry",
        .short_name = "NumbersEntry",
        .package_name = "test",
        .sizeof_message = sizeof(struct node_number_entry),
        .n_fields = 2,
        .fields = node_number_fields,
        .message_init = node_number_init,
};
static const ProtobufCMessageDescriptor node_switch_type = {
        .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
        .name = "test.Node.SwitchesEntry",
        .short_name = "SwitchesEntry",
        .package_name = "test",
        .sizeof_message = sizeof(struct node_switch_entry),
        .n_fields = 2,
        .fields = node_switch_fields,
        .message_init = node_switch_init,
};

static const ProtobufCFieldDescriptor node_fields[] = {
        NODE_PLAIN(INT32, i32, 1, NULL),
        NODE_PLAIN(SINT32, s32, 2, NULL),
        NODE_PLAIN(SFIXED32, sf32, 3, NULL),
        NODE_PLAIN(INT64, i64, 4, NULL),
        NODE_PLAIN(SINT64, s64, 5, NULL),
        NODE_PLAIN(SFIXED64, sf64, 6, NULL),
        NODE_PLAIN(UINT32, u32, 7, NULL),
        NODE_PLAIN(FIXED32, f32, 8, NULL),
        NODE_PLAIN(UINT64, u64, 9, NULL),
        NODE_PLAIN(FIXED64, f64, 10, NULL),
        NODE_PLAIN(FLOAT, real32, 11, NULL),
        NODE_PLAIN(DOUBLE, real64, 12, NULL),
        NODE_PLAIN(BOOL, truth, 13, NULL),
        NODE_PLAIN(ENUM, color, 14, &node_color_type),
        NODE_PLAIN(STRING, text, 15, NULL),
        NODE_PLAIN(BYTES, bytes, 16, NULL),
        NODE_FIELD(OPTIONAL, INT32, node, level, offsetof(struct node, has_level), 17, NULL, 0),
        NODE_PLAIN(MESSAGE, child, 18, &node_type),
        NODE_LIST(MESSAGE, children, 19, &node_type),
        NODE_LIST(STRING, words, 20, NULL),
        NODE_LIST(MESSAGE, numbers, 21, &node_number_type),
        NODE_LIST(MESSAGE, switches, 22, &node_switch_type),
        NODE_CHOICE(INT32, number, 23, NULL),
        NODE_CHOICE(STRING, name, 24, NULL),
        NODE_CHOICE(MESSAGE, sub, 25, &node_type),
};

const ProtobufCMessageDescriptor node_type = {
        .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
        .name = "test.Node",
        .short_name = "Node",
        .package_name = "test",
        .sizeof_message = sizeof(struct node),
        .n_fields = sizeof(node_fields) / sizeof(node_fields[0]),
        .fields = node_fields,
        .message_init = node_init,
};

static void node_init(ProtobufCMessage *message) {
        *(struct node *)message = (struct node){
                .base.descriptor = &node_type,
                .text = (char *)protobuf_c_empty_string,
        };
}

static void node_number_init(ProtobufCMessage *message) {
        *(struct node_number_entry *)message = (struct node_number_entry){
                .base.descriptor = &node_number_type,
                .value = (char *)protobuf_c_empty_string,
        };
}

static void node_switch_init(ProtobufCMessage *message) {
        *(struct node_switch_entry *)message = (struct node_switch_entry){
                .base.descriptor = &node_switch_type,
        };
}
