/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/seen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cmocka.h>

void seen_init(struct seen *s) {
        *s = (struct seen){ 0 };
        mutex_init(&s->lock, LOCK_SERVER);
        cond_init(&s->changed);
        strbuf_init(&s->rejected, 0);
        strbuf_init(&s->access, 0);
        assert_true(strbuf_reserve(&s->rejected, 65536));
        assert_true(strbuf_reserve(&s->access, 65536));
}

void seen_done(struct seen *s) {
        strbuf_done(&s->rejected);
        strbuf_done(&s->access);
        cond_done(&s->changed);
        mutex_done(&s->lock);
}

void seen_rejected(void *owner, const char *limit) {
        struct seen *s = owner;
        MUTEX_GUARD(&s->lock);

        strbuf_printf(&s->rejected, "%s ", limit);
        cond_broadcast(&s->changed);
}

void seen_access(struct seen *s, const char *format, ...) {
        char    line[4096];
        va_list args;

        va_start(args, format);
        assert_true(vsnprintf(line, sizeof(line), format, args) < (int)sizeof(line));
        va_end(args);
        MUTEX_GUARD(&s->lock);
        strbuf_puts(&s->access, line);
        s->n_access++;
        cond_broadcast(&s->changed);
}

void seen_count(struct seen *s, size_t *counter) {
        MUTEX_GUARD(&s->lock);

        ++*counter;
        cond_broadcast(&s->changed);
}

void seen_wait(struct seen *s, const size_t *counter, size_t n) {
        MUTEX_GUARD(&s->lock);

        while (*counter < n)
                cond_wait(&s->changed, &s->lock);
}

int seen_connect(uint16_t port, int receive_bytes) {
        const struct sockaddr_in address = { .sin_family = AF_INET,
                                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                             .sin_port = htons(port) };
        const struct timeval     limit = { .tv_sec = 30 };
        int                      fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

        assert_true(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (receive_bytes > 0)
                setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}
