/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/host_policy.h"
#include "base/mem.h"
#include "infer/fake_model.h"

#include <stdio.h>

#define SETTINGS(...) ((const struct setting[]){ __VA_ARGS__ })
#define NEW(ret, ...)                                                                              \
        host_policies_new(&(struct host_policies_options){ .settings = SETTINGS(__VA_ARGS__),      \
                                                           .n_settings = ARRAY_LEN(                \
                                                                   SETTINGS(__VA_ARGS__)) },       \
                          ret)

/* The first core that this thread may use. */
static size_t first_core(void) {
        struct placement here;
        size_t           core = 0;

        assert_ok(placement_get(&here, false), "here");
        while (!CPU_ISSET_S(core, sizeof(here.cores), here.cores))
                core++;
        return core;
}

static void assert_printed(const struct host_policies *policies, const char *name,
                           const char *expected) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        host_policies_print(policies, name, &text);
        assert_string_equal(strbuf_cstr(&text), expected);
}

static void test_none(void **state) {
        struct host_policies *policies = (struct host_policies *)(uintptr_t)1;

        (void)state;
        assert_ok(host_policies_new(&(struct host_policies_options){ 0 }, &policies), "none");
        assert_null(policies);
        assert_false(host_policies_has(NULL, "cpu"));
        assert_null(host_policies_place(NULL, "cpu"));
        assert_printed(NULL, "cpu", "{\"cpu\":{}}");
        assert_printed(NULL, "a\"b", "{\"a\\\"b\":{}}");
        host_policies_free(NULL);
}

static void test_settings(void **state) {
        AUTO_CHARS              core = mem_printf("%zu", first_core());
        AUTO_CHARS              twice = mem_printf("%zu-%zu", first_core(), first_core());
        AUTO_CHARS              expected = mem_printf("{\"one\":{\"cpu-cores\":\"%s\"}}", core);
        struct host_policies   *policies;
        const struct placement *one, *two, *other;

        (void)state;
        assert_ok(NEW(&policies, { "one", "cpu-cores", "8191" }, { "two", "cpu-cores", twice },
                      { "one", "cpu-cores", core }),
                  "new");
        assert_true(host_policies_has(policies, "one"));
        assert_true(host_policies_has(policies, "two"));
        assert_false(host_policies_has(policies, "cpu"));
        /* The last one of a setting holds. */
        assert_printed(policies, "one", expected);
        assert_printed(policies, "cpu", "{\"cpu\":{}}");
        one = host_policies_place(policies, "one");
        two = host_policies_place(policies, "two");
        other = host_policies_place(policies, "cpu");
        assert_int_equal(CPU_COUNT_S(sizeof(one->cores), one->cores), 1);
        assert_memory_equal(one->cores, two->cores, sizeof(one->cores));
        assert_ptr_not_equal(one, two);

        /* Who has none of them goes where this thread is. */
        struct placement here;

        assert_ok(placement_get(&here, false), "here");
        assert_true(other->has_cores);
        assert_false(other->has_memory);
        assert_memory_equal(other->cores, here.cores, sizeof(here.cores));
        host_policies_free(policies);
}

static void test_settings_that_are_wrong(void **state) {
        static const struct {
                const char     *name, *value;
                enum error_code code;
                const char     *text;
        } rows[] = {
                { "cores", "0", ERR_UNSUPPORTED,
                  "Unsupported host policy setting 'cores' is specified, supported settings are "
                  "'numa-node', 'cpu-cores'" },
                { "cpu-cores", "0-x", ERR_INVALID_ARG,
                  "host policy 'mine': cpu-cores=0-x: '0-x' is not a core below 8192 or a range of "
                  "cores, as in 0-3,8" },
                { "cpu-cores", "8191", ERR_INVALID_ARG,
                  "host policy 'mine': core 8191 is not there, or this process may not use it" },
                { "numa-node", "zero", ERR_INVALID_ARG,
                  "host policy 'mine': numa-node=zero: 'zero' is not a number of a NUMA node below "
                  "1024" },
                { "numa-node", "1023", ERR_INVALID_ARG,
                  "host policy 'mine': numa-node=1023: this machine has no NUMA node 1023" },
        };
        AUTO_CHARS core = mem_printf("%zu", first_core());

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct host_policies *policies = NULL;

                assert_error(NEW(&policies, { "other", "cpu-cores", core },
                                 { "mine", rows[i].name, rows[i].value }),
                             rows[i].code, rows[i].text);
                assert_null(policies);
        }
}

static void test_names(void **state) {
        static const struct {
                Inference__ModelInstanceGroup__Kind kind;
                const char                         *given, *expected;
        } rows[] = {
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU, "", "cpu" },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU, NULL, "cpu" },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU, "", "gpu_3" },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL, "", "model" },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU, "mine", "mine" },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU, "mine", "mine" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                Inference__ModelInstanceGroup group = INFERENCE__MODEL_INSTANCE_GROUP__INIT;

                group.kind = rows[i].kind;
                group.host_policy = (char *)(uintptr_t)rows[i].given;
                AUTO_CHARS name = host_policy_name(&group, 3);

                assert_string_equal(name, rows[i].expected);
        }
}

SUITE(host_policy) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_none),
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_settings_that_are_wrong),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
