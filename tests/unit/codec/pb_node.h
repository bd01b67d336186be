/* SPDX-License-Identifier: BSD-3-Clause */
/* A protobuf-c message type for tests, written by hand: each scalar type once, every label, a
 * oneof, maps with other keys than strings, and itself as a child, which none of our own types
 * has.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

enum node_color { NODE_RED = 0, NODE_GREEN = 1, NODE_BELOW = -2 };

struct node_number_entry {
        ProtobufCMessage base;
        int64_t          key;
        char            *value;
};

struct node_switch_entry {
        ProtobufCMessage   base;
        protobuf_c_boolean key;
        struct node       *value;
};

struct node {
        ProtobufCMessage           base;
        int32_t                    i32, s32, sf32;
        int64_t                    i64, s64, sf64;
        uint32_t                   u32, f32;
        uint64_t                   u64, f64;
        float                      real32;
        double                     real64;
        protobuf_c_boolean         truth;
        int                        color;
        char                      *text;
        ProtobufCBinaryData        bytes;
        protobuf_c_boolean         has_level;
        int32_t                    level; /* with the label `optional` */
        struct node               *child;
        size_t                     n_children;
        struct node              **children;
        size_t                     n_words;
        char                     **words;
        size_t                     n_numbers;
        struct node_number_entry **numbers;
        size_t                     n_switches;
        struct node_switch_entry **switches;
        uint32_t                   choice_case;
        union {
                int32_t      number;
                char        *name;
                struct node *sub;
        };
};

extern const ProtobufCMessageDescriptor node_type;
