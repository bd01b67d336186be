/* SPDX-License-Identifier: BSD-3-Clause */
/* Cost of live sequences in the server:
 *
 * sequence_loop <sequences with a slot> <sequences in the backlog>
 *
 * Prints the bytes of a sequence with a slot (without control inputs) and of one in the backlog,
 * both without requests, and the bytes of a request. Then, with that many sequences, prints in
 * nanoseconds the time to admit one more to the backlog, to refuse an unknown id, to take one
 * request of a sequence with a slot through the table, and to give a slot to the first sequence of
 * the backlog.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/ref.h"
#include "infer/model.h"
#include "infer/request.h"
#include "sequence/sequence_table.h"

#include <malloc.h>
#include <stdio.h>

#define N_MEASURED 2000

static struct model model = { .name = "m" };

static void on_unused(struct model *m) {
        (void)m;
}

static struct request *make(uint64_t id, uint32_t flags) {
        struct request *req = request_new(&model);

        if (req == NULL)
                exit(1);
        req->correlation.number = id;
        req->flags = flags;
        return req;
}

static void push(struct sequence_table *t, struct request *req) {
        struct sequence_outcome out;
        struct error           *err;

        sequence_outcome_init(&out);
        err = sequence_table_push(t, req, SEQUENCE_OF_CLIENT, NS_PER_S, &out);
        error_free(err);
}

static struct request *release(struct sequence_table *t, struct request *req) {
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        sequence_table_released(t, req, true, NS_PER_S, &out);
        return out.ready.first;
}

static double each_ns(uint64_t since_ns) {
        return (double)(clock_now_ns() - since_ns) / N_MEASURED;
}

static double each_bytes(size_t before, unsigned long n) {
        return (double)(mallinfo2().uordblks - before) / (double)n;
}

int main(int argc, char **argv) {
        static struct request  *some[N_MEASURED];
        unsigned long           n_active = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
        unsigned long           n_backlog = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;
        struct request        **all = mem_zalloc((n_active + n_backlog) * sizeof(struct request *));
        struct sequence_table   t;
        struct sequence_outcome out;
        size_t                  before;
        uint64_t                start_ns;

        model.on_unused = on_unused;
        ref_init(&model.ref);
        error_free(sequence_table_init(&t, (uint32_t)n_active, CLOCK_NEVER));
        sequence_outcome_init(&out);
        (void)sequence_table_add_place(&t, NULL, &out);
        before = mallinfo2().uordblks;
        for (unsigned long i = 0; i < n_active + n_backlog; i++)
                all[i] = make(i + 1, REQUEST_SEQUENCE_START);
        if (n_active + n_backlog > 0)
                printf("%.0f bytes a request\n", each_bytes(before, n_active + n_backlog));
        before = mallinfo2().uordblks;
        for (unsigned long i = 0; i < n_active; i++)
                push(&t, all[i]);
        if (n_active > 0)
                printf("%.0f bytes a sequence with a slot\n", each_bytes(before, n_active));
        before = mallinfo2().uordblks;
        for (unsigned long i = 0; i < n_backlog; i++)
                push(&t, all[n_active + i]);
        if (n_backlog > 0)
                printf("%.0f bytes a sequence in the backlog\n", each_bytes(before, n_backlog));

        for (unsigned i = 0; i < N_MEASURED; i++)
                some[i] = make(n_active + n_backlog + i + 1, REQUEST_SEQUENCE_START);
        start_ns = clock_now_ns();
        for (unsigned i = 0; i < N_MEASURED; i++)
                push(&t, some[i]);
        printf("%.0f ns to admit one\n", each_ns(start_ns));

        for (unsigned i = 0; i < N_MEASURED; i++)
                some[i]->correlation.number += 1u << 30;
        start_ns = clock_now_ns();
        for (unsigned i = 0; i < N_MEASURED; i++)
                if (sequence_table_knows(&t, some[i]))
                        return 1;
        printf("%.0f ns to look up an unknown id\n", each_ns(start_ns));

        (void)release(&t, all[0]);
        all[0]->flags = 0;
        start_ns = clock_now_ns();
        for (unsigned i = 0; i < N_MEASURED; i++) {
                push(&t, all[0]);
                (void)release(&t, all[0]);
        }
        printf("%.0f ns for one request of a sequence with a slot\n", each_ns(start_ns));

        struct request *next = all[0];

        next->flags = REQUEST_SEQUENCE_END;
        push(&t, next);
        next = release(&t, next);
        start_ns = clock_now_ns();
        for (unsigned i = 0; i < N_MEASURED && next != NULL; i++) {
                next->sequence->is_last = true; /* as by END */
                next = release(&t, next);
        }
        printf("%.0f ns to end one and to begin the next of the backlog\n", each_ns(start_ns));
        return 0;
}
