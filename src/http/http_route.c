/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_route.h"

#include "codec/url.h"

#include <stdbool.h>
#include <string.h>

static bool is_digits(struct str s) {
        for (size_t i = 0; i < s.len; i++)
                if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return false;
        return s.len > 0;
}

/* `kind` is the letter between the braces. */
static bool capture(char kind, struct str segment, struct http_captures *c) {
        switch (kind) {
        case 'm': c->model = segment; break;
        case 'e':
                c->model = segment;
                c->model_is_encoded = true;
                break;
        case 'r': c->region = segment; break;
        case 'v': c->version = segment; return is_digits(segment);
        default: break;
        }
        return segment.len > 0;
}

/* Takes the path up to the next '/'. */
static struct str take_segment(const char **at, const char *end) {
        const char *begin = *at;
        const char *slash = memchr(begin, '/', (size_t)(end - begin));

        *at = slash != NULL ? slash : end;
        return str_range(begin, (size_t)(*at - begin));
}

bool http_route_matches(const char *pattern, struct str path, struct http_captures *ret) {
        const char          *at = path.ptr;
        const char          *end = path.ptr + path.len;
        struct http_captures found = { 0 };

        while (*pattern) {
                if (*pattern == '{') { /* "{x}": three characters */
                        if (!capture(pattern[1], take_segment(&at, end), &found))
                                return false;
                        pattern += 3;
                        continue;
                }
                if (at == end || *at != *pattern)
                        return false;
                at++;
                pattern++;
        }
        if (at != end)
                return false;
        *ret = found;
        return true;
}

bool http_route_is_openai(const struct http_route_table *table, struct str path) {
        /* The third byte tells "/v1" from "/v2", which nearly all paths begin with. */
        if (table->openai == NULL || path.len < 3 || path.ptr[2] == '2')
                return false;
        if (str_starts(path, STR_LIT("/openai/")))
                path = str_range(path.ptr + 7, path.len - 7);
        return STR_IS(path, "/v1") || str_starts(path, STR_LIT("/v1/"));
}

enum http_route_verdict http_route_find(const struct http_route_table *table,
                                        enum http_method method, struct str path,
                                        const struct http_route **ret_row,
                                        struct http_captures     *ret_captures) {
        const struct http_route *other = NULL; /* right path, wrong method */
        struct http_captures     captures;

        if (http_route_is_openai(table, path))
                table = table->openai;
        for (size_t i = 0; i < table->n_rows; i++) {
                const struct http_route *row = &table->rows[i];

                if (other != NULL && row->method != method)
                        continue;
                if (!http_route_matches(row->pattern, path, &captures))
                        continue;
                if (row->method == method) {
                        *ret_row = row;
                        *ret_captures = captures;
                        return HTTP_ROUTE_OK;
                }
                other = row;
                *ret_captures = captures;
        }
        if (other == NULL)
                return HTTP_ROUTE_NOT_FOUND;
        *ret_row = other;
        return HTTP_ROUTE_WRONG_METHOD;
}

struct error *http_route_check(const struct http_route_table *table) {
        for (size_t i = 0; i < table->n_rows; i++)
                if (!endpoint_group_is_routable(table->rows[i].group))
                        return error_new(ERR_INTERNAL, "the route '%s' is in no group of endpoints",
                                         table->rows[i].pattern);
        if (table->fallback != NULL && !endpoint_group_is_routable(table->fallback_group))
                return error_new(ERR_INTERNAL, "the route of unknown paths is in no group of "
                                               "endpoints");
        return table->openai != NULL ? http_route_check(table->openai) : NULL;
}

struct str http_route_path(struct str target) {
        struct str  path, scheme;
        const char *slash;

        str_split(target, '?', &path);
        if (path.len > 0 && path.ptr[0] == '/')
                return path;
        if (str_starts(path, STR_LIT("http://")))
                scheme = STR_LIT("http://");
        else if (str_starts(path, STR_LIT("https://")))
                scheme = STR_LIT("https://");
        else
                return path;
        path = str_range(path.ptr + scheme.len, path.len - scheme.len);
        slash = memchr(path.ptr, '/', path.len);
        if (slash == NULL)
                return STR_LIT("/");
        return str_range(slash, path.len - (size_t)(slash - path.ptr));
}

/* By the bits of the methods: GET 1, POST 2, DELETE 4. */
static const char *const method_lists[] = {
        "", "GET", "POST", "GET, POST", "DELETE", "GET, DELETE", "POST, DELETE", "GET, POST, DELETE"
};

static unsigned bit_of(enum http_method method) {
        switch (method) {
        case HTTP_METHOD_GET: return 1;
        case HTTP_METHOD_POST: return 2;
        case HTTP_METHOD_DELETE: return 4;
        case HTTP_METHOD_HEAD:
        case HTTP_METHOD_OTHER: break;
        }
        return 0;
}

struct str http_route_allowed(const struct http_route_table *table, const struct http_route *row) {
        unsigned bits = bit_of(row->method);

        if (http_route_is_openai(table, str_of(row->pattern)))
                table = table->openai;
        for (size_t i = 0; i < table->n_rows; i++)
                if (strcmp(table->rows[i].pattern, row->pattern) == 0)
                        bits |= bit_of(table->rows[i].method);
        return str_of(method_lists[bits]);
}

/* ---- the model's name ---- */

/* True when `s` has an escape of a byte beyond ASCII, whose first digit is 8 to f. */
static bool has_high_escape(struct str s) {
        for (size_t i = 0; i + 2 < s.len; i++)
                if (s.ptr[i] == '%' && str_hex_digit(s.ptr[i + 1]) >= 8 &&
                    str_hex_digit(s.ptr[i + 2]) >= 0)
                        return true;
        return false;
}

static struct error *decode(struct str segment, bool allows_slash, struct arena *arena,
                            struct str *ret) {
        AUTO_STRBUF name = { 0 };
        char       *kept;

        if (!url_decode(segment, &name))
                return error_new(ERR_INVALID_ARG,
                                 "the model name '%.*s' has a percent escape that is not two "
                                 "hexadecimal digits",
                                 STR_ARG(segment));
        TRY(strbuf_check(&name, "the model name"));
        if (!str_is_utf8(strbuf_str(&name)))
                return error_new(ERR_INVALID_ARG,
                                 "the model name '%.*s' is not percent-encoded UTF-8",
                                 STR_ARG(segment));
        if ((!allows_slash && memchr(name.ptr, '/', name.len) != NULL) ||
            memchr(name.ptr, '\0', name.len) != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "the model name '%.*s' contains a slash or a NUL character",
                                 STR_ARG(segment));
        kept = arena_try_str(arena, strbuf_str(&name));
        if (kept == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the model name");
        *ret = str_range(kept, name.len);
        return NULL;
}

struct error *http_route_read_model(struct str segment, struct arena *arena, struct str *ret) {
        if (has_high_escape(segment))
                return decode(segment, false, arena, ret);
        *ret = segment;
        return NULL;
}

struct error *http_route_decode_model(struct str segment, struct arena *arena, struct str *ret) {
        return decode(segment, true, arena, ret);
}
