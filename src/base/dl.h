/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared objects: load, look up, unload; and plug-ins, which are loaded by name. Errors name the path
 * and the symbol.
 *
 * Ownership.  The caller closes what it opened.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct dl;

typedef void (*dl_symbol_fn)(void);

/* RTLD_NOW | RTLD_LOCAL. A file that was cut is refused. A name without '/' is searched for as the loader
 * does it: in LD_LIBRARY_PATH, its cache and the system's folders. */
struct error *dl_open(const char *path, struct dl **ret) NODISCARD;
void          dl_close(struct dl *library); /* NULL is fine */
void          dl_keep(struct dl *library);  /* frees the object; the library stays loaded */
dl_symbol_fn  dl_find(struct dl *library, const char *symbol); /* NULL when absent */
struct error *dl_get(struct dl *library, const char *symbol, dl_symbol_fn *ret) NODISCARD;
/* dl_get() for an array of names. */
struct error *dl_get_all(struct dl *library, const char *const *symbols, size_t n,
                         dl_symbol_fn *ret) NODISCARD;
const char   *dl_path(const struct dl *library);

/* One kind of plug-in: a library in a folder of its name, <directory>/<name>/lib<prefix>_<name>.so, and
 * the functions that it must export. */
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
