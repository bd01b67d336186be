/* SPDX-License-Identifier: BSD-3-Clause */
/* A loaded model without files and without a backend, from the text of its configuration; and
 * requests for it.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/error.h"
#include "config/config_normalize.h"
#include "config/data_type.h"
#include "config/state_specs.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_shape.h"
#include "infer/response.h"

#include <stdlib.h>
#include <string.h>

struct fake_model {
        struct model            model;
        struct metric_registry *registry;
        struct model_metrics   *metrics;
        unsigned                n_unused; /* calls of on_unused */
};

static inline void fake_model_on_unused(struct model *model) {
        CONTAINER_OF(model, struct fake_model, model)->n_unused++;
}

/* Fails the test when err is one; `what` is what it was about. */
static inline void assert_ok(struct error *err, const char *what) {
        if (err != NULL)
                fail_msg("%s: %s", what, err->message);
}

/* Takes err. */
static inline void assert_error(struct error *err, enum error_code code, const char *message) {
        if (err == NULL)
                fail_msg("no error, expected \"%s\"", message);
        if (err->code != code || strcmp(err->message, message) != 0)
                fail_msg("got      %s \"%s\"\nexpected %s \"%s\"", error_code_string(err->code),
                         err->message, error_code_string(code), message);
        error_free(err);
}

/* Takes err, which was made when every allocation failed: even its text could not be. */
static inline void assert_out_of_memory(struct error *err) {
        assert_error(err, ERR_INTERNAL, "out of memory");
}

static inline struct fake_model *fake_model_new(const char *config) {
        struct fake_model           *f = calloc(1, sizeof(*f));
        struct model_metrics_options metrics = { .counter_latencies = true };
        struct model_stats_options   stats = { .model = "m", .version = 1 };

        assert_non_null(f);
        ref_init(&f->model.ref);
        f->model.name = "m";
        f->model.version = 1;
        f->model.on_unused = fake_model_on_unused;
        assert_ok(model_config_read_text(str_of(config), "config.pbtxt", &f->model.config), config);
        assert_ok(model_config_normalize(f->model.config), config);
        assert_ok(model_io_set_new(f->model.config, &f->model.io), config);
        assert_ok(state_specs_new(f->model.config, "/nowhere", NULL, &f->model.states), config);
        f->model.needs_equal_shapes = model_io_needs_equal_shapes(f->model.io);
        f->model.is_decoupled = model_config_is_decoupled(f->model.config);
        f->registry = metric_registry_new();
        f->metrics = model_metrics_new(f->registry, &metrics);
        f->model.stats = model_stats_new(f->metrics, &stats);
        return f;
}

/* Nobody may hold the model any more. */
static inline void fake_model_free(struct fake_model *f) {
        if (f == NULL)
                return;
        assert_int_equal(f->n_unused, 0);
        model_unref(&f->model);
        if (f->n_unused != 1)
                fail_msg("the model is still held");
        model_stats_free(f->model.stats);
        model_metrics_free(f->metrics);
        metric_registry_free(f->registry);
        state_specs_free(f->model.states);
        model_io_set_free(f->model.io);
        model_config_free(f->model.config);
        free(f);
}

static inline struct request *fake_request(struct fake_model *f) {
        struct request *req = request_new(&f->model);

        assert_non_null(req);
        return req;
}

/* Bytes that live as long as the test program, for inputs whose contents do not matter. */
static inline const void *zero_bytes(void) {
        static const char zeros[65536];

        return zeros;
}

static inline struct buffer_attributes cpu_bytes(size_t n) {
        return (struct buffer_attributes){ .memory_type = MEMORY_CPU, .byte_size = n };
}

static inline void append_bytes(struct request *req, const char *input, const void *base,
                                size_t n) {
        struct buffer_attributes attributes = cpu_bytes(n);

        assert_ok(request_append_bytes(req, input, base, &attributes, NULL), input);
}

#define N_DIMS(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

/* add_input(req, "IN", DATA_TYPE_FP32, 2, 16): with as many zero bytes as the shape asks for. */
#define add_input(req, name, type, ...)                                                            \
        add_zeroed_input(req, name, type, (int64_t[]){ __VA_ARGS__ }, N_DIMS(__VA_ARGS__))

static inline void add_zeroed_input(struct request *req, const char *name, enum data_type type,
                                    const int64_t *dims, size_t n_dims) {
        int64_t n_bytes = shape_byte_size(type, dims, n_dims);

        assert_ok(request_add_input(req, name, type, dims, n_dims), name);
        if (n_bytes > 0)
                append_bytes(req, name, zero_bytes(), (size_t)n_bytes);
}
