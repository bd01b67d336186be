/* SPDX-License-Identifier: BSD-3-Clause */
/* Executions of an instance: writes requests for the stub, offers them, and turns its results into responses
 * (python_instance.h). */
#include "kit/scratch.h"
#include "kit/stats.h"
#include "python/answer.h"
#include "python/holds.h"
#include "python/python_instance.h"
#include "python/request_write.h"
#include "python/waits.h"
#include "triton/core/neso.h"

#include <stdlib.h>
#include <string.h>

/* Other servers do not have these functions. */
#pragma weak NESO_ThreadBeginResponses
#pragma weak NESO_ThreadEndResponses

/* Offering an execution while another one runs hides the way to the other process and back, about
 * 20 to 100 us. For executions longer than a multiple of that the gain is negligible, and requests
 * should stay in the server's queue, where they can be cancelled or taken by another instance. */
#define PIPELINE_WINDOW_NS 400000u

#define NO_FINAL "Response sender was released without a final response"

TRITONSERVER_Error *instance_unhealthy(const struct instance *in) {
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "Stub process '%s' is not healthy.",
                         in->name);
}

/* ---- the end of a request -------------------------------------------------------------------- */

static void report_entry(struct entry *e, const struct kit_stats *stats, bool is_success) {
        if (e->request != NULL)
                kit_stats_report(stats, e->instance->triton, e->request, is_success);
}

/* Reports the request and answers it with `err` (the caller's). */
static void fail_entry(struct entry *e, const struct kit_stats *stats, TRITONSERVER_Error *err) {
        report_entry(e, stats, false);
        entry_fail(e, err);
        entry_release(e, TRITONSERVER_REQUEST_RELEASE_ALL);
        entry_end(e);
}

/* Creates the response at `at`; *ret_error is the error to send it with. */
static TRITONSERVER_Error *make_response(struct entry *e, const struct answer_source *source,
                                         uint32_t at, TRITONBACKEND_Response **ret,
                                         TRITONSERVER_Error **ret_error) {
        const struct kit_model *kit = &e->instance->model->kit;
        struct answer_wanted    wanted = { .outputs = kit->outputs,
                                           .n_outputs = kit->n_outputs,
                                           .request = e->request };
        TRITONSERVER_Error     *err;

        KIT_TRY(entry_respond(e, ret));
        err = answer_fill(source, at, &wanted, *ret, ret_error);
        if (err == NULL)
                return NULL;
        if (*ret_error != NULL)
                TRITONSERVER_ErrorDelete(*ret_error);
        *ret_error = err; /* the client receives the reason for the missing outputs */
        return NULL;
}

/* Answers with one response at the end of the execution, the most frequent case. */
static void answer_entry(struct entry *e, const struct kit_stats *stats,
                         const struct answer_source *source, uint32_t at) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *error = NULL, *err;

        err = make_response(e, source, at, &response, &error);
        if (err != NULL) {
                fail_entry(e, stats, err);
                TRITONSERVER_ErrorDelete(err);
                return;
        }
        report_entry(e, stats, error == NULL);
        e->is_final = true;
        kit_error_log(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                 error),
                      "failed to send a response");
        if (error != NULL)
                TRITONSERVER_ErrorDelete(error);
        entry_release(e, TRITONSERVER_REQUEST_RELEASE_ALL);
        entry_end(e);
}

static void reschedule(struct entry *e, const struct kit_stats *stats) {
        TRITONSERVER_Error *err;

        report_entry(e, stats, true);
        if (e->hold != NULL && holds_release(e, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)) {
                entry_end(e);
                return;
        }
        err = TRITONBACKEND_RequestRelease(e->request, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE);
        if (err == NULL) {
                e->request = NULL;
                entry_end(e);
                return;
        }
        kit_log(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__, "Failed to release request: %s",
                TRITONSERVER_ErrorMessage(err));
        entry_fail(e, err);
        TRITONSERVER_ErrorDelete(err);
        entry_release(e, TRITONSERVER_REQUEST_RELEASE_ALL);
        entry_end(e);
}

