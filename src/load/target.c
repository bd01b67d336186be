/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/target.h"

#include "base/clock.h"
#include "base/mem.h"
#include "load/h2_client.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#define HANDSHAKE_NS (10 * NS_PER_S)

static struct error *wrong_url(const char *url) {
        return error_new(ERR_INVALID_ARG, "'%s' is no address such as localhost:8000", url);
}

/* Splits "host:port", "[::1]:port", or a host alone. */
static struct error *split_url(const char *url, struct str rest, const char *default_port,
                               struct str *ret_host, struct str *ret_port) {
        const char *colon;

        while (rest.len > 0 && rest.ptr[rest.len - 1] == '/')
                rest.len--;
        *ret_port = str_of(default_port);
        if (rest.len > 0 && rest.ptr[0] == '[') {
                struct str after = str_split(str_skip(rest, 1), ']', ret_host);

                if (after.ptr == NULL || (after.len > 0 && after.ptr[0] != ':'))
                        return wrong_url(url);
                if (after.len > 0)
                        *ret_port = str_skip(after, 1);
                return NULL;
        }
        colon = memchr(rest.ptr, ':', rest.len);
        if (colon != NULL)
                *ret_port = str_split(rest, ':', ret_host);
        else
                *ret_host = rest;
        if (ret_host->len == 0 || memchr(ret_port->ptr, '/', ret_port->len) != NULL)
                return wrong_url(url);
        return NULL;
}

static struct error *read_url(const struct target_options *o, bool *has_tls, struct target *t) {
        static const struct {
                const char *start;
                bool        has_tls;
        } schemes[] = { { "http://", false }, { "https://", true } };
        const char *default_port = o->protocol == TARGET_HTTP ? "8000" : "8001";
        struct str  rest = str_of(o->url), host = { 0 }, port;
        uint64_t    number;

        *has_tls = o->has_tls;
        for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
                if (str_starts(rest, str_of(schemes[i].start))) {
                        rest = str_of(o->url + strlen(schemes[i].start));
                        *has_tls = *has_tls || schemes[i].has_tls;
                        break;
                }
        TRY(split_url(o->url, rest, default_port, &host, &port));
        if (!str_to_u64(port, &number) || number == 0 || number > UINT16_MAX)
                return wrong_url(o->url);
        t->host = mem_strndup(host.ptr, host.len);
        t->port = (uint16_t)number;
        t->authority = strchr(t->host, ':') != NULL ? mem_printf("[%s]:%u", t->host, t->port)
                                                    : mem_printf("%s:%u", t->host, t->port);
        return NULL;
}

/* IPv4 first, as the server listens on 0.0.0.0 by default. */
static struct error *resolve(struct target *t) {
        struct addrinfo  hints = { .ai_socktype = SOCK_STREAM };
        struct addrinfo *found, *chosen;
        AUTO_CHARS       port = mem_printf("%u", t->port);
        int              rc = getaddrinfo(t->host, port, &hints, &found);

        if (rc != 0)
                return error_new(ERR_UNAVAILABLE, "no address of '%s': %s", t->host,
                                 gai_strerror(rc));
        chosen = found;
        while (chosen->ai_next != NULL && chosen->ai_family != AF_INET)
                chosen = chosen->ai_next;
        if (chosen->ai_family != AF_INET)
                chosen = found;
        memcpy(&t->address, chosen->ai_addr, chosen->ai_addrlen);
        freeaddrinfo(found);
        return NULL;
}

static bool is_field(struct str name, struct str value) {
        if (name.len == 0)
                return false;
        for (size_t i = 0; i < name.len; i++)
                if (!isalnum((unsigned char)name.ptr[i]) &&
                    strchr("-_.!#$%&'*+^`|~", name.ptr[i]) == NULL)
                        return false;
        for (size_t i = 0; i < value.len; i++)
                if ((unsigned char)value.ptr[i] < ' ' && value.ptr[i] != '\t')
                        return false;
        return true;
}

static void put_header(struct target *t, struct str name, struct str value) {
        AUTO_CHARS lower = mem_strndup(name.ptr, name.len);

        if (t->protocol == TARGET_HTTP) {
                strbuf_printf(&t->headers, "%.*s: %.*s\r\n", STR_ARG(name), STR_ARG(value));
                return;
        }
        str_lower(lower);
        h2_block_put(&t->headers, str_of(lower), value);
}

static struct error *put_headers(const struct target_options *o, struct target *t) {
        AUTO_CHARS bearer = o->key != NULL ? mem_printf("Bearer %s", o->key) : NULL;

        if (bearer != NULL && !is_field(STR_LIT("Authorization"), str_of(bearer)))
                return error_new_text(ERR_INVALID_ARG, "--key has control characters");
        if (bearer != NULL)
                put_header(t, STR_LIT("Authorization"), str_of(bearer));
        for (size_t i = 0; i < o->n_headers; i++) {
                struct str name, value = str_trim(str_split(str_of(o->headers[i]), ':', &name));

                if (value.ptr == NULL || !is_field(name, value))
                        return error_new(ERR_INVALID_ARG,
                                         "-H '%s' is no header such as 'name: value'",
                                         o->headers[i]);
                put_header(t, name, value);
        }
        return strbuf_check(&t->headers, "the text of all headers (-H, --key)");
}

static struct error *set_tls(const struct target_options *o, struct target *t) {
        struct tls_client_options tls = { .root_path = o->ca_path,
                                          .cert_path = o->cert_path,
                                          .key_path = o->key_path,
                                          .host = t->host,
                                          .accepts_any_certificate = o->accepts_any_certificate,
                                          .accepts_any_host = o->accepts_any_host,
                                          .protocols = o->protocol == TARGET_HTTP
                                                               ? STR_LIT("\x08"
                                                                         "http/1.1")
                                                               : STR_LIT("\x02"
                                                                         "h2") };

        t->security.handshake_time_ns = HANDSHAKE_NS;
        return error_wrap(tls_client_context_new(&tls, &t->security.context), "TLS");
}

struct error *target_open(const struct target_options *o, struct target *ret) {
        struct target t = { .protocol = o->protocol, .headers.max = (size_t)64 << 10 };
        struct error *err;
        bool          has_tls = false;

        err = read_url(o, &has_tls, &t);
        if (err == NULL)
                err = resolve(&t);
        if (err == NULL)
                err = put_headers(o, &t);
        if (err == NULL && has_tls)
                err = set_tls(o, &t);
        if (err != NULL) {
                target_done(&t);
                return err;
        }
        *ret = t;
        return NULL;
}

void target_done(struct target *t) {
        tls_context_free(t->security.context);
        free(t->host);
        free(t->authority);
        strbuf_done(&t->headers);
}

bool target_is_local(const struct target *t) {
        const struct sockaddr_in  *v4 = (const struct sockaddr_in *)&t->address;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&t->address;

        if (t->address.ss_family == AF_INET)
                return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        return t->address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}
