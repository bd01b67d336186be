/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/listener.h"

#include "base/lock.h"
#include "base/mem.h"
#include "net/uv_types.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024 /* as in the reference server */
/* Limit of connections accepted per wake-up, so that a flood of them does not starve the connections
 * that the loop already has. */
#define MAX_ACCEPTS 64
/* Limit of connections that a loop opens per round when others hand them over. A loop that had no CPU for a while
 * finds hundreds; it reads from those that are open before it opens more, so that each new one finds some that
 * can make room for it (net/leave_order.h). */
#define MAX_OPENINGS 16
/* Accepting pauses for this time when descriptors or memory are exhausted. */
#define PAUSE_MS 100

struct listener {
        struct listener_options options;
        struct loop            *loop; /* borrowed: the first of the group, which accepts */
        int                     fd;
        int                     spare_fd; /* for refuse_one(); -1: none */
        uint16_t                port;
        uv_poll_t               poll; /* used on the loop from start to close */
        uv_timer_t              pause;
        bool is_inherited;   /* others have the socket, too: it outlives the listener */
        bool is_polling;     /* `poll` and `pause` are initialised; used by the loop */
        int  n_open_handles; /* how many of the two are not closed yet; used while closing */
        int  waiting_fd; /* the accepted connection without a place; -1: none; used by the loop */
        bool is_closing; /* used by the loop */
        bool is_expecting; /* some were handed to other loops since none was on its way; used by the loop */
        struct mail start, retry, close;

        struct mutex lock; /* rank LOCK_LEAF; guards the fields below */
        struct cond  changed;
        size_t       n_arriving; /* connections whose mail to another loop was not delivered yet */
        size_t       n_mails;    /* of these, and `retry`: listener_close() waits for them */
        bool         is_waiting; /* the next connection that arrives posts `retry` */
        bool         is_closed;
};

/* The mail that passes an accepted connection to its loop. */
struct handover {
        struct mail      mail;
        struct listener *listener; /* borrowed: listener_close() waits for this mail */
        struct loop     *loop;     /* borrowed */
        int              fd;
};

/* Counts a connection that the loop opens in this round; false when it has to wait for the next one. */
static bool take_opening(struct loop *l) {
        if (l->openings_round != l->turns.round) {
                l->openings_round = l->turns.round;
                l->n_openings = 0;
        }
        return l->n_openings++ < MAX_OPENINGS;
}

static void end_mail_locked(struct listener *ln) {
        if (--ln->n_mails == 0)
                cond_broadcast(&ln->changed);
}

/* `retry` takes over the place in n_mails. */
static void end_arrival(struct listener *ln) {
        bool is_waited_for;

        mutex_lock(&ln->lock);
        ln->n_arriving--;
        is_waited_for = ln->is_waiting;
        ln->is_waiting = false;
        if (!is_waited_for)
                end_mail_locked(ln);
        mutex_unlock(&ln->lock);
        if (is_waited_for)
                mailbox_post(&ln->loop->mailbox, &ln->retry);
}

static void on_handover(struct mail *m) {
        struct handover *d = CONTAINER_OF(m, struct handover, mail);
        struct listener *ln = d->listener;

        if (!take_opening(d->loop)) {
                mailbox_post(&d->loop->mailbox, m);
                return;
        }
        ln->options.on_accept(ln->options.owner, d->loop, d->fd);
        atomic_fetch_sub_explicit(&d->loop->n_arriving, 1, memory_order_relaxed);
        free(d);
        end_arrival(ln);
}

static void hand_over(struct listener *ln, int fd) {
        struct loop     *target = loop_group_least_busy(ln->options.loops);
        struct handover *d;
        int              on = 1;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (target == ln->loop) {
                ln->options.on_accept(ln->options.owner, target, fd);
                return;
        }
        d = mem_zalloc(sizeof(*d));
        d->listener = ln;
        d->loop = target;
        d->fd = fd;
        d->mail.deliver = on_handover;
        mutex_lock(&ln->lock);
        ln->n_arriving++;
        ln->n_mails++;
        mutex_unlock(&ln->lock);
        ln->is_expecting = true;
        atomic_fetch_add_explicit(&target->n_arriving, 1, memory_order_relaxed);
        mailbox_post(&target->mailbox, &d->mail);
}

