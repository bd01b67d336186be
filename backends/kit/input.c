/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/input.h"

#include <string.h>

TRITONSERVER_Error *kit_input_open(TRITONBACKEND_Request *request, const char *name,
                                   struct kit_input *ret) {
        KIT_TRY(TRITONBACKEND_RequestInput(request, name, &ret->triton));
        return TRITONBACKEND_InputProperties(ret->triton, &ret->name, &ret->type, &ret->shape,
                                             &ret->n_dims, &ret->n_bytes, &ret->n_buffers);
}

bool kit_input_find(TRITONBACKEND_Request *request, const char *name, struct kit_input *ret) {
        TRITONSERVER_Error *err = kit_input_open(request, name, ret);

        if (err == NULL)
                return true;
        TRITONSERVER_ErrorDelete(err);
        return false;
}

static TRITONSERVER_Error *get_buffer(const struct kit_input *input, uint32_t i, const void **ret,
                                      uint64_t *ret_n_bytes) {
        TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
        int64_t                 memory_id = 0;

        KIT_TRY(TRITONBACKEND_InputBuffer(input->triton, i, ret, ret_n_bytes, &memory_type,
                                          &memory_id));
        if (memory_type == TRITONSERVER_MEMORY_GPU && *ret_n_bytes > 0)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "input '%s' is in GPU memory, which this backend cannot read",
                                 input->name);
        return NULL;
}

/* Types are aligned to their size; BYTES are not aligned. */
static bool is_aligned(const void *at, TRITONSERVER_DataType type) {
        uint32_t size = TRITONSERVER_DataTypeByteSize(type);

        return size <= 1 || (uintptr_t)at % size == 0;
}

TRITONSERVER_Error *kit_input_borrow(const struct kit_input *input, const void **ret) {
        const void *bytes;
        uint64_t    n_bytes;

        *ret = NULL;
        if (input->n_buffers != 1)
                return NULL;
        KIT_TRY(get_buffer(input, 0, &bytes, &n_bytes));
        if (n_bytes == input->n_bytes && is_aligned(bytes, input->type))
                *ret = bytes;
        return NULL;
}

TRITONSERVER_Error *kit_input_copy(const struct kit_input *input, void *out) {
        uint64_t done = 0;

        for (uint32_t i = 0; i < input->n_buffers; i++) {
                const void *bytes;
                uint64_t    n_bytes;

                KIT_TRY(get_buffer(input, i, &bytes, &n_bytes));
                if (n_bytes > input->n_bytes - done)
                        break;
                if (n_bytes > 0) /* input and output may be the same memory of a client */
                        memmove((char *)out + done, bytes, n_bytes);
                done += n_bytes;
        }
        if (done != input->n_bytes)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "the buffers of input '%s' do not add up to its %llu bytes",
                                 input->name, (unsigned long long)input->n_bytes);
        return NULL;
}

static TRITONSERVER_Error *check_dims(const struct kit_input *input) {
        if (input->n_dims > KIT_MAX_DIMS)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "input '%s' has %u dimensions, more than the %d supported",
                                 input->name, input->n_dims, KIT_MAX_DIMS);
        return NULL;
}

static TRITONSERVER_Error *open_checked(TRITONBACKEND_Request *request, const char *name,
                                        struct kit_input *ret) {
        KIT_TRY(kit_input_open(request, name, ret));
        return check_dims(ret);
}

static void describe_first(const struct kit_input *input, struct kit_gathered *ret) {
        ret->type = input->type;
        ret->n_dims = input->n_dims;
        memcpy(ret->shape, input->shape, input->n_dims * sizeof(ret->shape[0]));
}

TRITONSERVER_Error *kit_input_describe(const struct kit_input *input, struct kit_gathered *ret) {
        KIT_TRY(check_dims(input));
        describe_first(input, ret);
        return NULL;
}

/* Determines the size of all inputs together and the shape of the first. */
static TRITONSERVER_Error *measure_inputs(const struct kit_batch *batch, const char *name,
                                          struct kit_gathered *ret) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);
        struct kit_input input;

        ret->n_bytes = 0;
        for (bool is_first = true; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                KIT_TRY(open_checked(slot->request, name, &input));
                if (!kit_size_add(ret->n_bytes, input.n_bytes, &ret->n_bytes))
                        return kit_error_no_memory(SIZE_MAX, name);
                if (is_first)
                        describe_first(&input, ret);
                is_first = false;
        }
        return NULL;
}

