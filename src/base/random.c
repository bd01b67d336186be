/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

struct error *random_fill(void *to, size_t n) {
        char *at = to;

        while (n > 0) {
                ssize_t got = getrandom(at, n, 0);

                if (got < 0 && errno != EINTR)
                        return error_errno(errno, "no random numbers from the kernel");
                if (got > 0) {
                        at += got;
                        n -= (size_t)got;
                }
        }
        return NULL;
}
