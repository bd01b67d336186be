/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/backend_instance.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "infer/host_inputs.h"
#include "infer/infer_thread.h"
#include "infer/model.h"
#include "infer/request_split.h"
#include "infer/trace.h"
#include "observe/model_stats.h"

static struct backend_instance *self(struct executor *e) {
        return CONTAINER_OF(e, struct backend_instance, executor);
}

/* Makes the instance's device current on this thread, before each call of the backend. */
static inline struct error *enter_device(const struct backend_instance *in) {
        struct gpus *gpus = in->model->backend->gpus;

        if (gpus == NULL || in->kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
                return NULL;
        return gpu_enter(gpus, in->device_id);
}

static struct error *call_execute(struct backend_instance *in, struct request **requests,
                                  uint32_t n) {
        TRY(enter_device(in));
        PLUGIN_CALL(&in->model->place, "TRITONBACKEND_ModelInstanceExecute");

        return (struct error *)in->model->backend->entry.execute((TRITONBACKEND_ModelInstance *)in,
                                                                 (TRITONBACKEND_Request **)requests,
                                                                 n);
}

static struct error *call_instance(struct backend_instance *in, backend_instance_fn function,
                                   const char *name) {
        TRY(enter_device(in));
        PLUGIN_CALL(&in->model->place, name);

        return (struct error *)function((TRITONBACKEND_ModelInstance *)in);
}

static void refuse_all(struct request **requests, uint32_t n, enum failure_reason reason,
                       const struct error *why) {
        for (uint32_t i = 0; i < n; i++)
                request_refuse(requests[i], why, reason);
}

/* Copies inputs that lie on devices to the host, for a backend that does not look there. Refuses the requests
 * for which that fails, and returns the number of the others, which become the first of the array. The place
 * of a sequence's request may be that of its slot: then all are refused, but sequence_batch.c has copied such
 * inputs before it filled the slots. */
static COLD uint32_t bring_inputs(struct backend_instance *in, struct request **requests,
                                  uint32_t n) {
        uint64_t start_ns = backend_instance_execution_start(in);
        uint64_t first_ns = 0; /* when the first copy began; 0: there is none */
        uint32_t n_kept = 0;

        if (requests[0]->model->takes_device_memory)
                return n;
        for (uint32_t i = 0; i < n; i++) {
                struct request *req = requests[i];
                AUTO_ERROR err = req->has_device_inputs ? host_inputs_copy(req, start_ns) : NULL;
                uint64_t   copied_ns = host_inputs_start(req);

                if (copied_ns != 0 && (first_ns == 0 || copied_ns < first_ns))
                        first_ns = copied_ns;
                if (err == NULL) {
                        requests[n_kept++] = req;
                } else if (in->model->has_sequences) {
                        refuse_all(requests, n, FAILURE_OTHER, err);
                        return 0;
                } else {
                        request_refuse(req, err, FAILURE_OTHER);
                }
        }
        atomic_store_explicit(&in->copies_start_ns, first_ns, memory_order_relaxed);
        return n_kept;
}

static inline void end_execution(struct executor *e) {
        atomic_store_explicit(&e->start_ns, 0, memory_order_relaxed);
        infer_thread_end_all_responses();
}

/* Passes the requests to the backend. When it refuses the batch, it has answered and released none. */
static void execute_backend(struct executor *e, struct request **requests, uint32_t n) {
        struct error *err;

        infer_thread_end_all_responses(); /* when a response of another backend led here */
        if (self(e)->model->backend->gpus != NULL) {
                n = bring_inputs(self(e), requests, n);
                if (n == 0) {
                        end_execution(e);
                        return;
                }
        }
        err = call_execute(self(e), requests, n);
        end_execution(e);
        if (err == NULL)
                return;
        refuse_all(requests, n, FAILURE_BACKEND, err);
        error_free(err);
}

uint64_t backend_instance_execution_start(const struct backend_instance *in) {
        uint64_t start_ns = atomic_load_explicit(&in->executor.start_ns, memory_order_relaxed);

        return start_ns != 0 ? start_ns : clock_now_ns();
}

static bool is_ready(struct executor *e) {
        struct backend_instance *in = self(e);
        backend_instance_fn      ready = in->model->backend->entry.instance_ready;
        AUTO_ERROR               err = NULL;

        if (ready == NULL)
                return true;
        err = call_instance(in, ready, "TRITONBACKEND_ModelInstanceReady");
        return err == NULL;
}

static const struct executor_ops backend_executor_ops = {
        .execute = execute_backend,
        .is_ready = is_ready,
};

static TRITONSERVER_InstanceGroupKind public_kind(Inference__ModelInstanceGroup__Kind kind) {
        switch (kind) {
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU:
                return TRITONSERVER_INSTANCEGROUPKIND_GPU;
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL:
                return TRITONSERVER_INSTANCEGROUPKIND_MODEL;
        case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU:
                return TRITONSERVER_INSTANCEGROUPKIND_CPU;
        default: return TRITONSERVER_INSTANCEGROUPKIND_AUTO;
        }
}

static struct error *call_batch_range(struct backend_instance *in, uint32_t *min_rows,
                                      uint32_t *max_rows) {
        TRY(enter_device(in));
        PLUGIN_CALL(&in->model->place, "NESOBACKEND_ModelInstanceBatchRange");

        return (struct error *)in->model->backend->entry.instance_batch_range(
                (TRITONBACKEND_ModelInstance *)in, min_rows, max_rows);
}

/* Asks for the backend's range and limits it to the configuration's. */
static struct error *ask_batch_range(struct backend_instance   *in,
                                     const struct batch_member *member) {
        struct executor *e = &in->executor;
        uint32_t         min_rows = 1, max_rows = e->max_rows;

        if (in->model->backend->entry.instance_batch_range == NULL)
                return NULL;
        TRY(call_batch_range(in, &min_rows, &max_rows));
        e->is_member = e->is_member || min_rows > 1 || max_rows < e->max_rows;
        if (min_rows < 1 || min_rows > max_rows)
                return error_new(ERR_INVALID_ARG,
                                 "instance '%s' of model '%s': its backend says that it takes "
                                 "batches of %u to %u rows",
                                 in->name, in->model->name, min_rows, max_rows);
        if (!member->has_range) {
                e->min_rows = MAX(e->min_rows, min_rows);
                e->max_rows = MIN(e->max_rows, max_rows);
        }
        if (e->min_rows < min_rows || e->max_rows > max_rows || e->min_rows > e->max_rows)
                return error_new(ERR_INVALID_ARG,
                                 "batch range %u-%u of instance group '%s' of model %s is wider "
                                 "than its backend's, %u-%u",
                                 member->min_rows, member->max_rows, member->name, in->model->name,
                                 min_rows, max_rows);
        return NULL;
}

struct error *backend_instance_new(const struct backend_instance_options *o,
                                   struct backend_instance              **ret) {
        struct backend_instance *in = mem_zalloc(sizeof(*in));
        backend_instance_fn      initialise = o->model->backend->entry.instance_initialize;

        in->model = o->model;
        in->name = mem_strdup(o->name);
        in->kind = public_kind(o->group->kind);
        in->device_id = o->device_id;
        in->group = o->group;
        in->file = mem_strdup(o->member->file);
        in->executor = (struct executor){
                .ops = &backend_executor_ops,
                .name = in->name,
                .group_name = o->group->name,
                .may_inline = o->model->backend->is_inline_safe &&
                              !model_config_is_decoupled(o->model->config),
                .is_passive = o->group->passive,
                .group = o->group_number,
                .index = o->index,
                .min_rows = o->member->min_rows,
                .max_rows = o->member->max_rows,
                .is_member = o->member->has_range,
                .place = o->place,
                .is_bound = o->is_bound,
                .device = o->device_id,
                .gpu = in->kind == TRITONSERVER_INSTANCEGROUPKIND_GPU ? o->device_id : GPU_HOST,
                .thread = o->thread,
                .limits = o->group->rate_limiter
        };
        if (o->model->stats != NULL)
                in->series = model_stats_series(o->model->stats, in->executor.gpu);
        in->shared = shared_objects_join(&in->model->shared, o->group->name);
        TRY_OR(message_new_parsed(o->host_policy_json, &in->host_policy),
               backend_instance_free(in));
        in->is_started = true;
        if (initialise != NULL)
                TRY_OR(call_instance(in, initialise, "TRITONBACKEND_ModelInstanceInitialize"),
                       backend_instance_free(in));
        TRY_OR(ask_batch_range(in, o->member), backend_instance_free(in));
        *ret = in;
        return NULL;
}

static void leave_shared(struct backend_instance *in) {
        PLUGIN_CALL(&in->model->place, "the destroy function of a shared object");

        shared_objects_leave(&in->model->shared, in->shared);
}

void backend_instance_free(struct backend_instance *in) {
        if (in == NULL)
                return;

        backend_instance_fn finalise = in->model->backend->entry.instance_finalize;

        if (in->is_started && finalise != NULL) {
                AUTO_ERROR err = call_instance(in, finalise, "TRITONBACKEND_ModelInstanceFinalize");

                if (err != NULL)
                        log_error("failed to finalize instance '%s' of model '%s': %s", in->name,
                                  in->model->name, err->message);
        }
        leave_shared(in);
        memory_reports_remove(&in->model->memory, in);
        message_free(in->host_policy);
        free(in->file);
        free(in->name);
        free(in);
}

struct error *backend_instance_stacks(struct backend_instance *in, struct message **ret) {
        TRY(enter_device(in));
        PLUGIN_CALL(&in->model->place, "NESOBACKEND_ModelInstanceStacks");

        return (struct error *)in->model->backend->entry.instance_stacks(
                (TRITONBACKEND_ModelInstance *)in, (TRITONSERVER_Message **)ret);
}

/* `succeeded`: the statistics that count the request; NULL when it failed. */
static NOINLINE void report_trace(struct trace *t, struct model_stats *succeeded,
                                  const struct request_times *times) {
        trace_report(t, TRACE_COMPUTE_START, times->exec_start_ns);
        trace_report(t, TRACE_COMPUTE_INPUT_END, times->compute_start_ns);
        trace_report(t, TRACE_COMPUTE_OUTPUT_START, times->compute_end_ns);
        trace_report(t, TRACE_COMPUTE_END, times->exec_end_ns);
        if (succeeded != NULL)
                trace_mark_latency(t, succeeded, times);
}

static uint64_t copies_start(const struct backend_instance *in) {
        return atomic_load_explicit(&in->copies_start_ns, memory_order_relaxed);
}

/* The copies of inputs from devices are a part of the time for inputs. */
static void count_copies(struct request_times *times, uint64_t start_ns) {
        if (start_ns != 0 && start_ns < times->exec_start_ns)
                times->exec_start_ns = start_ns;
}

static COLD void count_execution_with_copies(struct backend_instance *in, uint64_t batch_size,
                                             const struct request_times *times) {
        struct request_times with_copies = *times;

        count_copies(&with_copies, copies_start(in));
        stats_series_execution(in->series, batch_size, &with_copies);
}

void backend_instance_report(struct backend_instance *in, struct request *req, bool is_success,
                             struct request_times *times) {
        if (in->model->has_sequences && request_is_null(req))
                return; /* checked for such models only: the flag is in a cache line of its own */
        if (copies_start(in) != 0)
                count_copies(times, host_inputs_start(req));
        if (in->model->has_parts && req->is_part) {
                split_part_report(req, times);
                return;
        }
        times->request_start_ns = req->times.request_start_ns;
        times->queue_start_ns = req->times.queue_start_ns;
        times->request_end_ns = times->exec_end_ns; /* reported when its outputs are delivered */
        if (req->trace != NULL)
                report_trace(req->trace, is_success ? in->model->stats : NULL, times);
        if (req->is_inner && req->sums != NULL)
                compute_sums_add(req->sums, times);
        if (is_success)
                stats_series_success(in->series, times, MAX(req->batch_size, 1));
        else
                stats_series_failure(in->series, FAILURE_BACKEND,
                                     times->request_end_ns > times->request_start_ns
                                             ? times->request_end_ns - times->request_start_ns
                                             : 0);
}

void backend_instance_report_batch(struct backend_instance *in, uint64_t batch_size,
                                   const struct request_times *times) {
        if (in->executor.may_inline)
                atomic_store_explicit(&in->executor.reported_end_ns, times->exec_end_ns,
                                      memory_order_relaxed);
        if (copies_start(in) != 0)
                count_execution_with_copies(in, batch_size, times);
        else
                stats_series_execution(in->series, batch_size, times);
}

static enum response_outcome outcome_of(const struct response_record *r) {
        if (r->error != NULL)
                return r->error->code == ERR_CANCELLED ? RESPONSE_CANCEL : RESPONSE_FAIL;
        return r->output_start_ns == 0 ? RESPONSE_EMPTY : RESPONSE_SUCCESS;
}

static struct error *check_record(const struct response_record *r, bool has_outputs) {
        const char *why = NULL;

        if (r->instance == NULL)
                why = "the response statistics have no model instance";
        else if (r->factory == NULL)
                why = "the response statistics have no response factory";
        else if (has_outputs && r->start_ns > r->output_start_ns)
                why = "Response start cannot happen after compute output start";
        else if (has_outputs && r->output_start_ns > r->end_ns)
                why = "Compute output start cannot happen after response end";
        else if (r->start_ns > r->end_ns)
                why = "Response start cannot happen after response end";
        return why != NULL ? error_new(ERR_INVALID_ARG, "%s", why) : NULL;
}

struct error *backend_instance_report_response(const struct response_record *r) {
        enum response_outcome outcome = outcome_of(r);
        bool                  has_outputs = r->output_start_ns != 0 && outcome != RESPONSE_CANCEL;
        uint64_t              infer_end_ns = has_outputs ? r->output_start_ns : r->end_ns;

        TRY(check_record(r, has_outputs));
        model_stats_response(r->instance->model->stats,
                             atomic_fetch_add(&r->factory->source.stream->n_reported, 1), outcome,
                             infer_end_ns - r->start_ns, r->end_ns - infer_end_ns);
        return NULL;
}
