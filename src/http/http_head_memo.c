/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_head_memo.h"

#include <string.h>

/* Behind so many failures in a row one head of so many is looked for. */
#define MAX_MISSES 64
#define HEADS_PER_TRY 16

static bool is_tried(const struct http_head_memo *memo) {
        return memo->n_misses < MAX_MISSES || memo->n_misses % HEADS_PER_TRY == 0;
}

static void read_known(struct http_message *m, const struct http_known_head *known) {
        memcpy((char *)m + HTTP_MESSAGE_HEAD_AT, known->head, sizeof(known->head));
        memcpy(m->fields, known->fields, m->n_fields * sizeof(m->fields[0]));
}

bool http_head_memo_find(struct http_head_memo *memo, struct http_message *m, struct str bytes) {
        if (m->fed_bytes > 0 || !is_tried(memo))
                return false;
        for (size_t i = 0; i < HTTP_HEAD_MEMO_HEADS; i++) {
                const struct http_known_head *known = &memo->heads[i];

                if (known->n_bytes == 0 || known->n_bytes > bytes.len ||
                    memcmp(known->bytes, bytes.ptr, known->n_bytes) != 0)
                        continue;
                read_known(m, known);
                memo->n_misses = 0;
                return true;
        }
        return false;
}

void http_head_memo_keep(struct http_head_memo *memo, const struct http_message *m,
                         struct str bytes) {
        struct http_known_head *known = &memo->heads[memo->next];
        bool                    is_kept = is_tried(memo);

        if (m->fed_bytes > 0 || m->head_bytes > sizeof(known->bytes) ||
            m->n_fields > HTTP_HEAD_MEMO_FIELDS) /* not plain, or large */
                return;
        memo->n_misses++;
        if (!is_kept)
                return;
        memo->next = (memo->next + 1) % HTTP_HEAD_MEMO_HEADS;
        known->n_bytes = m->head_bytes;
        memcpy(known->bytes, bytes.ptr, m->head_bytes);
        memcpy(known->head, (const char *)m + HTTP_MESSAGE_HEAD_AT, sizeof(known->head));
        memcpy(known->fields, m->fields, m->n_fields * sizeof(m->fields[0]));
}
