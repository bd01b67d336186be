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
#include <stddef.h>

struct TRITONSERVER_ServerOptions;

/* As clients and the command line write it. */
const char *log_control_format_name(enum log_format format);
/* False when no format has that name; case counts. */
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

/* NULL for an unknown name. */
const struct log_row *log_row_find(struct str name);
bool                 *log_row_switch(const struct log_row *row, struct log_settings *s);

/* All but the file. `options` may be NULL: the log is one for the process. */
struct error *log_control_apply(struct TRITONSERVER_ServerOptions *options,
                                const struct log_settings         *s) NODISCARD;

/* What a client is told that wants another file. */
struct error *log_control_refuse_file(void) NODISCARD;
