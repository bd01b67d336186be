/* SPDX-License-Identifier: BSD-3-Clause */
/* Cost of a dynamic batcher's queue while requests wait for the queue delay:
 *
 * batch_queue [n ...]                             10, 1000 and 10000 without arguments
 * batch_queue alone N                             N requests, each queued and taken by itself
 *
 * The batch has room for all waiting requests, so each event asks the rules with all of them. Prints, for
 * each kind of queue, nanoseconds per event with n waiting requests: an arrival or the cancellation of
 * the last one; a cancellation in the middle or an arrival; a question without a change, as by a timer.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/ref.h"
#include "config/batching_config.h"
#include "config/config_normalize.h"
#include "config/model_config.h"
#include "config/model_io.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_prepare.h"
#include "sched/policy.h"
#include "sched/request_queue.h"

#include <stdio.h>
#include <string.h>

#define MAX_ROWS 65536
#define MIN_NS (20 * NS_PER_MS) /* of each measurement */

struct kind {
        const char *name;
        uint32_t    n_preferred; /* sizes, none of which is reached */
        uint64_t    n_levels;
        uint64_t    max_rows; /* of a request */
        bool        equal_shapes;
};

static const struct kind kinds[] = {
        { "plain, or ragged", 1, 0, 1, false },
        { "preferred sizes", 4, 0, 1, false },
        { "1 to 4 rows", 1, 0, 4, false },
        { "1 to 4 rows, preferred sizes", 4, 0, 4, false },
        { "equal shapes", 1, 0, 1, true },
        { "10 levels", 1, 10, 1, false },
        { "10 levels, preferred sizes", 4, 10, 1, false },
        { "10 levels, equal shapes", 1, 10, 1, true },
        { "10 levels, 1 to 4 rows", 1, 10, 4, false },
};

struct ensemble_steps {
        const struct kind   *kind;
        struct policy       *policy;
        struct request_queue queue;
        struct list          idle;
        struct request     **requests;
        size_t               n;
        uint64_t             now_ns;
        uint64_t             random;
};

static struct model model = { .name = "m" };

static void on_unused(struct model *m) {
        (void)m;
}

static uint64_t draw(struct ensemble_steps *b, uint64_t below) {
        b->random ^= b->random << 13;
        b->random ^= b->random >> 7;
        b->random ^= b->random << 17;
        return (b->random >> 11) % below;
}

static void must(struct error *err) {
        if (err == NULL)
                return;
        fprintf(stderr, "%s\n", err->message);
        exit(1);
}

static void make_model(void) {
        static const char text[] = "name: 'm' max_batch_size: 65536 "
                                   "input { name: 'X' data_type: TYPE_INT8 dims: [ -1, -1 ] } "
                                   "input { name: 'Y' data_type: TYPE_INT8 dims: [ -1 ] }";

        ref_init(&model.ref);
        model.on_unused = on_unused;
        must(model_config_read_text(str_of(text), "config.pbtxt", &model.config));
        must(model_config_normalize(model.config));
        must(model_io_set_new(model.config, &model.io));
}

static struct request *make_request(struct ensemble_steps *b) {
        static const char        zeros[4 * 6];
        struct request          *req = request_new(&model);
        int64_t                  rows = 1 + (int64_t)draw(b, b->kind->max_rows);
        struct buffer_attributes x = { .byte_size = (uint64_t)rows * 6 };
        struct buffer_attributes y = { .byte_size = (uint64_t)rows * 2 };

        if (req == NULL)
                exit(1);
        must(request_add_input(req, "X", DATA_TYPE_INT8, (int64_t[]){ rows, 2, 3 }, 3));
        must(request_append_bytes(req, "X", zeros, &x, NULL));
        must(request_add_input(req, "Y", DATA_TYPE_INT8, (int64_t[]){ rows, 2 }, 2));
        must(request_append_bytes(req, "Y", zeros, &y, NULL));
        must(request_prepare(req));
        return req;
}

static void push(struct ensemble_steps *b, struct request *req) {
        req->priority = b->kind->n_levels > 0 ? 1 + draw(b, b->kind->n_levels) : 0;
        req->times.queue_start_ns = ++b->now_ns;
        must(request_queue_push(&b->queue, req, b->now_ns));
}

static void decide(struct ensemble_steps *b) {
        const struct sched_view view = { .queue = &b->queue, .idle = &b->idle };

        if (b->policy->ops->decide(b->policy, &view, b->now_ns).verdict != BATCH_WAIT)
                exit(1);
}

