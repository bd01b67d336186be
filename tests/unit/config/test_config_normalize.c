/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/config_normalize.h"
#include "config_rows.h"

#define PINNED                                                                                     \
        " optimization { input_pinned_memory { enable: true }"                                     \
        " output_pinned_memory { enable: true } }"
#define LATEST " version_policy { latest { num_versions: 1 } }"

/* Left becomes right. */
static const struct normal_row {
        const char *text;
        const char *normal;
} rows[] = {
        { "", LATEST PINNED },
        { "version_policy { all { } }", "version_policy { all { } }" PINNED },
        { "version_policy { }", "version_policy { }" PINNED },
        { "version_policy { latest { } }", "version_policy { latest { } }" PINNED },
        { "optimization { priority: PRIORITY_MAX input_pinned_memory { } }",
          LATEST " optimization { priority: PRIORITY_MAX input_pinned_memory { enable: false }"
                 " output_pinned_memory { enable: true } }" },
        { "max_batch_size: 8 dynamic_batching { }",
          "max_batch_size: 8 dynamic_batching { preferred_batch_size: 8 }" LATEST PINNED },
        { "max_batch_size: 0 dynamic_batching { }", "dynamic_batching { }" LATEST PINNED },
        { "max_batch_size: -3 dynamic_batching { }",
          "max_batch_size: -3 dynamic_batching { }" LATEST PINNED },
        { "max_batch_size: 8 dynamic_batching { preferred_batch_size: [2, 4] }",
          "max_batch_size: 8 dynamic_batching { preferred_batch_size: [2, 4] }" LATEST PINNED },
        { "max_batch_size: 8 sequence_batching { }",
          "max_batch_size: 8 sequence_batching { max_sequence_idle_microseconds: 1000000 }" LATEST
                  PINNED },
        { "sequence_batching { direct { } max_sequence_idle_microseconds: 5 }",
          "sequence_batching { direct { } max_sequence_idle_microseconds: 5 }" LATEST PINNED },
        { "max_batch_size: 4 sequence_batching { oldest { } }",
          "max_batch_size: 4 sequence_batching { oldest { preferred_batch_size: 4 }"
          " max_sequence_idle_microseconds: 1000000 }" LATEST PINNED },
        { "sequence_batching { oldest { } }",
          "sequence_batching { oldest { } max_sequence_idle_microseconds: 1000000 }" LATEST
                  PINNED },
        { "max_batch_size: 4 sequence_batching { oldest { preferred_batch_size: 3 } }",
          "max_batch_size: 4 sequence_batching { oldest { preferred_batch_size: 3 }"
          " max_sequence_idle_microseconds: 1000000 }" LATEST PINNED },
        { "max_batch_size: 4 ensemble_scheduling { }",
          "max_batch_size: 4 ensemble_scheduling { }" LATEST },
};

static void assert_normal(const struct model_config *c, const struct normal_row *row) {
        struct model_config *normal = config_of(row->normal);

        assert_same_config(c, normal, row->text);
        model_config_free(normal);
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct model_config *c = config_of(rows[i].text);

                assert_null(model_config_normalize(c));
                assert_normal(c, &rows[i]);
                assert_null(model_config_normalize(c));
                assert_normal(c, &rows[i]);
                model_config_free(c);
        }
}

#define GPU INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU
#define CPU INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU
#define MODEL INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL
#define AUTO INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO

static const int32_t gpu_0_and_1[] = { 0, 1 };
static const int32_t gpu_1[] = { 1 };
static const int32_t gpu_7[] = { 7 };

static const struct preferred_group none[] = { { 0 } };
static const struct preferred_group cpu_3[] = { { CPU, 3, NULL, 0 } };
static const struct preferred_group gpu_2_else_cpu_4[] = { { GPU, 2, NULL, 0 },
                                                           { CPU, 4, NULL, 0 } };
