/* SPDX-License-Identifier: BSD-3-Clause */
/* What the load generator and the tuner ask a server beside the load, when the server is hostile: a model's metadata and
 * configuration, statistics, the page of metrics, an answer with outputs, pieces of a language model's answer.
 *
 * The first byte has flags: the answers are messages of gRPC; the answer with outputs is one of gRPC. The rest is
 * texts, each ended by a byte 0xff, in the order above.
 *
 * What must hold: an error has a text; a tensor has a known type and not more than LOAD_MAX_DIMS dimensions; a
 * configuration of the tuner is JSON, and reading it again gives the settings of its point; its lines for config.pbtxt
 * are lines of text; a mean is of as many values as pages were read.
 */
#include "base/compiler.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "expect.h"
#include "load/answer_checker.h"
#include "load/gauge_means.h"
#include "load/grpc_message.h"
#include "load/language.h"
#include "load/request_set.h"
#include "load/server_stats.h"
#include "tune/tune_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES 32768
#define SEPARATOR ((char)0xff)
#define MAX_ELEMENTS 4096 /* of made inputs: more only take time */
#define MAX_POINTS 24

enum { METADATA, CONFIG, STATISTICS, PAGE, ANSWER, PIECE, N_TEXTS };
enum { IS_GRPC = 1, IS_GRPC_ANSWER = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The answer as JSON; over HTTP it is that already. */
static void read_answer(unsigned flags, enum control_question q, struct str text,
                        struct strbuf *out) {
        if ((flags & IS_GRPC) == 0)
                strbuf_put(out, text.ptr, text.len);
        else
                end_error(grpc_message_print(q, text, out));
}

/* ---- the model -------------------------------------------------------------------------------- */

static bool is_small(const struct load_model *m) {
        uint64_t n;

        for (size_t i = 0; i < m->n_inputs; i++)
                if (end_error(load_shape_count(&m->inputs[i].shape, &n)) && n > MAX_ELEMENTS)
                        return false;
        return true;
}

static void check_model(const struct load_model *m) {
        for (size_t i = 0; i < m->n_inputs; i++)
                expect(m->inputs[i].datatype != NULL && m->inputs[i].name != NULL &&
                               m->inputs[i].shape.n <= LOAD_MAX_DIMS,
                       "an input");
        for (size_t i = 0; i < m->n_outputs; i++)
                expect(m->outputs[i].datatype != NULL && m->outputs[i].shape.n <= LOAD_MAX_DIMS,
                       "an output");
        for (size_t i = 0; i < m->n_steps; i++)
                expect(m->steps[i].model != NULL, "a step without a model");
        expect(m->found_version != NULL, "no version");
}

static void check_requests(const struct load_model *m, const struct input_set *inputs) {
        static struct target               targets[2];
        static const struct target_options options[] = {
                { .protocol = TARGET_HTTP, .url = "127.0.0.1:1" },
                { .protocol = TARGET_GRPC, .url = "127.0.0.1:1" },
        };

        for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
                struct request_options o = { .batch = 1, .input_is_json = true };
                struct request_set     requests;

                if (targets[i].host == NULL)
                        expect(target_open(&options[i], &targets[i]) == NULL, "target");
                if (end_error(request_set_make(&targets[i], m, inputs, &o, &requests)))
                        request_set_done(&requests);
        }
}

static void use_model(const struct load_model *m, unsigned flags, struct str text) {
        struct input_options o = { .n_distinct = 1, .seed = 1, .string_length = 3 };
        struct input_set     inputs;

        check_model(m);
        if (!is_small(m) || !end_error(input_set_make(m, &o, &inputs)))
                return;
        check_requests(m, &inputs);

        struct answer_checker checker = { .model = m,
                                          .inputs = &inputs,
                                          .protocol = (flags & IS_GRPC_ANSWER) != 0 ? TARGET_GRPC
                                                                                    : TARGET_HTTP,
                                          .batch = 1 };
        struct answer         a = { .kind = ANSWER_OK,
                                    .text = text,
                                    .header_length = text.len > 0 ? (unsigned char)text.ptr[0] : 0 };

        /* A place for each output, and a value for the first. */
        inputs.entries[0].outputs =
                arena_zalloc(&inputs.arena, (m->n_outputs + 1) * sizeof(struct input_values));
        inputs.entries[0].outputs[0].bytes = STR_LIT("\1\0\0\0");
        (void)answer_checker_compare(&checker, 0, &a);
        input_set_done(&inputs);
}

static void read_model(struct str metadata, struct str config, unsigned flags, struct str answer) {
        struct load_model m;

        if (!end_error(load_model_read("m", NULL, metadata, config, &m)))
                return;
        use_model(&m, flags, answer);
        load_model_done(&m);
}

/* ---- the tuner -------------------------------------------------------------------------------- */

static bool is_text_line(struct str text) {
        for (size_t i = 0; i < text.len; i++)
                if ((unsigned char)text.ptr[i] < ' ' && text.ptr[i] != '\n')
                        return false;
        return text.len == 0 || text.ptr[text.len - 1] == '\n';
}

