/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in scheduler whose calls are recorded, and whose host functions a test calls, on a clock of the
 * test and without an engine: the test pushes requests, starts and ends executions, and advances time.
 *
 * In each call of the plug-in, the lab calls the test's `act` with the host. `act` may dispatch.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/clock.h"
#include "config/batching_config.h"
#include "infer/executor.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "infer/request_split.h"
#include "sched/instance.h"
#include "sched/request_queue.h"
#include "sched_plugin/policy_plugin.h"

#include <errno.h>
#include <stdio.h>

#define PLUGIN_START_NS (10 * NS_PER_S)
#define PLUGIN_MAX_ITEMS 64
#define PLUGIN_MAX_MEMBERS 4

struct plugin_lab;
typedef void (*plugin_act_fn)(struct plugin_lab *lab);

struct plugin_lab {
        struct fake_model   *fake;
        struct policy       *policy;
        struct request_queue queue;
        struct list          idle;
        struct executor      executors[PLUGIN_MAX_MEMBERS];
        struct instance      instances[PLUGIN_MAX_MEMBERS];
        struct instance     *pointers[PLUGIN_MAX_MEMBERS];
        unsigned             n_instances;
        enum dispatch_reason reason;  /* of the last batch that began */
        unsigned             n_ended; /* number of requests */

        /* State of the plug-in. */
        sched_host           *host;
        const sched_host_ops *ops;
        plugin_act_fn         act;         /* NULL: the plug-in does nothing */
        char                  calls[2048]; /* "init 2; enqueue a; free 0; " */
        size_t                calls_len;
        sched_item            items[PLUGIN_MAX_ITEMS]; /* in the order of announcement */
        unsigned              n_items;
        int                   init_code;
        uint64_t              cancelled;  /* the last cancelled id */
        const sched_item     *last_items; /* address of the items of the last on_enqueue() */
        bool                  may_split, is_exclusive;
        struct policy        *builtin; /* NULL: the policy of models that do not batch */
};

static uint64_t           plugin_now_ns;
static struct plugin_lab *plugin_lab_now; /* init() has no other way to find it */

static inline uint64_t plugin_now(void) {
        return plugin_now_ns;
}

static inline void plugin_write(struct plugin_lab *lab, const char *what, int number) {
        lab->calls_len +=
                (size_t)snprintf(lab->calls + lab->calls_len, sizeof(lab->calls) - lab->calls_len,
                                 number < 0 ? "%s; " : "%s %d; ", what, number);
        assert_true(lab->calls_len < sizeof(lab->calls));
}

static inline void plugin_note(struct plugin_lab *lab, const char *what, int number) {
        plugin_write(lab, what, number);
        if (lab->act != NULL)
                lab->act(lab);
}

static inline int plugin_init(void **st, sched_host *host, const sched_host_ops *ops,
                              const char *config_json, const sched_member *members,
                              uint32_t n_members, uint32_t max_batch) {
        struct plugin_lab *lab = plugin_lab_now;

        (void)config_json;
        (void)max_batch;
        lab->host = host;
        lab->ops = ops;
        for (uint32_t i = 0; i < n_members; i++)
                assert_int_equal(members[i].id, i);
        *st = lab;
        plugin_note(lab, "init", (int)n_members);
        return lab->init_code;
}

static inline void plugin_on_enqueue(void *st, const sched_item *items, uint32_t n) {
        struct plugin_lab *lab = st;

        assert_true(n > 0 && lab->n_items + n <= PLUGIN_MAX_ITEMS);
        if (n > 1)
                plugin_write(lab, "group", (int)n);
        for (uint32_t i = 0; i < n; i++) {
                lab->items[lab->n_items++] = items[i];
                plugin_write(lab, "enqueue", (int)items[i].rows);
        }
        lab->last_items = items;
        if (lab->act != NULL)
                lab->act(lab);
}

static inline void plugin_on_member_free(void *st, uint32_t member) {
        plugin_note(st, "free", (int)member);
}

static inline void plugin_on_timer(void *st) {
        plugin_note(st, "timer", -1);
}

static inline void plugin_on_cancel(void *st, uint64_t id) {
        ((struct plugin_lab *)st)->cancelled = id;
        plugin_note(st, "cancel", -1);
}

static inline void plugin_on_drain(void *st) {
        plugin_note(st, "drain", -1);
}

static inline void plugin_fini(void *st) {
        plugin_note(st, "fini", -1);
}

static const sched_vtbl plugin_functions = {
        .init = plugin_init,
        .on_enqueue = plugin_on_enqueue,
        .on_member_free = plugin_on_member_free,
        .on_timer = plugin_on_timer,
        .on_cancel = plugin_on_cancel,
        .on_drain = plugin_on_drain,
        .fini = plugin_fini,
};