static const struct preferred_group on_gpu_1[] = { { GPU, 0, gpu_1, 1 } };
static const struct preferred_group on_gpu_7[] = { { GPU, 2, gpu_7, 1 }, { MODEL, 1, NULL, 0 } };
static const struct preferred_group automatic[] = { { AUTO, 5, NULL, 0 } };
static const struct preferred_group auto_on_gpu_1[] = { { AUTO, 0, gpu_1, 1 } };
static const struct preferred_group auto_on_gpu_7[] = { { AUTO, 0, gpu_7, 1 } };
static const struct preferred_group uncounted[] = { { CPU, 0, NULL, 0 } };

#define GROUP(name, kind, count)                                                                   \
        "instance_group { name: '" name "' kind: " kind " count: " #count " }"

static const struct group_row {
        const char                   *text; /* name 'm' is put before */
        const struct preferred_group *preferred;
        size_t                        n_preferred;
        size_t                        n_gpus;
        const char                   *normal; /* same */
} group_rows[] = {
        /* no group: named like the model */
        { "backend: 'b'", none, 0, 0, "backend: 'b' " GROUP("m", "KIND_CPU", 1) },
        { "backend: 'onnxruntime'", none, 0, 0,
          "backend: 'onnxruntime' " GROUP("m", "KIND_CPU", 2) },
        { "backend: 'tensorflow'", none, 0, 0, "backend: 'tensorflow' " GROUP("m", "KIND_CPU", 2) },
        { "backend: 'onnxruntime'", cpu_3, 1, 0,
          "backend: 'onnxruntime' " GROUP("m", "KIND_CPU", 3) },
        { "", gpu_2_else_cpu_4, 2, 0, GROUP("m", "KIND_CPU", 4) },
        { "", automatic, 1, 0, GROUP("m", "KIND_CPU", 5) },
        { "", uncounted, 1, 0, GROUP("m", "KIND_CPU", 1) },
        { "", on_gpu_7, 2, 0, GROUP("m", "KIND_MODEL", 1) },
        { "", none, 0, 2, "instance_group { name: 'm' kind: KIND_GPU count: 1 gpus: [0, 1] }" },
        { "", gpu_2_else_cpu_4, 2, 2,
          "instance_group { name: 'm' kind: KIND_GPU count: 2 gpus: [0, 1] }" },
        { "", on_gpu_1, 1, 2, "instance_group { name: 'm' kind: KIND_GPU count: 1 gpus: [1] }" },
        { "", on_gpu_7, 2, 2, GROUP("m", "KIND_MODEL", 1) },
        /* groups given: numbered, completed */
        { "instance_group [ { } , { name: 'x' } , { kind: KIND_MODEL } ]", none, 0, 0,
          GROUP("m_0", "KIND_CPU", 1) GROUP("x", "KIND_CPU", 1) GROUP("m_2", "KIND_MODEL", 1) },
        { "instance_group { count: 4 }", cpu_3, 1, 0, GROUP("m_0", "KIND_CPU", 4) },
        { "instance_group { count: -1 }", cpu_3, 1, 0, GROUP("m_0", "KIND_CPU", 3) },
        { "instance_group { kind: KIND_MODEL }", cpu_3, 1, 0, GROUP("m_0", "KIND_MODEL", 1) },
        { "backend: 'onnxruntime' instance_group { kind: KIND_MODEL }", none, 0, 0,
          "backend: 'onnxruntime' " GROUP("m_0", "KIND_MODEL", 1) },
        { "backend: 'onnxruntime' instance_group { kind: KIND_CPU }", none, 0, 0,
          "backend: 'onnxruntime' " GROUP("m_0", "KIND_CPU", 2) },
        /* KIND_AUTO */
        { "instance_group { gpus: 1 }", none, 0, 2,
          "instance_group { name: 'm_0' kind: KIND_GPU count: 1 gpus: 1 }" },
        { "instance_group { gpus: [0, 2] }", none, 0, 2,
          "instance_group { name: 'm_0' kind: KIND_CPU count: 1 gpus: [0, 2] }" },
        { "instance_group { gpus: 0 }", none, 0, 0,
          "instance_group { name: 'm_0' kind: KIND_CPU count: 1 gpus: 0 }" },
        /* KIND_GPU on a machine without */
        { "instance_group { kind: KIND_GPU }", none, 0, 0, GROUP("m_0", "KIND_GPU", 1) },
        { "instance_group { kind: KIND_GPU }", none, 0, 2,
          "instance_group { name: 'm_0' kind: KIND_GPU count: 1 gpus: [0, 1] }" },
        /* a preferred KIND_AUTO names its GPUs */
        { "", auto_on_gpu_1, 1, 2, "instance_group { name: 'm' kind: KIND_GPU count: 1 gpus: 1 }" },
        { "", auto_on_gpu_7, 1, 2, "instance_group { name: 'm' kind: KIND_CPU count: 1 gpus: 7 }" },
        { "instance_group { count: 2 }", cpu_3, 1, 2,
          "instance_group { name: 'm_0' kind: KIND_GPU count: 2 gpus: [0, 1] }" },
        /* ensembles have none */
        { "ensemble_scheduling { }", cpu_3, 1, 0, "ensemble_scheduling { }" },
};

