/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cuda_binding.h"

#include "driver_table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 32
#define MAX_KNOWN 256
#define MAX_DEVICES 8
#define MAX_DIMS 16
#define ALIGNMENT 16

static const OrtApi       *real;
static struct driver_table cuda;
static cu_context          contexts[MAX_DEVICES]; /* retained while sessions are on the device */
static unsigned            n_sessions[MAX_DEVICES];

/* Guards everything of this file but bindings. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Options and sessions that are on a device. */
static struct known {
        const void *object;
        int         device;
} known[MAX_KNOWN];

/* Memory that the runtime has made on a device, and the values over it. */
struct made {
        cu_pointer memory;
        int        device;
        unsigned   n_refs;
};

static struct owned_value {
        const OrtValue *value;
        struct made    *made;
} owned_values[MAX_KNOWN];

struct tensor {
        char                *name;
        const OrtValue      *value;  /* the caller's; NULL: the runtime makes it */
        const OrtMemoryInfo *where;  /* of an output that is made; the caller's */
        struct made         *made;   /* its memory, or that of an input of the host */
        OrtValue            *result; /* an output that was made, over its memory */
};

struct binding {
        OrtSession   *session;
        int           device;
        cu_stream     in, out;
        struct tensor inputs[MAX_TENSORS], outputs[MAX_TENSORS];
        size_t        n_inputs, n_outputs;
};

/* ---- errors, the driver ---------------------------------------------------------------------- */

static OrtStatus *failed(const char *text) {
        return real->CreateStatus(ORT_FAIL, text);
}

static OrtStatus *status_of(cu_result result, const char *what) {
        char text[192];

        if (result == CU_SUCCESS)
                return NULL;
        (void)snprintf(text, sizeof(text), "CUDA failure %d: %s", (int)result, what);
        return failed(text);
}

#define TRY(call)                                                                                  \
        do {                                                                                       \
                OrtStatus *try_status_ = (call);                                                   \
                if (try_status_ != NULL)                                                           \
                        return try_status_;                                                        \
        } while (0)
#define CUDA_TRY(call) TRY(status_of(cuda.call, #call))

static void must(OrtStatus *status) {
        if (status == NULL)
                return;
        (void)fprintf(stderr, "stand-in of ONNX Runtime: %s\n", real->GetErrorMessage(status));
        abort();
}

static bool is_on_device(const OrtMemoryInfo *where) {
        const char *name;

        must(real->MemoryInfoGetName(where, &name));
        return strcmp(name, "Cuda") == 0;
}

static const OrtMemoryInfo *place_of(const OrtValue *value) {
        const OrtMemoryInfo *where;

        must(real->GetTensorMemoryInfo(value, &where));
        return where;
}

static void *bytes_of(const OrtValue *value) {
        void *bytes;

        must(real->GetTensorMutableData((OrtValue *)(uintptr_t)value, &bytes));
        return bytes;
}

static ONNXTensorElementDataType type_of(const OrtValue *value, int64_t *dims, size_t *n_dims) {
        OrtTensorTypeAndShapeInfo *info;
        ONNXTensorElementDataType  type;

        must(real->GetTensorTypeAndShape(value, &info));
        must(real->GetTensorElementType(info, &type));
        must(real->GetDimensionsCount(info, n_dims));
        if (*n_dims > MAX_DIMS)
                abort();
        must(real->GetDimensions(info, dims, *n_dims));
        real->ReleaseTensorTypeAndShapeInfo(info);
        return type;
}

static size_t size_of_type(ONNXTensorElementDataType type) {
        switch (type) {
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8: return 1;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16: return 2;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT: return 4;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE: return 8;
        default: return 0; /* strings */
        }
}

static size_t size_of(const OrtValue *value) {
        int64_t dims[MAX_DIMS];
        size_t  n_dims, n = size_of_type(type_of(value, dims, &n_dims));

        for (size_t i = 0; i < n_dims; i++)
                n *= (size_t)dims[i];
        return n;
}

