/* SPDX-License-Identifier: BSD-3-Clause */
/* A gRPC client for tests that are too much for Python: one thread, epoll and nghttp2, loopback
 * only. Every answer is looked at.
 *
 *     grpc_load streams <port> <model> <connections> <streams of each> <messages of each>
 *
 * ModelStreamInfer: opens all streams, sends one message on each, and when every stream has its
 * answer, so that all are known to be open, the others. Each answer must be the next one of its
 * stream, with the tensor that was sent. Prints {"answers": n, "streams": n}.
 *
 *     grpc_load calls <port> <model> <milliseconds>
 *
 * ModelInfer, one call after the other on one connection. Prints {"calls": n, "p50_us": n,
 * "p99_us": n, "max_us": n}.
 *
 * The models take and give one FP32 [1], INPUT0 and OUTPUT0. Whatever is not as it should be is
 * said on stderr and ends the program with status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_MESSAGE 1024
#define MAX_OUT (256u << 10)
#define WINDOW (16 << 20)

struct peer;

struct stream {
        struct peer *peer;
        int32_t      id;
        uint32_t     number; /* of all streams */
        uint32_t     n_sent; /* messages given to the session as a whole */
        uint32_t     n_answered;
        char         out[MAX_MESSAGE]; /* the message being sent */
        size_t       out_len, out_at;
        char         in[MAX_MESSAGE]; /* the answer that arrives, with its prefix */
        size_t       in_len;
        bool         has_ended;
        int          status; /* grpc-status; -1 = not seen */
};

struct peer {
        int              fd;
        nghttp2_session *session;
        char            *out; /* MAX_OUT and a frame */
        size_t           out_len, out_at;
        bool             waits_to_write;
};

static struct {
        const char *model;
        uint32_t    n_messages; /* of each stream */
        size_t      n_streams, n_ended;
        uint64_t    n_answers;
        bool        may_go_on; /* every stream has its first answer */
        int         epoll;
} load;

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void fail(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        exit(1);
}

