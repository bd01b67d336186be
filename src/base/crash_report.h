/* SPDX-License-Identifier: BSD-3-Clause */
/* A report of the fault that ends the process: one line on stderr that names the plug-in call that
 * was executing (base/plugin_call.h), since the server runs libraries of third parties.
 *
 *     neso: SIGSEGV at address 0x0 in /opt/backends/x/libtriton_x.so, TRITONBACKEND_ModelInstance
 *     Execute, model 'm' version 1 (thread 4711)
 *
 * Then the handler restores the action that was installed before. The default action ends the
 * process by the signal, with its core file.
 *
 * A library must not take a program's signals unasked: no handler is installed before
 * crash_report_install(). A module with its own handler for one of these signals installs it
 * afterwards, and passes other signals on (shm/shm_guard.h).
 *
 * Ownership.  Handlers belong to the process and are never removed.
 * Threads.  Any. A handler cannot run on a stack that is full: each thread of base/thread.h has a
 * separate stack for handlers.
 */
#pragma once

#include "base/error.h"

/* Installs handlers for SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL; later calls do nothing. */
struct error *crash_report_install(void) NODISCARD;

/* Sets the stack for signal handlers of the calling thread, unless it has one: `memory` is in use
 * until crash_stack_remove(). */
#define CRASH_STACK_BYTES (32 * 1024)
void crash_stack_set(void *memory);
void crash_stack_remove(const void *memory);
