/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of sequences under arbitrary events: each request comes out exactly once, one of a
 * sequence runs at a time, counts agree with what is there, and all of it ends.
 *
 * Two bytes an event: what happens, and with which request, id or time.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/ref.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/scheduler.h"
#include "sequence/sequence_table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

#define N_REQUESTS 32
#define N_PLACES 3
#define MAX_EVENTS 4096

enum where { IDLE, WAITS, RUNS };

struct fuzz {
        struct model           model;
        struct sequence_table  table;
        struct sequence_place *places[N_PLACES];
        struct request        *requests[N_REQUESTS];
        enum where             where[N_REQUESTS];
        uint64_t               now_ns;
};

static void on_unused(struct model *m) {
        (void)m;
}

static void must(bool is_so) {
        if (!is_so)
                abort();
}

static unsigned index_of(const struct fuzz *f, const struct request *req) {
        unsigned i = 0;

        while (f->requests[i] != req)
                must(++i < N_REQUESTS);
        return i;
}

static void follow(struct fuzz *f, const struct sequence_outcome *out) {
        const struct request_list *given_up[] = { &out->cancelled, &out->expired };

        for (const struct request *req = out->ready.first; req != NULL; req = req->queued.next) {
                must(f->where[index_of(f, req)] == WAITS && req->sequence->running == req);
                must(req->sequence->slot->sequence == req->sequence);
                f->where[index_of(f, req)] = RUNS;
        }
        for (unsigned i = 0; i < 2; i++)
                for (const struct request *req = given_up[i]->first; req != NULL;
                     req = req->queued.next) {
                        must(f->where[index_of(f, req)] == WAITS && !req->has_sequence);
                        f->where[index_of(f, req)] = IDLE;
                }
}

static void check(const struct fuzz *f) {
        uint64_t n = 0, n_active = 0;

        for (unsigned i = 0; i < N_REQUESTS; i++)
                n += f->where[i] != IDLE;
        must(n == f->table.n_active_requests + f->table.n_backlog_requests);
        for (unsigned i = 0; i < N_PLACES; i++)
                n_active += f->places[i] != NULL ? f->places[i]->n_active : 0;
        must(n_active == f->table.n_active);
        must(f->table.ids.n <= f->table.n_active + f->table.n_backlog);
}

static void push(struct fuzz *f, uint8_t what, uint8_t which) {
        struct request         *req = f->requests[which % N_REQUESTS];
        struct sequence_outcome out;
        struct error           *err;

        if (f->where[which % N_REQUESTS] != IDLE)
                return;
        req->correlation = (struct correlation_id){ .number = which / 16 };
        if ((what & 0x08) != 0)
                req->correlation.text = (const char *[]){ "", "a", "a longer text than a word",
                                                          "8 bytes!" }[which % 4];
        req->flags = (what & 0x10 ? REQUEST_SEQUENCE_START : 0) |
                     (what & 0x20 ? REQUEST_SEQUENCE_END : 0);
        req->timeout_us = what & 0x40 ? which : 0;
        req->times.request_start_ns = f->now_ns;
        f->where[which % N_REQUESTS] = WAITS;
        sequence_outcome_init(&out);
        err = sequence_table_push(&f->table, req,
                                  what & 0x80 ? SEQUENCE_OF_REQUEST : SEQUENCE_OF_CLIENT, f->now_ns,
                                  &out);
        if (err != NULL) {
                must((what & 0x90) == 0);
                f->where[which % N_REQUESTS] = IDLE;
        }
        error_free(err);
        follow(f, &out);
}

static void end(struct fuzz *f, uint8_t what, unsigned i) {
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        if (f->where[i] == RUNS) {
                f->where[i] = IDLE;
                sequence_table_released(&f->table, f->requests[i], (what & 0x10) != 0, f->now_ns,
                                        &out);
        } else if (f->where[i] == WAITS) {
                must(sequence_table_cancel(&f->table, f->requests[i], f->now_ns, &out));
        }
        follow(f, &out);
}

