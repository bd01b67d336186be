/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_key.h"

#include "base/mem.h"

char *model_key_label(const struct model_key *key) {
        return *key->namespace != '\0' ? mem_printf("%s::%s", key->namespace, key->name)
                                       : mem_strdup(key->name);
}
