/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/curl_library.h"

#include "base/dl.h"

#define LIBRARY "libcurl.so.4"

static struct dl *library; /* one per process, never closed */

struct error *curl_library_open(const char *purpose, struct curl_functions *ret) {
        struct curl_functions c;
        const struct {
                const char   *name;
                dl_symbol_fn *place;
        } symbols[] = {
                { "curl_global_init", (dl_symbol_fn *)&c.global_init },
                { "curl_easy_init", (dl_symbol_fn *)&c.easy_init },
                { "curl_easy_setopt", (dl_symbol_fn *)&c.easy_setopt },
                { "curl_easy_reset", (dl_symbol_fn *)&c.easy_reset },
                { "curl_easy_perform", (dl_symbol_fn *)&c.easy_perform },
                { "curl_easy_getinfo", (dl_symbol_fn *)&c.easy_getinfo },
                { "curl_easy_cleanup", (dl_symbol_fn *)&c.easy_cleanup },
                { "curl_easy_strerror", (dl_symbol_fn *)&c.easy_strerror },
                { "curl_slist_append", (dl_symbol_fn *)&c.slist_append },
                { "curl_slist_free_all", (dl_symbol_fn *)&c.slist_free_all },
        };
        struct error *err = library != NULL ? NULL : dl_open(LIBRARY, &library);

        if (err != NULL)
                return error_wrap(err, "%s needs libcurl (" LIBRARY "), which could not be loaded",
                                  purpose);
        for (size_t i = 0; i < ARRAY_LEN(symbols); i++)
                TRY(dl_get(library, symbols[i].name, symbols[i].place));
        *ret = c;
        return NULL;
}
