/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that listens on a port of this machine, and its CPU time and memory, from /proc.
 *
 * Threads.  Any.
 */
#pragma once

#include <stdint.h>

/* 0: there is none, or it belongs to another user. */
int local_server_find(uint16_t port);
/* User and system time of its ended and present threads; 0: not known. */
uint64_t local_server_cpu_ns(int pid);
uint64_t local_server_resident(int pid); /* bytes; 0: not known */
