/* SPDX-License-Identifier: BSD-3-Clause */
/* The only door into a loop from another thread.
 *
 * A mail is embedded in whatever has something to say to the loop. mailbox_post() links it into a
 * lock-free stack and wakes the loop only when the stack was empty: a batch of completions costs
 * one wake-up, not one each. The loop takes the whole stack at once and delivers it in the order
 * of posting. What the loop's own thread posts is delivered at the end of the round, without a wake-up.
 *
 * Ownership.  A mail is its owner's again as soon as its `deliver` is called; until then it must
 * stay where it is and may not be posted again.
 * Threads.  Posting: any thread. Delivery: the loop's thread. Nothing may be posted to a loop that
 * has been freed.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>

struct mailbox;
struct mail;

typedef void (*mail_fn)(struct mail *m);

struct mail {
        struct mail *next; /* borrowed: the mailbox's; in `deliver` the mail after it, or NULL */
        mail_fn      deliver;
};

void mailbox_post(struct mailbox *box, struct mail *m);

/* Posts, and leaves it to the caller to wake the loop: true when it has to, with one mailbox_wake()
 * for each time. Until then nobody else does, so it must be soon. */
bool mailbox_post_quietly(struct mailbox *box, struct mail *m) NODISCARD;
void mailbox_wake(struct mailbox *box);
