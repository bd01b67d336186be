/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "auth/admission.h"
#include "base/compiler.h"
#include "base/thread.h"

#include <string.h>

static void add(struct admission *a, const char *text) {
        assert_null(admission_add(a, text));
}

static bool enters(struct admission *a, const char *model, uint64_t bytes,
                   struct admission_pass *pass) {
        struct error *err = admission_enter(a, model, bytes, pass);

        if (err == NULL)
                return true;
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        error_free(err);
        return false;
}

static void expect_refusal(struct admission *a, const char *model, uint64_t bytes,
                           const char *text) {
        struct admission_pass pass = { 0 };
        struct error         *err = admission_enter(a, model, bytes, &pass);

        assert_non_null(err);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_string_equal(err->message, text);
        assert_null(pass.all);
        error_free(err);
}

static void test_bad_texts(void **state) {
        static const char *const rows[] = {
                "",          "requests",       "requests=",    "requests=0", "requests=-1",
                "request=1", "requests=1x",    ",requests=1",  "m,requests", "m,=1",
                "m,n=1",     "m,n,requests=1", "requests=1,m", "m",          "=1",
                "bytes= 1",  "m;requests=1",   "Requests=1",
        };
        struct admission a;

        (void)state;
        admission_init(&a);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error *err = admission_add(&a, rows[i]);

                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_non_null(strstr(err->message, "[<model>,]requests=<n>"));
                error_free(err);
        }
        assert_int_equal(a.n_models, 0);
        admission_done(&a);
}

static void test_given_twice(void **state) {
        static const struct {
                const char *text, *error;
        } rows[] = {
                { "bytes=9", "the limit 'bytes' of what is in flight is given twice" },
                { "m,requests=5", "the limit 'm,requests' of what is in flight is given twice" },
        };
        struct admission a;

        (void)state;
        admission_init(&a);
        add(&a, "bytes=9");
        add(&a, "m,requests=7");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error *err = admission_add(&a, rows[i].text);

                assert_non_null(err);
                assert_string_equal(err->message, rows[i].error);
                error_free(err);
        }
        admission_done(&a);
}

static void test_requests(void **state) {
        struct admission_pass passes[3] = { 0 };
        struct admission      a;

        (void)state;
        admission_init(&a);
        add(&a, "requests=2");
        assert_true(enters(&a, "m", 100, &passes[0]));
        assert_true(enters(&a, "n", 0, &passes[1]));
        expect_refusal(&a, "m", 0, "too many requests in flight, the limit is 2");
        admission_leave(&passes[0]);
        admission_leave(&passes[0]); /* has left already */
        assert_true(enters(&a, "m", 0, &passes[2]));
        expect_refusal(&a, "m", 0, "too many requests in flight, the limit is 2");
        admission_leave(&passes[1]);
        admission_leave(&passes[2]);
        admission_done(&a);
}

static void test_bytes(void **state) {
        struct admission_pass passes[2] = { 0 };
        struct admission      a;

        (void)state;
        admission_init(&a);
        add(&a, "bytes=100");
        expect_refusal(&a, "m", 101, "too many bytes in flight, the limit is 100");
        expect_refusal(&a, "m", UINT64_MAX, "too many bytes in flight, the limit is 100");
        assert_true(enters(&a, "m", 60, &passes[0]));
        expect_refusal(&a, "m", 41, "too many bytes in flight, the limit is 100");
        expect_refusal(&a, "m", UINT64_MAX - 10, "too many bytes in flight, the limit is 100");
        assert_true(enters(&a, "m", 40, &passes[1]));
        admission_leave(&passes[0]);
        admission_leave(&passes[1]);
        assert_true(enters(&a, "m", 100, &passes[0]));
        admission_leave(&passes[0]);
        admission_done(&a);
}