/* Ends an execution's part of an entry whose sender is still open, or has sent its last
 * response. */
static void leave_open(struct entry *e, const struct kit_stats *stats, bool is_open) {
        TRITONSERVER_Error *err = NULL;

        report_entry(e, stats, true);
        if (!e->is_final && is_open)
                err = entry_open(e);
        else if (!e->is_final)
                err = kit_error(TRITONSERVER_ERROR_INTERNAL, NO_FINAL);
        if (err != NULL) {
                entry_fail(e, err);
                TRITONSERVER_ErrorDelete(err);
        }
        entry_release(e, TRITONSERVER_REQUEST_RELEASE_ALL);
        e->is_executing = false;
        if (e->is_final)
                entry_end(e);
}

static void end_entry(struct entry *e, const struct kit_stats *stats,
                      const struct answer_source *source, const struct shm_result_item *item) {
        if (item->answer != 0 && !e->is_final)
                answer_entry(e, stats, source, item->answer);
        else if (item->release_flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE && !e->is_final)
                reschedule(e, stats);
        else
                leave_open(e, stats, item->is_open != 0);
}

/* ---- executions ------------------------------------------------------------------------------ */

static void link_locked(struct instance *in, struct execution *ex) {
        ex->next = NULL;
        *in->last = ex;
        in->last = &ex->next;
        in->n_executions++;
}

static void unlink_locked(struct instance *in, struct execution *ex) {
        struct execution **link = &in->first;

        while (*link != ex)
                link = &(*link)->next;
        *link = ex->next;
        if (in->last == &ex->next)
                in->last = link;
        in->n_executions--;
}

/* Returns the depth for an average length of executions. Only the reader changes it. */
static uint32_t depth_for(const struct instance *in, uint64_t average_ns) {
        uint32_t most = in->model->depth;

        return average_ns * (most - 1) <= PIPELINE_WINDOW_NS
                       ? most
                       : 1 + (uint32_t)(PIPELINE_WINDOW_NS / average_ns);
}

static uint32_t depth_of(const struct instance *in) {
        if (in->is_concurrent)
                return in->model->async_concurrency;
        return in->has_own_queue ||
                               atomic_load_explicit(&in->model->makes_calls, memory_order_relaxed)
                       ? 1
                       : atomic_load_explicit(&in->depth, memory_order_relaxed);
}

static void offer_locked(struct instance *in, struct execution *ex) {
        struct session  *s = in->session;
        struct shm_slot *slot;
        uint32_t         i = 0;

        while (atomic_load_explicit(&in->by_slot[i], memory_order_relaxed) != NULL)
                i++;
        slot = &s->region.header->slots[i];
        atomic_store_explicit(&in->by_slot[i], ex, memory_order_release);
        ex->slot = i;
        ex->generation = in->generations[i]++ & 0xffffff;
        slot->claim_ns = slot->end_ns = 0;
        slot->is_waited = ex->is_waited;
        shm_slot_offer(&slot->word, ex->generation);
        session_push(s, &(struct shm_execution){
                                .kind = ex->block != 0 ? SHM_EXECUTE : SHM_EXECUTE_ONE,
                                .slot = i,
                                .generation = ex->generation,
                                .block = ex->block != 0 ? ex->block : ex->entries[0]->block });
}

/* Wakes the stub after an offer, without the lock: on a shared core the woken thread runs at once,
 * and would have to wait for the lock. */
static void announce_offer(const struct instance *in, struct session *s) {
        session_wake_stub(s);
        if (in->model->execute_timeout_ns != 0)
                session_call_receiver(s); /* the receiver watches the deadline */
}

/* Frees the slot and removes the execution from the list. */
static void retire_locked(struct instance *in, struct execution *ex) {
        if (atomic_load_explicit(&in->by_slot[ex->slot], memory_order_relaxed) == ex)
                atomic_store_explicit(&in->by_slot[ex->slot], NULL, memory_order_relaxed);
        unlink_locked(in, ex);
}

