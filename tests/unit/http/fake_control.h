/* SPDX-License-Identifier: BSD-3-Clause */
/* A core of the tests' own for the control plane: the functions of the C API that the handlers
 * call, shadowing those of the library. It knows one model, "simple", and says what it was asked.
 * Its errors are those of call/fake_core.h, which is linked with it.
 */
#pragma once

#include "base/lock.h"
#include "base/strbuf.h"
#include "triton/core/tritonserver.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

struct TRITONSERVER_Message {
        char *json; /* owned */
};

struct fake_control {
        _Atomic bool  is_live, is_ready, is_exiting;
        _Atomic bool  asks_backends; /* whether the server is ready */
        _Atomic bool  has_no_memory; /* for an index */
        struct mutex  lock;
        struct strbuf orders;     /* "load simple config=... file:a=...\n"; from any thread */
        _Atomic int   n_messages; /* alive */
        _Atomic int   n_pages;    /* of metrics, made so far */
        _Atomic int   n_held_pages;
        /* NULL, or: making a page posts the first and waits for the second. */
        sem_t *page_begins, *page_may_end;
};

extern struct fake_control fake_control;

/* Takes `json`. */
struct TRITONSERVER_Message *fake_message(char *json);
