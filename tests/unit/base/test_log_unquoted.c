/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

/* TRITON_SERVER_ESCAPE_LOG_MESSAGES is read once, so that it has a program of its own. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_without_quotes(void **state) {
        (void)state;
        char          path[] = "/tmp/neso-test-log-XXXXXX";
        int           fd = mkstemp(path);
        struct strbuf text;

        assert_true(fd >= 0);
        assert_null(log_set_file(path));
        log_write(LOG_INFO, "f.c", 1, "say \"hi\"\\\n\x1b");
        assert_null(log_set_file(""));
        assert_null(file_read_fd(fd, path, 1000, &text));
        /* No quotes, quotes as they are, but still one line. */
        assert_non_null(strstr(text.ptr, " f.c:1] say \"hi\"\\\\n\\u001b\n"));
        strbuf_done(&text);
        close(fd);
        unlink(path);
}

SUITE(log_unquoted) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_without_quotes) };

        setenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES", "false", 1);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