void execution_free_locked(struct instance *in, struct execution *ex) {
        if (ex->capacity > 1) {
                free(ex);
                return;
        }
        ex->next = in->spare;
        in->spare = ex;
}

static void free_entries_locked(const struct execution *ex) {
        for (uint32_t i = 0; i < ex->n_entries; i++)
                if (ex->entries[i]->is_ended)
                        entry_free_locked(ex->entries[i]);
}

/* Ends an execution. The caller wakes the threads that wait for `changed`. The thread in Execute is
 * woken here, since it may sleep for a message that the receiver has read. */
static void finish_execution(struct instance *in, struct execution *ex) {
        bool is_waited = ex->is_waited;

        (void)pthread_mutex_lock(&in->lock);
        retire_locked(in, ex);
        free_entries_locked(ex);
        atomic_store(&ex->is_done, true);
        if (!is_waited)
                execution_free_locked(in, ex);
        (void)pthread_mutex_unlock(&in->lock);
        if (is_waited && in->session != NULL)
                shm_wake(&in->session->region.header->executor_sleep, SHM_NAPPING);
}

static TRITONSERVER_Error *refuse_cancelled(struct entry *e) {
        bool is_cancelled = false;

        KIT_TRY(TRITONBACKEND_RequestIsCancelled(e->request, &is_cancelled));
        return is_cancelled ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "") : NULL;
}

/* Returns addresses that no block uses to the system, so that there are some for a new one. Called between
 * two requests. */
static bool make_room(struct instance *in, struct session *s) {
        bool has_room;

        (void)pthread_mutex_lock(&in->lock);
        in->is_writing = false;
        (void)pthread_mutex_unlock(&in->lock);
        has_room = reader_shrink(in, s);
        (void)pthread_mutex_lock(&in->lock);
        in->is_writing = true;
        (void)pthread_mutex_unlock(&in->lock);
        return has_room;
}

static TRITONSERVER_Error *write_once(struct instance *in, struct session *s, struct entry *e) {
        struct hold *hold;

        KIT_TRY(request_write(in->model, e->request, e->handle, &s->region, &e->block, &hold));
        if (hold != NULL)
                holds_add(e, hold);
        return NULL;
}

static TRITONSERVER_Error *write_request(struct instance *in, struct session *s, struct entry *e) {
        TRITONSERVER_Error *err;

        /* The program sees the end of its sequences. */
        if (!in->model->is_iterative)
                KIT_TRY(refuse_cancelled(e));
        e->block = SHM_NO_INDEX;
        err = write_once(in, s, e);
        if (err == NULL || e->block != 0 || !make_room(in, s))
                return err;
        TRITONSERVER_ErrorDelete(err);
        return write_once(in, s, e);
}

static void fail_unwritten(struct entry *e, uint64_t begin_ns, TRITONSERVER_Error *err) {
        struct kit_stats stats = { .exec_start = begin_ns, .exec_end = kit_clock_ns() };

        fail_entry(e, &stats, err);
        entry_free(e);
        TRITONSERVER_ErrorDelete(err);
}

/* Writes the list of an execution's requests, unless there is one only. */
static bool write_batch(struct session *s, struct execution *ex) {
        size_t            n_bytes = sizeof(struct shm_batch) + ex->n_entries * sizeof(uint32_t);
        struct shm_batch *batch;

        if (ex->n_entries < 2)
                return true;
        ex->block = region_alloc(&s->region, n_bytes);
        if (ex->block == 0)
                return false;
        batch = region_block(&s->region, ex->block);
        batch->n_requests = ex->n_entries;
        for (uint32_t i = 0; i < ex->n_entries; i++)
                batch->requests[i] = ex->entries[i]->block;
        return true;
}

/* Of an entry that the stub never sees. */
static void free_block(struct session *s, struct entry *e) {
        region_free(&s->region, e->block);
        if (e->instance->model->takes_device_memory)
                holds_drop(e);
}

static void fail_batch(struct session *s, struct execution *ex) {
        for (uint32_t i = 0; i < ex->n_entries; i++) {
                free_block(s, ex->entries[i]);
                fail_unwritten(ex->entries[i], ex->begin_ns, kit_error_no_memory(0, "a batch"));
        }
        ex->n_entries = 0;
}

