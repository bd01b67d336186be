/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of tensor elements, one row each. What the core and the front end know of a type follows
 * from here: the enum and the names of config/data_type.h, core_api/datatype.h, and the assertions that
 * the C API (api/api_strings.c) and the model configuration (config/model_io.c) have the same values.
 *
 * ROW(name, value, name in the configuration without its TYPE_, bytes of an element, form in JSON)
 *
 * 0 bytes: each element has its own length. JSON(x) is JSON_ELEMENT_x; NO_JSON: elements are not JSON
 * numbers or booleans, and tensors of the type are sent as bytes.
 * Sources: KServe v2, tensor data types; model configuration, DataType.
 */
#pragma once

#define DATA_TYPES(ROW)                                                                            \
        ROW(BOOL, 1, BOOL, 1, JSON(BOOL))                                                          \
        ROW(UINT8, 2, UINT8, 1, JSON(U8))                                                          \
        ROW(UINT16, 3, UINT16, 2, JSON(U16))                                                       \
        ROW(UINT32, 4, UINT32, 4, JSON(U32))                                                       \
        ROW(UINT64, 5, UINT64, 8, JSON(U64))                                                       \
        ROW(INT8, 6, INT8, 1, JSON(I8))                                                            \
        ROW(INT16, 7, INT16, 2, JSON(I16))                                                         \
        ROW(INT32, 8, INT32, 4, JSON(I32))                                                         \
        ROW(INT64, 9, INT64, 8, JSON(I64))                                                         \
        ROW(FP16, 10, FP16, 2, NO_JSON)                                                            \
        ROW(FP32, 11, FP32, 4, JSON(F32))                                                          \
        ROW(FP64, 12, FP64, 8, JSON(F64))                                                          \
        ROW(BYTES, 13, STRING, 0, NO_JSON)                                                         \
        ROW(BF16, 14, BF16, 2, NO_JSON)
