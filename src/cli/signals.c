/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/signals.h"

#include "base/clock.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static void stop_signals(sigset_t *set) {
        sigemptyset(set);
        sigaddset(set, SIGINT);
        sigaddset(set, SIGTERM);
}

void signals_block(void) {
        sigset_t set;

        signal(SIGPIPE, SIG_IGN);
        stop_signals(&set);
        sigaddset(&set, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Shells, timeout(1) and supervisors send a signal to the process and to its group. The duplicate
 * of the first signal must not count as a second one. */
#define ECHO_NS (200 * NS_PER_MS)

static uint64_t first_ns; /* written before the handler is installed */

static void end_at_once(int number) {
        static const char text[] = "Second signal received. Exiting immediately.\n";

        (void)number;
        if (clock_now_ns() - first_ns < ECHO_NS)
                return;
        if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
                _exit(1);
        _exit(1);
}

int signals_wait(void (*on_hangup)(void *owner), void *owner) {
        struct sigaction action = { .sa_handler = end_at_once };
        sigset_t         set;
        int              number;

        stop_signals(&set);
        sigaddset(&set, SIGHUP);
        for (;;) {
                if (sigwait(&set, &number) != 0)
                        continue;
                if (number != SIGHUP)
                        break;
                on_hangup(owner);
        }
        first_ns = clock_now_ns();
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        stop_signals(&set);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        return number;
}