static bool is_text(const OrtValue *value) {
        int64_t dims[MAX_DIMS];
        size_t  n_dims;

        return type_of(value, dims, &n_dims) == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
}

/* The runtime works on its device, whatever was current. */
static OrtStatus *enter(const struct binding *b, cu_context *ret_before) {
        CUDA_TRY(cuCtxGetCurrent(ret_before));
        CUDA_TRY(cuCtxSetCurrent(contexts[b->device]));
        return NULL;
}

static void leave(cu_context before) {
        must(status_of(cuda.cuCtxSetCurrent(before), "cuCtxSetCurrent"));
}

/* ---- what is on a device --------------------------------------------------------------------- */

static int find_device_locked(const void *object) {
        for (size_t i = 0; i < MAX_KNOWN; i++)
                if (known[i].object == object && object != NULL)
                        return known[i].device;
        return -1;
}

static void note_locked(const void *object, int device) {
        for (size_t i = 0; i < MAX_KNOWN; i++)
                if (known[i].object == NULL || known[i].object == object) {
                        known[i] = (struct known){ object, device };
                        return;
                }
        abort();
}

static void forget_locked(const void *object) {
        for (size_t i = 0; i < MAX_KNOWN; i++)
                if (known[i].object == object)
                        known[i].object = NULL;
}

void binding_options(const OrtSessionOptions *options, int device) {
        pthread_mutex_lock(&lock);
        note_locked(options, device);
        pthread_mutex_unlock(&lock);
}

static OrtStatus *open_device_locked(int device) {
        if (cuda.library == NULL && !driver_table_open(&cuda, CUDA_LIBRARY)) {
                cuda.library = NULL;
                return failed("there is no driver");
        }
        CUDA_TRY(cuInit(0));
        if (n_sessions[device] == 0)
                CUDA_TRY(cuDevicePrimaryCtxRetain(&contexts[device], device));
        n_sessions[device]++;
        return NULL;
}

static OrtStatus *ORT_API_CALL create_session(const OrtEnv *env, const char *path,
                                              const OrtSessionOptions *options, OrtSession **ret) {
        OrtStatus *status = NULL;
        int        device;

        TRY(real->CreateSession(env, path, options, ret));
        pthread_mutex_lock(&lock);
        device = find_device_locked(options);
        if (device >= 0)
                status = open_device_locked(device);
        if (device >= 0 && status == NULL)
                note_locked(*ret, device);
        pthread_mutex_unlock(&lock);
        if (status != NULL)
                real->ReleaseSession(*ret);
        return status;
}

static void ORT_API_CALL release_session(OrtSession *session) {
        int device;

        pthread_mutex_lock(&lock);
        device = find_device_locked(session);
        forget_locked(session);
        if (device >= 0 && --n_sessions[device] == 0)
                must(status_of(cuda.cuDevicePrimaryCtxRelease_v2(device), "release"));
        pthread_mutex_unlock(&lock);
        real->ReleaseSession(session);
}

static void ORT_API_CALL release_options(OrtSessionOptions *options) {
        pthread_mutex_lock(&lock);
        forget_locked(options);
        pthread_mutex_unlock(&lock);
        real->ReleaseSessionOptions(options);
}

/* Run() takes values of the host alone. */
static OrtStatus *ORT_API_CALL run(OrtSession *session, const OrtRunOptions *options,
                                   const char *const *input_names, const OrtValue *const *inputs,
                                   size_t n_inputs, const char *const *output_names,
                                   size_t n_outputs, OrtValue **outputs) {
        int device;

        pthread_mutex_lock(&lock);
        device = find_device_locked(session);
        pthread_mutex_unlock(&lock);
        if (device >= 0)
                return failed("a session on a GPU was run without a binding");
        return real->Run(session, options, input_names, inputs, n_inputs, output_names, n_outputs,
                         outputs);
}

/* ---- memory that the runtime makes ----------------------------------------------------------- */

