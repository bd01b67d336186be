/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/data_type.h"

#include "base/compiler.h"

struct type_row {
        const char *name;
        const char *config_name;
        size_t      size;
};

static const struct type_row types[] = {
        [DATA_TYPE_INVALID] = { "<invalid>", "TYPE_INVALID", 0 },
        [DATA_TYPE_BOOL] = { "BOOL", "TYPE_BOOL", 1 },
        [DATA_TYPE_UINT8] = { "UINT8", "TYPE_UINT8", 1 },
        [DATA_TYPE_UINT16] = { "UINT16", "TYPE_UINT16", 2 },
        [DATA_TYPE_UINT32] = { "UINT32", "TYPE_UINT32", 4 },
        [DATA_TYPE_UINT64] = { "UINT64", "TYPE_UINT64", 8 },
        [DATA_TYPE_INT8] = { "INT8", "TYPE_INT8", 1 },
        [DATA_TYPE_INT16] = { "INT16", "TYPE_INT16", 2 },
        [DATA_TYPE_INT32] = { "INT32", "TYPE_INT32", 4 },
        [DATA_TYPE_INT64] = { "INT64", "TYPE_INT64", 8 },
        [DATA_TYPE_FP16] = { "FP16", "TYPE_FP16", 2 },
        [DATA_TYPE_FP32] = { "FP32", "TYPE_FP32", 4 },
        [DATA_TYPE_FP64] = { "FP64", "TYPE_FP64", 8 },
        [DATA_TYPE_BYTES] = { "BYTES", "TYPE_STRING", 0 },
        [DATA_TYPE_BF16] = { "BF16", "TYPE_BF16", 2 },
};

/* Values may come from a file or a plug-in: unknown ones are INVALID. */
static const struct type_row *find_row(enum data_type type) {
        return (size_t)type < ARRAY_LEN(types) ? &types[type] : &types[DATA_TYPE_INVALID];
}

size_t data_type_size(enum data_type type) {
        return find_row(type)->size;
}

const char *data_type_name(enum data_type type) {
        return find_row(type)->name;
}

const char *data_type_config_name(enum data_type type) {
        return find_row(type)->config_name;
}

enum data_type data_type_from_name(struct str name) {
        for (size_t i = DATA_TYPE_INVALID + 1; i < ARRAY_LEN(types); i++)
                if (str_is(name, types[i].name))
                        return (enum data_type)i;
        return DATA_TYPE_INVALID;
}
