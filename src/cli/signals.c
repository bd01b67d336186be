/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/signals.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static void stop_signals(sigset_t *set) {
        sigemptyset(set);
        sigaddset(set, SIGINT);
        sigaddset(set, SIGTERM);
}

static void all_signals(sigset_t *set) {
        stop_signals(set);
        sigaddset(set, SIGHUP);
        sigaddset(set, SIGUSR1);
}

void signals_block(void) {
        sigset_t set;

        signal(SIGPIPE, SIG_IGN);
        all_signals(&set);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Shells, timeout(1) and supervisors send a signal to the process and to its group. The duplicate
 * of the first signal must not count as a second one. */
#define ECHO_NS (200 * NS_PER_MS)

static uint64_t
        first_ns; /* written before the handler is installed, or by the watch of the start */

static void end_at_once(int number) {
        static const char text[] = "Second signal received. Exiting immediately.\n";

        (void)number;
        if (clock_now_ns() - first_ns < ECHO_NS)
                return;
        if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
                _exit(1);
        _exit(1);
}

/* ---- the start ------------------------------------------------------------------------------- */

/* The signals stay blocked in every thread, since a handler would interrupt the system calls of those
 * that load models. */
static struct {
        struct thread        thread;
        int                  signals_fd; /* signalfd(2) */
        int                  end_fd;     /* eventfd(2), readable when the start has ended */
        atomic_int           number;     /* the first signal, 0 before */
        struct start_actions actions;
        uint64_t             deadline_ns; /* of a start that was ended; CLOCK_NEVER before */
} start_watch = { .signals_fd = -1, .end_fd = -1 };

static void take_signal(int number) {
        if (atomic_load(&start_watch.number) != 0) {
                end_at_once(number);
                return;
        }
        first_ns = clock_now_ns();
        start_watch.deadline_ns = first_ns + start_watch.actions.exit_ns;
        atomic_store(&start_watch.number, number);
        log_info("signal %d during the start: no further model is loaded, and the server ends; "
                 "a second signal ends it at once",
                 number);
        start_watch.actions.on_stop(start_watch.actions.owner);
}

/* Models may be in the middle of their initialization, which only the end of the process ends. */
static void end_late_start(void) {
        log_flush();
        log_last_words("Exit timeout expired. Exiting immediately.\n");
        _exit(1);
}

/* For poll(2), rounded up. */
static int ms_until(uint64_t due_ns) {
        uint64_t now_ns = clock_now_ns();

        if (due_ns == CLOCK_NEVER)
                return -1;
        return due_ns > now_ns ? (int)MIN((due_ns - now_ns) / NS_PER_MS + 1, (uint64_t)INT_MAX) : 0;
}

static void watch_main(void *arg) {
        struct pollfd fds[] = { { .fd = start_watch.signals_fd, .events = POLLIN },
                                { .fd = start_watch.end_fd, .events = POLLIN } };

        (void)arg;
        for (;;) {
                struct signalfd_siginfo taken;

                if (clock_now_ns() >= start_watch.deadline_ns)
                        end_late_start();
                if (poll(fds, 2, ms_until(start_watch.deadline_ns)) < 0)
                        continue;
                if (fds[1].revents != 0)
                        return;
                if (read(start_watch.signals_fd, &taken, sizeof(taken)) == (ssize_t)sizeof(taken))
                        take_signal((int)taken.ssi_signo);
        }
}

static void close_watch(void) {
        if (start_watch.signals_fd >= 0)
                close(start_watch.signals_fd);
        if (start_watch.end_fd >= 0)
                close(start_watch.end_fd);
        start_watch.signals_fd = start_watch.end_fd = -1;
}

struct error *signals_watch_start(const struct start_actions *actions) {
        sigset_t      set;
        struct error *err = NULL;

        start_watch.actions = *actions;
        start_watch.deadline_ns = CLOCK_NEVER;
        stop_signals(&set);
        start_watch.signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        start_watch.end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (start_watch.signals_fd < 0 || start_watch.end_fd < 0)
                err = error_errno(errno, "unable to watch for signals");
        if (err == NULL)
                err = thread_start(&start_watch.thread, "neso-start", watch_main, NULL);
        if (err != NULL)
                close_watch();
        return err;
}

void signals_end_start(void) {
        if (start_watch.end_fd < 0)
                return;
        if (eventfd_write(start_watch.end_fd, 1) != 0)
                return; /* never: the counter is 0 */
        thread_join(&start_watch.thread);
        close_watch();
}

int signals_first(void) {
        return atomic_load(&start_watch.number);
}

/* ---- the wait -------------------------------------------------------------------------------- */

/* The next signal of the set, or 0 when the time has passed or something else interrupted the wait. */
static int next_signal(const sigset_t *set, uint64_t until_ns) {
        uint64_t        now_ns = clock_now_ns();
        uint64_t        left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
        struct timespec left = { .tv_sec = (time_t)(left_ns / NS_PER_S),
                                 .tv_nsec = (long)(left_ns % NS_PER_S) };
        int             number =
                until_ns == CLOCK_NEVER ? sigwaitinfo(set, NULL) : sigtimedwait(set, NULL, &left);

        return number > 0 ? number : 0;
}

/* Calls the actions until a signal asks for the end; returns it. */
static int act(const sigset_t *set, const struct signal_actions *a) {
        uint64_t tick_ns = a->tick_ns > 0 ? clock_now_ns() + a->tick_ns : CLOCK_NEVER;

        for (;;) {
                int number = next_signal(set, tick_ns);

                if (number == SIGHUP)
                        a->on_hangup(a->owner);
                else if (number == SIGUSR1)
                        a->on_drain(a->owner);
                else if (number != 0)
                        return number;
                if (clock_now_ns() >= tick_ns) {
                        a->on_tick(a->owner);
                        tick_ns = clock_now_ns() + a->tick_ns;
                }
        }
}

int signals_wait(const struct signal_actions *actions) {
        struct sigaction action = { .sa_handler = end_at_once };
        sigset_t         set;
        int              number;

        all_signals(&set);
        number = signals_first();
        if (number == 0) {
                number = act(&set, actions);
                first_ns = clock_now_ns();
        }
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        stop_signals(&set);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        return number;
}
