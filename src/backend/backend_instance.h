/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model as its backend sees it: TRITONBACKEND_ModelInstance; and the executor
 * through which a scheduler runs batches on it.
 *
 * Ownership.  Owned by the loader; borrows its model, which outlives it.
 * Threads.  Initialised and finalised by the loader, on the instance's own thread if it has one;
 * execute() is never concurrent with itself.
 */
#pragma once

#include "backend/backend_model.h"
#include "config/batch_members.h"
#include "infer/executor.h"
#include "infer/request.h"
#include "infer/response_factory.h"

struct backend_instance {
        struct executor              executor;
        struct backend_model        *model; /* borrowed */
        char                        *name;  /* owned */
        TRITONSERVER_InstanceGroupKind kind;
        int32_t                      device_id;
        const Inference__ModelInstanceGroup *group; /* borrowed: the configuration */
        struct message              *host_policy;   /* owned; {"<policy>":{…}} */
        void                        *state;         /* the backend's own */
        bool                         is_started; /* to be finalised, initialised or not */
        char                        *file;       /* owned; of its group; NULL: the model's */
        struct shared_group         *shared; /* the model's: what it shares with others of its group */
};

/* What the instance is; `name` and `host_policy_json` are copied. */
struct backend_instance_options {
        struct backend_model                *model;
        const char                          *name;
        const Inference__ModelInstanceGroup *group;
        const struct batch_member           *member; /* of the group; for the call */
        uint32_t                             group_number; /* in the configuration, from 0 */
        uint32_t                             index;        /* in the group */
        int32_t                              device_id;
        struct str                           host_policy_json;
        const struct placement              *place;    /* of its thread, borrowed; may be NULL */
        bool                                 is_bound; /* see infer/executor.h */
        struct job_thread                   *thread;   /* likewise; may be NULL */
};

/* Calls TRITONBACKEND_ModelInstanceInitialize, and asks which batches it takes if the backend tells.
 * INVALID_ARG when the configuration lets it take others. */
struct error *backend_instance_new(const struct backend_instance_options *options,
                                   struct backend_instance **ret) NODISCARD;
/* Calls TRITONBACKEND_ModelInstanceFinalize. NULL is fine. */
void backend_instance_free(struct backend_instance *in);

/* NESOBACKEND_ModelInstanceStacks(), which its backend has; *ret is the caller's. */
struct error *backend_instance_stacks(struct backend_instance *in, struct message **ret) NODISCARD;

/* TRITONBACKEND_ModelInstanceReportStatistics and …ReportBatchStatistics. `times` carries the
 * four stamps of the execution; the request's are filled in here. */
void backend_instance_report(struct backend_instance *in, struct request *req, bool is_success,
                             struct request_times *times);
void backend_instance_report_batch(struct backend_instance *in, uint64_t batch_size,
                                   const struct request_times *times);

/* TRITONBACKEND_ModelInstanceResponseStatistics: one response, as its backend saw it. */
struct response_record {
        struct backend_instance *instance; /* borrowed, as the next ones; NULL = not set */
        struct response_factory *factory;
        const struct error      *error;
        uint64_t                 start_ns;
        uint64_t                 output_start_ns; /* 0 = it had no outputs */
        uint64_t                 end_ns;
};

/* Counts it as the factory's next response. INVALID_ARG when something is missing or the times are
 * not in order. */
struct error *backend_instance_report_response(const struct response_record *record) NODISCARD;
