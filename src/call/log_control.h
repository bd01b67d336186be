/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of the log, which the command line and clients change (logging extension).
 *
 * The core writes the log. This link unit has its own copy of the settings (base/log.h), which is
 * kept equal to the core's, so that they can be read.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct TRITONSERVER_ServerOptions;

/* Returns the name that clients and the command line use. */
const char *log_control_format_name(enum log_format format);
/* False when no format has that name. The comparison is case-sensitive. */
bool log_control_find_format(struct str name, enum log_format *ret) NODISCARD;

/* The settings as clients read and write them, in the order in which they are printed. */
enum log_row_kind {
        LOG_ROW_FILE,   /* settings.file; clients may not change it */
        LOG_ROW_SWITCH, /* a bool: log_row_switch() */
        LOG_ROW_LEVEL,  /* settings.verbose_level, 0 to INT32_MAX */
        LOG_ROW_FORMAT, /* settings.format, by its name */
};

struct log_row {
        const char       *name;
        enum log_row_kind kind;
        size_t            offset; /* of the bool in struct log_settings */
};

#define LOG_N_ROWS 6
extern const struct log_row log_rows[LOG_N_ROWS];

/* Returns NULL for an unknown name. */
const struct log_row *log_row_find(struct str name);
bool                 *log_row_switch(const struct log_row *row, struct log_settings *s);

/* Applies all settings except the file. `options` may be NULL, because the process has one log. */
struct error *log_control_apply(struct TRITONSERVER_ServerOptions *options,
                                const struct log_settings         *s) NODISCARD;

/* Returns UNSUPPORTED, for a client that asks for another file. */
struct error *log_control_refuse_file(void) NODISCARD;