static uint64_t now_us(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- messages: lengths are all below 128, so each takes one byte ---- */

static size_t put(char *to, int number, const void *bytes, size_t len) {
        if (len > 127)
                fail("a field is too long");
        to[0] = (char)(number << 3 | 2);
        to[1] = (char)len;
        memcpy(to + 2, bytes, len);
        return len + 2;
}

static float value_of(const struct stream *st, uint32_t message) {
        return (float)(st->number % 4096) + (float)message / 4096;
}

static void make_message(struct stream *st, uint32_t message) {
        static const char one[] = { 1 };
        char              tensor[64], id[32];
        char             *to = st->out + 5;
        float             value = value_of(st, message);
        size_t            n = 0, len = 0;

        n += put(tensor + n, 1, "INPUT0", 6);
        n += put(tensor + n, 2, "FP32", 4);
        n += put(tensor + n, 3, one, 1);
        len += put(to + len, 1, load.model, strlen(load.model));
        len += put(to + len, 3, id, (size_t)snprintf(id, sizeof(id), "%u.%u", st->number, message));
        len += put(to + len, 5, tensor, n);
        len += put(to + len, 7, &value, 4);
        memcpy(st->out, "\0\0\0\0\0", 5);
        st->out[3] = (char)(len >> 8);
        st->out[4] = (char)len;
        st->out_len = len + 5;
        st->out_at = 0;
}

struct range {
        const unsigned char *at, *end;
};

/* The bytes of the next field; its number in `ret`, 0 at the end. Numbers in it are passed over. */
static struct range take_field(struct range *in, unsigned *ret) {
        struct range field = { NULL, NULL };

        *ret = 0;
        while (in->end - in->at >= 2) {
                unsigned key = *in->at++;
                size_t   n = 0;
                int      shift = 0;

                do {
                        n |= (size_t)(*in->at & 127) << shift;
                        shift += 7;
                } while ((*in->at++ & 128) && in->at < in->end && shift < 28);
                if ((key & 7) == 0)
                        continue;
                if ((key & 7) != 2 || n > (size_t)(in->end - in->at))
                        fail("an answer is malformed");
                field = (struct range){ in->at, in->at + n };
                in->at += n;
                *ret = key >> 3;
                return field;
        }
        return field;
}

static struct range find_field(struct range in, unsigned wanted) {
        unsigned     number;
        struct range field;

        do {
                field = take_field(&in, &number);
        } while (number != 0 && number != wanted);
        return field;
}

static void check_response(struct stream *st, struct range response) {
        struct range id = find_field(response, 3), raw = find_field(response, 6);
        float        value = value_of(st, st->n_answered);
        char         wanted[32];
        int          n = snprintf(wanted, sizeof(wanted), "%u.%u", st->number, st->n_answered);

        if (id.end - id.at != n || memcmp(id.at, wanted, (size_t)n) != 0)
                fail("the next answer should be %s and is %.*s", wanted, (int)(id.end - id.at),
                     (const char *)id.at);
        if (raw.end - raw.at != 4 || memcmp(raw.at, &value, 4) != 0)
                fail("the tensor of %s is not what was sent", wanted);
}

static void check_answer(struct stream *st, bool is_streamed) {
        const unsigned char *bytes = (const unsigned char *)st->in;
        struct range         all = { bytes + 5, bytes + st->in_len };
        struct range         text;

        if (is_streamed) {
                text = find_field(all, 1);
                if (text.at != NULL && text.end > text.at)
                        fail("refused: %.*s", (int)(text.end - text.at), (const char *)text.at);
                all = find_field(all, 2);
        }
        check_response(st, all);
        st->n_answered++;
        load.n_answers++;
        st->in_len = 0;
}

/* ---- the session ---- */

static ssize_t on_pull(nghttp2_session *session, int32_t id, uint8_t *to, size_t max,
                       uint32_t *flags, nghttp2_data_source *source, void *userp) {
        struct stream *st = source->ptr;
        size_t         used = 0;

        (void)session, (void)id, (void)userp;
        while (used < max) {
                size_t n = st->out_len - st->out_at;

                if (n == 0) {
                        if (st->n_sent == load.n_messages || (st->n_sent == 1 && !load.may_go_on))
                                break;
                        make_message(st, st->n_sent++);
                        continue;
                }
                if (n > max - used)
                        n = max - used;
                memcpy(to + used, st->out + st->out_at, n);
                st->out_at += n;
                used += n;
        }
        if (st->out_at == st->out_len && st->n_sent == load.n_messages)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        else if (used == 0)
                return NGHTTP2_ERR_DEFERRED;
        return (ssize_t)used;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *userp) {
        struct stream *st = nghttp2_session_get_stream_user_data(session, id);

        (void)flags, (void)userp;
        while (st != NULL && len > 0) {
                const unsigned char *head = (const unsigned char *)st->in;
                size_t               wanted = 5, n;

                if (st->in_len >= 5)
                        wanted += (size_t)head[1] << 24 | (size_t)head[2] << 16 |
                                  (size_t)head[3] << 8 | head[4];
                if (wanted > MAX_MESSAGE)
                        fail("an answer is too long");
                n = wanted - st->in_len < len ? wanted - st->in_len : len;
                memcpy(st->in + st->in_len, bytes, n);
                st->in_len += n;
                bytes += n;
                len -= n;
                if (st->in_len == wanted && wanted > 5)
                        check_answer(st, load.n_messages > 1);
        }
        return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *userp) {
        struct stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        nghttp2_vec    n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);

        (void)flags, (void)userp;
        if (st != NULL && n.len == 11 && memcmp(n.base, "grpc-status", 11) == 0)
                st->status = atoi((const char *)v.base);
        return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *userp) {
        struct stream *st = nghttp2_session_get_stream_user_data(session, id);

        (void)userp;
        if (st == NULL)
                return 0;
        if (code != 0 || st->status != 0 || st->n_answered != load.n_messages)
                fail("stream %u ends with code %u, status %d, after %u answers", st->number, code,
                     st->status, st->n_answered);
        st->has_ended = true;
        load.n_ended++;
        return 0;
}

