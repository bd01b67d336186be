/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/shm_object.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PREFIX "/neso_unit_test_"

void shm_object_open(struct shm_object *o, size_t bytes) {
        static unsigned n_made;
        unsigned char   byte;

        snprintf(o->key, sizeof(o->key), PREFIX "%ld_%u", (long)getpid(), n_made++);
        o->fd = shm_open(o->key, O_RDWR | O_CREAT | O_EXCL, 0600);
        assert_true(o->fd >= 0);
        for (size_t i = 0; i < bytes; i++) {
                byte = (unsigned char)(i % 251);
                assert_int_equal(write(o->fd, &byte, 1), 1);
        }
}

void shm_object_resize(struct shm_object *o, size_t bytes) {
        assert_int_equal(ftruncate(o->fd, (off_t)bytes), 0);
}

void shm_object_close(struct shm_object *o) {
        close(o->fd);
        assert_int_equal(shm_unlink(o->key), 0);
}

size_t shm_count_descriptors(void) {
        DIR   *folder = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(folder);
        while (readdir(folder) != NULL)
                n++;
        closedir(folder);
        return n;
}

size_t shm_count_mappings(void) {
        FILE  *maps = fopen("/proc/self/maps", "r");
        char   line[4096];
        size_t n = 0;

        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps) != NULL)
                n += strstr(line, PREFIX) != NULL;
        fclose(maps);
        return n;
}
