/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference server for the maximum throughput: one thread that only does epoll, read and write of
 * a fixed response. It parses only the Content-Length of the first request of a connection, to find
 * the end of each request, and transfers as many bytes as the server would.
 *
 *     floor <port> <bytes of a response>
 *
 * Prints the port it listens on (0 = any free one).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (256u << 10)

struct peer {
        int    fd;
        size_t request_bytes; /* size of one request; 0 = unknown */
        size_t got;           /* bytes received of the current request */
        size_t to_write;      /* bytes left of the current response */
};

static char        scratch[READ_BYTES];
static const char *response;
static size_t      response_bytes;
static int         epoll;

/* The first request's head and body determine the size of all requests. */
static size_t request_size(const char *bytes, size_t n) {
        const char *end = memmem(bytes, n, "\r\n\r\n", 4);
        size_t      length = 0;

        if (end == NULL)
                return 0;
        for (const char *line = bytes; line < end;
             line = (const char *)memchr(line, '\n', (size_t)(end - line) + 2) + 1)
                if (strncasecmp(line, "content-length:", 15) == 0)
                        length = strtoul(line + 15, NULL, 10);
        return (size_t)(end - bytes) + 4 + length;
}

static void wait_for(struct peer *p, uint32_t events) {
        struct epoll_event event = { .events = events, .data.ptr = p };

        epoll_ctl(epoll, EPOLL_CTL_MOD, p->fd, &event);
}

/* Sends the rest of a response. `was_waiting`: the socket was full before. */
static void answer(struct peer *p, bool was_waiting) {
        while (p->to_write > 0) {
                ssize_t n = write(p->fd, response + response_bytes - p->to_write, p->to_write);

                if (n < 0) {
                        if (!was_waiting)
                                wait_for(p, EPOLLOUT);
                        return;
                }
                p->to_write -= (size_t)n;
        }
        if (was_waiting)
                wait_for(p, EPOLLIN);
}

/* Returns false when the peer has closed the connection. */
static bool serve(struct peer *p) {
        ssize_t n;

        if (p->to_write > 0) {
                answer(p, true);
                return true;
        }
        n = read(p->fd, scratch, sizeof(scratch));
        if (n <= 0)
                return n < 0;
        if (p->request_bytes == 0)
                p->request_bytes = request_size(scratch, (size_t)n);
        p->got += (size_t)n;
        if (p->request_bytes == 0 || p->got < p->request_bytes)
                return true;
        p->got -= p->request_bytes;
        p->to_write = response_bytes;
        answer(p, false);
        return true;
}

static void accept_peer(int listener) {
        struct peer       *p = calloc(1, sizeof(*p));
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
        int                one = 1;

        p->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &event);
}

static char *make_response(size_t body_bytes) {
        char  *text = malloc(body_bytes + 256);
        size_t head =
                (size_t)snprintf(text, 256,
                                 "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                                 "Content-Length: %zu\r\n\r\n",
                                 body_bytes);

        memset(text + head, 'x', body_bytes);
        response_bytes = head + body_bytes;
        return text;
}

int main(int argc, char **argv) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                       .sin_port =
                                               htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0)) };
        socklen_t          length = sizeof(address);
        struct epoll_event events[128];
        int                listener = socket(AF_INET, SOCK_STREAM, 0);
        struct epoll_event event = { .events = EPOLLIN };

        epoll = epoll_create1(0);
        response = make_response(argc > 2 ? strtoul(argv[2], NULL, 10) : 16);
        if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
            listen(listener, 1024) != 0 ||
            getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
                perror("floor");
                return 1;
        }
        printf("%d\n", ntohs(address.sin_port));
        fflush(stdout);
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        for (;;) {
                int n = epoll_wait(epoll, events, 128, -1);

                for (int i = 0; i < n; i++) {
                        struct peer *p = events[i].data.ptr;

                        if (p == NULL) {
                                accept_peer(listener);
                        } else if (!serve(p)) {
                                close(p->fd);
                                free(p);
                        }
                }
        }
}