/* Without memory for a tensor of no bytes. */
static OrtStatus *make(const struct binding *b, size_t n_bytes, struct made **ret) {
        struct made *made = calloc(1, sizeof(*made));

        if (made == NULL)
                abort();
        made->device = b->device;
        made->n_refs = 1;
        *ret = made;
        if (n_bytes > 0)
                CUDA_TRY(cuMemAlloc_v2(&made->memory, n_bytes));
        return NULL;
}

static void unref_locked(struct made *made) {
        cu_context before;

        if (--made->n_refs > 0)
                return;
        if (made->memory != 0) {
                must(status_of(cuda.cuCtxGetCurrent(&before), "cuCtxGetCurrent"));
                must(status_of(cuda.cuCtxSetCurrent(contexts[made->device]), "cuCtxSetCurrent"));
                must(status_of(cuda.cuMemFree_v2(made->memory), "cuMemFree"));
                leave(before);
        }
        free(made);
}

static void unref(struct made *made) {
        if (made == NULL)
                return;
        pthread_mutex_lock(&lock);
        unref_locked(made);
        pthread_mutex_unlock(&lock);
}

static void ORT_API_CALL release_value(OrtValue *value) {
        if (value == NULL)
                return;
        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < MAX_KNOWN; i++)
                if (owned_values[i].value == value) {
                        unref_locked(owned_values[i].made);
                        owned_values[i].value = NULL;
                        break;
                }
        pthread_mutex_unlock(&lock);
        real->ReleaseValue(value);
}

/* Another value over the bytes of `value`; `made`, NULL for the caller's memory, lives as long. */
static OrtStatus *share(const OrtValue *value, struct made *made, OrtValue **ret) {
        int64_t                   dims[MAX_DIMS];
        size_t                    n_dims, i = 0;
        ONNXTensorElementDataType type = type_of(value, dims, &n_dims);

        TRY(real->CreateTensorWithDataAsOrtValue(place_of(value), bytes_of(value), size_of(value),
                                                 dims, n_dims, type, ret));
        if (made == NULL)
                return NULL;
        pthread_mutex_lock(&lock);
        while (i < MAX_KNOWN && owned_values[i].value != NULL)
                i++;
        if (i == MAX_KNOWN)
                abort();
        owned_values[i] = (struct owned_value){ *ret, made };
        made->n_refs++;
        pthread_mutex_unlock(&lock);
        return NULL;
}

/* ---- bindings -------------------------------------------------------------------------------- */

static struct binding *binding_of(OrtIoBinding *binding) {
        return (struct binding *)binding;
}

static void clear(struct tensor *tensors, size_t *n) {
        for (size_t i = 0; i < *n; i++) {
                free(tensors[i].name);
                unref(tensors[i].made);
                if (tensors[i].result != NULL)
                        real->ReleaseValue(tensors[i].result);
        }
        memset(tensors, 0, *n * sizeof(*tensors));
        *n = 0;
}

static void ORT_API_CALL clear_inputs(OrtIoBinding *binding) {
        clear(binding_of(binding)->inputs, &binding_of(binding)->n_inputs);
}

static void ORT_API_CALL clear_outputs(OrtIoBinding *binding) {
        clear(binding_of(binding)->outputs, &binding_of(binding)->n_outputs);
}

static void ORT_API_CALL release_binding(OrtIoBinding *binding) {
        struct binding *b = binding_of(binding);
        cu_context      before;

        clear_inputs(binding);
        clear_outputs(binding);
        must(enter(b, &before));
        if (b->in != NULL)
                must(status_of(cuda.cuStreamDestroy_v2(b->in), "cuStreamDestroy"));
        if (b->out != NULL)
                must(status_of(cuda.cuStreamDestroy_v2(b->out), "cuStreamDestroy"));
        leave(before);
        free(b);
}

static OrtStatus *open_streams(struct binding *b) {
        CUDA_TRY(cuStreamCreate(&b->in, CU_STREAM_NON_BLOCKING));
        CUDA_TRY(cuStreamCreate(&b->out, CU_STREAM_NON_BLOCKING));
        return NULL;
}