static int accept_one(struct listener *ln) {
        return accept4(ln->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* Opens the spare descriptor if there is none: another thread may have taken the descriptor that
 * refuse_one() closed. */
static void open_spare(struct listener *ln) {
        if (ln->spare_fd < 0)
                ln->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Refuses a connection when no descriptor is left: closes the spare descriptor, accepts the connection
 * with it and closes the connection, so that the peer sees the refusal and the listening socket does
 * not stay readable. Returns false when that fails too. */
static bool refuse_one(struct listener *ln) {
        int fd;

        if (ln->spare_fd < 0)
                return false;
        close(ln->spare_fd);
        ln->spare_fd = -1;
        fd = accept_one(ln);
        if (fd >= 0)
                close(fd);
        open_spare(ln);
        return fd >= 0;
}

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer) {
        struct listener *ln = CONTAINER_OF(timer, struct listener, pause);

        uv_poll_start(&ln->poll, UV_READABLE, on_acceptable);
}

static void pause_accepting(struct listener *ln) {
        if (uv_is_closing((uv_handle_t *)&ln->poll))
                return;
        uv_poll_stop(&ln->poll);
        uv_timer_start(&ln->pause, on_pause_over, PAUSE_MS, 0);
}

/* Has the next connection that arrives at its loop post `retry`; false when none is on its way. */
static bool wait_for_arrival(struct listener *ln) {
        MUTEX_GUARD(&ln->lock);
        ln->is_waiting = ln->n_arriving > 0;
        return ln->is_waiting;
}

static bool take_place(struct listener *ln) {
        const struct listener_options *o = &ln->options;

        return o->can_accept == NULL || o->can_accept(o->owner);
}

static void refuse_fd(struct listener *ln, int fd) {
        const struct listener_options *o = &ln->options;

        if (o->on_refused != NULL)
                o->on_refused(o->owner);
        close(fd);
}

/* Gives the connection to a loop or refuses it. False when it has to wait. The last connection on its way may arrive,
 * and free a place, after the question for one: then it is asked once more. */
static bool place(struct listener *ln, int fd) {
        bool is_expecting;

        while (!take_place(ln)) {
                is_expecting = ln->is_expecting;
                if (!ln->is_closing && wait_for_arrival(ln)) {
                        ln->waiting_fd = fd;
                        return false;
                }
                ln->is_expecting = false;
                if (!is_expecting) {
                        refuse_fd(ln, fd);
                        return true;
                }
        }
        hand_over(ln, fd);
        return true;
}

/* As place(), for the connection that waits. */
static bool place_waiting(struct listener *ln) {
        int fd = ln->waiting_fd;

        ln->waiting_fd = -1;
        return place(ln, fd);
}

/* False when no further connection can be accepted for now. */
static bool accept_next(struct listener *ln) {
        int fd;

        open_spare(ln);
        fd = accept_one(ln);
        if (fd >= 0) {
                if (place(ln, fd))
                        return true;
                uv_poll_stop(&ln->poll);
                return false;
        }
        switch (errno) {
        case EAGAIN: return false;
        case EMFILE:
        case ENFILE:
                if (refuse_one(ln))
                        return true;
                pause_accepting(ln);
                return false;
        case ENOBUFS:
        case ENOMEM: pause_accepting(ln); return false;
        default: /* the peer is gone: accept(2) lists the errors */ return true;
        }
}

static void on_acceptable(uv_poll_t *poll, int status, int events) {
        struct listener *ln = CONTAINER_OF(poll, struct listener, poll);

        (void)status;
        (void)events;
        for (int i = 0; i < MAX_ACCEPTS && accept_next(ln); i++)
                ;
}

static void on_retry(struct mail *m) {
        struct listener *ln = CONTAINER_OF(m, struct listener, retry);

        /* When the listener closes, accept_backlog() has placed it. */
        if (ln->waiting_fd >= 0 && place_waiting(ln))
                uv_poll_start(&ln->poll, UV_READABLE, on_acceptable);
        mutex_lock(&ln->lock);
        end_mail_locked(ln);
        mutex_unlock(&ln->lock);
}

static void on_start(struct mail *m) {
        struct listener *ln = CONTAINER_OF(m, struct listener, start);

        uv_poll_init(&ln->loop->uv, &ln->poll, ln->fd);
        uv_timer_init(&ln->loop->uv, &ln->pause);
        ln->is_polling = true;
        uv_poll_start(&ln->poll, UV_READABLE, on_acceptable);
}

static void set_closed(struct listener *ln) {
        mutex_lock(&ln->lock);
        ln->is_closed = true;
        cond_broadcast(&ln->changed);
        mutex_unlock(&ln->lock);
}

/* Makes the kernel drop each SYN, so that the backlog grows no more: a connection that arrived between
 * the last accept() and close() would be reset although its peer saw it accepted. The client sends its
 * SYN again, and finds the socket closed or the next server. Segments of handshakes under way pass.
 * Where the kernel refuses the filter, the gap remains. */
static void drop_new_handshakes(int fd) {
        /* clang-format off */
        struct sock_filter steps[] = {
                BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), /* the flags of the TCP header */
                BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12), /* SYN and ACK */
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, 0),
                BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        };
        /* clang-format on */
        const struct sock_fprog filter = { .len = ARRAY_LEN(steps), .filter = steps };

        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

/* Accepts the backlog: its peers are connected and may have sent requests, and closing the listening socket would
 * reset them. A connection without a place is refused at once. */
static void accept_backlog(struct listener *ln) {
        ln->is_closing = true;
        if (ln->waiting_fd >= 0)
                place_waiting(ln);
        for (int i = 0; i <= BACKLOG && accept_next(ln); i++)
                ;
}

/* The backlog once more: handshakes that were under way have ended since. */
static void on_handle_closed(uv_handle_t *native) {
        struct listener *ln = native->data;

        if (--ln->n_open_handles > 0)
                return;
        accept_backlog(ln);
        set_closed(ln);
}

