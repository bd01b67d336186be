/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of sequences as rows: a layout of instances and slots, and a script on a clock that only
 * "at" moves. Steps are separated by ";". Times are microseconds. Sequences that are idle for 1000 end.
 *
 *     at 100                   sets the clock to 100 us
 *     push a1 1 start          pushes request a1 of sequence 1, with the START flag
 *     push a1 "x" start end timeout=50 conflict
 *                              a text as the id; a warning of a conflict is expected
 *     refused a2 1             as push, but START is missing
 *     own r1                   a request that is a sequence of its own
 *     done a1                  its instance ran and released it
 *     lost a1                  it was cancelled before its instance had it
 *     cancel a2                it waits, and is cancelled ("cancel a2 not": it does not wait)
 *     ready a1 b1              these may run now, in this order, since the last "ready"
 *     cancelled a2; expired a2 likewise; at the end of a row all three must be empty
 *     slot a1 1.0              it runs on instance 1 (from 0), in its slot 0
 *     top 0 2                  the slots of instance 0 in use are below 2
 *     counts 2 1               number of sequences with a slot, and in the backlog
 *     ended end=1 idle=1 cancelled=1 timeout=1
 *     due 500                  time at which a sequence ends by itself ("due never")
 *     add; retire 0; remove 0  an instance is added; takes no new sequences; is removed
 */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "sequence/sequence_table.h"

#include <stdio.h>

#define START_NS NS_PER_S
#define MAX_REQUESTS 32
#define MAX_PLACES 4

struct row {
        const char *rule;
        unsigned    n_instances;
        unsigned    n_slots;
        const char *steps;
};

