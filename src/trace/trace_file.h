/* SPDX-License-Identifier: BSD-3-Clause */
/* The sink of mode triton: JSON files.
 *
 * Each source (trace_settings.h) collects its records as text, which is written
 *
 *     to <file>.<n>, n = 0, 1, ...   when log_frequency records are there, and when the last record
 *                                    that the count of the source allows has come
 *     to the end of <file>           when the source was replaced, and when the server stops;
 *                                    with a log_frequency to <file>.<n> in these cases too
 *
 * At most max_files of <file>.<n> exist at a time: a client may set log_frequency to 1, and a file
 * for each request would use up the inodes of the file system. Further records are appended to
 * <file> until the oldest of these files was removed.
 *
 * To bound memory, a source that holds more than TRACE_FILE_MAX_WAITING bytes is written earlier,
 * to the place of the second case. Each file is a complete JSON array after every write.
 *
 * Threads.  The writer's.
 */
#pragma once

#include "base/error.h"
#include "trace/trace_writer.h"

#define TRACE_FILE_MAX_WAITING (size_t)(16u << 20)
#define TRACE_FILE_MAX_FILES 10000

/* Checks that the file can be written, without leaving a new one behind. `path` is borrowed. */
struct error *trace_file_check(const char *path) NODISCARD;
/* max_files is TRACE_FILE_MAX_FILES, except in tests. */
struct trace_sink *trace_file_new(const char *path, uint64_t max_files);
