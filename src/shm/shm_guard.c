/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/shm_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
        _Atomic uint32_t  sequence; /* odd while begin and end are being written */
        _Atomic bool      is_taken;
        _Atomic bool      is_broken;
        _Atomic uintptr_t begin; /* 0 = no mapping */
        _Atomic uintptr_t end;
};

static struct entry     entries[SHM_GUARD_MAX];
static struct sigaction previous_action; /* the handler before shm_guard_start() */
static unsigned         n_starts;
static uintptr_t        page_bytes;

/* ---- in the handler: only atomics and one system call ---- */

/* Returns false for a range that changes while it is read: that mapping is not in use, so it is not
 * the one that faulted. */
static bool contains(struct entry *e, uintptr_t at, uintptr_t *ret_end) {
        uint32_t  sequence = atomic_load(&e->sequence);
        uintptr_t begin = atomic_load(&e->begin), end = atomic_load(&e->end);

        if (sequence % 2 != 0 || atomic_load(&e->sequence) != sequence)
                return false;
        *ret_end = end;
        return begin <= at && at < end;
}

/* MAP_NORESERVE: a region may be large, and perhaps only one page of it is touched. The raw system
 * call, because the mmap() wrappers of sanitizers are not safe in a signal handler. */
static bool map_zeros(uintptr_t at, uintptr_t end) {
        uintptr_t page = at - at % page_bytes;

        return syscall(SYS_mmap, page, end - page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

/* Replaces the rest of the mapping from the missing page on. False when no entry contains the
 * address. */
static bool replace_missing(uintptr_t at) {
        uintptr_t end;

        for (size_t i = 0; i < SHM_GUARD_MAX; i++) {
                if (!contains(&entries[i], at, &end))
                        continue;
                atomic_store(&entries[i].is_broken, true);
                return map_zeros(at, end);
        }
        return false;
}

/* Without a previous handler the default action follows: the signal of a fault cannot be
 * ignored. */
static void forward_signal(int number, siginfo_t *why, void *where) {
        if (previous_action.sa_flags & SA_SIGINFO) {
                previous_action.sa_sigaction(number, why, where);
        } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
                previous_action.sa_handler(number);
        } else {
                signal(number, previous_action.sa_handler);
                raise(number);
        }
}

static void on_bus_error(int number, siginfo_t *why, void *where) {
        int kept = errno;

        if (why->si_code != BUS_ADRERR || !replace_missing((uintptr_t)why->si_addr))
                forward_signal(number, why, where);
        errno = kept;
}

/* ---- outside of the handler ---- */

struct error *shm_guard_start(void) {
        struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };

        if (n_starts++ > 0)
                return NULL;
        page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
        sigemptyset(&action.sa_mask);
        if (sigaction(SIGBUS, &action, &previous_action) == 0)
                return NULL;
        n_starts--;
        return error_errno(errno, "failed to handle SIGBUS");
}

void shm_guard_stop(void) {
        if (--n_starts == 0)
                sigaction(SIGBUS, &previous_action, NULL);
}

static void write_range(struct entry *e, uintptr_t begin, uintptr_t end) {
        atomic_fetch_add(&e->sequence, 1);
        atomic_store(&e->begin, begin);
        atomic_store(&e->end, end);
        atomic_fetch_add(&e->sequence, 1);
}

bool shm_guard_add(const void *memory, size_t bytes, uint32_t *ret_entry) {
        uintptr_t begin = (uintptr_t)memory;

        for (uint32_t i = 0; i < SHM_GUARD_MAX; i++) {
                bool is_taken = false;

                if (!atomic_compare_exchange_strong(&entries[i].is_taken, &is_taken, true))
                        continue;
                atomic_store(&entries[i].is_broken, false);
                write_range(&entries[i], begin,
                            begin + (bytes + page_bytes - 1) / page_bytes * page_bytes);
                *ret_entry = i;
                return true;
        }
        return false;
}

void shm_guard_remove(uint32_t entry) {
        write_range(&entries[entry], 0, 0);
        atomic_store(&entries[entry].is_taken, false);
}

bool shm_guard_is_broken(uint32_t entry) {
        return atomic_load(&entries[entry].is_broken);
}