/* Writes each request into the region. A request that cannot be written is answered and left out.
 * Returns false when none is left. The caller has set `is_writing`. */
static bool write_requests(struct instance *in, struct session *s, struct execution *ex) {
        uint32_t n = 0;

        ex->block = 0;
        for (uint32_t i = 0; i < ex->n_entries; i++) {
                struct entry       *e = ex->entries[i];
                TRITONSERVER_Error *err = write_request(in, s, e);

                if (err != NULL)
                        fail_unwritten(e, ex->begin_ns, err);
                else
                        ex->entries[n++] = e;
        }
        ex->n_entries = n;
        if (!write_batch(s, ex))
                fail_batch(s, ex);
        return ex->n_entries > 0;
}

static void free_blocks(struct session *s, struct execution *ex) {
        for (uint32_t i = 0; i < ex->n_entries; i++)
                free_block(s, ex->entries[i]);
        if (ex->block != 0)
                region_free(&s->region, ex->block);
        ex->block = 0;
}

static bool has_room_locked(const struct instance *in) {
        return in->state != INSTANCE_RESTARTING &&
               (in->state != INSTANCE_SERVING || in->n_executions < depth_of(in));
}

/* Waits until the instance may take another execution. Returns false when it never will. */
static bool wait_for_room_locked(struct instance *in) {
        while (!has_room_locked(in))
                (void)pthread_cond_wait(&in->changed, &in->lock);
        return in->state == INSTANCE_SERVING;
}

/* Waits before Execute() returns: the server regards the instance as busy and gives requests to
 * other instances. */
static void wait_for_room(struct instance *in) {
        (void)pthread_mutex_lock(&in->lock);
        (void)wait_for_room_locked(in);
        (void)pthread_mutex_unlock(&in->lock);
}

/* Returns a spare execution, or NULL. */
static struct execution *take_spare_locked(struct instance *in) {
        struct execution *ex = in->spare;

        if (ex == NULL)
                return NULL;
        in->spare = ex->next;
        *ex = (struct execution){ .capacity = 1 };
        return ex;
}

static struct execution *new_execution_locked(struct instance *in, TRITONBACKEND_Request **requests,
                                              uint32_t n) {
        struct execution *ex = n == 1 ? take_spare_locked(in) : NULL;

        if (ex == NULL)
                ex = kit_alloc_array(1, sizeof(*ex) + n * sizeof(struct entry *));
        if (ex == NULL)
                return NULL;
        ex->capacity = n;
        ex->begin_ns = kit_clock_ns();
        for (uint32_t i = 0; i < n; i++) {
                ex->entries[i] = entry_new_locked(in, requests[i]);
                if (ex->entries[i] == NULL) {
                        while (i > 0)
                                entry_free_locked(ex->entries[--i]);
                        free(ex);
                        return NULL;
                }
        }
        ex->n_entries = n;
        return ex;
}

static void fail_execution(struct execution *ex, const struct kit_stats *stats,
                           TRITONSERVER_Error *err) {
        for (uint32_t i = 0; i < ex->n_entries; i++)
                if (ex->entries[i] != NULL)
                        fail_entry(ex->entries[i], stats, err);
        TRITONSERVER_ErrorDelete(err);
}

static void discard_locked(struct instance *in, struct execution *ex) {
        free_entries_locked(ex);
        execution_free_locked(in, ex);
}

/* Fails the execution because no process runs or will start. Some of its requests may have been
 * answered before. */
static void give_up(struct instance *in, struct execution *ex) {
        struct kit_stats stats = { .exec_start = ex->begin_ns, .exec_end = kit_clock_ns() };

        fail_execution(ex, &stats, instance_unhealthy(in));
        (void)pthread_mutex_lock(&in->lock);
        discard_locked(in, ex);
        (void)pthread_mutex_unlock(&in->lock);
}

/* Offers the execution to the process of `s`. The caller holds the instance's lock, which this
 * releases. Returns the execution when its end must be waited for. */
