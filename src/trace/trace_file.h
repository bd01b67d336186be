/* SPDX-License-Identifier: BSD-3-Clause */
/* The sink of mode triton: JSON files.
 *
 * Records wait, as text, with those of the same source. They are written
 *   to <file>.<n>, n = 0, 1, ..., when log_frequency of them are there, and when the last one that
 *   the source's count allows has come;
 *   to <file>, behind what is there, when the source was replaced and at the end; with a
 *   log_frequency to <file>.<n> then as well.
 * So that waiting is bounded, more than TRACE_FILE_MAX_WAITING bytes of one source are written before
 * their time, to the place of the end. Each file is a complete JSON array after every write.
 *
 * Threads.  The writer's.
 */
#pragma once

#include "base/error.h"
#include "trace/trace_writer.h"

#define TRACE_FILE_MAX_WAITING (size_t)(16u << 20)

/* Checks that the file can be written; it is not made. `path` is borrowed. */
struct error      *trace_file_check(const char *path) NODISCARD;
struct trace_sink *trace_file_new(const char *path);
