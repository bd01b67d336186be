/* SPDX-License-Identifier: BSD-3-Clause */
/* ONNX Runtime alone, in a loop: microseconds per run for each batch size asked for.
 *
 *     ort_loop <model.onnx> <floats per sample> <batch size>...
 *
 * One intra-op thread, no spinning, as the server's backend is configured by the benchmark. The
 * model has one FP32 input of [batch, floats per sample] and one output. Prints a line
 * "<batch size> <mean microseconds> <median microseconds>" for each size. The mean is the throughput of
 * the loop; where the two lie far apart, the machine was busy with something else.
 */
#include <onnxruntime_c_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_RUNS 2000
#define SECONDS_PER_SIZE 0.4

static const OrtApi *ort;

static void check(OrtStatus *status) {
        if (status == NULL)
                return;
        fprintf(stderr, "ort_loop: %s\n", ort->GetErrorMessage(status));
        exit(1);
}

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static OrtSession *open_session(OrtEnv *env, const char *path) {
        OrtSessionOptions *options;
        OrtSession        *session;

        check(ort->CreateSessionOptions(&options));
        check(ort->SetIntraOpNumThreads(options, 1));
        check(ort->SetInterOpNumThreads(options, 1));
        check(ort->CreateSession(env, path, options, &session));
        ort->ReleaseSessionOptions(options);
        return session;
}

struct model {
        OrtSession *session;
        char       *input, *output;
        size_t      sample;
};

struct times {
        double mean, median; /* seconds per run */
};

static struct times time_runs(const struct model *m, size_t batch) {
        static double  times[MAX_RUNS];
        size_t         n = 0;
        size_t         floats = batch * m->sample;
        float         *data = calloc(floats, sizeof(*data));
        int64_t        shape[] = { (int64_t)batch, (int64_t)m->sample };
        OrtMemoryInfo *memory;
        OrtValue      *in;
        double         until, sum = 0;

        for (size_t i = 0; i < floats; i++)
                data[i] = (float)(i % 17);
        check(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
        check(ort->CreateTensorWithDataAsOrtValue(memory, data, floats * sizeof(*data), shape, 2,
                                                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &in));
        until = now() + SECONDS_PER_SIZE;
        while (n < MAX_RUNS && (n < 20 || now() < until)) {
                const char *inputs[] = { m->input }, *outputs[] = { m->output };
                OrtValue   *out = NULL;
                double      start = now();

                check(ort->Run(m->session, NULL, inputs, (const OrtValue *const *)&in, 1, outputs, 1,
                               &out));
                ort->ReleaseValue(out);
                times[n] = now() - start;
                sum += times[n++];
        }
        ort->ReleaseValue(in);
        ort->ReleaseMemoryInfo(memory);
        free(data);
        qsort(times, n, sizeof(*times), by_value);
        return (struct times){ .mean = sum / (double)n, .median = times[n / 2] };
}

int main(int argc, char **argv) {
        OrtAllocator *allocator;
        OrtEnv       *env;
        struct model  m;

        if (argc < 4) {
                fprintf(stderr, "usage: ort_loop <model> <floats per sample> <batch size>...\n");
                return 2;
        }
        ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
        check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "ort_loop", &env));
        check(ort->GetAllocatorWithDefaultOptions(&allocator));
        m.session = open_session(env, argv[1]);
        m.sample = strtoul(argv[2], NULL, 10);
        check(ort->SessionGetInputName(m.session, 0, allocator, &m.input));
        check(ort->SessionGetOutputName(m.session, 0, allocator, &m.output));
        for (int i = 3; i < argc; i++) {
                size_t       batch = strtoul(argv[i], NULL, 10);
                struct times t = time_runs(&m, batch);

                printf("%zu %.2f %.2f\n", batch, t.mean * 1e6, t.median * 1e6);
        }
        return 0;
}
