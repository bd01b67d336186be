/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/check_names.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const char *a, const char *b) {
        AUTO_CHARS real_a = NULL;
        AUTO_CHARS real_b = NULL;

        if (strcmp(a, b) == 0)
                return true;
        real_a = realpath(a, NULL);
        real_b = realpath(b, NULL);
        return real_a != NULL && real_b != NULL && strcmp(real_a, real_b) == 0;
}

const char *check_names_repository(const char *repository, const char *namespace) {
        return *namespace != '\0' ? namespace : repository;
}

char *check_names_key(const char *checked, const char *repository, const char *name) {
        AUTO_STRBUF key = { 0 };

        if (is_same(checked, repository))
                return mem_strdup(name);
        strbuf_init(&key, 0);
        strbuf_printf(&key, "%s::%s", repository, name);
        return mem_strdup(strbuf_cstr(&key));
}
