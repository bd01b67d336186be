/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_place.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct path {
        char text[512];
};

static struct path path_of(const struct model_place *p, const char *path) {
        struct path whole;

        assert_in_range(snprintf(whole.text, sizeof(whole.text), "%s/%s", p->root, path), 1,
                        sizeof(whole.text) - 1);
        return whole;
}

void model_place_open(struct model_place *p) {
        *p = (struct model_place){ .root = "/tmp/neso_abi_XXXXXX" };
        assert_non_null(mkdtemp(p->root));
}

static unsigned n_removed;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
        (void)status, (void)kind, (void)at;
        n_removed++;
        return remove(path);
}

void model_place_close_with_more(struct model_place *p) {
        n_removed = 0;
        assert_int_equal(nftw(p->root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void model_place_close(struct model_place *p) {
        model_place_close_with_more(p);
        assert_int_equal(n_removed, p->n_added + 1);
}

void model_place_add_folder(struct model_place *p, const char *path) {
        p->n_added++;
        assert_int_equal(mkdir(path_of(p, path).text, 0755), 0);
}

void model_place_add_file(struct model_place *p, const char *path, const char *text) {
        FILE *file = fopen(path_of(p, path).text, "w");

        p->n_added++;
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

void model_place_add_link(struct model_place *p, const char *path, const char *target) {
        p->n_added++;
        assert_int_equal(symlink(target, path_of(p, path).text), 0);
}

void model_place_add_fifo(struct model_place *p, const char *path) {
        p->n_added++;
        assert_int_equal(mkfifo(path_of(p, path).text, 0600), 0);
}

void model_place_add_model(struct model_place *p, const char *name, const char *config,
                           const char *library) {
        char path[256];

        model_place_add_folder(p, name);
        snprintf(path, sizeof(path), "%s/1", name);
        model_place_add_folder(p, path);
        snprintf(path, sizeof(path), "%s/config.pbtxt", name);
        model_place_add_file(p, path, config);
        if (library == NULL)
                return;
        snprintf(path, sizeof(path), "%s/libtriton_probe.so", name);
        model_place_add_link(p, path, library);
}
