/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/worker.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "load/answer_checker.h"
#include "net/alarm.h"
#include "net/loop.h"
#include "net/loop_timer.h"

#include <stdatomic.h>
#include <time.h>

#define REST_NS (20 * NS_PER_MS)
#define MAX_LOGGED_RESPONSES 4096
/* Of ids of sequences: beyond it none comes back while its first use is live. */
#define SHORT_RANGE (UINT64_C(1) << 32)

struct lane {
        struct call         call;
        struct request_pack pack;    /* of the call */
        struct worker      *worker;  /* borrowed */
        struct channel     *channel; /* borrowed from the worker */
        struct list_node node; /* in worker->idle or worker->resting; not linked while it is busy */
        uint64_t         intended_ns, first_response_ns, last_response_ns;
        size_t           request; /* under way */
        uint32_t         n_responses;
        struct language_answer said; /* of a language model */
        bool is_awaited; /* the next requests of a growing load begin after its responses */

        /* of a sequence */
        uint64_t id, step, length;
        size_t   stream;
        uint64_t times[]; /* of responses, for the log: MAX_LOGGED_RESPONSES */
};

struct worker {
        struct worker_options o;
        struct channel_shard  shard;
        struct lane         **lanes; /* owned */
        size_t                n_lanes;
        struct channel      **channels; /* owned */
        size_t                n_channels;
        struct list           idle, resting; /* struct lane */
        size_t                n_busy;
        struct loop_timer     rest;
        struct alarm         *alarm; /* owned; of the open loop */
        struct load_level     level;
        struct schedule       schedule;
        bool                  is_running;
        uint64_t              n_begun; /* requests of the level */
        size_t                n_awaited;
        size_t                next_request, next_stream;
        uint64_t              n_ids;
        uint64_t              random;
        uint64_t              clock_offset_ns; /* from the monotonic to the wall clock */
        struct tally         *tally;           /* owned */
        uint64_t              n_done;          /* in the tally, failed ones included */
        uint64_t              wanted_done;
        uint64_t              cpu_begin_ns;

        /* orders of the owner's thread */
        struct mail mail;
        void (*order)(struct worker *w);
        const struct load_level *new_level;
        struct tally            *swap;
        uint64_t                 new_wanted;
        uint64_t                 lost_ns;
        struct worker_dropped    dropped;
        struct worker_progress   progress;
        struct error            *failure;
        struct mutex             lock; /* rank LOCK_LEAF; guards is_order_done */
        struct cond              order_done;
        bool                     is_order_done;
        atomic_bool              is_drained;
};

static uint64_t thread_cpu_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* A length within the variation, at least 1; or that of the data of a sequence of its own. */
static uint64_t sequence_length(struct worker *w, const struct lane *l) {
        double length = (double)w->o.sequence_length, share, unit;

        if (w->o.inputs->n_streams > 0 && w->o.follows_data)
                return w->o.inputs->streams[l->stream].n;
        unit = (double)(random_next(&w->random) >> 11) / 9007199254740992.0; /* 2^53 */
        share = w->o.sequence_variation / 100.0 * (2.0 * unit - 1.0);
        length += length * share;
        return length < 1.0 ? 1 : (uint64_t)(length + 0.5);
}

/* The ids of a worker are every n_parts-th of the range, in turn. */
static uint64_t next_id(struct worker *w) {
        uint64_t n = w->o.n_ids / w->o.n_parts + (w->o.part < w->o.n_ids % w->o.n_parts);

        return w->o.first_id + w->n_ids++ % MAX(n, 1) * w->o.n_parts + w->o.part;
}

/* True while the server has a sequence of this id: until the answer to its last request. */
static bool is_live(const struct worker *w, const struct lane *self, uint64_t id) {
        for (size_t i = 0; i < w->n_lanes; i++) {
                const struct lane *l = w->lanes[i];

                if (l != self && l->id == id && (l->step < l->length || !list_is_linked(&l->node)))
                        return true;
        }
        return false;
}