/* The same with a backend that cannot use GPUs. */
static const struct group_row cpu_only_rows[] = {
        { "", none, 0, 2, GROUP("m", "KIND_CPU", 1) },
        { "instance_group { count: 2 }", cpu_3, 1, 2, GROUP("m_0", "KIND_CPU", 2) },
        { "instance_group { kind: KIND_GPU }", cpu_3, 1, 2,
          "instance_group { name: 'm_0' kind: KIND_GPU count: 1 gpus: [0, 1] }" },
};

static void run_group_row(const struct group_row *row, bool is_cpu_only) {
        struct config_devices devices = { .preferred = row->preferred,
                                          .n_preferred = row->n_preferred,
                                          .gpus = gpu_0_and_1,
                                          .n_gpus = row->n_gpus,
                                          .is_cpu_only = is_cpu_only };
        struct model_config  *c = config_of(row->text);
        struct model_config  *expected = config_of(row->normal);

        c->pb->name = (char *)"m";
        expected->pb->name = (char *)"m";
        for (int again = 0; again < 2; again++) {
                assert_null(model_config_normalize_groups(c, &devices));
                assert_same_config(c, expected, row->text);
        }
        model_config_free(c);
        model_config_free(expected);
}

static void test_groups(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(group_rows); i++)
                run_group_row(&group_rows[i], false);
        for (size_t i = 0; i < ARRAY_LEN(cpu_only_rows); i++)
                run_group_row(&cpu_only_rows[i], true);
}

static void test_huge_preference(void **state) {
        const struct preferred_group preferred = { CPU, UINT32_MAX, NULL, 0 };
        const struct config_devices  devices = { .preferred = &preferred, .n_preferred = 1 };
        struct model_config         *c = config_of("name: 'm'");

        (void)state;
        assert_null(model_config_normalize_groups(c, &devices));
        assert_int_equal(c->pb->instance_group[0]->count, INT32_MAX);
        model_config_free(c);
}

/* With less and less room, each addition fails once, with an error and not with the end. */
static void test_full(void **state) {
        static const char text[] = "name: 'm' max_batch_size: 4 sequence_batching { oldest { } }";
        struct error     *err;
        size_t            room = 0;

        (void)state;
        do {
                struct config_devices devices = { .n_preferred = 0 };
                struct model_config  *c = config_of(text);

                while (arena_try_alloc(&c->arena, 16) != NULL)
                        arena_set_max(&c->arena, c->arena.used_bytes);
                arena_set_max(&c->arena, c->arena.used_bytes + room);
                err = model_config_normalize(c);
                if (err == NULL)
                        err = model_config_normalize_groups(c, &devices);
                if (err != NULL)
                        assert_outcome(err, ERR_INVALID_ARG, "model configuration is too large",
                                       text);
                room += 64;
                model_config_free(c);
        } while (err != NULL);
        assert_true(room > 64);
}

SUITE(config_normalize) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_groups),
                cmocka_unit_test(test_huge_preference),
                cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
