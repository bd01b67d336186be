/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of plug-in schedulers under arbitrary calls of a plug-in and arbitrary events of the engine:
 * each request ends exactly once, no batch breaks the limits of its member, and a wrong call has no
 * effect. Requests may run in parts; a part ends with an error, as its request has no inputs.
 *
 * The first byte says whether requests may run in parts, and whether only one member of all may run at
 * a time. Then two bytes an event. Within each call of the plug-in, up to three calls of the host's
 * functions are made; what they say comes from the bytes that follow.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ref.h"
#include "config/batching_config.h"
#include "config/config_normalize.h"
#include "config/model_config.h"
#include "config/model_io.h"
#include "infer/executor.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_split.h"
#include "infer/response.h"
#include "observe/metric.h"
#include "observe/model_stats.h"
#include "sched/instance.h"
#include "sched/request_queue.h"
#include "sched_plugin/policy_plugin.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

#define N_REQUESTS 24
#define N_INSTANCES 3
#define N_IDS 64
#define MAX_EVENTS 2048

struct fuzz {
        const uint8_t        *input;
        size_t                size, at;
        struct model          model;
        struct policy        *policy;
        struct request_queue  queue;
        struct list           idle;
        struct executor       executors[N_INSTANCES];
        struct instance       instances[N_INSTANCES];
        bool                  is_there[N_INSTANCES];
        bool                  is_running[N_INSTANCES];
        struct request       *requests[N_REQUESTS];
        bool                  is_open[N_REQUESTS]; /* from push to release */
        bool                  may_split, is_exclusive;
        const sched_host_ops *ops;
        sched_host           *host;
        uint64_t              ids[N_IDS]; /* the last ones that were announced */
        unsigned              n_ids;
};

static struct fuzz f;
static uint64_t    now_ns;

static void must(bool is_so) {
        if (!is_so)
                abort();
}

static uint8_t next_byte(void) {
        return f.at < f.size ? f.input[f.at++] : 0;
}

static uint64_t clock_of_fuzz(void) {
        return now_ns;
}

static void on_unused(struct model *m) {
        (void)m;
}

static unsigned index_of(const struct request *req) {
        unsigned i = 0;

        while (f.requests[i] != req)
                must(++i < N_REQUESTS);
        return i;
}

/* ---- the plug-in ----------------------------------------------------------------------------- */

static uint64_t some_id(void) {
        uint8_t byte = next_byte();

        return byte == 255 ? UINT64_MAX : f.ids[byte % N_IDS];
}

static void dispatch_items(uint32_t member, uint32_t n) {
        uint64_t ids[4], n_before = f.queue.n_waiting;
        int      code;

        for (unsigned i = 0; i < n; i++)
                ids[i] = some_id();
        code = f.ops->dispatch(f.host, member, ids, n);
        must(f.queue.n_waiting == n_before - (code == 0 ? n : 0));
}

static void dispatch_rows(uint32_t member, uint32_t n) {
        uint64_t ids[4], n_before = f.queue.n_waiting, rows_before = f.queue.n_rows;
        uint32_t first[4], count[4], rows = 0;
        int      code;

        for (unsigned i = 0; i < n; i++) {
                uint8_t byte = next_byte();

                ids[i] = some_id();
                first[i] = byte & 3;
                count[i] = 1 + (byte >> 2 & 3);
                rows += count[i];
        }
        code = f.ops->dispatch_rows(f.host, member, ids, first, count, n);
        must(f.queue.n_rows == rows_before - (code == 0 ? rows : 0));
        must(code != 0 ? f.queue.n_waiting == n_before : f.queue.n_waiting + n >= n_before);
}

static void dispatch_some(uint8_t what) {
        uint32_t n = 1 + (what >> 5 & 3), member = what >> 3 & 3;

        if ((what & 0x80) != 0)
                dispatch_items(member, n);
        else
                dispatch_rows(member, n);
}

static void act(void) {
        for (unsigned i = next_byte() & 3; i > 0; i--) {
                uint8_t what = next_byte();

                switch (what & 7) {
                case 0:
                        f.ops->set_timer(f.host, (what & 8) != 0 ? now_ns + what * NS_PER_MS : 0);
                        break;
                case 1: f.ops->reject(f.host, some_id(), what >> 3, "no"); break;
                case 2: f.ops->count(f.host, (what & 8) != 0 ? "a" : "", what); break;
                default: dispatch_some(what);
                }
        }
}

static int init(void **st, sched_host *host, const sched_host_ops *ops, const char *config_json,
                const sched_member *members, uint32_t n_members, uint32_t max_batch) {
        (void)config_json;
        (void)members;
        (void)n_members;
        (void)max_batch;
        *st = &f;
        f.host = host;
        f.ops = ops;
        act();
        return f.policy != NULL && next_byte() == 99 ? 1 : 0; /* not the first time */
}

static void on_enqueue(void *st, const sched_item *items, uint32_t n) {
        must(st == &f && n > 0);
        for (uint32_t i = 0; i < n; i++)
                f.ids[f.n_ids++ % N_IDS] = items[i].id;
        act();
}

