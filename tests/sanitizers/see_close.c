/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into programs with ThreadSanitizer: shows it the descriptors that libuv closes.
 *
 * libuv closes by the bare system call, which the sanitizer does not see. It then takes the number of the descriptor
 * for one that is still open. When another thread opens something that gets the same number, the sanitizer reports a
 * race between two uses of one descriptor.
 *
 * Other system calls pass as they are. In a program without the sanitizer this library changes nothing.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_ARGUMENTS 6

#pragma GCC visibility push(default)

__attribute__((weak)) void __sanitizer_syscall_pre_impl_close(long fd);

typedef long (*syscall_fn)(long number, ...);

static syscall_fn next;

__attribute__((constructor)) static void find_next(void) {
        next = (syscall_fn)dlsym(RTLD_NEXT, "syscall");
}

long syscall(long number, ...);

#pragma GCC visibility pop

long syscall(long number, ...) {
        long    a[N_ARGUMENTS];
        va_list list;

        /* As the C library does: all registers that may have an argument. */
        va_start(list, number);
        for (int i = 0; i < N_ARGUMENTS; i++)
                a[i] = va_arg(list, long);
        va_end(list);
        if (number == SYS_close && __sanitizer_syscall_pre_impl_close != NULL)
                __sanitizer_syscall_pre_impl_close(a[0]);
        if (next == NULL) /* before the constructor */
                find_next();
        return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
