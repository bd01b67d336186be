/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients in a closed loop: each sends a request over its own connection, waits for the answer, and sends
 * the next one at once. Prints what they saw, as JSON.
 *
 *   closed_loop <port> <path> <file with the body> <clients> <seconds> [<think us>]
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_CLIENTS 64
#define MAX_LATENCIES 2000000
#define ANSWER_BYTES 65536

struct client {
        pthread_t thread;
        uint32_t *latencies_ns; /* owned */
        size_t    n;
        bool      has_failed;
};

static char     request[ANSWER_BYTES];
static size_t   request_bytes;
static int      port;
static uint64_t begin_ns, end_ns, think_ns;

static uint64_t now_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void think(void) {
        struct timespec t = { .tv_nsec = (long)(think_ns % 1000000000u),
                              .tv_sec = (time_t)(think_ns / 1000000000u) };

        if (think_ns > 0)
                nanosleep(&t, NULL);
}

static int open_connection(void) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int                fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
                return -1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
}

/* The whole answer by its Content-Length; false when there is none, or it is not 200. */
static bool read_answer(int fd) {
        char   answer[ANSWER_BYTES];
        size_t n = 0, wanted = SIZE_MAX;

        while (n < wanted) {
                ssize_t got = read(fd, answer + n, sizeof(answer) - 1 - n);
                char   *body, *length;

                if (got <= 0)
                        return false;
                n += (size_t)got;
                answer[n] = '\0';
                body = strstr(answer, "\r\n\r\n");
                length = strcasestr(answer, "\r\ncontent-length: ");
                if (body != NULL && length != NULL)
                        wanted = (size_t)(body + 4 - answer) + strtoul(length + 18, NULL, 10);
        }
        return strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

static void *client_main(void *arg) {
        struct client *c = arg;
        int            fd = open_connection();

        c->has_failed = fd < 0;
        while (!c->has_failed && now_ns() < end_ns) {
                uint64_t sent_ns = now_ns();

                c->has_failed = write(fd, request, request_bytes) != (ssize_t)request_bytes ||
                                !read_answer(fd);
                if (sent_ns >= begin_ns && c->n < MAX_LATENCIES)
                        c->latencies_ns[c->n++] = (uint32_t)(now_ns() - sent_ns);
                think();
        }
        if (fd >= 0)
                close(fd);
        return NULL;
}

static bool read_request(const char *path, const char *file) {
        char   body[ANSWER_BYTES / 2];
        FILE  *in = fopen(file, "r");
        size_t n = in != NULL ? fread(body, 1, sizeof(body), in) : 0;
        int    head;

        if (in != NULL)
                fclose(in);
        head = snprintf(request, sizeof(request),
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
                        n);
        if (n == 0 || head < 0 || (size_t)head + n > sizeof(request))
                return false;
        memcpy(request + head, body, n);
        request_bytes = (size_t)head + n;
        return true;
}

static int compare(const void *a, const void *b) {
        uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

        return (left > right) - (left < right);
}

static void print(struct client *clients, int n_clients, double seconds) {
        uint32_t *all = malloc((size_t)n_clients * MAX_LATENCIES * sizeof(*all));
        double    sum = 0;
        size_t    n = 0;

        for (int i = 0; all != NULL && i < n_clients; i++) {
                memcpy(all + n, clients[i].latencies_ns, clients[i].n * sizeof(*all));
                n += clients[i].n;
        }
        if (n == 0)
                exit(1);
        qsort(all, n, sizeof(*all), compare);
        for (size_t i = 0; i < n; i++)
                sum += all[i];
        printf("{\"n\": %zu, \"rate\": %.1f, \"mean_ms\": %.4f, \"p50_ms\": %.4f, \"p99_ms\": "
               "%.4f, "
               "\"max_ms\": %.4f}\n",
               n, (double)n / seconds, sum / (double)n / 1e6, all[n / 2] / 1e6,
               all[n * 99 / 100] / 1e6, all[n - 1] / 1e6);
        free(all);
}

int main(int argc, char **argv) {
        static struct client clients[MAX_CLIENTS];
        int                  n_clients = argc > 4 ? atoi(argv[4]) : 0;
        double               seconds = argc > 5 ? atof(argv[5]) : 0;

        if (n_clients < 1 || n_clients > MAX_CLIENTS || seconds <= 0 ||
            !read_request(argv[2], argv[3])) {
                fputs("closed_loop <port> <path> <body> <clients> <seconds> [<think us>]\n",
                      stderr);
                return 2;
        }
        port = atoi(argv[1]);
        think_ns = argc > 6 ? strtoul(argv[6], NULL, 10) * 1000u : 0;
        begin_ns = now_ns() + 200000000u; /* after a warm-up */
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
