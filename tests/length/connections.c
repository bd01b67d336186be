/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients that come and go, or come and stay: one thread, epoll and nghttp2, loopback only.
 *
 *     connections <http|grpc> <port> <model> make <count> <at a time>
 *
 * Opens connections, each for one request. Of 16 connections 13 end after their answer, one is reset after it, one
 * ends before it, and one ends without a request. Prints {"connections": n, "answers": n}.
 *
 *     connections <http|grpc> <port> <model> hold <count>
 *
 * Opens connections, sends one request on each, prints {"connections": n, "answers": n}, and keeps them until its
 * standard input ends; pings are answered. Prints {"closed": n} then, with the connections that the server has closed.
 *
 * The model takes and gives one FP32 [1], INPUT0 and OUTPUT0. Each answer is checked; a wrong one is reported on stderr
 * and ends the program with status 1. Connections come from 200 addresses of the loopback network, so that the ports
 * of one address do not limit the rate.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_ADDRESSES 200
#define N_WAYS 16 /* ways to end, in turn */
#define MAX_IN 2048
#define MAX_OUT 4096

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum way { ENDS_AFTER_ANSWER, IS_RESET, ENDS_BEFORE_ANSWER, ENDS_WITHOUT_REQUEST };

struct peer {
        int              fd;
        enum way         way;
        bool             is_connected, is_answered, is_held;
        nghttp2_session *session; /* of gRPC */
        bool             has_message;
        size_t           message_at;
        int              status; /* grpc-status; -1 = not seen */
        char             out[MAX_OUT];
        size_t           out_len, out_at;
        char             in[MAX_IN]; /* of HTTP: the answer so far */
        size_t           in_len;
};

static struct {
        bool        is_grpc;
        uint16_t    port;
        const char *model;
        bool        holds;
        size_t      n_wanted, n_begun, n_open, n_ended, n_answers, n_closed;
        int         epoll;
} load;

static const float value = 1.5f;

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void fail(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        exit(1);
}

/* ---- HTTP ---- */

static void make_http(struct peer *p) {
        static const char body[] =
                "{\"inputs\":[{\"name\":\"INPUT0\",\"datatype\":\"FP32\",\"shape\":[1],"
                "\"data\":[1.5]}]}";
        int n;

        n = snprintf(p->out, sizeof(p->out),
                     "POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                     "%zu\r\n\r\n%s",
                     load.model, sizeof(body) - 1, body);
        if (n < 0 || (size_t)n >= sizeof(p->out))
                fail("the model's name is too long");
        p->out_len = (size_t)n;
}

/* True when the answer is whole. */
static bool read_http(struct peer *p, const char *bytes, size_t n) {
        const char *end, *length;

        if (n >= sizeof(p->in) - p->in_len)
                fail("an answer is too long");
        memcpy(p->in + p->in_len, bytes, n);
        p->in_len += n;
        p->in[p->in_len] = '\0';
        end = strstr(p->in, "\r\n\r\n");
        if (end == NULL)
                return false;
        length = strcasestr(p->in, "\r\ncontent-length:");
        if (length == NULL || length > end)
                fail("an answer has no length: %s", p->in);
        if (p->in_len - (size_t)(end + 4 - p->in) < strtoul(length + 17, NULL, 10))
                return false;
        if (strncmp(p->in, "HTTP/1.1 200 ", 13) != 0 || strstr(end, "\"data\":[1.5]") == NULL)
                fail("a wrong answer: %s", p->in);
        return true;
}

/* ---- gRPC ---- */

static size_t put(char *to, int number, const void *bytes, size_t len) {
        if (len > 127)
                fail("a field is too long");
        to[0] = (char)(number << 3 | 2);
        to[1] = (char)len;
        memcpy(to + 2, bytes, len);
        return len + 2;
}

static size_t make_message(char *to) {
        static const char one[] = { 1 };
        char              tensor[64];
        size_t            n = 0, len = 5;

        n += put(tensor + n, 1, "INPUT0", 6);
        n += put(tensor + n, 2, "FP32", 4);
        n += put(tensor + n, 3, one, 1);
        len += put(to + len, 1, load.model, strlen(load.model));
        len += put(to + len, 5, tensor, n);
        len += put(to + len, 7, &value, sizeof(value));
        memcpy(to, "\0\0\0\0\0", 5);
        to[3] = (char)((len - 5) >> 8);
        to[4] = (char)(len - 5);
        return len;
}

static ssize_t on_pull(nghttp2_session *session, int32_t id, uint8_t *to, size_t max,
                       uint32_t *flags, nghttp2_data_source *source, void *userp) {
        char   message[512];
        size_t n = make_message(message);

        (void)session, (void)id, (void)source, (void)userp;
        if (n > max)
                fail("no room for a message");
        memcpy(to, message, n);
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
}

