/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of the same code in which one allocation fails, each in turn: what comes of them is what comes
 * with enough memory, or an error that says that memory was short. A wrong text, or a success instead
 * of an error, is neither.
 *
 *     unsigned n = 0;
 *
 *     do {
 *             mem_fail_once(++n);
 *             err = check(c);
 *     } while (expect_or_shortage(err, ERR_INVALID_ARG, "the message"));
 */
#pragma once

#include "suite.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* Takes err. `message` NULL: nothing but a shortage is an error. True when an allocation has failed. */
static inline bool expect_or_shortage(struct error *err, enum error_code code,
                                      const char *message) {
        bool was_hit = mem_fail_was_hit();
        bool is_shortage = was_hit && err != NULL && strstr(err->message, "memory") != NULL;
        bool is_expected = (err == NULL && message == NULL) ||
                           (err != NULL && message != NULL && err->code == code &&
                            strcmp(err->message, message) == 0);

        mem_fail_after(0);
        if (!is_shortage && !is_expected)
                fail_msg("%s\ngot      %s\nexpected %s",
                         was_hit ? "an allocation failed" : "no allocation failed",
                         err != NULL ? err->message : "(no error)",
                         message != NULL ? message : "(no error)");
        error_free(err);
        return was_hit;
}
