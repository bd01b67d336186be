/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/migrate_command.h"

static struct temp_tree    repository;
static struct log_settings log_before;

static int make_repository(void **state) {
        (void)state;
        repository = temp_tree_make();
        log_get_settings(&log_before);
        return 0;
}

static int remove_repository(void **state) {
        (void)state;
        log_set_settings(&log_before);
        temp_tree_remove(&repository);
        return 0;
}

static void read_text(const char *text, struct migrated_command *ret) {
        struct error *err = migrate_command_read(text, repository.path, ret);

        if (err != NULL)
                fail_msg("%s: %s", text, err->message);
}

/* The verdict on the only option of the text, and a part of its reason; "" for none. */
static void assert_option(const char *text, enum migrate_verdict verdict, const char *why) {
        struct migrated_command c;
        const char             *got;

        read_text(text, &c);
        if (c.n_items != 1)
                fail_msg("%s: %zu options", text, c.n_items);
        got = c.items[0].why != NULL ? c.items[0].why : "";
        if (c.items[0].verdict != verdict ||
            (*why == '\0' ? *got != '\0' : strstr(got, why) == NULL))
                fail_msg("%s: %s: %s", text, migrate_verdict_name(c.items[0].verdict), got);
        assert_int_equal(c.verdict, verdict);
        assert_null(c.problem);
        assert_true(c.items[0].is_left_out || verdict != MIGRATE_MISSING);
        migrate_command_done(&c);
}

static void test_verdicts(void **state) {
        (void)state;
        assert_option("--http-port=9000", MIGRATE_WORKS, "");
        assert_option("--http-port 9000", MIGRATE_WORKS, "");
        assert_option("--model-store /models", MIGRATE_WORKS, "");
        assert_option("--allow-sagemaker=false", MIGRATE_WORKS, "");
        assert_option("--sagemaker-port=8080", MIGRATE_WORKS, "");
        assert_option("--pinned-memory-pool-byte-size=1", MIGRATE_WORKS, "");
        assert_option("--cuda-memory-pool-byte-size=0:1", MIGRATE_WORKS, "");
        assert_option("--model-load-gpu-limit=0:0.5", MIGRATE_WORKS, "");
        assert_option("--buffer-manager-thread-count=1", MIGRATE_DIFFERS, "has no effect");
        assert_option("--grpc-infer-thread-count=4", MIGRATE_DIFFERS, "event loops");
        assert_option("--http-prot=1", MIGRATE_MISSING, "did you mean '--http-port'?");
        assert_option("--openai-frontend=x", MIGRATE_MISSING, "unrecognized option");
        assert_option("--openai-frontend x", MIGRATE_MISSING, "unrecognized option");
        assert_option("--http-port=99999", MIGRATE_MISSING, "out of range");
        assert_option("--http-port", MIGRATE_MISSING, "needs a value");
        assert_option("models", MIGRATE_MISSING, "Unexpected argument");
        assert_option("--backend-directory=/no/such/place", MIGRATE_DIFFERS, "no directory");
}

/* What only a start finds out. */
static void test_verdicts_of_a_start(void **state) {
        (void)state;
        assert_option("--log-format=xml", MIGRATE_MISSING, "--log-format");
        assert_option("--metrics-config=summary_latencies=true", MIGRATE_MISSING, "summaries");
        assert_option("--rate-limit-resource=R", MIGRATE_MISSING, "rate-limit-resource");
        assert_option("--http-restricted-api=none:a=b", MIGRATE_MISSING, "none");
        assert_option("--grpc-restricted-protocol=none:a=b", MIGRATE_MISSING, "none");
        assert_option("--http-header-forward-pattern='('", MIGRATE_MISSING, "(");
        assert_option("--trace-config=colour=red", MIGRATE_MISSING, "unknown trace setting");
        assert_option("--model-repository=s3://bucket/models", MIGRATE_WORKS, "is not asked");
        assert_option("--cache-config=redis,host=x", MIGRATE_MISSING, "redis");
        assert_option("--load-model=a", MIGRATE_MISSING, "--model-control-mode=explicit");
}

