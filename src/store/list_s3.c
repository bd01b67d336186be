/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/list_s3.h"

#include "base/digest.h"
#include "codec/url.h"
#include "store/xml_reader.h"

#define ROOT "ListBucketResult"
#define CONTENTS ROOT "/Contents"
#define MAX_NAME_BYTES                                                                             \
        ((size_t)16 << 10) /* a name has at most 1024 bytes, and each may be escaped */
#define MAX_VALUE_BYTES 512

/* The parameters are in the order of their names, as signatures need them. */
void list_s3_url(const char *origin, const char *bucket, const char *prefix, const char *token,
                 unsigned n_max, struct strbuf *ret) {
        strbuf_puts(ret, origin);
        strbuf_putc(ret, '/');
        url_encode(str_of(bucket), true, ret);
        strbuf_putc(ret, '?');
        if (token[0] != '\0') {
                strbuf_puts(ret, "continuation-token=");
                url_encode(str_of(token), false, ret);
                strbuf_putc(ret, '&');
        }
        strbuf_printf(ret, "encoding-type=url&list-type=2&max-keys=%u", n_max);
        if (prefix[0] == '\0')
                return;
        url_put_parameter(ret, "prefix", prefix);
        strbuf_puts(ret, "%2F");
}

/* ---- a page -------------------------------------------------------------------------------- */

struct page {
        struct store_list *list;  /* borrowed */
        struct strbuf     *token; /* borrowed */
        bool               has_root;
        bool               is_encoded; /* names are percent-encoded */
        bool               is_truncated;
        /* Of the object that is being read. */
        struct strbuf name;
        struct strbuf etag;
        uint64_t      size;
        bool          has_size;
};

static struct error *on_element_begin(void *userp, struct str path) {
        struct page *p = userp;

        if (str_is(path, ROOT))
                p->has_root = true;
        if (!str_is(path, CONTENTS))
                return NULL;
        strbuf_clear(&p->name);
        strbuf_clear(&p->etag);
        p->has_size = false;
        return NULL;
}

/* In this encoding a blank is '+', and '+' is "%2B". */
static struct error *read_name(struct page *p, struct str text) {
        if (!p->is_encoded) {
                strbuf_put(&p->name, text.ptr, text.len);
                return NULL;
        }
        STR_FOR_EACH(text, '+', part) {
                if (part.ptr != text.ptr)
                        strbuf_putc(&p->name, ' ');
                if (!url_decode(part, &p->name))
                        return error_new_text(ERR_INVALID_ARG,
                                              "an object of the listing has a name whose escapes "
                                              "are not valid");
        }
        return NULL;
}

static bool read_md5(struct str etag, unsigned char *ret) {
        if (etag.len >= 2 && etag.ptr[0] == '"' && etag.ptr[etag.len - 1] == '"')
                etag = str_range(etag.ptr + 1, etag.len - 2);
        return digest_read_hex(etag, ret, STORE_LIST_MD5_BYTES);
}

static struct error *add_object(struct page *p) {
        struct str          etag = str_range(strbuf_cstr(&p->etag), p->etag.len);
        unsigned char       md5[STORE_LIST_MD5_BYTES];
        struct store_object o = { .key = strbuf_str(&p->name), .size = p->size, .etag = etag };

        TRY(strbuf_check(&p->name, "the name of an object"));
        TRY(strbuf_check(&p->etag, "the ETag of an object"));
        if (p->name.len == 0)
                return error_new_text(ERR_INVALID_ARG, "an object of the listing has no name");
        if (!p->has_size)
                return error_new(ERR_INVALID_ARG,
                                 "the object '%s' of the listing has no valid size",
                                 str_is_plain(o.key) ? strbuf_cstr(&p->name) : "?");
        if (read_md5(etag, md5))
                o.md5 = md5;
        return store_list_add(p->list, &o);
}

static struct error *on_element_end(void *userp, struct str path, struct str text) {
        struct page *p = userp;

        if (str_is(path, CONTENTS "/Key"))
                return read_name(p, text);
        if (str_is(path, CONTENTS "/Size"))
                p->has_size = str_to_u64(text, &p->size);
        else if (str_is(path, CONTENTS "/ETag"))
                strbuf_put(&p->etag, text.ptr, text.len);
        else if (str_is(path, CONTENTS))
                return add_object(p);
        else if (str_is(path, ROOT "/IsTruncated"))
                p->is_truncated = str_is(text, "true");
        else if (str_is(path, ROOT "/NextContinuationToken"))
                strbuf_put(p->token, text.ptr, text.len);
        return NULL;
}

static struct error *check(const struct page *p) {
        if (!p->has_root)
                return error_new_text(ERR_INVALID_ARG, "the listing has no element " ROOT);
        TRY(strbuf_check(p->token, "the token of a page"));
        if (p->is_truncated && p->token->len == 0)
                return error_new_text(ERR_INVALID_ARG,
                                      "the listing has a next page, but no token for it");
        if (!p->is_truncated)
                strbuf_clear(p->token);
        return NULL;
}

/* The element may come after the names. */
static bool is_encoded(struct str page) {
        static const char mark[] = "<EncodingType>url</EncodingType>";

        return page.len > 0 && memmem(page.ptr, page.len, mark, sizeof(mark) - 1) != NULL;
}

struct error *list_s3_read(struct str page, struct store_list *l, struct strbuf *ret_token) {
        struct page              p = { .list = l,
                                       .token = ret_token,
                                       .is_encoded = is_encoded(page),
                                       .name.max = MAX_NAME_BYTES,
                                       .etag.max = MAX_VALUE_BYTES };
        const struct xml_handler h = { .begin = on_element_begin,
                                       .end = on_element_end,
                                       .userp = &p };
        struct error            *err;

        strbuf_clear(ret_token);
        err = xml_read(page, &h);
        strbuf_done(&p.name);
        strbuf_done(&p.etag);
        return err != NULL ? err : check(&p);
}
