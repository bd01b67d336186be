/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/list_gs.h"

#include "codec/base64.h"
#include "codec/json_reader.h"
#include "codec/url.h"

#define FIELDS "items(name,size,etag,generation,md5Hash),nextPageToken"
#define MAX_OBJECT_BYTES ((size_t)1 << 20) /* of texts with escapes of one object */

static void put_bucket(const char *origin, const char *bucket, struct strbuf *out) {
        strbuf_puts(out, origin);
        strbuf_puts(out, "/storage/v1/b/");
        url_encode(str_of(bucket), false, out);
        strbuf_puts(out, "/o");
}

void list_gs_url(const char *origin, const char *bucket, const char *prefix, const char *token,
                 unsigned n_max, struct strbuf *ret) {
        put_bucket(origin, bucket, ret);
        strbuf_printf(ret, "?maxResults=%u", n_max);
        url_put_parameter(ret, "fields", FIELDS);
        if (prefix[0] != '\0') {
                url_put_parameter(ret, "prefix", prefix);
                strbuf_puts(ret, "%2F");
        }
        if (token[0] != '\0')
                url_put_parameter(ret, "pageToken", token);
}

void list_gs_object_url(const char *origin, const char *bucket, struct str key,
                        struct strbuf *ret) {
        put_bucket(origin, bucket, ret);
        strbuf_putc(ret, '/');
        url_encode(key, false, ret);
        strbuf_puts(ret, "?alt=media");
}

/* ---- a page -------------------------------------------------------------------------------- */

struct item {
        struct str name;
        struct str size; /* a number as text, as the API writes 64 bits */
        struct str etag;
        struct str generation;
        struct str md5;
};

static struct str *find_field(struct item *item, struct str key) {
        if (str_is(key, "name"))
                return &item->name;
        if (str_is(key, "size"))
                return &item->size;
        if (str_is(key, "etag"))
                return &item->etag;
        if (str_is(key, "generation"))
                return &item->generation;
        return str_is(key, "md5Hash") ? &item->md5 : NULL;
}

/* The generation stands in for an ETag that a server does not give: it changes with the contents. */
static struct error *add_item(struct store_list *l, const struct item *item) {
        unsigned char       md5[STORE_LIST_MD5_BYTES];
        struct store_object o = {
                .key = item->name,
                .etag = item->etag.len > 0 ? item->etag : item->generation,
        };

        if (item->name.len == 0)
                return error_new_text(ERR_INVALID_ARG, "an object of the listing has no name");
        if (!str_to_u64(item->size, &o.size))
                return error_new(ERR_INVALID_ARG,
                                 "the object '%.*s' of the listing has no valid size",
                                 STR_ARG(item->name));
        if (base64_decode_exactly(item->md5, md5, sizeof(md5)))
                o.md5 = md5;
        return store_list_add(l, &o);
}

static struct error *read_item(struct json_reader *r, struct store_list *l, struct arena *arena) {
        struct item item = { .name = { "", 0 } };
        struct str  key;

        if (!json_try_enter(r, JSON_OBJECT))
                return json_failed(r) ? json_syntax_error(r)
                                      : error_new_text(ERR_INVALID_ARG,
                                                       "an item of the listing is not an object");
        while (json_next_key(r, arena, &key)) {
                struct str *field = find_field(&item, key);

                if (field != NULL && json_peek(r) == JSON_STRING)
                        *field = json_read_string(r, arena);
                else
                        json_skip(r);
        }
        return json_failed(r) ? json_syntax_error(r) : add_item(l, &item);
}

static struct error *read_items(struct json_reader *r, struct store_list *l, struct arena *arena) {
        if (!json_try_enter(r, JSON_ARRAY))
                return json_failed(r) ? json_syntax_error(r)
                                      : error_new_text(ERR_INVALID_ARG,
                                                       "'items' of the listing is not an array");
        while (json_next_element(r)) {
                arena_reset(arena);
                TRY(read_item(r, l, arena));
        }
        return NULL;
}

static struct error *read_page(struct json_reader *r, struct store_list *l, struct arena *arena,
                               struct strbuf *ret_token) {
        struct str key, token;

        if (!json_try_enter(r, JSON_OBJECT))
                return json_failed(r) ? json_syntax_error(r)
                                      : error_new_text(ERR_INVALID_ARG,
                                                       "the listing is not a JSON object");
        while (json_next_key(r, NULL, &key)) {
                if (str_is(key, "items")) {
                        TRY(read_items(r, l, arena));
                } else if (str_is(key, "nextPageToken") && json_peek(r) == JSON_STRING) {
                        token = json_read_string(r, arena);
                        strbuf_clear(ret_token);
                        strbuf_put(ret_token, token.ptr, token.len);
                } else {
                        json_skip(r);
                }
        }
        json_read_end(r);
        return json_failed(r) ? json_syntax_error(r) : NULL;
}

struct error *list_gs_read(struct str page, struct store_list *l, struct strbuf *ret_token) {
        struct json_reader r = json_reader_of(page);
        AUTO_ARENA         arena = arena_of(MAX_OBJECT_BYTES);

        strbuf_clear(ret_token);
        TRY(read_page(&r, l, &arena, ret_token));
        return strbuf_check(ret_token, "the token of a page");
}
