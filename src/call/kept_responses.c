/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/kept_responses.h"

void kept_responses_add(struct kept_responses *k, struct infer_call_response *r, uint64_t mark) {
        r->mark = mark;
        r->next = NULL;
        if (k->first != NULL)
                k->last->next = r;
        else
                k->first = r;
        k->last = r;
}

void kept_responses_drop(struct kept_responses *k, uint64_t written) {
        while (k->first != NULL && k->first->mark <= written) {
                struct infer_call_response *r = k->first;

                k->first = r->next;
                infer_call_response_free(r);
        }
}
