/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence/sequence_table.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "infer/implicit_state.h"
#include "infer/model.h"
#include "infer/scheduler.h"

#include <inttypes.h>
#include <string.h>

/* ---- outcomes -------------------------------------------------------------------------------- */

static void request_list_init(struct request_list *c) {
        c->first = NULL;
        c->end = &c->first;
}

static void request_list_append(struct request_list *c, struct request *req) {
        req->queued.next = NULL;
        *c->end = req;
        c->end = &req->queued.next;
}

void sequence_outcome_init(struct sequence_outcome *out) {
        request_list_init(&out->ready);
        request_list_init(&out->cancelled);
        request_list_init(&out->expired);
        out->closing = NULL;
        out->states = NULL;
        out->has_conflict = false;
}

/* ---- slots: a heap of the free ones ---------------------------------------------------------- */

static bool is_before(const struct sequence_slot *a, const struct sequence_slot *b) {
        if (a->number != b->number)
                return a->number < b->number;
        return a->place->order < b->place->order;
}

static void push_free(struct sequence_table *t, struct sequence_slot *slot) {
        size_t at = t->n_free++;

        for (; at > 0 && is_before(slot, t->free_slots[(at - 1) / 2]); at = (at - 1) / 2)
                t->free_slots[at] = t->free_slots[(at - 1) / 2];
        t->free_slots[at] = slot;
}

static struct sequence_slot *pop_free(struct sequence_table *t) {
        struct sequence_slot *first = t->free_slots[0];
        struct sequence_slot *last = t->free_slots[--t->n_free];
        size_t                at = 0;

        for (size_t child = 1; child < t->n_free; child = 2 * at + 1) {
                if (child + 1 < t->n_free &&
                    is_before(t->free_slots[child + 1], t->free_slots[child]))
                        child++;
                if (!is_before(t->free_slots[child], last))
                        break;
                t->free_slots[at] = t->free_slots[child];
                at = child;
        }
        t->free_slots[at] = last;
        return first;
}

/* The heap has space for every slot that was made, so that releasing a slot cannot fail. */
static bool reserve_free(struct sequence_table *t) {
        size_t                 cap = t->cap_free > 0 ? 2 * t->cap_free : 16;
        struct sequence_slot **larger;

        larger = try_realloc(t->free_slots, cap * sizeof(struct sequence_slot *));
        if (larger == NULL)
                return false;
        t->free_slots = larger;
        t->cap_free = cap;
        return true;
}

/* Makes the instance's next slot when all earlier ones are taken. Without memory it is made later. */
static void make_slot(struct sequence_table *t, struct sequence_place *p) {
        struct sequence_slot  *slot;
        struct sequence_slot **larger;

        if (p->has_untouched || p->n_made >= p->n_slots)
                return;
        if (t->n_made >= t->cap_free && !reserve_free(t))
                return;
        larger = try_realloc(p->slots, ((size_t)p->n_made + 1) * sizeof(struct sequence_slot *));
        if (larger == NULL)
                return;
        p->slots = larger;
        slot = try_zalloc(sizeof(*slot) + t->n_slot_bytes);
        if (slot == NULL)
                return;
        slot->place = p;
        slot->number = p->n_made;
        if (t->init_slot != NULL)
                t->init_slot(t, slot->room);
        p->slots[p->n_made++] = slot;
        t->n_made++;
        p->has_untouched = true;
        push_free(t, slot);
}

static struct sequence_slot *take_slot(struct sequence_table *t) {
        struct sequence_slot  *slot;
        struct sequence_place *p;

        if (t->n_free == 0)
                return NULL;
        slot = pop_free(t);
        p = slot->place;
        if (slot->number == p->n_made - 1)
                p->has_untouched = false;
        make_slot(t, p);
        p->n_active++;
        p->n_top = MAX(p->n_top, slot->number + 1);
        return slot;
}

static void release_slot(struct sequence_table *t, struct sequence_slot *slot) {
        struct sequence_place *p = slot->place;

        slot->sequence = NULL;
        p->n_active--;
        while (p->n_top > 0 && p->slots[p->n_top - 1]->sequence == NULL)
                p->n_top--;
        if (p->is_leaving)
                return;
        push_free(t, slot);
        make_slot(t, p);
}

/* ---- sequences ------------------------------------------------------------------------------- */

static struct sequence *sequence_new(const struct correlation_id *id, uint64_t hash) {
        size_t           n_text = id->text != NULL ? strlen(id->text) : 0;
        struct sequence *seq;

