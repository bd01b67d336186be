/* SPDX-License-Identifier: BSD-3-Clause */
/* Credentials of object stores: files of accounts and keys, and the answers of servers that issue keys.
 *
 * The first byte chooses where the keys come from. The rest is texts, each ended by a byte 0xff: two
 * files, then one answer for each request. An answer begins with a digit for its status (2: 200, 4: 403,
 * 5: 503, others: no answer); its body follows.
 *
 * What must hold: a request has no control character in its URL and headers, whatever keys are in them; an
 * error has a text, which may name a setting with control characters, since logs and answers escape them; and
 * no text of the file of credentials is in an error.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "expect.h"
#include "store/secret.h"
#include "store/store_credentials_private.h"
#include "store/store_environment.h"
#include "store/store_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES 32768
#define SEPARATOR ((char)0xff)
#define FIRST_NS (UINT64_C(1440938160) * NS_PER_S)

/* The files: descriptors of their own, so that seeds may name them. */
enum { FIRST_FD = 700, N_FILES = 2 };
#define FILE_0 "/proc/self/fd/700"
#define FILE_1 "/proc/self/fd/701"
#define TEXT_0 "" /* the variable's value is the text of the first file */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct variable {
        enum store_variable name;
        const char         *value;
};

/* Where the keys come from. */
static const struct scenario {
        enum store_kind kind;
        bool            hides_file; /* no error has a text of the first file */
        struct variable variables[4];
        size_t          n_variables;
} scenarios[] = {
        { STORE_S3,
          false,
          { { ENV_AWS_CONFIG_FILE, FILE_0 }, { ENV_AWS_SHARED_CREDENTIALS_FILE, FILE_1 } },
          2 },
        { STORE_S3,
          false,
          { { ENV_AWS_WEB_IDENTITY_TOKEN_FILE, FILE_0 },
            { ENV_AWS_ROLE_ARN, "arn:aws:iam::1:role/r" },
            { ENV_AWS_REGION, "r" } },
          3 },
        { STORE_S3,
          false,
          { { ENV_AWS_CONTAINER_CREDENTIALS_FULL_URI, "http://127.0.0.1/k" },
            { ENV_AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, FILE_0 } },
          2 },
        { STORE_S3, false, { { ENV_AWS_REGION, "r" } }, 1 },
        { STORE_S3,
          true,
          { { ENV_TRITON_CLOUD_CREDENTIAL_PATH, FILE_0 }, { ENV_AWS_CONFIG_FILE, FILE_1 } },
          2 },
        { STORE_GS, false, { { ENV_GOOGLE_APPLICATION_CREDENTIALS, FILE_0 } }, 1 },
        { STORE_GS, false, { { ENV_GCE_METADATA_HOST, "metadata" } }, 1 },
        { STORE_GS, true, { { ENV_TRITON_CLOUD_CREDENTIAL_PATH, FILE_0 } }, 1 },
        { STORE_AS, true, { { ENV_TRITON_CLOUD_CREDENTIAL_PATH, FILE_0 } }, 1 },
        { STORE_AS,
          false,
          { { ENV_AZURE_FEDERATED_TOKEN_FILE, FILE_0 },
            { ENV_AZURE_CLIENT_ID, "c" },
            { ENV_AZURE_TENANT_ID, "t" } },
          3 },
        { STORE_AS,
          false,
          { { ENV_AZURE_STORAGE_ACCOUNT, "account" }, { ENV_AZURE_STORAGE_KEY, TEXT_0 } },
          2 },
        { STORE_AS, false, { { ENV_AZURE_STORAGE_SAS_TOKEN, TEXT_0 } }, 1 },
        { STORE_AS,
          false,
          { { ENV_IDENTITY_ENDPOINT, "http://127.0.0.1/i?a=b" }, { ENV_IDENTITY_HEADER, "h" } },
          2 },
        { STORE_AS, false, { { ENV_AZURE_CLIENT_ID, "c" } }, 1 },
};

static struct str left; /* answers that were not given yet */
static uint64_t   now_ns;

/* ---- store_request.c -------------------------------------------------------------------------- */

static void check_request(const struct store_request *r) {
        expect_of(secret_is_plain(strbuf_cstr(&r->url)), "URL", strbuf_cstr(&r->url));
        for (size_t i = 0; i < r->n_headers; i++) {
                expect_of(secret_is_plain(r->headers[i].name), "header", r->headers[i].name);
                expect_of(secret_is_plain(r->headers[i].value), "value", r->headers[i].name);
        }
}

static int status_of(char digit) {
        switch (digit) {
        case '2': return 200;
        case '4': return 403;
        case '5': return 503;
        default: return 0;
        }
}

