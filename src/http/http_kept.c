/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_kept.h"

static void drop(struct http_kept *k, uint64_t written) {
        while (k->first != NULL && k->first->mark <= written) {
                struct infer_call_response *r = k->first;

                k->first = r->next;
                infer_call_response_free(r);
        }
}

void http_kept_add(struct http_kept *k, struct http_call *http, struct infer_call *c) {
        struct infer_call_response *r;

        if (http_call_chunks_written(http) >= http_call_chunks_sent(http))
                return;
        r = infer_call_keep_response(c);
        r->mark = http_call_chunks_sent(http);
        r->next = NULL;
        if (k->first != NULL)
                k->last->next = r;
        else
                k->first = r;
        k->last = r;
}

void http_kept_drop_written(struct http_kept *k, struct http_call *http) {
        drop(k, http_call_chunks_written(http));
}

void http_kept_drop_all(struct http_kept *k) {
        drop(k, UINT64_MAX);
}
