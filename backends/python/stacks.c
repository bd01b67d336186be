/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stacks.h"

#include "kit/scratch.h"
#include "kit/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_NS UINT64_C(5000000000)
#define MS_NS UINT64_C(1000000)

/* Returns the state letter of a process, as ps prints it: 'T' is stopped; '?' when it is
 * unknown. */
static char state_of(pid_t pid) {
        char  path[64], text[512], *end;
        FILE *in;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        in = fopen(path, "re");
        if (in == NULL)
                return '?';
        text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
        (void)fclose(in);
        end = strrchr(text, ')'); /* end of the program's name */
        return end != NULL && end[1] == ' ' && end[2] != '\0' ? end[2] : '?';
}

/* Returns how long the oldest execution has run; 0 when none runs. */
static uint64_t executing_ms_locked(struct instance *in) {
        uint64_t now_ns = shm_clock_ns(), longest_ns = 0;

        for (uint32_t i = 0; i < SHM_MAX_DEPTH; i++) {
                uint64_t claim_ns =
                        in->by_slot[i] != NULL ? in->session->region.header->slots[i].claim_ns : 0;

                if (claim_ns != 0 && claim_ns < now_ns && now_ns - claim_ns > longest_ns)
                        longest_ns = now_ns - claim_ns;
        }
        return longest_ns / MS_NS;
}

/* Returns false when no answer came in time. */
static bool wait_for_answer(struct session *s, uint32_t question) {
        struct shm_header *h = s->region.header;
        uint64_t           deadline_ns = shm_clock_ns() + ANSWER_NS;

        for (;;) {
                uint32_t answered = atomic_load(&h->stacks_answered);
                uint64_t now_ns = shm_clock_ns();

                if (answered == question)
                        return true;
                if (session_is_over(s) || now_ns >= deadline_ns)
                        return false;
                (void)shm_futex_wait(&h->stacks_answered, answered, deadline_ns - now_ns);
        }
}

static TRITONSERVER_Error *print_stacks(struct session *s, uint64_t executing_ms,
                                        TRITONSERVER_Message **ret) {
        struct shm_header  *h = s->region.header;
        struct kit_text     json = { 0 };
        uint32_t            n = atomic_load(&h->stacks_bytes);
        bool                is_cut = n >= SHM_STACKS_BYTES;
        char               *text, *whole;
        size_t              len;
        TRITONSERVER_Error *err;

        n = is_cut ? SHM_STACKS_BYTES : n; /* the process may have written any bytes */
        text = kit_alloc_array((size_t)n + 1, 1);
        if (text == NULL)
                return kit_error_no_memory(n, "the stacks of a process");
        memcpy(text, h->stacks, n);
        text[n] = '\0';
        kit_text_print(&json, "{\"pid\":%d,\"executing_ms\":%" PRIu64 ",\"cut\":%s,\"stacks\":",
                       (int)s->process.pid, executing_ms, is_cut ? "true" : "false");
        kit_text_add_json(&json, text);
        kit_text_add(&json, "}", 1);
        free(text);
        len = json.len;
        whole = kit_text_take(&json);
        if (whole == NULL)
                return kit_error_no_memory(len, "the stacks of a process");
        err = TRITONSERVER_MessageNewFromSerializedJson(ret, whole, len);
        free(whole);
        return err;
}

static TRITONSERVER_Error *no_answer(const struct instance *in, struct session *s) {
        if (session_is_over(s))
                return instance_unhealthy(in);
        return kit_error(
                TRITONSERVER_ERROR_UNAVAILABLE,
                "process %d of '%s' has not written its stacks within %u s; its state is %c",
                (int)s->process.pid, in->name, (unsigned)(ANSWER_NS / 1000 / MS_NS),
                state_of(s->process.pid));
}

/* Begins a question and returns its session; NULL, without a question, when no process serves. */
static struct session *begin_locked(struct instance *in, uint32_t *ret_question,
                                    uint64_t *ret_executing_ms) {
        struct shm_header *h;

        while (in->is_writing_stacks)
                (void)pthread_cond_wait(&in->changed, &in->lock);
        if (in->state != INSTANCE_SERVING || in->session == NULL)
                return NULL;
        in->is_writing_stacks = true;
        session_ref(in->session);
        h = in->session->region.header;
        *ret_executing_ms = executing_ms_locked(in);
        /* A question that was not answered in time is asked again. */
        *ret_question = atomic_load(&h->stacks_asked);
        if (atomic_load(&h->stacks_answered) == *ret_question)
                atomic_store(&h->stacks_asked, ++*ret_question);
        shm_futex_wake(&h->stacks_asked, INT32_MAX);
        return in->session;
}

TRITONSERVER_Error *stacks_ask(struct instance *in, TRITONSERVER_Message **ret) {
        TRITONSERVER_Error *err;
        struct session     *s;
        uint64_t            executing_ms;
        uint32_t            question;

        (void)pthread_mutex_lock(&in->lock);
        s = begin_locked(in, &question, &executing_ms);
        (void)pthread_mutex_unlock(&in->lock);
        if (s == NULL)
                return instance_unhealthy(in);
        err = wait_for_answer(s, question) ? print_stacks(s, executing_ms, ret) : no_answer(in, s);
        (void)pthread_mutex_lock(&in->lock);
        in->is_writing_stacks = false;
        (void)pthread_cond_broadcast(&in->changed);
        (void)pthread_mutex_unlock(&in->lock);
        session_unref(s);
        return err;
}
