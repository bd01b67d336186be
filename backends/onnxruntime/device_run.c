/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/device_run.h"

#include "kit/output.h"
#include "onnxruntime/values.h"

#include <stdlib.h>

struct device_run {
        const struct run_plan     *plan;    /* borrowed */
        OrtIoBinding              *binding; /* owned */
        OrtMemoryInfo             *where;   /* owned: memory of the GPU */
        struct kit_memory          memory;
        struct kit_device_scratch *scratch; /* owned, one per input of the plan */
        bool                       is_bound;
};

static TRITONSERVER_Error *open_all(struct device_run *run, TRITONBACKEND_ModelInstance *triton) {
        const struct session *session = run->plan->session;

        KIT_TRY(kit_memory_open(triton, &run->memory));
        run->scratch = kit_alloc_array(run->plan->n_inputs, sizeof(*run->scratch));
        if (run->scratch == NULL)
                return kit_error_no_memory(0, run->plan->model_name);
        ORT_TRY(session->ort, CreateMemoryInfo(ORT_CUDA_MEMORY, OrtDeviceAllocator, session->device,
                                               OrtMemTypeDefault, &run->where));
        ORT_TRY(session->ort, CreateIoBinding(session->onnx, &run->binding));
        return NULL;
}

TRITONSERVER_Error *device_run_new(const struct run_plan *plan, TRITONBACKEND_ModelInstance *triton,
                                   struct device_run **ret) {
        struct device_run  *run = kit_alloc_array(1, sizeof(*run));
        TRITONSERVER_Error *err;

        if (run == NULL)
                return kit_error_no_memory(sizeof(*run), plan->model_name);
        run->plan = plan;
        err = open_all(run, triton);
        if (err != NULL) {
                device_run_free(run);
                return err;
        }
        *ret = run;
        return NULL;
}

void device_run_free(struct device_run *run) {
        const struct ort *ort;

        if (run == NULL)
                return;
        ort = run->plan->session->ort;
        if (run->binding != NULL)
                ort->api->ReleaseIoBinding(run->binding);
        if (run->where != NULL)
                ort->api->ReleaseMemoryInfo(run->where);
        for (size_t i = 0; run->scratch != NULL && i < run->plan->n_inputs; i++)
                kit_device_scratch_done(&run->scratch[i], &run->memory);
        free(run->scratch);
        kit_memory_close(&run->memory);
        free(run);
}

struct kit_memory *device_run_memory(struct device_run *run) {
        return &run->memory;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static TRITONSERVER_Error *gather(struct device_run *run, const struct kit_batch *batch, size_t i,
                                  struct kit_scratch *host, struct kit_gathered_on *ret) {
        const struct run_input *input = &run->plan->inputs[i];

