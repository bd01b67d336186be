/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched_plugin/policy_plugin.h"

#include "base/clock.h"
#include "base/dl.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plugin_call.h"
#include "base/siphash.h"
#include "config/batching_config.h"
#include "infer/executor.h"
#include "infer/model.h"
#include "infer/request_shape.h"
#include "sched/instance.h"
#include "sched/request_queue.h"
#include "sched_plugin/plugin_counters.h"
#include "sched_plugin/plugin_items.h"
#include "sched_plugin/plugin_members.h"

#include <errno.h>
#include <string.h>

struct sched_host {
        struct policy          base;
        struct batching_config batching;
        struct policy         *builtin;     /* owned */
        const struct model    *model;       /* borrowed */
        struct dl             *library;     /* owned; may be NULL */
        char                  *config_json; /* owned */
        uint32_t               max_batch;
        struct plugin_place    place;
        const sched_vtbl      *functions; /* functions of the library */
        void                  *state;     /* state of the plug-in */
        bool                   is_open;   /* between init() and fini() */
        bool                   is_given_up;
        bool                   may_split; /* requests may run in parts */
        struct plugin_counters counters;
        uint32_t               errors_logged; /* one bit for each kind of error */
        uint64_t (*now)(void);

        struct request_queue *queue; /* borrowed: the engine's; set when the first instance joins */
        struct siphash_key    key;   /* key of the hashes that are shape classes */
        struct plugin_items   items;
        uint64_t              n_calls; /* calls of dispatch; marks the items that a call names */
        struct plugin_members members;

        uint64_t timer_ns;   /* time at which the plug-in wants on_timer(); 0: not armed */
        uint64_t stalled_id; /* item that waits although a member was free; 0: none */
        uint64_t stalled_ns; /* since when it waits so */
        uint64_t watch_ns;   /* time of the next stall check; 0: none */
        bool     is_draining;
        uint64_t progress_ns; /* while draining: time of the last dispatch or completion */
};

