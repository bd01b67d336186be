/* SPDX-License-Identifier: BSD-3-Clause */
/* Plug-ins that the server knows by a name: a library in a folder of that name, and the functions
 * that have to be in it.
 *
 *     <directory>/<name>/lib<prefix>_<name>.so
 *
 * Ownership.  The library is the caller's, dl_close() ends it.
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

/* Gives the library and its symbols, in their order. INVALID_ARG for a name that is none, NOT_FOUND
 * "unable to find '<library>' for <what>. Searched: <directory>/<name>"; what the loader says, or
 * the symbol that is missing, comes with the path. */
struct error *plugin_open(const struct plugin_kind *kind, const char *directory, const char *name,
                          struct dl **ret, dl_symbol_fn *ret_symbols) NODISCARD;
