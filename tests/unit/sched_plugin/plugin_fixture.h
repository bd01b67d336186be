/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in scheduler whose calls are recorded, and whose host functions a test calls, on a clock of the
 * test and without an engine: the test pushes requests, starts and ends executions, and advances time.
 *
 * In each call of the plug-in, the fixture calls the test's `act` with the host. `act` may dispatch.
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

struct plugin_fixture;
typedef void (*plugin_act_fn)(struct plugin_fixture *fixture);

struct plugin_fixture {
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

static uint64_t               plugin_now_ns;
static struct plugin_fixture *plugin_fixture_now; /* init() has no other way to find it */

static inline uint64_t plugin_now(void) {
        return plugin_now_ns;
}

static inline void plugin_write(struct plugin_fixture *fixture, const char *what, int number) {
        fixture->calls_len += (size_t)snprintf(fixture->calls + fixture->calls_len,
                                               sizeof(fixture->calls) - fixture->calls_len,
                                               number < 0 ? "%s; " : "%s %d; ", what, number);
        assert_true(fixture->calls_len < sizeof(fixture->calls));
}

static inline void plugin_note(struct plugin_fixture *fixture, const char *what, int number) {
        plugin_write(fixture, what, number);
        if (fixture->act != NULL)
                fixture->act(fixture);
}

static inline int plugin_init(void **st, sched_host *host, const sched_host_ops *ops,
                              const char *config_json, const sched_member *members,
                              uint32_t n_members, uint32_t max_batch) {
        struct plugin_fixture *fixture = plugin_fixture_now;

        (void)config_json;
        (void)max_batch;
        fixture->host = host;
        fixture->ops = ops;
        for (uint32_t i = 0; i < n_members; i++)
                assert_int_equal(members[i].id, i);
        *st = fixture;
        plugin_note(fixture, "init", (int)n_members);
        return fixture->init_code;
}

static inline void plugin_on_enqueue(void *st, const sched_item *items, uint32_t n) {
        struct plugin_fixture *fixture = st;

        assert_true(n > 0 && fixture->n_items + n <= PLUGIN_MAX_ITEMS);
        if (n > 1)
                plugin_write(fixture, "group", (int)n);
        for (uint32_t i = 0; i < n; i++) {
                fixture->items[fixture->n_items++] = items[i];
                plugin_write(fixture, "enqueue", (int)items[i].rows);
        }
        fixture->last_items = items;
        if (fixture->act != NULL)
                fixture->act(fixture);
}

static inline void plugin_on_member_free(void *st, uint32_t member) {
        plugin_note(st, "free", (int)member);
}

static inline void plugin_on_timer(void *st) {
        plugin_note(st, "timer", -1);
}

static inline void plugin_on_cancel(void *st, uint64_t id) {
        ((struct plugin_fixture *)st)->cancelled = id;
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

static inline struct sched_view plugin_view(struct plugin_fixture *fixture) {
        for (unsigned i = 0; i < PLUGIN_MAX_MEMBERS; i++)
                fixture->pointers[i] = &fixture->instances[i];
        return (struct sched_view){ .queue = &fixture->queue,
                                    .idle = &fixture->idle,
                                    .instances = fixture->pointers,
                                    .n_instances = fixture->n_instances };
}

static inline struct error *plugin_fixture_make(struct plugin_fixture *fixture) {
        struct batching_config   batching;
        struct executor         *executors[PLUGIN_MAX_MEMBERS];
        const struct plugin_init init = { .config_json = "{}", .max_batch = 8 };
        struct policy           *builtin = STEAL(fixture->builtin);

        if (builtin == NULL)
                builtin = policy_single_new();
        for (unsigned i = 0; i < fixture->n_instances; i++)
                executors[i] = &fixture->executors[i];
        assert_ok(batching_config_init(&batching, fixture->fake->model.config), "batching");
        return policy_plugin_new(
                &(struct policy_plugin_options){ .model = &fixture->fake->model,
                                                 .executors = executors,
                                                 .n_executors = fixture->n_instances,
                                                 .batching = &batching,
                                                 .builtin = builtin,
                                                 .metrics = fixture->fake->registry,
                                                 .functions = &plugin_functions,
                                                 .now = plugin_now,
                                                 .may_split = fixture->may_split,
                                                 .is_exclusive = fixture->is_exclusive,
                                                 .init = &init },
                &fixture->policy);
}

static inline void plugin_join(struct plugin_fixture *fixture, unsigned i) {
        struct sched_view view = plugin_view(fixture);

        fixture->instances[i] = (struct instance){ .executor = &fixture->executors[i] };
        list_append(&fixture->idle, &fixture->instances[i].idle_node);
        fixture->policy->ops->instance_joined(fixture->policy, &view, &fixture->instances[i]);
}

static inline void plugin_fixture_prepare(struct plugin_fixture *fixture, const char *config,
                                          unsigned n_instances) {
        *fixture = (struct plugin_fixture){ .n_instances = n_instances };
        plugin_fixture_now = fixture;
        plugin_now_ns = PLUGIN_START_NS;
        fixture->fake = fake_model_new(config);
        fixture->fake->model.label = "m";
        list_init(&fixture->idle);
        for (unsigned i = 0; i < PLUGIN_MAX_MEMBERS; i++)
                fixture->executors[i] =
                        (struct executor){ .name = "g_0", .min_rows = 1, .max_rows = 4 };
}

static inline void plugin_fixture_begin(struct plugin_fixture *fixture) {
        unsigned n_instances = fixture->n_instances;

        assert_ok(plugin_fixture_make(fixture), "policy");
        request_queue_init(&fixture->queue, fixture->policy->limits);
        for (unsigned i = 0; i < n_instances; i++)
                plugin_join(fixture, i);
}

/* Member i takes 1 to 4 rows. */
static inline void plugin_fixture_open(struct plugin_fixture *fixture, const char *config,
                                       unsigned n_instances) {
        plugin_fixture_prepare(fixture, config, n_instances);
        plugin_fixture_begin(fixture);
}

static inline void plugin_fixture_close(struct plugin_fixture *fixture) {
        struct request *req;

        fixture->act = NULL;
        while ((req = request_queue_take(&fixture->queue, fixture->queue.n_waiting > 0)) != NULL)
                request_free(req);
        assert_null(fixture->policy->refused);
        policy_free(fixture->policy);
        for (unsigned i = 0; i < PLUGIN_MAX_MEMBERS; i++)
                free(fixture->instances[i].items);
        request_queue_done(&fixture->queue);
        fake_model_free(fixture->fake);
}

static inline void plugin_on_response(struct response *response, uint32_t flags, void *userp) {
        (void)flags;
        (void)userp;
        response_free(response);
}

static inline void plugin_on_release(struct request *req, uint32_t flags, void *userp) {
        struct plugin_fixture *fixture = userp;

        (void)flags;
        fixture->n_ended++;
        request_free(req);
}

/* Queues a request without telling the policy. Rows of another width have another shape class. */
static inline struct request *plugin_queue(struct plugin_fixture *fixture, uint64_t rows,
                                           int64_t width) {
        struct request *req = fake_request(fixture->fake);

        add_zeroed_input(req, "X", DATA_TYPE_FP32, (int64_t[]){ (int64_t)rows, width }, 2);
        assert_ok(request_prepare(req), "prepare");
        req->on_response = plugin_on_response;
        req->on_release = plugin_on_release;
        req->on_release_userp = fixture;
        req->times.queue_start_ns = plugin_now_ns;
        assert_ok(request_queue_push(&fixture->queue, req, plugin_now_ns), "push");
        return req;
}

static inline struct request *plugin_push_wide(struct plugin_fixture *fixture, uint64_t rows,
                                               int64_t width) {
        struct request   *req = plugin_queue(fixture, rows, width);
        struct sched_view view = plugin_view(fixture);

        fixture->policy->ops->arrived(fixture->policy, &view, req);
        return req;
}

static inline struct request *plugin_push(struct plugin_fixture *fixture, uint64_t rows) {
        return plugin_push_wide(fixture, rows, 1);
}

/* Submits n requests of one row each together. */
static inline void plugin_push_group(struct plugin_fixture *fixture, uint32_t n) {
        struct sched_view view = plugin_view(fixture);
        struct request   *first = NULL, **end = &first;

        for (uint32_t i = 0; i < n; i++) {
                *end = plugin_queue(fixture, 1, 1);
                end = &(*end)->queued.next;
        }
        *end = NULL;
        fixture->policy->ops->arrived_together(fixture->policy, &view, first, n);
}

/* Does what the engine's pump does. */
static inline void plugin_pass(struct plugin_fixture *fixture, uint64_t ns) {
        struct sched_view view = plugin_view(fixture);

        plugin_now_ns += ns;
        for (struct request *req = request_queue_expire(&fixture->queue, plugin_now_ns), *next;
             req != NULL; req = next) {
                next = req->queued.next;
                fixture->policy->ops->withdrawn(fixture->policy, req);
                request_free(req);
        }
        if (fixture->policy->due_ns != 0 && fixture->policy->due_ns <= plugin_now_ns)
                fixture->policy->ops->due(fixture->policy, &view, plugin_now_ns);
}

static inline void plugin_cancel(struct plugin_fixture *fixture, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");

        assert_true(request_queue_remove(&fixture->queue, req));
        fixture->policy->ops->withdrawn(fixture->policy, req);
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
static inline unsigned plugin_begin(struct plugin_fixture *fixture, unsigned *ret_instance) {
        struct sched_view view = plugin_view(fixture);
        struct dispatch   d = fixture->policy->ops->decide(fixture->policy, &view, plugin_now_ns);

        if (d.verdict != BATCH_RUN)
                return 0;
        if (d.on->state == INSTANCE_ASSIGNED)
                policy_take_assigned(fixture->policy, d.on);
        else
                instance_take(d.on, &fixture->queue, &d);
        fixture->reason = d.reason;
        instance_set_state_locked(d.on, INSTANCE_RUNNING);
        list_remove(&d.on->idle_node);
        for (uint32_t i = 0; i < d.on->n_items; i++)
                plugin_end_item(&d.on->items[i]);
        *ret_instance = (unsigned)(d.on - fixture->instances);
        return (unsigned)d.on->rows;
}

static inline void plugin_end(struct plugin_fixture *fixture, unsigned i) {
        instance_set_state_locked(&fixture->instances[i], INSTANCE_FREE);
        fixture->policy->ops->executed(fixture->policy,
                                       &(struct execution){ .on = &fixture->instances[i],
                                                            .end_ns = plugin_now_ns });
        list_append(&fixture->idle, &fixture->instances[i].idle_node);
}

/* Returns how many requests were refused with this text. */
static inline unsigned plugin_take_refused(struct plugin_fixture *fixture, const char *text) {
        unsigned n = 0;

        for (struct refusal *r = STEAL(fixture->policy->refused), *next; r != NULL; r = next) {
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

static inline double plugin_counted(struct plugin_fixture *fixture, const char *name) {
        AUTO_STRBUF page = { 0 };
        char        sample[128];
        const char *at;

        strbuf_init(&page, 0);
        snprintf(sample, sizeof(sample), "\nneso_scheduler_%s{model=\"m\",version=\"1\"} ", name);
        metric_registry_print(fixture->fake->registry, &page);
        at = strstr(strbuf_cstr(&page), sample);
        assert_non_null(at);
        return strtod(at + strlen(sample), NULL);
}