static struct execution *run_locked(struct instance *in, struct session *s, struct execution *ex) {
        /* The receiver sends the responses of decoupled models, since sending one may have to
         * wait. */
        bool is_waited = depth_of(in) <= 1 && !in->model->is_decoupled, is_full;

        ex->is_waited = is_waited;
        link_locked(in, ex);
        offer_locked(in, ex);
        is_full = !is_waited && !has_room_locked(in);
        (void)pthread_mutex_unlock(&in->lock);
        announce_offer(in, s);
        if (is_full)
                wait_for_room(in);
        return is_waited ? ex : NULL;
}

TRITONSERVER_Error *execution_start(struct instance *in, TRITONBACKEND_Request **requests,
                                    uint32_t n_requests, struct execution **ret) {
        struct execution *ex;

        *ret = NULL;
        (void)pthread_mutex_lock(&in->lock);
        ex = new_execution_locked(in, requests, n_requests);
        while (ex != NULL && wait_for_room_locked(in)) {
                struct session *s = in->session;
                bool            has_any;

                session_ref(s);
                in->is_writing = true;
                (void)pthread_mutex_unlock(&in->lock);
                has_any = write_requests(in, s, ex);
                (void)pthread_mutex_lock(&in->lock);
                in->is_writing = false;
                if (!has_any) {
                        discard_locked(in, ex);
                        (void)pthread_mutex_unlock(&in->lock);
                        session_unref(s);
                        return NULL;
                }
                if (in->session == s && in->state == INSTANCE_SERVING) {
                        *ret = run_locked(in, s, ex);
                        session_unref(s);
                        return NULL;
                }
                (void)pthread_mutex_unlock(&in->lock);
                free_blocks(s, ex); /* the process has crashed in the meantime */
                session_unref(s);
                (void)pthread_mutex_lock(&in->lock);
        }
        (void)pthread_mutex_unlock(&in->lock);
        if (ex == NULL)
                return kit_error_no_memory(n_requests * sizeof(struct entry), "an execution");
        give_up(in, ex);
        return NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

static struct kit_stats read_stats(struct instance *in, const struct execution *ex,
                                   const struct shm_slot *slot) {
        struct kit_stats stats = { .exec_start = ex->begin_ns,
                                   .compute_start = slot->claim_ns,
                                   .compute_end = slot->end_ns,
                                   .exec_end = kit_clock_ns() };
        uint64_t         took_ns;

        /* The stub wrote these times; they must be between the two times of the server. */
        if (stats.compute_start < stats.exec_start || stats.compute_start > stats.exec_end)
                stats.compute_start = stats.exec_start;
        if (stats.compute_end < stats.compute_start || stats.compute_end > stats.exec_end)
                stats.compute_end = stats.exec_end;
        took_ns = stats.compute_end - stats.compute_start + 1;
        in->average_ns = in->average_ns == 0 ? took_ns : (in->average_ns * 7 + took_ns) / 8;
        atomic_store_explicit(&in->depth, depth_for(in, in->average_ns), memory_order_relaxed);
        return stats;
}

static int64_t count_rows(const struct instance *in, const struct execution *ex) {
        int64_t n = 0;

        for (uint32_t i = 0; i < ex->n_entries; i++) {
                TRITONBACKEND_Input *input;
                TRITONSERVER_Error  *err;
                const int64_t       *shape;
                uint32_t             n_dims = 0;

                n++;
                if (in->model->kit.max_batch_size == 0)
                        continue;
                err = TRITONBACKEND_RequestInputByIndex(ex->entries[i]->request, 0, &input);
                if (err == NULL)
                        err = TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &n_dims,
                                                            NULL, NULL);
                if (err == NULL && n_dims > 0 && shape[0] > 1)
                        n += shape[0] - 1;
                if (err != NULL)
                        TRITONSERVER_ErrorDelete(err); /* the request has no inputs */
        }
        return n;
}

