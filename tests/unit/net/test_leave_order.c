/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "net/leave_order.h"

#define NOW UINT64_C(5000000000)
#define MAX_PLACES 100

struct seat {
        struct leave_place place;
        enum leave_claim   claim;
        unsigned           n_looks;
};

struct room {
        struct list places;
        struct seat seats[MAX_PLACES];
};

static enum leave_claim claim_of(const struct leave_place *place, uint64_t now_ns) {
        struct seat *s = CONTAINER_OF(place, struct seat, place);

        assert_int_equal(now_ns, NOW);
        s->n_looks++;
        return s->claim;
}

/* One letter for each connection: in use, unread, new, idle. */
static void fill(struct room *r, const char *claims) {
        *r = (struct room){ 0 };
        list_init(&r->places);
        for (size_t i = 0; claims[i]; i++) {
                r->seats[i].claim = claims[i] == 'u'   ? LEAVE_STAYS
                                    : claims[i] == 'r' ? LEAVE_UNREAD
                                    : claims[i] == 'n' ? LEAVE_NEW
                                                       : LEAVE_IDLE;
                list_append(&r->places, &r->seats[i].place.node);
        }
}

/* The number of the seat that leaves; -1 = none. */
static int pick(struct room *r, enum leave_need need) {
        struct leave_place *p = leave_order_pick(&r->places, need, claim_of, NOW);

        return p != NULL ? (int)(CONTAINER_OF(p, struct seat, place) - r->seats) : -1;
}

static void test_idle_first(void **state) {
        static const struct {
                const char     *claims;
                enum leave_need need;
                int             leaves;
        } rows[] = {
                { "", LEAVE_TAKES_NEW, -1 },
                { "iii", LEAVE_SPARES_NEW, 0 },
                { "uri", LEAVE_SPARES_NEW, 2 },
                { "uur", LEAVE_TAKES_NEW, -1 },
                /* a new one stays while another can go */
                { "nui", LEAVE_SPARES_NEW, 2 },
                { "nui", LEAVE_TAKES_NEW, 2 },
                /* or while there are other places */
                { "nnn", LEAVE_SPARES_NEW, -1 },
                { "unn", LEAVE_TAKES_NEW, 1 },
                /* or while others may be able to go once they were read */
                { "nrr", LEAVE_TAKES_NEW, -1 },
                { "unr", LEAVE_TAKES_NEW, -1 },
                { "nri", LEAVE_TAKES_NEW, 2 },
        };
        struct room r;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                fill(&r, rows[i].claims);
                assert_int_equal(pick(&r, rows[i].need), rows[i].leaves);
        }
}

/* Those that were looked at are noted and go to the end; a new one is not noted, and stays in front. */
static void test_order(void **state) {
        struct room r;

        (void)state;
        fill(&r, "nuri");
        assert_int_equal(pick(&r, LEAVE_SPARES_NEW), 3);
        assert_int_equal(r.seats[0].place.noted_ns, 0);
        for (size_t i = 1; i < 4; i++)
                assert_int_equal(r.seats[i].place.noted_ns, NOW);
        assert_ptr_equal(list_first(&r.places), &r.seats[0].place.node);
        fill(&r, "uiu");
        assert_int_equal(pick(&r, LEAVE_SPARES_NEW), 1);
        assert_int_equal(r.seats[2].place.noted_ns, 0);
        assert_ptr_equal(list_first(&r.places), &r.seats[2].place.node);
}

/* The oldest of the new ones goes, however often they were looked at. */
static void test_oldest_new(void **state) {
        struct room r;

        (void)state;
        fill(&r, "nnn");
        assert_int_equal(pick(&r, LEAVE_SPARES_NEW), -1);
        assert_int_equal(pick(&r, LEAVE_TAKES_NEW), 0);
        r.seats[0].claim = LEAVE_STAYS; /* it is closing */
        assert_int_equal(pick(&r, LEAVE_TAKES_NEW), 1);
}

/* The looks are bounded, and the next search goes on behind them. */
static void test_bound(void **state) {
        char        claims[MAX_PLACES + 1] = { 0 };
        struct room r;
        unsigned    n = 0;

        (void)state;
        for (size_t i = 0; i < MAX_PLACES; i++)
                claims[i] = i == LEAVE_MAX_LOOKS ? 'i' : 'u';
        fill(&r, claims);
        assert_int_equal(pick(&r, LEAVE_TAKES_NEW), -1);
        for (size_t i = 0; i < MAX_PLACES; i++)
                n += r.seats[i].n_looks;
        assert_int_equal(n, LEAVE_MAX_LOOKS);
        assert_int_equal(pick(&r, LEAVE_TAKES_NEW), LEAVE_MAX_LOOKS);
}

/* One that was used since it was noted goes when the search comes to it again. */
static void test_few_places(void **state) {
        struct room r;

        (void)state;
        fill(&r, "uu");
        assert_int_equal(pick(&r, LEAVE_SPARES_NEW), -1);
        assert_int_equal(r.seats[0].n_looks, LEAVE_MAX_LOOKS / 2);
        r.seats[0].claim = LEAVE_IDLE;
        assert_int_equal(pick(&r, LEAVE_SPARES_NEW), 0);
}

SUITE(leave_order) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_idle_first), cmocka_unit_test(test_order),
                cmocka_unit_test(test_oldest_new), cmocka_unit_test(test_bound),
                cmocka_unit_test(test_few_places),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
