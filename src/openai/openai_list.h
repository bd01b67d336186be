/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of GET /v1/models:
 *
 *     {"object":"list","data":[{"id":"m","object":"model","created":1700000000,"owned_by":"neso"}]}
 *
 * The list has the models that are ready, have a format of the API and are granted to the caller.
 *
 * Ownership.  The JSON is appended to the caller's text.
 * Threads.  Any that may wait: the core's index is read, and a request is made for each model.
 */
#pragma once

#include "auth/access.h"
#include "base/strbuf.h"

struct TRITONSERVER_Server;

struct openai_list_options {
        struct TRITONSERVER_Server *core;      /* borrowed */
        const struct access        *access;    /* borrowed */
        bool                        lists_all; /* also models without a format */
};

struct error *openai_list_print(const struct openai_list_options *o, struct strbuf *out) NODISCARD;
/* One model. NOT_FOUND or UNAVAILABLE as the core reports it; NOT_FOUND for one that the list leaves out. */
struct error *openai_list_print_model(const struct openai_list_options *o, const char *name,
                                      struct strbuf *out) NODISCARD;
