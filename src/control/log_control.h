/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of the log, changed from the command line and by clients (logging extension).
 *
 * The core writes the log; this link unit's own settings (base/log.h) are kept equal, so that they
 * can be told.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

#include <stdbool.h>

struct TRITONSERVER_ServerOptions;

/* As clients and the command line write it. */
const char *log_control_format_name(enum log_format format);
/* False when no format has that name; case counts. */
bool log_control_find_format(struct str name, enum log_format *ret) NODISCARD;

/* All but the file. `options` may be NULL: the log is one for the process. */
struct error *log_control_apply(struct TRITONSERVER_ServerOptions *options,
                                const struct log_settings         *s) NODISCARD;

/* What a client is told that wants another file. */
struct error *log_control_refuse_file(void) NODISCARD;
