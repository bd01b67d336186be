/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_url.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <string.h>

static const struct {
        const char     *text;
        enum store_kind kind;
        bool            is_tls;
} schemes[] = {
        { "s3://", STORE_S3, true },     { "gs://", STORE_GS, true },
        { "as://", STORE_AS, true },     { "http://", STORE_WEB, false },
        { "https://", STORE_WEB, true },
};

static size_t find_scheme(struct str text) {
        size_t i = 0;

        while (i < ARRAY_LEN(schemes) && !str_starts(text, str_of(schemes[i].text)))
                i++;
        return i;
}

bool store_url_is_remote(const char *text) {
        return find_scheme(str_of(text)) < ARRAY_LEN(schemes);
}

/* ---- pieces of the text ---------------------------------------------------------------------- */

static struct str without_slashes(struct str s) {
        while (s.len > 0 && s.ptr[0] == '/')
                s = str_skip(s, 1);
        while (s.len > 0 && s.ptr[s.len - 1] == '/')
                s.len--;
        return s;
}

/* Takes the text up to the next slash; slashes that follow each other count as one. */
static struct str next_part(struct str *rest) {
        struct str head;

        *rest = str_split(without_slashes(*rest), '/', &head);
        *rest = without_slashes(*rest);
        return head;
}

static bool is_control(char c) {
        return (unsigned char)c <= ' ' || c == 0x7f;
}

static const char *find_fault(struct str text) {
        struct str rest = text, part;

        for (size_t i = 0; i < text.len; i++)
                if (is_control(text.ptr[i]))
                        return "it contains a blank or a control character";
        if (memchr(text.ptr, '?', text.len) != NULL || memchr(text.ptr, '#', text.len) != NULL)
                return "it has a query or a fragment";
        while (rest.len > 0) {
                part = next_part(&rest);
                if (str_is(part, ".") || str_is(part, ".."))
                        return "'.' and '..' are not possible in it";
        }
        return NULL;
}

/* "host", "host:port", "[::1]:port"; no user, whose password would be in texts. */
static bool is_host(struct str host) {
        struct str name = host, port;

        if (memchr(host.ptr, '@', host.len) != NULL)
                return false;
        if (host.len > 0 && host.ptr[0] == '[') {
                port = str_split(host, ']', &name);
                if (port.ptr == NULL || (port.len > 0 && port.ptr[0] != ':'))
                        return false;
                if (port.len > 0)
                        port = str_skip(port, 1);
                else
                        port.ptr = NULL;
        } else {
                port = str_split(host, ':', &name);
        }
        for (size_t i = 0; port.ptr != NULL && i < port.len; i++)
                if (port.ptr[i] < '0' || port.ptr[i] > '9')
                        return false;
        return name.len > 0 && (port.ptr == NULL || (port.len > 0 && port.len <= 5));
}

static bool has_port(struct str part) {
        return part.len > 0 && (memchr(part.ptr, ':', part.len) != NULL || part.ptr[0] == '[');
}

/* ---- parsing --------------------------------------------------------------------------------- */

struct parts {
        enum store_kind kind;
        bool            is_tls;
        bool            has_scheme; /* of the host, in "s3://https://host" */
        struct str      host, account, bucket, path;
};

/* The host of a store with the interface of another one: after a scheme of its own, or with a port. */
static void split_host(struct parts *p, struct str *rest) {
        struct str first;

        for (int is_tls = 0; is_tls < 2; is_tls++) {
                struct str scheme = str_of(is_tls ? "https://" : "http://");

                if (!str_starts(*rest, scheme))
                        continue;
                p->is_tls = is_tls == 1;
                p->has_scheme = true;
                *rest = str_range(rest->ptr + scheme.len, rest->len - scheme.len);
        }
        (void)str_split(without_slashes(*rest), '/', &first);
        if (p->has_scheme || p->kind == STORE_WEB || has_port(first))
                p->host = next_part(rest);
}

