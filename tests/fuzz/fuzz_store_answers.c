/* SPDX-License-Identifier: BSD-3-Clause */
/* A hostile object store: its pages of a listing, its redirects, and the contents of its objects with their headers, up
 * to the files that are fetched. Nothing is sent: store_exchange() is here.
 *
 * The first byte chooses the kind of store. The rest is answers, each ended by a byte 0xff: a character for the
 * status, lines "name: value", an empty line, and the body.
 *
 * What must hold: an error has a text; a request has no control character in its URL and headers and goes to the
 * store's host; each file that was fetched has the size of the listing, and its checksum where the listing has one.
 */
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "expect.h"
#include "store/secret.h"
#include "store/store.h"
#include "store/store_environment.h"
#include "store/store_fetch.h"
#include "store/store_hub.h"
#include "store/store_listing.h"
#include "store/store_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES 32768
#define SEPARATOR ((char)0xff)
#define MAX_FILES 4

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct {
        const char *address;
        const char *origin; /* of all requests */
} stores[] = {
        { "s3://http://127.0.0.1:9000/bucket/path", "http://127.0.0.1:9000/" },
        { "as://account/container/path", "https://account.blob.core.windows.net/" },
        { "http://127.0.0.1:9000/path", "http://127.0.0.1:9000/" },
};

static struct str        left;   /* answers that were not given yet */
static const char       *origin; /* of the store */
static struct store_hub *hub;
static char              directory[] = "/dev/shm/neso-fuzz-XXXXXX";

/* ---- store_request.c -------------------------------------------------------------------------- */

static void check_request(const struct store_request *r) {
        const char *url = strbuf_cstr(&r->url);

        expect_of(secret_is_plain(url), "URL", url);
        expect_of(strncmp(url, origin, strlen(origin)) == 0, "another host", url);
        for (size_t i = 0; i < r->n_headers; i++) {
                expect_of(secret_is_plain(r->headers[i].name), "header", r->headers[i].name);
                expect_of(secret_is_plain(r->headers[i].value), "value", r->headers[i].name);
        }
}

