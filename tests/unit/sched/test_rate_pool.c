/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources of the rate limiter, in rows: what instances register, what is free after some was taken,
 * and which needs are refused.
 */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "sched/rate_pool.h"

#include <stdio.h>
#include <string.h>

#define MAX_RESOURCES 3
#define MAX_INSTANCES 4

struct resource {
        const char *name; /* NULL: no more */
        bool        is_global;
        uint32_t    count;
};

struct instance {
        struct resource resources[MAX_RESOURCES];
        int             device;
};

static struct error *start(struct rate_needs *needs, struct rate_pools *p,
                           const struct instance *instance) {
        Inference__ModelRateLimiter__Resource  resources[MAX_RESOURCES];
        Inference__ModelRateLimiter__Resource *list[MAX_RESOURCES];
        Inference__ModelRateLimiter            limits = INFERENCE__MODEL_RATE_LIMITER__INIT;

        for (; limits.n_resources < MAX_RESOURCES; limits.n_resources++) {
                const struct resource                 *r = &instance->resources[limits.n_resources];
                Inference__ModelRateLimiter__Resource *to = &resources[limits.n_resources];

                if (r->name == NULL)
                        break;
                inference__model_rate_limiter__resource__init(to);
                to->name = (char *)(uintptr_t)r->name;
                to->global = r->is_global;
                to->count = r->count;
                list[limits.n_resources] = to;
        }
        limits.resources = list;
        return rate_needs_init(needs, p, &limits, instance->device);
}

static void start_well(struct rate_needs *needs, struct rate_pools *p,
                       const struct instance *instance) {
        struct error *err = start(needs, p, instance);

        if (err != NULL)
                fail_msg("%s", err->message);
}

/* ---- what is refused ---- */

#define LIMITED(name, limit, count)                                                                \
        "Resource count for \"" name "\" is limited to " limit " which will prevent scheduling of" \
        " one or more model instances, the minimum required count is " count
#define BOTH(name)                                                                                 \
        "Resource \"" name "\" is present as both global and device-specific resource in the "     \
        "model configuration."

struct supply_row {
        const char        *label;
        struct rate_supply supplies[3];
        struct instance    instances[MAX_INSTANCES]; /* the last need is checked */
        size_t             n_instances;
        const char        *refusal; /* NULL: none */
};

static const struct supply_row rows[] = {
        { "no needs", { { 0 } }, { { { { 0 } }, 0 } }, 1, NULL },
        { "not named by the options: what is asked for",
          { { 0 } },
          { { { { "R", false, 7 } }, 0 } },
          1,
          NULL },
        { "not named, and the largest need counts",
          { { 0 } },
          { { { { "R", false, 2 } }, 0 }, { { { "R", false, 9 } }, 0 } },
          2,
          NULL },
        { "as much as there is",
          { { "R", 3, RATE_EACH_DEVICE } },
          { { { { "R", false, 3 } }, 5 } },
          1,
          NULL },
        { "more than there is",
          { { "R", 3, RATE_EACH_DEVICE } },
          { { { { "R", false, 4 } }, 5 } },
          1,
          LIMITED("R", "3", "4") },
        { "the device's own number counts before that of each device",
          { { "R", 3, RATE_EACH_DEVICE }, { "R", 8, 1 } },
          { { { { "R", false, 8 } }, 1 } },
          1,
          NULL },
        { "another device has that of each device",
          { { "R", 3, RATE_EACH_DEVICE }, { "R", 8, 1 } },
          { { { { "R", false, 8 } }, 2 } },
          1,
          LIMITED("R", "3", "8") },
        { "given for one device only: there is none on another",
          { { "R", 8, 1 } },
          { { { { "R", false, 1 } }, 2 } },
          1,
          LIMITED("R", "0", "1") },
        { "a global resource has no device",
          { { "R", 8, 1 } },
          { { { { "R", true, 8 } }, 2 } },
          1,
          NULL },
        { "a global resource that is short",
          { { "R", 8, RATE_EACH_DEVICE } },
          { { { { "R", true, 9 } }, 2 } },
          1,
          LIMITED("R", "8", "9") },
        { "global after one of a device",
          { { 0 } },
          { { { { "R", false, 1 } }, 0 }, { { { "R", true, 1 } }, 0 } },
          2,
          BOTH("R") },
        { "global and of a device in one instance",
          { { 0 } },
          { { { { "R", true, 1 }, { "R", false, 1 } }, 0 } },
          1,
          BOTH("R") },
        { "named twice: the sum",
          { { "R", 3, RATE_EACH_DEVICE } },
          { { { { "R", false, 2 }, { "R", false, 2 } }, 0 } },
          1,
          LIMITED("R", "3", "4") },
        { "the second of two resources is short",
          { { "R", 3, RATE_EACH_DEVICE }, { "S", 1, RATE_EACH_DEVICE } },
          { { { { "R", false, 3 }, { "S", false, 2 } }, 0 } },
          1,
          LIMITED("S", "1", "2") },
};