static const struct row rows[] = {
        { "one request at a time, in order", 1, 1,
          "push a1 1 start; ready a1; push a2 1; push a3 1 end; ready none; done a1; ready a2; "
          "done a2; ready a3; counts 1 0; done a3; counts 0 0; ended end=1" },
        { "START is needed for an id that is not known", 1, 2,
          "refused a1 1; push a1 1 start; ready a1; refused b1 2; refused c1 'x'; done a1; "
          "push a2 1 end; ready a2; refused a3 1; done a2; refused a4 1" },
        { "END on an unknown id needs START as well", 1, 1, "refused a1 1 end" },
        { "a sequence of one request", 1, 1,
          "push a1 1 start end; ready a1; refused a2 1; done a1; counts 0 0; ended end=1" },
        { "a number and a text of its digits are different ids", 1, 2,
          "push a1 7 start; push b1 '7' start; ready a1 b1; counts 2 0; slot a1 0.0; slot b1 0.1" },
        { "slots: the lowest number first, then the oldest instance", 2, 2,
          "push a1 1 start; push b1 2 start; push c1 3 start; push d1 4 start; ready a1 b1 c1 d1; "
          "slot a1 0.0; slot b1 1.0; slot c1 0.1; slot d1 1.1; push e1 5 start; counts 4 1; "
          "done b1; push b2 2 end; ready b2; done b2; ready e1; slot e1 1.0" },
        { "a slot that was given back is taken before higher ones", 1, 4,
          "push a1 1 start; push b1 2 start; push c1 3 start; ready a1 b1 c1; top 0 3; done a1; "
          "push a2 1 end; ready a2; done a2; top 0 3; push d1 4 start; ready d1; slot d1 0.0; "
          "done c1; push c2 3 end; ready c2; done c2; top 0 2" },
        { "4 instances without batching: one slot each", 4, 1,
          "push a1 1 start; push b1 2 start; push c1 3 start; push d1 4 start; push e1 5 start; "
          "ready a1 b1 c1 d1; slot a1 0.0; slot d1 3.0; counts 4 1; done c1; push c2 3 end; "
          "ready c2; done c2; ready e1; slot e1 2.0" },
        { "1 instance with 4 slots", 1, 4,
          "push a1 1 start; push b1 2 start; push c1 3 start; push d1 4 start; push e1 5 start; "
          "ready a1 b1 c1 d1; slot d1 0.3; counts 4 1; top 0 4" },
        { "the backlog is in order of arrival", 1, 1,
          "push a1 1 start end; push b1 2 start; push c1 3 start; push b2 2 end; ready a1; "
          "counts 1 2; done a1; ready b1; done b1; ready b2; done b2; ready c1; counts 1 0" },
        { "END in the backlog: the id may start again, behind it", 1, 1,
          "push a1 1 start; ready a1; push b1 2 start; push b2 2 end; refused b3 2; "
          "push c1 2 start; counts 1 2; push a2 1 end; done a1; ready a2; done a2; ready b1; "
          "done b1; ready b2; done b2; ready c1; push c2 2 end; done c1; ready c2" },
        { "END with a slot: the id may start again, in another slot", 1, 2,
          "push a1 1 start; push a2 1 end; push b1 1 start; ready a1 b1; slot b1 0.1; "
          "done a1; ready a2" },
        { "a second START follows in the same slot", 1, 2,
          "push a1 1 start; push a2 1; push b1 1 start conflict; push b2 1 end; ready a1; "
          "done a1; ready a2; done a2; ready b1; slot b1 0.0; done b1; ready b2; done b2; "
          "counts 0 0; ended end=1" },
        { "a second START in the backlog follows as well", 1, 1,
          "push a1 1 start; push b1 2 start; push b2 2 start conflict; counts 1 1; ready a1; "
          "push a2 1 end; done a1; ready a2; done a2; ready b1; done b1; ready b2" },
        { "idle: the slot is released, and the id forgotten", 1, 1,
          "push a1 1 start; ready a1; due never; at 100; done a1; due 1100; push b1 2 start; "
          "counts 1 1; at 1099; ready none; at 1100; ready b1; counts 1 0; refused a2 1; "
          "ended idle=1" },
        { "a request under way is not idle", 1, 1,
          "push a1 1 start; ready a1; at 5000; counts 1 0; done a1; at 5500; push a2 1; ready a2; "
          "at 9000; done a2; due 10000; at 10000; counts 0 0; ended idle=1" },
        { "the backlog does not end by idleness", 1, 1,
          "push a1 1 start; push b1 2 start; ready a1; at 90000; counts 1 1; push b2 2; "
          "push a2 1 end; done a1; ready a2; done a2; ready b1" },
        { "timeout in the backlog: the shortest of its requests, for all of them", 1, 1,
          "push a1 1 start; ready a1; push b1 2 start timeout=500; push b2 2 timeout=100; "
          "push c1 3 start; due 100; at 99; expired none; at 100; expired b1 b2; counts 1 1; "
          "refused b3 2; ended timeout=1" },
        { "no timeout once it has a slot", 1, 1,
          "push a1 1 start end; ready a1; push b1 2 start timeout=100; at 50; done a1; ready b1; "
          "push b2 2 timeout=10; due never; at 400; expired none; done b1; ready b2" },
        { "cancelled at the front: the sequence is dropped, its slot released", 1, 1,
          "push a1 1 start; ready a1; push a2 1; push a3 1; push b1 2 start; lost a1; "
          "cancelled a2 a3; ready b1; refused a4 1; ended cancelled=1" },
        { "cancelled later: those before it still run", 1, 1,
          "push a1 1 start; ready a1; push a2 1; push a3 1; push a4 1; push b1 2 start; cancel a3; "
          "cancelled a3 a4; refused a5 1; counts 1 1; done a1; ready a2; done a2; ready b1; "
          "ended cancelled=1" },
        { "cancelled while its instance has it: not the table's", 1, 1,
          "push a1 1 start; ready a1; cancel a1 not; done a1; push a2 1; ready a2" },
        { "cancelled in the backlog", 1, 1,
          "push a1 1 start; ready a1; push b1 2 start; push b2 2; push c1 3 start; cancel b1; "
          "cancelled b1 b2; counts 1 1; refused b3 2; push a2 1 end; done a1; ready a2; done a2; "
          "ready c1; ended cancelled=1 end=1" },
        { "cancelled in the backlog, not at the front: its timeout goes with it", 1, 1,
          "push a1 1 start; ready a1; push b1 2 start timeout=900; push b2 2 timeout=100; due 100; "
          "cancel b2; cancelled b2; due 900; counts 1 1; push a2 1 end; done a1; ready a2; "
          "done a2; ready b1; done b1; ended cancelled=1 end=1; counts 0 0" },
        { "a new id of that text may start while the dropped one ends", 1, 2,
          "push a1 1 start; ready a1; push a2 1; cancel a2; cancelled a2; push b1 1 start; ready "
          "b1; "
          "slot b1 0.1; done a1; counts 1 0" },
        { "requests that are sequences of their own", 1, 1,
          "own r1; own r2; ready r1; counts 1 1; refused a1 1; done r1; ready r2; done r2; "
          "counts 0 0; ended end=2" },
        { "a new instance serves the backlog", 1, 1,
          "push a1 1 start; push b1 2 start; push c1 3 start; ready a1; add; ready b1; slot b1 "
          "1.0; "
          "counts 2 1; add; ready c1; slot c1 2.0" },
        { "an instance that leaves keeps its sequences and takes no others", 2, 2,
          "push a1 1 start; push b1 2 start; ready a1 b1; retire 0; push c1 3 start; "
          "push d1 4 start; ready c1; slot c1 1.1; counts 3 1; done a1; push a2 1; ready a2; "
          "slot a2 0.0; push a3 1 end; done a2; ready a3; done a3; ready none; remove 0; done b1; "
          "push b2 2 end; ready b2; done b2; ready d1; slot d1 1.0" },
        { "the idle time ends the sequences of an instance that leaves", 2, 1,
          "push a1 1 start; ready a1; done a1; retire 0; at 1000; counts 0 0; remove 0; "
          "push b1 2 start; ready b1; slot b1 1.0" },
};

