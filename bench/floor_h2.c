/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference server for the maximum throughput of gRPC: one thread with epoll and nghttp2 that
 * answers each request with the same bytes after its end. It discards the contents of requests: it
 * finds no message and decodes nothing.
 *
 *     floor_h2 <port> <file with the body of a response>
 *
 * Prints the port it listens on (0 = any free one).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_BYTES (256u << 10)
#define STAGE_BYTES (128u << 10)
#define STREAM_WINDOW (4 << 20)
#define CONNECTION_WINDOW (16 << 20)
#define MAX_FRAME_BYTES (64 << 10)
/* Parts of one writev: frames that the library made, and pieces of the body between them. */
#define MAX_PARTS 256

struct peer {
        int              fd;
        nghttp2_session *session;
        struct iovec     parts[MAX_PARTS];
        size_t           n_parts, first_part;
        char             staged[STAGE_BYTES]; /* frames and frame headers */
        size_t           n_staged;
        bool             is_waiting; /* parts to write to the socket */
};

static char   scratch[READ_BYTES];
static char  *body;
static size_t body_bytes;
static int    epoll;

static nghttp2_nv header(const char *name, const char *value) {
        return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                             strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static void put(struct peer *p, const void *bytes, size_t n) {
        p->parts[p->n_parts++] = (struct iovec){ p->staged + p->n_staged, n };
        memcpy(p->staged + p->n_staged, bytes, n);
        p->n_staged += n;
}

/* Room for a DATA frame, and for a frame of the library that may follow before the next check. */
static bool has_room(const struct peer *p) {
        return p->n_parts + 3 <= MAX_PARTS && p->n_staged + (32u << 10) <= STAGE_BYTES;
}

/* The only state of a stream: the bytes of the body that were sent. */
static ssize_t on_pull(nghttp2_session *session, int32_t id, uint8_t *to, size_t max,
                       uint32_t *flags, nghttp2_data_source *source, void *userp) {
        static const char status[] = "grpc-status";
        size_t     sent = (size_t)(uintptr_t)nghttp2_session_get_stream_user_data(session, id);
        size_t     n = body_bytes - sent < max ? body_bytes - sent : max;
        nghttp2_nv trailer = header(status, "0");

        (void)to, (void)source, (void)userp;
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (sent + n == body_bytes) {
                *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
                nghttp2_submit_trailer(session, id, &trailer, 1);
        }
        return (ssize_t)n;
}

static int on_emit(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                   nghttp2_data_source *source, void *userp) {
        struct peer *p = userp;
        int32_t      id = frame->hd.stream_id;
        size_t       sent = (size_t)(uintptr_t)nghttp2_session_get_stream_user_data(session, id);

        (void)source;
        if (!has_room(p))
                return NGHTTP2_ERR_WOULDBLOCK;
        put(p, head, 9);
        if (n > 0)
                p->parts[p->n_parts++] = (struct iovec){ body + sent, n };
        nghttp2_session_set_stream_user_data(session, id, (void *)(uintptr_t)(sent + n));
        return 0;
}

static ssize_t on_length(nghttp2_session *session, uint8_t type, int32_t id, int32_t connection,
                         int32_t stream, uint32_t max_frame, void *userp) {
        int32_t n = connection < stream ? connection : stream;

        (void)session, (void)type, (void)id, (void)userp;
        n = n < (int32_t)max_frame ? n : (int32_t)max_frame;
        return n < MAX_FRAME_BYTES ? n : MAX_FRAME_BYTES;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userp) {
        nghttp2_nv            fields[] = { header(":status", "200"),
                                           header("content-type", "application/grpc") };
        nghttp2_data_provider source = { { .ptr = NULL }, on_pull };

        (void)userp;
        if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
            (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
                return nghttp2_submit_response(session, frame->hd.stream_id, fields, 2, &source);
        return 0;
}

static nghttp2_session *make_session(struct peer *p) {
        static nghttp2_session_callbacks *cb;
        const nghttp2_settings_entry      settings[] = {
                     { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 256 },
                     { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
                     { NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1 << 20 },
        };
        nghttp2_session *session;

        if (cb == NULL) {
                nghttp2_session_callbacks_new(&cb);
                nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
                nghttp2_session_callbacks_set_send_data_callback(cb, on_emit);
                nghttp2_session_callbacks_set_data_source_read_length_callback(cb, on_length);
        }
        nghttp2_session_server_new(&session, cb, p);
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 3);
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
        return session;
}

/* Returns false when there is nothing to send. */
static bool fill(struct peer *p) {
        const uint8_t *bytes;
        ssize_t        n;

        p->n_parts = p->first_part = p->n_staged = 0;
        while (has_room(p) && (n = nghttp2_session_mem_send(p->session, &bytes)) > 0)
                put(p, bytes, (size_t)n);
        return p->n_parts > 0;
}

static void wait_for(struct peer *p, bool writable) {
        struct epoll_event event = { .events = writable ? EPOLLOUT : EPOLLIN, .data.ptr = p };

        if (p->is_waiting != writable)
                epoll_ctl(epoll, EPOLL_CTL_MOD, p->fd, &event);
        p->is_waiting = writable;
}

static void drop(struct peer *p, size_t n) {
        while (n > 0) {
                struct iovec *part = &p->parts[p->first_part];

                if (n < part->iov_len) {
                        part->iov_base = (char *)part->iov_base + n;
                        part->iov_len -= n;
                        return;
                }
                n -= part->iov_len;
                p->first_part++;
        }
}

/* Returns false when the peer has closed the connection. */
static bool answer(struct peer *p) {
        while (p->first_part < p->n_parts || fill(p)) {
                ssize_t n =
                        writev(p->fd, p->parts + p->first_part, (int)(p->n_parts - p->first_part));

                if (n < 0 && errno != EAGAIN)
                        return false;
                if (n < 0) {
                        wait_for(p, true);
                        return true;
                }
                drop(p, (size_t)n);
        }
        wait_for(p, false);
        return true;
}

static bool serve(struct peer *p) {
        ssize_t n;

        if (p->is_waiting)
                return answer(p);
        n = read(p->fd, scratch, sizeof(scratch));
        if (n <= 0)
                return n < 0 && errno == EAGAIN;
        if (nghttp2_session_mem_recv(p->session, (const uint8_t *)scratch, (size_t)n) < 0)
                return false;
        return answer(p);
}

static void accept_peer(int listener) {
        struct peer       *p = calloc(1, sizeof(*p));
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
        int                one = 1;

        p->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        p->session = make_session(p);
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &event);
        answer(p);
}

static void read_body(const char *path) {
        FILE *file = fopen(path, "rb");

        if (file == NULL) {
                perror(path);
                exit(1);
        }
        fseek(file, 0, SEEK_END);
        body_bytes = (size_t)ftell(file);
        rewind(file);
        body = malloc(body_bytes + 1);
        if (fread(body, 1, body_bytes, file) != body_bytes)
                exit(1);
        fclose(file);
}

static int listen_at(uint16_t port) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                       .sin_port = htons(port) };
        socklen_t          length = sizeof(address);
        int                listener = socket(AF_INET, SOCK_STREAM, 0);

        if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
            listen(listener, 1024) != 0 ||
            getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
                perror("floor_h2");
                exit(1);
        }
        printf("%d\n", ntohs(address.sin_port));
        fflush(stdout);
        return listener;
}

int main(int argc, char **argv) {
        struct epoll_event events[128];
        struct epoll_event event = { .events = EPOLLIN };
        int                listener;

        if (argc != 3) {
                fputs("usage: floor_h2 <port> <file with the body of a response>\n", stderr);
                return 1;
        }
        epoll = epoll_create1(0);
        read_body(argv[2]);
        listener = listen_at((uint16_t)atoi(argv[1]));
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        for (;;) {
                int n = epoll_wait(epoll, events, 128, -1);

                for (int i = 0; i < n; i++) {
                        struct peer *p = events[i].data.ptr;

                        if (p == NULL) {
                                accept_peer(listener);
                        } else if (!serve(p)) {
                                nghttp2_session_del(p->session);
                                close(p->fd);
                                free(p);
                        }
                }
        }
}