/* A range without an end does not come back to an id. In a short one a slow sequence may still be live when the
 * others have used all ids after it; there are as many ids as lanes at least. */
static void choose_id(struct worker *w, struct lane *l) {
        bool is_short = w->o.n_ids < SHORT_RANGE;

        l->id = next_id(w);
        for (size_t i = 0; is_short && i < w->n_lanes && is_live(w, l, l->id); i++)
                l->id = next_id(w);
}

static void begin_sequence(struct worker *w, struct lane *l) {
        choose_id(w, l);
        if (w->o.inputs->n_streams > 0) {
                l->stream = (w->next_stream * w->o.n_parts + w->o.part) % w->o.inputs->n_streams;
                w->next_stream++;
        }
        l->step = 0;
        l->length = sequence_length(w, l);
}

static void choose_request(struct worker *w, struct lane *l) {
        size_t n = w->o.requests->n;

        if (w->o.model->is_sequence && w->o.inputs->n_streams > 0) {
                const struct input_stream *s = &w->o.inputs->streams[l->stream];

                l->request = s->first + (size_t)l->step % s->n;
                return;
        }
        l->request = w->next_request % n;
        w->next_request = (l->request + w->o.n_parts) % n;
}

/* intended_ns 0: now. The channel may have to connect first, or to wait for a stream. */
static void send_request(struct worker *w, struct lane *l, uint64_t intended_ns) {
        struct request_step step;

        if (w->o.model->is_sequence && l->step == l->length)
                begin_sequence(w, l);
        choose_request(w, l);
        step = (struct request_step){ .id = l->id,
                                      .is_start = l->step == 0,
                                      .is_end = l->step + 1 >= l->length || !w->is_running };
        if (step.is_end)
                l->length = l->step + 1;
        request_set_patch(w->o.requests, &step, &l->call);
        l->step++;
        l->call.message = &w->o.requests->messages[l->request];
        request_set_pack(w->o.requests, &l->call, &l->pack);
        l->call.ends_at_first = w->o.ends_at_first;
        l->intended_ns = intended_ns != 0 ? intended_ns : clock_now_ns();
        l->first_response_ns = 0;
        l->n_responses = 0;
        l->said = (struct language_answer){ 0 };
        w->n_busy++;
        w->n_begun++;
        w->tally->n_sent++;
        channel_send(l->channel, &l->call);
}

static bool is_mid_sequence(const struct lane *l) {
        return l->worker->o.model->is_sequence && l->step < l->length;
}

static bool may_begin(const struct worker *w) {
        return w->is_running && (w->level.n_requests == 0 || w->n_begun < w->level.n_requests);
}

/* ---- the open loop ----------------------------------------------------------------------------- */

static struct lane *add_lane(struct worker *w);

static struct lane *take_idle(struct worker *w) {
        struct list_node *first = list_first(&w->idle);

        if (first != NULL) {
                list_remove(first);
                return LIST_ENTRY(first, struct lane, node);
        }
        return w->n_lanes < w->o.max_lanes ? add_lane(w) : NULL;
}

/* Starts what is due, as far as lanes are free. */
static void pump(struct worker *w) {
        uint64_t now_ns = clock_now_ns();

        while (may_begin(w)) {
                uint64_t     due_ns = schedule_next(&w->schedule);
                struct lane *l;

                if (due_ns > now_ns) {
                        alarm_arm(w->alarm, due_ns);
                        return;
                }
                l = take_idle(w);
                if (l == NULL) /* the lane that becomes free goes on */
                        return;
                schedule_advance(&w->schedule);
                send_request(w, l, due_ns);
                now_ns = clock_now_ns();
        }
}

static void on_alarm(void *owner) {
        pump(owner);
}

/* ---- a load that grows ------------------------------------------------------------------------- */

static void begin_awaited(struct worker *w, size_t n) {
        for (size_t i = 0; i < n && may_begin(w); i++) {
                struct lane *l = list_first(&w->idle) != NULL ? take_idle(w) : add_lane(w);

                l->is_awaited = true;
                w->n_awaited++;
                send_request(w, l, 0);
        }
}