static nghttp2_nv header(const char *name, const char *value) {
        return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                             strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static void begin(struct stream *st, const char *path) {
        const nghttp2_nv      fields[] = { header(":method", "POST"),
                                           header(":scheme", "http"),
                                           header(":path", path),
                                           header(":authority", "localhost"),
                                           header("content-type", "application/grpc"),
                                           header("te", "trailers") };
        nghttp2_data_provider body = { { .ptr = st }, on_pull };

        st->status = -1;
        st->n_sent = st->n_answered = 0;
        st->out_len = st->out_at = st->in_len = 0;
        st->has_ended = false;
        st->id = nghttp2_submit_request(st->peer->session, NULL, fields, 6, &body, st);
        if (st->id < 0)
                fail("unable to begin a stream: %s", nghttp2_strerror(st->id));
}

/* ---- sockets ---- */

static void watch(struct peer *p, bool writes) {
        struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = p };

        if (writes != p->waits_to_write)
                epoll_ctl(load.epoll, EPOLL_CTL_MOD, p->fd, &event);
        p->waits_to_write = writes;
}

static void fill(struct peer *p) {
        const uint8_t *bytes;
        ssize_t        n;

        p->out_len = p->out_at = 0;
        while (p->out_len < MAX_OUT && (n = nghttp2_session_mem_send(p->session, &bytes)) != 0) {
                if (n < 0)
                        fail("nothing can be sent: %s", nghttp2_strerror((int)n));
                memcpy(p->out + p->out_len, bytes, (size_t)n);
                p->out_len += (size_t)n;
        }
}

static void write_all(struct peer *p) {
        for (;;) {
                ssize_t n;

                if (p->out_at == p->out_len)
                        fill(p);
                if (p->out_len == 0)
                        break;
                n = send(p->fd, p->out + p->out_at, p->out_len - p->out_at, MSG_NOSIGNAL);
                if (n < 0 && errno != EAGAIN)
                        fail("write: %s", strerror(errno));
                if (n < 0) {
                        watch(p, true);
                        return;
                }
                p->out_at += (size_t)n;
        }
        watch(p, false);
}

static void read_some(struct peer *p) {
        static char bytes[256 << 10];
        ssize_t     n = recv(p->fd, bytes, sizeof(bytes), 0);

        if (n < 0 && errno == EAGAIN)
                return;
        if (n <= 0)
                fail("the server closes the connection");
        n = nghttp2_session_mem_recv(p->session, (const uint8_t *)bytes, (size_t)n);
        if (n < 0)
                fail("what was read is no HTTP/2: %s", nghttp2_strerror((int)n));
}

static void make_session(struct peer *p) {
        const nghttp2_settings_entry window = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW };
        nghttp2_session_callbacks   *cb;

        nghttp2_session_callbacks_new(&cb);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        nghttp2_session_client_new(&p->session, cb, p);
        nghttp2_session_callbacks_del(cb);
        nghttp2_submit_settings(p->session, NGHTTP2_FLAG_NONE, &window, 1);
        nghttp2_session_set_local_window_size(p->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
}

static void open_peer(struct peer *p, uint16_t port) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons(port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
        int                one = 1;

        p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
                fail("unable to connect: %s", strerror(errno));
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        fcntl(p->fd, F_SETFL, O_NONBLOCK);
        p->out = malloc(MAX_OUT + 32768);
        make_session(p);
        epoll_ctl(load.epoll, EPOLL_CTL_ADD, p->fd, &event);
}

static void close_peer(struct peer *p) {
        nghttp2_session_del(p->session);
        close(p->fd);
        free(p->out);
}

