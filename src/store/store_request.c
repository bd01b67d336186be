/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_request.h"

#include "base/curl_library.h"
#include "base/lock.h"
#include "base/mem.h"
#include "store/url_parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TIMEOUT_MS 30000
#define DEFAULT_ANSWER_BYTES ((size_t)1 << 20)
#define CONNECT_TIMEOUT_MS 10000
#define MAX_HEADERS 256
#define MAX_ERROR_BYTES                                                                            \
        ((size_t)64 << 10) /* of the body of a refusal, whose code is at its beginning */
/* Fewer and larger reads: at 16 KiB, libcurl's own size, the calls cost a tenth of a transfer. */
#define READ_BYTES 262144L
/* Connections that are kept while no thread uses them. */
#define MAX_IDLE 32

struct connection {
        struct connection *next;
        CURL              *easy; /* owned */
        char               why[CURL_ERROR_SIZE];
};

static struct {
        pthread_once_t        once;
        struct error         *failure; /* owned; set once */
        struct curl_functions curl;
        struct mutex          lock; /* rank LOCK_LEAF; guards everything below */
        struct connection    *idle; /* owned, each; the last used first */
        size_t                n_idle;
} library = {
        .once = PTHREAD_ONCE_INIT,
        .lock = { .rank = LOCK_LEAF },
};

/* ---- connections ----------------------------------------------------------------------------- */

static void open_library(void) {
        library.failure = curl_library_open("a model repository in an object store", &library.curl);
        if (library.failure == NULL && library.curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                library.failure = error_new_text(ERR_INTERNAL, "libcurl could not be initialised");
}

struct error *store_request_prepare(void) {
        pthread_once(&library.once, open_library);
        return library.failure != NULL ? error_copy(library.failure) : NULL;
}

static struct connection *take_idle(void) {
        struct connection *c;

        MUTEX_GUARD(&library.lock);
        c = library.idle;
        if (c == NULL)
                return NULL;
        library.idle = c->next;
        library.n_idle--;
        return c;
}

static void connection_free(struct connection *c) {
        library.curl.easy_cleanup(c->easy);
        free(c);
}

static struct error *take_connection(struct connection **ret) {
        struct connection *c = take_idle();

        if (c == NULL) {
                CURL *easy = library.curl.easy_init();

                if (easy == NULL)
                        return error_new_text(ERR_UNAVAILABLE, "no memory for a connection");
                c = mem_zalloc(sizeof(*c));
                c->easy = easy;
        }
        c->why[0] = '\0';
        *ret = c;
        return NULL;
}

static void give_back(struct connection *c) {
        library.curl.easy_reset(c->easy); /* the connection stays open */
        mutex_lock(&library.lock);
        if (library.n_idle < MAX_IDLE) {
                c->next = library.idle;
                library.idle = c;
                library.n_idle++;
                c = NULL;
        }
        mutex_unlock(&library.lock);
        if (c != NULL)
                connection_free(c);
}

void store_request_close_idle(void) {
        struct connection *c;

        while ((c = take_idle()) != NULL)
                connection_free(c);
}

/* ---- one exchange ---------------------------------------------------------------------------- */

struct exchange {
        struct store_request *request;
        struct store_answer  *answer;
        struct connection    *connection;
        struct curl_slist    *headers;     /* owned */
        bool                  is_ended;    /* by `take` */
        bool                  is_too_long; /* the body of a 2xx answer */
        bool                  is_cut;      /* that of another answer */
};

static bool is_success(const struct store_answer *a) {
        return a->status >= 200 && a->status < 300;
}

/* What follows the beginning is not read: it may have no end. */
static size_t take_refusal(struct exchange *x, const char *bytes, size_t len) {
        size_t room = MAX_ERROR_BYTES - x->answer->body.len;

        strbuf_put(&x->answer->body, bytes, MIN(len, room));
        x->is_cut = len > room;
        return x->is_cut ? 0 : len;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *userp) {
        struct exchange      *x = userp;
        struct store_request *r = x->request;
        size_t                len = size * n;

        if (is_success(x->answer) && r->take != NULL) {
                x->is_ended = !r->take(r->userp, str_range(bytes, len));
                return x->is_ended ? 0 : len;
        }
        if (!is_success(x->answer))
                return take_refusal(x, bytes, len);
        strbuf_put(&x->answer->body, bytes, len);
        if (!x->answer->body.overflowed)
                return len;
        x->is_too_long = true;
        return 0;
}

/* A status line begins the headers of an answer; those of an interim answer (100) are dropped. */
static void begin_answer(struct store_answer *a, struct str line) {
        struct str status;

        store_answer_clear_headers(a);
        line = str_split(line, ' ', &status);
        a->status = 0;
        for (size_t i = 0; i < 3 && i < line.len && line.ptr[i] >= '0' && line.ptr[i] <= '9'; i++)
                a->status = a->status * 10 + (line.ptr[i] - '0');
}

static size_t on_header(char *bytes, size_t size, size_t n, void *userp) {
        struct exchange     *x = userp;
        struct store_answer *a = x->answer;
        struct str           line = str_range(bytes, size * n), name, value;

        while (line.len > 0 && (unsigned char)line.ptr[line.len - 1] <= ' ')
                line.len--;
        if (str_starts(line, STR_LIT("HTTP/"))) {
                begin_answer(a, line);
                return size * n;
        }
        value = str_trim(str_split(line, ':', &name));
        if (value.ptr != NULL && a->n_headers < MAX_HEADERS)
                store_answer_add(a, name, value);
        return size * n;
}

/* libcurl calls it at least once a second. A value other than 0 ends the transfer. */
static int on_progress(void *userp, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal,
                       curl_off_t ulnow) {
        const struct exchange *x = userp;

        (void)dltotal, (void)dlnow, (void)ultotal, (void)ulnow;
        return x->request->is_cancelled != NULL && atomic_load(x->request->is_cancelled);
}

static void add_header(struct exchange *x, const char *text) {
        struct curl_slist *longer = library.curl.slist_append(x->headers, text);

        if (longer != NULL)
                x->headers = longer;
}

/* libcurl sends a header without a value when a semicolon follows its name. */
static void set_headers(struct exchange *x) {
        const struct store_request *r = x->request;

        add_header(x, "Expect:");
        if (store_header_find(r->headers, r->n_headers, "content-type") == NULL)
                add_header(x, "Content-Type:");
        for (size_t i = 0; i < r->n_headers; i++) {
                const struct store_header *h = &r->headers[i];
                AUTO_CHARS text = *h->value != '\0' ? mem_printf("%s: %s", h->name, h->value)
                                                    : mem_printf("%s;", h->name);

                add_header(x, text);
                explicit_bzero(text, strlen(text));
        }
        library.curl.easy_setopt(x->connection->easy, CURLOPT_HTTPHEADER, x->headers);
}

static void set_method(CURL *easy, const struct store_request *r) {
        struct curl_functions *curl = &library.curl;

        if (strcmp(r->method, "GET") == 0) {
                curl->easy_setopt(easy, CURLOPT_HTTPGET, 1L);
                return;
        }
        if (strcmp(r->method, "HEAD") == 0) {
                curl->easy_setopt(easy, CURLOPT_NOBODY, 1L);
                return;
        }
        curl->easy_setopt(easy, CURLOPT_POST, 1L);
        curl->easy_setopt(easy, CURLOPT_POSTFIELDS, r->body.ptr != NULL ? r->body.ptr : "");
        curl->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
        if (strcmp(r->method, "POST") != 0)
                curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
}

/* A proxy on another machine would connect to itself, or to the metadata service of its own machine. For
 * other hosts, http_proxy and no_proxy decide. */
static bool is_local(const char *url) {
        struct url_parts p;

        return url_parts_read(str_of(url), &p) && url_host_is_local(p.host);
}

/* A store with a certificate of its own authority: the variables that AWS's programs and OpenSSL's use. */
static void set_authorities(CURL *easy) {
        static const char *const names[] = { "AWS_CA_BUNDLE", "SSL_CERT_FILE" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const char *path = getenv(names[i]);

                if (path == NULL || *path == '\0')
                        continue;
                library.curl.easy_setopt(easy, CURLOPT_CAINFO, path);
                return;
        }
}

static void set_options(struct exchange *x) {
        struct curl_functions *curl = &library.curl;
        CURL                  *easy = x->connection->easy;
        struct store_request  *r = x->request;
        uint64_t               timeout_ms = r->timeout_ms != 0 ? r->timeout_ms : DEFAULT_TIMEOUT_MS;

        curl->easy_setopt(easy, CURLOPT_URL, strbuf_cstr(&r->url));
        curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        curl->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* it is signed as it is */
        curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        /* Streams of one connection of HTTP/2 would share its throughput. */
        curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                          (long)MIN(timeout_ms, CONNECT_TIMEOUT_MS));
        curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)((timeout_ms + 999) / 1000));
        curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)MIN(r->max_ms, (uint64_t)LONG_MAX));
        curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_BYTES);
        curl->easy_setopt(easy, CURLOPT_USERAGENT, "neso/" NESO_VERSION);
        curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, x->connection->why);
        curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        curl->easy_setopt(easy, CURLOPT_WRITEDATA, x);
        curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
        curl->easy_setopt(easy, CURLOPT_HEADERDATA, x);
        curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl->easy_setopt(easy, CURLOPT_XFERINFODATA, x);
        if (is_local(strbuf_cstr(&r->url)))
                curl->easy_setopt(easy, CURLOPT_NOPROXY, "*");
        set_authorities(easy);
        set_method(easy, r);
        set_headers(x);
}

