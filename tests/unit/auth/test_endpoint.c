/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "auth/endpoint.h"

static void test_rules(void **state) {
        struct endpoint_policy      p;
        const struct endpoint_rule *rule;

        (void)state;
        endpoint_policy_init(&p);
        assert_null(endpoint_policy_add(&p, "model-repository,inference:x-key=a=b:c", "api", ""));
        assert_null(endpoint_policy_add(&p, "health:probe=", "protocol", "triton-grpc-protocol-"));
        rule = endpoint_policy_find(&p, ENDPOINT_INFERENCE);
        assert_string_equal(rule->header, "x-key");
        assert_string_equal(rule->value, "a=b:c");
        assert_string_equal(endpoint_policy_find(&p, ENDPOINT_MODEL_REPOSITORY)->value, "a=b:c");
        assert_string_equal(endpoint_policy_find(&p, ENDPOINT_HEALTH)->header,
                            "triton-grpc-protocol-probe");
        assert_null(endpoint_policy_find(&p, ENDPOINT_METADATA));
        assert_null(endpoint_policy_find(&p, ENDPOINT_NONE));
        assert_null(endpoint_policy_find(&p, N_ENDPOINT_GROUPS));
        assert_null(endpoint_policy_find(NULL, ENDPOINT_INFERENCE));

        assert_true(endpoint_rule_allows(rule, STR_LIT("a=b:c")));
        assert_false(endpoint_rule_allows(rule, STR_LIT("a=b:C")));
        assert_false(endpoint_rule_allows(rule, STR_LIT("a=b:ca=b:c")));
        assert_false(endpoint_rule_allows(rule, STR_LIT("a=b:")));
        assert_false(endpoint_rule_allows(rule, STR_LIT("")));
        assert_false(endpoint_rule_allows(rule, str_range(NULL, 0)));
        rule = endpoint_policy_find(&p, ENDPOINT_HEALTH);
        assert_true(endpoint_rule_allows(rule, STR_LIT("")));
        assert_false(endpoint_rule_allows(rule, STR_LIT("x")));
        assert_false(endpoint_rule_allows(rule, str_range(NULL, 0)));
        endpoint_policy_done(&p);
        assert_null(endpoint_policy_find(&p, ENDPOINT_INFERENCE));
}

/* A length that differs by 256 must not look equal. */
static void test_long_values(void **state) {
        static const char      text[512];
        struct endpoint_policy p;

        (void)state;
        endpoint_policy_init(&p);
        assert_null(endpoint_policy_add(&p, "health:probe=", "api", ""));
        assert_false(endpoint_rule_allows(endpoint_policy_find(&p, ENDPOINT_HEALTH),
                                          str_range(text, 256)));
        endpoint_policy_done(&p);
}

struct bad_row {
        const char *text, *want;
};

#define GROUPS                                                                                     \
        "health, metadata, inference, shared-memory, model-config, model-repository, statistics, " \
        "trace, logging"

static void test_bad_rules(void **state) {
        static const struct bad_row rows[] = {
                { "infer:k=v",
                  "unknown restricted api 'infer' (expects one of " GROUPS ", metrics)" },
                { "inference,,health:k=v",
                  "unknown restricted api '' (expects one of " GROUPS ", metrics)" },
                { "inference,inference:k=v",
                  "restricted api 'inference' can not be specified in multiple config groups" },
                { "inference", "restricted apis must be given as <group>,<group>:<header>=<value>, "
                               "got 'inference'" },
                { "inference:k", "restricted apis must be given as <group>,<group>:<header>="
                                 "<value>, got 'inference:k'" },
                { "inference:=v", "restricted apis must be given as <group>,<group>:<header>="
                                  "<value>, got 'inference:=v'" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct endpoint_policy p;
                AUTO_ERROR             err = NULL;

                endpoint_policy_init(&p);
                err = endpoint_policy_add(&p, rows[i].text, "api", "");
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, rows[i].want);
                endpoint_policy_done(&p);
        }
}

static void test_names(void **state) {
        (void)state;
        assert_string_equal(endpoint_group_name(ENDPOINT_SHARED_MEMORY), "shared-memory");
        assert_string_equal(endpoint_group_name(ENDPOINT_LOGGING), "logging");
        assert_string_equal(endpoint_group_name(ENDPOINT_NONE), "none");
        assert_string_equal(endpoint_group_name(N_ENDPOINT_GROUPS), "none");
        for (enum endpoint_group g = ENDPOINT_NONE + 1; g < N_ENDPOINT_GROUPS; g++) {
                enum endpoint_group found = ENDPOINT_NONE;

                assert_true(endpoint_group_is_valid(g));
                assert_true(endpoint_group_find(str_of(endpoint_group_name(g)), &found));
                assert_int_equal(found, g);
        }
        assert_false(endpoint_group_is_valid(ENDPOINT_NONE));
        assert_false(endpoint_group_is_valid(N_ENDPOINT_GROUPS));
        assert_string_equal(endpoint_group_name(ENDPOINT_PUBLIC), "public");
        assert_false(endpoint_group_is_valid(ENDPOINT_PUBLIC)); /* no key and no rule names it */
        assert_true(endpoint_group_is_routable(ENDPOINT_PUBLIC));
        assert_true(endpoint_group_is_routable(ENDPOINT_HEALTH));
        assert_false(endpoint_group_is_routable(ENDPOINT_NONE));
        assert_string_equal(endpoint_group_suggest(STR_LIT("inferense")), "inference");
        assert_null(endpoint_group_suggest(STR_LIT("everything")));
}

/* Metrics can be restricted where they are served. */
static void test_metrics(void **state) {
        struct endpoint_policy p;
        AUTO_ERROR             err = NULL;

        (void)state;
        endpoint_policy_init(&p);
        assert_null(endpoint_policy_add(&p, "metrics:k=v", "api", ""));
        assert_string_equal(endpoint_policy_find(&p, ENDPOINT_METRICS)->value, "v");
        endpoint_policy_done(&p);
        err = endpoint_policy_add(&p, "metrics:k=v", "protocol", "triton-grpc-protocol-");
        assert_string_equal(err->message,
                            "unknown restricted protocol 'metrics' (expects one of " GROUPS ")");
}

SUITE(endpoint) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rules),     cmocka_unit_test(test_long_values),
                cmocka_unit_test(test_bad_rules), cmocka_unit_test(test_names),
                cmocka_unit_test(test_metrics),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
