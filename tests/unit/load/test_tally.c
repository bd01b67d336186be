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

SUITE(tally) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_many_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
