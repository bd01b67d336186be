/* SPDX-License-Identifier: BSD-3-Clause */
/* The model in a folder that a platform has unpacked; texts about memory. */
#include "suite.h"

#include "base/file.h"
#include "base/mem.h"
#include "call/hosted_folder.h"
#include "call/hosted_models.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENSEMBLE "platform: \"ensemble\""

struct row {
        const char *entries[8]; /* path, text, path, text, ...; without a text a folder */
        const char *directory;  /* NULL: refused */
};

static const struct row rows[] = {
        { { "config.pbtxt", "" }, "." },
        { { "config.pbtxt", "", "a", NULL, "a/config.pbtxt", "" }, "." },
        { { NULL }, "." },
        { { "1", NULL }, "." },
        { { "a", NULL, "a/config.pbtxt", "" }, "a" },
        { { "a", NULL, "a/7", NULL }, "a" },
        { { "a", NULL, "a/7", NULL, "b", NULL, "b/x", NULL }, "a" },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/1", NULL }, NULL },
        { { "a", NULL, "a/config.pbtxt", ENSEMBLE, "b", NULL, "b/1", NULL }, "a" },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt", ENSEMBLE }, "b" },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt", "platform:'ensem' 'ble'" }, "b" },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt",
            "ensemble_scheduling { step {} }" },
          "b" },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt", "# " ENSEMBLE }, NULL },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt", "x { " ENSEMBLE " }" }, NULL },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt", "name: 'platform' } ]" }, NULL },
        { { "a", NULL, "a/1", NULL, "b", NULL, "b/config.pbtxt", "platform: \"ens" }, NULL },
        { { "a", NULL, "a/config.pbtxt", ENSEMBLE, "b", NULL, "b/config.pbtxt", ENSEMBLE }, NULL },
        { { ".a", NULL, ".a/config.pbtxt", "", "b", NULL, "b/1", NULL }, "b" },
};

static void write_entries(const char *folder, const struct row *r) {
        for (size_t i = 0; i + 1 < ARRAY_LEN(r->entries) && r->entries[i] != NULL; i += 2) {
                AUTO_CHARS path = path_join(folder, r->entries[i]);
                FILE      *file;

                if (r->entries[i + 1] == NULL) {
                        assert_int_equal(mkdir(path, 0700), 0);
                        continue;
                }
                file = fopen(path, "w");
                assert_non_null(file);
                fputs(r->entries[i + 1], file);
                fclose(file);
        }
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place) {
        (void)stat;
        (void)kind;
        (void)place;
        return remove(path);
}

static void test_folders(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char                 folder[] = "/tmp/neso-hosted-XXXXXX";
                struct hosted_folder found = { 0 };
                struct error        *err;

                assert_non_null(mkdtemp(folder));
                write_entries(folder, &rows[i]);
                err = hosted_folder_find(folder, &found);
                if ((err == NULL) != (rows[i].directory != NULL) ||
                    (err == NULL && strcmp(found.directory, rows[i].directory) != 0))
                        fail_msg("row %zu: '%s', %s", i, found.directory,
                                 err != NULL ? err->message : "no error");
                if (err == NULL)
                        assert_string_equal(found.repository, folder);
                error_free(err);
                hosted_folder_done(&found);
                assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
        }
}

static void test_wrong_urls(void **state) {
        static const char *const urls[] = { "",          "a",    "./a",  "/nonexistent",
                                            "/dev/null", "/dev", "/sys", "/proc/self" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
                struct hosted_folder found = { 0 };
                struct error        *err = hosted_folder_find(urls[i], &found);

                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_null(found.repository);
                error_free(err);
        }
}

static void test_texts_about_memory(void **state) {
        (void)state;
        assert_true(hosted_models_tells_no_memory("load failed: Unavailable: out of memory"));
        assert_true(hosted_models_tells_no_memory("CUDA_ERROR_OUT_OF_MEMORY"));
        assert_true(hosted_models_tells_no_memory("MemoryError: ..."));
        assert_true(hosted_models_tells_no_memory("std::bad_alloc"));
        assert_true(hosted_models_tells_no_memory("CUBLAS_STATUS_ALLOC_FAILED"));
        assert_false(hosted_models_tells_no_memory("failed to load model 'bloom'"));
        assert_false(hosted_models_tells_no_memory("the memory budget is used up"));
        assert_false(hosted_models_tells_no_memory(""));
}

SUITE(hosted_folder) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_folders),
                cmocka_unit_test(test_wrong_urls),
                cmocka_unit_test(test_texts_about_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
