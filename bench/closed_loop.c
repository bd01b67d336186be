/* SPDX-License-Identifier: BSD-3-Clause */
/* A closed-loop load generator: each client sends a request over its own connection, waits for the
 * answer, and sends the next one at once. Prints the measurements as JSON.
 *
 * closed_loop <port> <path> <file with the body> <clients> <seconds> [<think us>]
 */
#include "load.h"

#include <pthread.h>

#define MAX_CLIENTS 64
#define MAX_LATENCIES 2000000

struct client {
        pthread_t thread;
        uint32_t *latencies_ns; /* owned */
        size_t    n;
        bool      has_failed;
};

static int      port;
static uint64_t begin_ns, end_ns, think_ns;

static void think(void) {
        struct timespec t = { .tv_nsec = (long)(think_ns % 1000000000u),
                              .tv_sec = (time_t)(think_ns / 1000000000u) };

        if (think_ns > 0)
                nanosleep(&t, NULL);
}

static bool read_answer(int fd) {
        char   answer[LOAD_MESSAGE_BYTES];
        size_t n = 0, wanted = 0;

        while (wanted == 0 || n < wanted) {
                ssize_t got = read(fd, answer + n, sizeof(answer) - 1 - n);

                if (got <= 0) {
                        fprintf(stderr, "the answer ends after %zu bytes\n", n);
                        return false;
                }
                n += (size_t)got;
                answer[n] = '\0';
                wanted = load_answer_bytes(answer);
        }
        if (!load_is_success(answer))
                fprintf(stderr, "%s\n", answer);
        return load_is_success(answer);
}

static void *client_main(void *arg) {
        struct client *c = arg;
        int            fd = load_connect(port);

        c->has_failed = fd < 0;
        while (!c->has_failed && load_now_ns() < end_ns) {
                uint64_t sent_ns = load_now_ns();

                c->has_failed = !load_send(fd) || !read_answer(fd);
                if (sent_ns >= begin_ns && c->n < MAX_LATENCIES)
                        c->latencies_ns[c->n++] = (uint32_t)(load_now_ns() - sent_ns);
                think();
        }
        if (fd >= 0)
                close(fd);
        return NULL;
}

static void print(struct client *clients, int n_clients, double seconds) {
        uint32_t *all = malloc((size_t)n_clients * MAX_LATENCIES * sizeof(*all));
        size_t    n = 0;

        for (int i = 0; all != NULL && i < n_clients; i++) {
                memcpy(all + n, clients[i].latencies_ns, clients[i].n * sizeof(*all));
                n += clients[i].n;
        }
        if (n == 0) {
                fputs("no answer came in time\n", stderr);
                exit(1);
        }
        load_print(all, n, seconds);
        free(all);
}

int main(int argc, char **argv) {
        static struct client clients[MAX_CLIENTS];
        int                  n_clients = argc > 4 ? atoi(argv[4]) : 0;
        double               seconds = argc > 5 ? atof(argv[5]) : 0;

        if (n_clients < 1 || n_clients > MAX_CLIENTS || seconds <= 0 ||
            !load_read_request(argv[2], argv[3])) {
                fputs("closed_loop <port> <path> <body> <clients> <seconds> [<think us>]\n",
                      stderr);
                return 2;
        }
        port = atoi(argv[1]);
        think_ns = argc > 6 ? strtoul(argv[6], NULL, 10) * 1000u : 0;
        begin_ns = load_now_ns() + 200000000u; /* after a warm-up */
        end_ns = begin_ns + (uint64_t)(seconds * 1e9);
        for (int i = 0; i < n_clients; i++) {
                clients[i].latencies_ns = calloc(MAX_LATENCIES, sizeof(uint32_t));
                if (clients[i].latencies_ns == NULL ||
                    pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
                        return 1;
        }
        for (int i = 0; i < n_clients; i++) {
                pthread_join(clients[i].thread, NULL);
                if (clients[i].has_failed)
                        return 1;
        }
        print(clients, n_clients, seconds);
        return 0;
}