static struct sched_host *host_of(struct policy *p) {
        return CONTAINER_OF(p, struct sched_host, base);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct refused_call {
        int         code;
        const char *text;
} refused_calls[] = {
        { EBUSY, "the member is not free" },
        { ENODEV, "there is no such member" },
        { ENOENT, "an item is not known, or has ended" },
        { EALREADY, "an item is named twice" },
        { ERANGE, "the rows are not in the member's range, or not the next ones of their item" },
        { EXDEV, "the items are of different shape classes" },
        { EINVAL, "an argument is not valid" },
        { ENOTSUP, "requests of this model cannot be split" },
};

/* Counts the refused call, and logs the first one of each kind. */
static int refuse_call(struct sched_host *h, const char *function, int code) {
        if (code == ECANCELED)
                return code; /* the plug-in could not know of the cancellation */
        plugin_counters_add(&h->counters, PLUGIN_COUNTER_ERROR, 1);
        for (size_t i = 0; i < ARRAY_LEN(refused_calls); i++) {
                if (refused_calls[i].code != code || (h->errors_logged & (1u << i)) != 0)
                        continue;
                h->errors_logged |= 1u << i;
                log_warn("model '%s' version %lld: scheduler '%s': %s was refused: %s; others like "
                         "this are only counted",
                         h->model->label, (long long)h->model->version, h->place.library, function,
                         refused_calls[i].text);
        }
        return code;
}

/* True when this thread is in a call of the plug-in. */
static bool is_in_call(const struct sched_host *h) {
        return plugin_call_now.place == &h->place && h->is_open && !h->is_given_up;
}

/* ---- host functions -------------------------------------------------------------------------- */

static void forget_stall(struct sched_host *h, const struct plugin_item *item) {
        if (item->id == h->stalled_id)
                h->stalled_id = 0;
}

static void end_item(struct sched_host *h, struct plugin_item *item) {
        forget_stall(h, item);
        plugin_items_remove(&h->items, item);
}

/* Items that time out together leave the queue together, and on_cancel() is called for one after
 * the other. During the first of these calls the plug-in still knows the others. */
static int find_waiting(const struct sched_host *h, uint64_t id, struct plugin_item **ret) {
        *ret = plugin_items_find(&h->items, id);
        if (*ret == NULL)
                return ENOENT;
        return list_is_linked(&(*ret)->req->queued.node) ? 0 : ECANCELED;
}

/* A batch that the plug-in asks for. */
struct wanted_batch {
        uint32_t        member;
        const uint64_t *ids;
        const uint32_t *first, *count; /* rows of each item; NULL: all its remaining rows */
        uint32_t        n;
};

static uint32_t wanted_rows(const struct wanted_batch *w, uint32_t i,
                            const struct plugin_item *item) {
        return w->count != NULL ? w->count[i] : plugin_item_rows(item);
}

/* Rows of an item are dispatched in order. */
static int check_rows(const struct sched_host *h, const struct wanted_batch *w, uint32_t i,
                      const struct plugin_item *item) {
        if (w->count == NULL)
                return 0;
        if (w->count[i] == 0 || w->first[i] != item->rows_taken ||
            w->count[i] > plugin_item_rows(item))
                return ERANGE;
        return w->count[i] < plugin_item_rows(item) && !h->may_split ? ENOTSUP : 0;
}

static int check_items(struct sched_host *h, const struct wanted_batch *w, uint64_t *ret_rows) {
        uint64_t shape_class = 0;

        h->n_calls++;
        for (uint32_t i = 0; i < w->n; i++) {
                struct plugin_item *item;
                int                 code = find_waiting(h, w->ids[i], &item);

                if (code != 0)
                        return code;
                if (item->mark == h->n_calls)
                        return EALREADY;
                item->mark = h->n_calls;
                if (i == 0)
                        shape_class = item->view->shape_class;
                if (item->view->shape_class != shape_class)
                        return EXDEV;
                code = check_rows(h, w, i, item);
                if (code != 0)
                        return code;
                *ret_rows += wanted_rows(w, i, item);
        }
        return 0;
}

static int check_batch(struct sched_host *h, const struct wanted_batch *w, uint64_t *ret_rows) {
        const sched_member *member;
        int                 code;

        if (w->ids == NULL || w->n == 0)
                return EINVAL;
        if (w->member >= h->members.n)
                return ENODEV;
        if (!plugin_members_is_free(&h->members, w->member))
                return EBUSY;
        code = check_items(h, w, ret_rows);
        if (code != 0)
                return code;
        member = &h->members.views[w->member];
        return *ret_rows < member->lo || *ret_rows > member->hi ? ERANGE : 0;
}

/* Takes the rows from the queue, in the order of the ids. An item with remaining rows keeps its
 * place. */
static void take_rows(struct sched_host *h, struct instance *in, struct plugin_item *item,
                      uint32_t n_rows) {
        struct request *req = item->req;

        if (n_rows == plugin_item_rows(item)) {
                end_item(h, item);
        } else {
                item->rows_taken += n_rows;
                forget_stall(h, item);
        }
        instance_take_rows(in, h->queue, req, n_rows);
}

static enum dispatch_reason reason_of(const struct sched_host *h, const sched_member *member,
                                      uint64_t n_rows) {
        if (h->is_draining)
                return DISPATCH_DRAIN;
        return n_rows == member->hi ? DISPATCH_FULL : DISPATCH_DUE;
}

static void run_batch(struct sched_host *h, const struct wanted_batch *w, uint64_t n_rows) {
        struct plugin_member_state *state = &h->members.states[w->member];

        instance_begin_batch(state->in);
        for (uint32_t i = 0; i < w->n; i++) {
                struct plugin_item *item = plugin_items_find(&h->items, w->ids[i]);

                take_rows(h, state->in, item, wanted_rows(w, i, item));
        }
        state->is_busy = true;
        state->reason = reason_of(h, &h->members.views[w->member], n_rows);
        policy_assign(&h->base, state->in);
        if (h->is_draining)
                h->progress_ns = h->now();
}

static int try_batch(struct sched_host *h, const struct wanted_batch *w, const char *function) {
        uint64_t n_rows = 0;
        int      code = check_batch(h, w, &n_rows);

        if (code != 0)
                return refuse_call(h, function, code);
        run_batch(h, w, n_rows);
        return 0;
}

static int on_dispatch(sched_host *h, uint32_t member, const uint64_t *ids, uint32_t n) {
        if (!is_in_call(h))
                return EPERM;
        return try_batch(h, &(struct wanted_batch){ .member = member, .ids = ids, .n = n },
                         "dispatch");
}

static int on_dispatch_rows(sched_host *h, uint32_t member, const uint64_t *ids,
                            const uint32_t *first, const uint32_t *count, uint32_t n) {
        if (!is_in_call(h))
                return EPERM;
        if (first == NULL || count == NULL)
                return refuse_call(h, "dispatch_rows", EINVAL);
        return try_batch(
                h,
                &(struct wanted_batch){
                        .member = member, .ids = ids, .first = first, .count = count, .n = n },
                "dispatch_rows");
}

static int on_reject(sched_host *h, uint64_t id, int code, const char *msg) {
        struct plugin_item *item;
        struct request     *req;
        int                 refused;

        if (!is_in_call(h))
                return EPERM;
        if (code < ERR_UNKNOWN || code > ERR_CANCELLED)
                return refuse_call(h, "reject", EINVAL);
        refused = find_waiting(h, id, &item);
        if (refused != 0)
                return refuse_call(h, "reject", refused);
        req = item->req;
        end_item(h, item);
        request_queue_remove(h->queue, req);
        policy_refuse(&h->base, req,
                      request_error(req, (enum error_code)code, "%s", msg != NULL ? msg : ""));
        return 0;
}

static uint64_t on_now(sched_host *h) {
        return h->now();
}

static void on_set_timer(sched_host *h, uint64_t at_ns) {
        if (is_in_call(h))
                h->timer_ns = at_ns;
}

static void on_log(sched_host *h, int level, const char *msg) {
        if (!is_in_call(h) || level < LOG_INFO || level > LOG_VERBOSE || msg == NULL ||
            !log_is_enabled((enum log_level)level))
                return;
        log_printf((enum log_level)level, __FILE__, __LINE__, "model '%s' version %lld: %s",
                   h->model->label, (long long)h->model->version, msg);
}

static void on_count(sched_host *h, const char *metric, double add) {
        if (is_in_call(h) && !plugin_counters_add(&h->counters, metric, add))
                refuse_call(h, "count", EINVAL);
}

static const sched_host_ops host_ops = {
        .now_ns = on_now,
        .dispatch = on_dispatch,
        .dispatch_rows = on_dispatch_rows,
        .reject = on_reject,
        .set_timer = on_set_timer,
        .log = on_log,
        .count = on_count,
};

/* ---- calls of the plug-in -------------------------------------------------------------------- */

static int call_init(struct sched_host *h) {
        int code;
        PLUGIN_CALL(&h->place, "init");

        h->timer_ns = 0;
        for (uint32_t i = 0; i < h->members.n; i++)
                h->members.views[i].is_busy = h->members.states[i].is_busy;
        h->is_open = true;
        code = h->functions->init(&h->state, h, &host_ops, h->config_json, h->members.views,
                                  h->members.n, h->max_batch);
        h->is_open = code == 0;
        return code;
}

/* Calls of the host functions during fini() are refused. */
static void call_fini(struct sched_host *h) {
        PLUGIN_CALL(&h->place, "fini");

        if (!h->is_open)
                return;
        h->is_open = false;
        h->functions->fini(h->state);
}

/* The plug-in forgets all items, but the requests stay in the queue. */
static void forget_all(struct sched_host *h) {
        plugin_items_clear(&h->items);
        h->stalled_id = 0;
}

/* Must not be called during a call of the plug-in. */
static void give_up(struct sched_host *h, const char *why) {
        log_error("model '%s' version %lld: scheduler '%s' %s; the built-in scheduler serves the "
                  "model from now on",
                  h->model->label, (long long)h->model->version, h->place.library, why);
        h->is_given_up = true;
        h->base.due_ns = 0;
        call_fini(h);
        forget_all(h);
        if (h->is_draining && h->builtin->ops->drain != NULL)
                h->builtin->ops->drain(h->builtin, h->now());
}

static uint32_t priority_of(const struct request *req) {
        return (uint32_t)MIN(req->queued.level, UINT32_MAX);
}

/* Returns 0 when the timeout does not reject the request. */
static uint64_t deadline_of(const struct sched_host *h, const struct request *req) {
        if (req->queued.due.due_ns == CLOCK_NEVER ||
            queue_policy_for_level(&h->batching, req->queued.level)->action != QUEUE_TIMEOUT_REJECT)
                return 0;
        return req->queued.due.due_ns;
}

/* For a request that runs in parts, the item has the rows that still wait. */
static void fill_item(struct sched_host *h, struct plugin_item *item, struct request *req) {
        item->req = req;
        item->view->rows = (uint32_t)request_rows(req);
        item->view->priority = priority_of(req);
        item->view->arrival_ns = req->times.queue_start_ns;
        item->view->deadline_ns = deadline_of(h, req);
        if (h->model->needs_equal_shapes)
                item->view->shape_class = request_shape_class(req, &h->key);
        req->ticket = item->slot;
}

static void refuse_unknown(struct sched_host *h, struct request *req) {
        request_queue_remove(h->queue, req);
        policy_refuse(&h->base, req, error_new(ERR_UNAVAILABLE, "out of memory"));
}

static void call_enqueue(struct sched_host *h, const sched_item *items, uint32_t n) {
        PLUGIN_CALL(&h->place, "on_enqueue");

        h->functions->on_enqueue(h->state, items, n);
}

static void announce_request(struct sched_host *h, struct request *req) {
        struct plugin_item *item = plugin_items_add(&h->items);

        if (item == NULL) {
                refuse_unknown(h, req);
                return;
        }
        fill_item(h, item, req);
        call_enqueue(h, item->view, 1);
}

/* Announces the requests in one call; refuses those for which there is no memory. */
static void announce_group(struct sched_host *h, struct request *first, uint32_t n) {
        struct plugin_group *group = plugin_group_new(n);
        uint32_t             n_known = 0;

        for (struct request *req = first, *next; req != NULL; req = next) {
                struct plugin_item *item =
                        group != NULL ? plugin_items_add_to(&h->items, group, n_known) : NULL;

                next = req->queued.next;
                if (item == NULL) {
                        refuse_unknown(h, req);
                        continue;
                }
                fill_item(h, item, req);
                n_known++;
        }
        if (n_known > 0)
                call_enqueue(h, group->views, n_known);
        if (group != NULL)
                plugin_group_leave(group);
}

/* The plug-in may take any request out of the queue during such a call. */
static void announce_all(struct sched_host *h) {
        uint64_t          n = h->queue->n_waiting;
        struct request  **waiting = mem_alloc((size_t)MAX(n, 1u) * sizeof(struct request *));
        struct queue_walk w = queue_walk_begin(h->queue);

        for (uint64_t i = 0; i < n; i++)
                waiting[i] = queue_walk_next(&w);
        for (uint64_t i = 0; i < n; i++)
                announce_request(h, waiting[i]);
        free(waiting);
}

/* ---- stalls and draining --------------------------------------------------------------------- */

/* find_servable() checks each run of items of one shape class once, and at most this many runs. */
#define MAX_SHAPE_RUNS 8

static const struct plugin_item *item_of(const struct sched_host *h, const struct request *req) {
        return plugin_items_at(&h->items, req->ticket);
}

static bool can_fill(const struct sched_host *h, const sched_member *m, uint64_t shape_class) {
        struct queue_walk w = queue_walk_begin(h->queue);
        struct request   *req;
        uint64_t          n_rows = 0;

        while (n_rows < m->lo && (req = queue_walk_next(&w)) != NULL) {
                const struct plugin_item *item = item_of(h, req);

                if (item->view->shape_class == shape_class &&
                    (h->may_split || n_rows + plugin_item_rows(item) <= m->hi))
                        n_rows += plugin_item_rows(item);
        }
        return n_rows >= m->lo;
}

/* True when a free member could run the item in a batch with others of its shape class. A plug-in that
 * leaves such an item waiting has stalled. If the item cannot be served, the plug-in has no choice:
 * there are too few rows of its shape class for the smallest batch of each free member.
 *
 * False may be wrong where requests do not run in parts and only certain combinations of them fill a
 * member. */
static bool can_be_served(const struct sched_host *h, const struct plugin_item *item) {
        for (uint32_t i = 0; i < h->members.n; i++)
                if (plugin_members_is_free(&h->members, i) &&
                    can_fill(h, &h->members.views[i], item->view->shape_class))
                        return true;
        return false;
}

/* Returns the first item that can be served, NULL when there is none. */
static const struct plugin_item *find_servable(const struct sched_host *h) {
        struct queue_walk         w = queue_walk_begin(h->queue);
        const struct plugin_item *seen = NULL;
        struct request           *req;

        for (unsigned n_runs = 0; n_runs < MAX_SHAPE_RUNS && (req = queue_walk_next(&w)) != NULL;) {
                const struct plugin_item *item = item_of(h, req);

                if (seen != NULL && item->view->shape_class == seen->view->shape_class)
                        continue;
                if (can_be_served(h, item))
                        return item;
                seen = item;
                n_runs++;
        }
        return NULL;
}

/* Returns NULL when the queue is empty. */
static struct request *first_waiting(const struct sched_host *h) {
        struct queue_walk w = queue_walk_begin(h->queue);