static int status_of(char c) {
        static const struct {
                char c;
                int  status;
        } rows[] = { { '2', 200 }, { '6', 206 }, { '3', 302 }, { '1', 301 }, { '4', 404 },
                     { 'f', 403 }, { 'p', 412 }, { 'r', 416 }, { 'b', 400 }, { '5', 503 } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                if (rows[i].c == c)
                        return rows[i].status;
        return 0;
}

/* Lines up to an empty one; returns the body. */
static struct str read_headers(struct str text, struct store_answer *a) {
        struct str line, name, value;

        while (text.ptr != NULL) {
                text = str_split(text, '\n', &line);
                if (line.len == 0)
                        break;
                value = str_split(line, ':', &name);
                if (value.ptr != NULL && memchr(line.ptr, '\r', line.len) == NULL &&
                    memchr(line.ptr, '\0', line.len) == NULL)
                        store_answer_add(a, name, str_trim(value));
        }
        return text.ptr != NULL ? text : STR_LIT("");
}

/* In two pieces. */
static struct error *give_body(const struct store_request *r, struct str body) {
        struct str first = str_range(body.ptr, body.len / 2);

        if ((first.len > 0 && !r->take(r->userp, first)) ||
            (body.len > 0 && !r->take(r->userp, str_skip(body, first.len))))
                return error_new_text(ERR_CANCELLED, "the taker has enough");
        return NULL;
}

struct error *store_exchange(struct store_request *r, struct store_answer *ret) {
        struct store_answer *a = ret;
        struct str           text = { 0 }, body;
        struct error        *err = NULL;

        check_request(r);
        if (left.ptr != NULL)
                left = str_split(left, SEPARATOR, &text);
        if (text.len == 0 || status_of(text.ptr[0]) == 0)
                return error_new_text(ERR_UNAVAILABLE, "no connection");
        *a = (struct store_answer){ .status = status_of(text.ptr[0]) };
        body = read_headers(str_skip(text, 1), a);
        strbuf_init(&a->body, r->max_answer_bytes > 0 ? r->max_answer_bytes : (size_t)1 << 20);
        if (r->take != NULL && a->status < 300)
                err = give_body(r, body);
        else
                strbuf_put(&a->body, body.ptr, body.len);
        if (err != NULL)
                store_answer_done(a);
        return err;
}

struct error *store_request_prepare(void) {
        return NULL;
}

void store_request_close_idle(void) {
}

/* ---- the store -------------------------------------------------------------------------------- */

static void end(void) {
        store_hub_free(hub);
        rmdir(directory);
}

static void begin(void) {
        struct store_hub_options  o = { .n_transfers = 1 };
        const struct log_settings silent = { 0 };

        if (hub != NULL)
                return;
        for (size_t i = 0; i < N_STORE_VARIABLES; i++)
                unsetenv(store_variable_name((enum store_variable)i));
        setenv("AWS_ACCESS_KEY_ID", "k", 1);
        setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
        setenv("AWS_REGION", "r", 1);
        setenv("AZURE_STORAGE_ACCOUNT", "account", 1);
        setenv("AZURE_STORAGE_KEY", "a2V5", 1);
        setenv("TMPDIR", "/dev/shm", 1);
        log_set_settings(&silent);
        hub = store_hub_new(&o);
        expect_of(mkdtemp(directory) != NULL, "directory", directory);
        atexit(end);
}

static void check_file(const char *path, const struct store_entry *e) {
        AUTO_STRBUF   text = { 0 };
        unsigned char digest[DIGEST_SHA256_BYTES];

        expect_of(end_error(file_read(path, MAX_BYTES, &text)), "a file is missing", e->name);
        expect_of(text.len == e->size, "a file of another size", e->name);
        if (e->has_sha256) {
                expect_of(digest_of(DIGEST_SHA256, strbuf_str(&text), digest) == NULL, "digest",
                          "");
                expect_of(memcmp(digest, e->sha256, sizeof(digest)) == 0, "another checksum",
                          e->name);
        }
}

static void fetch(struct store *s, const struct store_listing *l) {
        const struct store_entry  *entries[MAX_FILES];
        struct store_fetch_options o = { .entries = entries, .directory = directory, .what = "it" };
        struct store_fetch         f;
        bool                       has_changed, is_there;

        for (size_t i = 0; i < l->list.n_entries && o.n_entries < MAX_FILES; i++) {
                const struct store_entry *e = &l->list.entries[i];

                if (!e->is_directory && e->size <= MAX_BYTES && strchr(e->name, '/') == NULL &&
                    strlen(e->name) < 200)
                        entries[o.n_entries++] = e;
        }
        store_fetch_init(&f, s);
        is_there = end_error(store_fetch_run(&f, &o, &has_changed));
        for (size_t i = 0; i < o.n_entries; i++) {
                AUTO_CHARS path = path_join(directory, entries[i]->name);

                if (is_there)
                        check_file(path, entries[i]);
                unlink(path);
        }
}

static void use(struct store *s) {
        struct store_listing *l = NULL, *recent = NULL;

        if (!end_error(store_list_directory(s, "", &l)))
                return;
        expect_of(end_error(store_list_recent(s, UINT64_MAX, false, &recent)), "the latest listing",
                  "");
        expect_of(recent == l, "the latest listing", "is another");
        fetch(s, l);
        store_listing_unref(recent);
        store_listing_unref(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct store *s;
        size_t        kind;

        if (size < 1 || size > MAX_BYTES)
                return 0;
        begin();
        kind = bytes[0] % (sizeof(stores) / sizeof(*stores));
        origin = stores[kind].origin;
        left = str_range((const char *)bytes + 1, size - 1);
        expect_of(end_error(store_open(hub, stores[kind].address, &s)), "open",
                  stores[kind].address);
        use(s);
        store_unref(s);
        return 0;
}
