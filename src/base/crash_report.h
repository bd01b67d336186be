/* SPDX-License-Identifier: BSD-3-Clause */
/* The last words of a process that a fault ends: one line on stderr that says which plug-in's call
 * was executing (base/plugin_call.h), since in a server with libraries of others that is the first
 * question.
 *
 *     neso: SIGSEGV at address 0x0 in /opt/backends/x/libtriton_x.so, TRITONBACKEND_ModelInstance
 *     Execute, model 'm' version 1 (thread 4711)
 *
 * Then the signal goes to whoever had it before: without a handler, the process ends by it as it
 * would have, with its core file.
 *
 * A library must not take a program's signals unasked: nothing happens before crash_report_install().
 * Who handles one of the signals for a purpose of their own, and passes on what is not for them,
 * installs that afterwards (shm/shm_guard.h).
 *
 * Ownership.  Handlers are the process's; they stay.
 * Threads.  Any. A stack that is full cannot run the handler: each thread of base/thread.h gives it
 * one of its own.
 */
#pragma once

#include "base/error.h"

/* For SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL; again: nothing. */
struct error *crash_report_install(void) NODISCARD;

/* The stack for handlers of the calling thread, unless it has one: `memory` until
 * crash_stack_remove(). */
#define CRASH_STACK_BYTES (32 * 1024)
void crash_stack_set(void *memory);
void crash_stack_remove(const void *memory);
