/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared objects: load, look up, unload; errors name path and symbol.
 */
#pragma once

#include "base/error.h"

struct dl;

typedef void (*dl_symbol_fn)(void);

/* RTLD_NOW | RTLD_LOCAL. */
struct error *dl_open(const char *path, struct dl **ret) NODISCARD;
void          dl_close(struct dl *library); /* NULL is fine */
dl_symbol_fn  dl_find(struct dl *library, const char *symbol); /* NULL when absent */
struct error *dl_get(struct dl *library, const char *symbol, dl_symbol_fn *ret) NODISCARD;
const char   *dl_path(const struct dl *library);
