/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/datatype.h"

#include "base/compiler.h"
#include "codec/data_types.h"

struct datatype_row {
        struct str        name;
        size_t            bytes;
        bool              is_json;
        enum json_element element;
};

/* clang-format off */
#define JSON(element) true, JSON_ELEMENT_##element
#define NO_JSON false, JSON_ELEMENT_BOOL
#define ROW(name, value, config_name, bytes, json) [value] = { STR_LIT(#name), bytes, json },

static const struct datatype_row datatypes[] = {
        [TRITONSERVER_TYPE_INVALID] = { STR_LIT("<invalid>"), 0, NO_JSON },
        DATA_TYPES(ROW)
};
/* clang-format on */

/* datatype_from_name() compares that many letters at once. */
#define LONG_ENOUGH(name, ...) _Static_assert(sizeof(#name) > 4, "the name is too short");
DATA_TYPES(LONG_ENOUGH)

static const struct datatype_row *find_row(TRITONSERVER_DataType type) {
        return &datatypes[(size_t)type < ARRAY_LEN(datatypes) ? type : TRITONSERVER_TYPE_INVALID];
}

TRITONSERVER_DataType datatype_from_name(struct str name) {
        if (STR_IS(name, "FP32")) /* the most frequent type */
                return TRITONSERVER_TYPE_FP32;
        for (size_t i = TRITONSERVER_TYPE_INVALID + 1; i < ARRAY_LEN(datatypes); i++) {
                struct str known = datatypes[i].name;

                /* This comparison saves a call of memcmp() for most rows. */
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
