/* SPDX-License-Identifier: BSD-3-Clause */
/* ONNX Runtime without a server: what answers of the server are compared with.
 *
 *     ort_direct <model.onnx> <inputs.f32> <outputs.f32> <batch> [<rounds>]
 *
 * For models of one FP32 input and one FP32 output whose first dimension is the batch. The inputs
 * are raw little-endian values, sample after sample, any number of samples; they are run `batch`
 * at a time (the last run may have fewer), on one thread, and the outputs are written likewise.
 * With `rounds`, all full batches are run that many times more, and the fastest of them is printed
 * as microseconds per run and per sample.
 */
#include <errno.h>
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DIMS 8
#define NS_PER_US 1000.0

struct tensor {
        char   *name;
        int64_t dims[MAX_DIMS]; /* the first is the batch */
        size_t  n_dims;
        size_t  n_values; /* of one sample */
};

struct direct {
        const OrtApi  *api;
        OrtEnv        *env;
        OrtSession    *session;
        OrtMemoryInfo *cpu;
        struct tensor  input, output;
        float         *inputs, *outputs;
        size_t         n_samples;
        size_t         batch;
};

__attribute__((noreturn)) static void fail(const char *what, const char *why) {
        (void)fprintf(stderr, "ort_direct: %s: %s\n", what, why);
        exit(1);
}

static void check(const struct direct *d, const char *what, OrtStatus *status) {
        if (status != NULL)
                fail(what, d->api->GetErrorMessage(status));
}

#define ORT(d, call) check((d), #call, (d)->api->call)

static void *allocate(size_t n, size_t size) {
        void *memory = calloc(n > 0 ? n : 1, size);

        if (memory == NULL)
                fail("memory", strerror(ENOMEM));
        return memory;
}

static void open_session(struct direct *d, const char *path) {
        OrtSessionOptions *options;

        d->api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
        if (d->api == NULL)
                fail("ONNX Runtime", OrtGetApiBase()->GetVersionString());
        ORT(d, CreateEnv(ORT_LOGGING_LEVEL_WARNING, "ort_direct", &d->env));
        ORT(d, CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &d->cpu));
        ORT(d, CreateSessionOptions(&options));
        ORT(d, SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
        ORT(d, SetIntraOpNumThreads(options, 1));
        ORT(d, CreateSession(d->env, path, options, &d->session));
        d->api->ReleaseSessionOptions(options);
}

/* Takes `type`. */
static void read_tensor(const struct direct *d, OrtTypeInfo *type, struct tensor *ret) {
        const OrtTensorTypeAndShapeInfo *shape;
        ONNXTensorElementDataType        element;

        ORT(d, CastTypeInfoToTensorInfo(type, &shape));
        if (shape == NULL)
                fail(ret->name, "not a tensor");
        ORT(d, GetTensorElementType(shape, &element));
        ORT(d, GetDimensionsCount(shape, &ret->n_dims));
        if (element != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || ret->n_dims < 1 ||
            ret->n_dims > MAX_DIMS)
                fail(ret->name, "not an FP32 tensor with a batch dimension");
        ORT(d, GetDimensions(shape, ret->dims, ret->n_dims));
        ret->n_values = 1;
        for (size_t i = 1; i < ret->n_dims; i++) {
                if (ret->dims[i] < 1)
                        fail(ret->name, "only the batch may be open");
                ret->n_values *= (size_t)ret->dims[i];
        }
        d->api->ReleaseTypeInfo(type);
}

static void describe(struct direct *d) {
        OrtAllocator *allocator;
        OrtTypeInfo  *type;

        ORT(d, GetAllocatorWithDefaultOptions(&allocator));
        ORT(d, SessionGetInputName(d->session, 0, allocator, &d->input.name));
        ORT(d, SessionGetInputTypeInfo(d->session, 0, &type));
        read_tensor(d, type, &d->input);
        ORT(d, SessionGetOutputName(d->session, 0, allocator, &d->output.name));
        ORT(d, SessionGetOutputTypeInfo(d->session, 0, &type));
        read_tensor(d, type, &d->output);
}

