/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/error.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

static void test_new_keeps_code_and_text(void **state) {
        (void)state;
        AUTO_ERROR err = error_new(ERR_NOT_FOUND, "model '%s' version %d", "m", 7);

        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_string_equal(err->message, "model 'm' version 7");
        assert_false(err->is_static);
}

static void test_new_text_is_not_a_format(void **state) {
        (void)state;
        AUTO_ERROR err = error_new_text(ERR_INVALID_ARG, "100%s of %n");

        assert_string_equal(err->message, "100%s of %n");
}

static void test_message_has_no_limit(void **state) {
        (void)state;
        char *text = mem_alloc(100001);

        memset(text, 'x', 100000);
        text[100000] = '\0';
        AUTO_ERROR err = error_new(ERR_INTERNAL, "<%s>", text);
        assert_int_equal(strlen(err->message), 100002);
        assert_int_equal(err->message[100001], '>');
        free(text);
}

static void test_wrap_and_prefix(void **state) {
        (void)state;
        struct error *err = error_new(ERR_UNAVAILABLE, "queue is full");

        err = error_wrap(err, "model '%s'", "m");
        assert_string_equal(err->message, "model 'm': queue is full");
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        err = error_prefix(err, "[%s] ", "id");
        assert_string_equal(err->message, "[id] model 'm': queue is full");
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        error_free(err);

        err = error_at(error_new(ERR_INVALID_ARG, "no option '--b'"), "field");
        err = error_suggest(err, "--", NULL);
        assert_string_equal(err->message, "no option '--b'");
        err = error_suggest(err, "--", "a");
        assert_string_equal(err->message, "no option '--b'; did you mean '--a'?");
        assert_string_equal(err->field, "field");
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);

        assert_null(error_wrap(NULL, "nothing"));
        assert_null(error_prefix(NULL, "nothing"));
        assert_null(error_append(NULL, "nothing"));
        assert_null(error_recode(NULL, ERR_INTERNAL));
        assert_null(error_copy(NULL));
        error_free(NULL);
}

static void test_kind_stays_with_the_message(void **state) {
        static struct error full = ERROR_STATIC(ERR_UNAVAILABLE, "full");
        struct error       *err = error_new(ERR_UNAVAILABLE, "load failed for model 'm': full");

        (void)state;
        assert_false(error_is(err, ERROR_KIND_LOAD)); /* the text does not count */
        err = error_recode(error_mark(err, ERROR_KIND_LOAD), ERR_INVALID_ARG);
        assert_true(error_is(err, ERROR_KIND_LOAD));
        {
                AUTO_ERROR copy = error_copy(err);

                assert_true(error_is(copy, ERROR_KIND_LOAD));
        }
        err = error_wrap(err, "no answer");
        assert_false(error_is(err, ERROR_KIND_LOAD));
        error_free(err);
        assert_ptr_equal(error_mark(&full, ERROR_KIND_LOAD), &full);
        assert_false(error_is(&full, ERROR_KIND_LOAD));
        assert_null(error_mark(NULL, ERROR_KIND_LOAD));
        assert_false(error_is(NULL, ERROR_KIND_NONE));
}

static void test_static_errors_are_never_changed(void **state) {
        static struct error full = ERROR_STATIC(ERR_UNAVAILABLE, "full");
        (void)state;
        struct error *recoded = error_recode(&full, ERR_CANCELLED);

        assert_ptr_not_equal(recoded, &full);
        assert_int_equal(full.code, ERR_UNAVAILABLE);
        assert_int_equal(recoded->code, ERR_CANCELLED);
        assert_string_equal(recoded->message, "full");
        error_free(recoded);

        AUTO_ERROR wrapped = error_wrap(&full, "m");
        assert_string_equal(wrapped->message, "m: full");
        assert_string_equal(full.message, "full");
        error_free(&full); /* no effect */
        assert_string_equal(full.message, "full");
}

static void test_recode_in_place(void **state) {
        (void)state;
        struct error *err = error_new(ERR_INTERNAL, "x");
        AUTO_ERROR    recoded = error_recode(err, ERR_UNSUPPORTED);

        assert_ptr_equal(recoded, err);
        assert_int_equal(recoded->code, ERR_UNSUPPORTED);
}

static void test_copy_is_apart(void **state) {
        (void)state;
        struct error *err = error_new(ERR_ALREADY_EXISTS, "one");
        AUTO_ERROR    copy = error_copy(err);

        error_free(err);
        assert_int_equal(copy->code, ERR_ALREADY_EXISTS);
        assert_string_equal(copy->message, "one");
}

