/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/sequence_list.h"

#include "base/compiler.h"
#include "sched/sequence_table.h"

#include <string.h>

/* Slots that a call looks at, free ones included: some microseconds. */
#define MAX_SLOTS 1024

static void copy_text(char *to, const char *text, size_t len) {
        len = MIN(len, (size_t)SEQUENCE_ROW_TEXT_BYTES);
        memcpy(to, text, len);
        to[len] = '\0';
}

static struct sequence_row *put(struct sequence_listing *l, const struct sequence *seq) {
        struct sequence_row *row = &l->rows[l->n++];
        uint32_t             n = seq->n_waiting + (seq->running != NULL);

        *row = (struct sequence_row){ .number = seq->number,
                                      .is_text = seq->is_text,
                                      .n_requests = n,
                                      .is_ending = seq->is_last && !seq->is_own };
        row->age_ns = l->now_ns > seq->started_ns ? l->now_ns - seq->started_ns : 0;
        if (n == 0 && l->now_ns > seq->touched_ns)
                row->idle_ns = l->now_ns - seq->touched_ns;
        if (seq->is_text)
                copy_text(row->text, sequence_text(seq), seq->n_text);
        return row;
}

bool sequence_list_place(struct sequence_listing *l, const struct sequence_place *place,
                         const char *instance, uint32_t *at) {
        uint32_t begin = *at;

        for (; *at < place->n_top; ++*at) {
                const struct sequence *seq = place->slots[*at]->sequence;
                struct sequence_row   *row;

                if (l->n == l->cap || *at - begin == MAX_SLOTS)
                        return false;
                if (seq == NULL)
                        continue;
                row = put(l, seq);
                row->has_slot = true;
                row->slot = *at;
                copy_text(row->instance, instance, strlen(instance));
        }
        return true;
}

bool sequence_list_backlog(struct sequence_listing *l, const struct sequence_table *t,
                           uint64_t *after_ns) {
        LIST_FOR_EACH((struct list *)(uintptr_t)&t->backlog, node) {
                const struct sequence *seq = LIST_ENTRY(node, struct sequence, node);

                if (seq->started_ns <= *after_ns)
                        continue;
                if (l->n == l->cap)
                        return false;
                (void)put(l, seq);
                *after_ns = seq->started_ns;
        }
        return true;
}
