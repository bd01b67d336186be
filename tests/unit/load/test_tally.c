/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "load/report_json.h"
#include "load/tally.h"

#include <stdio.h>

static void add_error(struct tally *t, int code, int number) {
        char          text[32];
        struct answer a = { .kind = ANSWER_REFUSED, .code = code };

        snprintf(text, sizeof(text), "error %d", number);
        a.text = str_of(text);
        tally_add_error(t, &a);
}

/* Errors beyond the table are counted together, as no kind of their own. */
static void test_many_errors(void **state) {
        struct tally *t = tally_new(false), *sum = tally_new(false);
        char          kind[32];

        (void)state;
        for (int i = 0; i < TALLY_MAX_ERRORS + 4; i++)
                add_error(t, 500, i);
        tally_merge(sum, t);
        tally_merge(sum, t);
        assert_int_equal(sum->n_failed, 2 * (TALLY_MAX_ERRORS + 4));
        assert_int_equal(sum->n_errors, TALLY_MAX_ERRORS);
        assert_int_equal(sum->errors[0].n, 2);
        assert_string_equal(report_error_kind(&sum->errors[0], kind, sizeof(kind)), "status 500");
        assert_int_equal(sum->errors[TALLY_MAX_ERRORS - 1].n, 2 * 5);
        assert_string_equal(sum->errors[TALLY_MAX_ERRORS - 1].text, "other errors");
        assert_string_equal(report_error_kind(&sum->errors[TALLY_MAX_ERRORS - 1], kind,
                                              sizeof(kind)),
                            "various");
        tally_free(t);
        tally_free(sum);
}

static void put_request(struct tally *t, uint64_t at, uint64_t n_responses) {
        uint64_t *record = &t->log[t->n_log];

        record[0] = at;
        record[1] = 0;
        record[2] = n_responses;
        for (uint64_t i = 0; i < n_responses; i++)
                record[3 + i] = at + i;
        t->n_log += 3 + n_responses;
}

/* A request that has no room is left out with all of its numbers, and counted; a shorter one may have room. */
static void test_logs_are_joined(void **state) {
        struct tally *t = tally_new(true), *other = tally_new(true);

        (void)state;
        put_request(other, 5, 2);
        put_request(other, 6, 4);
        put_request(other, 7, 1);
        tally_append_log(t, other);
        assert_int_equal(t->n_log, 5 + 7 + 4);
        assert_memory_equal(t->log, other->log, t->n_log * sizeof(*t->log));
        assert_int_equal(t->n_unlogged, 0);

        t->n_log = TALLY_MAX_LOG - 10;
        tally_append_log(t, other);
        assert_int_equal(t->n_log, TALLY_MAX_LOG - 10 + 5 + 4);
        assert_int_equal(t->n_unlogged, 1);
        assert_int_equal(t->log[TALLY_MAX_LOG - 5], 7);
        tally_free(t);
        tally_free(other);
}

SUITE(tally) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_many_errors),
                cmocka_unit_test(test_logs_are_joined),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