        return queue_walk_next(&w);
}

static uint64_t earlier_of(uint64_t a_ns, uint64_t b_ns) {
        if (a_ns == 0 || b_ns == 0)
                return a_ns + b_ns;
        return MIN(a_ns, b_ns);
}

/* Called after each call of the plug-in: sets the time of the next event. A stall check that is set
 * keeps its time, so that the timer does not move with each request. */
static void update_due(struct sched_host *h) {
        uint64_t grace_ns = 0;

        if (h->items.n > 0 && h->timer_ns == 0 &&
            plugin_members_have_free(&h->members, h->queue->n_rows)) {
                if (h->stalled_id == 0) {
                        h->stalled_id = plugin_items_at(&h->items, first_waiting(h)->ticket)->id;
                        h->stalled_ns = h->now();
                }
                if (h->watch_ns == 0)
                        h->watch_ns = h->stalled_ns + PLUGIN_STALL_NS;
        } else if (h->timer_ns != 0) {
                h->stalled_id = 0;
        }
        if (h->is_draining && h->items.n > 0)
                grace_ns = h->progress_ns + PLUGIN_GRACE_NS;
        h->base.due_ns = earlier_of(earlier_of(h->timer_ns, h->watch_ns), grace_ns);
}

static void check_stall(struct sched_host *h, uint64_t now_ns) {
        const struct plugin_item *item = plugin_items_find(&h->items, h->stalled_id);

        h->watch_ns = 0;
        if (item == NULL || h->timer_ns != 0 || now_ns < h->stalled_ns + PLUGIN_STALL_NS ||
            !plugin_members_have_free(&h->members, h->queue->n_rows))
                return;
        if (!can_be_served(h, item)) { /* this item must wait, but another one may be stalled */
                item = find_servable(h);
                h->stalled_id = item != NULL ? item->id : 0;
                h->stalled_ns = now_ns;
                return;
        }
        plugin_counters_add(&h->counters, PLUGIN_COUNTER_STALL, 1);
        give_up(h, "has stalled: requests wait, an instance is free, and no timer is armed");
}

static void reject_leftovers(struct sched_host *h, uint64_t now_ns) {
        struct request *req;

        h->progress_ns = now_ns;
        if (plugin_members_are_busy(&h->members) && find_servable(h) == NULL)
                return; /* an execution takes long */
        log_warn("model '%s' version %lld: scheduler '%s' leaves %u requests behind, which are "
                 "refused",
                 h->model->label, (long long)h->model->version, h->place.library, h->items.n);
        while ((req = first_waiting(h)) != NULL) {
                end_item(h, plugin_items_at(&h->items, req->ticket));
                request_queue_remove(h->queue, req);
                policy_refuse(
                        &h->base, req,
                        request_error(req, ERR_UNAVAILABLE,
                                      "the model is unloading, and its scheduler has left the "
                                      "request waiting"));
        }
}

/* ---- operations of the policy ---------------------------------------------------------------- */

static struct dispatch assigned_to(const struct sched_host *h, struct instance *in) {
        struct dispatch d = { .verdict = BATCH_RUN, .on = in, .n_requests = in->n_items };
        uint32_t        member;

