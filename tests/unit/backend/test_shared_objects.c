/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/shared_objects.h"

#include <string.h>

static char destroyed[16];

static void destroy(void *object) {
        strcat(destroyed, object);
}

static void add(struct shared_objects *s, struct shared_group *group, const char *key,
                char *object) {
        struct error *err = shared_objects_add(s, group, key, object, destroy);

        assert_null(err);
}

static void test_objects_of_groups(void **state) {
        struct shared_objects s;
        struct shared_group  *a, *b;
        char                  one[] = "1", two[] = "2", three[] = "3";

        (void)state;
        destroyed[0] = '\0';
        shared_objects_init(&s);
        a = shared_objects_join(&s, "a");
        assert_ptr_equal(shared_objects_join(&s, "a"), a);
        b = shared_objects_join(&s, "b");
        assert_ptr_not_equal(a, b);
        assert_null(shared_objects_find(&s, a, "engine"));
        add(&s, a, "engine", one);
        add(&s, a, "weights", two);
        add(&s, b, "engine", three);
        assert_ptr_equal(shared_objects_find(&s, a, "engine"), one);
        assert_ptr_equal(shared_objects_find(&s, a, "weights"), two);
        assert_ptr_equal(shared_objects_find(&s, b, "engine"), three);
        shared_objects_leave(&s, a);
        assert_string_equal(destroyed, ""); /* the group has another instance */
        shared_objects_leave(&s, a);
        assert_string_equal(destroyed, "21");
        a = shared_objects_join(&s, "a");
        assert_null(shared_objects_find(&s, a, "engine"));
        shared_objects_leave(&s, b);
        shared_objects_leave(&s, a);
        assert_string_equal(destroyed, "213");
        shared_objects_done(&s);
}

static void test_the_first_one_counts(void **state) {
        struct shared_objects s;
        struct shared_group  *group;
        char                  one[] = "1", two[] = "2";
        struct error         *err;

        (void)state;
        destroyed[0] = '\0';
        shared_objects_init(&s);
        group = shared_objects_join(&s, "g");
        add(&s, group, "k", one);
        err = shared_objects_add(&s, group, "k", two, destroy);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_ALREADY_EXISTS);
        assert_string_equal(err->message, "instance group 'g' has a shared object 'k' already");
        error_free(err);
        assert_ptr_equal(shared_objects_find(&s, group, "k"), one);
        err = shared_objects_add(&s, group, "no end", two, NULL);
        assert_null(err);
        shared_objects_leave(&s, group);
        assert_string_equal(destroyed, "1");
        shared_objects_done(&s);
}

SUITE(shared_objects) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_objects_of_groups),
                cmocka_unit_test(test_the_first_one_counts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
