/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store_cache.h"
#include "store/store_call.h"
#include "store/store_credentials.h"
#include "store/store_folder.h"
#include "store/store_hub.h"
#include "store/store_kind.h"
#include "store/store_listing.h"

#include <string.h>

/* A store that sends pages without entries has no end. */
#define MAX_PAGES 65536
#define MAX_TOKEN_BYTES 65536
/* One page, of at most 128 MiB. A server that sends a byte now and then never is without one for long. */
#define MAX_PAGE_MS (10 * 60 * 1000)
#define LARGE_ENTRIES 200000 /* 35 MB; a smaller listing stays valid until the next one is there */

/* ---- life ------------------------------------------------------------------------------------ */

static struct error *open_cache(struct store *s, const char *directory, bool is_kept) {
        return store_cache_open(&(struct store_cache_options){ .directory = directory,
                                                               .max_bytes =
                                                                       is_kept ? s->hub->cache_bytes
                                                                               : 0,
                                                               .keeps_unused = is_kept },
                                &s->cache);
}

static struct error *open_parts(struct store *s) {
        const char *kept = s->hub->cache_directory;
        AUTO_CHARS  parent = store_folder_parent(s->url.kind, kept);
        AUTO_CHARS  own = NULL;

        TRY(store_request_prepare());
        TRY(store_credentials_open(&s->url, &s->credentials));
        store_credentials_set_end(s->credentials, &s->hub->is_stopping);
        if (*kept != '\0') /* makes the directory, in which the folder may lie */
                TRY(open_cache(s, kept, true));
        TRY(store_folder_open(parent, &s->folder));
        if (s->cache != NULL)
                return NULL;
        own = path_join(store_folder_path(s->folder), "cache");
        return open_cache(s, own, false);
}

struct error *store_open(struct store_hub *hub, const char *address, struct store **ret) {
        struct store_url url;
        struct store    *s;
        struct error    *err;

        TRY(store_url_parse(address, &url));
        s = mem_zalloc(sizeof(*s));
        ref_init(&s->ref);
        mutex_init(&s->lock, LOCK_LEAF);
        s->hub = hub;
        s->url = url;
        err = open_parts(s);
        if (err != NULL) {
                err = error_wrap(err, "failed to open the model repository '%s'", url.text);
                store_unref(s);
                return err;
        }
        *ret = s;
        return NULL;
}

struct store *store_ref(struct store *s) {
        if (s != NULL)
                ref_get(&s->ref);
        return s;
}

void store_unref(struct store *s) {
        if (s == NULL || !ref_put(&s->ref))
                return;
        store_listing_unref(s->latest);
        error_free(s->latest_error);
        free(s->refusal);
        store_cache_close(s->cache);
        store_folder_close(s->folder);
        store_credentials_free(s->credentials);
        store_url_done(&s->url);
        mutex_done(&s->lock);
        free(s);
}

/* ---- one listing ----------------------------------------------------------------------------- */

struct page_request {
        const struct store *store;
        const char         *directory;
        const char         *token;
};

static void prepare_page(void *userp, struct store_request *r) {
        const struct page_request *p = userp;

        store_kind_print_page(p->store, p->directory, p->token, &r->url);
        r->max_answer_bytes = store_kind_page_bytes(p->store);
        r->max_ms = MAX_PAGE_MS;
}

/* A store that names the page that it has sent as the next one would be asked for it again and again. */
static struct error *check_next(const char *here, struct strbuf *token) {
        if (token->len == 0 || strcmp(here, strbuf_cstr(token)) != 0)
                return NULL;
        return error_new_text(ERR_INVALID_ARG,
                              "a page of the listing names itself as the next one");
}

/* Reads one page; the token becomes that of the next one, "" at the end. */
static struct error *read_page(struct store *s, const char *directory, bool is_single,
                               struct strbuf *token, struct store_list *list) {
        AUTO_CHARS          here = mem_strdup(strbuf_cstr(token));
        AUTO_CHARS          what = store_kind_describe_page(s);
        struct page_request request = { .store = s, .directory = directory, .token = here };
        struct store_call   call = { .what = what,
                                     .prepare = prepare_page,
                                     .userp = &request,
                                     .is_cancelled = &s->hub->is_stopping,
                                     .is_single = is_single };
        struct store_answer answer;
        struct error       *err;

        TRY(store_call(s, &call, &answer));
        err = strbuf_check(&answer.body, "a page of the listing");
        if (err == NULL)
                err = store_kind_read_page(s, directory, strbuf_str(&answer.body), list, token);
        if (err == NULL)
                err = check_next(here, token);
        store_answer_done(&answer);
        return error_wrap(err, "%s", store_text(s));
}

