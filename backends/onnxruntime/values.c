/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/values.h"

#include "kit/scratch.h"

#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *fill_strings(const struct ort *ort, const struct kit_string *strings,
                                        size_t n, OrtValue *value) {
        for (size_t i = 0; i < n; i++) {
                char *out;

                /* FillStringTensor() would end a string at its first NUL. */
                ORT_TRY(ort, GetResizedStringTensorElementBuffer(value, i, strings[i].len, &out));
                if (strings[i].len > 0)
                        memcpy(out, strings[i].chars, strings[i].len);
        }
        return NULL;
}

static TRITONSERVER_Error *new_strings(const struct ort *ort, const struct kit_gathered *tensor,
                                       const char *name, OrtValue **ret) {
        struct kit_string  *strings;
        TRITONSERVER_Error *err;
        size_t              n;

        KIT_TRY(kit_count_elements(tensor->shape, tensor->n_dims, name, &n));
        /* Each element has a prefix, so a wrong count cannot request more memory than the input
         * has. */
        if (n > tensor->n_bytes / KIT_STRING_PREFIX)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "inference input '%s' has too few bytes for %zu strings", name, n);
        strings = kit_alloc_array(n, sizeof(*strings));
        if (strings == NULL)
                return kit_error_no_memory(n * sizeof(*strings), name);
        err = kit_strings_decode(tensor->bytes, tensor->n_bytes, n, name, strings);
        if (err == NULL)
                err = ort_error(ort, ort->api->CreateTensorAsOrtValue(
                                             ort->allocator, tensor->shape, tensor->n_dims,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, ret));
        if (err == NULL)
                err = fill_strings(ort, strings, n, *ret);
        free(strings);
        return err;
}

TRITONSERVER_Error *value_new(const struct ort *ort, const struct kit_gathered *tensor,
                              const char *name, OrtValue **ret) {
        if (tensor->type == TRITONSERVER_TYPE_BYTES)
                return new_strings(ort, tensor, name, ret);
        return value_new_in(ort, tensor, ort->cpu, ret);
}

/* The runtime does not write to inputs; its API has no const here. */
TRITONSERVER_Error *value_new_in(const struct ort *ort, const struct kit_gathered *tensor,
                                 const OrtMemoryInfo *where, OrtValue **ret) {
        return ort_error(ort, ort->api->CreateTensorWithDataAsOrtValue(
                                      where, (void *)(uintptr_t)tensor->bytes, tensor->n_bytes,
                                      tensor->shape, tensor->n_dims,
                                      ort_type_from_triton(tensor->type), ret));
}

TRITONSERVER_Error *value_new_over(const struct ort *ort, const struct kit_output *output,
                                   const OrtMemoryInfo *where, void *bytes, size_t n_bytes,
                                   OrtValue **ret) {
        return ort_error(ort, ort->api->CreateTensorWithDataAsOrtValue(
                                      where, bytes, n_bytes, output->shape, output->n_dims,
                                      ort_type_from_triton(output->type), ret));
}

TRITONSERVER_Error *value_read_place(const struct ort *ort, const OrtValue *value,
                                     struct kit_place *ret) {
        const OrtMemoryInfo *where;
        const char          *name;
        int                  id;

        ORT_TRY(ort, GetTensorMemoryInfo(value, &where));
        ORT_TRY(ort, MemoryInfoGetName(where, &name));
        ORT_TRY(ort, MemoryInfoGetId(where, &id));
        *ret = (struct kit_place){ TRITONSERVER_MEMORY_CPU, 0 };
        if (strcmp(name, ORT_CUDA_MEMORY) == 0)
                *ret = (struct kit_place){ TRITONSERVER_MEMORY_GPU, id };
        return NULL;
}

static TRITONSERVER_Error *read_shape(const struct ort *ort, const OrtTensorTypeAndShapeInfo *info,
                                      struct kit_output *ret, int64_t *shape) {
        ONNXTensorElementDataType type;
        size_t                    n_dims;

        ORT_TRY(ort, GetTensorElementType(info, &type));
        ORT_TRY(ort, GetDimensionsCount(info, &n_dims));
        if (n_dims > KIT_MAX_DIMS)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "output '%s' has %zu dimensions, more than the %d supported",
                                 ret->name, n_dims, KIT_MAX_DIMS);
        ORT_TRY(ort, GetDimensions(info, shape, n_dims));
        ret->type = ort_type_to_triton(type);
        ret->shape = shape;
        ret->n_dims = (uint32_t)n_dims;
        return NULL;
}

TRITONSERVER_Error *value_read_shape(const struct ort *ort, const OrtValue *value,
                                     struct kit_output *ret, int64_t *shape) {
        OrtTensorTypeAndShapeInfo *info;
        TRITONSERVER_Error        *err;

        ORT_TRY(ort, GetTensorTypeAndShape(value, &info));
        err = read_shape(ort, info, ret, shape);
        ort->api->ReleaseTensorTypeAndShapeInfo(info);
        return err;
}

/* The runtime copies strings out as one run of characters with an array of offsets. Both go to the
 * scratch, the offsets first. */
static TRITONSERVER_Error *scatter_strings(const struct ort *ort, const OrtValue *value,
                                           const struct kit_output *output, struct kit_batch *batch,
                                           struct kit_scratch *chars) {
        struct kit_packed_strings strings;
        size_t                   *offsets, n_bytes;

        KIT_TRY(kit_count_elements(output->shape, output->n_dims, output->name, &strings.n));
        ORT_TRY(ort, GetStringTensorDataLength(value, &strings.n_chars));
        if (!kit_size_mul(strings.n, sizeof(*offsets), &n_bytes) ||
            !kit_size_add(n_bytes, strings.n_chars, &n_bytes))
                return kit_error_no_memory(SIZE_MAX, output->name);
        offsets = kit_scratch_reserve(chars, n_bytes);
        if (offsets == NULL)
                return kit_error_no_memory(n_bytes, output->name);
        strings.offsets = offsets;
        strings.chars = (const char *)(offsets + strings.n);
        ORT_TRY(ort, GetStringTensorContent(value, offsets + strings.n, strings.n_chars, offsets,
                                            strings.n));
        kit_scatter_strings(batch, output, &strings);
        return NULL;
}

TRITONSERVER_Error *value_scatter(const struct ort *ort, OrtValue *value,
                                  const struct kit_output *output, struct kit_batch *batch,
                                  struct kit_scratch *chars) {
        struct kit_place place;
        size_t           n_bytes;
        void            *bytes;

        if (output->type == TRITONSERVER_TYPE_BYTES)
                return scatter_strings(ort, value, output, batch, chars);
        KIT_TRY(kit_count_elements(output->shape, output->n_dims, output->name, &n_bytes));
        n_bytes *= TRITONSERVER_DataTypeByteSize(output->type);
        ORT_TRY(ort, GetTensorMutableData(value, &bytes));
        if (batch->memory == NULL) {
                kit_scatter(batch, output, bytes, n_bytes);
                return NULL;
        }
        KIT_TRY(value_read_place(ort, value, &place));
        kit_scatter_from(batch, output, bytes, &place, n_bytes);
        return NULL;
}