static size_t count_pools(const struct rate_pools *p) {
        size_t n = 0;

        for (const struct list_node *node = p->pools.head.next; node != &p->pools.head;
             node = node->next)
                n++;
        return n;
}

static void test_supplies(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct supply_row *row = &rows[i];
                struct rate_pools        p;
                struct rate_needs        needs[MAX_INSTANCES];
                struct error            *err;
                size_t                   n_supplies = 0, n_before, last = row->n_instances - 1;

                while (n_supplies < ARRAY_LEN(row->supplies) &&
                       row->supplies[n_supplies].name != NULL)
                        n_supplies++;
                rate_pools_init(&p, row->supplies, n_supplies);
                for (size_t k = 0; k < last; k++)
                        start_well(&needs[k], &p, &row->instances[k]);
                n_before = count_pools(&p);
                err = start(&needs[last], &p, &row->instances[last]);
                if (row->refusal == NULL) {
                        if (err != NULL)
                                fail_msg("%s: %s", row->label, err->message);
                        rate_needs_done(&needs[last], &p);
                } else {
                        if (err == NULL)
                                fail_msg("%s: was taken", row->label);
                        if (strcmp(err->message, row->refusal) != 0)
                                fail_msg("%s: %s", row->label, err->message);
                        assert_int_equal(err->code, ERR_INVALID_ARG);
                        error_free(err);
                }
                /* A refused instance leaves no trace. */
                assert_int_equal(count_pools(&p), n_before);
                for (size_t k = 0; k < last; k++)
                        rate_needs_done(&needs[k], &p);
                assert_int_equal(count_pools(&p), 0);
                rate_pools_done(&p);
        }
}

/* ---- what is free ---- */

static const struct instance three_of_r = { { { "R", false, 3 } }, 0 };
static const struct instance two_of_r = { { { "R", false, 2 } }, 0 };
static const struct instance two_elsewhere = { { { "R", false, 2 } }, 1 };
static const struct instance r_and_s = { { { "R", false, 1 }, { "S", false, 1 } }, 0 };

static void test_take_and_give_back(void **state) {
        const struct rate_supply supply = { "R", 5, RATE_EACH_DEVICE };
        struct rate_pools        p;
        struct rate_needs        a, b, c, elsewhere;

        (void)state;
        rate_pools_init(&p, &supply, 1);
        start_well(&a, &p, &three_of_r);
        start_well(&b, &p, &two_of_r);
        start_well(&c, &p, &two_of_r);
        start_well(&elsewhere, &p, &two_elsewhere);
        assert_true(rate_needs_are_free(&a, 1));
        rate_needs_take(&a);
        assert_true(rate_needs_are_free(&b, 1)); /* 3 and 2 of 5 */
        rate_needs_take(&b);
        assert_false(rate_needs_are_free(&c, 1));
        assert_true(rate_needs_are_free(&elsewhere, 1)); /* the other device has its own resource */
        rate_needs_release(&b);
        assert_true(rate_needs_are_free(&c, 1));
        rate_needs_release(&a);
        rate_needs_done(&elsewhere, &p);
        rate_needs_done(&c, &p);
        rate_needs_done(&b, &p);
        rate_needs_done(&a, &p);
        rate_pools_done(&p);
}