static void on_member(void *st, uint32_t member) {
        must(st == &f && member < N_INSTANCES);
        act();
}

static void on_cancel(void *st, uint64_t id) {
        must(st == &f && id != 0);
        act();
}

static void on_other(void *st) {
        must(st == &f);
        act();
}

/* ---- the engine ------------------------------------------------------------------------------ */

static const struct error ended = ERROR_STATIC(ERR_UNAVAILABLE, "it ends");

static void on_response(struct response *response, uint32_t flags, void *userp) {
        (void)flags;
        (void)userp;
        response_free(response);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        unsigned i = index_of(req);

        (void)flags;
        (void)userp;
        must(f.is_open[i] && !list_is_linked(&req->queued.node));
        f.is_open[i] = false;
}

/* It has left the queue; parts of it may run. */
static void refuse(struct request *req) {
        if (req->is_split)
                request_split_give_up(req, &ended, FAILURE_REJECTED);
        else
                request_refuse(req, &ended, FAILURE_REJECTED);
}

static void take_refused(void) {
        for (struct refusal *r = STEAL(f.policy->refused), *next; r != NULL; r = next) {
                next = r->next;
                refuse(r->req);
                error_free(r->why);
                free(r);
        }
}

static struct sched_view view_now(void) {
        return (struct sched_view){ .queue = &f.queue, .idle = &f.idle };
}

static void begin_all(void) {
        struct sched_view view = view_now();

        while (!list_is_empty(&f.idle)) {
                struct dispatch  d = f.policy->ops->decide(f.policy, &view, now_ns);
                struct instance *in = d.on;
                unsigned         on = (unsigned)(in - f.instances);

                if (d.verdict != BATCH_RUN)
                        return;
                must(on < N_INSTANCES && !f.is_running[on]);
                if (in->state == INSTANCE_ASSIGNED) {
                        policy_take_assigned(f.policy, in);
                        must(in->rows >= 1 && in->rows <= f.executors[on].max_rows);
                } else {
                        instance_take(in, &f.queue, &d);
                }
                instance_set_state_locked(in, INSTANCE_RUNNING);
                list_remove(&in->idle_node);
                f.is_running[on] = true;
        }
}

static void end(unsigned i) {
        struct instance *in = &f.instances[i];

        if (!f.is_running[i])
                return;
        for (uint32_t k = 0; k < in->n_items; k++)
                if (in->items[k].request != NULL)
                        request_refuse(in->items[k].request, &ended, FAILURE_BACKEND);
                else
                        must(split_part_make(in->items[k].part) == NULL);
        f.is_running[i] = false;
        instance_set_state_locked(in, INSTANCE_FREE);
        f.policy->ops->executed(f.policy, &(struct execution){ .on = in, .end_ns = now_ns });
        if (f.is_there[i])
                list_prepend(&f.idle, &in->idle_node);
}

/* False: it is in use. */
static bool enqueue(uint8_t which) {
        unsigned        i = which % N_REQUESTS;
        struct request *req = f.requests[i];

        if (f.is_open[i])
                return false;
        req->batch_size = 1 + (which >> 6);
        req->timeout_us = which;
        req->times.queue_start_ns = now_ns;
        f.is_open[i] = true;
        must(request_queue_push(&f.queue, req, now_ns) == NULL);
        return true;
}

static void push(uint8_t which) {
        struct sched_view view = view_now();

        if (enqueue(which))
                f.policy->ops->arrived(f.policy, &view, f.requests[which % N_REQUESTS]);
}

static void push_group(uint8_t which) {
        struct sched_view view = view_now();
        struct request   *first = NULL, **next = &first;
        uint32_t          n = 0;

        for (unsigned i = 0; i < 5; i++)
                if (enqueue((uint8_t)(which + i))) {
                        *next = f.requests[(uint8_t)(which + i) % N_REQUESTS];
                        next = &(*next)->queued.next;
                        n++;
                }
        *next = NULL;
        if (n > 0)
                f.policy->ops->arrived_together(f.policy, &view, first, n);
}

static void cancel(uint8_t which) {
        struct request *req = f.requests[which % N_REQUESTS];

        if (!request_queue_remove(&f.queue, req))
                return;
        f.policy->ops->withdrawn(f.policy, req);
        refuse(req);
}

static void pass_time(uint64_t ns) {
        struct sched_view view = view_now();

        now_ns += ns;
        for (struct request *req = request_queue_expire(&f.queue, now_ns), *next; req != NULL;
             req = next) {
                next = req->queued.next;
                f.policy->ops->withdrawn(f.policy, req);
                refuse(req);
        }
        if (f.policy->due_ns != 0 && f.policy->due_ns <= now_ns)
                f.policy->ops->due(f.policy, &view, now_ns);
}