        if (n_text > UINT32_MAX / 2)
                return NULL;
        seq = try_zalloc(sizeof(*seq) + sizeof(uint32_t) + n_text + 1);
        if (seq == NULL)
                return NULL;
        seq->link.hash = hash;
        seq->link.id.number = id->number;
        seq->n_text = (uint32_t)n_text;
        memcpy(seq->text, &seq->n_text, sizeof(seq->n_text));
        if (id->text != NULL)
                seq->link.id.text = memcpy(seq->text + sizeof(seq->n_text), id->text, n_text);
        seq->due.due_ns = CLOCK_NEVER;
        list_init(&seq->waiting);
        list_node_init(&seq->node);
        return seq;
}

/* The caller frees the states after it released the lock. */
static void sequence_free(struct sequence *seq, struct implicit_states **states) {
        implicit_states_put(states, seq->states);
        free(seq);
}

static void forget_id(struct sequence_table *t, struct sequence *seq) {
        if (seq->is_known)
                sequence_ids_remove(&t->ids, &seq->link);
        seq->is_known = false;
        seq->is_last = true;
}

static void set_due(struct sequence_table *t, struct sequence *seq, uint64_t due_ns) {
        if (seq->due.due_ns != CLOCK_NEVER)
                due_heap_remove(&t->dues, &seq->due);
        seq->due.due_ns = due_ns;
        /* Without memory the sequence has no timeout, and its requests wait longer. */
        if (due_ns != CLOCK_NEVER && !due_heap_push(&t->dues, &seq->due))
                seq->due.due_ns = CLOCK_NEVER;
}

static uint64_t due_of(const struct request *req) {
        uint64_t timeout_ns, due_ns;

        if (req->timeout_us == 0 ||
            __builtin_mul_overflow(req->timeout_us, NS_PER_US, &timeout_ns) ||
            __builtin_add_overflow(req->times.request_start_ns, timeout_ns, &due_ns))
                return CLOCK_NEVER;
        return due_ns;
}

/* Passes the first waiting request to the instance. */
static void start_next(struct sequence *seq, struct sequence_outcome *out) {
        struct request *req = LIST_ENTRY(list_first(&seq->waiting), struct request, queued.node);

        list_remove(&req->queued.node);
        seq->n_waiting--;
        seq->running = req;
        seq->running_flags = req->flags;
        req->runs_cancelled = seq->is_open;
        if (seq->is_anonymous) {
                req->flags |= REQUEST_SEQUENCE_START;
                req->correlation = (struct correlation_id){ .number = seq->link.id.number };
        }
        request_list_append(&out->ready, req);
}

static void enter_slot(struct sequence_table *t, struct sequence *seq, struct sequence_slot *slot) {
        seq->slot = slot;
        slot->sequence = seq;
        t->n_active++;
}

static void fill_slots(struct sequence_table *t, struct sequence_outcome *out) {
        struct list_node *first;

        while (t->n_free > 0 && (first = list_first(&t->backlog)) != NULL) {
                struct sequence *seq = LIST_ENTRY(first, struct sequence, node);

                list_remove(&seq->node);
                set_due(t, seq, CLOCK_NEVER);
                t->n_backlog--;
                t->n_backlog_requests -= seq->n_waiting;
                t->n_active_requests += seq->n_waiting;
                enter_slot(t, seq, take_slot(t));
                start_next(seq, out);
        }
}

/* Ends a sequence that has no request any more. */
static void end_sequence(struct sequence_table *t, struct sequence *seq, enum sequence_end reason,
                         struct sequence_outcome *out) {
        struct sequence_slot *slot = seq->slot;

        forget_id(t, seq);
        set_due(t, seq, CLOCK_NEVER);
        if (list_is_linked(&seq->node))
                list_remove(&seq->node);
        t->n_ended[reason]++;
        if (slot != NULL) {
                t->n_active--;
                release_slot(t, slot);
        } else {
                t->n_backlog--;
        }
        sequence_free(seq, &out->states);
        fill_slots(t, out);
}

/* Ends a sequence that has no request any more; an open one after its closing execution. */
static void close_sequence(struct sequence_table *t, struct sequence *seq, enum sequence_end reason,
                           struct sequence_outcome *out) {
        if (!seq->is_open) {
                end_sequence(t, seq, reason, out);
                return;
        }
        forget_id(t, seq);
        if (list_is_linked(&seq->node))
                list_remove(&seq->node);
        seq->reason = reason;
        seq->next_closing = out->closing;
        out->closing = seq;
}