/* A claim that waits for one of its resources reserves its other resources until the end of the
 * round. */
static void test_reserved_for_a_round(void **state) {
        struct rate_pools p;
        struct rate_needs both, only_r;

        (void)state;
        rate_pools_init(&p, NULL, 0);
        start_well(&both, &p, &r_and_s);
        start_well(&only_r, &p, &two_of_r);
        rate_needs_reserve(&both, 7);
        assert_false(rate_needs_are_free(&only_r, 7));
        assert_false(rate_needs_are_free(&both, 7));
        assert_true(rate_needs_are_free(&only_r, 8));
        assert_true(rate_needs_are_free(&both, 8));
        rate_needs_done(&only_r, &p);
        rate_needs_done(&both, &p);
        rate_pools_done(&p);
}

/* Without a supply, the capacity shrinks with the largest need, even while more than that is taken. */
static void test_the_largest_need_goes(void **state) {
        struct rate_pools p;
        struct rate_needs large, small, other;

        (void)state;
        rate_pools_init(&p, NULL, 0);
        start_well(&large, &p, &three_of_r);
        start_well(&small, &p, &two_of_r);
        start_well(&other, &p, &two_of_r);
        rate_needs_take(&small);
        assert_false(rate_needs_are_free(&other, 1)); /* 2 and 2 of 3 */
        rate_needs_done(&large, &p);
        assert_false(rate_needs_are_free(&other, 1)); /* 2 and 2 of 2 */
        rate_needs_release(&small);
        assert_true(rate_needs_are_free(&other, 1));
        assert_int_equal(count_pools(&p), 1);
        rate_needs_done(&other, &p);
        rate_needs_done(&small, &p);
        assert_int_equal(count_pools(&p), 0);
        rate_pools_done(&p);
}

/* How often the need, which is 1, can be met now. */
static uint64_t capacity_left(const struct rate_needs *least) {
        uint64_t n = 0;

        for (; rate_needs_are_free(least, 1); n++)
                rate_needs_take(least);
        for (uint64_t i = 0; i < n; i++)
                rate_needs_release(least);
        return n;
}

/* Of several with the largest need the last one counts, and one that is refused does not. */
static void test_several_largest_needs(void **state) {
        static const struct instance one_of_r = { { { "R", false, 1 } }, 0 };
        static const struct instance refused = { { { "R", false, 9 }, { "R", true, 1 } }, 0 };
        struct rate_pools            p;
        struct rate_needs            one, two, three[2], none;

        (void)state;
        rate_pools_init(&p, NULL, 0);
        start_well(&three[0], &p, &three_of_r);
        start_well(&one, &p, &one_of_r);
        start_well(&two, &p, &two_of_r);
        start_well(&three[1], &p, &three_of_r);
        assert_int_equal(capacity_left(&one), 3);
        error_free(start(&none, &p, &refused));
        assert_int_equal(capacity_left(&one), 3);
        rate_needs_done(&three[0], &p);
        assert_int_equal(capacity_left(&one), 3);
        rate_needs_done(&three[1], &p);
        assert_int_equal(capacity_left(&one), 2);
        rate_needs_done(&two, &p);
        assert_int_equal(capacity_left(&one), 1);
        rate_needs_done(&one, &p);
        assert_int_equal(count_pools(&p), 0);
        rate_pools_done(&p);
}

SUITE(rate_pool) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_supplies),
                cmocka_unit_test(test_take_and_give_back),
                cmocka_unit_test(test_reserved_for_a_round),
                cmocka_unit_test(test_the_largest_need_goes),
                cmocka_unit_test(test_several_largest_needs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
