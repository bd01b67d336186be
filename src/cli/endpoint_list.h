/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso endpoints`: every route of every protocol with its group, from the tables that requests
 * are looked up in. Who writes a key file sees what a group opens; the tests ask each of them.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/strbuf.h"

/* A line for each: protocol, method, path, group, what models it is about. */
void endpoint_list_print(struct strbuf *out);
/* [{"protocol":"http","method":"GET","path":"/v2","group":"metadata","models":"none"}, ...]
 * "models": "one" that it names, "all" at once, or "none". A gRPC method that names one may also be
 * asked without a name, about all. */
void endpoint_list_print_json(struct strbuf *out);