/* One round of events; what they make possible is written. */
static void run_once(void) {
        struct epoll_event events[256];
        int                n = epoll_wait(load.epoll, events, 256, 60000);

        if (n == 0)
                fail("nothing has happened for a minute");
        for (int i = 0; i < n; i++) {
                struct peer *p = events[i].data.ptr;

                if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                        read_some(p);
                write_all(p);
        }
}

/* ---- the two loads ---- */

static void go_on(struct peer *peers, size_t n_peers, const struct stream *streams) {
        load.may_go_on = true;
        for (size_t i = 0; i < load.n_streams; i++)
                if (nghttp2_session_resume_data(streams[i].peer->session, streams[i].id) != 0)
                        fail("stream %u does not go on", streams[i].number);
        for (size_t i = 0; i < n_peers; i++)
                write_all(&peers[i]);
}

static void run_streams(uint16_t port, size_t n_peers, size_t n_each) {
        struct peer   *peers = calloc(n_peers, sizeof(*peers));
        struct stream *streams = calloc(n_peers * n_each, sizeof(*streams));

        load.n_streams = n_peers * n_each;
        for (size_t i = 0; i < n_peers; i++)
                open_peer(&peers[i], port);
        for (size_t i = 0; i < load.n_streams; i++) {
                streams[i].peer = &peers[i % n_peers];
                streams[i].number = (uint32_t)i;
                begin(&streams[i], "/inference.GRPCInferenceService/ModelStreamInfer");
        }
        for (size_t i = 0; i < n_peers; i++)
                write_all(&peers[i]);
        while (load.n_answers < load.n_streams)
                run_once();
        go_on(peers, n_peers, streams);
        while (load.n_ended < load.n_streams)
                run_once();
        printf("{\"answers\": %llu, \"streams\": %zu}\n", (unsigned long long)load.n_answers,
               load.n_ended);
        for (size_t i = 0; i < n_peers; i++)
                close_peer(&peers[i]);
        free(streams);
        free(peers);
}

static int by_size(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

static void run_calls(uint16_t port, uint64_t milliseconds) {
        size_t        n = 0, cap = 1024;
        uint64_t     *took = malloc(cap * sizeof(*took));
        struct peer   peer = { 0 };
        struct stream call = { .peer = &peer };
        uint64_t      end = now_us() + milliseconds * 1000;

        load.n_messages = 1;
        load.n_streams = 1;
        open_peer(&peer, port);
        for (uint64_t began = now_us(); began < end || n == 0; began = now_us()) {
                begin(&call, "/inference.GRPCInferenceService/ModelInfer");
                write_all(&peer);
                while (!call.has_ended)
                        run_once();
                if (n == cap)
                        took = realloc(took, (cap *= 2) * sizeof(*took));
                took[n++] = now_us() - began;
        }
        qsort(took, n, sizeof(*took), by_size);
        printf("{\"calls\": %zu, \"p50_us\": %llu, \"p99_us\": %llu, \"max_us\": %llu}\n", n,
               (unsigned long long)took[n / 2], (unsigned long long)took[n * 99 / 100],
               (unsigned long long)took[n - 1]);
        close_peer(&peer);
        free(took);
}

int main(int argc, char **argv) {
        const char *kind = argc > 1 ? argv[1] : "";
        bool        is_streams = strcmp(kind, "streams") == 0 && argc == 7;

        if (!is_streams && !(strcmp(kind, "calls") == 0 && argc == 5))
                fail("usage: grpc_load streams <port> <model> <connections> <streams> <messages>\n"
                     "       grpc_load calls <port> <model> <milliseconds>");
        load.epoll = epoll_create1(EPOLL_CLOEXEC);
        load.model = argv[3];
        if (is_streams) {
                load.n_messages = (uint32_t)atoi(argv[6]);
                if (load.n_messages < 2)
                        fail("a stream has at least two messages");
                run_streams((uint16_t)atoi(argv[2]), (size_t)atoi(argv[4]), (size_t)atoi(argv[5]));
        } else {
                run_calls((uint16_t)atoi(argv[2]), strtoull(argv[4], NULL, 10));
        }
        return 0;
}
