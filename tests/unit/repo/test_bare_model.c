/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders that are one model, and the view of those without version folders. */
#include "suite.h"

#include "base/file.h"
#include "base/mem.h"
#include "repo/bare_model.h"
#include "repo/override.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct row {
        const char    *entries; /* words: "a/" is a folder, "a" a file; parents come first */
        enum bare_form form;
};

static const struct row rows[] = {
        { "", BARE_NONE },
        { "1/", BARE_VERSIONS },
        { "12/ 12/model.onnx", BARE_VERSIONS },
        { "config.pbtxt 1/", BARE_VERSIONS },
        { "config.pbtxt 1/ 1/2/", BARE_VERSIONS },
        { "config.pbtxt 1/ notes/", BARE_VERSIONS },
        { "configs/ configs/big.pbtxt 1/", BARE_VERSIONS },
        { "1/ lost+found/", BARE_VERSIONS },
        { "1/ .git/ .git/1/", BARE_VERSIONS },
        { "config.pbtxt", BARE_FILES },
        { "config.pbtxt weights.bin", BARE_FILES },
        { "configs/ configs/big.pbtxt", BARE_FILES },
        { "model.onnx", BARE_FILES },
        { "model.py tokenizer/", BARE_FILES },
        { "model.savedmodel/", BARE_FILES },
        { "model.onnx/", BARE_FILES },
        { "model.plan/", BARE_NONE },
        { "model.savedmodel", BARE_NONE },
        { "mnist.onnx", BARE_NONE },
        { "notes/ readme", BARE_NONE },
        { ".model.onnx .config.pbtxt", BARE_NONE },
        { "01/", BARE_NONE },
        { "1", BARE_NONE },
        { "a/ a/1/", BARE_NONE },
        { "a/ a/config.pbtxt", BARE_NONE },
        { "a/ a/config.pbtxt config.pbtxt model.onnx", BARE_NONE },
        { "a/ a/1/ 1/", BARE_NONE },
        { "7/ 7/3/", BARE_NONE },
        { "1/ 1/config.pbtxt", BARE_NONE },
        { "config.pbtxt 1/ 1/config.pbtxt", BARE_NONE },
};

struct folder {
        char path[64];
};

static void open_folder(struct folder *f, const char *entries) {
        char *words = mem_strdup(entries), *rest = words, *word;

        snprintf(f->path, sizeof(f->path), "/tmp/neso-bare-XXXXXX");
        assert_non_null(mkdtemp(f->path));
        while ((word = strtok_r(rest, " ", &rest)) != NULL) {
                AUTO_CHARS path = path_join(f->path, word);
                FILE      *file;

                if (path[strlen(path) - 1] == '/') {
                        assert_int_equal(mkdir(path, 0700), 0);
                        continue;
                }
                file = fopen(path, "w");
                assert_non_null(file);
                fputs(word, file);
                fclose(file);
        }
        free(words);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place) {
        (void)stat;
        (void)kind;
        (void)place;
        return remove(path);
}

static void close_folder(struct folder *f) {
        assert_int_equal(nftw(f->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void test_forms(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                enum bare_form form = BARE_NONE;
                struct folder  f;

                open_folder(&f, rows[i].entries);
                assert_null(bare_model_find("big", f.path, &form));
                if (form != rows[i].form)
                        fail_msg("'%s': %d, want %d", rows[i].entries, (int)form,
                                 (int)rows[i].form);
                close_folder(&f);
        }
}

static void test_without_the_named_configuration(void **state) {
        enum bare_form form = BARE_FILES;
        struct folder  f;

        (void)state;
        open_folder(&f, "configs/ configs/big.pbtxt");
        assert_null(bare_model_find("", f.path, &form));
        assert_int_equal(form, BARE_NONE);
        close_folder(&f);
}

static void test_unreadable(void **state) {
        enum bare_form form;
        struct error  *err;

        (void)state;
        err = bare_model_find("", "/nonexistent", &form);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        error_free(err);
}

static void assert_link(const char *view, const char *name, const char *text) {
        AUTO_CHARS  path = path_join(view, name);
        AUTO_STRBUF found = { 0 };

        strbuf_init(&found, 0);
        assert_null(file_read(path, 100, &found));
        assert_string_equal(strbuf_cstr(&found), text);
}

static void test_view(void **state) {
        struct override_store *store = override_store_new();
        struct override_files *view;
        AUTO_CHARS             path = NULL;
        struct folder          f;

        (void)state;
        open_folder(&f, "model.onnx labels.txt sub/ sub/file");
        assert_null(bare_model_make_view(store, f.path, &view));
        path = mem_strdup(override_files_directory(view));
        assert_link(path, "1/model.onnx", "model.onnx");
        assert_link(path, "labels.txt", "labels.txt");
        assert_link(path, "sub/file", "sub/file");
        override_files_unref(view);
        assert_false(file_exists(path));
        override_store_free(store);
        close_folder(&f); /* the files are still there */
}

SUITE(bare_model) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_forms),
                cmocka_unit_test(test_without_the_named_configuration),
                cmocka_unit_test(test_unreadable),
                cmocka_unit_test(test_view),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
