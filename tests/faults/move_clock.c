/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a server by clock.py: CLOCK_REALTIME is another one. MOVE_CLOCK names a file whose first eight
 * bytes are the seconds by which it differs. Libraries ask for the time here as well, so OpenSSL judges certificates
 * by it. The kernel's clock stays: a wait until a time of CLOCK_REALTIME would take an hour more or less.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
        const char *path = getenv("MOVE_CLOCK");
        int         fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void       *at;

        if (fd < 0)
                return;
        at = mmap(NULL, sizeof(*offset), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (at != MAP_FAILED)
                offset = at;
}

static int64_t moved_seconds(void) {
        return offset != NULL ? atomic_load(offset) : 0;
}

#pragma GCC visibility push(default)

int clock_gettime(clockid_t id, struct timespec *ret) {
        int rc = (int)syscall(SYS_clock_gettime, id, ret);

        if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
                ret->tv_sec += moved_seconds();
        return rc;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
        int rc = (int)syscall(SYS_gettimeofday, ret, zone);

        if (rc == 0)
                ret->tv_sec += moved_seconds();
        return rc;
}

time_t time(time_t *ret) {
        struct timespec now;

        if (clock_gettime(CLOCK_REALTIME, &now) != 0)
                return -1;
        if (ret != NULL)
                *ret = now.tv_sec;
        return now.tv_sec;
}

#pragma GCC visibility pop
