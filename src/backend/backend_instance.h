/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model as its backend sees it (TRITONBACKEND_ModelInstance), and the executor
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
        struct executor                      executor;
        struct backend_model                *model;  /* borrowed */
        struct stats_series                 *series; /* borrowed: where it counts */
        char                                *name;   /* owned */
        TRITONSERVER_InstanceGroupKind       kind;
        int32_t                              device_id;
        const Inference__ModelInstanceGroup *group;       /* borrowed from the configuration */
        struct message                      *host_policy; /* owned; {"<policy>":{…}} */
        void                                *state;       /* the backend's own */
        bool                                 is_started;  /* to be finalised, initialised or not */
        char                                *file; /* owned; of its group; NULL: the model's */
        struct shared_group *shared; /* the model's: what it shares with others of its group */
        /* When the running execution began to copy inputs from devices; 0: it copied none. */
        _Atomic uint64_t copies_start_ns;
};

/* Options of an instance; `name` and `host_policy_json` are copied. */
struct backend_instance_options {
        struct backend_model                *model;
        const char                          *name;
        const Inference__ModelInstanceGroup *group;
        const struct batch_member           *member;       /* of the group; borrowed for the call */
        uint32_t                             group_number; /* index in the configuration, from 0 */
        uint32_t                             index;        /* in the group */
        int32_t                              device_id;
        struct str                           host_policy_json;
        const struct placement              *place;    /* of its thread; borrowed; may be NULL */
        bool                                 is_bound; /* see infer/executor.h */
        struct job_thread                   *thread;   /* likewise; may be NULL */
};

/* Calls TRITONBACKEND_ModelInstanceInitialize, and asks the backend for the batch sizes that it takes,
 * if it exports that function. INVALID_ARG when the configuration permits others. */
struct error *backend_instance_new(const struct backend_instance_options *options,
                                   struct backend_instance              **ret) NODISCARD;
/* Calls TRITONBACKEND_ModelInstanceFinalize. NULL is fine. */
void backend_instance_free(struct backend_instance *in);

/* Calls NESOBACKEND_ModelInstanceStacks(), which the backend must export; the caller owns *ret. */
struct error *backend_instance_stacks(struct backend_instance *in, struct message **ret) NODISCARD;

/* When the running execution began; the time now, if the scheduler did not read the clock for it, or none
 * is running. */
uint64_t backend_instance_execution_start(const struct backend_instance *in);

/* TRITONBACKEND_ModelInstanceReportStatistics and …ReportBatchStatistics. `times` carries the four time
 * stamps of the execution; the function fills in those of the request. */
void backend_instance_report(struct backend_instance *in, struct request *req, bool is_success,
                             struct request_times *times);
void backend_instance_report_batch(struct backend_instance *in, uint64_t batch_size,
                                   const struct request_times *times);

/* TRITONBACKEND_ModelInstanceResponseStatistics: the statistics of one response. */
struct response_record {
        struct backend_instance *instance; /* borrowed, as the next ones; NULL = not set */
        struct response_factory *factory;
        const struct error      *error;
        uint64_t                 start_ns;
        uint64_t                 output_start_ns; /* 0 = no outputs */
        uint64_t                 end_ns;
};

/* Counts the record as the factory's next response. INVALID_ARG when a value is missing or the times
 * are not in order. */
struct error *backend_instance_report_response(const struct response_record *record) NODISCARD;
