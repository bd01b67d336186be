/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/datatype.h"

#include "base/compiler.h"

struct datatype_row {
        struct str        name;
        size_t            bytes;
        bool              is_json;
        enum json_element element;
};

#define ROW(text, size, element_kind)                                                              \
        { STR_LIT(text), size, true, element_kind }
#define ROW_WITHOUT_JSON(text, size)                                                               \
        { STR_LIT(text), size, false, JSON_ELEMENT_BOOL }

static const struct datatype_row datatypes[] = {
        [TRITONSERVER_TYPE_INVALID] = ROW_WITHOUT_JSON("<invalid>", 0),
        [TRITONSERVER_TYPE_BOOL] = ROW("BOOL", 1, JSON_ELEMENT_BOOL),
        [TRITONSERVER_TYPE_UINT8] = ROW("UINT8", 1, JSON_ELEMENT_U8),
        [TRITONSERVER_TYPE_UINT16] = ROW("UINT16", 2, JSON_ELEMENT_U16),
        [TRITONSERVER_TYPE_UINT32] = ROW("UINT32", 4, JSON_ELEMENT_U32),
        [TRITONSERVER_TYPE_UINT64] = ROW("UINT64", 8, JSON_ELEMENT_U64),
        [TRITONSERVER_TYPE_INT8] = ROW("INT8", 1, JSON_ELEMENT_I8),
        [TRITONSERVER_TYPE_INT16] = ROW("INT16", 2, JSON_ELEMENT_I16),
        [TRITONSERVER_TYPE_INT32] = ROW("INT32", 4, JSON_ELEMENT_I32),
        [TRITONSERVER_TYPE_INT64] = ROW("INT64", 8, JSON_ELEMENT_I64),
        [TRITONSERVER_TYPE_FP16] = ROW_WITHOUT_JSON("FP16", 2),
        [TRITONSERVER_TYPE_FP32] = ROW("FP32", 4, JSON_ELEMENT_F32),
        [TRITONSERVER_TYPE_FP64] = ROW("FP64", 8, JSON_ELEMENT_F64),
        [TRITONSERVER_TYPE_BYTES] = ROW_WITHOUT_JSON("BYTES", 0),
        [TRITONSERVER_TYPE_BF16] = ROW_WITHOUT_JSON("BF16", 2),
};

static const struct datatype_row *find_row(TRITONSERVER_DataType type) {
        return &datatypes[(size_t)type < ARRAY_LEN(datatypes) ? type : TRITONSERVER_TYPE_INVALID];
}

TRITONSERVER_DataType datatype_from_name(struct str name) {
        if (STR_IS(name, "FP32")) /* the most frequent type */
                return TRITONSERVER_TYPE_FP32;
        for (size_t i = TRITONSERVER_TYPE_INVALID + 1; i < ARRAY_LEN(datatypes); i++) {
                struct str known = datatypes[i].name;

                /* Every name has at least four letters. This comparison saves a call of memcmp()
                 * for most rows. */
                if (known.len == name.len && memcmp(known.ptr, name.ptr, 4) == 0 &&
                    memcmp(known.ptr, name.ptr, name.len) == 0)
                        return (TRITONSERVER_DataType)i;
        }
        return TRITONSERVER_TYPE_INVALID;
}

const char *datatype_name(TRITONSERVER_DataType type) {
        return find_row(type)->name.ptr;
}

struct str datatype_str(TRITONSERVER_DataType type) {
        return find_row(type)->name;
}

size_t datatype_bytes(TRITONSERVER_DataType type) {
        return find_row(type)->bytes;
}

bool datatype_json_element(TRITONSERVER_DataType type, enum json_element *ret) {
        *ret = find_row(type)->element;
        return find_row(type)->is_json;
}