static void note_awaited(struct worker *w, struct lane *l) {
        if (!l->is_awaited)
                return;
        l->is_awaited = false;
        w->n_awaited--;
        if (w->n_awaited == 0)
                begin_awaited(w, w->level.step);
}

/* ---- answers ----------------------------------------------------------------------------------- */

static void log_request(struct worker *w, const struct lane *l) {
        struct tally *t = w->tally;
        size_t        n = MIN(l->n_responses, MAX_LOGGED_RESPONSES);

        if (t->log == NULL)
                return;
        if (t->n_log + 3 + n > TALLY_MAX_LOG) {
                t->n_unlogged++;
                return;
        }
        t->log[t->n_log++] = l->call.sent_ns + w->clock_offset_ns;
        t->log[t->n_log++] = w->o.model->is_sequence ? l->id : 0;
        t->log[t->n_log++] = n;
        for (size_t i = 0; i < n; i++)
                t->log[t->n_log++] = l->times[i] + w->clock_offset_ns;
}

static void note_response(struct worker *w, struct lane *l, uint64_t at_ns) {
        if (w->tally->log != NULL && l->n_responses < MAX_LOGGED_RESPONSES)
                l->times[l->n_responses] = at_ns;
        if (l->n_responses == 0)
                l->first_response_ns = at_ns;
        else
                histogram_add(&w->tally->between, at_ns - l->last_response_ns);
        l->last_response_ns = at_ns;
        l->n_responses++;
        if (w->level.period > 0 && l->n_responses == w->level.period)
                note_awaited(w, l);
}

/* For a language model this counts pieces with text: other pieces have the role, the end or the usage. */
static void on_response(struct call *c, const struct answer *a) {
        struct lane           *l = CONTAINER_OF(c, struct lane, call);
        enum language_endpoint endpoint = l->worker->o.endpoint;

        if (a->kind != ANSWER_OK)
                return;
        if (endpoint != LANGUAGE_NONE)
                language_answer_add(&l->said, endpoint, a->text);
        if (endpoint == LANGUAGE_NONE || l->said.has_text)
                note_response(l->worker, l, c->response_ns);
}

/* The pace of a request is (latency - time to the first token) / (tokens - 1). */
static void count_tokens(struct tally *t, const struct lane *l) {
        uint64_t n = language_answer_tokens(&l->said);

        t->n_prompt_tokens += l->said.n_prompt_tokens;
        t->n_output_tokens += n;
        t->n_counted += l->said.is_counted;
        if (n > 1 && l->call.message->is_events && l->first_response_ns != 0)
                histogram_add(&t->pace, (l->call.done_ns - l->first_response_ns) / (n - 1));
}

static void count_answer(struct worker *w, struct lane *l, const struct answer *a) {
        struct tally *t = w->tally;
        struct call  *c = &l->call;
        uint64_t      begin_ns = l->intended_ns;
        uint64_t      written_ns = c->written_ns != 0 ? c->written_ns : c->sent_ns;
        uint64_t      first_ns = MAX(c->first_ns, written_ns);

        t->n_responses += l->n_responses;
        t->send_ns += (double)(written_ns - c->sent_ns);
        t->wait_ns += (double)(first_ns - written_ns);
        t->recv_ns += (double)(c->done_ns - MIN(first_ns, c->done_ns));
        histogram_add(&t->service, c->done_ns - c->sent_ns);
        histogram_add(&t->latency, c->done_ns - begin_ns);
        if (w->level.mode == LOAD_OPEN)
                histogram_add(&t->lateness, c->sent_ns - MIN(c->sent_ns, l->intended_ns));
        if (l->first_response_ns != 0)
                histogram_add(&t->first, l->first_response_ns - begin_ns);
        if (w->o.endpoint != LANGUAGE_NONE)
                count_tokens(t, l);
        if (a->kind == ANSWER_OK)
                log_request(w, l);
}