static TRITONSERVER_Error *read_failure(const struct answer_source *source,
                                        const struct shm_result    *result) {
        char               *text = answer_copy_text(source, result->text);
        TRITONSERVER_Error *err = TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)result->code,
                                                        text != NULL ? text : "");

        free(text);
        return err;
}

static void answer_all(struct instance *in, struct execution *ex, const struct kit_stats *stats,
                       const struct answer_source *source) {
        for (uint32_t i = 0; i < ex->n_entries; i++) {
                struct entry          *e = ex->entries[i];
                struct shm_result_item item;

                if (!answer_copy(source, (uint32_t)(sizeof(struct shm_result) + i * sizeof(item)),
                                 &item, sizeof(item))) {
                        TRITONSERVER_Error *err = instance_unhealthy(in);

                        fail_entry(e, stats, err);
                        TRITONSERVER_ErrorDelete(err);
                        continue;
                }
                end_entry(e, stats, source, &item);
        }
}

static void return_block(struct session *s, const struct shm_message *message) {
        session_return(s, message->block);
        if ((message->value & SHM_WANTS_BACK) != 0)
                session_wake_stub(s);
}

void execution_on_result(struct instance *in, const struct shm_message *message) {
        struct session      *s = in->session;
        struct answer_source source = { &s->region, message->block, message->n_bytes, in };
        struct execution    *ex = NULL;
        struct shm_result    result;
        struct kit_stats     stats;
        bool                 is_row;

        if (message->handle < SHM_MAX_DEPTH)
                ex = atomic_load_explicit(&in->by_slot[message->handle], memory_order_acquire);
        if (ex == NULL ||
            region_find_stub_block(&s->region, message->block, message->n_bytes) == NULL ||
            !answer_copy(&source, 0, &result, sizeof(result))) {
                region_break(&s->region);
                return;
        }
        stats = read_stats(in, ex, &s->region.header->slots[ex->slot]);
        in->answered_ns = stats.exec_end;
        kit_stats_report_batch(&stats, in->triton, count_rows(in, ex));
        is_row = ex->n_entries > 1 && NESO_ThreadBeginResponses != NULL &&
                 NESO_ThreadEndResponses != NULL;
        if (is_row)
                NESO_ThreadBeginResponses();
        if (result.text.len > 0)
                fail_execution(ex, &stats, read_failure(&source, &result));
        else
                answer_all(in, ex, &stats, &source);
        if (is_row)
                NESO_ThreadEndResponses();
        if (atomic_load_explicit(&in->model->makes_calls, memory_order_relaxed))
                waits_end_execution(in, ex->slot);
        shm_slot_finish(&s->region.header->slots[ex->slot].word, ex->generation);
        if (ex->block != 0)
                region_free(&s->region, ex->block);
        return_block(s, message);
        finish_execution(in, ex);
}

/* ---- senders --------------------------------------------------------------------------------- */

/* Ends the request with the error, which it takes, when a response or the last flag cannot be sent. Otherwise the
 * client would not learn that a response is missing, or would get no answer. */
static void lose(struct entry *e, TRITONSERVER_Error *err) {
        kit_log(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__, "failed to send a response: %s",
                TRITONSERVER_ErrorMessage(err));
        entry_fail(e, err);
        TRITONSERVER_ErrorDelete(err);
}

static void send_flags(struct entry *e, uint32_t flags) {
        TRITONSERVER_Error *err = entry_open(e);

        if (err != NULL) {
                lose(e, err);
                return;
        }
        kit_error_log(TRITONBACKEND_ResponseFactorySendFlags(e->factory, flags),
                      "failed to send flags");
}

static void send_response(struct entry *e, const struct answer_source *source, uint32_t flags) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *error = NULL, *err = entry_open(e);

        if (err == NULL)
                err = make_response(e, source, 0, &response, &error);
        if (err != NULL) {
                lose(e, err);
                return;
        }
        kit_error_log(TRITONBACKEND_ResponseSend(response, flags, error),
                      "failed to send a response");
        if (error != NULL)
                TRITONSERVER_ErrorDelete(error);
}