static void test_field(void **state) {
        static struct error fixed = ERROR_STATIC(ERR_INVALID_ARG, "always the same");

        (void)state;
        AUTO_ERROR err = error_new(ERR_INVALID_ARG, "too small");

        assert_null(err->field);
        err = error_at(error_at(err, "dims[%d]", 2), "input[%d]", 0);
        assert_string_equal(err->field, "input[0].dims[2]");
        assert_string_equal(err->message, "too small");
        /* It goes along. */
        err = error_prefix(error_wrap(err, "outside"), "> ");
        err = error_recode(err, ERR_INTERNAL);
        AUTO_ERROR copy = error_copy(err);
        assert_string_equal(err->field, "input[0].dims[2]");
        assert_string_equal(copy->field, "input[0].dims[2]");
        assert_string_equal(copy->message, "> outside: too small");
        assert_null(error_at(NULL, "input"));
        assert_ptr_equal(error_at(&fixed, "input"), &fixed);
        assert_null(fixed.field);
}

static void test_new_with_field(void **state) {
        (void)state;
        AUTO_ERROR err = error_at(error_in_field("dims", "%d is %s", 2, "too small"), "input[0]");

        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "2 is too small");
        assert_string_equal(err->field, "input[0].dims");
}

static void test_errno(void **state) {
        (void)state;
        AUTO_ERROR absent = error_errno(ENOENT, "unable to open '%s'", "x");
        AUTO_ERROR denied = error_errno(EACCES, "unable to open '%s'", "x");

        assert_int_equal(absent->code, ERR_NOT_FOUND);
        assert_string_equal(absent->message, "unable to open 'x': No such file or directory");
        assert_int_equal(denied->code, ERR_INTERNAL);
        assert_string_equal(denied->message, "unable to open 'x': Permission denied");
}

static void test_out_of_memory_still_gives_an_error(void **state) {
        (void)state;
        struct error *err;

        mem_fail_after(1);
        err = error_new(ERR_NOT_FOUND, "%d", 1);
        mem_fail_after(0);
        assert_int_equal(err->code, ERR_INTERNAL);
        assert_string_equal(err->message, "out of memory");
        assert_true(err->is_static);
        error_free(err);
}

static struct error *two_steps(struct error *first, int *ret_reached) {
        TRY(first);
        *ret_reached = 1;
        return NULL;
}

static void test_try(void **state) {
        (void)state;
        int        reached = 0;
        AUTO_ERROR err = two_steps(error_new(ERR_INTERNAL, "no"), &reached);

        assert_non_null(err);
        assert_int_equal(reached, 0);
        assert_null(two_steps(NULL, &reached));
        assert_int_equal(reached, 1);
}

static void test_code_strings(void **state) {
        (void)state;
        static const char *const expected[] = { "Unknown",          "Internal",    "Not found",
                                                "Invalid argument", "Unavailable", "Unsupported",
                                                "Already exists",   "Cancelled" };

        for (int i = 0; i < 8; i++)
                assert_string_equal(error_code_string((enum error_code)i), expected[i]);
        assert_string_equal(error_code_string((enum error_code)8), "<invalid code>");
        assert_string_equal(error_code_string((enum error_code) - 1), "<invalid code>");
}

static struct error *try_and_undo(struct error *err, int *n_undone) {
        TRY_OR(err, ++*n_undone);
        return NULL;
}

static void test_try_or(void **state) {
        (void)state;
        struct error *err = error_new(ERR_INTERNAL, "first");
        int           n_undone = 0;

        assert_null(try_and_undo(NULL, &n_undone));
        assert_int_equal(n_undone, 0);
        assert_ptr_equal(try_and_undo(err, &n_undone), err);
        assert_int_equal(n_undone, 1);
        error_free(err);
}

static void test_keep_first(void **state) {
        (void)state;
        struct error *kept = NULL;

        error_keep_first(&kept, NULL);
        assert_null(kept);
        error_keep_first(&kept, error_new(ERR_INTERNAL, "first"));
        error_keep_first(&kept, error_new(ERR_INTERNAL, "second"));
        error_keep_first(&kept, NULL);
        assert_string_equal(kept->message, "first");
        error_free(kept);
}

SUITE(error) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_new_keeps_code_and_text),
                cmocka_unit_test(test_new_text_is_not_a_format),
                cmocka_unit_test(test_message_has_no_limit),
                cmocka_unit_test(test_wrap_and_prefix),
                cmocka_unit_test(test_kind_stays_with_the_message),
                cmocka_unit_test(test_static_errors_are_never_changed),
                cmocka_unit_test(test_recode_in_place),
                cmocka_unit_test(test_copy_is_apart),
                cmocka_unit_test(test_field),
                cmocka_unit_test(test_new_with_field),
                cmocka_unit_test(test_errno),
                cmocka_unit_test(test_out_of_memory_still_gives_an_error),
                cmocka_unit_test(test_try),
                cmocka_unit_test(test_try_or),
                cmocka_unit_test(test_keep_first),
                cmocka_unit_test(test_code_strings),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