struct error *store_exchange(struct store_request *r, struct store_answer *ret) {
        struct str answer;

        check_request(r);
        left = str_split(left, SEPARATOR, &answer);
        if (answer.len == 0 || status_of(answer.ptr[0]) == 0)
                return error_new_text(ERR_UNAVAILABLE, "no connection");
        *ret = (struct store_answer){ .status = status_of(answer.ptr[0]) };
        strbuf_init(&ret->body, MAX_BYTES);
        strbuf_put(&ret->body, answer.ptr + 1, answer.len - 1);
        store_answer_add(ret, STR_LIT("Metadata-Flavor"), STR_LIT("Google"));
        return NULL;
}

struct error *store_request_prepare(void) {
        return NULL;
}

void store_request_close_idle(void) {
}

/* ---- the files -------------------------------------------------------------------------------- */

static void make_files(void) {
        for (int i = 0; i < N_FILES; i++) {
                int fd = memfd_create("credentials", MFD_CLOEXEC);

                expect_of(fd >= 0 && dup2(fd, FIRST_FD + i) >= 0, "memfd", "");
                close(fd);
        }
        for (size_t i = 0; i < N_STORE_VARIABLES; i++)
                unsetenv(store_variable_name((enum store_variable)i));
}

static void write_file(int fd, struct str text) {
        expect_of(ftruncate(fd, 0) == 0 && pwrite(fd, text.ptr, text.len, 0) == (ssize_t)text.len,
                  "write", "");
}

static void set_variables(const struct scenario *s, struct str first) {
        AUTO_CHARS text = mem_strndup(first.ptr, first.len);

        for (size_t i = 0; i < s->n_variables; i++) {
                const char *value = s->variables[i].value;

                setenv(store_variable_name(s->variables[i].name), *value != '\0' ? value : text, 1);
        }
}

static void unset_variables(const struct scenario *s) {
        for (size_t i = 0; i < s->n_variables; i++)
                unsetenv(store_variable_name(s->variables[i].name));
}

/* ---- requests --------------------------------------------------------------------------------- */

static uint64_t get_now(void) {
        return now_ns;
}

/* The path of a file is no secret, and its error names it. */
static bool has_secret(const char *message) {
        return strstr(message, "SECRET") != NULL && strstr(message, "unable to open '") == NULL;
}

static void check_error(const struct scenario *s, struct error *err) {
        if (err == NULL)
                return;
        expect_of(err->message[0] != '\0', "no reason", "");
        expect_of(!s->hides_file || !has_secret(err->message), "secret", err->message);
        error_free(err);
}

static void sign(const struct scenario *s, struct store_credentials *c) {
        struct store_request r = { .method = "GET" };
        struct error        *err;

        strbuf_init(&r.url, 0);
        strbuf_printf(&r.url, "%s/b/k?list-type=2&prefix=a%%20b", store_credentials_origin(c));
        err = store_credentials_sign(c, &r);
        if (err == NULL)
                check_request(&r);
        check_error(s, err);
        store_request_done(&r);
}

static void use(const struct scenario *s) {
        static const char *const  addresses[] = { [STORE_S3] = "s3://bucket/path",
                                                  [STORE_GS] = "gs://bucket/path",
                                                  [STORE_AS] = "as://account/container/path" };
        struct store_credentials *c = NULL;
        struct store_url          url;
        struct error             *err = store_url_parse(addresses[s->kind], &url);

        expect_of(err == NULL, "address", addresses[s->kind]);
        err = store_credentials_open(&url, &c);
        store_url_done(&url);
        if (err != NULL) {
                check_error(s, err);
                return;
        }
        store_credentials_set_clock(c, get_now);
        sign(s, c);
        now_ns += 3600 * NS_PER_S;
        sign(s, c);
        if (store_credentials_renew(c, store_credentials_renewals(c)))
                sign(s, c);
        sign(s, c);
        store_credentials_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        static bool            has_files;
        const struct scenario *s;
        struct str             first = STR_LIT("");

        if (size < 1 || size > MAX_BYTES)
                return 0;
        if (!has_files)
                make_files();
        has_files = true;
        now_ns = FIRST_NS;
        s = &scenarios[bytes[0] % ARRAY_LEN(scenarios)];
        left = str_range((const char *)bytes + 1, size - 1);
        for (int i = 0; i < N_FILES; i++) {
                struct str text;

                left = str_split(left, SEPARATOR, &text);
                write_file(FIRST_FD + i, text);
                if (i == 0)
                        first = text;
        }
        set_variables(s, first);
        use(s);
        unset_variables(s);
        return 0;
}
