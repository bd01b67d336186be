/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_kind.h"

#include "base/mem.h"
#include "codec/url.h"
#include "store/list_as.h"
#include "store/list_gs.h"
#include "store/list_s3.h"
#include "store/list_web.h"
#include "store/store.h"
#include "store/store_credentials.h"
#include "store/store_list.h"
#include "store/store_request.h"

#include <string.h>

#define PAGE_BYTES ((size_t)16 << 20)
#define INDEX_BYTES ((size_t)128 << 20)

typedef void (*print_page_fn)(const char *origin, const char *bucket, const char *prefix,
                              const char *token, unsigned n_max, struct strbuf *ret);
typedef struct error *(*read_page_fn)(struct str page, struct store_list *l,
                                      struct strbuf *ret_token);

static const struct {
        print_page_fn print_page;
        read_page_fn  read_page;
        unsigned      n_max; /* objects of a page */
} kinds[] = {
        [STORE_S3] = { list_s3_url, list_s3_read, LIST_S3_PAGE },
        [STORE_GS] = { list_gs_url, list_gs_read, LIST_GS_PAGE },
        [STORE_AS] = { list_as_url, list_as_read, LIST_AS_PAGE },
};

static const char *origin_of(const struct store *s) {
        return store_credentials_origin(s->credentials);
}

/* Returns the path below the bucket. The caller owns it. */
static char *full_name(const struct store *s, const char *name) {
        return *s->url.path != '\0' ? mem_printf("%s/%s", s->url.path, name) : mem_strdup(name);
}

static void print_object(const struct store *s, const char *name, struct strbuf *out) {
        AUTO_CHARS full = full_name(s, name);

        if (s->url.kind == STORE_GS) {
                list_gs_object_url(origin_of(s), s->url.bucket, str_of(full), out);
                return;
        }
        strbuf_puts(out, origin_of(s));
        if (*s->url.bucket != '\0') {
                strbuf_putc(out, '/');
                url_encode(str_of(s->url.bucket), true, out);
        }
        strbuf_putc(out, '/');
        url_encode(str_of(full), true, out);
}

/* ---- listings -------------------------------------------------------------------------------- */

const char *store_kind_prefix(const struct store *s) {
        return s->url.kind == STORE_WEB ? "" : s->url.path;
}

void store_kind_print_page(const struct store *s, const char *directory, const char *token,
                           struct strbuf *out) {
        AUTO_CHARS prefix = NULL;

        if (s->url.kind == STORE_WEB) {
                print_object(s, LIST_WEB_FILE, out);
                return;
        }
        prefix = *directory != '\0' ? full_name(s, directory) : mem_strdup(s->url.path);
        kinds[s->url.kind].print_page(origin_of(s), s->url.bucket, prefix, token,
                                      kinds[s->url.kind].n_max, out);
}

struct error *store_kind_read_page(const struct store *s, const char *directory, struct str page,
                                   struct store_list *list, struct strbuf *ret_token) {
        AUTO_CHARS prefix = NULL;

        if (s->url.kind != STORE_WEB)
                return kinds[s->url.kind].read_page(page, list, ret_token);
        strbuf_clear(ret_token);
        prefix = *directory != '\0' ? mem_printf("%s/", directory) : mem_strdup("");
        return list_web_read(page, str_of(prefix), list);
}

size_t store_kind_page_bytes(const struct store *s) {
        return s->url.kind == STORE_WEB ? INDEX_BYTES : PAGE_BYTES;
}

/* ---- objects --------------------------------------------------------------------------------- */

void store_kind_print_object(const struct store *s, const struct store_entry *e,
                             struct strbuf *out) {
        print_object(s, e->name, out);
}

void store_kind_add_headers(const struct store *s, const struct store_entry *e,
                            struct store_request *r) {
        /* A weak one never matches (RFC 9110, 13.1.1); the ETag of the answer is compared. */
        if (*e->etag != '\0' && strncmp(e->etag, "W/", 2) != 0)
                store_request_add(r, "if-match", e->etag);
        if (s->url.kind == STORE_S3)
                store_request_add(r, "x-amz-checksum-mode", "ENABLED");
        /* Google decompresses an object with Content-Encoding: gzip for those who do not say that they can, and
         * then sends other bytes than those that it listed and has the checksum of. */
        if (s->url.kind == STORE_GS)
                store_request_add(r, "accept-encoding", "gzip");
}

/* Google's two interfaces write different ETags; If-Match compares that of the listing. */
bool store_kind_compares_etag(const struct store *s) {
        return s->url.kind != STORE_GS;
}

char *store_kind_describe(const struct store *s, const char *name) {
        return mem_printf("%s/%s", store_text(s), name);
}

char *store_kind_describe_page(const struct store *s) {
        return s->url.kind == STORE_WEB ? store_kind_describe(s, LIST_WEB_FILE)
                                        : mem_strdup(store_text(s));
}
