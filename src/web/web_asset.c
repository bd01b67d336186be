/* SPDX-License-Identifier: BSD-3-Clause */
#include "web/web_asset.h"

const struct web_asset *web_asset_find(struct str path) {
        for (size_t i = 0; i < web_n_assets; i++)
                if (str_is(path, web_assets[i].path))
                        return &web_assets[i];
        return NULL;
}
