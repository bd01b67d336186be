/* SPDX-License-Identifier: BSD-3-Clause */
/* Anonymous requests, until there are credentials. */
#include "base/mem.h"
#include "store/store_credentials.h"

struct store_credentials {
        char *origin;
};
struct error *store_credentials_open(const struct store_url *url, struct store_credentials **ret) {
        *ret = mem_zalloc(sizeof(**ret));
        (*ret)->origin = mem_printf("%s://%s", url->is_tls ? "https" : "http", url->host);
        return NULL;
}
void store_credentials_free(struct store_credentials *c) {
        if (c != NULL)
                free(c->origin);
        free(c);
}
const char *store_credentials_origin(const struct store_credentials *c) {
        return c->origin;
}
struct error *store_credentials_sign(struct store_credentials *c, struct store_request *r) {
        (void)c;
        (void)r;
        return NULL;
}
unsigned store_credentials_renewals(const struct store_credentials *c) {
        (void)c;
        return 0;
}
bool store_credentials_renew(struct store_credentials *c, unsigned n) {
        (void)c;
        (void)n;
        return false;
}