static inline struct sched_view plugin_view(struct plugin_lab *lab) {
        for (unsigned i = 0; i < PLUGIN_MAX_MEMBERS; i++)
                lab->pointers[i] = &lab->instances[i];
        return (struct sched_view){ .queue = &lab->queue,
                                    .idle = &lab->idle,
                                    .instances = lab->pointers,
                                    .n_instances = lab->n_instances };
}

static inline struct error *plugin_lab_make(struct plugin_lab *lab) {
        struct batching_config   batching;
        struct executor         *executors[PLUGIN_MAX_MEMBERS];
        const struct plugin_init init = { .config_json = "{}", .max_batch = 8 };
        struct policy           *builtin = STEAL(lab->builtin);

        if (builtin == NULL)
                builtin = policy_single_new();
        for (unsigned i = 0; i < lab->n_instances; i++)
                executors[i] = &lab->executors[i];
        assert_ok(batching_config_init(&batching, lab->fake->model.config), "batching");
        return policy_plugin_new(&(struct policy_plugin_options){ .model = &lab->fake->model,
                                                                  .executors = executors,
                                                                  .n_executors = lab->n_instances,
                                                                  .batching = &batching,
                                                                  .builtin = builtin,
                                                                  .metrics = lab->fake->registry,
                                                                  .functions = &plugin_functions,
                                                                  .now = plugin_now,
                                                                  .may_split = lab->may_split,
                                                                  .is_exclusive = lab->is_exclusive,
                                                                  .init = &init },
                                 &lab->policy);
}

static inline void plugin_join(struct plugin_lab *lab, unsigned i) {
        struct sched_view view = plugin_view(lab);

        lab->instances[i] = (struct instance){ .executor = &lab->executors[i] };
        list_append(&lab->idle, &lab->instances[i].idle_node);
        lab->policy->ops->instance_joined(lab->policy, &view, &lab->instances[i]);
}

static inline void plugin_lab_prepare(struct plugin_lab *lab, const char *config,
                                      unsigned n_instances) {
        *lab = (struct plugin_lab){ .n_instances = n_instances };
        plugin_lab_now = lab;
        plugin_now_ns = PLUGIN_START_NS;
        lab->fake = fake_model_new(config);
        lab->fake->model.label = "m";
        list_init(&lab->idle);
        for (unsigned i = 0; i < PLUGIN_MAX_MEMBERS; i++)
                lab->executors[i] =
                        (struct executor){ .name = "g_0", .min_rows = 1, .max_rows = 4 };
}

static inline void plugin_lab_begin(struct plugin_lab *lab) {
        unsigned n_instances = lab->n_instances;

        assert_ok(plugin_lab_make(lab), "policy");
        request_queue_init(&lab->queue, lab->policy->limits);
        for (unsigned i = 0; i < n_instances; i++)
                plugin_join(lab, i);
}

/* Member i takes 1 to 4 rows. */
static inline void plugin_lab_open(struct plugin_lab *lab, const char *config,
                                   unsigned n_instances) {
        plugin_lab_prepare(lab, config, n_instances);
        plugin_lab_begin(lab);
}

static inline void plugin_lab_close(struct plugin_lab *lab) {
        struct request *req;

        lab->act = NULL;
        while ((req = request_queue_take(&lab->queue, lab->queue.n_waiting > 0)) != NULL)
                request_free(req);
        assert_null(lab->policy->refused);
        policy_free(lab->policy);
        for (unsigned i = 0; i < PLUGIN_MAX_MEMBERS; i++)
                free(lab->instances[i].items);
        request_queue_done(&lab->queue);
        fake_model_free(lab->fake);
}

static inline void plugin_on_response(struct response *response, uint32_t flags, void *userp) {
        (void)flags;
        (void)userp;
        response_free(response);
}

static inline void plugin_on_release(struct request *req, uint32_t flags, void *userp) {
        struct plugin_lab *lab = userp;

        (void)flags;
        lab->n_ended++;
        request_free(req);
}

/* Queues a request without telling the policy. Rows of another width have another shape class. */
static inline struct request *plugin_queue(struct plugin_lab *lab, uint64_t rows, int64_t width) {
        struct request *req = fake_request(lab->fake);

        add_zeroed_input(req, "X", DATA_TYPE_FP32, (int64_t[]){ (int64_t)rows, width }, 2);
        assert_ok(request_prepare(req), "prepare");
        req->on_response = plugin_on_response;
        req->on_release = plugin_on_release;
        req->on_release_userp = lab;
        req->times.queue_start_ns = plugin_now_ns;
        assert_ok(request_queue_push(&lab->queue, req, plugin_now_ns), "push");
        return req;
}

