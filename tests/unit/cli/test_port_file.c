/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/port_file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct port_entry entries[] = { { "http", 8000 }, { "grpc", 0 }, { "metrics", 8002 } };

static void assert_written(const char *path, int fd) {
        AUTO_STRBUF text = { 0 };

        assert_null(file_read(path, 1000, &text));
        assert_string_equal(strbuf_cstr(&text), "http=8000\nmetrics=8002\n");
        port_file_remove(path, fd);
        assert_false(file_exists(path));
}

static void test_written_whole(void **state) {
        char       folder[] = "/tmp/neso_ports_XXXXXX";
        bool       was_hit = true;
        AUTO_CHARS path = NULL;
        int        fd = -1;

        (void)state;
        assert_non_null(mkdtemp(folder));
        path = path_join(folder, "ports");
        for (unsigned n = 1; was_hit; n++) { /* memory that is short for one allocation */
                mem_fail_once(n);
                AUTO_ERROR err = port_file_write(path, entries, ARRAY_LEN(entries), &fd);

                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(err == NULL, file_exists(path));
                if (err == NULL)
                        assert_written(path, fd);
        }
        assert_null(port_file_write(path, entries, ARRAY_LEN(entries), &fd));
        assert_written(path, fd);
        assert_int_equal(rmdir(folder), 0);
}

static void test_nothing_left(void **state) {
        char       folder[] = "/tmp/neso_ports_XXXXXX";
        AUTO_CHARS path = NULL;
        AUTO_ERROR err = NULL;
        int        fd;

        (void)state;
        assert_non_null(mkdtemp(folder));
        path = path_join(folder, "ports");
        assert_int_equal(mkdir(path, 0755), 0); /* no file can take its name */
        err = port_file_write(path, entries, ARRAY_LEN(entries), &fd);
        assert_non_null(err);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(folder), 0); /* empty */
}

/* Two servers use the same path: each removes only its own file, and none that lives loses its file to a start. */
static void test_of_another_server(void **state) {
        char       folder[] = "/tmp/neso_ports_XXXXXX";
        AUTO_CHARS path = NULL;
        int        first, second;

        (void)state;
        assert_non_null(mkdtemp(folder));
        path = path_join(folder, "ports");
        assert_null(port_file_write(path, entries, 1, &first));
        port_file_remove_left(path); /* the second one starts */
        assert_true(file_exists(path));
        assert_null(port_file_write(path, entries, ARRAY_LEN(entries), &second));
        port_file_remove(path, first);
        port_file_remove_left(path);
        assert_written(path, second);
        assert_null(port_file_write(path, entries, 1, &first));
        close(first); /* that server was killed */
        port_file_remove_left(path);
        assert_false(file_exists(path));
        port_file_remove_left(path);
        assert_int_equal(symlink("nowhere", path), 0);
        port_file_remove_left(path);
        assert_int_equal(rmdir(folder), 0);
}

SUITE(port_file) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_of_another_server),
                cmocka_unit_test(test_written_whole),
                cmocka_unit_test(test_nothing_left),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