        if (plugin_members_find(&h->members, in, &member))
                d.reason = h->members.states[member].reason;
        return d;
}

/* Links the first n requests of the queue, in the form of a batch that a policy assigns. */
static struct request *link_first(struct request_queue *q, uint32_t n) {
        struct queue_walk w = queue_walk_begin(q);
        struct request   *first = NULL, **next = &first;

        while (n-- > 0) {
                *next = queue_walk_next(&w);
                next = &(*next)->queued.next;
        }
        *next = NULL;
        return first;
}

static struct dispatch ask_builtin(struct sched_host *h, const struct sched_view *view,
                                   uint64_t now_ns) {
        struct dispatch  d = h->builtin->ops->decide(h->builtin, view, now_ns);
        struct refusal **end = &h->base.refused;

        if (d.verdict == BATCH_RUN && !h->builtin->assigns_batches)
                d.requests = link_first(view->queue, d.n_requests);
        while (*end != NULL)
                end = &(*end)->next;
        *end = STEAL(h->builtin->refused);
        return d;
}

static struct dispatch decide(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        struct sched_host *h = host_of(p);
        struct instance   *in = policy_find_assigned(p, view);

        if (in != NULL)
                return assigned_to(h, in);
        if (h->is_given_up)
                return ask_builtin(h, view, now_ns);
        return (struct dispatch){ .verdict = BATCH_NOTHING };
}

static void arrived(struct policy *p, const struct sched_view *view, struct request *req) {
        struct sched_host *h = host_of(p);

        if (!h->is_given_up) {
                announce_request(h, req);
                update_due(h);
        } else if (h->builtin->ops->arrived != NULL) {
                h->builtin->ops->arrived(h->builtin, view, req);
        }
}

/* The caller is an engine that has queued the requests together. */
static void arrived_together(struct policy *p, const struct sched_view *view, struct request *first,
                             uint32_t n) {
        struct sched_host *h = host_of(p);

        if (!h->is_given_up) {
                announce_group(h, first, n);
                update_due(h);
                return;
        }
        for (struct request *req = first; req != NULL; req = req->queued.next)
                if (h->builtin->ops->arrived != NULL)
                        h->builtin->ops->arrived(h->builtin, view, req);
}

static struct error *admit(struct policy *p, const struct request *req) {
        struct policy *builtin = host_of(p)->builtin;

