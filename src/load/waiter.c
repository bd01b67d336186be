/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/waiter.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A terminal that is closed sends it. A signal that is blocked arrives though it is ignored, as by nohup(1). */
static bool takes_hangup(void) {
        struct sigaction now;

        return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN;
}

struct error *waiter_open(struct waiter *w) {
        sigset_t set;

        *w = (struct waiter){ .signal_fd = -1, .wake_fd = -1 };
        signal(SIGPIPE, SIG_IGN);
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        if (takes_hangup())
                sigaddset(&set, SIGHUP);
        sigprocmask(SIG_BLOCK, &set, NULL);
        w->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
        w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (w->signal_fd < 0 || w->wake_fd < 0)
                return error_errno(errno, "unable to create a descriptor");
        return NULL;
}

void waiter_close(struct waiter *w) {
        if (w->signal_fd >= 0)
                close(w->signal_fd);
        if (w->wake_fd >= 0)
                close(w->wake_fd);
}

void waiter_wake(struct waiter *w) {
        uint64_t one = 1;

        if (write(w->wake_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
                return; /* it is awake already */
}

static void read_all(struct waiter *w) {
        struct signalfd_siginfo signal_read;
        uint64_t                n;

        if (read(w->signal_fd, &signal_read, sizeof(signal_read)) == (ssize_t)sizeof(signal_read))
                w->is_interrupted = true;
        if (read(w->wake_fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
                return; /* it was not woken */
}

void waiter_wait(struct waiter *w, uint64_t until_ns) {
        struct pollfd   fds[] = { { .fd = w->signal_fd, .events = POLLIN },
                                  { .fd = w->wake_fd, .events = POLLIN } };
        uint64_t        now_ns = clock_now_ns();
        struct timespec left = { 0 };

        if (until_ns > now_ns) {
                left.tv_sec = (time_t)((until_ns - now_ns) / NS_PER_S);
                left.tv_nsec = (long)((until_ns - now_ns) % NS_PER_S);
        }
        if (ppoll(fds, 2, &left, NULL) > 0)
                read_all(w);
}