static TRITONSERVER_Error *copy_all(const struct kit_batch *batch, const char *name,
                                    struct kit_scratch *scratch, struct kit_gathered *ret) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);
        char            *out = kit_scratch_reserve(scratch, ret->n_bytes);

        if (out == NULL)
                return kit_error_no_memory(ret->n_bytes, name);
        ret->bytes = out;
        for (; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                struct kit_input input;

                KIT_TRY(kit_input_open(slot->request, name, &input));
                KIT_TRY(kit_input_copy(&input, out));
                out += input.n_bytes;
        }
        return NULL;
}

/* Determines size and shape and copies in one pass, into the scratch as large as earlier batches
 * made it. *ret_fits is false when the scratch is too small. */
static TRITONSERVER_Error *copy_while_it_fits(const struct kit_batch *batch, const char *name,
                                              const struct kit_scratch *scratch,
                                              struct kit_gathered *ret, bool *ret_fits) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);
        struct kit_input input;

        ret->bytes = scratch->bytes;
        ret->n_bytes = 0;
        *ret_fits = scratch->bytes != NULL;
        for (bool is_first = true; *ret_fits && slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                KIT_TRY(open_checked(slot->request, name, &input));
                if (is_first)
                        describe_first(&input, ret);
                is_first = false;
                *ret_fits = input.n_bytes <= scratch->n_bytes - ret->n_bytes;
                if (*ret_fits)
                        KIT_TRY(kit_input_copy(&input, (char *)scratch->bytes + ret->n_bytes));
                ret->n_bytes += input.n_bytes;
        }
        return NULL;
}

/* Gathers one request. Uses its buffer without a copy where possible. */
static TRITONSERVER_Error *gather_one(const struct kit_batch *batch, const char *name,
                                      struct kit_scratch *scratch, struct kit_gathered *ret) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);
        struct kit_input input;

        KIT_TRY(open_checked(slot->request, name, &input));
        describe_first(&input, ret);
        ret->n_bytes = input.n_bytes;
        KIT_TRY(kit_input_borrow(&input, &ret->bytes));
        return ret->bytes != NULL ? NULL : copy_all(batch, name, scratch, ret);
}

TRITONSERVER_Error *kit_gather(const struct kit_batch *batch, const char *name,
                               struct kit_scratch *scratch, struct kit_gathered *ret) {
        bool fits;

        if (batch->n_live == 1)
                return gather_one(batch, name, scratch, ret);
        KIT_TRY(copy_while_it_fits(batch, name, scratch, ret, &fits));
        if (!fits) {
                KIT_TRY(measure_inputs(batch, name, ret));
                KIT_TRY(copy_all(batch, name, scratch, ret));
        }
        if (batch->has_row_dim && batch->n_live > 1 && ret->n_dims > 0)
                ret->shape[0] = batch->n_rows; /* of all slots */
        return NULL;
}

TRITONSERVER_Error *kit_gather_ragged(const struct kit_batch *batch, const char *name,
                                      struct kit_scratch *scratch, struct kit_gathered *ret) {
        KIT_TRY(kit_gather(batch, name, scratch, ret));
        return kit_gathered_flatten(batch, name, ret);
}

TRITONSERVER_Error *kit_gathered_flatten(const struct kit_batch *batch, const char *name,
                                         struct kit_gathered *ret) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);
        size_t           n_all = 0;

        for (; slot != NULL; slot = kit_batch_live(batch, slot + 1)) {
                struct kit_input input;
                size_t           n;

                KIT_TRY(kit_input_open(slot->request, name, &input));
                KIT_TRY(kit_count_elements(input.shape, input.n_dims, name, &n));
                n_all += n;
        }
        ret->n_dims = 1;
        ret->shape[0] = (int64_t)n_all;
        return NULL;
}

bool kit_inputs_agree(TRITONBACKEND_Request *a, TRITONBACKEND_Request *b, const char *name,
                      uint32_t first_dim) {
        struct kit_input in_a, in_b;
        bool             has_a = kit_input_find(a, name, &in_a);
        bool             has_b = kit_input_find(b, name, &in_b);

        if (!has_a || !has_b)
                return has_a == has_b;
        if (in_a.type != in_b.type || in_a.n_dims != in_b.n_dims)
                return false;
        for (uint32_t i = first_dim; i < in_a.n_dims; i++)
                if (in_a.shape[i] != in_b.shape[i])
                        return false;
        return true;
}

TRITONSERVER_Error *kit_count_elements(const int64_t *shape, uint32_t n_dims, const char *tensor,
                                       size_t *ret) {
        size_t n = 1;

        for (uint32_t i = 0; i < n_dims; i++)
                if (shape[i] < 0 || !kit_size_mul(n, (size_t)shape[i], &n))
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "tensor '%s' has an impossible shape", tensor);
        *ret = n;
        return NULL;
}
