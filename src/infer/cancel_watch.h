/* SPDX-License-Identifier: BSD-3-Clause */
/* A function that is called when an inference is cancelled, for a backend whose execution waits for something
 * else: it ends the wait, instead of asking again and again.
 *
 * Ownership.  The creator owns the watch, which holds the inference's response stream.
 * Threads.  Any. The function runs once, on the thread that cancels, with no lock held; or, when the inference
 * was cancelled before, within cancel_watch_new(). It must not block, nor free the watch.
 */
#pragma once

struct cancel_watch;
struct response_stream;

typedef void (*cancel_watch_fn)(void *userp);

/* NULL when memory is short. */
struct cancel_watch *cancel_watch_new(struct response_stream *stream, cancel_watch_fn call,
                                      void *userp);
/* Waits for the end of a running call: `userp` is not used afterwards. NULL is fine. */
void cancel_watch_free(struct cancel_watch *watch);

/* Cancels an inference: sets its flag, and calls its watches. */
void cancel_watch_cancel(struct response_stream *stream);