/* Who is refused at one gate has taken nothing at the other. */
static void test_models(void **state) {
        struct admission_pass passes[4] = { 0 };
        struct admission      a;

        (void)state;
        admission_init(&a);
        add(&a, "b,requests=1");
        add(&a, "ab,bytes=10");
        add(&a, "a,requests=2");
        add(&a, "requests=3");
        add(&a, "b,bytes=5");
        assert_int_equal(a.n_models, 3);
        assert_true(enters(&a, "b", 5, &passes[0]));
        expect_refusal(&a, "b", 0, "too many requests in flight for model 'b', the limit is 1");
        expect_refusal(&a, "ab", 11, "too many bytes in flight for model 'ab', the limit is 10");
        assert_true(enters(&a, "a", 1000, &passes[1]));
        assert_true(enters(&a, "a", 1000, &passes[2]));
        expect_refusal(&a, "a", 0, "too many requests in flight for model 'a', the limit is 2");
        expect_refusal(&a, "ab", 10, "too many requests in flight, the limit is 3");
        admission_leave(&passes[1]);
        assert_true(enters(&a, "ab", 10, &passes[3]));
        expect_refusal(&a, "other", 0, "too many requests in flight, the limit is 3");
        for (size_t i = 0; i < ARRAY_LEN(passes); i++)
                admission_leave(&passes[i]);
        assert_int_equal(a.all.requests.in_flight, 0);
        assert_int_equal(a.all.bytes.in_flight, 0);
        for (size_t i = 0; i < a.n_models; i++) {
                assert_int_equal(a.models[i].requests.in_flight, 0);
                assert_int_equal(a.models[i].bytes.in_flight, 0);
        }
        admission_done(&a);
}

static void test_without(void **state) {
        struct admission_pass pass = { 0 };

        (void)state;
        assert_true(enters(NULL, "m", UINT64_MAX, &pass));
        admission_leave(&pass);
}

static void count(void *owner, const char *limit) {
        size_t *n = owner;

        n[strcmp(limit, "bytes_in_flight") == 0]++;
        assert_true(limit[0] == 'b' || strcmp(limit, "requests_in_flight") == 0);
}

static void test_counting(void **state) {
        size_t                n[2] = { 0, 0 };
        struct admission_pass pass = { 0 };
        struct admission      a;

        (void)state;
        admission_init(&a);
        a.on_rejected = count;
        a.owner = n;
        add(&a, "requests=1");
        add(&a, "m,bytes=3");
        assert_false(enters(&a, "m", 4, &pass));
        assert_true(enters(&a, "m", 3, &pass));
        assert_false(enters(&a, "x", 0, &(struct admission_pass){ 0 }));
        assert_false(enters(&a, "x", 0, &(struct admission_pass){ 0 }));
        assert_int_equal(n[0], 2);
        assert_int_equal(n[1], 1);
        admission_leave(&pass);
        admission_done(&a);
}

#define N_ROUNDS 20000

struct crowd {
        struct admission a;
        _Atomic size_t   n_inside, n_too_many, n_entered;
};

static void hurry(void *owner) {
        struct crowd         *c = owner;
        struct admission_pass pass = { 0 };

        for (int i = 0; i < N_ROUNDS; i++) {
                struct error *err = admission_enter(&c->a, "m", 7, &pass);

                if (err != NULL) {
                        error_free(err);
                        continue;
                }
                c->n_entered++;
                if (atomic_fetch_add(&c->n_inside, 1) >= 2)
                        c->n_too_many++;
                c->n_inside--;
                admission_leave(&pass);
        }
}

static void test_threads(void **state) {
        struct thread threads[4];
        struct crowd  crowd = { 0 };

        (void)state;
        admission_init(&crowd.a);
        add(&crowd.a, "requests=3");
        add(&crowd.a, "m,bytes=20"); /* two of 7 */
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                assert_null(thread_start(&threads[i], "hurry", hurry, &crowd));
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                thread_join(&threads[i]);
        assert_int_equal(crowd.n_too_many, 0);
        assert_true(crowd.n_entered > 0);
        assert_int_equal(crowd.a.all.requests.in_flight, 0);
        assert_int_equal(crowd.a.models[0].bytes.in_flight, 0);
        admission_done(&crowd.a);
}

SUITE(admission) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bad_texts), cmocka_unit_test(test_given_twice),
                cmocka_unit_test(test_requests),  cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_models),    cmocka_unit_test(test_without),
                cmocka_unit_test(test_counting),  cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