static void count_done(struct worker *w, struct lane *l, const struct answer *a) {
        struct answer wrong = { .kind = ANSWER_REFUSED,
                                .text = STR_LIT("the output is not the "
                                                "expected one") };

        if (a->kind == ANSWER_OK && w->o.checker != NULL &&
            !answer_checker_compare(w->o.checker, w->o.requests->entries[l->request], a)) {
                w->tally->n_wrong++;
                tally_add_error(w->tally, &wrong);
        } else if (a->kind == ANSWER_OK) {
                count_answer(w, l, a);
        } else {
                tally_add_error(w->tally, a);
        }
        w->n_done++;
        if (w->n_done == w->wanted_done)
                w->o.on_progress(w->o.owner);
}

static void check_drained(struct worker *w) {
        if (w->n_busy > 0 || may_begin(w))
                return;
        atomic_store(&w->is_drained, true);
        w->o.on_progress(w->o.owner);
}

static void release_lane(struct worker *w, struct lane *l) {
        list_append(&w->idle, &l->node);
        check_drained(w);
}

/* After an answer: a sequence goes on, a closed loop sends the next request, an open loop what is due. */
static void go_on(struct worker *w, struct lane *l) {
        if (w->level.mode == LOAD_OPEN) {
                if (!w->is_running && is_mid_sequence(l)) {
                        send_request(w, l, clock_now_ns());
                        return;
                }
                /* First in, first out, so that sequences take turns. */
                release_lane(w, l);
                pump(w);
                return;
        }
        if (may_begin(w) || is_mid_sequence(l))
                send_request(w, l, 0);
        else
                release_lane(w, l);
}

static void rest(struct worker *w, struct lane *l) {
        list_append(&w->resting, &l->node);
        if (!loop_timer_is_armed(&w->rest) &&
            !loop_timer_arm(w->o.loop, &w->rest, clock_now_ns() + REST_NS)) {
                list_remove(&l->node);
                go_on(w, l);
        }
}

static void on_rested(struct loop_timer *t) {
        struct worker *w = CONTAINER_OF(t, struct worker, rest);

        LIST_FOR_EACH(&w->resting, node) {
                list_remove(node);
                go_on(w, LIST_ENTRY(node, struct lane, node));
        }
}

/* What answers as a page of a proxy does, or without a stream, has not answered what was asked. */
static bool lacks_events(const struct worker *w, const struct lane *l) {
        return language_endpoint_path(w->o.endpoint) != NULL && l->call.message->is_events &&
               l->said.n_pieces == 0;
}

static void on_done(struct call *c, const struct answer *a) {
        const struct answer no_events = { .kind = ANSWER_REFUSED,
                                          .text = STR_LIT("the answer has no events") };
        struct lane        *l = CONTAINER_OF(c, struct lane, call);
        struct worker      *w = l->worker;

        w->n_busy--;
        if (a->kind == ANSWER_OK && w->o.endpoint != LANGUAGE_NONE && !a->is_empty)
                language_answer_add(&l->said, w->o.endpoint, a->text);
        if (a->kind == ANSWER_OK && lacks_events(w, l))
                a = &no_events;
        if (a->kind == ANSWER_OK && l->n_responses == 0 && !a->is_empty && !c->message->is_stream)
                note_response(w, l, c->done_ns);
        count_done(w, l, a);
        if (a->kind != ANSWER_OK)
                l->step = l->length = 0; /* what is left of a sequence would be refused */
        if (w->level.period > 0) {
                note_awaited(w, l);
                release_lane(w, l);
        } else if (a->kind == ANSWER_BROKEN && w->level.mode == LOAD_CLOSED && may_begin(w))
                rest(w, l);
        else
                go_on(w, l);
}

static const struct call_ops call_ops = { .on_response = on_response, .on_done = on_done };

/* ---- lanes ------------------------------------------------------------------------------------- */

static struct channel *channel_for(struct worker *w, size_t lane) {
        size_t most = w->o.target->protocol == TARGET_HTTP || w->o.n_channels == 0
                              ? SIZE_MAX
                              : w->o.n_channels;

