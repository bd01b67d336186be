/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading of plug-ins by name: a library in a folder of that name, and the functions that it must
 * export.
 *
 *     <directory>/<name>/lib<prefix>_<name>.so
 *
 * Ownership.  The library belongs to the caller, which closes it with dl_close().
 */
#pragma once

#include "base/dl.h"
#include "base/error.h"

#include <stddef.h>

/* One kind of plug-in. */
struct plugin_kind {
        const char        *what;    /* for messages: "cache" */
        const char        *prefix;  /* "tritoncache" */
        const char *const *symbols; /* all required */
        size_t             n_symbols;
};

/* Returns the library and its symbols, in their order. INVALID_ARG for an invalid name, NOT_FOUND
 * "unable to find '<library>' for <what>. Searched: <directory>/<name>"; the loader's message, or
 * the missing symbol, is reported with the path. */
struct error *plugin_open(const struct plugin_kind *kind, const char *directory, const char *name,
                          struct dl **ret, dl_symbol_fn *ret_symbols) NODISCARD;