void execution_on_send(struct instance *in, const struct shm_message *message) {
        struct session      *s = in->session;
        struct answer_source source = { &s->region, message->block, message->n_bytes, in };
        struct entry        *e = entry_find(in, message->handle);
        uint32_t flags = (uint32_t)message->value & TRITONSERVER_RESPONSE_COMPLETE_FINAL;

        if (message->block != 0 &&
            region_find_stub_block(&s->region, message->block, message->n_bytes) == NULL) {
                region_break(&s->region);
                return;
        }
        if (e != NULL && !e->is_final) {
                if (message->block != 0)
                        send_response(e, &source, flags);
                else if (flags != 0)
                        send_flags(e, flags);
                e->is_final = e->is_final || flags != 0;
                if (e->is_final && !e->is_executing)
                        entry_free(e);
        }
        if (message->block != 0)
                return_block(s, message);
}

void execution_on_closed(struct instance *in, const struct shm_message *message) {
        struct entry       *e = entry_find(in, message->handle);
        TRITONSERVER_Error *err;

        if (e == NULL || e->is_final || e->is_executing)
                return;
        err = kit_error(TRITONSERVER_ERROR_INTERNAL, NO_FINAL);
        entry_fail(e, err);
        TRITONSERVER_ErrorDelete(err);
        entry_free(e);
}

/* ---- after a crash --------------------------------------------------------------------------- */

static void fail_lost(struct instance *in, struct execution *ex) {
        struct kit_stats stats = { .exec_start = ex->begin_ns, .exec_end = kit_clock_ns() };

        fail_execution(ex, &stats, instance_unhealthy(in));
        finish_execution(in, ex);
        (void)pthread_cond_broadcast(&in->changed);
}

static void fail_open_entries(struct instance *in) {
        for (uint32_t i = 0;; i++) {
                struct entry       *e = NULL;
                TRITONSERVER_Error *err;

                (void)pthread_mutex_lock(&in->lock);
                while (i < in->n_entries &&
                       (!in->entries[i]->is_used || in->entries[i]->is_executing))
                        i++;
                if (i < in->n_entries)
                        e = in->entries[i];
                (void)pthread_mutex_unlock(&in->lock);
                if (e == NULL)
                        return;
                err = instance_unhealthy(in);
                entry_fail(e, err);
                TRITONSERVER_ErrorDelete(err);
                entry_free(e);
        }
}

/* Returns the oldest execution that is lost. Executions that the stub had not begun are marked and
 * stay. */
static struct execution *find_lost_locked(struct instance *in, bool all) {
        for (struct execution *ex = in->first; ex != NULL; ex = ex->next) {
                if (all)
                        return ex;
                if (ex->is_taken_back)
                        continue;
                if (!shm_slot_take_back(&in->session->region.header->slots[ex->slot].word,
                                        ex->generation))
                        return ex;
                ex->is_taken_back = true;
                atomic_store_explicit(&in->by_slot[ex->slot], NULL, memory_order_relaxed);
        }
        return NULL;
}

void execution_recover(struct instance *in, bool all) {
        for (;;) {
                struct execution *ex;

                (void)pthread_mutex_lock(&in->lock);
                ex = find_lost_locked(in, all);
                (void)pthread_mutex_unlock(&in->lock);
                if (ex == NULL)
                        break;
                fail_lost(in, ex);
        }
        fail_open_entries(in);
}

void execution_offer_again(struct instance *in) {
        for (;;) {
                struct execution *ex;

                (void)pthread_mutex_lock(&in->lock);
                for (ex = in->first; ex != NULL && !ex->is_taken_back; ex = ex->next)
                        ;
                in->is_writing = ex != NULL;
                (void)pthread_mutex_unlock(&in->lock);
                if (ex == NULL)
                        return;
                if (!write_requests(in, in->session, ex)) {
                        finish_execution(in, ex);
                        (void)pthread_cond_broadcast(&in->changed);
                        continue;
                }
                (void)pthread_mutex_lock(&in->lock);
                ex->is_taken_back = false;
                offer_locked(in, ex);
                (void)pthread_mutex_unlock(&in->lock);
                announce_offer(in, in->session);
        }
}
