/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "core_api/core_version.h"
#include "triton/core/neso.h"

#include <stdio.h>

static void test_accepted(void **state) {
        (void)state;
        assert_null(core_version_check_library());
        assert_null(core_version_check(NESO_API_VERSION_MAJOR, NESO_API_VERSION_MINOR));
        assert_null(core_version_check(NESO_API_VERSION_MAJOR, NESO_API_VERSION_MINOR + 7));
}

static void assert_refused(uint32_t major, uint32_t minor) {
        struct error *err = core_version_check(major, minor);
        char          text[128];

        snprintf(text, sizeof(text),
                 "libtritonserver.so has version %u.%u of Neso's API, this program needs %d.%d or "
                 "later of %d",
                 major, minor, NESO_API_VERSION_MAJOR, NESO_API_VERSION_MINOR,
                 NESO_API_VERSION_MAJOR);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_UNSUPPORTED);
        assert_string_equal(err->message, text);
        error_free(err);
}

static void test_refused(void **state) {
        (void)state;
        assert_refused(NESO_API_VERSION_MAJOR + 1, NESO_API_VERSION_MINOR);
        assert_refused(NESO_API_VERSION_MAJOR - 1, NESO_API_VERSION_MINOR + 1);
        if (NESO_API_VERSION_MINOR > 0)
                assert_refused(NESO_API_VERSION_MAJOR, NESO_API_VERSION_MINOR - 1);
}

SUITE(core_version) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_accepted),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
