/* SPDX-License-Identifier: BSD-3-Clause */
/* A small language for tests of the queue and its policies. One row is a model's batching configuration
 * and a script. Steps are separated by ";". Times are microseconds on a clock that only "at" moves.
 *
 *     at 100                      sets the clock to 100 us
 *     push a                      queues request "a" with one row and the default shapes
 *     push a rows=3 level=2 timeout=50
 *     push a X=4x2 S:5,6 +O       input X has dims [4,2] (after the batch dimension); the shape
 *                                 tensor S has these contents; the optional input O is given
 *     full a ...                  as push, but the queue is full
 *     runs a b                    the policy runs a batch, which is exactly a, b
 *     waits 500                   the policy waits until the clock shows 500 ("never": no limit)
 *     idles                       the policy has nothing to run
 *     rejects a b                 these requests timed out, in this order ("rejects none")
 *     cancel a                    removes a from the queue; "lost a": it was not queued
 *     asked a b                   the filter was asked about these since the last "asked", in order,
 *                                 and each batch was ended by "." (only with max_weight)
 *     due 500                     time of the next timeout, or "due never"
 *     takes a b                   takes all queued requests, in this order
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/clock.h"
#include "infer/batch_filter.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "sched/policy.h"
#include "sched/request_queue.h"

#include <stdbool.h>
#include <stdio.h>

#define SCRIPT_START_NS NS_PER_S
#define SCRIPT_MAX_REQUESTS 64
#define SCRIPT_MAX_CONTENTS 8

struct queue_row {
        const char *rule;
        const char *batching; /* of dynamic_batching { }; NULL: the default scheduler */
        const char *steps;
        const char *inputs;     /* NULL: one input X of fixed size */
        int         max_batch;  /* 0: 8; -1: the model does not batch */
        uint64_t    max_weight; /* rows that a filter admits to a batch; 0: no filter */
        uint64_t    n_delayed;  /* no batch before this many requests are queued */
};

struct queue_script {
        const struct queue_row *row;
        const char             *step;
        struct fake_model      *model;
        struct policy          *policy;
        struct request_queue    queue;
        struct list             idle; /* not used by these rules */
        uint64_t                now_ns;
        struct request         *requests[SCRIPT_MAX_REQUESTS];
        unsigned                n_requests;
        struct batch_filter     filter;
        uint64_t                weight; /* of the current batch */
        char                    asked[256];
        int32_t                 contents[SCRIPT_MAX_REQUESTS][SCRIPT_MAX_CONTENTS];
};

#define SCRIPT_FAIL(s, ...)                                                                        \
        do {                                                                                       \
                print_error("in \"%s\", at \"%s\":\n", (s)->row->rule, (s)->step);                 \
                fail_msg(__VA_ARGS__);                                                             \
        } while (0)

static inline struct request *script_find(struct queue_script *s, const char *id) {
        for (unsigned i = 0; i < s->n_requests; i++)
                if (strcmp(s->requests[i]->id, id) == 0)
                        return s->requests[i];
        SCRIPT_FAIL(s, "there is no request %s", id);
        return NULL;
}

/* Reads "500" as microseconds since the start, or "never". */
static inline uint64_t script_time(const char *text) {
        if (strcmp(text, "never") == 0)
                return CLOCK_NEVER;
        return SCRIPT_START_NS + strtoull(text, NULL, 10) * NS_PER_US;
}

/* Returns the text of the option after `key` (which ends in "=" or ":", or is "+O"); NULL when the
 * option is not given. */
static inline const char *script_option(char **words, const char *key) {
        size_t len = strlen(key);

        for (; *words != NULL; words++)
                if (strncmp(*words, key, len) == 0)
                        return *words + len;
        return NULL;
}

