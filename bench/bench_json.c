/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of the JSON codec for tensors: MB/s of text, parsed and written, in one thread.
 *
 *     bench_json [seconds per figure]
 *
 * The data are sets of random floats, written with the shortest digits that round-trip: uniform in
 * [0, 1), normal, whole numbers up to 255, and random bit patterns of finite floats; and normal
 * ones with the digits of FP64, as many clients send them. Each set is checked bit for bit.
 */
#include "base/mem.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random_bits(void) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static double random_unit(void) {
        return (double)(random_bits() >> 11) * 0x1p-53;
}

static float random_uniform(void) {
        return (float)random_unit();
}

static float random_normal(void) {
        return (float)(sqrt(-2 * log(1 - random_unit())) * cos(6.283185307179586 * random_unit()));
}

static float random_pixel(void) {
        return (float)(random_bits() >> 56);
}

static float random_pattern(void) {
        for (;;) {
                uint32_t bits = (uint32_t)(random_bits() >> 16);
                float    value;

                memcpy(&value, &bits, sizeof(value));
                if (isfinite(value))
                        return value;
        }
}

static double now_seconds(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct sample {
        bool          is_wide; /* written as FP64, as Python's json does: up to 17 digits */
        float        *values;  /* owned */
        float        *copy;    /* owned */
        size_t        n;
        struct strbuf text;
};

static void write_sample(struct sample *s) {
        struct json_writer w;

        strbuf_clear(&s->text);
        json_writer_init(&w, &s->text);
        if (!s->is_wide) {
                json_put_tensor(&w, JSON_ELEMENT_F32, s->values, s->n);
                return;
        }
        json_begin_array(&w);
        for (size_t i = 0; i < s->n; i++)
                json_put_f64(&w, (double)s->values[i]);
        json_end_array(&w);
}

static void read_sample(struct sample *s) {
        struct json_reader r;

        json_reader_init(&r, strbuf_str(&s->text));
        if (json_read_tensor(&r, JSON_ELEMENT_F32, s->copy, s->n) != JSON_TENSOR_OK) {
                fprintf(stderr, "bench_json: %s\n", json_error_text(&r));
                exit(1);
        }
}

static void skip_sample(struct sample *s) {
        struct json_reader r;

        json_reader_init(&r, strbuf_str(&s->text));
        json_skip(&r);
}

/* Returns the best of several rounds: disturbances only make a round slower. */
static double megabytes_per_second(struct sample *s, void (*work)(struct sample *),
                                   double         seconds) {
        double best = 0, stop = now_seconds() + seconds;
        size_t n_repeats = 100000 / s->text.len + 1;

        while (now_seconds() < stop) {
                double start = now_seconds();

                for (size_t i = 0; i < n_repeats; i++)
                        work(s);
                best = fmax(best,
                            1e-6 * (double)(n_repeats * s->text.len) / (now_seconds() - start));
        }
        return best;
}

struct set {
        const char *name;
        float (*draw)(void);
        bool is_wide;
};

static void run(const struct set *set, size_t n, double seconds) {
        struct sample s = { .n = n, .is_wide = set->is_wide };

        s.values = mem_alloc(n * sizeof(float));
        s.copy = mem_zalloc(n * sizeof(float));
        strbuf_init(&s.text, 0);
        for (size_t i = 0; i < n; i++)
                s.values[i] = set->draw();
        write_sample(&s);
        read_sample(&s);
        if (memcmp(s.values, s.copy, n * sizeof(float)) != 0) {
                fprintf(stderr, "bench_json: the floats changed on their way\n");
                exit(1);
        }
        printf("%-14s %7zu floats  %5.2f bytes each  parse %6.0f  skip %6.0f  write %6.0f MB/s\n",
               set->name, n, (double)s.text.len / (double)n,
               megabytes_per_second(&s, read_sample, seconds),
               megabytes_per_second(&s, skip_sample, seconds),
               megabytes_per_second(&s, write_sample, seconds));
        strbuf_done(&s.text);
        free(s.values);
        free(s.copy);
}

int main(int argc, char **argv) {
        static const struct set sets[] = {
                { "uniform", random_uniform, false },      { "normal", random_normal, false },
                { "pixels", random_pixel, false },         { "patterns", random_pattern, false },
                { "normal as FP64", random_normal, true },
        };
        const size_t sizes[] = { 16, 1000, 100000 };
        double       seconds = argc > 1 ? atof(argv[1]) : 0.5;

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                for (size_t k = 0; k < ARRAY_LEN(sets); k++)
                        run(&sets[k], sizes[i], seconds);
        }
        return 0;
}