static const char *split(struct parts *p, struct str rest) {
        bool is_other;

        if (p->kind == STORE_S3 || p->kind == STORE_AS || p->kind == STORE_WEB)
                split_host(p, &rest);
        is_other = p->host.len > 0;
        if ((is_other || p->has_scheme || p->kind == STORE_WEB) && !is_host(p->host))
                return "its host is not valid; a user is not possible";
        if (p->kind == STORE_AS && is_other)
                p->account = next_part(&rest);
        else if (p->kind == STORE_AS)
                p->host = next_part(&rest);
        if (p->kind != STORE_WEB)
                p->bucket = next_part(&rest);
        p->path = rest;
        if (p->kind == STORE_AS && (p->bucket.len == 0 || p->host.len == 0))
                return "it has no account and container";
        return p->kind != STORE_WEB && p->bucket.len == 0 ? "it has no bucket" : NULL;
}

/* ---- one form -------------------------------------------------------------------------------- */

static void put_path(struct strbuf *out, struct str path) {
        bool is_first = true;

        while (path.len > 0) {
                struct str part = next_part(&path);

                strbuf_printf(out, "%s%.*s", is_first ? "" : "/", STR_ARG(part));
                is_first = false;
        }
}

static char *print(const struct parts *p, const struct store_url *u) {
        static const char *const names[] = { "s3://", "gs://", "as://", "" };

        bool is_other = p->kind == STORE_WEB || p->account.len > 0 ||
                        (p->kind == STORE_S3 && p->host.len > 0);
        AUTO_STRBUF text = { 0 };

        strbuf_puts(&text, names[p->kind]);
        if (is_other)
                strbuf_puts(&text, p->is_tls ? "https://" : "http://");
        strbuf_puts(&text, u->host);
        if (*u->bucket != '\0')
                strbuf_printf(&text, "%s%s", *u->host != '\0' ? "/" : "", u->bucket);
        if (*u->path != '\0')
                strbuf_printf(&text, "/%s", u->path);
        return strbuf_take(&text);
}

static void fill_url(const struct parts *p, struct store_url *u) {
        AUTO_STRBUF path = { 0 };

        put_path(&path, p->path);
        u->kind = p->kind;
        u->is_tls = p->is_tls;
        u->host = mem_strndup(p->host.ptr, p->host.len);
        u->bucket = p->account.len > 0
                            ? mem_printf("%.*s/%.*s", STR_ARG(p->account), STR_ARG(p->bucket))
                            : mem_strndup(p->bucket.ptr, p->bucket.len);
        u->path = strbuf_take(&path);
        u->text = print(p, u);
}

/* Control characters would forge lines of a message, and what follows '?' may be a secret; so may be
 * what precedes '@'. */
static struct error *refuse_url(struct str text, const char *why) {
        struct str  shown;
        const char *at;

        (void)str_split(text, '?', &shown);
        at = memrchr(shown.ptr, '@', shown.len);
        if (at != NULL)
                shown = str_range(at, (size_t)(shown.ptr + shown.len - at));
        return error_new(ERR_INVALID_ARG,
                         "the address of a model repository '%s%.*s' is not valid: %s",
                         at != NULL ? "..." : "", STR_ARG(shown), why);
}

struct error *store_url_parse(const char *text, struct store_url *ret) {
        struct str   all = str_of(text), rest;
        struct parts parts = { 0 };
        size_t       scheme = find_scheme(all);
        const char  *fault;

        if (scheme == ARRAY_LEN(schemes))
                return refuse_url(all, "its scheme is not known");
        parts.kind = schemes[scheme].kind;
        parts.is_tls = schemes[scheme].is_tls;
        rest = str_skip(all, strlen(schemes[scheme].text));
        fault = find_fault(rest);
        if (fault == NULL)
                fault = split(&parts, rest);
        if (fault != NULL)
                return refuse_url(all, fault);
        fill_url(&parts, ret);
        return NULL;
}

void store_url_done(struct store_url *u) {
        free(u->host);
        free(u->bucket);
        free(u->path);
        free(u->text);
        *u = (struct store_url){ 0 };
}
