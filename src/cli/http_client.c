/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/http_client.h"

#include "base/curl_library.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <string.h>

#define CONNECT_TIMEOUT_S 10L
#define MAX_TIMEOUT_MS UINT64_C(1000000000)

struct http_client {
        const struct http_client_options *options; /* borrowed */
        struct curl_functions             curl;
        CURL                             *easy; /* owned */
        char                              why[CURL_ERROR_SIZE];
};

void http_reply_done(struct http_reply *r) {
        strbuf_done(&r->body);
}

/* Returning less than the given size ends the transfer. */
static size_t on_body(char *bytes, size_t size, size_t n, void *userp) {
        struct http_reply *r = userp;

        strbuf_put(&r->body, bytes, size * n);
        return r->body.overflowed ? 0 : size * n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *userp) {
        struct http_reply *r = userp;
        struct str         name, value;
        uint64_t           length;

        value = str_split(str_range(bytes, size * n), ':', &name);
        while (value.len > 0 && (unsigned char)value.ptr[value.len - 1] <= ' ')
                value.len--;
        if (str_equal_nocase(name, STR_LIT("Inference-Header-Content-Length")) &&
            str_to_u64(str_trim(value), &length) && length <= HTTP_CLIENT_MAX_BYTES)
                r->header_length = (size_t)length;
        return size * n;
}

/* Returns the host of "scheme://user@host:port/path", without the brackets of an IPv6 address. */
static struct str host_of(const char *url) {
        const char *begin = strstr(url, "://");
        struct str  host, user;

        host = str_of(begin != NULL ? begin + 3 : url);
        host.len = strcspn(host.ptr, "/?#");
        while (memchr(host.ptr, '@', host.len) != NULL)
                host = str_split(host, '@', &user);
        if (host.len > 0 && host.ptr[0] == '[') {
                host = str_skip(host, 1);
                str_split(host, ']', &host);
        } else {
                str_split(host, ':', &host);
        }
        return host;
}

/* True for 127.0.0.0/8, ::1, and the names of the loopback interface (RFC 6761, 6.3). */
static bool is_loopback(struct str host) {
        char            text[INET6_ADDRSTRLEN];
        struct in_addr  v4;
        struct in6_addr v6;

        if (host.len > 0 && host.ptr[host.len - 1] == '.')
                host.len--;
        if (str_equal_nocase(host, STR_LIT("localhost")))
                return true;
        if (host.len >= sizeof(text))
                return false;
        memcpy(text, host.ptr, host.len);
        text[host.len] = '\0';
        if (inet_pton(AF_INET, text, &v4) == 1)
                return ntohl(v4.s_addr) >> 24 == 127;
        return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool has_tls(const struct http_client_options *o) {
        return strncmp(o->url, "https://", 8) == 0;
}

static void set_tls(struct http_client *c) {
        const struct http_client_options *o = c->options;

        if (o->is_insecure) {
                c->curl.easy_setopt(c->easy, CURLOPT_SSL_VERIFYPEER, 0L);
                c->curl.easy_setopt(c->easy, CURLOPT_SSL_VERIFYHOST, 0L);
        }
        if (o->cacert != NULL)
                c->curl.easy_setopt(c->easy, CURLOPT_CAINFO, o->cacert);
        if (o->cert != NULL)
                c->curl.easy_setopt(c->easy, CURLOPT_SSLCERT, o->cert);
        if (o->key_file != NULL)
                c->curl.easy_setopt(c->easy, CURLOPT_SSLKEY, o->key_file);
}

static struct error *http_client_set_up(struct http_client *c) {
        struct curl_functions *curl = &c->curl;

        if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
            (c->easy = curl->easy_init()) == NULL)
                return error_new_text(ERR_INTERNAL, "libcurl could not be initialised");
        curl->easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
        curl->easy_setopt(c->easy, CURLOPT_PATH_AS_IS, 1L); /* a model's name may be ".." */
        curl->easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
        /* A proxy on another machine would connect to itself. For other hosts, http_proxy and
         * no_proxy decide. */
        if (is_loopback(host_of(c->options->url)))
                curl->easy_setopt(c->easy, CURLOPT_NOPROXY, "*");
        curl->easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
        curl->easy_setopt(c->easy, CURLOPT_USERAGENT, "neso/" NESO_VERSION);
        curl->easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->why);
        curl->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
        curl->easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
        set_tls(c);
        return NULL;
}