/* The tensor is the end of the message. */
static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *userp) {
        struct peer *p = userp;

        (void)session, (void)flags, (void)id;
        p->has_message = len >= sizeof(value) &&
                         memcmp(bytes + len - sizeof(value), &value, sizeof(value)) == 0;
        return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *text, size_t text_len, uint8_t flags,
                     void *userp) {
        struct peer *p = userp;

        (void)session, (void)frame, (void)flags, (void)text_len;
        if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
                p->status = atoi((const char *)text);
        return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *userp) {
        struct peer *p = userp;

        (void)session, (void)id;
        if (code != 0 || p->status != 0 || !p->has_message)
                fail("a call ends with code %u, status %d, %s", code, p->status,
                     p->has_message ? "its tensor" : "a wrong tensor");
        p->is_answered = true;
        return 0;
}

static nghttp2_nv header(const char *name, const char *text) {
        return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)text, strlen(name),
                             strlen(text), NGHTTP2_NV_FLAG_NONE };
}

static void submit_call(struct peer *p) {
        const nghttp2_nv      fields[] = { header(":method", "POST"),
                                           header(":scheme", "http"),
                                           header(":path", "/inference.GRPCInferenceService/ModelInfer"),
                                           header(":authority", "localhost"),
                                           header("content-type", "application/grpc"),
                                           header("te", "trailers") };
        nghttp2_data_provider body = { { .ptr = NULL }, on_pull };

        if (nghttp2_submit_request(p->session, NULL, fields, 6, &body, NULL) < 0)
                fail("unable to begin a call");
}

static void make_grpc(struct peer *p) {
        static nghttp2_session_callbacks *callbacks;

        if (callbacks == NULL) {
                nghttp2_session_callbacks_new(&callbacks);
                nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
                nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
                nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        }
        if (nghttp2_session_client_new(&p->session, callbacks, p) != 0)
                fail("no memory for a session");
        nghttp2_submit_settings(p->session, NGHTTP2_FLAG_NONE, NULL, 0);
        submit_call(p);
}

static void fill_grpc(struct peer *p) {
        const uint8_t *bytes;
        ssize_t        n;

        p->out_len = p->out_at = 0;
        while ((n = nghttp2_session_mem_send(p->session, &bytes)) > 0) {
                if ((size_t)n > sizeof(p->out) - p->out_len)
                        fail("too much to send");
                memcpy(p->out + p->out_len, bytes, (size_t)n);
                p->out_len += (size_t)n;
        }
}

/* ---- sockets ---- */

static enum way way_of(size_t number) {
        switch (load.holds ? 0 : number % N_WAYS) {
        case 3: return IS_RESET;
        case 7: return ENDS_BEFORE_ANSWER;
        case 11: return ENDS_WITHOUT_REQUEST;
        default: return ENDS_AFTER_ANSWER;
        }
}

static void open_socket(struct peer *p) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons(load.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_in from = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 +
                                                             load.n_begun % N_ADDRESSES) };
        int                one = 1;

        p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (p->fd < 0)
                fail("socket: %s", strerror(errno));
        setsockopt(p->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (bind(p->fd, (struct sockaddr *)&from, sizeof(from)) != 0)
                fail("bind: %s", strerror(errno));
        if (connect(p->fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS)
                fail("connect: %s", strerror(errno));
}

static void begin(struct peer *p) {
        struct epoll_event event = { .events = EPOLLOUT, .data.ptr = p };

        memset(p, 0, offsetof(struct peer, out));
        p->out_len = p->out_at = p->in_len = 0;
        p->status = -1;
        p->way = way_of(load.n_begun);
        open_socket(p);
        load.n_begun++;
        load.n_open++;
        if (load.is_grpc)
                make_grpc(p);
        else
                make_http(p);
        if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, p->fd, &event) != 0)
                fail("epoll_ctl: %s", strerror(errno));
}

static void end(struct peer *p) {
        struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

        if (p->way == IS_RESET)
                setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        nghttp2_session_del(p->session);
        p->session = NULL;
        close(p->fd);
        p->fd = -1;
        load.n_open--;
        load.n_ended++;
        if (!load.holds && load.n_begun < load.n_wanted)
                begin(p);
}

static bool write_some(struct peer *p) {
        if (p->session != NULL && p->out_at == p->out_len)
                fill_grpc(p);
        while (p->out_at < p->out_len) {
                ssize_t n = send(p->fd, p->out + p->out_at, p->out_len - p->out_at, MSG_NOSIGNAL);

                if (n < 0 && errno == EAGAIN)
                        return false;
                if (n < 0)
                        fail("send: %s", strerror(errno));
                p->out_at += (size_t)n;
        }
        return true;
}

