/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/lock.h"
#include "base/thread.h"
#include "infer/fake_model.h"
#include "infer/response_order.h"

#include <stdio.h>

#define N_REQUESTS 4

/* Requests "a", "b", … with a slot each, in this order, and what arrived. A response arrives as its
 * request's name, in upper case when it is FINAL; flags alone as "." or "!" when FINAL. */
struct desk {
        struct fake_model     *fake;
        struct response_order *order;
        struct request        *requests[N_REQUESTS];
        struct mutex           lock; /* rank LOCK_SERVER: completions come with no lock held */
        char                   arrived[64];
        struct request        *send_next; /* by the next completion: FINAL of this request */
};

static struct desk *desk; /* completions know their request only */

static void note(char c) {
        size_t n;

        MUTEX_GUARD(&desk->lock);
        n = strlen(desk->arrived);
        assert_in_range(n, 0, sizeof(desk->arrived) - 2);
        desk->arrived[n] = c;
        desk->arrived[n + 1] = '\0';
}

/* Takes err; what was refused is seen as "x". */
static void note_refusal(struct error *err) {
        if (err != NULL)
                note('x');
        error_free(err);
}

static void send(struct request *req, uint32_t flags) {
        struct response *r;

        assert_ok(response_new(req, &r), req->id);
        note_refusal(response_send(r, flags, NULL));
}

static void on_response(struct response *r, uint32_t flags, void *userp) {
        struct request *next = STEAL(desk->send_next);
        char            name = *(const char *)userp;
        bool            is_final = (flags & RESPONSE_FINAL) != 0;

        if (r == NULL) {
                note(is_final ? '!' : '.');
        } else {
                assert_true(r->source.id[0] == name && r->source.id[1] == '\0');
                note(is_final ? (char)(name - 'a' + 'A') : name);
        }
        response_free(r);
        if (next != NULL)
                send(next, RESPONSE_FINAL);
}

/* What a backend does at the end. */
static void let_slot_go(struct request *req) {
        response_ticket_unref(STEAL(req->order_ticket));
}

static void open_desk(struct desk *d) {
        static const char names[][2] = { "a", "b", "c", "d" };

        *d = (struct desk){ .fake = fake_model_new("name: 'm'"), .order = response_order_new() };
        desk = d;
        mutex_init(&d->lock, LOCK_SERVER);
        for (unsigned i = 0; i < N_REQUESTS; i++) {
                d->requests[i] = fake_request(d->fake);
                assert_ok(request_set_id(d->requests[i], names[i]), names[i]);
                d->requests[i]->on_response = on_response;
                d->requests[i]->on_response_userp = (void *)names[i];
                d->requests[i]->order_ticket = response_ticket_new(d->order);
        }
}

static void close_desk(struct desk *d) {
        response_order_unref(d->order);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                request_free(d->requests[i]);
        mutex_done(&d->lock);
        fake_model_free(d->fake);
}

/* a0 sends a response of request a, A0 a FINAL one; a! flags alone, FINAL; a. flags alone;
 * a- lets the slot go. What is refused arrives as x. Each step may be followed by "=..." : all
 * that has arrived since the last. */
static void play(const char *story) {
        struct desk d;
        size_t      n_seen = 0;

        open_desk(&d);
        for (const char *at = story; *at != '\0'; at += strspn(at, " ")) {
                size_t len = strcspn(at, " ");

                if (*at == '=') {
                        if (strlen(d.arrived) - n_seen != len - 1 ||
                            strncmp(d.arrived + n_seen, at + 1, len - 1) != 0)
                                fail_msg("in: %s\nat: %s\narrived: %s", story, at,
                                         d.arrived + n_seen);
                        n_seen = strlen(d.arrived);
                } else {
                        struct request *req = d.requests[(*at | 32) - 'a'];

                        switch (at[1]) {
                        case '!': note_refusal(request_send_flags(req, RESPONSE_FINAL)); break;
                        case '.': note_refusal(request_send_flags(req, 0)); break;
                        case '-': let_slot_go(req); break;
                        default: send(req, *at < 'a' ? RESPONSE_FINAL : 0); break;
                        }
                }
                at += len;
        }
        if (strlen(d.arrived) != n_seen)
                fail_msg("in: %s\narrived at the end: %s", story, d.arrived + n_seen);
        close_desk(&d);
}

static void test_order(void **state) {
        (void)state;
        /* In the order of requests, whoever is ready first. */
        play("A0 =A B0 =B C0 =C D0 =D");
        play("D0 = C0 = B0 = A0 =ABCD");
        play("B0 = A0 =AB D0 = C0 =CD");
        /* Several responses of one request; its slot ends with FINAL. */
        play("a0 =a a0 =a b0 = A0 =Ab b0 =b B0 =B");
        play("b0 b0 B0 = a0 =a A0 =AbbB");
        /* Backends let go of the request before or after its last response. */
        play("B0 b- = A0 =AB a-");
        play("a- B0 =B");
        play("b0 b- = a- =b C0 =C");
        play("b- C0 = A0 =AC");
        play("a- b- c- = D0 =D");
        play("=");
}

static void test_flags_alone(void **state) {
        (void)state;
        play("a! =! B0 =B");
        play("a0 a! =a! b! =!");
        /* They wait for their turn, behind the responses of the same request. */
        play("b0 b! = A0 =Ab!");
        play("b! c! = a! =!!! D0 =D");
        play("b! b- = a- =! C0 =C");
        play("b0 b! b- C0 c- = A0 =Ab!C");
        /* Without FINAL they say nothing, and nobody waits for them. */
        play("b. =. A0 =A");
}