/* Another try would fail likewise. */
static bool is_final(CURLcode code) {
        return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
               code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

static struct error *describe(const struct exchange *x, CURLcode code) {
        const char *why = x->connection->why;
        struct str  url;

        if (code == CURLE_OK || x->is_cut)
                return NULL;
        (void)str_split(strbuf_str(&x->request->url), '?', &url);
        if (x->is_ended || code == CURLE_ABORTED_BY_CALLBACK)
                return error_new(ERR_CANCELLED, "%.*s: the request was cancelled", STR_ARG(url));
        if (x->is_too_long)
                return error_new(ERR_UNAVAILABLE, "%.*s: the answer is longer than %zu bytes",
                                 STR_ARG(url), x->answer->body.max);
        return error_new(is_final(code) ? ERR_INVALID_ARG : ERR_UNAVAILABLE, "%.*s: %s",
                         STR_ARG(url), *why != '\0' ? why : library.curl.easy_strerror(code));
}

static struct error *perform(struct exchange *x) {
        struct error *err;

        set_options(x);
        err = describe(x, library.curl.easy_perform(x->connection->easy));
        library.curl.slist_free_all(x->headers);
        return err;
}

struct error *store_exchange(struct store_request *r, struct store_answer *ret) {
        struct exchange x = { .request = r, .answer = ret };
        struct error   *err;

        *ret = (struct store_answer){ 0 };
        TRY(store_request_prepare());
        TRY(strbuf_check(&r->url, "the address of a request"));
        TRY(take_connection(&x.connection));
        strbuf_init(&ret->body,
                    r->max_answer_bytes != 0 ? r->max_answer_bytes : DEFAULT_ANSWER_BYTES);
        err = perform(&x);
        give_back(x.connection);
        if (err != NULL)
                store_answer_done(ret);
        return err;
}
