/* SPDX-License-Identifier: BSD-3-Clause */
/* An observer that sees the answer of an inference before the client does: the response cache uses it
 * after a miss.
 *
 * Ownership.  The stream's, until one of the two functions is called, once, which takes it: keep() with
 * the first response that is sent, or drop() when the inference ends without one.
 * Threads.  The thread that sends the response, with no lock held.
 */
#pragma once

#include <stdint.h>

struct response;

struct response_tap {
        /* The response is borrowed; flags: RESPONSE_FINAL. */
        void (*keep)(struct response_tap *k, const struct response *r, uint32_t flags);
        void (*drop)(struct response_tap *k);
};
