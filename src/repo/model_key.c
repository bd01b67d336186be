/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_key.h"

#include "base/mem.h"

#include <string.h>

char *model_key_label(const struct model_key *key) {
        return *key->namespace != '\0' ? mem_printf("%s::%s", key->namespace, key->name)
                                       : mem_strdup(key->name);
}

int model_key_compare(const struct model_key *a, const struct model_key *b) {
        int order = strcmp(a->name, b->name);

        return order != 0 ? order : strcmp(a->namespace, b->namespace);
}