struct story {
        const struct row      *row;
        const char            *step;
        struct fake_model     *model;
        struct sequence_table  table;
        struct sequence_place *places[MAX_PLACES];
        unsigned               n_places;
        uint64_t               now_ns;
        struct request        *requests[MAX_REQUESTS];
        unsigned               n_requests;
        char                   log[3][128]; /* ready, cancelled, expired */
};

#define FAIL(s, ...)                                                                               \
        do {                                                                                       \
                print_error("in \"%s\", at \"%s\":\n", (s)->row->rule, (s)->step);                 \
                fail_msg(__VA_ARGS__);                                                             \
        } while (0)

static void note(struct story *s, unsigned which, const struct request *req) {
        for (; req != NULL; req = req->queued.next) {
                size_t len = strlen(s->log[which]);

                snprintf(s->log[which] + len, sizeof(s->log[which]) - len, " %s", req->id);
        }
}

static void follow(struct story *s, const struct sequence_outcome *out) {
        note(s, 0, out->ready.first);
        note(s, 1, out->cancelled.first);
        note(s, 2, out->expired.first);
}

static struct request *find(struct story *s, const char *id) {
        for (unsigned i = s->n_requests; i > 0; i--)
                if (strcmp(s->requests[i - 1]->id, id) == 0)
                        return s->requests[i - 1];
        FAIL(s, "there is no request %s", id);
        return NULL;
}

static uint64_t time_of(const char *text) {
        return strcmp(text, "never") == 0 ? CLOCK_NEVER
                                          : START_NS + strtoull(text, NULL, 10) * NS_PER_US;
}

static void set_id(struct request *req, char *text) {
        if (*text != '\'') {
                req->correlation.number = strtoull(text, NULL, 10);
                return;
        }
        text[strlen(text) - 1] = '\0';
        assert_ok(request_set_correlation_text(req, text + 1), text);
}

static void push(struct story *s, char **words) {
        struct request         *req = fake_request(s->model);
        bool                    is_own = strcmp(words[0], "own") == 0;
        bool                    expects_conflict = false;
        struct sequence_outcome out;
        struct error           *err;

        assert_in_range(s->n_requests, 0, MAX_REQUESTS - 1);
        s->requests[s->n_requests++] = req;
        assert_ok(request_set_id(req, words[1]), words[1]);
        req->times.request_start_ns = s->now_ns;
        if (!is_own)
                set_id(req, words[2]);
        for (char **w = words + (is_own ? 2 : 3); *w != NULL; w++) {
                if (strcmp(*w, "start") == 0)
                        req->flags |= REQUEST_SEQUENCE_START;
                else if (strcmp(*w, "end") == 0)
                        req->flags |= REQUEST_SEQUENCE_END;
                else if (strncmp(*w, "timeout=", 8) == 0)
                        req->timeout_us = strtoull(*w + 8, NULL, 10);
                else
                        expects_conflict = true;
        }
        sequence_outcome_init(&out);
        err = sequence_table_push(&s->table, req, is_own ? SEQUENCE_OF_REQUEST : SEQUENCE_OF_CLIENT,
                                  s->now_ns, &out);
        follow(s, &out);
        if (strcmp(words[0], "refused") == 0) {
                char expected[160];

                snprintf(expected, sizeof(expected),
                         "inference request for sequence %s to model 'm' must specify the START "
                         "flag on the first request of the sequence",
                         *words[2] == '\'' ? words[2] + 1 : words[2]);
                assert_error(err, ERR_INVALID_ARG, expected);
                return;
        }
        if (err != NULL)
                FAIL(s, "refused: %s", err->message);
        if (out.has_conflict != expects_conflict)
                FAIL(s, "conflict: %d", out.has_conflict);
}