static inline uint64_t script_number(char **words, const char *key, uint64_t otherwise) {
        const char *text = script_option(words, key);

        return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Reads "4x2", or takes the configuration's dims, with 1 for each variable one. */
static inline size_t script_dims(const char *text, const struct model_io *io, int64_t *dims) {
        if (text == NULL) {
                for (uint32_t i = 0; i < io->n_dims; i++)
                        dims[i] = io->dims[i] < 0 ? 1 : io->dims[i];
                return io->n_dims;
        }

        char  *end = (char *)text - 1;
        size_t n = 0;

        do
                dims[n++] = strtoll(end + 1, &end, 10);
        while (*end == 'x');
        return n;
}

static inline void script_add_input(struct queue_script *s, struct request *req, char **words,
                                    const struct model_io *io, uint64_t rows) {
        char        key[16];
        int64_t     dims[9] = { (int64_t)rows };
        bool        has_batch = s->model->model.io->max_batch_size > 0 && !io->is_shape_tensor;
        const char *contents;
        size_t      n;

        snprintf(key, sizeof(key), "+%s", io->name);
        if (io->is_optional && script_option(words, key) == NULL)
                return;
        snprintf(key, sizeof(key), "%s=", io->name);
        n = script_dims(script_option(words, key), io, dims + (has_batch ? 1 : 0)) + has_batch;
        snprintf(key, sizeof(key), "%s:", io->name);
        contents = script_option(words, key);
        if (contents == NULL) {
                add_zeroed_input(req, io->name, io->type, dims, n);
                return;
        }

        int32_t *values = s->contents[s->n_requests];
        size_t   n_values = 0;
        char    *end = (char *)contents - 1;

        do
                values[n_values++] = (int32_t)strtol(end + 1, &end, 10);
        while (*end == ',');
        assert_ok(request_add_input(req, io->name, io->type, dims, n), io->name);
        append_bytes(req, io->name, values, n_values * sizeof(*values));
}

static inline struct request *script_request(struct queue_script *s, char **words) {
        const struct model_io_set *io = s->model->model.io;
        struct request            *req = fake_request(s->model);
        uint64_t                   rows = script_number(words + 1, "rows=", 1);
        bool                       is_legal = rows <= io->max_batch_size;

        assert_true(s->n_requests < SCRIPT_MAX_REQUESTS);
        assert_ok(request_set_id(req, words[0]), words[0]);
        req->priority = script_number(words + 1, "level=", 0);
        req->timeout_us = script_number(words + 1, "timeout=", 0);
        for (uint32_t i = 0; i < io->n_inputs; i++)
                script_add_input(s, req, words + 1, &io->inputs[i], is_legal ? rows : 1);
        s->requests[s->n_requests++] = req;

        struct error *err = request_prepare(req);

        if (err != NULL)
                SCRIPT_FAIL(s, "%s", err->message);
        if (!is_legal)
                req->batch_size = io->max_batch_size > 0 ? rows : 0;
        req->times.request_start_ns = req->times.queue_start_ns = s->now_ns;
        return req;
}

static inline void script_push(struct queue_script *s, char **words, bool is_full) {
        struct request *req = script_request(s, words);
        struct error   *err = request_queue_push(&s->queue, req, s->now_ns);
        char            expected[128];

        if (!is_full) {
                if (err != NULL)
                        SCRIPT_FAIL(s, "refused: %s", err->message);
                return;
        }
        if (err == NULL)
                SCRIPT_FAIL(s, "was not refused");
        snprintf(expected, sizeof(expected), "[request id: %s] Exceeds maximum queue size",
                 req->id);
        assert_error(err, ERR_UNAVAILABLE, expected);
}

/* The list must consist of these requests, in order. */
static inline void script_expect(struct queue_script *s, struct request *first, char **ids) {
        for (; *ids != NULL && strcmp(*ids, "none") != 0; ids++) {
                if (first == NULL)
                        SCRIPT_FAIL(s, "%s is missing", *ids);
                if (first != script_find(s, *ids))
                        SCRIPT_FAIL(s, "%s instead of %s", first->id, *ids);
                first = first->queued.next;
        }
        if (first != NULL)
                SCRIPT_FAIL(s, "%s is too much", first->id);
}

/* A filter by rows, like a custom batching library that counts something of its own. */
static inline void script_begin_batch(struct batch_filter *f) {
        CONTAINER_OF(f, struct queue_script, filter)->weight = 0;
}

static inline void script_note(struct queue_script *s, const char *what) {
        size_t len = strlen(s->asked);

        snprintf(s->asked + len, sizeof(s->asked) - len, " %s", what);
}

static inline bool script_admits(struct batch_filter *f, struct request *req) {
        struct queue_script *s = CONTAINER_OF(f, struct queue_script, filter);

        script_note(s, req->id);
        s->weight += req->batch_size;
        return s->weight <= s->row->max_weight;
}

static inline void script_end_batch(struct batch_filter *f) {
        script_note(CONTAINER_OF(f, struct queue_script, filter), ".");
}

static inline const struct batch_filter_ops *script_filter_ops(void) {
        static const struct batch_filter_ops ops = {
                .begin = script_begin_batch,
                .admits = script_admits,
                .end = script_end_batch,
        };

        return &ops;
}

static inline void script_asked(struct queue_script *s) {
        const char *expected = s->step + strlen("asked");

        if (strcmp(s->asked, expected) != 0)
                SCRIPT_FAIL(s, "asked%s", s->asked);
        s->asked[0] = '\0';
}

static inline struct request *script_take_all(struct queue_script *s) {
        return request_queue_take(&s->queue, (uint32_t)s->queue.n_waiting);
}

static inline void script_decide(struct queue_script *s, char **words) {
        static const char *const names[] = {
                [BATCH_NOTHING] = "idles", [BATCH_WAIT] = "waits", [BATCH_RUN] = "runs"
        };

        script_expect(s, request_queue_expire(&s->queue, s->now_ns), (char *[]){ NULL });

        const struct sched_view view = { .queue = &s->queue, .idle = &s->idle };
        struct dispatch         d = s->policy->ops->decide(s->policy, &view, s->now_ns);

        if (strcmp(words[0], names[d.verdict]) != 0)
                SCRIPT_FAIL(s, "%s (%u requests)", names[d.verdict], d.n_requests);
        if (d.verdict == BATCH_RUN)
                script_expect(s, request_queue_take(&s->queue, d.n_requests), words + 1);
        if (d.verdict == BATCH_WAIT && d.wait_until_ns != script_time(words[1]))
                SCRIPT_FAIL(s, "waits until %lld ns",
                            (long long)(d.wait_until_ns - SCRIPT_START_NS));
}

static inline void script_step(struct queue_script *s, char **words) {
        struct request_queue *q = &s->queue;
        const char           *verb = words[0];

        if (strcmp(verb, "at") == 0)
                s->now_ns = script_time(words[1]);
        else if (strcmp(verb, "push") == 0 || strcmp(verb, "full") == 0)
                script_push(s, words + 1, *verb == 'f');
        else if (strcmp(verb, "runs") == 0 || strcmp(verb, "waits") == 0 ||
                 strcmp(verb, "idles") == 0)
                script_decide(s, words);
        else if (strcmp(verb, "rejects") == 0)
                script_expect(s, request_queue_expire(q, s->now_ns), words + 1);
        else if (strcmp(verb, "asked") == 0)
                script_asked(s);
        else if (strcmp(verb, "takes") == 0)
                script_expect(s, script_take_all(s), words + 1);
        else if (strcmp(verb, "cancel") == 0 || strcmp(verb, "lost") == 0) {
                if (request_queue_remove(q, script_find(s, words[1])) != (*verb == 'c'))
                        SCRIPT_FAIL(s, "was %s in the queue", *verb == 'c' ? "not" : "still");
        } else if (strcmp(verb, "due") == 0) {
                if (request_queue_next_due(q) != script_time(words[1]))
                        SCRIPT_FAIL(s, "due at %llu ns",
                                    (unsigned long long)(request_queue_next_due(q) -
                                                         SCRIPT_START_NS));
        } else {
                SCRIPT_FAIL(s, "no such step");
        }
}

static inline struct policy *script_policy(struct queue_script *s, const struct queue_row *row) {
        struct batching_config batching;

        if (row->batching == NULL)
                return policy_single_new();
        assert_ok(batching_config_init(&batching, s->model->model.config), row->batching);
        return policy_dynamic_new(&(struct policy_dynamic_options){
                .batching = &batching,
                .filter = row->max_weight > 0 ? &s->filter : NULL,
                .equal_shapes = s->model->model.needs_equal_shapes,
                .n_delayed = row->n_delayed,
        });
}

static inline void script_open(struct queue_script *s, const struct queue_row *row) {
        char        text[1024];
        int         max_batch = row->max_batch == 0 ? 8 : row->max_batch < 0 ? 0 : row->max_batch;
        const char *inputs = row->inputs != NULL
                                     ? row->inputs
                                     : "input { name: 'X' data_type: TYPE_FP32 dims: 1 }";
        int len = snprintf(text, sizeof(text), "name: 'm' max_batch_size: %d %s %s%s%s", max_batch,
                           inputs, row->batching != NULL ? "dynamic_batching { " : "",
                           row->batching != NULL ? row->batching : "",
                           row->batching != NULL ? " }" : "");

        assert_true(len > 0 && (size_t)len < sizeof(text));
        *s = (struct queue_script){ .row = row,
                                    .now_ns = SCRIPT_START_NS,
                                    .filter = { .ops = script_filter_ops() } };
        s->model = fake_model_new(text);
        s->policy = script_policy(s, row);
        list_init(&s->idle);
        request_queue_init(&s->queue, s->policy->limits);
}

static inline void script_close(struct queue_script *s) {
        script_take_all(s);
        assert_int_equal(s->queue.n_waiting, 0);
        assert_int_equal(s->queue.dues.n, 0);
        request_queue_done(&s->queue);
        policy_free(s->policy);
        for (unsigned i = 0; i < s->n_requests; i++)
                request_free(s->requests[i]);
        fake_model_free(s->model);
}

static inline void script_run(const struct queue_row *row) {
        struct queue_script *s = malloc(sizeof(*s));
        char                *steps = strdup(row->steps);
        char                *next_step = NULL;

        assert_non_null(s);
        assert_non_null(steps);
        script_open(s, row);
        for (char *step = strtok_r(steps, ";", &next_step); step != NULL;
             step = strtok_r(NULL, ";", &next_step)) {
                char  *copy = strdup(step);
                char  *words[24] = { NULL };
                char  *next_word = NULL;
                size_t n = 0;

                s->step = step + strspn(step, " ");
                for (char *word = strtok_r(copy, " ", &next_word); word != NULL && n + 1 < 24;
                     word = strtok_r(NULL, " ", &next_word))
                        words[n++] = word;
                if (n > 0)
                        script_step(s, words);
                free(copy);
        }
        script_close(s);
        free(steps);
        free(s);
}

static inline void script_run_rows(const struct queue_row *rows, size_t n) {
        for (size_t i = 0; i < n; i++)
                script_run(&rows[i]);
}