static void arrive_and_leave(struct ensemble_steps *b) {
        struct request *last = b->requests[b->n];

        push(b, last);
        decide(b);
        request_queue_remove(&b->queue, last);
        decide(b);
}

static void leave_and_arrive(struct ensemble_steps *b) {
        struct request *one = b->requests[draw(b, b->n)];

        request_queue_remove(&b->queue, one);
        decide(b);
        push(b, one);
        decide(b);
}

static void ask_twice(struct ensemble_steps *b) {
        b->now_ns++;
        decide(b);
        decide(b);
}

/* `run` has two events. */
static double measure(struct ensemble_steps *b, void (*run)(struct ensemble_steps *b)) {
        uint64_t start_ns, took_ns = 0, n_runs = 0;

        start_ns = clock_now_ns();
        for (uint64_t n = 1; took_ns < MIN_NS; n *= 2) {
                for (uint64_t i = 0; i < n; i++)
                        run(b);
                n_runs += n;
                took_ns = clock_now_ns() - start_ns;
        }
        return (double)took_ns / (double)(2 * n_runs);
}

static void open_queue(struct ensemble_steps *b, const struct kind *kind, size_t n,
                       uint64_t delay_ns) {
        struct batching_config batching = {
                .max_batch_size = MAX_ROWS,
                .max_queue_delay_ns = delay_ns,
                .priority_levels = kind->n_levels,
                .default_priority_level = 1,
        };

        batching.n_preferred_sizes = kind->n_preferred;
        batching.preferred_sizes = mem_alloc(kind->n_preferred * sizeof(uint32_t));
        for (uint32_t i = 0; i < kind->n_preferred; i++)
                batching.preferred_sizes[i] = MAX_ROWS - 1000 * (kind->n_preferred - 1 - i);
        *b = (struct ensemble_steps){
                .kind = kind, .n = n, .now_ns = NS_PER_S, .random = 0x9e3779b97f4a7c15
        };
        b->policy = policy_dynamic_new(&(struct policy_dynamic_options){
                .batching = &batching, .equal_shapes = kind->equal_shapes });
        list_init(&b->idle);
        request_queue_init(&b->queue, b->policy->limits);
        b->requests = mem_zalloc((n + 1) * sizeof(struct request *));
        for (size_t i = 0; i <= n; i++)
                b->requests[i] = make_request(b);
        for (size_t i = 0; i < n; i++)
                push(b, b->requests[i]);
}

static void close_queue(struct ensemble_steps *b) {
        for (size_t i = 0; i <= b->n; i++) {
                request_queue_remove(&b->queue, b->requests[i]);
                request_free(b->requests[i]);
        }
        free(b->requests);
        request_queue_done(&b->queue);
        policy_free(b->policy);
}

static int run_alone(uint64_t n) {
        struct ensemble_steps b;
        uint64_t              start_ns;

        open_queue(&b, &kinds[0], 0, 0);
        start_ns = clock_now_ns();
        for (uint64_t i = 0; i < n; i++) {
                const struct sched_view view = { .queue = &b.queue, .idle = &b.idle };
                struct dispatch         d;

                push(&b, b.requests[0]);
                d = b.policy->ops->decide(b.policy, &view, b.now_ns);
                if (d.verdict != BATCH_RUN || request_queue_take(&b.queue, d.n_requests) == NULL)
                        return 1;
        }
        printf("%.1f ns for a request that is queued and taken\n",
               (double)(clock_now_ns() - start_ns) / (double)n);
        close_queue(&b);
        return 0;
}

int main(int argc, char **argv) {
        static const char *const usual[] = { "10", "1000", "10000" };
        const char *const       *sizes = argc > 1 ? (const char *const *)argv + 1 : usual;
        int                      n_sizes = argc > 1 ? argc - 1 : 3;

        make_model();
        if (argc == 3 && strcmp(argv[1], "alone") == 0)
                return run_alone(strtoul(argv[2], NULL, 10));
        printf("%-28s %8s %12s %12s %12s\n", "ns per event", "waiting", "at the end", "in between",
               "no change");
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                for (int k = 0; k < n_sizes; k++) {
                        struct ensemble_steps b;

                        open_queue(&b, &kinds[i], strtoul(sizes[k], NULL, 10), 3600 * NS_PER_S);
                        printf("%-28s %8zu %12.0f %12.0f %12.0f\n", kinds[i].name, b.n,
                               measure(&b, arrive_and_leave), measure(&b, leave_and_arrive),
                               measure(&b, ask_twice));
                        close_queue(&b);
                }
        }
        return 0;
}
