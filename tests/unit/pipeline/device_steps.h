/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of tests that write their outputs to the memory of the device of their instance, on the stand-in of
 * the driver, and read their inputs wherever they are. A model computes 3 * (sum of its inputs) + `add`.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "gpu/fake_gpus.h"
#include "pipeline/ensemble_fixture.h"

static struct fake_gpus cuda;

/* The bytes of a device as they are: no copy is counted for them. */
static void get(int device, void *to, const void *from, size_t bytes) {
        if (device == GPU_HOST)
                memcpy(to, from, bytes);
        else
                assert_int_equal(cuda.fake_cuda_read(to, (uintptr_t)from, bytes), 0);
}

static void put(int device, void *to, const void *from, size_t bytes) {
        if (device == GPU_HOST)
                memcpy(to, from, bytes);
        else
                assert_int_equal(cuda.fake_cuda_write((uintptr_t)to, from, bytes), 0);
}

/* What a step has seen last. */
static struct seen {
        const void      *input; /* the first */
        enum memory_type type;
        int64_t          id;
        const void      *output; /* the first */
        enum memory_type output_type;
        int64_t          output_id;
        unsigned         n;
} seen[6];

static int device_of(enum memory_type type, int64_t id) {
        return type == MEMORY_GPU ? (int)id : GPU_HOST;
}

static uint32_t sum_inputs(const struct request *req) {
        uint32_t sum = 0, x;

        for (const struct request_input *in = req->first_input; in != NULL; in = in->next) {
                const struct buffer_attributes *a = &in->first_chunk->attributes;

                get(device_of(a->memory_type, a->memory_id), &x, in->first_chunk->base, sizeof(x));
                sum += x;
        }
        return sum;
}

/* The memory of the steps, used up while an output is asked for; NULL: it is not. */
static struct byte_budget *used_up;

static struct error *get_output(struct response_output *o, size_t bytes, enum memory_type *type,
                                int64_t *id, void **ret) {
        size_t        n = used_up != NULL ? FIXTURE_BUDGET_BYTES - byte_budget_used(used_up) : 0;
        struct error *err;

        if (used_up != NULL)
                byte_budget_force(used_up, n);
        err = response_output_buffer(o, bytes, type, id, ret);
        if (used_up != NULL)
                byte_budget_give(used_up, n);
        return err;
}

static struct error *write_output(const struct executor *e, struct response_output *o,
                                  uint32_t value, struct seen *s) {
        int64_t          id = MAX(e->device, 0);
        enum memory_type type = e->device >= 0 ? MEMORY_GPU : MEMORY_CPU;
        void            *y;

        TRY(get_output(o, sizeof(value), &type, &id, &y));
        put(device_of(type, id), y, &value, sizeof(value));
        if (o == o->response->first_output) {
                s->output = y;
                s->output_type = type;
                s->output_id = id;
        }
        return NULL;
}

static struct error *write_outputs(const struct executor *e, const struct request *req,
                                   struct response *r, uint32_t value) {
        const struct request_input *first = req->first_input;

        for (uint32_t k = 0; k < req->n_output_names; k++) {
                struct response_output *o;

                TRY(response_add_output(r, req->output_names[k], DATA_TYPE_UINT32, first->shape,
                                        first->n_dims, &o));
                TRY(write_output(e, o, value + 7 * k, &seen[e->index]));
        }
        return NULL;
}

static void answer(struct fixture_model *m, struct request *req, uint32_t value, bool is_last) {
        struct response *r;
        struct error    *err;

        assert_ok(response_new(req, &r), "response");
        fixture_add_parameters(m, r);
        err = m->error != NULL ? error_new(ERR_INVALID_ARG, "%s", m->error)
                               : write_outputs(&m->executor, req, r, value);
        assert_ok(response_send(r, is_last ? RESPONSE_FINAL : 0, err), "send");
        error_free(err);
}

/* As fixture_answer(): a decoupled model adds 101 * j to its j-th response. */
static void execute_one(struct fixture_model *m, struct request *req) {
        const struct buffer_attributes *a = &req->first_input->first_chunk->attributes;
        struct seen                    *s = &seen[m->executor.index];
        uint32_t                        value = 3 * sum_inputs(req) + m->add;
        unsigned                        n = req->model->is_decoupled ? m->n_responses : 1;

        s->input = req->first_input->first_chunk->base;
        s->type = a->memory_type;
        s->id = a->memory_id;
        s->n++;
        for (unsigned j = 0; j < n; j++)
                answer(m, req, value + 101 * j, j + 1 == n);
}

static void execute(struct executor *e, struct request **requests, uint32_t n) {
        struct fixture_model *m = CONTAINER_OF(e, struct fixture_model, executor);

        mutex_lock(&fixture_lock);
        m->n_running += n;
        cond_broadcast(&fixture_changed);
        while (m->is_held)
                cond_wait(&fixture_changed, &fixture_lock);
        m->n_running -= n;
        mutex_unlock(&fixture_lock);
        for (uint32_t i = 0; i < n; i++) {
                execute_one(m, requests[i]);
                request_release(requests[i], REQUEST_RELEASE_ALL);
        }
}

static const struct executor_ops device_ops = { .execute = execute, .is_ready = fixture_is_ready };

/* Devices 0 and 1. */
static void device_steps_open(uint64_t pool_bytes, bool enable_peer_access) {
        const struct gpu_bytes pools[] = { { 0, pool_bytes }, { 1, pool_bytes } };
        struct gpus_options    options = fake_gpus_options();

        memset(seen, 0, sizeof(seen));
        options.pools = pools;
        options.enable_peer_access = enable_peer_access;
        fake_gpus_open(&cuda, &options);
}

/* Nothing is left on the devices. */
static void device_steps_close(void) {
        for (int device = GPU_HOST; device < 2; device++)
                assert_int_equal(gpu_pool_usage(cuda.gpus, device).used_bytes, 0);
        fake_gpus_close(&cuda);
}

/* `device`: GPU_HOST for a model on the CPU. */
static void device_steps_set(struct fixture_model *m, uint32_t index, int device) {
        m->executor.ops = &device_ops;
        m->executor.index = index;
        m->executor.device = device;
        m->fake->model.gpus = cuda.gpus;
        m->fake->model.device = device;
        m->fake->model.takes_device_memory = device >= 0;
}

/* Bytes that the server has copied, of all kinds. */
static UNUSED uint64_t copied_bytes(void) {
        struct gpu_traffic t = gpus_traffic(cuda.gpus);

        return t.to_host + t.to_device + t.within_device + t.between_devices;
}
