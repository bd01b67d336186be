/* SPDX-License-Identifier: BSD-3-Clause */
/* A key file: what is accepted keeps its promises, what is refused is refused with a place.
 */
#include "auth/api_key_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check_key(const struct api_key_file *f, const struct api_key *key) {
        if (api_key_file_find(f, key->digest) != key || key->groups == 0 || key->line == 0)
                abort();
        if (!api_key_grants_model(key, STR_LIT("")) != (key->models != NULL))
                abort();
        if (key->models != NULL && strchr(key->models, '*') == NULL &&
            strchr(key->models, ',') == NULL && !api_key_grants_model(key, str_of(key->models)))
                abort();
        (void)!api_key_grants_model(key, STR_LIT("aaaaaaaaaaaaaaaaaaaaaaaab"));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        struct api_key_file f;
        struct error *err = api_key_file_read(str_range((const char *)input, size), "keys", &f);

        if (err != NULL) {
                if (strncmp(err->message, "keys:", 5) != 0)
                        abort();
                error_free(err);
                return 0;
        }
        if (f.n_keys == 0 && f.anonymous.name == NULL)
                abort();
        for (size_t i = 0; i < f.n_keys; i++)
                check_key(&f, &f.keys[i]);
        api_key_file_done(&f);
        return 0;
}
