/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/data_type.h"

#include "base/compiler.h"

struct type_row {
        const char *name;
        const char *config_name;
        size_t      size;
};

/* clang-format off */
#define TYPE_ROW(name, value, config_name, size, json)                                             \
        [value] = { #name, "TYPE_" #config_name, size },
static const struct type_row types[] = {
        [DATA_TYPE_INVALID] = { "<invalid>", "TYPE_INVALID", 0 },
        DATA_TYPES(TYPE_ROW)
};
/* clang-format on */

bool data_type_is_valid(enum data_type type) {
        return type != DATA_TYPE_INVALID && (size_t)type < ARRAY_LEN(types);
}

static const struct type_row *find_row(enum data_type type) {
        return &types[data_type_is_valid(type) ? type : DATA_TYPE_INVALID];
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
