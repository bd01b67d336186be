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
#include <stdlib.h>

#include <cmocka.h>

/* Skips the test that calls it when the program of a cross-build runs under an emulator, which `reason`
 * says what it lacks. Meson sets the variable then. */
#define SKIP_WHEN_EMULATED(reason)                                                                 \
        do {                                                                                       \
                if (getenv("MESON_EXE_WRAPPER") != NULL) {                                         \
                        print_message("skipped: %s\n", reason);                                    \
                        skip();                                                                    \
                }                                                                                  \
        } while (0)

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
