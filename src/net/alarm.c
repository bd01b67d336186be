/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/alarm.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/uv_types.h"

#include <assert.h>
#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct alarm {
        uv_poll_t poll;
        int       fd; /* owned */
        alarm_fn  fire;
        void     *owner; /* borrowed */
};

static void on_ready(uv_poll_t *poll, int status, int events) {
        struct alarm *a = CONTAINER_OF(poll, struct alarm, poll);
        uint64_t      n;

        (void)status;
        (void)events;
        if (read(a->fd, &n, sizeof(n)) == sizeof(n))
                a->fire(a->owner);
}

struct error *alarm_open(struct loop *l, alarm_fn fire, void *owner, struct alarm **ret) {
        int           fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        struct alarm *a;
        int           rc;

        if (fd < 0)
                return error_errno(errno, "unable to create a timer");
        a = mem_zalloc(sizeof(*a));
        *a = (struct alarm){ .fd = fd, .fire = fire, .owner = owner };
        rc = uv_poll_init(&l->uv, &a->poll, fd);
        if (rc < 0) {
                close(fd);
                free(a);
                return error_new(ERR_INTERNAL, "unable to watch a timer: %s", uv_strerror(rc));
        }
        uv_poll_start(&a->poll, UV_READABLE, on_ready); /* fails for a closing handle only */
        *ret = a;
        return NULL;
}

static void on_closed(uv_handle_t *handle) {
        free(CONTAINER_OF((uv_poll_t *)handle, struct alarm, poll));
}

void alarm_close(struct alarm *a) {
        if (a == NULL)
                return;
        uv_close((uv_handle_t *)&a->poll, on_closed);
        close(a->fd);
}

void alarm_arm(struct alarm *a, uint64_t due_ns) {
        struct itimerspec when = { 0 };
        int               rc;

        if (due_ns != CLOCK_NEVER) {
                due_ns = MAX(due_ns, 1); /* 0 would disarm it */
                when.it_value.tv_sec = (time_t)(due_ns / NS_PER_S);
                when.it_value.tv_nsec = (long)(due_ns % NS_PER_S);
        }
        rc = timerfd_settime(a->fd, TFD_TIMER_ABSTIME, &when, NULL);
        assert(rc == 0);
        (void)rc;
}
