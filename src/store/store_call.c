/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_call.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/work_pool.h"
#include "store/store.h"
#include "store/store_credentials.h"
#include "store/store_hub.h"
#include "store/store_retry.h"

#include <string.h>

#define MAX_REDIRECTS 5
#define MAX_CODE_BYTES 64
#define MAX_HOST_BYTES ((size_t)255) /* in a message; a header may have 100 KB */

/* State of one call between its tries. */
struct attempt {
        struct store      *store;
        struct store_call *call;
        struct store_retry retry;
        struct strbuf      moved; /* the address of a redirect; empty: none */
        unsigned           n_redirects;
        bool               is_renewed;  /* with keys that were fetched anew */
        bool               is_repeated; /* a line of the log reported the first failure */
        uint64_t           wait_ns;     /* the pause that the server asked for */
};

/* ---- what an answer means ---------------------------------------------------------------------- */

static bool is_word(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Returns the code of an error as stores write it: "<Code>NoSuchKey</Code>". Letters and digits alone, since it
 * goes to the log. */
static struct str find_code(struct str body) {
        static const char mark[] = "<Code>";
        const char       *at = body.len > 0 ? memmem(body.ptr, body.len, mark, strlen(mark)) : NULL;
        struct str        code = { 0 };

        if (at == NULL)
                return code;
        code.ptr = at + strlen(mark);
        while (code.ptr + code.len < body.ptr + body.len && code.len < MAX_CODE_BYTES &&
               is_word(code.ptr[code.len]))
                code.len++;
        return code;
}

/* Other keys may help. S3 answers 400 when the token of a session has expired. */
static bool is_refusal(const struct store_answer *a) {
        static const char *const codes[] = { "ExpiredToken", "InvalidToken",
                                             "TokenRefreshRequired" };
        struct str               code = find_code(strbuf_str(&a->body));

        for (size_t i = 0; a->status == 400 && i < ARRAY_LEN(codes); i++)
                if (str_is(code, codes[i]))
                        return true;
        return a->status == 401 || a->status == 403;
}

static enum error_code code_of(int status) {
        if (status == 404)
                return ERR_NOT_FOUND;
        return store_retry_is_transient(status) || status == 412 ? ERR_UNAVAILABLE
                                                                 : ERR_INVALID_ARG;
}

static struct error *describe(const struct store_call *c, const struct store_answer *a) {
        const char *region = store_answer_header(a, "x-amz-bucket-region");
        struct str  code = find_code(strbuf_str(&a->body));

        if (a->status >= 300 && a->status < 400 && *region != '\0')
                return error_new(ERR_INVALID_ARG, "%s: the bucket is in the region '%.32s'",
                                 c->what, region);
        if (code.len > 0)
                return error_new(code_of(a->status), "%s: HTTP status %d, %.*s", c->what, a->status,
                                 STR_ARG(code));
        return error_new(code_of(a->status), "%s: HTTP status %d", c->what, a->status);
}

/* ---- redirects --------------------------------------------------------------------------------- */

/* "https://host:port" */
static struct str origin_of(struct str url) {
        const char *begin = url.len > 0 ? memmem(url.ptr, url.len, "://", 3) : NULL;
        size_t      at;

        if (begin == NULL)
                return (struct str){ 0 };
        at = (size_t)(begin + 3 - url.ptr);
        while (at < url.len && strchr("/?#", url.ptr[at]) == NULL)
                at++;
        return str_range(url.ptr, at);
}

static bool is_redirect(int status) {
        return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Credentials and requests never go to another host. */
static struct error *follow(struct attempt *t, struct str from, const struct store_answer *a) {
        struct str to = str_of(store_answer_header(a, "location")), origin = origin_of(from);

        if (to.len == 0 || ++t->n_redirects > MAX_REDIRECTS)
                return describe(t->call, a);
        if (!str_starts(to, STR_LIT("/")) || str_starts(to, STR_LIT("//"))) {
                struct str host = origin_of(to);

                if (!str_equal_nocase(host, origin))
                        return error_new(ERR_INVALID_ARG,
                                         "%s: HTTP status %d, a redirect to another host '%.*s', "
                                         "which is not followed",
                                         t->call->what, a->status,
                                         (int)MIN(host.len, MAX_HOST_BYTES),
                                         host.ptr != NULL ? host.ptr : "");
                to = str_skip(to, host.len);
        }
        strbuf_clear(&t->moved);
        strbuf_put(&t->moved, origin.ptr, origin.len);
        strbuf_put(&t->moved, to.ptr, to.len);
        return strbuf_check(&t->moved, "the address of a redirect");
}

/* ---- tries ------------------------------------------------------------------------------------- */

static struct error *send_once(struct attempt *t, unsigned *ret_renewals, struct strbuf *ret_url,
                               struct store_answer *ret) {
        struct store_request r = { .method = "GET", .is_cancelled = t->call->is_cancelled };
        struct error        *err;

        t->call->prepare(t->call->userp, &r);
        if (t->moved.len > 0) {
                strbuf_clear(&r.url);
                strbuf_put(&r.url, t->moved.ptr, t->moved.len);
        }
        *ret_renewals = store_credentials_renewals(t->store->credentials);
        strbuf_put(ret_url, r.url.ptr, r.url.len);
        err = store_credentials_sign(t->store->credentials, &r);
        if (err == NULL)
                err = store_exchange(&r, ret);
        store_request_done(&r);
        return err;
}

static void wait_until(struct attempt *t, uint64_t until_ns) {
        struct work_pool *pool = t->call->pool;

        if (pool != NULL)
                work_pool_begin_wait(pool);
        store_hub_wait(t->store->hub, t->call->is_cancelled, until_ns);
        if (pool != NULL)
                work_pool_end_wait(pool);
}

/* Takes `why`. Returns NULL when it is time for another try. */
static struct error *wait_for_next(struct attempt *t, struct error *why) {
        uint32_t random = 0;
        uint64_t until_ns;

        error_free(random_fill(&random, sizeof(random)));
        if (t->call->has_progressed)
                store_retry_progress(&t->retry);
        t->call->has_progressed = false;
        if (t->call->is_single ||
            !store_retry_next(&t->retry, clock_now_ns(), t->wait_ns, random, &until_ns))
                return why;
        if (!t->is_repeated)
                log_warn("%s; trying again", why->message);
        t->is_repeated = true;
        error_free(why);
        wait_until(t, until_ns);
        if (atomic_load(t->call->is_cancelled))
                return error_new(ERR_CANCELLED, "%s: the request was cancelled", t->call->what);
        return NULL;
}

/* The answer is not 2xx. Returns NULL when the next try may begin. */
static struct error *judge(struct attempt *t, unsigned n_renewals, struct str url,
                           const struct store_answer *a) {
        if (is_redirect(a->status))
                return follow(t, url, a);
        if (is_refusal(a) && !t->is_renewed) {
                t->is_renewed = true;
                if (store_credentials_renew(t->store->credentials, n_renewals))
                        return NULL;
        }
        if (!store_retry_is_transient(a->status))
                return describe(t->call, a);
        t->wait_ns = store_retry_after_ns(store_answer_header(a, "retry-after"), clock_wall_ns());
        return wait_for_next(t, describe(t->call, a));
}

/* *ret_done: the answer is one of 2xx. */
static struct error *try_once(struct attempt *t, struct store_answer *ret, bool *ret_done) {
        AUTO_STRBUF   url = { 0 };
        unsigned      n_renewals;
        struct error *err;

        t->wait_ns = 0;
        t->call->status = 0;
        err = send_once(t, &n_renewals, &url, ret);
        if (err != NULL)
                return err->code == ERR_UNAVAILABLE ? wait_for_next(t, err) : err;
        t->call->status = ret->status;
        *ret_done = ret->status >= 200 && ret->status < 300;
        if (*ret_done)
                return NULL;
        err = judge(t, n_renewals, strbuf_str(&url), ret);
        store_answer_done(ret);
        return err;
}

struct error *store_call(struct store *s, struct store_call *c, struct store_answer *ret) {
        struct attempt t = { .store = s, .call = c };
        struct error  *err = NULL;
        bool           is_done = false;

        store_retry_init(&t.retry, s->hub->retry_ns);
        while (err == NULL && !is_done)
                err = try_once(&t, ret, &is_done);
        strbuf_done(&t.moved);
        return err;
}
