/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/list_as.h"

#include "codec/base64.h"
#include "codec/url.h"
#include "store/xml_reader.h"

#define ROOT "EnumerationResults"
#define BLOB ROOT "/Blobs/Blob"
#define PROPERTIES BLOB "/Properties"
#define MAX_NAME_BYTES ((size_t)16 << 10) /* a name has at most 1024 characters */
#define MAX_VALUE_BYTES 512

void list_as_url(const char *origin, const char *container, const char *prefix, const char *token,
                 unsigned n_max, struct strbuf *ret) {
        strbuf_puts(ret, origin);
        strbuf_putc(ret, '/');
        url_encode(str_of(container), true, ret);
        strbuf_printf(ret, "?restype=container&comp=list&maxresults=%u", n_max);
        if (prefix[0] != '\0') {
                url_put_parameter(ret, "prefix", prefix);
                strbuf_puts(ret, "%2F");
        }
        if (token[0] != '\0')
                url_put_parameter(ret, "marker", token);
}

/* ---- a page -------------------------------------------------------------------------------- */

struct page {
        struct store_list *list;  /* borrowed */
        struct strbuf     *token; /* borrowed */
        bool               has_root;
        /* The blob whose element is being read. */
        struct strbuf name;
        struct strbuf etag;
        uint64_t      size;
        bool          has_size;
        bool          is_folder;
        bool          has_md5;
        unsigned char md5[STORE_LIST_MD5_BYTES];
};

static struct error *on_element_begin(void *userp, struct str path) {
        struct page *p = userp;

        if (str_is(path, ROOT))
                p->has_root = true;
        if (!str_is(path, BLOB))
                return NULL;
        strbuf_clear(&p->name);
        strbuf_clear(&p->etag);
        p->has_size = p->has_md5 = p->is_folder = false;
        return NULL;
}

/* The listing has it without the quotes that the headers ETag and If-Match have. */
static void put_etag(struct page *p, struct str text) {
        bool is_bare = text.len > 0 && text.ptr[text.len - 1] != '"';

        strbuf_printf(&p->etag, is_bare ? "\"%.*s\"" : "%.*s", STR_ARG(text));
}

static struct error *add_blob(struct page *p) {
        struct store_object o;

        if (p->is_folder)
                strbuf_putc(&p->name, '/'); /* a directory in store_list.h */
        TRY(strbuf_check(&p->name, "the name of a blob"));
        TRY(strbuf_check(&p->etag, "the ETag of a blob"));
        if (p->name.len == 0)
                return error_new_text(ERR_INVALID_ARG, "a blob of the listing has no name");
        if (!p->has_size && !p->is_folder)
                return error_new(ERR_INVALID_ARG, "the blob '%s' of the listing has no valid size",
                                 strbuf_cstr(&p->name));
        o = (struct store_object){
                .key = strbuf_str(&p->name),
                .size = p->is_folder ? 0 : p->size,
                .etag = str_range(strbuf_cstr(&p->etag), p->etag.len),
                .md5 = p->has_md5 ? p->md5 : NULL,
        };
        return store_list_add(p->list, &o);
}

static void read_property(struct page *p, struct str name, struct str text) {
        if (str_is(name, "Content-Length"))
                p->has_size = str_to_u64(text, &p->size);
        else if (str_equal_nocase(name, STR_LIT("Etag")))
                put_etag(p, text);
        else if (str_is(name, "Content-MD5"))
                p->has_md5 = base64_decode_exactly(text, p->md5, STORE_LIST_MD5_BYTES);
        else if (str_is(name, "ResourceType"))
                p->is_folder = str_is(text, "directory");
}

static struct error *on_element_end(void *userp, struct str path, struct str text) {
        struct page *p = userp;
        size_t       start = sizeof(PROPERTIES); /* with the slash after it */

        if (str_is(path, BLOB "/Name"))
                strbuf_put(&p->name, text.ptr, text.len);
        else if (str_starts(path, STR_LIT(PROPERTIES "/")))
                read_property(p, str_skip(path, start), text);
        else if (str_is(path, BLOB))
                return add_blob(p);
        else if (str_is(path, ROOT "/NextMarker"))
                strbuf_put(p->token, text.ptr, text.len);
        return NULL;
}

struct error *list_as_read(struct str page, struct store_list *l, struct strbuf *ret_token) {
        struct page              p = { .list = l,
                                       .token = ret_token,
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
        if (err == NULL && !p.has_root)
                err = error_new_text(ERR_INVALID_ARG, "the listing has no element " ROOT);
        return err != NULL ? err : strbuf_check(ret_token, "the marker of a page");
}