static OrtStatus *ORT_API_CALL create_binding(OrtSession *session, OrtIoBinding **ret) {
        struct binding *b = calloc(1, sizeof(*b));
        cu_context      before;
        OrtStatus      *status;

        if (b == NULL)
                abort();
        pthread_mutex_lock(&lock);
        b->device = find_device_locked(session);
        pthread_mutex_unlock(&lock);
        b->session = session;
        if (b->device < 0) {
                free(b);
                return failed("a binding of a session on the CPU");
        }
        must(enter(b, &before));
        status = open_streams(b);
        leave(before);
        if (status != NULL) {
                release_binding((OrtIoBinding *)b);
                return status;
        }
        *ret = (OrtIoBinding *)b;
        return NULL;
}

static OrtStatus *check_place(const struct binding *b, const OrtMemoryInfo *where) {
        int id;

        TRY(real->MemoryInfoGetId(where, &id));
        return !is_on_device(where) || id == b->device ? NULL : failed("memory of another device");
}

static OrtStatus *check_value(const struct binding *b, const OrtValue *value) {
        const OrtMemoryInfo *where = place_of(value);

        TRY(check_place(b, where));
        if (is_on_device(where) && is_text(value))
                return failed("strings on a device");
        if (is_on_device(where) && (uintptr_t)bytes_of(value) % ALIGNMENT != 0)
                return failed("misaligned address");
        return NULL;
}

static struct tensor *add(struct tensor *tensors, size_t *n, const char *name) {
        struct tensor *t = &tensors[*n];

        if (*n == MAX_TENSORS)
                abort();
        (*n)++;
        *t = (struct tensor){ .name = strdup(name) };
        return t;
}

/* As the runtime does, at once: the value is the host's, and the model runs on the device. */
static OrtStatus *send_input(struct binding *b, struct tensor *t) {
        size_t n_bytes = size_of(t->value);

        TRY(make(b, n_bytes, &t->made));
        if (n_bytes > 0)
                CUDA_TRY(cuMemcpyHtoDAsync_v2(t->made->memory, bytes_of(t->value), n_bytes, b->in));
        return NULL;
}

static OrtStatus *ORT_API_CALL bind_input(OrtIoBinding *binding, const char *name,
                                          const OrtValue *value) {
        struct binding *b = binding_of(binding);
        struct tensor  *t = add(b->inputs, &b->n_inputs, name);
        cu_context      before;
        OrtStatus      *status;

        t->value = value;
        TRY(check_value(b, value));
        if (is_on_device(place_of(value)) || is_text(value))
                return NULL;
        TRY(enter(b, &before));
        status = send_input(b, t);
        leave(before);
        return status;
}

static OrtStatus *ORT_API_CALL bind_output(OrtIoBinding *binding, const char *name,
                                           const OrtValue *value) {
        struct binding *b = binding_of(binding);
        struct tensor  *t = add(b->outputs, &b->n_outputs, name);

        t->value = value;
        return check_value(b, value);
}

static OrtStatus *ORT_API_CALL bind_output_to_device(OrtIoBinding *binding, const char *name,
                                                     const OrtMemoryInfo *where) {
        struct binding *b = binding_of(binding);
        struct tensor  *t = add(b->outputs, &b->n_outputs, name);

        t->where = where;
        return check_place(b, where);
}

