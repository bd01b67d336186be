/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares of models that compete for a resource, on a clock of the test: each instance behaves as one of
 * sched/pull_engine.c does, and executions that end at the same time end in any order.
 *
 * The rule: the instance with the lowest executions x max(1, priority) is next. So models with the same
 * number of instances share by 1 / priority as long as each has a request that waits when one of its
 * executions ends.
 */
#include "suite.h"

#include "infer/fake_model.h"
#include "sched/rate_limiter.h"

#include <stdint.h>

#define N_MODELS 2
#define MAX_INSTANCES 4
#define NEVER UINT64_MAX

struct play;

struct player {
        struct play       *play;
        struct rate_claim *claim;
        unsigned           model;
        uint64_t           end; /* of its execution; NEVER: it does not execute */
};

struct line {
        struct rate_group *group;
        unsigned           n_waiting;  /* requests */
        unsigned           n_executed; /* executions that have ended */
        unsigned           n_sent;
        bool               has_stopped; /* its client sends no more */
};

struct play {
        struct rate_limiter *limiter;
        struct model_config *configs[N_MODELS];
        struct line          lines[N_MODELS];
        struct player        players[N_MODELS * MAX_INSTANCES];
        unsigned             n_players;
        unsigned             n_units;
        uint64_t             now, duration;
        unsigned             n_on_permit; /* executions at this moment */
        uint64_t             random;
};

static void execute(struct player *p) {
        struct play *play = p->play;
        struct line *line = &play->lines[p->model];

        assert_int_equal(p->end, NEVER);
        assert_in_range(line->n_waiting, 1, 1000000); /* it asked for this request */
        line->n_waiting--;
        p->end = play->now + play->duration;
        assert_in_range(++play->n_on_permit, 1, play->n_units);
}

/* Asks until there is no request or no permit, as the engine does after each batch that it has taken. */
static void ask(struct line *line) {
        while (line->n_waiting > 0) {
                struct player *p = rate_group_ask(line->group);

                if (p == NULL)
                        return;
                execute(p);
        }
        rate_group_withdraw(line->group);
}

static void on_permit(void *instance) {
        struct player *p = instance;

        execute(p);
}

/* After permits were delivered, their instances ask for the others of their models. */
static void deliver(struct play *play) {
        while (rate_limiter_has_permits(play->limiter)) {
                rate_limiter_deliver(play->limiter);
                for (unsigned i = 0; i < N_MODELS; i++)
                        ask(&play->lines[i]);
        }
}

/* The instance asks for its next request before it returns its permit. */
static void end_execution(struct player *p) {
        struct play *play = p->play;
        struct line *line = &play->lines[p->model];

        p->end = NEVER;
        play->n_on_permit--;
        line->n_executed++;
        ask(line);
        rate_claim_end(p->claim, RATE_PERMIT_EXECUTED);
        deliver(play);
}

static void send_request(struct play *play, unsigned model) {
        struct line *line = &play->lines[model];

        line->n_sent++;
        line->n_waiting++;
        ask(line);
        deliver(play);
}

/* n_instances of a model with priority 1, and of one with priority 2; each needs one of n_units. */
static void open_play(struct play *play, unsigned n_instances, unsigned n_units) {
        static const char *const configs[N_MODELS] = {
                "instance_group { rate_limiter { priority: 1 resources { name: 'R' count: 1 } } }",
                "instance_group { rate_limiter { priority: 2 resources { name: 'R' count: 1 } } }",
        };
        const struct rate_supply supply = { "R", n_units, -1 };

        *play = (struct play){ .n_units = n_units,
                               .duration = 100,
                               .random = UINT64_C(0x9e3779b97f4a7c15) };
        play->limiter = rate_limiter_new(&supply, 1);
        for (unsigned m = 0; m < N_MODELS; m++) {
                play->lines[m].group = rate_group_new(play->limiter);
                assert_ok(model_config_read_text(str_of(configs[m]), NULL, &play->configs[m]),
                          "config");
                for (unsigned i = 0; i < n_instances; i++) {
                        struct player *p = &play->players[play->n_players++];

                        *p = (struct player){ .play = play, .model = m, .end = NEVER };
                        assert_ok(rate_claim_new(play->lines[m].group,
                                                 &(struct rate_claim_options){
                                                         .limits = play->configs[m]
                                                                           ->pb->instance_group[0]
                                                                           ->rate_limiter,
                                                         .on_permit = on_permit,
                                                         .instance = p },
                                                 &p->claim),
                                  "claim");
                }
        }
}

static void close_play(struct play *play) {
        for (unsigned i = 0; i < play->n_players; i++)
                rate_claim_free(play->players[i].claim);
        for (unsigned m = 0; m < N_MODELS; m++) {
                rate_group_free(play->lines[m].group);
                model_config_free(play->configs[m]);
        }
        rate_limiter_free(play->limiter);
}

