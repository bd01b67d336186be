/* SPDX-License-Identifier: BSD-3-Clause */
/* The only way into a loop from another thread: a lock-free queue of mails.
 *
 * A mail is embedded in the object that it concerns. mailbox_post() pushes the mail onto a lock-free
 * stack and wakes the loop only when the stack was empty, so a batch of completions costs one wake-up
 * in total. The loop takes the whole stack at once and delivers the mails in the order of posting. A
 * mail from the loop's own thread needs no wake-up: the loop delivers it at the end of the round.
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
        struct mail *next; /* used by the mailbox while the mail is posted */
        mail_fn      deliver;
};

void mailbox_post(struct mailbox *box, struct mail *m);

/* Posts without waking the loop. When it returns true, the caller must call mailbox_wake() once, soon:
 * no other thread wakes the loop until then. */
bool mailbox_post_without_wake(struct mailbox *box, struct mail *m) NODISCARD;
void mailbox_wake(struct mailbox *box);