        if (input->made != NULL) {
                ret->place = (struct kit_place){ TRITONSERVER_MEMORY_CPU, 0 };
                return kit_batch_input_make(input->made, batch, host, &ret->tensor);
        }
        KIT_TRY(kit_gather_on(batch, input->name, host, &run->scratch[i], ret));
        return input->is_ragged ? kit_gathered_flatten(batch, input->name, &ret->tensor) : NULL;
}

TRITONSERVER_Error *device_run_input(struct device_run *run, const struct kit_batch *batch,
                                     size_t i, struct kit_scratch *host, OrtValue **ret) {
        const struct run_input *input = &run->plan->inputs[i];
        const struct ort       *ort = run->plan->session->ort;
        struct kit_gathered_on  gathered;

        KIT_TRY(gather(run, batch, i, host, &gathered));
        if (input->is_scalar && gathered.tensor.n_dims == 1 && gathered.tensor.shape[0] == 1)
                gathered.tensor.n_dims = 0;
        if (kit_place_is_gpu(&gathered.place))
                return value_new_in(ort, &gathered.tensor, run->where, ret);
        return value_new(ort, &gathered.tensor, input->name, ret);
}

/* ---- outputs -------------------------------------------------------------------------------- */

/* Returns the runtime's name of the buffer's memory; NULL when the run cannot write there. */
static const OrtMemoryInfo *find_memory(const struct device_run *run, const struct run_bound *bound,
                                        const void *buffer, TRITONSERVER_DataType type) {
        size_t alignment = TRITONSERVER_DataTypeByteSize(type);

        if (kit_place_is_gpu(&bound->place)) {
                if (bound->place.id != run->memory.device.id)
                        return NULL;
                alignment = KIT_DEVICE_ALIGNMENT;
        }
        if ((uintptr_t)buffer % alignment != 0)
                return NULL;
        return kit_place_is_gpu(&bound->place) ? run->where : run->plan->session->ort->cpu;
}

TRITONSERVER_Error *device_run_bind_response(struct device_run *run, const struct kit_slot *slot,
                                             const struct kit_output *made, struct run_bound *bound,
                                             OrtValue **ret) {
        const OrtMemoryInfo *where;

        bound->place = run->memory.device;
        KIT_TRY(kit_output_new_at(slot->response, made, bound->n_bytes, &bound->place,
                                  &bound->buffer));
        where = find_memory(run, bound, bound->buffer, made->type);
        if (where == NULL)
                return NULL;
        bound->is_direct = true;
        return value_new_over(run->plan->session->ort, made, where, bound->buffer, bound->n_bytes,
                              ret);
}

TRITONSERVER_Error *device_run_bind_state(struct device_run *run, const struct kit_slot *slot,
                                          const struct kit_output *made, struct run_bound *bound,
                                          OrtValue **ret) {
        TRITONBACKEND_State *state;
        const OrtMemoryInfo *where;
        void                *bytes;

        bound->place = run->memory.device;
        KIT_TRY(kit_state_new_at(slot->request, made, bound->n_bytes, &bound->place, &state,
                                 &bytes));
        where = find_memory(run, bound, bytes, made->type);
        if (where == NULL)
                return NULL;
        bound->is_direct = true;
        bound->state = state;
        return value_new_over(run->plan->session->ort, made, where, bytes, bound->n_bytes, ret);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static TRITONSERVER_Error *bind_output(const struct device_run   *run,
                                       const struct run_instance *instance, size_t i) {
        const struct ort *ort = run->plan->session->ort;
        bool              is_text = instance->bound[i].output->type == TRITONSERVER_TYPE_BYTES;

        if (instance->output_values[i] != NULL)
                ORT_TRY(ort, BindOutput(run->binding, instance->output_names[i],
                                        instance->output_values[i]));
        else
                ORT_TRY(ort, BindOutputToDevice(run->binding, instance->output_names[i],
                                                is_text ? ort->cpu : run->where));
        return NULL;
}

static TRITONSERVER_Error *bind(struct device_run *run, const struct run_instance *instance) {
        const struct ort *ort = run->plan->session->ort;

        run->is_bound = true;
        for (size_t i = 0; i < instance->n_inputs; i++)
                ORT_TRY(ort, BindInput(run->binding, instance->input_names[i],
                                       instance->input_values[i]));
        for (size_t i = 0; i < instance->n_outputs; i++)
                KIT_TRY(bind_output(run, instance, i));
        return NULL;
}

/* The array has a value of its own for each output, also for those that were bound as values. */
static void take_values(struct run_instance *instance, const struct ort *ort, OrtValue **values,
                        size_t n) {
        for (size_t i = 0; i < n; i++)
                if (i < instance->n_outputs && instance->output_values[i] == NULL)
                        instance->output_values[i] = values[i];
                else
                        ort->api->ReleaseValue(values[i]);
}

static TRITONSERVER_Error *get_values(const struct device_run *run, struct run_instance *instance) {
        const struct ort *ort = run->plan->session->ort;
        OrtValue        **values;
        size_t            n;

        ORT_TRY(ort, GetBoundOutputValues(run->binding, ort->allocator, &values, &n));
        take_values(instance, ort, values, n);
        if (values != NULL)
                ORT_TRY(ort, AllocatorFree(ort->allocator, values));
        if (n != instance->n_outputs)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "model '%s': the runtime returned %zu outputs of %zu",
                                 run->plan->model_name, n, instance->n_outputs);
        return NULL;
}

static TRITONSERVER_Error *execute(struct device_run *run, struct run_instance *instance) {
        const struct session *session = run->plan->session;
        const struct ort     *ort = session->ort;

        KIT_TRY(bind(run, instance));
        ORT_TRY(ort, SynchronizeBoundInputs(run->binding));
        ORT_TRY(ort, RunWithBinding(session->onnx, session->run_options, run->binding));
        ORT_TRY(ort, SynchronizeBoundOutputs(run->binding));
        return get_values(run, instance);
}

/* After an error the runtime may still read bytes of requests, or write to those of responses. */
static void wait_for_runtime(const struct device_run *run) {
        const struct ort *ort = run->plan->session->ort;

        kit_error_log(ort_error(ort, ort->api->SynchronizeBoundInputs(run->binding)),
                      "failed to wait for inputs on a GPU");
        kit_error_log(ort_error(ort, ort->api->SynchronizeBoundOutputs(run->binding)),
                      "failed to wait for outputs on a GPU");
}

TRITONSERVER_Error *device_run_execute(struct device_run *run, struct run_instance *instance) {
        TRITONSERVER_Error *err = execute(run, instance);

        if (err != NULL)
                wait_for_runtime(run);
        return err;
}

void device_run_end(struct device_run *run) {
        const struct ort *ort = run->plan->session->ort;

        kit_memory_drop(&run->memory);
        if (!run->is_bound)
                return;
        run->is_bound = false;
        ort->api->ClearBoundInputs(run->binding);
        ort->api->ClearBoundOutputs(run->binding);
}
