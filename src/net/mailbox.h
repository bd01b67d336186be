/* SPDX-License-Identifier: BSD-3-Clause */
/* The only way into a loop from another thread: a lock-free queue of mails.
 *
 * A mail is embedded in the object that sends it. mailbox_post() pushes the mail onto a lock-free stack
 * and wakes the loop only when the stack was empty, so a batch of completions costs one wake-up in
 * total. The loop takes the whole stack at once and delivers the mails in the order of posting. Mails
 * that the loop's own thread posts are delivered at the end of the round, without a wake-up.
 *
 * Ownership.  The mailbox borrows a mail until its `deliver` is called; until then the mail must stay
 * in place and may not be posted again.
 * Threads.  Posting: any thread. Delivery: the loop's thread. No thread may post to a loop that was
 * freed.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>

struct mailbox;
struct mail;

typedef void (*mail_fn)(struct mail *m);

struct mail {
        struct mail *next; /* borrowed by the mailbox; in `deliver` the mail after it, or NULL */
        mail_fn      deliver;
};

void mailbox_post(struct mailbox *box, struct mail *m);

/* Posts without waking the loop. True when the caller has to wake it with one mailbox_wake() per such
 * call. No other thread wakes the loop until then, so the caller must do so soon. */
bool mailbox_post_without_wake(struct mailbox *box, struct mail *m) NODISCARD;
void mailbox_wake(struct mailbox *box);
