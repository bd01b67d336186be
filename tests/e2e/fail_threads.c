/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a server by test_no_threads.py: no thread can be made as long as the first byte of
 * the file that FAIL_THREADS names, which the test maps as well, is not 0. The second number counts
 * how often that happened.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct control {
        _Atomic uint32_t fails;
        _Atomic uint32_t n_failed;
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
        const char *path = getenv("FAIL_THREADS");
        int         fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void       *at;

        if (fd < 0)
                return;
        at = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (at != MAP_FAILED)
                control = at;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t            *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *arg) {
        create_fn next = (create_fn)(uintptr_t)dlsym(RTLD_NEXT, "pthread_create");

        if (control != NULL && atomic_load(&control->fails) != 0) {
                atomic_fetch_add(&control->n_failed, 1);
                return EAGAIN;
        }
        return next(thread, attributes, run, arg);
}
