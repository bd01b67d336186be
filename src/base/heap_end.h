/* SPDX-License-Identifier: BSD-3-Clause */
/* The free end of a thread's heap.
 *
 * The C library gives each thread one of several heaps. malloc_trim() returns free pages between the blocks of all of
 * them, but of the free memory behind the last block that of the first heap only. In another heap free() alone returns
 * it, once there is more than a threshold that the C library raises up to 64 MiB. Without heap_end_trim() each heap
 * keeps as much as its threads ever needed at once: a server's memory would grow until each of up to 8 heaps for each
 * CPU has had the largest model, page of metrics or answer.
 *
 * Threads.  Any.
 */
#pragma once

/* Returns the pages at the free end of the calling thread's heap to the system. Takes microseconds when there are none, or a
 * millisecond when many free blocks lie between others.
 * The next blocks from there cost page faults: call it at the end of work. */
void heap_end_trim(void);
