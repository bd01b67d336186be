/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "credentials_fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "fake_exchange.h"
#include "store/store_credentials_private.h"
#include "store/store_environment.h"

#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_SECOND UINT64_C(1440938160)

static char             folder[64];
static char             text[8192];
static _Atomic uint64_t now_ns;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
        (void)st;
        (void)kind;
        (void)at;
        return remove(path);
}

int fixture_begin(void **state) {
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/neso_credentials.XXXXXX");
        assert_non_null(mkdtemp(folder));
        for (size_t i = 0; i < N_STORE_VARIABLES; i++)
                unsetenv(store_variable_name((enum store_variable)i));
        fixture_set("HOME", folder);
        fixture_set_time(FIRST_SECOND);
        fake_begin();
        return 0;
}

int fixture_end(void **state) {
        (void)state;
        fake_end();
        return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_path(const char *name) {
        static char path[512];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

void fixture_write(const char *name, const char *contents) {
        char *path = mem_strdup(fixture_path(name));
        FILE *file;

        for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL;
             slash++) {
                *slash = '\0';
                mkdir(path, 0700);
                *slash = '/';
        }
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fputs(contents, file) >= 0, 1);
        assert_int_equal(fclose(file), 0);
        free(path);
}

void fixture_set(const char *variable, const char *value) {
        assert_int_equal(setenv(variable, value, 1), 0);
}

void fixture_set_path(const char *variable, const char *name) {
        fixture_set(variable, fixture_path(name));
}

struct store_url fixture_url(enum store_kind kind, const char *host, const char *bucket,
                             const char *address) {
        return (struct store_url){
                .kind = kind,
                .is_tls = strstr(address, "http://") == NULL,
                .host = (char *)host,
                .bucket = (char *)bucket,
                .path = (char *)"",
                .text = (char *)address,
        };
}

void fixture_set_time(uint64_t s) {
        atomic_store(&now_ns, s * NS_PER_S);
}

static uint64_t fixture_now(void) {
        return atomic_load(&now_ns);
}

struct store_credentials *fixture_open(const struct store_url *url) {
        struct store_credentials *c = NULL;
        struct error             *err = store_credentials_open(url, &c);

        if (err != NULL)
                fail_msg("%s", err->message);
        store_credentials_set_clock(c, fixture_now);
        return c;
}

/* Replaces the folder by "%". */
static void expect_text(const char *found, const char *expected) {
        const char *at;
        size_t      n = 0;

        while ((at = strstr(found, folder)) != NULL) {
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s%%", (int)(at - found),
                                      found);
                found = at + strlen(folder);
        }
        snprintf(text + n, sizeof(text) - n, "%s", found);
        assert_string_equal(text, expected);
}

void fixture_open_fails(const struct store_url *url, const char *expected) {
        struct store_credentials *c = NULL;
        struct error             *err = store_credentials_open(url, &c);

        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        expect_text(err->message, expected);
        error_free(err);
}

static void begin(const struct store_credentials *c, const char *path, struct store_request *r) {
        *r = (struct store_request){ .method = "GET" };
        strbuf_init(&r->url, 0);
        strbuf_printf(&r->url, "%s/%s", store_credentials_origin(c), path);
}

const char *fixture_sign(struct store_credentials *c, const char *path, const char *header) {
        struct store_request r;
        struct error        *err;

        begin(c, path, &r);
        err = store_credentials_sign(c, &r);
        if (err != NULL)
                fail_msg("%s", err->message);
        text[0] = '\0';
        if (strcmp(header, "URL") == 0)
                snprintf(text, sizeof(text), "%s", strbuf_cstr(&r.url));
        for (size_t i = 0; i < r.n_headers; i++)
                if (strcmp(r.headers[i].name, header) == 0)
                        snprintf(text, sizeof(text), "%s", r.headers[i].value);
        store_request_done(&r);
        return text;
}

void fixture_sign_fails(struct store_credentials *c, enum error_code code, const char *expected) {
        struct store_request r;
        struct error        *err;

        begin(c, "b/k", &r);
        err = store_credentials_sign(c, &r);
        store_request_done(&r);
        assert_non_null(err);
        expect_text(err->message, expected);
        assert_int_equal(err->code, code);
        error_free(err);
}
