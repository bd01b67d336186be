/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/plugin.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

/* The name becomes a part of a path. */
static struct error *check_name(const struct plugin_kind *kind, const char *name) {
        if (*name != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
            strcmp(name, "..") != 0)
                return NULL;
        return error_new(ERR_INVALID_ARG, "'%s' is no name of a %s", name, kind->what);
}

static struct error *find_symbols(const struct plugin_kind *kind, struct dl *library,
                                  dl_symbol_fn *ret) {
        for (size_t i = 0; i < kind->n_symbols; i++)
                TRY(dl_get(library, kind->symbols[i], &ret[i]));
        return NULL;
}

struct error *plugin_open(const struct plugin_kind *kind, const char *directory, const char *name,
                          struct dl **ret, dl_symbol_fn *ret_symbols) {
        AUTO_CHARS    file = mem_printf("lib%s_%s.so", kind->prefix, name);
        AUTO_CHARS    folder = path_join(directory, name);
        AUTO_CHARS    path = path_join(folder, file);
        struct dl    *library;
        struct error *err;

        TRY(check_name(kind, name));
        if (!file_exists(path))
                return error_new(ERR_NOT_FOUND, "unable to find '%s' for %s. Searched: %s", file,
                                 kind->what, folder);
        TRY(dl_open(path, &library));
        err = find_symbols(kind, library, ret_symbols);
        if (err != NULL) {
                dl_close(library);
                return err;
        }
        *ret = library;
        return NULL;
}
