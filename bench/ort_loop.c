/* SPDX-License-Identifier: BSD-3-Clause */
/* ONNX Runtime alone, in a loop with given batch sizes, on request.
 *
 *     ort_loop <model.onnx> <floats per sample>
 *
 * Each line of standard input is a request, "<seconds> <size>:<count> <size>:<count> ...": batches
 * of these sizes run as often as their counts, in a shuffled order, repeatedly until the time is
 * over. The answer on standard output is a line with the samples per second. New sizes run once
 * before the clock starts. Between two requests it does nothing, so that the core is free for other
 * programs. A malformed line ends it with status 2.
 *
 * One intra-op thread, no spinning, as the benchmark configures the server's backend. The model has
 * one FP32 input of [batch, floats per sample] and one output.
 */
#include <ctype.h>
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BATCH 1024
#define MAX_SAMPLE (1u << 16) /* floats; with MAX_BATCH 256 MiB of them */
#define MAX_RUNS 100000       /* limit for the sum of a line's counts */
#define MAX_SECONDS 60
#define LINE_BYTES 16384 /* "1024:100000 " for each size */

static const OrtApi *ort;

static void check(OrtStatus *status) {
        if (status == NULL)
                return;
        fprintf(stderr, "ort_loop: %s\n", ort->GetErrorMessage(status));
        exit(1);
}

static _Noreturn void refuse(const char *text, const char *why) {
        fprintf(stderr, "ort_loop: \"%.40s\": %s\n", text, why);
        exit(2);
}

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct question {
        double   seconds;
        size_t   n;
        uint16_t sizes[MAX_RUNS]; /* each size as often as its count */
};

/* Reads a number from 1 to max at `text`, and moves it past the number; 0 = there is none. */
static size_t read_number(const char *text, size_t max, char **ret_end) {
        size_t number = isdigit((unsigned char)*text) ? strtoul(text, ret_end, 10) : 0;

        return number <= max ? number : 0;
}

static void read_sizes(const char *text, struct question *q) {
        char  *end;
        size_t size = read_number(text, MAX_BATCH, &end), count = 0;

        if (size > 0 && *end == ':')
                count = read_number(end + 1, MAX_RUNS - q->n, &end);
        if (count == 0 || *end != '\0')
                refuse(text, "not <size>:<count>, or one of them zero or too large");
        while (count-- > 0)
                q->sizes[q->n++] = (uint16_t)size;
}

static void read_question(char *line, struct question *q) {
        char *rest, *end, *word = strtok_r(line, " \n", &rest);

        if (word == NULL)
                refuse("", "a line without seconds");
        q->n = 0;
        q->seconds = strtod(word, &end);
        if (*end != '\0' || !(q->seconds > 0 && q->seconds <= MAX_SECONDS))
                refuse(word, "not a number of seconds, zero, or too large");
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL)
                read_sizes(word, q);
        if (q->n == 0)
                refuse("", "a line without batch sizes");
}

/* Shuffles; the order is the same each time for the same sizes. */
static void shuffle(struct question *q) {
        srand(1);
        for (size_t i = q->n - 1; i > 0; i--) {
                size_t   j = (size_t)rand() % (i + 1);
                uint16_t size = q->sizes[i];

                q->sizes[i] = q->sizes[j];
                q->sizes[j] = size;
        }
}

struct model {
        OrtSession    *session;
        OrtMemoryInfo *memory;
        char          *input, *output;
        size_t         sample;                 /* floats */
        float         *values;                 /* of the largest batch; all inputs are in it */
        OrtValue      *batches[MAX_BATCH + 1]; /* by size; NULL until the size was requested */
};

static void open_model(struct model *m, OrtEnv *env, const char *path) {
        OrtSessionOptions *options;
        OrtAllocator      *allocator;

        check(ort->CreateSessionOptions(&options));
        check(ort->SetIntraOpNumThreads(options, 1));
        check(ort->SetInterOpNumThreads(options, 1));
        check(ort->CreateSession(env, path, options, &m->session));
        ort->ReleaseSessionOptions(options);
        check(ort->GetAllocatorWithDefaultOptions(&allocator));
        check(ort->SessionGetInputName(m->session, 0, allocator, &m->input));
        check(ort->SessionGetOutputName(m->session, 0, allocator, &m->output));
        check(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &m->memory));
        m->values = calloc(MAX_BATCH * m->sample, sizeof(*m->values));
        if (m->values == NULL)
                refuse(path, "no memory for its inputs");
        for (size_t i = 0; i < MAX_BATCH * m->sample; i++)
                m->values[i] = (float)(i % 17);
}

static void run(const struct model *m, size_t size) {
        const char     *inputs[] = { m->input }, *outputs[] = { m->output };
        const OrtValue *in = m->batches[size];
        OrtValue       *out = NULL;

        check(ort->Run(m->session, NULL, inputs, &in, 1, outputs, 1, &out));
        ort->ReleaseValue(out);
}

static void warm_up(struct model *m, size_t size) {
        int64_t shape[] = { (int64_t)size, (int64_t)m->sample };

        if (m->batches[size] != NULL)
                return;
        check(ort->CreateTensorWithDataAsOrtValue(m->memory, m->values,
                                                  size * m->sample * sizeof(*m->values), shape, 2,
                                                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                  &m->batches[size]));
        run(m, size);
}

static double samples_per_second(struct model *m, const struct question *q) {
        size_t samples = 0, i = 0;
        double start, passed;

        for (size_t k = 0; k < q->n; k++)
                warm_up(m, q->sizes[k]);
        start = now();
        do {
                run(m, q->sizes[i]);
                samples += q->sizes[i];
                i = (i + 1) % q->n;
                passed = now() - start;
        } while (passed < q->seconds);
        return (double)samples / passed;
}

int main(int argc, char **argv) {
        static char            line[LINE_BYTES];
        static struct question question;
        static struct model    model;
        OrtEnv                *env;
        char                  *end;

        if (argc != 3) {
                fprintf(stderr, "usage: ort_loop <model> <floats per sample>\n");
                return 2;
        }
        model.sample = read_number(argv[2], MAX_SAMPLE, &end);
        if (model.sample == 0 || *end != '\0')
                refuse(argv[2], "not a number of floats, zero, or too large");
        ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
        check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "ort_loop", &env));
        open_model(&model, env, argv[1]);
        while (fgets(line, sizeof(line), stdin) != NULL) {
                if (strchr(line, '\n') == NULL)
                        refuse(line, "a line without an end, or too long");
                read_question(line, &question);
                shuffle(&question);
                printf("%.1f\n", samples_per_second(&model, &question));
                fflush(stdout);
        }
        return 0;
}
