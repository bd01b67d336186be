/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of plug-in schedulers under arbitrary calls of a plug-in and arbitrary events of the engine:
 * each request ends exactly once, no batch breaks the limits of its member, and a wrong call has no
 * effect.
 *
 * Two bytes an event. Within each call of the plug-in, up to three calls of the host's functions are
 * made; what they say comes from the bytes that follow.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ref.h"
#include "config/batching_config.h"
#include "infer/executor.h"
#include "infer/model.h"
#include "infer/request.h"
#include "sched/instance.h"
#include "sched/policy_plugin.h"
#include "sched/request_queue.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

#define N_REQUESTS 24
#define N_INSTANCES 3
#define N_IDS 64
#define MAX_EVENTS 2048

enum where { IDLE, WAITS, RUNS };

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
        struct request       *running[N_INSTANCES]; /* linked by queued.next */
        struct request       *requests[N_REQUESTS];
        enum where            where[N_REQUESTS];
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

static void dispatch_some(uint8_t what) {
        uint64_t ids[4];
        uint32_t first[4] = { 0 }, count[4];
        uint32_t n = what >> 5 & 3, member = what >> 3 & 3;
        uint64_t n_before = f.queue.n_waiting;
        int      code;

        for (unsigned i = 0; i < 4; i++) {
                ids[i] = some_id();
                count[i] = 1 + i;
        }
        if ((what & 0x80) != 0)
                code = f.ops->dispatch(f.host, member, ids, n + 1);
        else
                code = f.ops->dispatch_rows(f.host, member, ids, first, count, n + 1);
        must(f.queue.n_waiting == n_before - (code == 0 ? n + 1 : 0));
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
        must(st == &f && n == 1);
        f.ids[f.n_ids++ % N_IDS] = items->id;
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

static void take_refused(void) {
        for (struct refusal *r = STEAL(f.policy->refused), *next; r != NULL; r = next) {
                unsigned i = index_of(r->req);

                next = r->next;
                must(f.where[i] == WAITS);
                f.where[i] = IDLE;
                error_free(r->why);
                free(r);
        }
}

static void begin_all(void) {
        struct sched_view view = { .queue = &f.queue, .idle = &f.idle };

        while (!list_is_empty(&f.idle)) {
                struct dispatch d = f.policy->ops->decide(f.policy, &view, now_ns);
                unsigned        on = (unsigned)(d.on - f.instances);
                bool            is_assigned;
                uint64_t        rows = 0;

                if (d.verdict != BATCH_RUN)
                        return;
                must(on < N_INSTANCES && f.running[on] == NULL);
                is_assigned = d.on->assigned != NULL;
                f.running[on] = is_assigned ? policy_take_assigned(f.policy, d.on)
                                            : request_queue_take(&f.queue, d.n_requests);
                list_remove(&d.on->idle_node);
                for (struct request *req = f.running[on]; req != NULL; req = req->queued.next) {
                        must(f.where[index_of(req)] == WAITS);
                        f.where[index_of(req)] = RUNS;
                        rows += request_rows(req);
                }
                must(!is_assigned || rows <= f.executors[on].max_rows);
        }
}

static void end(unsigned i) {
        if (f.running[i] == NULL)
                return;
        for (struct request *req = f.running[i]; req != NULL; req = req->queued.next)
                f.where[index_of(req)] = IDLE;
        f.running[i] = NULL;
        f.policy->ops->executed(f.policy,
                                &(struct execution){ .on = &f.instances[i], .end_ns = now_ns });
        if (f.is_there[i])
                list_prepend(&f.idle, &f.instances[i].idle_node);
}

static void push(uint8_t which) {
        struct sched_view view = { .queue = &f.queue, .idle = &f.idle };
        unsigned          i = which % N_REQUESTS;
        struct request   *req = f.requests[i];

        if (f.where[i] != IDLE)
                return;
        req->batch_size = 1 + (which >> 6);
        req->timeout_us = which;
        req->times.queue_start_ns = now_ns;
        f.where[i] = WAITS;
        must(request_queue_push(&f.queue, req, now_ns) == NULL);
        f.policy->ops->arrived(f.policy, &view, req);
}

static void cancel(uint8_t which) {
        unsigned i = which % N_REQUESTS;

        if (f.where[i] != WAITS || !request_queue_remove(&f.queue, f.requests[i]))
                return;
        f.where[i] = IDLE;
        f.policy->ops->gone(f.policy, f.requests[i]);
}

static void pass_time(uint64_t ns) {
        struct sched_view view = { .queue = &f.queue, .idle = &f.idle };

        now_ns += ns;
        for (struct request *req = request_queue_expire(&f.queue, now_ns), *next; req != NULL;
             req = next) {
                next = req->queued.next;
                f.where[index_of(req)] = IDLE;
                f.policy->ops->gone(f.policy, req);
        }
        if (f.policy->due_ns != 0 && f.policy->due_ns <= now_ns)
                f.policy->ops->due(f.policy, &view, now_ns);
}

/* One that has a batch runs it first, as the engine's do. */
static void change(unsigned i) {
        struct sched_view view = { .queue = &f.queue, .idle = &f.idle };

        if (!f.is_there[i]) {
                if (f.running[i] != NULL)
                        return;
                f.instances[i] = (struct instance){ .executor = &f.executors[i] };
                list_append(&f.idle, &f.instances[i].idle_node);
                f.is_there[i] = true;
                f.policy->ops->joined(f.policy, &view, &f.instances[i]);
        } else if (f.instances[i].assigned == NULL) {
                f.is_there[i] = false;
                if (f.running[i] == NULL)
                        list_remove(&f.instances[i].idle_node);
                f.policy->ops->left(f.policy, &view, &f.instances[i]);
        }
}

static void check(void) {
        uint64_t n = 0;

        for (unsigned i = 0; i < N_REQUESTS; i++)
                n += f.where[i] == WAITS;
        for (unsigned i = 0; i < N_INSTANCES; i++)
                for (struct request *req = f.instances[i].assigned; req != NULL;
                     req = req->queued.next)
                        n--; /* out of the queue, not yet begun */
        must(n == f.queue.n_waiting);
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
                must(f.where[i] == IDLE);
        must(f.queue.n_waiting == 0);
        policy_free(f.policy);
        request_queue_done(&f.queue);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                request_free(f.requests[i]);
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
                                                                .now = clock_of_fuzz },
                               &f.policy) == NULL);
        request_queue_init(&f.queue, f.policy->limits);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        log_set_settings(&(struct log_settings){ .info = false });
        f = (struct fuzz){ .input = input, .size = size };
        now_ns = NS_PER_S;
        f.model.name = f.model.label = "m";
        f.model.on_unused = on_unused;
        ref_init(&f.model.ref);
        list_init(&f.idle);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                must((f.requests[i] = request_new(&f.model)) != NULL);
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
