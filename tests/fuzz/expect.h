/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzz target expects of the code under test. Where it does not hold the process ends, which the fuzzer
 * reports with the input; the line before names the program and what was expected.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* `text` shows what is wrong. */
static inline void expect_str(bool holds, const char *what, struct str text) {
        if (holds)
                return;
        fprintf(stderr, "%s: %s%s%.*s\n", program_invocation_short_name, what,
                text.len > 0 ? ": " : "", STR_ARG(text));
        abort();
}

static inline void expect_of(bool holds, const char *what, const char *text) {
        expect_str(holds, what, str_of(text));
}

static inline void expect(bool holds, const char *what) {
        expect_str(holds, what, STR_LIT(""));
}

/* The condition is its own description. */
#define EXPECT(condition) expect(condition, #condition)

/* Frees it. True when there was none. */
static inline bool end_error(struct error *err) {
        if (err == NULL)
                return true;
        expect(err->message[0] != '\0', "an error without a text");
        error_free(err);
        return false;
}
