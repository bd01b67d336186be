/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/load_parameter.h"

#include "base/compiler.h"

bool load_parameter_is_of_chain(struct str name) {
        static const char *const names[] = { "next", "next_map", "chain_batching",
                                             "chain_allow_end", "chain_autoload" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (str_is(name, names[i]))
                        return true;
        return false;
}
