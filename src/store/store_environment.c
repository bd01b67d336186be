/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_environment.h"

#include "base/mem.h"
#include "store/secret.h"

static const char *const names[N_STORE_VARIABLES] = {
#define STORE_VARIABLE_NAME(name) [ENV_##name] = #name,
        STORE_VARIABLES(STORE_VARIABLE_NAME)
#undef STORE_VARIABLE_NAME
};

const char *store_variable_name(enum store_variable v) {
        return names[v];
}

void store_environment_read(struct store_environment *ret) {
        for (size_t i = 0; i < N_STORE_VARIABLES; i++) {
                const char *value = getenv(names[i]);

                ret->values[i] = value != NULL && value[0] != '\0' ? mem_strdup(value) : NULL;
        }
}

void store_environment_done(struct store_environment *e) {
        for (size_t i = 0; i < N_STORE_VARIABLES; i++)
                secret_free(STEAL(e->values[i]));
}

const char *store_environment_get(const struct store_environment *e, enum store_variable v) {
        return e->values[v];
}

const char *store_environment_get_first(const struct store_environment *e, enum store_variable a,
                                        enum store_variable b) {
        return e->values[a] != NULL ? e->values[a] : e->values[b];
}
