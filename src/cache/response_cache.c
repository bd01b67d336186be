/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/response_cache.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/work_pool.h"
#include "cache/cache_entry.h"
#include "cache/cache_key.h"
#include "cache/cache_library.h"
#include "cache/serialized_response.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "infer/response_order.h"
#include "infer/trace.h"

struct response_cache {
        struct cache_library *library; /* owned */
        struct keyed_hash_key secret;  /* secret of all keys of this server */
        struct work_pool     *senders; /* owned: of answers that a loop must not wait for */
};

/* An answer whose outputs, or those of an ensemble that it completes, may be copied to devices when it is sent. */
struct late_answer {
        struct work      work;
        struct request  *req; /* owned, as is the response */
        struct response *response;
};

#define MAX_SENDERS 2

/* The state of a request whose answer was not in the cache: what is needed to insert it. */
struct cache_miss {
        struct response_tap    base;
        struct response_cache *cache; /* borrowed: outlives the request */
        uint64_t               lookup_ns;
        struct cache_key       key;
};

struct error *response_cache_new(const struct cache_library_options *o,
                                 struct response_cache             **ret) {
        struct response_cache *c = mem_zalloc(sizeof(*c));

        c->senders = work_pool_new("neso-cache", MAX_SENDERS, WORK_BACKGROUND);
        TRY_OR(keyed_hash_key_make(&c->secret), response_cache_free(c));
        TRY_OR(cache_library_open(o, &c->library), response_cache_free(c));
        *ret = c;
        return NULL;
}

void response_cache_free(struct response_cache *c) {
        if (c == NULL)
                return;
        work_pool_free(c->senders);
        cache_library_close(c->library);
        free(c);
}

struct error *response_cache_attach(struct response_cache *c, struct model *m) {
        if (!model_config_has_response_cache(m->config))
                return NULL;
        if (c == NULL) {
                log_warn("model '%s' has response_cache enabled, but the server has no cache; "
                         "--cache-config gives it one",
                         m->name);
                return NULL;
        }
        TRY(siphash_key_make(&m->cache_key));
        m->cache = c;
        return NULL;
}

/* ---- after the execution --------------------------------------------------------------------- */

static struct error *insert_response(struct cache_miss *miss, const struct response *r,
                                     size_t n_bytes) {
        struct cache_transfer    t = { .from = r, .n_bytes = n_bytes };
        struct buffer_attributes attributes = { .memory_type = MEMORY_CPU, .byte_size = n_bytes };
        struct cache_entry       e;
        struct error            *err;

        cache_entry_init(&e);
        err = cache_entry_add(&e, NULL, &attributes); /* the cache provides the memory */
        if (err == NULL)
                err = cache_library_insert(miss->cache->library, miss->key.text, &e, &t);
        cache_entry_done(&e);
        return err;
}

static void on_answer(struct response_tap *k, const struct response *r, uint32_t flags) {
        struct cache_miss *miss = CONTAINER_OF(k, struct cache_miss, base);
        uint64_t           start_ns = clock_now_ns();
        AUTO_ERROR         err = NULL;
        size_t             n_bytes;

        /* More responses may follow a response that is not final. */
        if ((flags & RESPONSE_FINAL) != 0 && serialized_response_measure(r, &n_bytes)) {
                err = insert_response(miss, r, n_bytes);
                if (err != NULL && err->code != ERR_ALREADY_EXISTS)
                        log_error("Failed to insert key [%s] into response cache: %s",
                                  miss->key.text, err->message);
                /* An identical request was answered meanwhile; its insertion was counted. */
                if (err == NULL || err->code != ERR_ALREADY_EXISTS)
                        model_stats_cache_miss(r->source.model->stats,
                                               miss->lookup_ns + clock_now_ns() - start_ns);
        }
        free(miss);
}

static void on_dropped(struct response_tap *k) {
        free(CONTAINER_OF(k, struct cache_miss, base));
}

