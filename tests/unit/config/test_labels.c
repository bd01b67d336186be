/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/labels.h"
#include "config_rows.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char  parent[] = "/tmp/neso-labels-XXXXXX";
static char *model; /* the model's directory, in parent */

static void write_file(const char *directory, const char *name, const char *text) {
        AUTO_CHARS path = path_join(directory, name);
        FILE      *f = fopen(path, "w");

        assert_non_null(f);
        assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
        assert_int_equal(fclose(f), 0);
}

static void remove_in(const char *directory, const char *name) {
        AUTO_CHARS path = path_join(directory, name);

        unlink(path);
        rmdir(path);
}

static int make_model(void **state) {
        AUTO_CHARS link_path = NULL;

        (void)state;
        if (mkdtemp(parent) == NULL)
                return -1;
        model = path_join(parent, "model");
        if (mkdir(model, 0700) != 0)
                return -1;
        write_file(parent, "outside.txt", "secret\n");
        write_file(model, "a.txt", "cat\ndog\n\nbird\n");
        write_file(model, "b.txt", "one\r\ntwo");
        write_file(model, "empty.txt", "");
        link_path = path_join(model, "link.txt");
        return symlink("../outside.txt", link_path);
}

static int remove_model(void **state) {
        (void)state;
        remove_in(model, "a.txt");
        remove_in(model, "b.txt");
        remove_in(model, "empty.txt");
        remove_in(model, "link.txt");
        remove_in(parent, "outside.txt");
        remove_in(parent, "model");
        free(model);
        return rmdir(parent);
}

static void test_read(void **state) {
        struct model_config *c = config_of("name: 'm' output { name: 'A' label_filename: 'a.txt' }"
                                           " output { name: 'N' }"
                                           " output { name: 'B' label_filename: './b.txt' }"
                                           " output { name: 'E' label_filename: 'empty.txt' }");
        struct labels       *l = NULL;

        (void)state;
        assert_null(labels_read(c, model, &l));
        assert_int_equal(labels_count(l, "A"), 4);
        assert_string_equal(labels_find(l, "A", 0), "cat");
        assert_string_equal(labels_find(l, "A", 1), "dog");
        assert_string_equal(labels_find(l, "A", 2), "");
        assert_string_equal(labels_find(l, "A", 3), "bird");
        assert_null(labels_find(l, "A", 4));
        assert_null(labels_find(l, "A", SIZE_MAX));
        assert_int_equal(labels_count(l, "B"), 2);
        assert_string_equal(labels_find(l, "B", 0), "one");
        assert_string_equal(labels_find(l, "B", 1), "two");
        assert_int_equal(labels_count(l, "E"), 0);
        assert_null(labels_find(l, "E", 0));
        assert_null(labels_find(l, "N", 0));
        assert_null(labels_find(l, "other", 0));
        labels_free(l);
        labels_free(NULL);
        model_config_free(c);
}

static void assert_refused(const char *path) {
        AUTO_CHARS text = mem_printf("name: 'm' output { name: 'A' label_filename: '%s' }", path);
        AUTO_CHARS message = mem_printf("label file path '%s' for output 'A' in model 'm' is "
                                        "outside model directory",
                                        path);
        struct model_config *c = config_of(text);
        struct labels       *l = NULL;

        assert_outcome(labels_read(c, model, &l), ERR_INVALID_ARG, message, text);
        assert_null(l);
        model_config_free(c);
}

static void test_outside(void **state) {
        AUTO_CHARS absolute = path_join(parent, "outside.txt");

        (void)state;
        assert_refused("../outside.txt");
        assert_refused("x/../../outside.txt");
        assert_refused(absolute);
        assert_refused("link.txt");
}

static void test_absent(void **state) {
        struct model_config *c =
                config_of("name: 'm' output { name: 'A' label_filename: 'none.txt' }");
        struct labels *l = NULL;
        struct error  *err = labels_read(c, model, &l);

        (void)state;
        assert_non_null(err);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_non_null(strstr(err->message, "none.txt"));
        error_free(err);
        model_config_free(c);
}

/* Outputs that name the same file share its text. */
static void test_shared(void **state) {
        struct model_config *c = config_of("name: 'm' output { name: 'A' label_filename: 'a.txt' }"
                                           " output { name: 'B' label_filename: 'b.txt' }"
                                           " output { name: 'C' label_filename: 'a.txt' }");
        struct labels       *l = NULL;

        (void)state;
        assert_null(labels_read(c, model, &l));
        assert_string_equal(labels_find(l, "C", 3), "bird");
        assert_ptr_equal(labels_find(l, "C", 3), labels_find(l, "A", 3));
        assert_string_equal(labels_find(l, "B", 1), "two");
        assert_int_equal(labels_bytes(l),
                         strlen("cat\ndog\n\nbird\n") + strlen("one\r\ntwo") + 6 * sizeof(char *));
        labels_free(l);
        model_config_free(c);
}

/* Two files of 9 MiB, which one output names by one path and another by a longer one. */
static void test_many_bytes(void **state) {
        struct model_config *c =
                config_of("name: 'm' output { name: 'A' label_filename: 'large.txt' }"
                          " output { name: 'B' label_filename: './large.txt' }");
        struct model_config *one =
                config_of("name: 'm' output { name: 'A' label_filename: 'large.txt' }"
                          " output { name: 'B' label_filename: 'large.txt' }");
        AUTO_CHARS     path = path_join(model, "large.txt");
        struct labels *l = NULL;

        (void)state;
        write_file(model, "large.txt", "");
        assert_int_equal(truncate(path, 9 << 20), 0);
        assert_outcome(labels_read(c, model, &l), ERR_INVALID_ARG,
                       "the label files of model 'm' have more than 16777216 bytes together",
                       "two paths");
        assert_null(l);
        assert_null(labels_read(one, model, &l));
        assert_int_equal(labels_count(l, "B"), 1);
        labels_free(l);
        remove_in(model, "large.txt");
        model_config_free(one);
        model_config_free(c);
}

SUITE(labels) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read),       cmocka_unit_test(test_outside),
                cmocka_unit_test(test_absent),     cmocka_unit_test(test_shared),
                cmocka_unit_test(test_many_bytes),
        };

        return cmocka_run_group_tests(tests, make_model, remove_model);
}
