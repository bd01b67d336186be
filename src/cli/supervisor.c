/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/supervisor.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

static const char *const PORT_NAMES[N_SUPERVISOR_PORTS] = { "http", "grpc", "metrics" };

void supervisor_init(struct supervisor *s) {
        *s = (struct supervisor){ .fd = -1 };
}

/* The variable's number; *ret is 0 when it is not set. */
static struct error *read_number(const char *name, uint64_t max, uint64_t *ret) {
        const char        *text = getenv(name);
        char              *end;
        unsigned long long number;

        *ret = 0;
        if (text == NULL)
                return NULL;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > max)
                return error_new(ERR_INVALID_ARG,
                                 "environment variable %s: expected a number up to %llu, got: %s",
                                 name, (unsigned long long)max, text);
        *ret = number;
        return NULL;
}

/* Connects to the socket that messages go to; '@' begins the name of an abstract one. */
static struct error *open_notify_socket(struct supervisor *s, const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        size_t             len = strlen(path);
        struct error      *err;

        if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(address.sun_path))
                return error_new(ERR_INVALID_ARG,
                                 "environment variable NOTIFY_SOCKET: expected a path, got: %s",
                                 path);
        memcpy(address.sun_path, path, len);
        if (path[0] == '@')
                address.sun_path[0] = '\0';
        s->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s->fd >= 0 && connect(s->fd, (const struct sockaddr *)&address,
                                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0)
                return NULL;
        err = error_new(ERR_UNAVAILABLE, "environment variable NOTIFY_SOCKET: %s: %s", path,
                        strerror(errno));
        if (s->fd >= 0)
                close(s->fd);
        s->fd = -1;
        return err;
}

/* Whether the variable, which names a process, names this one or is not set: a shell that the supervisor has
 * started passes on variables that are meant for itself. */
static struct error *is_for_us(const char *name, bool *ret) {
        uint64_t pid;

        TRY(read_number(name, INT32_MAX, &pid));
        *ret = pid == 0 || pid == (uint64_t)getpid();
        return NULL;
}

static struct error *read_watchdog(struct supervisor *s) {
        uint64_t us;
        bool     is_ours;

        TRY(is_for_us("WATCHDOG_PID", &is_ours));
        TRY(read_number("WATCHDOG_USEC", UINT64_MAX / NS_PER_US, &us));
        if (is_ours)
                s->watchdog_ns = us * NS_PER_US;
        return NULL;
}

static struct error *keep_listener(struct supervisor *s, const char *name, size_t len, int fd) {
        for (size_t i = 0; i < N_SUPERVISOR_PORTS; i++) {
                if (strlen(PORT_NAMES[i]) != len || memcmp(PORT_NAMES[i], name, len) != 0)
                        continue;
                if (s->listeners[i] != 0)
                        break;
                s->listeners[i] = fd;
                return NULL;
        }
        return error_new(ERR_INVALID_ARG,
                         "environment variable LISTEN_FDNAMES: expected http, grpc and metrics, "
                         "each at most once, "
                         "separated by colons, as many as LISTEN_FDS says; got: %s",
                         getenv("LISTEN_FDNAMES") != NULL ? getenv("LISTEN_FDNAMES") : "nothing");
}

static struct error *read_listeners(struct supervisor *s) {
        const char *at = getenv("LISTEN_FDNAMES");
        uint64_t    n_fds;
        bool        is_ours;

        TRY(is_for_us("LISTEN_PID", &is_ours));
        TRY(read_number("LISTEN_FDS", 1024, &n_fds));
        if (!is_ours)
                return NULL;
        for (uint64_t i = 0; i < n_fds; i++) {
                size_t len = at != NULL ? strcspn(at, ":") : 0;

                TRY(keep_listener(s, at, len, FIRST_FD + (int)i));
                at += len;
                at = *at == ':' ? at + 1 : NULL;
        }
        return NULL;
}

static struct error *read_all(struct supervisor *s) {
        const char *path = getenv("NOTIFY_SOCKET");

        TRY(read_listeners(s));
        TRY(read_watchdog(s));
        return path != NULL && path[0] != '\0' ? open_notify_socket(s, path) : NULL;
}

struct error *supervisor_open(struct supervisor *s) {
        static const char *const names[] = { "LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES",
                                             "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC" };
        struct error            *err = read_all(s);

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                unsetenv(names[i]);
        if (s->fd < 0)
                s->watchdog_ns = 0;
        return err;
}

void supervisor_close(struct supervisor *s) {
        for (size_t i = 0; i < N_SUPERVISOR_PORTS; i++)
                if (s->listeners[i] != 0)
                        close(s->listeners[i]);
        if (s->fd >= 0)
                close(s->fd);
        supervisor_init(s);
}

int supervisor_take_listener(struct supervisor *s, enum supervisor_port port) {
        int fd = s->listeners[port];

        s->listeners[port] = 0;
        return fd;
}

/* A supervisor that does not read must not stop the server. */
static void tell(struct supervisor *s, const char *text) {
        if (s->fd >= 0 && send(s->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                log_warn("the supervisor did not take \"%s\": %s", text, strerror(errno));
}

void supervisor_tell_ready(struct supervisor *s) {
        tell(s, "READY=1\nSTATUS=serving");
}

void supervisor_tell_reloading(struct supervisor *s) {
        char text[64];

        snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
                 (unsigned long long)(clock_now_ns() / NS_PER_US));
        tell(s, text);
}

void supervisor_tell_stopping(struct supervisor *s) {
        tell(s, "STOPPING=1\nSTATUS=stopping");
}

void supervisor_tell_alive(struct supervisor *s) {
        tell(s, "WATCHDOG=1");
}