static OrtStatus *wait_for(struct binding *b, cu_stream stream) {
        cu_context before;
        OrtStatus *status;

        TRY(enter(b, &before));
        status = status_of(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize");
        leave(before);
        return status;
}

static OrtStatus *ORT_API_CALL synchronize_inputs(OrtIoBinding *binding) {
        return wait_for(binding_of(binding), binding_of(binding)->in);
}

static OrtStatus *ORT_API_CALL synchronize_outputs(OrtIoBinding *binding) {
        return wait_for(binding_of(binding), binding_of(binding)->out);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Tensors of a run on the CPU. */
struct host_run {
        const char     *input_names[MAX_TENSORS], *output_names[MAX_TENSORS];
        const OrtValue *inputs[MAX_TENSORS];
        OrtValue       *mine[MAX_TENSORS]; /* inputs that were copied from the device */
        void           *bytes[MAX_TENSORS];
        OrtValue       *outputs[MAX_TENSORS];
};

static OrtStatus *fetch_input(struct binding *b, const struct tensor *t, struct host_run *r,
                              size_t i) {
        int64_t                   dims[MAX_DIMS];
        size_t                    n_dims, n_bytes = size_of(t->value);
        ONNXTensorElementDataType type = type_of(t->value, dims, &n_dims);
        cu_pointer                from =
                t->made != NULL ? t->made->memory : (cu_pointer)(uintptr_t)bytes_of(t->value);
        OrtMemoryInfo *host;
        OrtStatus     *status;

        r->bytes[i] = malloc(n_bytes + 1);
        if (r->bytes[i] == NULL)
                abort();
        if (n_bytes > 0)
                CUDA_TRY(cuMemcpyDtoHAsync_v2(r->bytes[i], from, n_bytes, b->out));
        must(real->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &host));
        status = real->CreateTensorWithDataAsOrtValue(host, r->bytes[i], n_bytes, dims, n_dims,
                                                      type, &r->mine[i]);
        real->ReleaseMemoryInfo(host);
        r->inputs[i] = r->mine[i];
        return status;
}

static OrtStatus *fetch_inputs(struct binding *b, struct host_run *r) {
        for (size_t i = 0; i < b->n_inputs; i++) {
                r->input_names[i] = b->inputs[i].name;
                r->inputs[i] = b->inputs[i].value;
                if (!is_text(b->inputs[i].value))
                        TRY(fetch_input(b, &b->inputs[i], r, i));
        }
        for (size_t i = 0; i < b->n_outputs; i++)
                r->output_names[i] = b->outputs[i].name;
        CUDA_TRY(cuStreamSynchronize(b->out));
        return NULL;
}

/* An output that the runtime makes: a value of its own, on the device or the host. */
static OrtStatus *make_output(struct binding *b, struct tensor *t, OrtValue **computed) {
        int64_t                   dims[MAX_DIMS];
        size_t                    n_dims, n_bytes;
        ONNXTensorElementDataType type = type_of(*computed, dims, &n_dims);

        if (!is_on_device(t->where)) {
                t->result = *computed;
                *computed = NULL;
                return NULL;
        }
        if (is_text(*computed))
                return failed("strings cannot be on a device");
        n_bytes = size_of(*computed);
        TRY(make(b, n_bytes, &t->made));
        if (n_bytes > 0)
                CUDA_TRY(cuMemcpyHtoDAsync_v2(t->made->memory, bytes_of(*computed), n_bytes,
                                              b->out));
        return real->CreateTensorWithDataAsOrtValue(t->where, (void *)(uintptr_t)t->made->memory,
                                                    n_bytes, dims, n_dims, type, &t->result);
}

static OrtStatus *fill_output(struct binding *b, const struct tensor *t, const OrtValue *computed) {
        size_t n_bytes = size_of(computed);

        if (n_bytes != size_of(t->value))
                return failed("an output has another size than the value that was bound");
        if (n_bytes > 0 && is_on_device(place_of(t->value)))
                CUDA_TRY(cuMemcpyHtoDAsync_v2((cu_pointer)(uintptr_t)bytes_of(t->value),
                                              bytes_of(computed), n_bytes, b->out));
        else if (n_bytes > 0)
                memcpy(bytes_of(t->value), bytes_of(computed), n_bytes);
        return NULL;
}

static OrtStatus *store_outputs(struct binding *b, struct host_run *r) {
        for (size_t i = 0; i < b->n_outputs; i++) {
                struct tensor *t = &b->outputs[i];

                if (t->value != NULL)
                        TRY(fill_output(b, t, r->outputs[i]));
                else
                        TRY(make_output(b, t, &r->outputs[i]));
        }
        return NULL;
}

static void on_copied(void *value) {
        real->ReleaseValue(value);
}

/* The stream's copies read what was computed, so that it is released when they have ended. */
static void release_later(struct binding *b, OrtValue *computed) {
        if (computed != NULL && cuda.cuLaunchHostFunc(b->out, on_copied, computed) != CU_SUCCESS)
                abort();
}

static void end_run(struct binding *b, struct host_run *r) {
        for (size_t i = 0; i < b->n_inputs; i++) {
                if (r->mine[i] != NULL)
                        real->ReleaseValue(r->mine[i]);
                free(r->bytes[i]);
        }
        for (size_t i = 0; i < b->n_outputs; i++)
                release_later(b, r->outputs[i]);
}

static const char *place_name(const struct tensor *t) {
        const OrtMemoryInfo *where = t->value != NULL ? place_of(t->value) : t->where;
        bool                 is_gpu = is_on_device(where);

        if (t->value != NULL)
                return is_gpu ? "gpu" : "host";
        return is_gpu ? "made" : "made-host";
}

static void note_run(const struct binding *b) {
        const char *path = getenv("NESO_FAKE_BINDINGS");
        FILE       *file = path != NULL ? fopen(path, "ae") : NULL;
        char        text[1024] = "in";

        if (file == NULL)
                return;
        for (size_t i = 0; i < b->n_inputs; i++)
                (void)strcat(strcat(text, " "), place_name(&b->inputs[i]));
        (void)strcat(text, ", out");
        for (size_t i = 0; i < b->n_outputs; i++)
                (void)strcat(strcat(text, " "), place_name(&b->outputs[i]));
        (void)fprintf(file, "%s\n", text);
        (void)fclose(file);
}

static OrtStatus *compute(struct binding *b, const OrtRunOptions *options, struct host_run *r) {
        TRY(fetch_inputs(b, r));
        TRY(real->Run(b->session, options, r->input_names, r->inputs, b->n_inputs, r->output_names,
                      b->n_outputs, r->outputs));
        return store_outputs(b, r);
}

static OrtStatus *ORT_API_CALL run_with_binding(OrtSession *session, const OrtRunOptions *options,
                                                const OrtIoBinding *binding) {
        struct binding *b = (struct binding *)(uintptr_t)binding;
        struct host_run r = { 0 };
        cu_context      before;
        OrtStatus      *status;

        if (session != b->session)
                return failed("the binding is of another session");
        TRY(enter(b, &before));
        note_run(b);
        status = compute(b, options, &r);
        end_run(b, &r);
        leave(before);
        return status;
}

static OrtStatus *ORT_API_CALL get_outputs(const OrtIoBinding *binding, OrtAllocator *allocator,
                                           OrtValue ***ret, size_t *ret_n) {
        struct binding *b = (struct binding *)(uintptr_t)binding;
        void           *array;

        TRY(real->AllocatorAlloc(allocator, MAX_TENSORS * sizeof(OrtValue *), &array));
        *ret = array;
        *ret_n = b->n_outputs;
        for (size_t i = 0; i < b->n_outputs; i++) {
                struct tensor *t = &b->outputs[i];

                if (t->value != NULL || t->made != NULL) {
                        must(share(t->value != NULL ? t->value : t->result, t->made, &(*ret)[i]));
                } else { /* of the host: the value itself changes hands */
                        (*ret)[i] = t->result;
                        t->result = NULL;
                }
        }
        return NULL;
}

void binding_replace(const OrtApi *real_api, OrtApi *api) {
        real = real_api;
        api->CreateSession = create_session;
        api->ReleaseSession = release_session;
        api->ReleaseSessionOptions = release_options;
        api->ReleaseValue = release_value;
        api->Run = run;
        api->CreateIoBinding = create_binding;
        api->ReleaseIoBinding = release_binding;
        api->BindInput = bind_input;
        api->BindOutput = bind_output;
        api->BindOutputToDevice = bind_output_to_device;
        api->GetBoundOutputValues = get_outputs;
        api->ClearBoundInputs = clear_inputs;
        api->ClearBoundOutputs = clear_outputs;
        api->SynchronizeBoundInputs = synchronize_inputs;
        api->SynchronizeBoundOutputs = synchronize_outputs;
        api->RunWithBinding = run_with_binding;
}