        if (lane < most) {
                w->channels = mem_realloc(w->channels, (w->n_channels + 1) * sizeof(*w->channels));
                w->channels[w->n_channels++] = channel_open(&w->shard);
        }
        return w->channels[lane % MIN(most, w->n_channels)];
}

static struct lane *add_lane(struct worker *w) {
        size_t       times = w->o.has_log ? MAX_LOGGED_RESPONSES * sizeof(uint64_t) : 0;
        struct lane *l = mem_zalloc(sizeof(*l) + times);

        call_init(&l->call, &call_ops);
        l->worker = w;
        l->channel = channel_for(w, w->n_lanes);
        w->lanes = mem_grow(w->lanes, w->n_lanes, sizeof(*w->lanes));
        w->lanes[w->n_lanes++] = l;
        return l;
}

static void drop_lanes(struct worker *w) {
        for (size_t i = 0; i < w->n_channels; i++)
                channel_close(w->channels[i]);
        for (size_t i = 0; i < w->n_lanes; i++) {
                call_done(&w->lanes[i]->call);
                request_pack_done(&w->lanes[i]->pack);
                free(w->lanes[i]);
        }
        free(w->channels);
        free(w->lanes);
        w->channels = NULL;
        w->lanes = NULL;
        w->n_lanes = w->n_channels = w->n_busy = 0;
        list_init(&w->idle);
        list_init(&w->resting);
        loop_timer_cancel(&w->rest);
        if (w->alarm != NULL)
                alarm_arm(w->alarm, CLOCK_NEVER);
}

/* ---- orders ------------------------------------------------------------------------------------ */

static void finish_order(struct worker *w) {
        MUTEX_GUARD(&w->lock);

        w->is_order_done = true;
        cond_signal(&w->order_done);
}

static void on_mail(struct mail *m) {
        struct worker *w = CONTAINER_OF(m, struct worker, mail);

        w->order(w);
        finish_order(w);
}

static void run_order(struct worker *w, void (*order)(struct worker *w)) {
        w->order = order;
        w->is_order_done = false; /* no order is under way */
        mailbox_post(loop_mailbox(w->o.loop), &w->mail);
        mutex_lock(&w->lock);
        while (!w->is_order_done)
                cond_wait(&w->order_done, &w->lock);
        mutex_unlock(&w->lock);
}

static void begin_tally(struct worker *w) {
        w->tally->begin_ns = clock_now_ns();
        w->cpu_begin_ns = thread_cpu_ns();
        w->clock_offset_ns = clock_wall_ns() - w->tally->begin_ns;
        w->n_done = 0;
        w->wanted_done = 0;
}

static void start_closed(struct worker *w) {
        if (w->level.period > 0) {
                begin_awaited(w, w->level.concurrency);
                return;
        }
        while (w->n_lanes < w->level.concurrency)
                list_append(&w->idle, &add_lane(w)->node);
        for (size_t i = 0; i < w->level.concurrency && may_begin(w); i++) {
                struct lane *l = LIST_ENTRY(list_first(&w->idle), struct lane, node);

                list_remove(&l->node);
                send_request(w, l, 0);
        }
}

static void start_open(struct worker *w) {
        if (w->alarm == NULL) {
                w->failure = alarm_open(w->o.loop, on_alarm, w, &w->alarm);
                if (w->failure != NULL)
                        return;
        }
        schedule_init(&w->schedule, &w->level.schedule, clock_now_ns());
        pump(w);
}

/* A lane whose last request of the load before broke may rest still: it begins with the others. */
static void end_rest(struct worker *w) {
        LIST_FOR_EACH(&w->resting, node) {
                list_remove(node);
                list_append(&w->idle, node);
        }
        loop_timer_cancel(&w->rest);
}

static void order_start(struct worker *w) {
        end_rest(w);
        w->level = *w->new_level;
        w->is_running = true;
        w->n_begun = w->n_awaited = 0;
        atomic_store(&w->is_drained, false);
        tally_clear(w->tally);
        begin_tally(w);
        if (w->level.mode == LOAD_OPEN)
                start_open(w);
        else
                start_closed(w);
        check_drained(w);
}