static void on_connected(struct peer *p) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
        int                error = 0;
        socklen_t          size = sizeof(error);

        getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0)
                fail("unable to connect: %s", strerror(error));
        p->is_connected = true;
        if (p->way == ENDS_WITHOUT_REQUEST) {
                end(p);
                return;
        }
        if (!write_some(p))
                fail("a new connection takes no request");
        if (p->way == ENDS_BEFORE_ANSWER)
                end(p);
        else
                epoll_ctl(load.epoll, EPOLL_CTL_MOD, p->fd, &event);
}

static void on_answer(struct peer *p) {
        load.n_answers++;
        if (load.holds)
                p->is_held = true;
        else
                end(p);
}

static void on_bytes(struct peer *p, const char *bytes, size_t n) {
        bool was_answered = p->is_answered;

        if (load.is_grpc) {
                if (nghttp2_session_mem_recv(p->session, (const uint8_t *)bytes, n) < 0)
                        fail("what was read is no HTTP/2");
                if (!p->is_answered || load.holds)
                        (void)write_some(p);
        } else {
                p->is_answered = read_http(p, bytes, n);
        }
        if (p->is_answered && !was_answered)
                on_answer(p);
}

static void on_readable(struct peer *p) {
        char    bytes[MAX_IN];
        ssize_t n = recv(p->fd, bytes, sizeof(bytes) - 1, 0);

        if (n < 0 && errno == EAGAIN)
                return;
        if (n > 0) {
                on_bytes(p, bytes, (size_t)n);
                return;
        }
        if (!p->is_held)
                fail("the server closes a connection before its answer");
        load.n_closed++;
        end(p);
}

/* False when the standard input, whose event has no peer, has ended. */
static bool run_once(void) {
        struct epoll_event events[256];
        int n = epoll_wait(load.epoll, events, 256, load.n_answers == load.n_wanted ? -1 : 60000);

        if (n == 0)
                fail("nothing has happened for a minute: %zu of %zu", load.n_ended, load.n_wanted);
        for (int i = 0; i < n; i++) {
                struct peer *p = events[i].data.ptr;

                if (p == NULL)
                        return false;
                if (p->is_connected)
                        on_readable(p);
                else
                        on_connected(p);
        }
        return true;
}

/* ---- the two loads ---- */

static void print_counts(void) {
        printf("{\"connections\": %zu, \"answers\": %zu}\n", load.n_begun, load.n_answers);
        fflush(stdout);
}

static struct peer *begin_all(size_t n) {
        struct peer *peers = calloc(n, sizeof(*peers));

        if (peers == NULL)
                fail("no memory");
        for (size_t i = 0; i < n; i++)
                begin(&peers[i]);
        return peers;
}

static void make(size_t n_at_a_time) {
        struct peer *peers = begin_all(n_at_a_time < load.n_wanted ? n_at_a_time : load.n_wanted);

        while (load.n_ended < load.n_wanted)
                run_once();
        print_counts();
        free(peers);
}

/* A listener's queue has room for a hundred connections and more. */
static void hold(void) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
        struct peer       *peers = calloc(load.n_wanted, sizeof(*peers));

        if (peers == NULL)
                fail("no memory");
        while (load.n_answers < load.n_wanted) {
                while (load.n_begun < load.n_wanted && load.n_begun - load.n_answers < 100)
                        begin(&peers[load.n_begun]);
                run_once();
        }
        print_counts();
        if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0)
                fail("epoll_ctl of the standard input: %s", strerror(errno));
        while (run_once()) {
        }
        printf("{\"closed\": %zu}\n", load.n_closed);
        for (size_t i = 0; i < load.n_wanted; i++)
                if (peers[i].fd >= 0)
                        end(&peers[i]);
        free(peers);
}

int main(int n, char **arguments) {
        bool makes = n == 7 && strcmp(arguments[4], "make") == 0;

        load.holds = n == 6 && strcmp(arguments[4], "hold") == 0;
        if (!makes && !load.holds)
                fail("connections <http|grpc> <port> <model> make <count> <at a time> | hold "
                     "<count>");
        load.is_grpc = strcmp(arguments[1], "grpc") == 0;
        load.port = (uint16_t)atoi(arguments[2]);
        load.model = arguments[3];
        load.n_wanted = strtoul(arguments[5], NULL, 10);
        load.epoll = epoll_create1(EPOLL_CLOEXEC);
        if (makes)
                make(strtoul(arguments[6], NULL, 10));
        else
                hold();
        return 0;
}
