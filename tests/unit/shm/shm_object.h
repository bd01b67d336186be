/* SPDX-License-Identifier: BSD-3-Clause */
/* A real shared-memory object for a test, as a client would make it. */
#pragma once

#include <stddef.h>

struct shm_object {
        char key[64]; /* its own */
        int  fd;
};

/* The bytes of it are their offset, modulo 251. */
void shm_object_open(struct shm_object *o, size_t bytes);
void shm_object_resize(struct shm_object *o, size_t bytes);
void shm_object_close(struct shm_object *o); /* and removes it */

/* Descriptors of this process, and its mappings of objects like the above. */
size_t shm_count_descriptors(void);
size_t shm_count_mappings(void);
