/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_keys.h"

#include "base/clock.h"
#include "base/mem.h"
#include "store/secret.h"

struct store_keys *store_keys_new(enum store_keys_kind kind, struct str id, struct str secret,
                                  struct str token, uint64_t expires_ns) {
        struct store_keys *k = mem_zalloc(sizeof(*k));

        ref_init(&k->ref);
        k->kind = kind;
        k->expires_ns = expires_ns;
        k->id = mem_strndup(id.ptr, id.len);
        k->secret = mem_strndup(secret.ptr, secret.len);
        k->token = mem_strndup(token.ptr, token.len);
        return k;
}

struct store_keys *store_keys_anonymous(void) {
        return store_keys_new(STORE_KEYS_NONE, STR_LIT(""), STR_LIT(""), STR_LIT(""), CLOCK_NEVER);
}

struct store_keys *store_keys_ref(struct store_keys *k) {
        ref_get(&k->ref);
        return k;
}

void store_keys_unref(struct store_keys *k) {
        if (k == NULL || !ref_put(&k->ref))
                return;
        secret_free(k->id);
        secret_free(k->secret);
        secret_free(k->token);
        free(k);
}

struct error *store_keys_check(const struct store_keys *k) {
        if (secret_is_plain(k->id) && secret_is_plain(k->secret) && secret_is_plain(k->token))
                return NULL;
        return error_new_text(ERR_INVALID_ARG,
                              "a key or token has a control character in it, such as the "
                              "end of a line");
}

bool store_keys_equal(const struct store_keys *a, const struct store_keys *b) {
        return a->kind == b->kind && strcmp(a->id, b->id) == 0 &&
               strcmp(a->secret, b->secret) == 0 && strcmp(a->token, b->token) == 0;
}