/* Moves the clock to the next end. */
static void move_on(struct play *play) {
        uint64_t next = NEVER;

        for (unsigned i = 0; i < play->n_players; i++)
                next = MIN(next, play->players[i].end);
        assert_int_not_equal(next, NEVER);
        play->now = next;
}

static unsigned draw(struct play *play, unsigned below) {
        play->random ^= play->random << 13;
        play->random ^= play->random >> 7;
        play->random ^= play->random << 17;
        return (unsigned)((play->random >> 11) % below);
}

enum order { FIRST_FIRST, LAST_FIRST, ANY_ORDER };

/* Returns one whose execution ends now; NULL: none does any more. */
static struct player *next_ended(struct play *play, enum order order) {
        unsigned n = play->n_players;
        unsigned from = order == ANY_ORDER ? draw(play, n) : 0;

        for (unsigned i = 0; i < n; i++) {
                unsigned       at = (from + i) % n;
                struct player *p = &play->players[order == LAST_FIRST ? n - 1 - at : at];

                if (p->end == play->now)
                        return p;
        }
        return NULL;
}

/* All requests wait from the beginning, so each instance always has one. All executions take the same
 * time: as many end at once as there are units. */
static void check_shares(unsigned n_instances, unsigned n_units, enum order order) {
        struct play play;
        unsigned    n_all = 3000;

        open_play(&play, n_instances, n_units);
        for (unsigned m = 0; m < N_MODELS; m++)
                play.lines[m].n_waiting = n_all;
        for (unsigned m = 0; m < N_MODELS; m++)
                ask(&play.lines[m]);
        while (play.lines[0].n_executed + play.lines[1].n_executed < n_all) {
                struct player *p;

                move_on(&play);
                while ((p = next_ended(&play, order)) != NULL) {
                        end_execution(p);
                        assert_int_equal(play.n_on_permit, n_units); /* no unit is idle */
                }
                /* At no time is a model ahead by more than one execution of each instance. */
                assert_in_range(2 * play.lines[1].n_executed + n_instances + 1 -
                                        play.lines[0].n_executed,
                                0, 2 * (n_instances + 1));
        }
        close_play(&play);
}

static void test_ends_at_the_same_time(void **state) {
        (void)state;
        for (unsigned n_instances = 1; n_instances <= MAX_INSTANCES; n_instances++)
                for (unsigned n_units = 1; n_units <= n_instances; n_units++)
                        for (enum order order = FIRST_FIRST; order <= ANY_ORDER; order++)
                                check_shares(n_instances, n_units, order);
}

/* A client for each model that keeps eight requests in flight and sends the next one when an answer
 * comes. When one of them has sent 80 requests, it stops, and the other one sends the one that it waits
 * to send. At that moment 72 and 36 have been executed: two to one. But eight of each are in flight, so
 * 80 and 45 are answered in all, and 80 / 45 is 1.78. */
static void test_two_clients_with_eight_in_flight(void **state) {
        struct play    play;
        struct player *p;

        (void)state;
        open_play(&play, 1, 1);
        for (unsigned i = 0; i < 8; i++)
                for (unsigned m = 0; m < N_MODELS; m++)
                        send_request(&play, m);
        while (!play.lines[0].has_stopped) {
                move_on(&play);
                p = next_ended(&play, FIRST_FIRST);
                end_execution(p);
                assert_in_range(2 * play.lines[1].n_executed + 2 - play.lines[0].n_executed, 0, 4);
                send_request(&play, p->model);
                play.lines[0].has_stopped = play.lines[0].n_sent == 80;
        }
        assert_int_equal(play.lines[0].n_executed, 72);
        assert_int_equal(play.lines[1].n_executed, 36);
        while (play.n_on_permit > 0) {
                move_on(&play);
                p = next_ended(&play, FIRST_FIRST);
                end_execution(p);
                if (!play.lines[p->model].has_stopped)
                        send_request(&play, p->model);
                play.lines[p->model].has_stopped = true;
        }
        assert_int_equal(play.lines[0].n_executed, 80);
        assert_int_equal(play.lines[1].n_executed, 45);
        close_play(&play);
}

/* A client that waits for each answer has no request that waits when its execution ends: then the other
 * model is next, whatever the priorities. */
static void test_two_clients_with_one_in_flight(void **state) {
        struct play play;

        (void)state;
        open_play(&play, 1, 1);
        for (unsigned m = 0; m < N_MODELS; m++)
                send_request(&play, m);
        for (unsigned i = 0; i < 200; i++) {
                struct player *p;

                move_on(&play);
                p = next_ended(&play, FIRST_FIRST);
                end_execution(p);
                send_request(&play, p->model);
        }
        assert_int_equal(play.lines[0].n_executed, 100);
        assert_int_equal(play.lines[1].n_executed, 100);
        close_play(&play);
}

SUITE(rate_shares) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ends_at_the_same_time),
                cmocka_unit_test(test_two_clients_with_eight_in_flight),
                cmocka_unit_test(test_two_clients_with_one_in_flight),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
