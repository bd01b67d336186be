/* SPDX-License-Identifier: BSD-3-Clause */
/* An open-loop load generator: requests are due at random times (a Poisson process), however long
 * the answers take. A latency counts from the time at which the request was due, even if it was
 * sent later. Prints the measurements as JSON.
 *
 * open_loop <port> <path> <file with the body> <requests per second> <seconds> <seed>
 *
 * The same seed gives the same arrivals. One thread; each connection has one request under way.
 */
#include "load.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sys/prctl.h>

#define N_CONNECTIONS 256
#define WARM_UP_NS UINT64_C(200000000)
#define PATIENCE_NS UINT64_C(10000000000) /* time limit for the answers after the last arrival */

struct connection {
        int      fd;
        bool     is_busy;
        uint64_t due_ns; /* due time of the request under way */
        size_t   n;
        char     answer[LOAD_MESSAGE_BYTES];
};

static struct connection connections[N_CONNECTIONS];
static unsigned          n_busy;
static uint32_t         *latencies_ns; /* owned */
static size_t            n_latencies, max_latencies;
static uint64_t          begin_ns, end_ns; /* requests that are due between them are measured */

static uint64_t draw_gap_ns(uint64_t *random, double rate) {
        double uniform;

        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uniform = ((double)(*random >> 11) + 0.5) / 9007199254740992.0; /* 2^53 */
        return (uint64_t)(-log(uniform) / rate * 1e9);
}

/* Returns false when the connection is lost or the answer is not a success. */
static bool receive(struct connection *c) {
        ssize_t got = recv(c->fd, c->answer + c->n, sizeof(c->answer) - 1 - c->n, MSG_DONTWAIT);
        size_t  wanted;

        if (got <= 0)
                return got < 0 && (errno == EAGAIN || errno == EINTR);
        c->n += (size_t)got;
        c->answer[c->n] = '\0';
        wanted = load_answer_bytes(c->answer);
        if (wanted == 0 || c->n < wanted)
                return true;
        if (c->due_ns >= begin_ns && n_latencies < max_latencies)
                latencies_ns[n_latencies++] = (uint32_t)(load_now_ns() - c->due_ns);
        c->is_busy = false;
        n_busy--;
        return load_is_success(c->answer);
}

/* Waits for answers, at most until that time. */
static bool wait_until(uint64_t until_ns) {
        struct pollfd   polled[N_CONNECTIONS];
        uint64_t        now_ns = load_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
        struct timespec left = { .tv_sec = (time_t)(left_ns / 1000000000u),
                                 .tv_nsec = (long)(left_ns % 1000000000u) };
        bool            is_well = true;

        for (unsigned i = 0; i < N_CONNECTIONS; i++)
                polled[i] = (struct pollfd){ .fd = connections[i].is_busy ? connections[i].fd : -1,
                                             .events = POLLIN };
        if (ppoll(polled, N_CONNECTIONS, &left, NULL) < 0)
                return errno == EINTR;
        for (unsigned i = 0; i < N_CONNECTIONS && is_well; i++)
                if (polled[i].revents != 0)
                        is_well = receive(&connections[i]);
        return is_well;
}

static struct connection *find_free(void) {
        for (unsigned i = 0; n_busy < N_CONNECTIONS && i < N_CONNECTIONS; i++)
                if (!connections[i].is_busy)
                        return &connections[i];
        return NULL;
}

static bool send_due(struct connection *c, uint64_t due_ns) {
        c->is_busy = true;
        c->due_ns = due_ns;
        c->n = 0;
        n_busy++;
        return load_send(c->fd);
}

static bool run(double rate, uint64_t random) {
        uint64_t due_ns = load_now_ns() + draw_gap_ns(&random, rate);

        while (due_ns < end_ns) {
                struct connection *c = find_free();

                if (c == NULL || load_now_ns() < due_ns) {
                        if (!wait_until(c != NULL ? due_ns : end_ns + PATIENCE_NS))
                                return false;
                        if (c == NULL && load_now_ns() >= end_ns + PATIENCE_NS)
                                return false;
                        continue;
                }
                if (!send_due(c, due_ns))
                        return false;
                due_ns += draw_gap_ns(&random, rate);
        }
        while (n_busy > 0)
                if (!wait_until(end_ns + PATIENCE_NS) || load_now_ns() >= end_ns + PATIENCE_NS)
                        return false;
        return true;
}

int main(int argc, char **argv) {
        double rate = argc == 7 ? atof(argv[4]) : 0, seconds = argc == 7 ? atof(argv[5]) : 0;

        if (!(rate > 0 && rate <= 1e6) || !(seconds > 0 && seconds <= 600) ||
            !load_read_request(argv[2], argv[3])) {
                fputs("open_loop <port> <path> <body> <requests per second> <seconds> <seed>\n",
                      stderr);
                return 2;
        }
        max_latencies = (size_t)(rate * seconds * 2) + 1000;
        latencies_ns = calloc(max_latencies, sizeof(uint32_t));
        if (latencies_ns == NULL)
                return 1;
        prctl(PR_SET_TIMERSLACK, 1UL);
        for (unsigned i = 0; i < N_CONNECTIONS; i++) {
                connections[i].fd = load_connect(atoi(argv[1]));
                if (connections[i].fd < 0)
                        return 1;
        }
        begin_ns = load_now_ns() + WARM_UP_NS;
        end_ns = begin_ns + (uint64_t)(seconds * 1e9);
        if (!run(rate, strtoull(argv[6], NULL, 10)) || n_latencies == 0)
                return 1;
        load_print(latencies_ns, n_latencies, seconds);
        free(latencies_ns);
        return 0;
}