/* When memory is short the answer is not kept. */
static void expect_answer(struct response_cache *c, struct request *req,
                          const struct cache_keys *keys) {
        struct cache_miss *miss = try_alloc(sizeof(*miss));

        if (miss != NULL)
                *miss = (struct cache_miss){ .base = { .keep = on_answer, .drop = on_dropped },
                                             .cache = c,
                                             .lookup_ns =
                                                     clock_now_ns() - req->times.request_start_ns,
                                             .key = keys->is_some ? keys->some : keys->all };
        response_stream_set_tap(req->stream, miss != NULL ? &miss->base : NULL);
}

void response_cache_forget(struct request *req) {
        response_stream_set_tap(req->stream, NULL);
        response_ticket_unref(STEAL(req->order_ticket));
}

/* ---- before the execution -------------------------------------------------------------------- */

/* Returns NULL when the key is not in the cache. */
static struct response *look_up(struct response_cache *c, const struct request *req,
                                const struct cache_key *key) {
        struct cache_transfer t = { .req = req };
        struct cache_entry    e;
        AUTO_ERROR            err = NULL;

        cache_entry_init(&e);
        err = cache_library_lookup(c->library, key->text, &e, &t);
        cache_entry_done(&e);
        if (err == NULL && t.made == NULL)
                err = error_new(ERR_INTERNAL, "the cache found an entry and copied nothing");
        if (err == NULL)
                return t.made;
        response_free(t.made);
        if (err->code != ERR_NOT_FOUND)
                log_error("Failed to look up key [%s] in response cache: %s", key->text,
                          err->message);
        return NULL;
}

static void send(struct request *req, struct response *r) {
        uint64_t             start_ns = req->times.request_start_ns;
        struct request_times t = { .request_start_ns = start_ns,
                                   .queue_start_ns = start_ns,
                                   .exec_start_ns = start_ns,
                                   .request_end_ns = clock_now_ns() };
        struct error        *err;

        /* Counted before the client can query the statistics. */
        if (req->trace != NULL)
                trace_mark_latency(req->trace, req->model->stats, &t);
        model_stats_cache_hit(req->model->stats, &t, t.request_end_ns - start_ns);
        err = response_send(r, RESPONSE_FINAL, NULL);
        error_free(err); /* nothing was sent yet */
        request_release(req, REQUEST_RELEASE_ALL);
}

static void send_late(struct work *w) {
        struct late_answer *late = CONTAINER_OF(w, struct late_answer, work);

        send(late->req, late->response);
        free(late);
}

/* When memory is short, this thread waits for the copy. */
static COLD void send_from_other_thread(struct response_cache *c, struct request *req,
                                        struct response *r) {
        struct late_answer *late = try_alloc(sizeof(*late));

        if (late == NULL) {
                send(req, r);
                return;
        }
        *late = (struct late_answer){ .work.run = send_late, .req = req, .response = r };
        work_pool_push(c->senders, &late->work);
}

bool response_cache_answer(struct response_cache *c, struct request *req, struct scheduler *inner) {
        struct cache_keys keys;
        struct response  *r;

        /* Answers from the cache keep their place among requests that are executed. */
        if (req->model->scheduler->order != NULL)
                req->order_ticket = response_ticket_new(req->model->scheduler->order);
        /* Some input came on a device, others may have stayed there. */
        if (req->has_host_copies)
                return false;
        if (request_is_cancelled(req) || !cache_keys_make(req, &c->secret, &keys))
                return false;
        r = look_up(c, req, &keys.all);
        if (r == NULL && keys.is_some)
                r = look_up(c, req, &keys.some);
        if (r != NULL) {
                if (inner->ops->complete_answer != NULL)
                        inner->ops->complete_answer(inner, req, r);
                atomic_store_explicit(&req->state, REQUEST_EXECUTING, memory_order_release);
                if (req->has_device_outputs) /* also a step's: its run may end, and copy, at once */
                        send_from_other_thread(c, req, r);
                else
                        send(req, r);
                return true;
        }
        if (!req->is_uncacheable)
                expect_answer(c, req, &keys);
        return false;
}