static void test_values_that_are_not_expanded(void **state) {
        (void)state;
        assert_option("--http-port=$PORT", MIGRATE_WORKS, "not expanded");
        assert_option("--model-repository \"${HOME}/models\"", MIGRATE_WORKS, "not expanded");
}

static void assert_command(const char *text, const char *expected) {
        AUTO_STRBUF             out = { 0 };
        struct migrated_command c;

        strbuf_init(&out, 0);
        read_text(text, &c);
        migrate_command_put(&c, &out);
        assert_string_equal(strbuf_cstr(&out), expected);
        migrate_command_done(&c);
}

static void test_new_command_line(void **state) {
        AUTO_CHARS usual = mem_printf("neso serve \\\n  --model-repository=%s", repository.path);

        (void)state;
        assert_command("", usual);
        assert_command("tritonserver", usual);
        assert_command("--model-store /m", "neso serve \\\n  --model-repository=/m");
        assert_command("docker run -p 80:8000 -e A=b image:tritonserver "
                       "/opt/tritonserver/bin/tritonserver --model-repository /m",
                       "neso serve \\\n  --model-repository=/m");
        assert_command("--model-repository=/m --log-verb 1 --log-format xml "
                       "--buffer-manager-thread-count=1 --disable-auto-complete-config",
                       "neso serve \\\n  --model-repository=/m \\\n  --log-verbose=1 \\\n"
                       "  --disable-auto-complete-config");
        assert_command("--model-repository \"$M/x\" --model-control-mode explicit --load-model '*'",
                       "neso serve \\\n  --model-repository \"$M/x\" \\\n"
                       "  --model-control-mode=explicit \\\n  '--load-model=*'");
}

/* Two mistakes in one line: each is found, and the others stay. */
static void test_several(void **state) {
        struct migrated_command c;

        (void)state;
        read_text("tritonserver --model-repository=/m --log-format=xml --http-port=1 "
                  "--cache-config=redis,host=x --grpc-port=2",
                  &c);
        assert_int_equal(c.n_items, 5);
        assert_int_equal(c.items[0].verdict, MIGRATE_WORKS);
        assert_int_equal(c.items[1].verdict, MIGRATE_MISSING);
        assert_int_equal(c.items[2].verdict, MIGRATE_WORKS);
        assert_int_equal(c.items[3].verdict, MIGRATE_MISSING);
        assert_int_equal(c.items[4].verdict, MIGRATE_WORKS);
        assert_int_equal(c.options.http_port, 1);
        assert_int_equal(c.n_before, 1);
        migrate_command_done(&c);
}

static void test_two_that_collide(void **state) {
        struct migrated_command c;

        (void)state;
        read_text("--http-port=7 --grpc-port=7", &c);
        assert_int_equal(c.verdict, MIGRATE_MISSING);
        assert_int_equal(c.items[0].verdict, MIGRATE_MISSING);
        assert_non_null(strstr(c.items[0].why, "at the same address and port"));
        assert_int_equal(c.items[1].verdict, MIGRATE_WORKS);
        migrate_command_done(&c);
}

static void test_no_command_line(void **state) {
        struct migrated_command c;
        AUTO_ERROR              err = migrate_command_read("--id='x", repository.path, &c);

        (void)state;
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "a quote ' without its end at character 6");
}

SUITE(migrate_command) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_verdicts),
                cmocka_unit_test(test_verdicts_of_a_start),
                cmocka_unit_test(test_values_that_are_not_expanded),
                cmocka_unit_test(test_new_command_line),
                cmocka_unit_test(test_several),
                cmocka_unit_test(test_two_that_collide),
                cmocka_unit_test(test_no_command_line),
        };

        return cmocka_run_group_tests(tests, make_repository, remove_repository);
}