static void read_inputs(struct direct *d, const char *path) {
        size_t sample_bytes = d->input.n_values * sizeof(float);
        FILE  *file = fopen(path, "rb");
        long   n_bytes;

        if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (n_bytes = ftell(file)) < 0)
                fail(path, strerror(errno));
        if ((size_t)n_bytes % sample_bytes != 0)
                fail(path, "not a whole number of samples");
        rewind(file);
        d->n_samples = (size_t)n_bytes / sample_bytes;
        d->inputs = allocate(d->n_samples, sample_bytes);
        d->outputs = allocate(d->n_samples, d->output.n_values * sizeof(float));
        if (fread(d->inputs, sample_bytes, d->n_samples, file) != d->n_samples)
                fail(path, "cannot be read");
        (void)fclose(file);
}

static void write_outputs(const struct direct *d, const char *path) {
        size_t sample_bytes = d->output.n_values * sizeof(float);
        FILE  *file = fopen(path, "wb");

        if (file == NULL || fwrite(d->outputs, sample_bytes, d->n_samples, file) != d->n_samples ||
            fclose(file) != 0)
                fail(path, strerror(errno));
}

/* A tensor of `n` samples in memory of ours. */
static OrtValue *wrap(const struct direct *d, struct tensor *tensor, float *values, size_t n) {
        OrtValue *value;

        tensor->dims[0] = (int64_t)n;
        ORT(d, CreateTensorWithDataAsOrtValue(d->cpu, values, n * tensor->n_values * sizeof(float),
                                              tensor->dims, tensor->n_dims,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
        return value;
}

static void run_batch(struct direct *d, size_t first, size_t n) {
        OrtValue       *in = wrap(d, &d->input, d->inputs + first * d->input.n_values, n);
        OrtValue       *out = wrap(d, &d->output, d->outputs + first * d->output.n_values, n);
        const OrtValue *ins[] = { in };

        ORT(d, Run(d->session, NULL, (const char *const *)&d->input.name, ins, 1,
                   (const char *const *)&d->output.name, 1, &out));
        d->api->ReleaseValue(out);
        d->api->ReleaseValue(in);
}

static void run_all(struct direct *d) {
        for (size_t first = 0; first < d->n_samples; first += d->batch) {
                size_t left = d->n_samples - first;

                run_batch(d, first, left < d->batch ? left : d->batch);
        }
}

static uint64_t now_ns(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void measure(struct direct *d, size_t n_rounds) {
        size_t   n_runs = n_rounds * (d->n_samples / d->batch);
        uint64_t fastest = UINT64_MAX;

        if (n_runs == 0)
                fail("rounds", "there are fewer samples than a batch");
        for (size_t run = 0; run < n_runs; run++) {
                uint64_t start = now_ns(), taken;

                run_batch(d, run % (d->n_samples / d->batch) * d->batch, d->batch);
                taken = now_ns() - start;
                if (taken < fastest)
                        fastest = taken;
        }
        printf("batch %zu: %.1f us per run, %.1f us per sample\n", d->batch,
               (double)fastest / NS_PER_US, (double)fastest / NS_PER_US / (double)d->batch);
}

static size_t read_number(const char *text) {
        char              *end;
        unsigned long long number = strtoull(text, &end, 10);

        if (end == text || *end != '\0' || number < 1 || number > UINT32_MAX)
                fail(text, "not a positive number");
        return (size_t)number;
}

static void close_all(struct direct *d) {
        OrtAllocator *allocator;

        ORT(d, GetAllocatorWithDefaultOptions(&allocator));
        ORT(d, AllocatorFree(allocator, d->input.name));
        ORT(d, AllocatorFree(allocator, d->output.name));
        d->api->ReleaseSession(d->session);
        d->api->ReleaseMemoryInfo(d->cpu);
        d->api->ReleaseEnv(d->env);
        free(d->inputs);
        free(d->outputs);
}

int main(int argc, char **argv) {
        struct direct d = { 0 };

        if (argc < 5 || argc > 6) {
                (void)fprintf(stderr, "usage: ort_direct <model.onnx> <inputs.f32> <outputs.f32> "
                                      "<batch> [<rounds>]\n");
                return 2;
        }
        d.batch = read_number(argv[4]);
        open_session(&d, argv[1]);
        describe(&d);
        read_inputs(&d, argv[2]);
        run_all(&d);
        if (argc == 6)
                measure(&d, read_number(argv[5]));
        write_outputs(&d, argv[3]);
        close_all(&d);
        return 0;
}