/* They would begin another header. */
static bool has_control(const char *text) {
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return true;
        return false;
}

struct error *http_client_new(const struct http_client_options *o, struct http_client **ret) {
        struct http_client *c;

        if (strncmp(o->url, "http://", 7) != 0 && !has_tls(o))
                return error_new(ERR_INVALID_ARG,
                                 "the URL '%s' does not begin with http:// or https://", o->url);
        if (o->key != NULL && has_control(o->key))
                return error_new_text(ERR_INVALID_ARG,
                                      "the API key has control characters, such as the "
                                      "end of a line");
        c = mem_zalloc(sizeof(*c));
        c->options = o;
        TRY_OR(error_recode(curl_library_open("neso ctl", &c->curl), ERR_UNAVAILABLE),
               http_client_free(c));
        TRY_OR(http_client_set_up(c), http_client_free(c));
        *ret = c;
        return NULL;
}

void http_client_free(struct http_client *c) {
        if (c == NULL)
                return;
        if (c->easy != NULL)
                c->curl.easy_cleanup(c->easy);
        free(c);
}

/* True for errors of the request or the options, as opposed to errors of the server. */
static bool is_own_mistake(CURLcode code) {
        return code == CURLE_URL_MALFORMAT || code == CURLE_SSL_CERTPROBLEM ||
               code == CURLE_SSL_CACERT_BADFILE;
}

static struct error *no_answer(const struct http_client *c, CURLcode code) {
        const char *why = c->why[0] != '\0' ? c->why : c->curl.easy_strerror(code);

        return error_new(is_own_mistake(code) ? ERR_INVALID_ARG : ERR_UNAVAILABLE,
                         "no answer from %s: %s", c->options->url, why);
}

static struct curl_slist *add_header(struct http_client *c, struct curl_slist *list,
                                     const char *text) {
        struct curl_slist *longer = c->curl.slist_append(list, text);

        return longer != NULL ? longer : list;
}

static struct curl_slist *make_headers(struct http_client *c, const struct http_question *q) {
        struct curl_slist *list = add_header(c, NULL, "Expect:");
        AUTO_CHARS length = mem_printf("Inference-Header-Content-Length: %zu", q->header_length);
        AUTO_CHARS key = NULL;

        if (c->options->key != NULL) {
                key = mem_printf("Authorization: Bearer %s", c->options->key);
                list = add_header(c, list, key);
        }
        if (q->is_post)
                list = add_header(c, list,
                                  q->header_length > 0 ? "Content-Type: application/octet-stream"
                                                       : "Content-Type: application/json");
        return q->header_length > 0 ? add_header(c, list, length) : list;
}

struct error *http_client_ask(struct http_client *c, const struct http_question *q,
                              struct http_reply *ret) {
        struct http_reply      reply = { .body.max = HTTP_CLIENT_MAX_BYTES };
        struct curl_functions *curl = &c->curl;
        struct curl_slist     *headers = make_headers(c, q);
        size_t                 url_len = strlen(c->options->url);
        AUTO_CHARS             url = NULL;
        CURLcode               code;

        while (url_len > 0 && c->options->url[url_len - 1] == '/')
                url_len--;
        url = mem_printf("%.*s%s", (int)url_len, c->options->url, q->path);
        c->why[0] = '\0';
        curl->easy_setopt(c->easy, CURLOPT_URL, url);
        curl->easy_setopt(c->easy, CURLOPT_TIMEOUT_MS,
                          (long)MIN(c->options->timeout_ms, MAX_TIMEOUT_MS));
        curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, headers);
        curl->easy_setopt(c->easy, CURLOPT_WRITEDATA, &reply);
        curl->easy_setopt(c->easy, CURLOPT_HEADERDATA, &reply);
        curl->easy_setopt(c->easy, q->is_post ? CURLOPT_POST : CURLOPT_HTTPGET, 1L);
        if (q->is_post) {
                curl->easy_setopt(c->easy, CURLOPT_POSTFIELDS,
                                  q->body.ptr != NULL ? q->body.ptr : "");
                curl->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.len);
        }
        code = curl->easy_perform(c->easy);
        curl->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &reply.status);
        curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, NULL);
        curl->slist_free_all(headers);
        if (code != CURLE_OK) {
                http_reply_done(&reply);
                return no_answer(c, code);
        }
        *ret = reply;
        return NULL;
}
