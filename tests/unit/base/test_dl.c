/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/dl.h"
#include "base/file.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long (*crc32_fn)(unsigned long start, const unsigned char *bytes, unsigned len);

/* zlib is a library that this program is not linked with. */
#define LIBRARY "libz.so.1"

static void test_open_and_call(void **state) {
        (void)state;
        struct dl   *library;
        dl_symbol_fn function;

        assert_null(dl_open(LIBRARY, &library));
        assert_string_equal(dl_path(library), LIBRARY);
        assert_null(dl_get(library, "crc32", &function));
        /* The check value of this CRC, of all its catalogues. */
        assert_int_equal(((crc32_fn)function)(0, (const unsigned char *)"123456789", 9),
                         0xcbf43926);
        dl_close(library);
}

static void test_keep(void **state) {
        (void)state;
        struct dl   *library;
        dl_symbol_fn function;

        assert_null(dl_open(LIBRARY, &library));
        assert_null(dl_get(library, "crc32", &function));
        dl_keep(library);
        assert_int_equal(((crc32_fn)function)(0, (const unsigned char *)"123456789", 9),
                         0xcbf43926);
}

static void test_absent_symbol(void **state) {
        (void)state;
        struct dl   *library;
        dl_symbol_fn function = NULL;

        assert_null(dl_open(LIBRARY, &library));
        assert_null(dl_find(library, "no_such_symbol"));
        AUTO_ERROR err = dl_get(library, "no_such_symbol", &function);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_string_equal(err->message,
                            "unable to find symbol 'no_such_symbol' in shared library 'libz.so.1'");
        assert_null(function);
        dl_close(library);
}

static void test_all_symbols(void **state) {
        static const char *const names[] = { "crc32", "adler32", "no_such_symbol" };
        dl_symbol_fn             functions[3] = { NULL };
        struct dl               *library;

        (void)state;
        assert_null(dl_open(LIBRARY, &library));
        assert_null(dl_get_all(library, names, 2, functions));
        assert_ptr_equal(functions[0], dl_find(library, "crc32"));
        assert_ptr_equal(functions[1], dl_find(library, "adler32"));
        AUTO_ERROR err = dl_get_all(library, names, 3, functions);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_null(functions[2]);
        dl_close(library);
}

static void test_absent_library(void **state) {
        (void)state;
        struct dl *library = NULL;
        AUTO_ERROR err = dl_open("/nonexistent/libtriton_x.so", &library);

        assert_non_null(err);
        assert_null(library);
        assert_non_null(strstr(err->message,
                               "unable to load shared library '/nonexistent/libtriton_x.so': "));
        assert_non_null(strstr(err->message, "No such file"));
        dl_close(NULL);
}

static void test_not_a_library(void **state) {
        (void)state;
        struct dl *library = NULL;
        AUTO_ERROR err = dl_open("/etc/passwd", &library);

        assert_int_equal(err->code, ERR_INTERNAL);
        assert_non_null(strstr(err->message, "'/etc/passwd': "));
}

/* The whole file of the library; the caller frees the text. */
static void read_library(struct strbuf *ret) {
        struct dl *library;
        Dl_info    info;
        void      *address;

        assert_null(dl_open(LIBRARY, &library));
        dl_symbol_fn function = dl_find(library, "crc32");

        memcpy(&address, &function, sizeof(address));
        assert_int_not_equal(dladdr(address, &info), 0);
        assert_null(file_read(info.dli_fname, 64 << 20, ret));
        dl_close(library);
}

/* Wherever the file ends: it is refused, or what is missing is not mapped. No signal comes. */
static void test_cut_library(void **state) {
        char        path[] = "/tmp/neso_library_XXXXXX";
        int         fd = mkstemp(path);
        AUTO_STRBUF whole = { 0 };

        (void)state;
        assert_true(fd >= 0);
        read_library(&whole);
        assert_int_equal(pwrite(fd, whole.ptr, whole.len, 0), (ssize_t)whole.len);
        for (size_t part = 31; part > 0; part--) {
                struct dl *library = NULL;

                assert_int_equal(ftruncate(fd, (off_t)(whole.len / 32 * part)), 0);
                AUTO_ERROR err = dl_open(path, &library);

                assert_int_equal(err == NULL, library != NULL);
                if (part == 16)
                        assert_non_null(strstr(err->message, "the file ends within a segment"));
                dl_close(library);
        }
        close(fd);
        unlink(path);
}

SUITE(dl) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_open_and_call),  cmocka_unit_test(test_keep),
                cmocka_unit_test(test_absent_symbol),  cmocka_unit_test(test_all_symbols),
                cmocka_unit_test(test_absent_library), cmocka_unit_test(test_not_a_library),
                cmocka_unit_test(test_cut_library),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