        return builtin->ops->admit != NULL ? builtin->ops->admit(builtin, req) : NULL;
}

static void instances_changed(struct policy *p, const struct sched_view *view) {
        struct policy *builtin = host_of(p)->builtin;

        if (builtin->ops->instances_changed != NULL)
                builtin->ops->instances_changed(builtin, view);
}

static void executed(struct policy *p, const struct execution *done) {
        struct sched_host *h = host_of(p);
        uint32_t           member;
        bool               is_member = plugin_members_find(&h->members, done->on, &member);

        if (is_member)
                h->members.states[member].is_busy = false;
        if (h->is_given_up && h->builtin->ops->executed != NULL)
                h->builtin->ops->executed(h->builtin, done);
        if (h->is_given_up || !is_member)
                return;
        h->progress_ns = done->end_ns;
        {
                PLUGIN_CALL(&h->place, "on_member_free");

                h->functions->on_member_free(h->state, member);
        }
        update_due(h);
}

static void withdrawn(struct policy *p, struct request *req) {
        struct sched_host  *h = host_of(p);
        struct plugin_item *item;
        uint64_t            id;

        if (h->is_given_up)
                return;
        item = plugin_items_at(&h->items, req->ticket);
        id = item->id;
        end_item(h, item);
        {
                PLUGIN_CALL(&h->place, "on_cancel");

                h->functions->on_cancel(h->state, id);
        }
        update_due(h);
}

/* The members change: the plug-in is closed, and opened again with the new ones. */
static void close_plugin(struct sched_host *h) {
        if (h->is_given_up)
                return;
        call_fini(h);
        forget_all(h);
}

static void open_again(struct sched_host *h) {
        if (h->is_given_up)
                return;
        if (call_init(h) != 0) {
                give_up(h, "has refused the changed instances of the model in init()");
                return;
        }
        announce_all(h);
        update_due(h);
}

static void instance_joined(struct policy *p, const struct sched_view *view, struct instance *in) {
        struct sched_host *h = host_of(p);
        bool               is_new = !plugin_members_expects(&h->members, in);

        h->queue = view->queue;
        if (is_new)
                close_plugin(h);
        plugin_members_join(&h->members, in);
        if (is_new)
                open_again(h);
}

static void instance_left(struct policy *p, const struct sched_view *view, struct instance *in) {
        struct sched_host *h = host_of(p);
        uint32_t           at;

        (void)view;
        if (!plugin_members_find(&h->members, in, &at))
                return;
        close_plugin(h);
        plugin_members_remove(&h->members, at);
        open_again(h);
}

static void due(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        struct sched_host *h = host_of(p);

        (void)view;
        if (h->timer_ns != 0 && h->timer_ns <= now_ns) {
                PLUGIN_CALL(&h->place, "on_timer");

                h->timer_ns = 0;
                h->functions->on_timer(h->state);
        }
        if (h->watch_ns != 0 && h->watch_ns <= now_ns)
                check_stall(h, now_ns);
        if (h->is_given_up)
                return;
        if (h->is_draining && h->items.n > 0 && h->progress_ns + PLUGIN_GRACE_NS <= now_ns)
                reject_leftovers(h, now_ns);
        update_due(h);
}

static void drain_plugin(struct policy *p, uint64_t now_ns) {
        struct sched_host *h = host_of(p);

        if (h->is_given_up && h->builtin->ops->drain != NULL)
                h->builtin->ops->drain(h->builtin, now_ns);
        if (h->is_given_up || h->is_draining)
                return;
        h->is_draining = true;
        h->progress_ns = now_ns;
        {
                PLUGIN_CALL(&h->place, "on_drain");

                h->functions->on_drain(h->state);
        }
        update_due(h);
}

static void free_plugin(struct policy *p) {
        struct sched_host *h = host_of(p);

        call_fini(h);
        dl_close(h->library);
        policy_free(h->builtin);
        plugin_counters_done(&h->counters);
        plugin_items_done(&h->items);
        plugin_members_done(&h->members);
        batching_config_done(&h->batching);
        free(h->config_json);
        free(h);
}

static const struct policy_ops plugin_ops = {
        .decide = decide,
        .arrived = arrived,
        .arrived_together = arrived_together,
        .executed = executed,
        .admit = admit,
        .instances_changed = instances_changed,
        .withdrawn = withdrawn,
        .instance_joined = instance_joined,
        .instance_left = instance_left,
        .due = due,
        .drain = drain_plugin,
        .free = free_plugin,
};

struct error *policy_plugin_new(const struct policy_plugin_options *o, struct policy **ret) {
        struct sched_host *h = mem_zalloc(sizeof(*h));
        struct error      *err;
        int                code = 0;

