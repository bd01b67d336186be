/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/mailbox.h"

#include "base/error.h"
#include "net/uv_types.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The order of delivery is the reverse of the links, here and in the stack. */
static struct mail *reverse(struct mail *m) {
        struct mail *reversed = NULL;

        while (m) {
                struct mail *next = m->next;

                m->next = reversed;
                reversed = m;
                m = next;
        }
        return reversed;
}

static void deliver_all(struct mailbox *box) {
        struct loop *l = CONTAINER_OF(box, struct loop, mailbox);
        struct mail *m = atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire);

        m = reverse(m);
        l->is_corking = m->next != NULL;
        while (m) {
                struct mail *next = m->next; /* the mail is its owner's once delivered */

                m->deliver(m);
                m = next;
        }
        l->is_corking = false;
        loop_uncork(l);
}

static void on_wake_up(uv_poll_t *poll_handle, int status UNUSED, int events UNUSED) {
        struct mailbox *box = CONTAINER_OF(poll_handle, struct mailbox, poll);
        eventfd_t       n;

        /* In this order: who fills the box after it was emptied writes after this read. */
        if (eventfd_read(box->wake_fd, &n) == 0)
                deliver_all(box);
}

struct error *mailbox_init(struct mailbox *box, uv_loop_t *uv) {
        int rc;

        *box = (struct mailbox){ .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
        if (box->wake_fd < 0)
                return error_errno(errno, "unable to create an event descriptor");
        rc = uv_poll_init(uv, &box->poll, box->wake_fd);
        if (rc == 0)
                rc = uv_poll_start(&box->poll, UV_READABLE, on_wake_up);
        if (rc == 0)
                return NULL;
        close(box->wake_fd);
        return error_new(ERR_INTERNAL, "unable to watch an event descriptor: %s", uv_strerror(rc));
}

/* No thread is between filling the box and its write, which would go to a closed descriptor or a
 * stranger's: the box is emptied only after that write, and it is empty. */
void mailbox_close(struct mailbox *box) {
        uv_close((uv_handle_t *)&box->poll, NULL);
        assert(!atomic_load_explicit(&box->newest, memory_order_relaxed));
        close(box->wake_fd);
}

bool mailbox_post_quietly(struct mailbox *box, struct mail *m) {
        struct mail *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);

        do {
                m->next = newest;
        } while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest, m,
                                                        memory_order_release,
                                                        memory_order_relaxed));
        return newest == NULL;
}

void mailbox_wake(struct mailbox *box) {
        int rc = eventfd_write(box->wake_fd, 1);

        assert(rc == 0);
        (void)rc;
}

void mailbox_post(struct mailbox *box, struct mail *m) {
        if (mailbox_post_quietly(box, m))
                mailbox_wake(box);
}
