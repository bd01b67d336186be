/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of deadlocks: records which executions wait for which models, so that a call that could
 * never be served is refused.
 *
 * An execution that waits for a call of a model holds its instance in the meantime. A call of an ensemble or
 * a chain waits for the models of all of its steps. A model can be served when one of its instances has room
 * for an execution, or has an execution that waits only for models that can be served; models of other
 * backends always can. So it does not matter which requests wait: two instances of one model that both wait
 * for a third one are found as well, and the call that came last is refused.
 *
 * Whether an execution waits for a call is not always known when the call begins: a coroutine may await the
 * response later, or return without it. Such a wait is SHM_WAIT_MAYBE. When the call could not be served if
 * all these executions waited, the processes concerned are asked, once for each call, and say so from then
 * on when the execution waits. Only what is known to wait is refused.
 *
 *     begin: SHM_WAIT_MAYBE --ask--> the process --SHM_WAIT--> waits_change()
 *
 * Ownership.  A wait belongs to its call.
 * Threads.  Any; the backend's lock is taken, except in the functions whose caller has it.
 */
#pragma once

#include "python/python_model.h"
#include "python/shm_layout.h"

struct instance;
struct kit_text;

/* Limit of the models that a call waits for; a call of an ensemble of more may wait for the others. */
#define MAX_WAITS 32

struct wait {
        struct instance *instance;
        struct wait     *next, *prev; /* in the instance's list, from its first model on */
        bool             is_linked;
        enum shm_wait    kind;
        uint32_t         execution; /* of the instance: its slot; SHM_NO_INDEX: it has ended */
        bool is_stream; /* a thread that all executions need may wait for the responses */
        bool is_asked;  /* the process was asked */
        bool is_over;   /* nothing waits for the call any more */
        void (*ask)(struct wait *wait); /* asks it; called with the backend's lock */
        unsigned      n_models;
        struct model *models[MAX_WAITS];
};

/* Adds a model that the wait is for, by its name. */
void waits_add_model(struct wait *wait, const char *name);
/* Changes the kind. Returns false, and leaves SHM_WAIT_NONE, when the execution waits for what could never
 * be served; then adds the models that wait for each other to `cycle` (NULL: not needed), as " -> <model>"
 * each. */
bool waits_change(struct wait *wait, enum shm_wait kind, struct kit_text *cycle);
/* Nothing waits for the call any more, which goes on. */
void waits_leave(struct wait *wait);
/* The call has ended. */
void waits_end(struct wait *wait);
/* An execution has returned: it waits for none of its calls any more. */
void waits_end_execution(struct instance *in, uint32_t execution);
/* To be called when a model ends. */
void waits_forget_locked(const struct model *gone);