static void order_stop(struct worker *w) {
        w->is_running = false;
        if (w->alarm != NULL)
                alarm_arm(w->alarm, CLOCK_NEVER);
        /* An idle lane of an open loop may be in the middle of a sequence. */
        LIST_FOR_EACH(&w->idle, node) {
                struct lane *l = LIST_ENTRY(node, struct lane, node);

                if (is_mid_sequence(l)) {
                        list_remove(node);
                        send_request(w, l, clock_now_ns());
                }
        }
        check_drained(w);
}

static size_t count_lost(const struct worker *w) {
        uint64_t now_ns = clock_now_ns();
        size_t   n = 0;

        for (size_t i = 0; i < w->n_lanes; i++) {
                const struct lane *l = w->lanes[i];
                uint64_t           begin_ns = MIN(l->intended_ns, now_ns);

                n += l->call.channel != NULL && now_ns - begin_ns > w->lost_ns;
        }
        return n;
}

static void order_drop(struct worker *w) {
        w->is_running = false;
        w->dropped = (struct worker_dropped){ w->n_busy, count_lost(w) };
        drop_lanes(w);
}

static void order_close(struct worker *w) {
        order_drop(w);
        alarm_close(w->alarm);
}

static void order_swap(struct worker *w) {
        struct tally *old = w->tally;

        old->end_ns = clock_now_ns();
        old->cpu_ns = thread_cpu_ns() - w->cpu_begin_ns;
        w->tally = w->swap;
        w->swap = old;
        begin_tally(w);
}

static void order_want(struct worker *w) {
        w->wanted_done = w->new_wanted;
        if (w->n_done >= w->wanted_done && w->wanted_done > 0)
                w->o.on_progress(w->o.owner);
}

static void order_look(struct worker *w) {
        const struct histogram *h = &w->tally->latency;

        w->progress = (struct worker_progress){
                .n_done = w->n_done,
                .n_failed = w->tally->n_failed,
                .p50_ns = (double)histogram_percentile(h, 50.0),
                .p99_ns = (double)histogram_percentile(h, 99.0),
                .longest_ns = h->max,
        };
}

struct worker *worker_new(const struct worker_options *o) {
        struct worker *w = mem_zalloc(sizeof(*w));

        w->o = *o;
        w->shard = (struct channel_shard){ .loop = o->loop,
                                           .target = o->target,
                                           .room = mem_alloc(CHANNEL_ROOM_BYTES) };
        w->tally = tally_new(o->has_log);
        w->random = random_state(o->part);
        w->next_request = o->part % o->requests->n;
        w->mail.deliver = on_mail;
        atomic_store(&w->is_drained, true);
        list_init(&w->idle);
        list_init(&w->resting);
        loop_timer_init(&w->rest, on_rested);
        mutex_init(&w->lock, LOCK_LEAF);
        cond_init(&w->order_done);
        return w;
}

void worker_free(struct worker *w) {
        if (w == NULL)
                return;
        run_order(w, order_close);
        tally_free(w->tally);
        free(w->shard.room);
        cond_done(&w->order_done);
        mutex_done(&w->lock);
        free(w);
}

struct error *worker_start(struct worker *w, const struct load_level *level) {
        w->new_level = level;
        run_order(w, order_start);
        return STEAL(w->failure);
}

void worker_stop(struct worker *w) {
        run_order(w, order_stop);
}

bool worker_is_drained(struct worker *w) {
        return atomic_load(&w->is_drained);
}

struct worker_dropped worker_drop(struct worker *w, uint64_t lost_ns) {
        w->lost_ns = lost_ns;
        run_order(w, order_drop);
        return w->dropped;
}

struct tally *worker_swap(struct worker *w, struct tally *empty) {
        w->swap = empty;
        run_order(w, order_swap);
        return STEAL(w->swap);
}

void worker_want(struct worker *w, uint64_t wanted_done) {
        w->new_wanted = wanted_done;
        run_order(w, order_want);
}

struct worker_progress worker_look(struct worker *w) {
        run_order(w, order_look);
        return w->progress;
}
