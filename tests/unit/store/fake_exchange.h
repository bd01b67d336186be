/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for src/store/store_request.c: answers come from a script, and no socket is opened.
 *
 *     fake_expect("POST https://sts.r.amazonaws.com/", 200, "<xml>");
 *     ... code that calls store_exchange() ...
 *     fake_request()->body     what was sent last, with its headers in `text`
 *     fake_end();              fails when an expected request did not come
 *
 * A request that is not the next of the script gets the failure of a connection. Status 0 is that, too. One that
 * is cancelled gets CANCELLED, whatever the script has.
 * Threads.  Any; the script is under one lock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fake_request {
        char     text[65536]; /* "GET url\nname: value\n...\n\nbody" */
        uint64_t max_ms;      /* its limit of time */
};

/* Forgets all; before each test. */
void fake_begin(void);
/* `headers`: lines "name: value\n", or "". */
void fake_expect(const char *request, int status, const char *headers, const char *body);
/* The next request waits until fake_release(). */
void                       fake_hold(void);
void                       fake_wait_held(void);
void                       fake_release(void);
const struct fake_request *fake_request(void);
size_t                     fake_n_requests(void);
void                       fake_end(void);