/* An id that begins elsewhere. */
static void forget(struct fuzz *f, uint8_t which) {
        const struct request    other = { .correlation.number = which / 16 };
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        must(sequence_table_forget(&f->table, &other, &out) ||
             !sequence_table_knows(&f->table, &other));
        must(!sequence_table_knows(&f->table, &other));
        follow(f, &out);
}

/* Each is listed once, however few at a time. */
static void list(const struct fuzz *f, size_t at_once) {
        struct sequence_row rows[8];
        uint64_t            n = 0, n_requests = 0, after_ns = 0;
        bool                has_ended = false;

        for (unsigned i = 0; i < N_PLACES; i++) {
                uint32_t at = 0;

                for (has_ended = f->places[i] == NULL; !has_ended;) {
                        struct sequence_listing l = { f->now_ns, rows, at_once, 0 };

                        has_ended = sequence_table_list_place(&l, f->places[i], "i", &at);
                        for (size_t k = 0; k < l.n; k++, n++)
                                n_requests += rows[k].n_requests;
                }
        }
        must(n == f->table.n_active && n_requests == f->table.n_active_requests);
        for (has_ended = false; !has_ended;) {
                struct sequence_listing l = { f->now_ns, rows, at_once, 0 };

                has_ended = sequence_table_list_backlog(&l, &f->table, &after_ns);
                n += l.n;
        }
        must(n == f->table.n_active + f->table.n_backlog);
}

static void pass_time(struct fuzz *f, uint64_t ns) {
        struct sequence_outcome out;

        f->now_ns += ns;
        sequence_outcome_init(&out);
        sequence_table_expire(&f->table, f->now_ns, &out);
        follow(f, &out);
        must(sequence_table_next_due(&f->table) > f->now_ns);
}

static void change_place(struct fuzz *f, unsigned i) {
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        if (f->places[i] == NULL) {
                f->places[i] = sequence_table_add_place(&f->table, NULL, &out);
        } else if (!f->places[i]->is_leaving) {
                sequence_table_retire_place(&f->table, f->places[i]);
        } else if (f->places[i]->n_active == 0) {
                sequence_table_remove_place(&f->table, f->places[i]);
                f->places[i] = NULL;
        }
        follow(f, &out);
}

static void run_event(struct fuzz *f, uint8_t what, uint8_t which) {
        switch (what & 7) {
        case 0:
        case 1:
        case 2: push(f, what, which); break;
        case 3:
        case 4: end(f, what, which % N_REQUESTS); break;
        case 5:
                if ((what & 0xc0) == 0xc0)
                        forget(f, which);
                else if ((what & 0x80) != 0)
                        list(f, 1 + which % 8);
                else
                        end(f, what, which % N_REQUESTS);
                break;
        case 6: pass_time(f, which * 10 * NS_PER_US); break;
        default: change_place(f, which % N_PLACES);
        }
        check(f);
}

static void finish(struct fuzz *f) {
        for (unsigned i = 0; i < N_REQUESTS; i++)
                end(f, 0, i);
        for (unsigned i = 0; i < N_REQUESTS; i++) /* those that got ready meanwhile */
                end(f, 0, i);
        pass_time(f, NS_PER_S);
        check(f);
        must(f->table.n_active == 0 && f->table.n_backlog == 0 && f->table.ids.n == 0);
        sequence_table_done(&f->table);
        for (unsigned i = 0; i < N_PLACES; i++)
                if (f->places[i] != NULL)
                        sequence_table_remove_place(&f->table, f->places[i]);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                request_free(f->requests[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        static struct fuzz f;

        f = (struct fuzz){ .now_ns = NS_PER_S };
        f.model.name = "m";
        f.model.on_unused = on_unused;
        ref_init(&f.model.ref);
        must(sequence_table_init(&f.table, 1 + (size > 0 ? input[0] % 3 : 0), NS_PER_MS) == NULL);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                must((f.requests[i] = request_new(&f.model)) != NULL);
        change_place(&f, 0);
        for (size_t at = 1; at + 1 < size && at < 2 * MAX_EVENTS; at += 2)
                run_event(&f, input[at], input[at + 1]);
        finish(&f);
        return 0;
}
