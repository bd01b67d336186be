/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/temp_tree.h"

#include "base/mem.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct temp_tree temp_tree_make(void) {
        const char      *parent = getenv("TMPDIR");
        struct temp_tree t = { .path = mem_printf("%s/neso-test-XXXXXX",
                                                  parent != NULL ? parent : "/tmp") };

        if (mkdtemp(t.path) == NULL)
                fail_msg("mkdtemp(%s): %s", t.path, strerror(errno));
        return t;
}

static int remove_one(const char *path, const struct stat *native, int type, struct FTW *at) {
        (void)native;
        (void)type;
        (void)at;
        return remove(path);
}

void temp_tree_remove(struct temp_tree *t) {
        if (nftw(t->path, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
                fail_msg("unable to remove %s: %s", t->path, strerror(errno));
        free(t->path);
        t->path = NULL;
}

char *temp_tree_path(const struct temp_tree *t, const char *relative) {
        return mem_printf("%s/%s", t->path, relative);
}

/* Every folder of the path, but for its last name unless `with_last`. */
static void make_folders(const struct temp_tree *t, const char *relative, bool with_last) {
        AUTO_CHARS path = temp_tree_path(t, relative);

        for (char *slash = path + strlen(t->path) + 1; (slash = strchr(slash, '/')) != NULL;
             slash++) {
                *slash = '\0';
                if (mkdir(path, 0755) != 0 && errno != EEXIST)
                        fail_msg("mkdir(%s): %s", path, strerror(errno));
                *slash = '/';
        }
        if (with_last && mkdir(path, 0755) != 0 && errno != EEXIST)
                fail_msg("mkdir(%s): %s", path, strerror(errno));
}

void temp_tree_folder(const struct temp_tree *t, const char *relative) {
        make_folders(t, relative, true);
}

void temp_tree_write_bytes(const struct temp_tree *t, const char *relative, const void *bytes,
                           size_t n) {
        AUTO_CHARS path = temp_tree_path(t, relative);
        FILE      *file;

        make_folders(t, relative, false);
        file = fopen(path, "wb");
        if (file == NULL || fwrite(bytes, 1, n, file) != n || fclose(file) != 0)
                fail_msg("unable to write %s: %s", path, strerror(errno));
}

void temp_tree_write(const struct temp_tree *t, const char *relative, const char *text) {
        temp_tree_write_bytes(t, relative, text, strlen(text));
}

void temp_tree_copy(const struct temp_tree *t, const char *from, const char *relative) {
        AUTO_CHARS path = temp_tree_path(t, relative);
        FILE      *source = fopen(from, "rb");
        FILE      *target;
        char       piece[65536];
        size_t     n;

        make_folders(t, relative, false);
        target = fopen(path, "wb");
        if (source == NULL || target == NULL)
                fail_msg("unable to copy %s to %s: %s", from, path, strerror(errno));
        while ((n = fread(piece, 1, sizeof(piece), source)) > 0)
                assert_int_equal(fwrite(piece, 1, n, target), n);
        assert_int_equal(fclose(source), 0);
        assert_int_equal(fclose(target), 0);
}

void temp_tree_unlink(const struct temp_tree *t, const char *relative) {
        AUTO_CHARS path = temp_tree_path(t, relative);

        if (unlink(path) != 0)
                fail_msg("unlink(%s): %s", path, strerror(errno));
}
