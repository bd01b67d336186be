/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of the JSON codec for tensors: MB/s of text, parsed and written, in one thread.
 *
 *     bench_json [seconds per figure]
 *
 * The data are sets of random floats, written with the shortest digits that round-trip: uniform in
 * [0, 1), normal, whole numbers up to 255, and random bit patterns of finite floats; normal ones with
 * the digits of FP64, as many clients send them; and tensors of FP64, uniform, normal, and of decimals
 * with two digits after the dot. Each set is checked bit for bit.
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

static double random_normal(void) {
        return sqrt(-2 * log(1 - random_unit())) * cos(6.283185307179586 * random_unit());
}

static double random_pixel(void) {
        return (double)(random_bits() >> 56);
}

static double random_price(void) {
        return (double)(random_bits() % 1000000) / 100;
}

static double random_pattern(void) {
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

enum kind {
        FP32,
        FP32_AS_FP64, /* written as FP64, as Python's json does: up to 17 digits */
        FP64,
};

struct sample {
        enum kind     kind;
        char         *values; /* owned: FP32, or for FP64 that */
        char         *copy;   /* owned: the same */
        size_t        n;
        struct strbuf text;
};

static enum json_element element_of(const struct sample *s) {
        return s->kind == FP64 ? JSON_ELEMENT_F64 : JSON_ELEMENT_F32;
}

static size_t bytes_of(const struct sample *s) {
        return s->n * (s->kind == FP64 ? sizeof(double) : sizeof(float));
}

static void write_sample(struct sample *s) {
        struct json_writer w;

        strbuf_clear(&s->text);
        json_writer_init(&w, &s->text);
        if (s->kind != FP32_AS_FP64) {
                json_put_tensor(&w, element_of(s), s->values, s->n);
                return;
        }
        json_begin_array(&w);
        for (size_t i = 0; i < s->n; i++)
                json_put_f64(&w, (double)((const float *)(const void *)s->values)[i]);
        json_end_array(&w);
}

static void read_sample(struct sample *s) {
        struct json_reader r;

        json_reader_init(&r, strbuf_str(&s->text));
        if (json_read_tensor(&r, element_of(s), s->copy, s->n) != JSON_TENSOR_OK) {
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
        double (*draw)(void);
        enum kind kind;
};

static void draw_values(struct sample *s, double (*draw)(void)) {
        for (size_t i = 0; i < s->n; i++) {
                double wide = draw();
                float  narrow = (float)wide;

                if (s->kind == FP64)
                        memcpy(s->values + i * sizeof(wide), &wide, sizeof(wide));
                else
                        memcpy(s->values + i * sizeof(narrow), &narrow, sizeof(narrow));
        }
}

static void run(const struct set *set, size_t n, double seconds) {
        struct sample s = { .n = n, .kind = set->kind };

        s.values = mem_alloc(bytes_of(&s));
        s.copy = mem_zalloc(bytes_of(&s));
        strbuf_init(&s.text, 0);
        draw_values(&s, set->draw);
        write_sample(&s);
        read_sample(&s);
        if (memcmp(s.values, s.copy, bytes_of(&s)) != 0) {
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
                { "uniform", random_unit, FP32 },
                { "normal", random_normal, FP32 },
                { "pixels", random_pixel, FP32 },
                { "patterns", random_pattern, FP32 },
                { "normal as FP64", random_normal, FP32_AS_FP64 },
                { "uniform FP64", random_unit, FP64 },
                { "normal FP64", random_normal, FP64 },
                { "prices FP64", random_price, FP64 },
        };
        const size_t sizes[] = { 16, 1000, 100000 };
        double       seconds = argc > 1 ? atof(argv[1]) : 0.5;

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                for (size_t k = 0; k < ARRAY_LEN(sets); k++)
                        run(&sets[k], sizes[i], seconds);
        }
        return 0;
}