/* Gives up the waiting requests from `first` on. */
static void give_up(struct sequence_table *t, struct sequence *seq, struct list_node *first,
                    struct request_list *to) {
        uint64_t *count = seq->slot != NULL ? &t->n_active_requests : &t->n_backlog_requests;

        for (struct list_node *node = first, *next; node != NULL; node = next) {
                struct request *req = LIST_ENTRY(node, struct request, queued.node);

                next = list_next(&seq->waiting, node);
                list_remove(node);
                req->has_sequence = false;
                request_list_append(to, req);
                seq->n_waiting--;
                --*count;
        }
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct error *needs_start(const struct request *req) {
        const char *model = req->model->name;

        if (req->correlation.text != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "inference request for sequence %s to model '%s' must specify the "
                                 "START flag on the first request of the sequence",
                                 req->correlation.text, model);
        return error_new(ERR_INVALID_ARG,
                         "inference request for sequence %" PRIu64
                         " to model '%s' must specify the "
                         "START flag on the first request of the sequence",
                         req->correlation.number, model);
}

static struct sequence *find_sequence(const struct sequence_table *t, const struct request *req,
                                      uint64_t *ret_hash) {
        struct sequence_link *link;

        *ret_hash = sequence_ids_hash(&t->ids, &req->correlation);
        link = sequence_ids_find(&t->ids, *ret_hash, &req->correlation);
        return link != NULL ? CONTAINER_OF(link, struct sequence, link) : NULL;
}

bool sequence_table_knows(const struct sequence_table *t, const struct request *req) {
        uint64_t hash;

        return find_sequence(t, req, &hash) != NULL;
}

bool sequence_table_forget(struct sequence_table *t, const struct request *req,
                           struct sequence_outcome *out) {
        uint64_t         hash;
        struct sequence *seq = find_sequence(t, req, &hash);

        if (seq == NULL)
                return false;
        forget_id(t, seq);
        if (seq->running == NULL && seq->n_waiting == 0)
                close_sequence(t, seq, seq->reason, out);
        return true;
}

static struct sequence *begin_sequence(struct sequence_table *t, const struct request *req,
                                       enum sequence_origin origin, uint64_t hash,
                                       uint64_t now_ns) {
        static const struct correlation_id none;
        struct sequence                   *seq =
                sequence_new(origin == SEQUENCE_OF_CLIENT ? &req->correlation : &none, hash);

        if (seq == NULL)
                return NULL;
        t->n_started++;
        t->last_start_ns = MAX(now_ns, t->last_start_ns + 1);
        seq->started_ns = t->last_start_ns;
        if (origin == SEQUENCE_OF_CLIENT) {
                sequence_ids_add(&t->ids, &seq->link);
                seq->is_known = true;
        } else {
                seq->is_last = true;
                seq->is_anonymous = true;
                seq->link.id.number = ++t->n_anonymous;
        }
        if (t->n_free > 0) {
                enter_slot(t, seq, take_slot(t));
        } else {
                list_append(&t->backlog, &seq->node);
                t->n_backlog++;
        }
        return seq;
}

/* Adds the request to its sequence, and passes it to the instance when no other is before it. */
static void enqueue(struct sequence_table *t, struct sequence *seq, struct request *req,
                    struct sequence_outcome *out) {
        req->has_sequence = true;
        req->sequence = seq;
        list_append(&seq->waiting, &req->queued.node);
        seq->n_waiting++;
        if (seq->slot == NULL) {
                t->n_backlog_requests++;
                if (due_of(req) < seq->due.due_ns)
                        set_due(t, seq, due_of(req));
                return;
        }
        t->n_active_requests++;
        if (list_is_linked(&seq->node))
                list_remove(&seq->node); /* it is not idle any more */
        if (seq->running == NULL)
                start_next(seq, out);
}

struct error *sequence_table_push(struct sequence_table *t, struct request *req,
                                  enum sequence_origin origin, uint64_t now_ns,
                                  struct sequence_outcome *out) {
        struct sequence *seq = NULL;
        bool             is_start = (req->flags & REQUEST_SEQUENCE_START) != 0;
        uint64_t         hash = 0;

        if (origin == SEQUENCE_OF_CLIENT) {
                seq = find_sequence(t, req, &hash);
                if (seq == NULL && !is_start)
                        return needs_start(req);
                out->has_conflict = seq != NULL && is_start;
        }
        if (seq == NULL)
                seq = begin_sequence(t, req, origin, hash, now_ns);
        if (seq == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a sequence of model '%s'",
                                 req->model->name);
        seq->touched_ns = now_ns;
        enqueue(t, seq, req, out);
        if ((req->flags & REQUEST_SEQUENCE_END) != 0)
                forget_id(t, seq);
        return NULL;
}

/* Ends the sequence after the request that runs. */
static void abandon(struct sequence_table *t, struct sequence *seq, struct sequence_outcome *out) {
        give_up(t, seq, list_first(&seq->waiting), &out->cancelled);
        forget_id(t, seq);
        seq->reason = SEQUENCE_ENDED_CANCELLED;
}

void sequence_table_released(struct sequence_table *t, struct request *req, bool was_run,
                             uint64_t now_ns, struct sequence_outcome *out) {
        struct sequence *seq = req->sequence;

        req->has_sequence = false;
        req->flags = seq->running_flags;
        if (seq->is_anonymous)
                req->correlation = (struct correlation_id){ 0 };
        seq->running = NULL;
        seq->touched_ns = now_ns;
        t->n_active_requests--;
        /* The reason for a request that the owner made is known. */
        if (!was_run || (seq->is_closing && !request_is_null(req)))
                abandon(t, seq, out);
        if (seq->is_open && (seq->is_closing || seq->is_anonymous ||
                             (seq->running_flags & REQUEST_SEQUENCE_END) != 0))
                seq->is_open = seq->is_closing = false;
        if (seq->n_waiting > 0)
                start_next(seq, out);
        else if (seq->is_last)
                close_sequence(t, seq, seq->reason, out);
        else
                list_append(&t->idle, &seq->node);
}

bool sequence_table_cancel(struct sequence_table *t, struct request *req, uint64_t now_ns,
                           struct sequence_outcome *out) {
        struct sequence *seq = req->has_sequence ? req->sequence : NULL;
        uint64_t         due_ns = CLOCK_NEVER;

        if (seq == NULL || seq->running == req)
                return false;
        seq->touched_ns = now_ns;
        give_up(t, seq, &req->queued.node, &out->cancelled);
        forget_id(t, seq);
        seq->reason = SEQUENCE_ENDED_CANCELLED;
        if (seq->running == NULL && seq->n_waiting == 0) {
                /* It is in the backlog, so the backend does not know it. */
                end_sequence(t, seq, SEQUENCE_ENDED_CANCELLED, out);
                return true;
        }
        if (seq->slot != NULL)
                return true;
        LIST_FOR_EACH(&seq->waiting, node)
                due_ns = MIN(due_ns, due_of(LIST_ENTRY(node, struct request, queued.node)));
        set_due(t, seq, due_ns);
        return true;
}

void sequence_table_end_after(struct sequence_table *t, struct request *req,
                              struct sequence_outcome *out) {
        if (req->has_sequence && !request_is_null(req))
                abandon(t, req->sequence, out);
}

/* ---- the closing request --------------------------------------------------------------------- */

void sequence_table_begin_closing(struct sequence_table *t, struct sequence *seq,
                                  struct request *req) {
        req->has_sequence = true;
        req->sequence = seq;
        seq->running = req;
        seq->running_flags = req->flags;
        seq->is_closing = true;
        t->n_active_requests++;
}

void sequence_table_give_up_closing(struct sequence_table *t, struct sequence *seq,
                                    struct sequence_outcome *out) {
        seq->is_open = false;
        end_sequence(t, seq, seq->reason, out);
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t idle_end(const struct sequence_table *t, const struct sequence *seq) {
        uint64_t end_ns;

        return __builtin_add_overflow(seq->touched_ns, t->idle_ns, &end_ns) ? CLOCK_NEVER : end_ns;
}

void sequence_table_expire(struct sequence_table *t, uint64_t now_ns,
                           struct sequence_outcome *out) {
        struct list_node *first;
        struct due       *due;

        while ((due = due_heap_first(&t->dues)) != NULL && due->due_ns <= now_ns) {
                struct sequence *seq = CONTAINER_OF(due, struct sequence, due);

                give_up(t, seq, list_first(&seq->waiting), &out->expired);
                end_sequence(t, seq, SEQUENCE_ENDED_TIMEOUT, out);
        }
        while ((first = list_first(&t->idle)) != NULL) {
                struct sequence *seq = LIST_ENTRY(first, struct sequence, node);

                if (idle_end(t, seq) > now_ns)
                        break;
                close_sequence(t, seq, SEQUENCE_ENDED_IDLE, out);
        }
}

uint64_t sequence_table_next_due(const struct sequence_table *t) {
        const struct due *due = due_heap_first(&t->dues);
        struct list_node *first = list_first((struct list *)&t->idle);
        uint64_t          idle_ns = CLOCK_NEVER;

        if (first != NULL)
                idle_ns = idle_end(t, LIST_ENTRY(first, struct sequence, node));
        return MIN(idle_ns, due != NULL ? due->due_ns : CLOCK_NEVER);
}

/* ---- instances and the table ----------------------------------------------------------------- */

struct sequence_place *sequence_table_add_place(struct sequence_table *t, void *owner,
                                                struct sequence_outcome *out) {
        struct sequence_place *p = mem_zalloc(sizeof(*p));

        p->owner = owner;
        p->order = t->n_places_made++;
        p->n_slots = t->n_slots;
        make_slot(t, p);
        fill_slots(t, out);
        return p;
}

void sequence_table_retire_place(struct sequence_table *t, struct sequence_place *place) {
        size_t n = t->n_free;

        place->is_leaving = true;
        t->n_free = 0;
        for (size_t i = 0; i < n; i++) /* a slot is never written beyond the one that is read */
                if (t->free_slots[i]->place != place)
                        push_free(t, t->free_slots[i]);
}

void sequence_table_remove_place(struct sequence_table *t, struct sequence_place *place) {
        t->n_made -= place->n_made;
        for (uint32_t i = 0; i < place->n_made; i++)
                free(place->slots[i]);
        free(place->slots);
        free(place);
}

struct error *sequence_table_init(struct sequence_table *t, uint32_t n_slots, uint64_t idle_ns) {
        *t = (struct sequence_table){ .n_slots = n_slots, .idle_ns = idle_ns };
        list_init(&t->backlog);
        list_init(&t->idle);
        due_heap_init(&t->dues);
        return sequence_ids_init(&t->ids);
}

static void free_all(struct list *sequences) {
        struct implicit_states *states = NULL;

        LIST_FOR_EACH(sequences, node) {
                struct sequence *seq = LIST_ENTRY(node, struct sequence, node);

                if (seq->slot != NULL)
                        seq->slot->sequence = NULL;
                list_remove(node);
                sequence_free(seq, &states);
        }
        implicit_states_free_list(states);
}

void sequence_table_done(struct sequence_table *t) {
        free_all(&t->idle);
        free_all(&t->backlog);
        due_heap_done(&t->dues);
        sequence_ids_done(&t->ids);
        free(t->free_slots);
}

/* ---- the list for users ---------------------------------------------------------------------- */

/* Slots that one call of sequence_table_list_place() visits, free ones included: some microseconds. */
#define MAX_LISTED_SLOTS 1024

static void copy_text(char *to, const char *text, size_t len) {
        len = MIN(len, (size_t)SEQUENCE_ROW_TEXT_BYTES);
        memcpy(to, text, len);
        to[len] = '\0';
}

static struct sequence_row *add_row(struct sequence_listing *l, const struct sequence *seq) {
        struct sequence_row *row = &l->rows[l->n++];
        uint32_t             n = seq->n_waiting + (seq->running != NULL);

        *row = (struct sequence_row){ .number = seq->link.id.number,
                                      .is_text = seq->link.id.text != NULL,
                                      .n_requests = n,
                                      .is_ending = seq->is_last && !seq->is_anonymous };
        row->age_ns = l->now_ns > seq->started_ns ? l->now_ns - seq->started_ns : 0;
        if (n == 0 && l->now_ns > seq->touched_ns)
                row->idle_ns = l->now_ns - seq->touched_ns;
        if (seq->link.id.text != NULL)
                copy_text(row->text, seq->link.id.text, seq->n_text);
        return row;
}

bool sequence_table_list_place(struct sequence_listing *l, const struct sequence_place *place,
                               const char *instance, uint32_t *at) {
        uint32_t begin = *at;

        for (; *at < place->n_top; ++*at) {
                const struct sequence *seq = place->slots[*at]->sequence;
                struct sequence_row   *row;

                if (l->n == l->cap || *at - begin == MAX_LISTED_SLOTS)
                        return false;
                if (seq == NULL)
                        continue;
                row = add_row(l, seq);
                row->has_slot = true;
                row->slot = *at;
                copy_text(row->instance, instance, strlen(instance));
        }
        return true;
}

bool sequence_table_list_backlog(struct sequence_listing *l, const struct sequence_table *t,
                                 uint64_t *after_ns) {
        LIST_FOR_EACH((struct list *)(uintptr_t)&t->backlog, node) {
                const struct sequence *seq = LIST_ENTRY(node, struct sequence, node);

                if (seq->started_ns <= *after_ns)
                        continue;
                if (l->n == l->cap)
                        return false;
                (void)add_row(l, seq);
                *after_ns = seq->started_ns;
        }
        return true;
}