        h->base = (struct policy){ .ops = &plugin_ops,
                                   .limits = &h->batching,
                                   .assigns_batches = true,
                                   .has_members = o->builtin->has_members };
        h->batching = *o->batching;
        *o->batching = (struct batching_config){ 0 };
        h->builtin = o->builtin;
        h->model = o->model;
        h->library = o->library;
        h->place = (struct plugin_place){ o->library != NULL ? dl_path(o->library) : "built in",
                                          o->model->name, o->model->version };
        h->functions = o->functions;
        h->config_json = mem_strdup(o->init->config_json);
        h->max_batch = o->init->max_batch;
        h->now = o->now != NULL ? o->now : clock_now_ns;
        h->may_split = o->may_split;
        plugin_members_init(&h->members, o->executors, o->n_executors);
        h->members.is_exclusive = o->is_exclusive;
        plugin_counters_init(&h->counters, o->metrics, o->model);
        err = siphash_key_make(&h->key);
        if (err == NULL)
                code = call_init(h);
        if (code != 0)
                err = error_new(ERR_INVALID_ARG,
                                "scheduler library '%s' refused the model: init() "
                                "returned %d (%s)",
                                h->place.library, code, strerror(code));
        if (err != NULL) {
                free_plugin(&h->base);
                return err;
        }
        *ret = &h->base;
        return NULL;
}