static void check_point(struct str config, const struct tune_bounds *b, const struct tune_space *s,
                        const struct tune_point *p) {
        AUTO_STRBUF        text = { 0 }, lines = { 0 }, name = { 0 };
        struct tune_limits again;
        uint64_t           n = tune_space_value(s, p, TUNE_INSTANCES);

        tune_config_put(config, s, p, &text);
        expect(json_check(strbuf_str(&text), JSON_OBJECT) == NULL, "a configuration is no JSON");
        expect(end_error(tune_config_read(strbuf_str(&text), b, &again)),
               "it cannot be read again");
        expect(n == TUNE_KEEP || (again.has_instances && again.instances == MAX(n, 1)),
               "instances");
        tune_config_put_lines(config, s, p, &lines);
        expect(is_text_line(strbuf_str(&lines)), "lines of config.pbtxt");
        tune_space_print(s, p, &name);
        expect(name.len > 0, "a point without a name");
}

static void read_limits(struct str config) {
        struct tune_bounds b = { .max_instances = 4, .max_threads = 2, .max_delay_us = 1000 };
        struct tune_limits l;
        struct tune_space  s;
        struct tune_point  present;
        size_t             n;

        if (!end_error(tune_config_read(config, &b, &l)))
                return;
        tune_space_make(&l, &s);
        n = tune_space_size(&s);
        expect(n > 0 && tune_space_count(&s) <= n, "sizes of the space");
        present = tune_space_present(&s, &l);
        expect(tune_space_number(&s, &present) < n, "the present point is not in the space");
        for (size_t i = 0; i < MIN(n, MAX_POINTS); i++) {
                struct tune_point p = tune_space_point(&s, i * (n / MIN(n, MAX_POINTS)));

                tune_space_make_canonical(&s, &p);
                expect(tune_space_is_canonical(&s, &p), "not canonical");
                check_point(config, &b, &s, &p);
        }
}

/* ---- figures ---------------------------------------------------------------------------------- */

static void read_statistics(struct str json) {
        struct server_stats s, zero = { 0 }, since;

        if (!end_error(server_stats_read(json, "m", NULL, &s)))
                return;
        since = server_stats_since(&zero, &s);
        expect(memcmp(&since, &s, sizeof(s)) == 0, "the difference to zero");
        expect(stats_mean(&s.success, s.success.count) >= 0.0, "a mean below zero");
}

static void read_page(struct str page) {
        struct gauge_means      g;
        const struct map_entry *e;
        size_t                  at = 0;

        gauge_means_init(&g);
        gauge_means_add(&g, page);
        gauge_means_add(&g, page);
        expect(map_size(&g.gauges) <= GAUGE_MEANS_MAX, "too many gauges");
        while ((e = map_next(&g.gauges, &at)) != NULL) {
                const struct gauge_mean *m = e->value;

                expect(m->n >= 2 && m->n % 2 == 0, "a number of values");
        }
        gauge_means_done(&g);
}

static void read_piece(struct str piece) {
        for (int e = LANGUAGE_CHAT; e < N_LANGUAGE_ENDPOINTS; e++) {
                struct language_answer a = { 0 };

                language_answer_add(&a, (enum language_endpoint)e, piece);
                language_answer_add(&a, (enum language_endpoint)e, piece);
                expect(a.n_texts == (a.has_text ? 2 : 0), "the number of texts");
                (void)language_answer_tokens(&a);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct strbuf metadata = { 0 }, config = { 0 }, statistics = { 0 };
        struct str    texts[N_TEXTS] = { { 0 } };
        struct str    rest;
        char         *copies[N_TEXTS]; /* of their own sizes: reading beyond one is seen */

        if (size == 0 || size > MAX_BYTES)
                return 0;
        rest = str_range((const char *)bytes + 1, size - 1);
        for (size_t i = 0; i < N_TEXTS; i++) {
                if (rest.ptr != NULL)
                        rest = str_split(rest, SEPARATOR, &texts[i]);
                copies[i] = malloc(texts[i].len + 1);
                expect(copies[i] != NULL, "memory");
                if (texts[i].len > 0)
                        memcpy(copies[i], texts[i].ptr, texts[i].len);
                texts[i] = str_range(copies[i], texts[i].len);
        }
        read_answer(bytes[0], CONTROL_METADATA, texts[METADATA], &metadata);
        read_answer(bytes[0], CONTROL_CONFIG, texts[CONFIG], &config);
        read_answer(bytes[0], CONTROL_STATISTICS, texts[STATISTICS], &statistics);
        read_model(strbuf_str(&metadata), strbuf_str(&config), bytes[0], texts[ANSWER]);
        read_limits(strbuf_str(&config));
        read_statistics(strbuf_str(&statistics));
        read_page(texts[PAGE]);
        read_piece(texts[PIECE]);
        strbuf_done(&metadata);
        strbuf_done(&config);
        strbuf_done(&statistics);
        for (size_t i = 0; i < N_TEXTS; i++)
                free(copies[i]);
        return 0;
}