static void end_request(struct story *s, char **words) {
        struct request         *req = find(s, words[1]);
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        if (!req->has_sequence || req->sequence->running != req)
                FAIL(s, "%s is not with its instance", words[1]);
        sequence_table_released(&s->table, req, *words[0] == 'd', s->now_ns, &out);
        follow(s, &out);
}

static void cancel(struct story *s, char **words) {
        struct sequence_outcome out;
        bool                    is_expected = words[2] == NULL;

        sequence_outcome_init(&out);
        if (sequence_table_cancel(&s->table, find(s, words[1]), s->now_ns, &out) != is_expected)
                FAIL(s, "it does %swait", is_expected ? "not " : "");
        follow(s, &out);
}

static void expect(struct story *s, unsigned which, char **words) {
        char   expected[128] = "";
        size_t len = 0;

        for (char **w = words + 1; *w != NULL && strcmp(*w, "none") != 0; w++)
                len += (size_t)snprintf(expected + len, sizeof(expected) - len, " %s", *w);
        if (strcmp(expected, s->log[which]) != 0)
                FAIL(s, "it is%s", s->log[which]);
        s->log[which][0] = '\0';
}

static void expect_ended(struct story *s, char **words) {
        static const char *const names[] = { "end=", "idle=", "cancelled=", "timeout=" };

        for (unsigned i = 0; i < N_SEQUENCE_ENDS; i++) {
                uint64_t expected = 0;

                for (char **w = words + 1; *w != NULL; w++)
                        if (strncmp(*w, names[i], strlen(names[i])) == 0)
                                expected = strtoull(*w + strlen(names[i]), NULL, 10);
                if (s->table.n_ended[i] != expected)
                        FAIL(s, "%s%llu", names[i], (unsigned long long)s->table.n_ended[i]);
        }
}

static void expect_slot(struct story *s, char **words) {
        const struct request *req = find(s, words[1]);
        char                  got[32] = "none";

        if (req->has_sequence && req->sequence->slot != NULL)
                snprintf(got, sizeof(got), "%u.%u", req->sequence->slot->place->order,
                         req->sequence->slot->number);
        if (strcmp(got, words[2]) != 0)
                FAIL(s, "slot %s", got);
}

static void move_clock(struct story *s, const char *text) {
        struct sequence_outcome out;

        s->now_ns = time_of(text);
        sequence_outcome_init(&out);
        sequence_table_expire(&s->table, s->now_ns, &out);
        follow(s, &out);
        assert_true(sequence_table_next_due(&s->table) > s->now_ns);
}

static void add_place(struct story *s) {
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        assert_in_range(s->n_places, 0, MAX_PLACES - 1);
        s->places[s->n_places++] = sequence_table_add_place(&s->table, s, &out);
        follow(s, &out);
}

static void change_places(struct story *s, char **words) {
        unsigned at = words[1] != NULL ? (unsigned)atoi(words[1]) : 0;

        if (strcmp(words[0], "add") == 0) {
                add_place(s);
        } else if (strcmp(words[0], "retire") == 0) {
                sequence_table_retire_place(&s->table, s->places[at]);
        } else {
                assert_int_equal(s->places[at]->n_active, 0);
                sequence_table_remove_place(&s->table, s->places[at]);
                s->places[at] = NULL;
        }
}

static void step(struct story *s, char **words) {
        const char *verb = words[0];

        if (strcmp(verb, "at") == 0)
                move_clock(s, words[1]);
        else if (strcmp(verb, "push") == 0 || strcmp(verb, "refused") == 0 ||
                 strcmp(verb, "own") == 0)
                push(s, words);
        else if (strcmp(verb, "done") == 0 || strcmp(verb, "lost") == 0)
                end_request(s, words);
        else if (strcmp(verb, "cancel") == 0)
                cancel(s, words);
        else if (strcmp(verb, "ready") == 0)
                expect(s, 0, words);
        else if (strcmp(verb, "cancelled") == 0)
                expect(s, 1, words);
        else if (strcmp(verb, "expired") == 0)
                expect(s, 2, words);
        else if (strcmp(verb, "slot") == 0)
                expect_slot(s, words);
        else if (strcmp(verb, "ended") == 0)
                expect_ended(s, words);
        else if (strcmp(verb, "top") == 0)
                assert_int_equal(s->places[atoi(words[1])]->n_top, atoi(words[2]));
        else if (strcmp(verb, "counts") == 0) {
                if (s->table.n_active != strtoull(words[1], NULL, 10) ||
                    s->table.n_backlog != strtoull(words[2], NULL, 10))
                        FAIL(s, "counts %llu %llu", (unsigned long long)s->table.n_active,
                             (unsigned long long)s->table.n_backlog);
        } else if (strcmp(verb, "due") == 0) {
                if (sequence_table_next_due(&s->table) != time_of(words[1]))
                        FAIL(s, "due at %lld us",
                             (long long)(sequence_table_next_due(&s->table) - START_NS) / 1000);
        } else {
                change_places(s, words);
        }
}

