/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/policy_plugin.h"

#include <errno.h>
#include <string.h>

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
#include "sched/plugin_counters.h"
#include "sched/plugin_items.h"

/* Of a member: the instance, once it has joined, and whether it has a batch. */
struct place {
        const struct executor *executor; /* borrowed */
        struct instance       *in;       /* borrowed; NULL: not yet */
        bool                   is_busy;
};

struct sched_host {
        struct policy          base;
        struct batching_config batching;
        struct policy         *builtin;     /* owned */
        const struct model    *model;       /* borrowed */
        struct dl             *library;     /* owned; may be NULL */
        char                  *config_json; /* owned */
        uint32_t               max_batch;
        struct plugin_place    place;
        const sched_vtbl      *functions; /* the library's */
        void                  *state;     /* the plug-in's */
        bool                   is_open;   /* between init() and fini() */
        bool                   is_given_up;
        struct plugin_counters counters;
        uint32_t               errors_logged; /* a bit for each kind */
        uint64_t (*now)(void);

        struct request_queue *queue; /* borrowed: the engine's, once an instance has joined */
        struct siphash_key    key;   /* of shape classes */
        struct plugin_items   items;
        uint64_t              n_calls; /* of dispatch: marks the items it names */
        sched_member         *members; /* owned, and their names */
        struct place         *places;  /* owned; of each member */
        uint32_t              n_members;

        uint64_t timer_ns;   /* the plug-in's; 0: not armed */
        uint64_t stalled_id; /* an item that was left waiting though a member was free; 0: none */
        uint64_t stalled_ns; /* since when */
        uint64_t watch_ns;   /* when to look at it again; 0: not */
        bool     is_draining;
        uint64_t progress_ns; /* while draining: of the last dispatch or completion */
};

static struct sched_host *host_of(struct policy *p) {
        return CONTAINER_OF(p, struct sched_host, base);
}

/* ---- members --------------------------------------------------------------------------------- */

/* "b4_0" is the first instance of the group "b4". */
static char *group_name(const struct executor *e) {
        AUTO_CHARS  suffix = mem_printf("_%u", e->index);
        const char *name = e->name != NULL ? e->name : "";
        struct str  whole = str_of(name);

        return str_ends(whole, str_of(suffix)) ? mem_strndup(name, whole.len - strlen(suffix))
                                               : mem_strdup(name);
}

static sched_member member_of(const struct executor *e, uint32_t id) {
        return (sched_member){ .id = id,
                               .virtual_index = e->index,
                               .lo = MAX(e->min_rows, 1u),
                               .hi = MAX(e->max_rows, 1u),
                               .name = group_name(e) };
}

sched_member *policy_plugin_members(struct executor *const *executors, uint32_t n_executors,
                                    uint32_t *ret_n) {
        sched_member *members = mem_zalloc((n_executors + 1) * sizeof(*members));
        uint32_t      n = 0;

        for (uint32_t i = 0; i < n_executors; i++)
                if (!executors[i]->is_passive) {
                        members[n] = member_of(executors[i], n);
                        n++;
                }
        *ret_n = n;
        return members;
}

void policy_plugin_members_free(sched_member *members, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                free((char *)(uintptr_t)members[i].name);
        free(members);
}

static void add_member(struct sched_host *h, const struct executor *e) {
        uint32_t at = h->n_members++;

        h->members = mem_realloc(h->members, h->n_members * sizeof(*h->members));
        h->places = mem_realloc(h->places, h->n_members * sizeof(*h->places));
        h->members[at] = member_of(e, at);
        h->places[at] = (struct place){ .executor = e };
}

static void remove_member(struct sched_host *h, uint32_t at) {
        free((char *)(uintptr_t)h->members[at].name);
        h->n_members--;
        for (uint32_t i = at; i < h->n_members; i++) {
                h->members[i] = h->members[i + 1];
                h->members[i].id = i;
                h->places[i] = h->places[i + 1];
                if (h->places[i].in != NULL)
                        h->places[i].in->place = i;
        }
}

