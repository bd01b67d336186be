/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test includes: cmocka, and the name of the file's suite.
 *
 * The tests of one folder are linked into one program. Each file is a suite of it and ends with
 *
 *     SUITE(json_reader) {
 *             const struct CMUnitTest tests[] = { cmocka_unit_test(test_numbers) };
 *
 *             return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * meson.build of the folder lists the same name, and Meson runs each suite in a process of its own:
 * `test_codec json_reader`. `test_codec` without a name runs all suites, `test_codec -l` lists them.
 */
#pragma once

/* cmocka.h needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Returns the number of tests that failed. */
typedef int (*suite_fn)(void);

struct suite {
        const char *name;
        suite_fn    run;
};

/* The suites of this program, written by Meson; a row without a name ends them. */
extern const struct suite suites[];

#define SUITE(name)                                                                                \
        int suite_##name(void);                                                                    \
        int suite_##name(void)
