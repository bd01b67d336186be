/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso endpoints` prints every route of every protocol with its group, from the tables that the
 * servers look up requests in. It shows the author of a key file what a group permits; the tests
 * send a request to each route.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/strbuf.h"

/* Prints a line for each route: protocol, method, path, group, and the models that it concerns. */
void endpoint_list_print(struct strbuf *out);
/* Prints [{"protocol":"http","method":"GET","path":"/v2","group":"metadata","models":"none"}, ...].
 * "models" is "one" when the request names a model, "all" when it concerns all models, or "none". A
 * gRPC method with "one" may also be called without a name, for all models. */
void endpoint_list_print_json(struct strbuf *out);