static inline struct request *plugin_push_wide(struct plugin_lab *lab, uint64_t rows,
                                               int64_t width) {
        struct request   *req = plugin_queue(lab, rows, width);
        struct sched_view view = plugin_view(lab);

        lab->policy->ops->arrived(lab->policy, &view, req);
        return req;
}

static inline struct request *plugin_push(struct plugin_lab *lab, uint64_t rows) {
        return plugin_push_wide(lab, rows, 1);
}

/* Submits n requests of one row each together. */
static inline void plugin_push_group(struct plugin_lab *lab, uint32_t n) {
        struct sched_view view = plugin_view(lab);
        struct request   *first = NULL, **end = &first;

        for (uint32_t i = 0; i < n; i++) {
                *end = plugin_queue(lab, 1, 1);
                end = &(*end)->queued.next;
        }
        *end = NULL;
        lab->policy->ops->arrived_together(lab->policy, &view, first, n);
}

/* Does what the engine's pump does. */
static inline void plugin_pass(struct plugin_lab *lab, uint64_t ns) {
        struct sched_view view = plugin_view(lab);

        plugin_now_ns += ns;
        for (struct request *req = request_queue_expire(&lab->queue, plugin_now_ns), *next;
             req != NULL; req = next) {
                next = req->queued.next;
                lab->policy->ops->withdrawn(lab->policy, req);
                request_free(req);
        }
        if (lab->policy->due_ns != 0 && lab->policy->due_ns <= plugin_now_ns)
                lab->policy->ops->due(lab->policy, &view, plugin_now_ns);
}

static inline void plugin_cancel(struct plugin_lab *lab, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");

        assert_true(request_queue_remove(&lab->queue, req));
        lab->policy->ops->withdrawn(lab->policy, req);
        if (req->is_split)
                request_split_give_up(req, &cancelled, FAILURE_CANCELED);
        else
                request_refuse(req, &cancelled, FAILURE_CANCELED);
}

/* Ends a request, or a part of one, with an error. */
static inline void plugin_end_item(const struct batch_item *item) {
        static const struct error ended = ERROR_STATIC(ERR_INTERNAL, "the test ends it");
        struct request           *req = item->request;

        if (req == NULL)
                assert_non_null(req = split_part_make(item->part));
        request_refuse(req, &ended, FAILURE_BACKEND);
}

/* Asks as the engine does. Returns the rows that begin, and sets their instance; 0: nothing. Each
 * request ends at once. */
static inline unsigned plugin_begin(struct plugin_lab *lab, unsigned *ret_instance) {
        struct sched_view view = plugin_view(lab);
        struct dispatch   d = lab->policy->ops->decide(lab->policy, &view, plugin_now_ns);

        if (d.verdict != BATCH_RUN)
                return 0;
        if (d.on->state == INSTANCE_ASSIGNED)
                policy_take_assigned(lab->policy, d.on);
        else
                instance_take(d.on, &lab->queue, &d);
        lab->reason = d.reason;
        instance_set_state_locked(d.on, INSTANCE_RUNNING);
        list_remove(&d.on->idle_node);
        for (uint32_t i = 0; i < d.on->n_items; i++)
                plugin_end_item(&d.on->items[i]);
        *ret_instance = (unsigned)(d.on - lab->instances);
        return (unsigned)d.on->rows;
}

static inline void plugin_end(struct plugin_lab *lab, unsigned i) {
        instance_set_state_locked(&lab->instances[i], INSTANCE_FREE);
        lab->policy->ops->executed(lab->policy, &(struct execution){ .on = &lab->instances[i],
                                                                     .end_ns = plugin_now_ns });
        list_append(&lab->idle, &lab->instances[i].idle_node);
}

/* Returns how many requests were refused with this text. */
static inline unsigned plugin_take_refused(struct plugin_lab *lab, const char *text) {
        unsigned n = 0;

        for (struct refusal *r = STEAL(lab->policy->refused), *next; r != NULL; r = next) {
                next = r->next;
                assert_string_equal(r->why->message, text);
                if (r->req->is_split)
                        request_split_give_up(r->req, r->why, FAILURE_REJECTED);
                else
                        request_refuse(r->req, r->why, FAILURE_REJECTED);
                error_free(r->why);
                free(r);
                n++;
        }
        return n;
}

static inline double plugin_counted(struct plugin_lab *lab, const char *name) {
        AUTO_STRBUF page = { 0 };
        char        sample[128];
        const char *at;

        strbuf_init(&page, 0);
        snprintf(sample, sizeof(sample), "\nneso_scheduler_%s{model=\"m\",version=\"1\"} ", name);
        metric_registry_print(lab->fake->registry, &page);
        at = strstr(strbuf_cstr(&page), sample);
        assert_non_null(at);
        return strtod(at + strlen(sample), NULL);
}