/* Ends all sequences that are left, so that the table becomes empty. */
static void finish(struct story *s) {
        struct sequence_outcome out;

        for (unsigned which = 0; which < 3; which++)
                if (s->log[which][0] != '\0')
                        FAIL(s, "left over:%s", s->log[which]);
        for (unsigned i = 0; i < s->n_requests; i++) {
                struct request *req = s->requests[i];

                sequence_outcome_init(&out);
                if (!req->has_sequence || req->sequence == NULL)
                        continue;
                if (req->sequence->running == req)
                        sequence_table_released(&s->table, req, false, s->now_ns, &out);
                else
                        assert_true(sequence_table_cancel(&s->table, req, s->now_ns, &out));
                i = (unsigned)-1; /* other requests may have become ready */
        }
        assert_int_equal(s->table.n_active_requests, 0);
        assert_int_equal(s->table.n_backlog_requests, 0);
}

static void run(const struct row *row) {
        struct story s = { .row = row, .now_ns = START_NS };
        AUTO_CHARS   steps = mem_strdup(row->steps);
        char        *next = steps, *text;

        s.model = fake_model_new("name: 'm' max_batch_size: 8");
        assert_ok(sequence_table_init(&s.table, row->n_slots, 1000 * NS_PER_US), "table");
        for (unsigned i = 0; i < row->n_instances; i++)
                add_place(&s);
        while ((text = strsep(&next, ";")) != NULL) {
                char    *words[16] = { NULL };
                char    *copy = mem_strdup(text), *left = copy, *word;
                unsigned n = 0;

                s.step = text;
                while ((word = strsep(&left, " ")) != NULL)
                        if (*word != '\0' && n < ARRAY_LEN(words) - 1)
                                words[n++] = word;
                step(&s, words);
                free(copy);
        }
        s.step = "the end";
        finish(&s);
        sequence_table_done(&s.table);
        for (unsigned i = 0; i < s.n_places; i++)
                if (s.places[i] != NULL)
                        sequence_table_remove_place(&s.table, s.places[i]);
        for (unsigned i = 0; i < s.n_requests; i++)
                request_free(s.requests[i]);
        fake_model_free(s.model);
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                run(&rows[i]);
}

/* When memory is short, a request is refused, and nothing else changes. */
static void test_short_memory(void **state) {
        struct story            s = { .row = &rows[0], .step = "short memory", .now_ns = START_NS };
        struct request         *first, *second;
        struct sequence_outcome out;

        (void)state;
        s.model = fake_model_new("name: 'm' max_batch_size: 8");
        assert_ok(sequence_table_init(&s.table, 1, 1000), "table");
        add_place(&s);
        first = fake_request(s.model);
        second = fake_request(s.model);
        first->correlation.number = second->correlation.number = 5;
        first->flags = REQUEST_SEQUENCE_START;
        sequence_outcome_init(&out);
        mem_fail_after(1);
        struct error *err =
                sequence_table_push(&s.table, first, SEQUENCE_OF_CLIENT, START_NS, &out);
        mem_fail_after(0);
        assert_non_null(err);
        error_free(err);
        assert_int_equal(s.table.n_active + s.table.n_backlog, 0);
        assert_false(sequence_table_knows(&s.table, first));
        assert_ok(sequence_table_push(&s.table, first, SEQUENCE_OF_CLIENT, START_NS, &out), "push");
        assert_ptr_equal(out.ready.first, first);
        assert_true(sequence_table_knows(&s.table, second));
        sequence_outcome_init(&out);
        sequence_table_released(&s.table, first, false, START_NS, &out);
        sequence_table_done(&s.table);
        sequence_table_remove_place(&s.table, s.places[0]);
        request_free(first);
        request_free(second);
        fake_model_free(s.model);
}

SUITE(sequence_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_short_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
