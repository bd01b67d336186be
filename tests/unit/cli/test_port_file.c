/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/port_file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct port_entry entries[] = { { "http", 8000 }, { "grpc", 0 }, { "metrics", 8002 } };

static void assert_written(const char *path) {
        AUTO_STRBUF text = { 0 };

        assert_null(file_read(path, 1000, &text));
        assert_string_equal(strbuf_cstr(&text), "http=8000\nmetrics=8002\n");
        port_file_remove(path);
}

static void test_written_whole(void **state) {
        char       folder[] = "/tmp/neso_ports_XXXXXX";
        bool       was_hit = true;
        AUTO_CHARS path = NULL;

        (void)state;
        assert_non_null(mkdtemp(folder));
        path = path_join(folder, "ports");
        for (unsigned n = 1; was_hit; n++) { /* memory that is short for one allocation */
                mem_fail_once(n);
                AUTO_ERROR err = port_file_write(path, entries, ARRAY_LEN(entries));

                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(err == NULL, file_exists(path));
                if (err == NULL)
                        assert_written(path);
        }
        assert_null(port_file_write(path, entries, ARRAY_LEN(entries)));
        assert_written(path);
        assert_int_equal(rmdir(folder), 0);
}

static void test_nothing_left(void **state) {
        char       folder[] = "/tmp/neso_ports_XXXXXX";
        AUTO_CHARS path = NULL;
        AUTO_ERROR err = NULL;

        (void)state;
        assert_non_null(mkdtemp(folder));
        path = path_join(folder, "ports");
        assert_int_equal(mkdir(path, 0755), 0); /* no file can take its name */
        err = port_file_write(path, entries, ARRAY_LEN(entries));
        assert_non_null(err);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(folder), 0); /* empty */
}

SUITE(port_file) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_written_whole),
                cmocka_unit_test(test_nothing_left),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