static struct error *list_pages(struct store *s, const char *directory, bool is_single,
                                struct store_list *list) {
        AUTO_STRBUF token = { .max = MAX_TOKEN_BYTES };

        for (unsigned n = 0; n == 0 || token.len > 0; n++) {
                if (n == MAX_PAGES)
                        return error_new(ERR_INVALID_ARG, "%s: the listing has too many pages",
                                         store_text(s));
                TRY(read_page(s, directory, is_single, &token, list));
        }
        return NULL;
}

/* Logs it when it is not the one of the last listing. */
static void report_refusal(struct store *s, const struct store_list *list) {
        const char *text = list->refusal != NULL ? list->refusal->message : "";
        bool        is_new;

        mutex_lock(&s->lock);
        is_new = strcmp(s->refusal != NULL ? s->refusal : "", text) != 0;
        if (is_new) {
                free(s->refusal);
                s->refusal = mem_strdup(text);
        }
        mutex_unlock(&s->lock);
        if (is_new && list->refusal != NULL)
                log_warn("%s: %zu objects are ignored: %s", store_text(s), list->n_refused, text);
}

static struct error *list_directory(struct store *s, const char *directory, bool is_single,
                                    struct store_listing **ret) {
        struct store_list list;
        struct error     *err;

        store_list_init(&list, store_kind_prefix(s));
        err = list_pages(s, directory, is_single, &list);
        if (err != NULL) {
                store_list_done(&list);
                return err;
        }
        if (*directory == '\0')
                report_refusal(s, &list);
        *ret = store_listing_new(&list);
        return NULL;
}

/* ---- the latest one -------------------------------------------------------------------------- */

static void keep_latest(struct store *s, struct store_listing *l, const struct error *err) {
        struct store_listing *old = NULL;

        mutex_lock(&s->lock);
        if (l != NULL) {
                old = s->latest;
                s->latest = store_listing_ref(l);
        }
        error_free(s->latest_error);
        s->latest_error = err != NULL ? error_copy(err) : NULL;
        s->latest_ns = clock_now_ns();
        mutex_unlock(&s->lock);
        store_listing_unref(old);
}

/* Two listings of a million objects would take a third of a gigabyte. */
static void drop_large_latest(struct store *s) {
        struct store_listing *old = NULL;

        mutex_lock(&s->lock);
        if (s->latest != NULL && s->latest->list.n_entries > LARGE_ENTRIES) {
                old = STEAL(s->latest);
                s->latest_ns = 0;
        }
        mutex_unlock(&s->lock);
        store_listing_unref(old);
}

static struct error *list_all(struct store *s, bool is_single, struct store_listing **ret) {
        struct store_listing *l = NULL;
        struct error         *err;

        drop_large_latest(s);
        err = list_directory(s, "", is_single, &l);
        keep_latest(s, l, err);
        if (err == NULL)
                *ret = l;
        return err;
}

struct error *store_list_directory(struct store *s, const char *directory,
                                   struct store_listing **ret) {
        return *directory == '\0' ? list_all(s, false, ret)
                                  : list_directory(s, directory, false, ret);
}

/* True when there is an answer of that age; then *ret or *ret_error is it. */
static bool find_recent(struct store *s, uint64_t max_age_ns, struct store_listing **ret,
                        struct error **ret_error) {
        MUTEX_GUARD(&s->lock);
        if (s->latest_ns == 0 || clock_now_ns() - s->latest_ns > max_age_ns)
                return false;
        if (s->latest_error != NULL)
                *ret_error = error_copy(s->latest_error);
        else
                *ret = store_listing_ref(s->latest);
        return true;
}

struct error *store_list_recent(struct store *s, uint64_t max_age_ns, bool has_retries,
                                struct store_listing **ret) {
        struct error *err = NULL;

        if (find_recent(s, max_age_ns, ret, &err))
                return err;
        return list_all(s, !has_retries, ret);
}
