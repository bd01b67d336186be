/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/url_parts.h"

#include "base/strbuf.h"
#include "codec/url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* Without ":443" or ":80", where that is the scheme's: HTTP clients leave it out of the header too. */
static struct str cut_own_port(struct str host, bool is_tls) {
        struct str port = is_tls ? STR_LIT(":443") : STR_LIT(":80");

        if (str_ends(host, port))
                host.len -= port.len;
        return host;
}

static bool has_control(struct str text) {
        for (size_t i = 0; i < text.len; i++)
                if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
                        return true;
        return false;
}

bool url_parts_read(struct str url, struct url_parts *ret) {
        struct url_parts p = { .is_tls = str_starts(url, STR_LIT("https://")) };
        size_t           start = p.is_tls ? 8 : 7, end, i;

        if (!p.is_tls && !str_starts(url, STR_LIT("http://")))
                return false;
        for (end = start; end < url.len && strchr("/?#", url.ptr[end]) == NULL; end++)
                if (url.ptr[end] == '@')
                        return false;
        if (end == start || has_control(url))
                return false;
        p.origin = str_range(url.ptr, end);
        p.host = cut_own_port(str_range(url.ptr + start, end - start), p.is_tls);
        for (i = end; i < url.len && url.ptr[i] != '?' && url.ptr[i] != '#';)
                i++;
        p.path = str_range(url.ptr + end, i - end);
        p.query = STR_LIT("");
        if (i < url.len && url.ptr[i] == '?')
                str_split(str_skip(url, i + 1), '#', &p.query);
        *ret = p;
        return true;
}

struct error *url_check(const char *url, const char *name) {
        struct url_parts p;

        if (url_parts_read(str_of(url), &p) && p.query.len == 0)
                return NULL;
        return error_new(ERR_INVALID_ARG, "%s is not a URL with http:// or https:// and a host",
                         name);
}

static struct str cut_port(struct str host) {
        struct str name;

        if (host.len > 0 && host.ptr[0] == '[') {
                str_split(str_skip(host, 1), ']', &name);
                return name;
        }
        str_split(host, ':', &name);
        return name;
}

struct address {
        int             family; /* AF_INET, AF_INET6; 0: a name */
        struct in_addr  v4;
        struct in6_addr v6;
};

static struct address read_address(struct str name) {
        struct address a = { .family = 0 };
        char           text[INET6_ADDRSTRLEN];

        if (name.len >= sizeof(text))
                return a;
        memcpy(text, name.ptr, name.len);
        text[name.len] = '\0';
        if (inet_pton(AF_INET, text, &a.v4) == 1)
                a.family = AF_INET;
        else if (inet_pton(AF_INET6, text, &a.v6) == 1)
                a.family = AF_INET6;
        return a;
}

bool url_host_is_loopback(struct str host) {
        struct str     name = cut_port(host);
        struct address a = read_address(name);

        if (a.family == AF_INET)
                return ntohl(a.v4.s_addr) >> 24 == 127;
        if (a.family == AF_INET6)
                return IN6_IS_ADDR_LOOPBACK(&a.v6);
        return str_equal_nocase(name, STR_LIT("localhost"));
}

bool url_host_is_local(struct str host) {
        static const unsigned char amazon[] = { 0xfd, 0x00, 0x0e, 0xc2 };
        struct address             a = read_address(cut_port(host));

        if (a.family == AF_INET && ntohl(a.v4.s_addr) >> 16 == (169U << 8 | 254))
                return true;
        if (a.family == AF_INET6 && memcmp(&a.v6, amazon, sizeof(amazon)) == 0)
                return true;
        return url_host_is_loopback(host);
}

/* ---- parameters ---------------------------------------------------------------------------- */

/* NULL when an escape is malformed. */
static char *decode(struct str text, struct arena *arena) {
        AUTO_STRBUF out = { .max = text.len };

        return url_decode(text, &out) ? arena_strdup(arena, strbuf_cstr(&out)) : NULL;
}

struct error *url_parameters_read(struct str query, struct arena *arena, struct url_parameter *ret,
                                  size_t *ret_n) {
        size_t n = 0;

        STR_FOR_EACH(query, '&', part) {
                struct str name, value = str_split(part, '=', &name);

                if (part.len == 0)
                        continue;
                if (n == URL_MAX_PARAMETERS)
                        return error_new(ERR_INVALID_ARG, "a request has more than %d parameters",
                                         URL_MAX_PARAMETERS);
                ret[n].name = decode(name, arena);
                ret[n].value = decode(value, arena);
                if (ret[n].name == NULL || ret[n].value == NULL)
                        return error_new_text(ERR_INVALID_ARG,
                                              "a parameter of a request has a malformed escape");
                n++;
        }
        *ret_n = n;
        return NULL;
}

static int compare_parameters(const void *a, const void *b) {
        const struct url_parameter *left = a, *right = b;
        int                         order = strcmp(left->name, right->name);

        return order != 0 ? order : strcmp(left->value, right->value);
}

void url_parameters_sort(struct url_parameter *p, size_t n) {
        if (n > 1)
                qsort(p, n, sizeof(*p), compare_parameters);
}
