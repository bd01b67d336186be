/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/dl.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const symbols[] = { "probe_one", "probe_two" };

static const struct plugin_kind kind = {
        .what = "probe", .prefix = "probe", .symbols = symbols, .n_symbols = 2
};

static void test_names(void **state) {
        static const char *const names[] = { "", ".", "..", "a/b", "/etc", "../x" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                struct dl   *library = NULL;
                dl_symbol_fn found[2];
                AUTO_CHARS   text = mem_printf("'%s' is no name of a probe", names[i]);
                AUTO_ERROR   err = plugin_open(&kind, "/tmp", names[i], &library, found);

                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, text);
                assert_null(library);
        }
}

static void test_missing(void **state) {
        struct dl   *library = NULL;
        dl_symbol_fn found[2];
        AUTO_ERROR   err = plugin_open(&kind, "/nonexistent", "x", &library, found);

        (void)state;
        assert_non_null(err);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_string_equal(err->message,
                            "unable to find 'libprobe_x.so' for probe. Searched: /nonexistent/x");
}

static void test_no_library(void **state) {
        char         root[] = "/tmp/neso-plugin-XXXXXX";
        struct dl   *library = NULL;
        dl_symbol_fn found[2];

        (void)state;
        assert_non_null(mkdtemp(root));

        AUTO_CHARS folder = mem_printf("%s/x", root);
        AUTO_CHARS path = mem_printf("%s/libprobe_x.so", folder);
        AUTO_CHARS start = mem_printf("unable to load shared library '%s': ", path);
        FILE      *file;

        assert_int_equal(mkdir(folder, 0755), 0);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs("no library", file) >= 0);
        assert_int_equal(fclose(file), 0);

        AUTO_ERROR err = plugin_open(&kind, root, "x", &library, found);

        assert_non_null(err);
        assert_memory_equal(err->message, start, strlen(start));
        assert_null(library);
        unlink(path);
        rmdir(folder);
        rmdir(root);
}

SUITE(plugin) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_missing),
                cmocka_unit_test(test_no_library),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