/* After FINAL nobody expects anything. */
static void test_nothing_after_final(void **state) {
        (void)state;
        play("A0 =A a0 =x A0 =x a! =x a. =x B0 =B");
        play("B0 b0 B0 b! =xxx A0 =AB");
        play("b! b! B0 =xx A0 =A!");
        play("a! =! a0 =x a! =x");
}

/* The slot of a request that is freed without an answer. */
static void test_freed_request(void **state) {
        struct desk d;

        (void)state;
        open_desk(&d);
        send(d.requests[1], RESPONSE_FINAL);
        assert_string_equal(d.arrived, "");
        request_free(d.requests[0]);
        d.requests[0] = NULL;
        assert_string_equal(d.arrived, "B");
        close_desk(&d);
}

/* A completion that sends: what it adds leaves after it, not within it. */
static void test_completion_sends(void **state) {
        struct desk d;

        (void)state;
        open_desk(&d);
        send(d.requests[2], RESPONSE_FINAL);
        d.send_next = d.requests[1];
        send(d.requests[0], RESPONSE_FINAL);
        assert_string_equal(d.arrived, "ABC");
        close_desk(&d);
}

/* The order may go before its slots: a model is unloaded while a response is on its way. */
static void test_order_outlives_its_owner(void **state) {
        struct desk d;

        (void)state;
        open_desk(&d);
        send(d.requests[3], RESPONSE_FINAL);
        response_order_unref(STEAL(d.order));
        send(d.requests[0], RESPONSE_FINAL);
        let_slot_go(d.requests[0]);
        let_slot_go(d.requests[2]);
        send(d.requests[1], RESPONSE_FINAL);
        assert_string_equal(d.arrived, "ABD");
        close_desk(&d);
        response_order_unref(NULL);
        response_ticket_unref(NULL);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define N_MANY 2000
#define N_THREADS 4

/* Request i gets i % 3 plain responses, then FINAL; some as flags alone, some as nothing at all. */
struct crowd {
        struct fake_model *fake;
        struct request    *requests[N_MANY];
        unsigned           numbers[N_MANY];
        _Atomic unsigned   next; /* to be sent */
        _Atomic bool       is_inside;
        _Atomic unsigned   n_overlaps;
        unsigned           last; /* number of the last arrival's request; one delivers at a time */
        unsigned           n_disorders;
        unsigned           n_arrived;
        unsigned           n_finals;
};

static struct crowd *crowd;

static void on_crowd_response(struct response *r, uint32_t flags, void *userp) {
        unsigned number = *(unsigned *)userp;

        if (atomic_exchange(&crowd->is_inside, true))
                atomic_fetch_add(&crowd->n_overlaps, 1);
        crowd->n_disorders += number < crowd->last;
        crowd->last = number;
        crowd->n_arrived++;
        crowd->n_finals += (flags & RESPONSE_FINAL) != 0;
        atomic_store(&crowd->is_inside, false);
        response_free(r);
}

static void send_crowd(void *arg) {
        unsigned i;

        (void)arg;
        while ((i = atomic_fetch_add(&crowd->next, 1)) < N_MANY) {
                struct request  *req = crowd->requests[i];
                struct response *r;

                for (unsigned n = 0; n <= i % 3; n++)
                        if (response_new(req, &r) == NULL)
                                error_free(response_send(
                                        r, n == i % 3 && i % 5 < 3 ? RESPONSE_FINAL : 0, NULL));
                if (i % 5 == 3)
                        error_free(request_send_flags(req, RESPONSE_FINAL));
                let_slot_go(req);
        }
}

static void test_threads(void **state) {
        struct crowd          *c = calloc(1, sizeof(*c));
        struct response_order *order = response_order_new();
        struct thread          threads[N_THREADS] = { 0 };
        unsigned               n_expected = 0;
        unsigned               n_finals = 0;

        (void)state;
        assert_non_null(c);
        crowd = c;
        c->fake = fake_model_new("name: 'm'");
        for (unsigned i = 0; i < N_MANY; i++) {
                c->numbers[i] = i;
                c->requests[i] = fake_request(c->fake);
                c->requests[i]->on_response = on_crowd_response;
                c->requests[i]->on_response_userp = &c->numbers[i];
                c->requests[i]->order_ticket = response_ticket_new(order);
                n_expected += i % 3 + 1 + (i % 5 == 3);
                n_finals += i % 5 < 4;
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                assert_ok(thread_start(&threads[i], "sender", send_crowd, NULL), "thread");
        for (unsigned i = 0; i < N_THREADS; i++)
                thread_join(&threads[i]);
        assert_int_equal(c->n_disorders, 0);
        assert_int_equal(atomic_load(&c->n_overlaps), 0);
        assert_int_equal(c->n_arrived, n_expected);
        assert_int_equal(c->n_finals, n_finals);
        for (unsigned i = 0; i < N_MANY; i++)
                request_free(c->requests[i]);
        response_order_unref(order);
        fake_model_free(c->fake);
        free(c);
}

SUITE(response_order) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_flags_alone),
                cmocka_unit_test(test_nothing_after_final),
                cmocka_unit_test(test_freed_request),
                cmocka_unit_test(test_completion_sends),
                cmocka_unit_test(test_order_outlives_its_owner),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
