/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which a message's fields stand in the .proto file.
 *
 * The JSON form prints fields in that order, but protobuf-c sorts its descriptors by number.
 * protoc-c lays out a struct's members as declared, so the offsets give the order of all fields
 * except those in a oneof: their union goes to the end of the struct. For the three oneofs that are
 * not declared last, a table has the field that follows them; a test compares the result with the
 * .proto files.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

/* Returns the field after `previous`, the first one for NULL; NULL after the last. */
const ProtobufCFieldDescriptor *pb_order_next(const ProtobufCMessageDescriptor *type,
                                              const ProtobufCFieldDescriptor   *previous);
