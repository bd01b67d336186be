/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of the dashboard's page, which the build puts into the program: those of src/web/page, and
 * uPlot. They hold no data of a server and no secret.
 *
 * Ownership.  Static.
 * Threads.  Pure functions.
 */
#pragma once

#include "base/str.h"

#include <stddef.h>

struct web_asset {
        const char          *path; /* "/dashboard/app.js" */
        const char          *content_type;
        const char          *etag; /* in quotes; of the content */
        const unsigned char *plain;
        size_t               n_plain;
        const unsigned char *gzip; /* the same, packed */
        size_t               n_gzip;
};

/* Made by tools/embed_page.py. */
extern const struct web_asset web_assets[];
extern const size_t           web_n_assets;

/* NULL when there is no such file. */
const struct web_asset *web_asset_find(struct str path);
