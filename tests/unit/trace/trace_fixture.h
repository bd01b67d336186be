/* SPDX-License-Identifier: BSD-3-Clause */
/* Records as the recorder leaves them, made without a core. Include after cmocka.h. */
#pragma once

#include "suite.h"

#include "trace/trace_record.h"
#include "trace/trace_settings.h"

#include <stdlib.h>

/* Takes no reference of `source` but the record's. */
static inline struct trace_record *record_new(struct trace_source *source) {
        struct trace_record *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        arena_init(&r->arena, r->first_memory, sizeof(r->first_memory), TRACE_RECORD_MAX_BYTES);
        mutex_init(&r->lock, LOCK_LEAF);
        r->tracestate = "";
        if (source != NULL) {
                trace_source_ref(source);
                r->source = source;
        }
        return r;
}

static inline struct trace_inference *record_add(struct trace_record *r, uint64_t id,
                                                 uint64_t parent_id, const char *model,
                                                 const char *request_id) {
        struct trace_inference *i = ARENA_NEW(&r->arena, struct trace_inference);

        *i = (struct trace_inference){ .id = id,
                                       .parent_id = parent_id,
                                       .model_name = model,
                                       .model_version = 1,
                                       .request_id = request_id };
        if (r->last_inference != NULL)
                r->last_inference->next = i;
        else
                r->first_inference = i;
        r->last_inference = i;
        r->n_inferences++;
        return i;
}

/* activity -1: the front end's. */
static inline void record_point(struct trace_record *r, const struct trace_inference *i,
                                int activity, const char *name, uint64_t at_ns) {
        struct trace_event *e = ARENA_NEW(&r->arena, struct trace_event);

        *e = (struct trace_event){
                .inference = i, .activity = activity, .name = name, .at_ns = at_ns
        };
        if (r->last_event != NULL)
                r->last_event->next = e;
        else
                r->first_event = e;
        r->last_event = e;
        r->n_events++;
}

static inline void record_tensor(struct trace_record *r, const struct trace_tensor *tensor) {
        struct trace_tensor *t = ARENA_NEW(&r->arena, struct trace_tensor);

        *t = *tensor;
        if (r->last_tensor != NULL)
                r->last_tensor->next = t;
        else
                r->first_tensor = t;
        r->last_tensor = t;
}