static void on_close(struct mail *m) {
        struct listener *ln = CONTAINER_OF(m, struct listener, close);

        if (!ln->is_polling) {
                set_closed(ln);
                return;
        }
        if (!ln->is_inherited)
                drop_new_handshakes(ln->fd);
        accept_backlog(ln);
        ln->n_open_handles = 2;
        ln->poll.data = ln;
        ln->pause.data = ln;
        uv_close((uv_handle_t *)&ln->poll, on_handle_closed);
        uv_close((uv_handle_t *)&ln->pause, on_handle_closed);
}

static uint16_t bound_port(int fd) {
        struct sockaddr_storage address;
        socklen_t               len = sizeof(address);

        if (getsockname(fd, (struct sockaddr *)&address, &len) < 0)
                return 0;
        if (address.ss_family == AF_INET6)
                return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
        return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

/* Returns the socket, or -1 with errno set. */
static int open_socket(const struct addrinfo *ai, bool reuse_port) {
        int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int on = 1, off = 0;

        if (fd < 0)
                return -1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (ai->ai_family == AF_INET6) /* "::" serves both families */
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        if ((!reuse_port || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
            bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
                return fd;
        on = errno;
        close(fd);
        errno = on;
        return -1;
}

static struct error *bind_address(const struct listener_options *o, int *ret_fd) {
        const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                        .ai_socktype = SOCK_STREAM };
        const char           *address = o->address != NULL ? o->address : "0.0.0.0";
        struct addrinfo      *found;
        char                  port[sizeof("65535")];
        int                   rc, failure = 0, fd = -1;

        snprintf(port, sizeof(port), "%u", o->port);
        rc = getaddrinfo(address, port, &hints, &found);
        if (rc != 0)
                return error_new(ERR_INVALID_ARG, "unable to listen at %s:%s: %s", address, port,
                                 gai_strerror(rc));
        for (const struct addrinfo *ai = found; ai != NULL && fd < 0; ai = ai->ai_next) {
                fd = open_socket(ai, o->reuse_port);
                failure = errno;
        }
        freeaddrinfo(found);
        if (fd < 0 && failure == EADDRINUSE) /* the reference server's text */
                return error_new(ERR_UNAVAILABLE, "Socket '%s:%s' already in use", address, port);
        if (fd < 0)
                return error_new(ERR_UNAVAILABLE, "unable to listen at %s:%s: %s", address, port,
                                 strerror(failure));
        *ret_fd = fd;
        return NULL;
}

static int socket_option(int fd, int name) {
        int       value = -1;
        socklen_t len = sizeof(value);

        return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* The socket of a supervisor, which may have opened it for something else. */
static struct error *take_inherited(int fd) {
        int family = socket_option(fd, SO_DOMAIN);
        int flags = fcntl(fd, F_GETFL);

        if (socket_option(fd, SO_ACCEPTCONN) == 1 && socket_option(fd, SO_TYPE) == SOCK_STREAM &&
            (family == AF_INET || family == AF_INET6) && flags >= 0 &&
            fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
                return NULL;
        close(fd);
        return error_new(ERR_INVALID_ARG, "descriptor %d is not a listening TCP socket", fd);
}

static struct error *open_or_take(const struct listener_options *o, int *ret_fd) {
        if (o->inherited_fd == 0) {
                struct error *err = bind_address(o, ret_fd);

                return o->set_by != NULL ? error_append(err, " (set by %s)", o->set_by) : err;
        }
        TRY(take_inherited(o->inherited_fd));
        *ret_fd = o->inherited_fd;
        return NULL;
}

struct error *listener_open(const struct listener_options *o, struct listener **ret) {
        struct listener *ln;
        int              fd;

        TRY(open_or_take(o, &fd));
        ln = mem_zalloc(sizeof(*ln));
        ln->options = *o;
        ln->options.address = NULL;
        ln->loop = loop_group_get(o->loops, 0);
        ln->fd = fd;
        ln->is_inherited = o->inherited_fd != 0;
        ln->spare_fd = -1;
        ln->waiting_fd = -1;
        open_spare(ln);
        ln->port = bound_port(fd);
        ln->start.deliver = on_start;
        ln->retry.deliver = on_retry;
        ln->close.deliver = on_close;
        mutex_init(&ln->lock, LOCK_LEAF);
        cond_init(&ln->changed);
        *ret = ln;
        return NULL;
}

void listener_start(struct listener *ln) {
        mailbox_post(&ln->loop->mailbox, &ln->start);
}

void listener_close(struct listener *ln) {
        if (ln == NULL)
                return;
        mailbox_post(&ln->loop->mailbox, &ln->close);
        mutex_lock(&ln->lock);
        while (!ln->is_closed || ln->n_mails > 0)
                cond_wait(&ln->changed, &ln->lock);
        mutex_unlock(&ln->lock);

        close(ln->fd);
        if (ln->spare_fd >= 0)
                close(ln->spare_fd);
        cond_done(&ln->changed);
        mutex_done(&ln->lock);
        free(ln);
}

uint16_t listener_port(const struct listener *ln) {
        return ln->port;
}