/* One that has a batch runs it first, as the engine's do. */
static void change(unsigned i) {
        struct sched_view view = view_now();
        struct instance  *in = &f.instances[i];

        if (!f.is_there[i]) {
                if (f.is_running[i])
                        return;
                free(in->items);
                *in = (struct instance){ .executor = &f.executors[i] };
                list_append(&f.idle, &f.instances[i].idle_node);
                f.is_there[i] = true;
                f.policy->ops->instance_joined(f.policy, &view, &f.instances[i]);
        } else if (in->state != INSTANCE_ASSIGNED) {
                f.is_there[i] = false;
                if (!f.is_running[i])
                        list_remove(&f.instances[i].idle_node);
                f.policy->ops->instance_left(f.policy, &view, &f.instances[i]);
        }
}

static void check(void) {
        uint64_t n = 0, rows = 0;

        for (unsigned i = 0; i < N_REQUESTS; i++)
                if (list_is_linked(&f.requests[i]->queued.node)) {
                        must(f.is_open[i]);
                        n++;
                        rows += request_rows(f.requests[i]);
                }
        must(n == f.queue.n_waiting && rows == f.queue.n_rows);
}

static void run_event(uint8_t what, uint8_t which) {
        switch (what & 7) {
        case 0:
        case 1:
        case 2: push(which); break;
        case 3: end(which % N_INSTANCES); break;
        case 4: cancel(which); break;
        case 5: pass_time(which * 5 * NS_PER_MS); break;
        case 6: change(which % N_INSTANCES); break;
        default:
                if (what >= 0xf0)
                        f.policy->ops->drain(f.policy, now_ns);
                else
                        push_group(which);
        }
        take_refused();
        if ((what & 8) != 0)
                begin_all();
        check();
}

/* Whatever has happened, all of it ends. */
static void finish(void) {
        f.size = f.at;
        for (unsigned i = 0; i < N_INSTANCES; i++)
                if (!f.is_there[i]) {
                        end(i);
                        change(i);
                }
        for (unsigned round = 0; round < 3 * N_REQUESTS; round++) {
                begin_all();
                for (unsigned i = 0; i < N_INSTANCES; i++)
                        end(i);
                pass_time(PLUGIN_STALL_NS);
                take_refused();
        }
        for (unsigned i = 0; i < N_REQUESTS; i++)
                must(!f.is_open[i]);
        must(f.queue.n_waiting == 0);
        policy_free(f.policy);
        request_queue_done(&f.queue);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                request_free(f.requests[i]);
        for (unsigned i = 0; i < N_INSTANCES; i++)
                free(f.instances[i].items);
}

static void open_policy(void) {
        static const sched_vtbl  functions = { init,      on_enqueue, on_member, on_other,
                                               on_cancel, on_other,   on_other };
        const struct plugin_init start = { .config_json = "{}", .max_batch = 4 };
        struct batching_config   batching = { .max_batch_size = 4,
                                              .default_policy = { .default_timeout_ns = NS_PER_S,
                                                                  .allow_override = true } };

        must(policy_plugin_new(&(struct policy_plugin_options){ .model = &f.model,
                                                                .batching = &batching,
                                                                .builtin = policy_single_new(),
                                                                .functions = &functions,
                                                                .init = &start,
                                                                .may_split = f.may_split,
                                                                .is_exclusive = f.is_exclusive,
                                                                .now = clock_of_fuzz },
                               &f.policy) == NULL);
        request_queue_init(&f.queue, f.policy->limits);
}

/* Made once: what the requests of all inputs need of a model. */
static void open_model(struct model *m) {
        static const char           text[] = "name: 'm' max_batch_size: 4 input { name: 'X' "
                                             "data_type: TYPE_FP32 dims: 1 }";
        static struct model_config *config;
        static struct model_io_set *io;
        static struct model_stats  *stats;

        if (config == NULL) {
                struct metric_registry *registry = metric_registry_new();

                must(model_config_read_text(str_of(text), "config.pbtxt", &config) == NULL);
                must(model_config_normalize(config) == NULL);
                must(model_io_set_new(config, &io) == NULL);
                stats = model_stats_new(model_metrics_new(registry,
                                                          &(struct model_metrics_options){ 0 }),
                                        &(struct model_stats_options){ .model = "m",
                                                                       .version = 1 });
        }
        m->name = m->label = "m";
        m->config = config;
        m->io = io;
        m->stats = stats;
        m->on_unused = on_unused;
        ref_init(&m->ref);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        uint8_t options;

        log_set_settings(&(struct log_settings){ .info = false });
        f = (struct fuzz){ .input = input, .size = size };
        now_ns = NS_PER_S;
        options = next_byte();
        f.may_split = (options & 1) != 0;
        f.is_exclusive = (options & 2) != 0;
        open_model(&f.model);
        list_init(&f.idle);
        for (unsigned i = 0; i < N_REQUESTS; i++) {
                must((f.requests[i] = request_new(&f.model)) != NULL);
                f.requests[i]->on_response = on_response;
                f.requests[i]->on_release = on_release;
        }
        for (unsigned i = 0; i < N_INSTANCES; i++)
                f.executors[i] =
                        (struct executor){ .name = "g_0", .min_rows = 1, .max_rows = 2 + i };
        open_policy();
        change(0);
        for (unsigned n = 0; n < MAX_EVENTS && f.at + 1 < size; n++) {
                uint8_t what = next_byte();

                run_event(what, next_byte());
        }
        finish();
        return 0;
}
