/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses that a thread sends in a row, and what waits for the last of them.
 *
 * A backend that answers a whole batch has the receivers of all its responses called one after the
 * other, and each may have another thread to wake: on a shared core that thread runs at once, finds
 * one answer, and waits again. So the backend says where the row begins and ends, and a receiver may
 * ask to be called behind its end, to wake once for all that came. What waits is a wake-up, never a
 * response. Nobody may wait for long meanwhile: an execution ends the rows of its thread when it
 * begins and when it ends, and who waits for room for a response makes the calls first.
 *
 * Threads.  Everything here belongs to the calling thread. No lock may be held.
 */
#pragma once

#include <stdbool.h>

typedef void (*response_burst_fn)(void *userp);

/* They nest; the outermost end makes the calls. An end without a beginning is nothing. */
void response_burst_begin(void);
void response_burst_end(void);
/* Ends all that have begun: for what a plug-in left open, and before one computes. */
void response_burst_end_all(void);
/* Makes the calls now, and the row goes on: before this thread waits. */
void response_burst_flush(void);

/* True: `call(userp)` comes on this thread, as often as it was asked for, when the row ends, or
 * earlier when many have asked. False: there is no row, or no room; the caller does it now. */
bool response_burst_call_after(response_burst_fn call, void *userp);
