/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the load generators closed_loop and open_loop share: one HTTP request that is sent
 * repeatedly over loopback, and the statistics of its latencies.
 *
 * Ownership.  Everything is static; the caller owns the descriptors.
 * Threads.  load_read_request() is called first; after that any thread.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOAD_MESSAGE_BYTES 65536

static char   load_request[LOAD_MESSAGE_BYTES];
static size_t load_request_bytes;

static inline uint64_t load_now_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns a blocking descriptor; -1 on failure. */
static inline int load_connect(int port) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int                fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
                return -1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
}

/* Reads the body from the file and makes a POST request to `path`. */
static inline bool load_read_request(const char *path, const char *file) {
        char   body[LOAD_MESSAGE_BYTES / 2];
        FILE  *in = fopen(file, "r");
        size_t n = in != NULL ? fread(body, 1, sizeof(body), in) : 0;
        int    head;

        if (in != NULL)
                fclose(in);
        head = snprintf(load_request, sizeof(load_request),
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
                        n);
        if (n == 0 || head < 0 || (size_t)head + n > sizeof(load_request))
                return false;
        memcpy(load_request + head, body, n);
        load_request_bytes = (size_t)head + n;
        return true;
}

static inline bool load_send(int fd) {
        return write(fd, load_request, load_request_bytes) == (ssize_t)load_request_bytes;
}

/* Returns the size of the whole answer, by its Content-Length; 0 when its head is incomplete.
 * `answer` ends with a zero byte. */
static inline size_t load_answer_bytes(const char *answer) {
        const char *body = strstr(answer, "\r\n\r\n");
        const char *length = strcasestr(answer, "\r\ncontent-length: ");

        if (body == NULL || length == NULL)
                return 0;
        return (size_t)(body + 4 - answer) + strtoul(length + 18, NULL, 10);
}

static inline bool load_is_success(const char *answer) {
        return strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

static int load_compare(const void *a, const void *b) {
        uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

        return (left > right) - (left < right);
}

/* Sorts the latencies and prints their statistics as JSON; n > 0. */
static inline void load_print(uint32_t *latencies_ns, size_t n, double seconds) {
        double sum = 0;

        qsort(latencies_ns, n, sizeof(*latencies_ns), load_compare);
        for (size_t i = 0; i < n; i++)
                sum += latencies_ns[i];
        printf("{\"n\": %zu, \"rate\": %.1f, \"mean_ms\": %.4f, \"p50_ms\": %.4f, \"p99_ms\": "
               "%.4f, \"max_ms\": %.4f}\n",
               n, (double)n / seconds, sum / (double)n / 1e6, latencies_ns[n / 2] / 1e6,
               latencies_ns[n * 99 / 100] / 1e6, latencies_ns[n - 1] / 1e6);
}