/* The member's number; false for one that has left. */
static bool find_member(const struct sched_host *h, const struct instance *in, uint32_t *ret) {
        *ret = in->place;
        return in->place < h->n_members && h->places[in->place].in == in;
}

/* Is there one that could take a batch of what waits? */
static bool has_free_member(const struct sched_host *h) {
        for (uint32_t i = 0; i < h->n_members; i++)
                if (h->places[i].in != NULL && !h->places[i].is_busy &&
                    h->members[i].lo <= h->queue->n_rows)
                        return true;
        return false;
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
        { ERANGE, "the rows are not in the member's range" },
        { EXDEV, "the items are of different shape classes" },
        { EINVAL, "an argument is not valid" },
        { ENOTSUP, "requests of this model cannot be split" },
};

/* Counts it; the first one of each kind is worth a line. */
static int refuse_call(struct sched_host *h, const char *function, int code) {
        if (code == ECANCELED)
                return code; /* the plug-in could not know */
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

/* Is it in a call of the plug-in, on this thread? */
static bool is_called(const struct sched_host *h) {
        return plugin_call_now.place == &h->place && h->is_open && !h->is_given_up;
}

/* ---- what the plug-in asks for --------------------------------------------------------------- */

static void end_item(struct sched_host *h, struct plugin_item *item) {
        if (item->view.id == h->stalled_id)
                h->stalled_id = 0;
        plugin_items_remove(&h->items, item);
}

/* Several that time out leave the queue together, and on_cancel() comes for one after the other: in the
 * first of these calls the others are known still. */
static int find_waiting(const struct sched_host *h, uint64_t id, struct plugin_item **ret) {
        *ret = plugin_items_find(&h->items, id);
        if (*ret == NULL)
                return ENOENT;
        return list_is_linked(&(*ret)->req->queued.node) ? 0 : ECANCELED;
}

static int check_batch(struct sched_host *h, uint32_t member, const uint64_t *ids, uint32_t n) {
        const struct plugin_item *first = NULL;
        uint64_t                  rows = 0;

        if (ids == NULL || n == 0)
                return EINVAL;
        if (member >= h->n_members)
                return ENODEV;
        if (h->places[member].is_busy || h->places[member].in == NULL)
                return EBUSY;
        h->n_calls++;
        for (uint32_t i = 0; i < n; i++) {
                struct plugin_item *item;
                int                 code = find_waiting(h, ids[i], &item);

                if (code != 0)
                        return code;
                if (item->mark == h->n_calls)
                        return EALREADY;
                item->mark = h->n_calls;
                if (first == NULL)
                        first = item;
                if (item->view.shape_class != first->view.shape_class)
                        return EXDEV;
                rows += item->view.rows;
        }
        return rows < h->members[member].lo || rows > h->members[member].hi ? ERANGE : 0;
}

/* Out of the queue, in the order of the ids. */
static void run_batch(struct sched_host *h, uint32_t member, const uint64_t *ids, uint32_t n) {
        struct request  *batch = NULL;
        struct request **next = &batch;

        for (uint32_t i = 0; i < n; i++) {
                struct plugin_item *item = plugin_items_find(&h->items, ids[i]);
                struct request     *req = item->req;

                end_item(h, item);
                request_queue_remove(h->queue, req);
                req->queued.next = NULL;
                *next = req;
                next = &req->queued.next;
        }
        h->places[member].is_busy = true;
        policy_assign(&h->base, h->places[member].in, batch, n);
        if (h->is_draining)
                h->progress_ns = h->now();
}

static int on_dispatch(sched_host *h, uint32_t member, const uint64_t *ids, uint32_t n) {
        int code;

        if (!is_called(h))
                return EPERM;
        code = check_batch(h, member, ids, n);
        if (UNLIKELY(code != 0))
                return refuse_call(h, "dispatch", code);
        run_batch(h, member, ids, n);
        return 0;
}

/* Whole items only: of these it is the same. */
static int check_rows(struct sched_host *h, uint32_t member, const uint64_t *ids,
                      const uint32_t *first, const uint32_t *count, uint32_t n) {
        bool has_parts = false;

        if (first == NULL || count == NULL || ids == NULL)
                return EINVAL;
        for (uint32_t i = 0; i < n; i++) {
                const struct plugin_item *item = plugin_items_find(&h->items, ids[i]);

                if (item == NULL)
                        return ENOENT;
                if (count[i] == 0 || first[i] > item->view.rows ||
                    count[i] > item->view.rows - first[i])
                        return ERANGE;
                has_parts |= count[i] != item->view.rows;
        }
        return has_parts ? ENOTSUP : check_batch(h, member, ids, n);
}

static int on_dispatch_rows(sched_host *h, uint32_t member, const uint64_t *ids,
                            const uint32_t *first, const uint32_t *count, uint32_t n) {
        int code;

        if (!is_called(h))
                return EPERM;
        code = check_rows(h, member, ids, first, count, n);
        if (UNLIKELY(code != 0))
                return refuse_call(h, "dispatch_rows", code);
        run_batch(h, member, ids, n);
        return 0;
}

static int on_reject(sched_host *h, uint64_t id, int code, const char *msg) {
        struct plugin_item *item;
        struct request     *req;
        int                 refused;

        if (!is_called(h))
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
        if (is_called(h))
                h->timer_ns = at_ns;
}

static void on_log(sched_host *h, int level, const char *msg) {
        if (!is_called(h) || level < LOG_INFO || level > LOG_VERBOSE || msg == NULL ||
            !log_is_enabled((enum log_level)level))
                return;
        log_printf((enum log_level)level, __FILE__, __LINE__, "model '%s' version %lld: %s",
                   h->model->label, (long long)h->model->version, msg);
}

static void on_count(sched_host *h, const char *metric, double add) {
        if (is_called(h) && !plugin_counters_add(&h->counters, metric, add))
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

/* ---- the plug-in's life ---------------------------------------------------------------------- */

static int call_init(struct sched_host *h) {
        int code;
        PLUGIN_CALL(&h->place, "init");

        h->timer_ns = 0;
        for (uint32_t i = 0; i < h->n_members; i++)
                h->members[i].is_busy = h->places[i].is_busy;
        h->is_open = true;
        code = h->functions->init(&h->state, h, &host_ops, h->config_json, h->members, h->n_members,
                                  h->max_batch);
        h->is_open = code == 0;
        return code;
}

/* What it asks for meanwhile is refused. */
static void call_fini(struct sched_host *h) {
        PLUGIN_CALL(&h->place, "fini");

        if (!h->is_open)
                return;
        h->is_open = false;
        h->functions->fini(h->state);
}

/* It knows nothing any more of what waits. */
static void forget_all(struct sched_host *h) {
        plugin_items_clear(&h->items);
        h->stalled_id = 0;
}

/* Not in a call of the plug-in. */
static void give_up(struct sched_host *h, const char *why) {
        log_error("model '%s' version %lld: scheduler '%s' %s; the built-in scheduler serves the "
                  "model from now on",
                  h->model->label, (long long)h->model->version, h->place.library, why);
        h->is_given_up = true;
        h->base.due_ns = 0;
        call_fini(h);
        forget_all(h);
}

static uint32_t priority_of(const struct request *req) {
        return (uint32_t)MIN(req->queued.level, UINT32_MAX);
}

/* 0 when its time does not end it. */
static uint64_t deadline_of(const struct sched_host *h, const struct request *req) {
        if (req->queued.due.due_ns == CLOCK_NEVER ||
            queue_policy_for_level(&h->batching, req->queued.level)->action != QUEUE_TIMEOUT_REJECT)
                return 0;
        return req->queued.due.due_ns;
}

static void announce(struct sched_host *h, struct request *req) {
        struct plugin_item *item = plugin_items_add(&h->items);

        if (item == NULL) {
                request_queue_remove(h->queue, req);
                policy_refuse(&h->base, req, error_new(ERR_UNAVAILABLE, "out of memory"));
                return;
        }
        item->req = req;
        item->view.rows = (uint32_t)MAX(req->batch_size, 1u);
        item->view.priority = priority_of(req);
        item->view.arrival_ns = req->times.queue_start_ns;
        item->view.deadline_ns = deadline_of(h, req);
        if (h->model->needs_equal_shapes)
                item->view.shape_class = request_shape_class(req, &h->key);
        req->ticket = item->place;
        {
                PLUGIN_CALL(&h->place, "on_enqueue");

                h->functions->on_enqueue(h->state, &item->view, 1);
        }
}

/* Calls that announce may take any of them out of the queue. */
static void announce_all(struct sched_host *h) {
        uint64_t          n = h->queue->n_waiting;
        struct request  **waiting = mem_alloc((size_t)MAX(n, 1u) * sizeof(struct request *));
        struct queue_walk w = queue_walk_begin(h->queue);

        for (uint64_t i = 0; i < n; i++)
                waiting[i] = queue_walk_next(&w);
        for (uint64_t i = 0; i < n; i++)
                announce(h, waiting[i]);
        free(waiting);
}

/* ---- stalls and the end ---------------------------------------------------------------------- */

/* NULL: none. */
static struct request *first_waiting(const struct sched_host *h) {
        struct queue_walk w = queue_walk_begin(h->queue);

        return queue_walk_next(&w);
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns) {
        if (a_ns == 0 || b_ns == 0)
                return a_ns + b_ns;
        return MIN(a_ns, b_ns);
}

/* After each call of the plug-in: what is there to look at later? A watch that was set stays where it
 * is, so that the timer does not move with each request. */
static void settle(struct sched_host *h) {
        uint64_t grace_ns = 0;

        if (h->items.n > 0 && h->timer_ns == 0 && has_free_member(h)) {
                if (h->stalled_id == 0) {
                        h->stalled_id =
                                plugin_items_at(&h->items, first_waiting(h)->ticket)->view.id;
                        h->stalled_ns = h->now();
                }
                if (h->watch_ns == 0)
                        h->watch_ns = h->stalled_ns + PLUGIN_STALL_NS;
        } else if (h->timer_ns != 0) {
                h->stalled_id = 0;
        }
        if (h->is_draining && h->items.n > 0)
                grace_ns = h->progress_ns + PLUGIN_GRACE_NS;
        h->base.due_ns = sooner(sooner(h->timer_ns, h->watch_ns), grace_ns);
}

static void check_stall(struct sched_host *h, uint64_t now_ns) {
        h->watch_ns = 0;
        if (h->stalled_id == 0 || h->timer_ns != 0 || !has_free_member(h) ||
            now_ns < h->stalled_ns + PLUGIN_STALL_NS)
                return;
        plugin_counters_add(&h->counters, PLUGIN_COUNTER_STALL, 1);
        give_up(h, "has stalled: requests wait, an instance is free, and no timer is armed");
}

static void reject_leftovers(struct sched_host *h, uint64_t now_ns) {
        struct request *req;

        h->progress_ns = now_ns;
        if (!has_free_member(h))
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

/* ---- the policy ------------------------------------------------------------------------------ */

static struct dispatch decide(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        struct sched_host *h = host_of(p);
        struct instance   *in = policy_find_assigned(p, view);

        if (in != NULL)
                return (struct dispatch){ .verdict = BATCH_RUN,
                                          .on = in,
                                          .n_requests = in->n_assigned };
        if (h->is_given_up)
                return h->builtin->ops->decide(h->builtin, view, now_ns);
        return (struct dispatch){ .verdict = BATCH_NOTHING };
}

static void arrived(struct policy *p, const struct sched_view *view, struct request *req) {
        struct sched_host *h = host_of(p);

        if (!h->is_given_up) {
                announce(h, req);
                settle(h);
        } else if (h->builtin->ops->arrived != NULL) {
                h->builtin->ops->arrived(h->builtin, view, req);
        }
}

static void executed(struct policy *p, const struct execution *done) {
        struct sched_host *h = host_of(p);
        uint32_t           member;
        bool               is_member = find_member(h, done->on, &member);

        if (is_member)
                h->places[member].is_busy = false;
        if (h->is_given_up && h->builtin->ops->executed != NULL)
                h->builtin->ops->executed(h->builtin, done);
        if (h->is_given_up || !is_member)
                return;
        h->progress_ns = done->end_ns;
        {
                PLUGIN_CALL(&h->place, "on_member_free");

                h->functions->on_member_free(h->state, member);
        }
        settle(h);
}

static void gone(struct policy *p, struct request *req) {
        struct sched_host  *h = host_of(p);
        struct plugin_item *item;
        uint64_t            id;

        if (h->is_given_up)
                return;
        item = plugin_items_at(&h->items, req->ticket);
        id = item->view.id;
        end_item(h, item);
        {
                PLUGIN_CALL(&h->place, "on_cancel");

                h->functions->on_cancel(h->state, id);
        }
        settle(h);
}

/* Its members become others: it ends, and begins anew. */
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
        settle(h);
}

static void joined(struct policy *p, const struct sched_view *view, struct instance *in) {
        struct sched_host *h = host_of(p);
        uint32_t           at = 0;
        bool               is_new;

        h->queue = view->queue;
        while (at < h->n_members &&
               (h->places[at].executor != in->executor || h->places[at].in != NULL))
                at++;
        is_new = at == h->n_members;
        if (is_new) {
                close_plugin(h);
                add_member(h, in->executor);
        }
        h->places[at].in = in;
        in->place = at;
        if (is_new)
                open_again(h);
}

static void left(struct policy *p, const struct sched_view *view, struct instance *in) {
        struct sched_host *h = host_of(p);
        uint32_t           at;

        (void)view;
        if (!find_member(h, in, &at))
                return;
        close_plugin(h);
        remove_member(h, at);
        in->place = UINT32_MAX;
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
        settle(h);
}

static void drain(struct policy *p, uint64_t now_ns) {
        struct sched_host *h = host_of(p);

        if (h->is_given_up || h->is_draining)
                return;
        h->is_draining = true;
        h->progress_ns = now_ns;
        {
                PLUGIN_CALL(&h->place, "on_drain");

                h->functions->on_drain(h->state);
        }
        settle(h);
}

static void free_plugin(struct policy *p) {
        struct sched_host *h = host_of(p);

        call_fini(h);
        dl_close(h->library);
        policy_free(h->builtin);
        plugin_counters_done(&h->counters);
        plugin_items_done(&h->items);
        policy_plugin_members_free(h->members, h->n_members);
        free(h->places);
        batching_config_done(&h->batching);
        free(h->config_json);
        free(h);
}

static const struct policy_ops plugin_ops = {
        .decide = decide,
        .arrived = arrived,
        .executed = executed,
        .gone = gone,
        .joined = joined,
        .left = left,
        .due = due,
        .drain = drain,
        .free = free_plugin,
};

struct error *policy_plugin_new(const struct policy_plugin_options *o, struct policy **ret) {
        struct sched_host *h = mem_zalloc(sizeof(*h));
        struct error      *err;
        int                code = 0;

        h->base = (struct policy){ .ops = &plugin_ops, .limits = &h->batching };
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
        for (uint32_t i = 0; i < o->n_executors; i++)
                if (!o->executors[i]->is_passive)
                        add_member(h, o->executors[i]);
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
