/* SPDX-License-Identifier: BSD-3-Clause */
/* The dashboard on a core and a clock of the test's own: the functions of the C API that it calls,
 * shadowing those of the library. */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "triton/core/neso.h"
#include "web/dashboard.h"
#include "web/dashboard_private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODELS 600

static struct {
        _Atomic uint64_t          now_ns; /* the sampler's thread reads it */
        struct NESO_ModelActivity models[MAX_MODELS];
        char                      names[MAX_MODELS][16];
        size_t                    n_models;
        const char               *index; /* NULL: that of the models */
        unsigned                  n_readings, n_indexes;
        NESO_ReadyWatchFn_t       changed;
        void                     *userp;
} core;

static uint64_t fake_now(void) {
        return atomic_load(&core.now_ns);
}

struct TRITONSERVER_Error *NESO_ServerModelActivity(struct TRITONSERVER_Server *server,
                                                    NESO_ModelActivityFn_t visit, void *userp) {
        (void)server;
        core.n_readings++;
        for (size_t i = 0; i < core.n_models; i++)
                visit(&core.models[i], userp);
        return NULL;
}

static char *print_index(void) {
        struct strbuf out = { 0 };

        if (core.index != NULL)
                return mem_strdup(core.index);
        strbuf_init(&out, 0);
        strbuf_putc(&out, '[');
        for (size_t i = 0; i < core.n_models; i++)
                strbuf_printf(&out, "%s{\"name\":\"%s\",\"version\":\"1\",\"state\":\"READY\"}",
                              i > 0 ? "," : "", core.models[i].model_name);
        strbuf_putc(&out, ']');
        return strbuf_take(&out);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelIndex(struct TRITONSERVER_Server   *server,
                                                         uint32_t                      flags,
                                                         struct TRITONSERVER_Message **index) {
        (void)server;
        (void)flags;
        core.n_indexes++;
        *index = (struct TRITONSERVER_Message *)(void *)print_index();
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(struct TRITONSERVER_Message *message,
                                                               const char                 **base,
                                                               size_t *byte_size) {
        *base = (const char *)message;
        *byte_size = strlen(*base);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageDelete(struct TRITONSERVER_Message *message) {
        free(message);
        return NULL;
}

struct TRITONSERVER_Error *NESO_LogRecent(uint64_t after, NESO_LogRecentFn_t line, void *userp) {
        const struct NESO_LogRecentLine at = { .number = 3,
                                               .wall_ms = 1234,
                                               .level = TRITONSERVER_LOG_ERROR,
                                               .file = "a.c",
                                               .line = 12,
                                               .message = "say \"why\"" };

        if (after < 3)
                line(&at, userp);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ReadyWatchNew(struct NESO_ReadyWatch    **watch,
                                              struct TRITONSERVER_Server *server,
                                              NESO_ReadyWatchFn_t changed, void *userp) {
        (void)server;
        *watch = (struct NESO_ReadyWatch *)(void *)&core;
        core.changed = changed;
        core.userp = userp;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ReadyWatchDelete(struct NESO_ReadyWatch *watch) {
        (void)watch;
        return NULL;
}

/* ---- */

static void add_model(const char *name) {
        size_t i = core.n_models++;

        snprintf(core.names[i], sizeof(core.names[i]), "%s", name);
        core.models[i] = (struct NESO_ModelActivity){ .model_name = core.names[i],
                                                      .model_version = 1,
                                                      .n_instances = 2 };
}

/* n requests of about 21 us in each phase, one row each. */
static void serve(size_t model, uint64_t n) {
        struct NESO_ModelActivity *a = &core.models[model];

        a->success += n;
        a->executions += n;
        a->executed_inferences += n;
        a->busy_ns += n * NS_PER_MS;
        for (unsigned phase = 0; phase < NESO_PHASES; phase++) {
                a->latency[phase][2] += n;
                a->phase_ns[phase] += n * (21000 + phase);
        }
}

static struct dashboard *begin(void) {
        memset(&core, 0, sizeof(core));
        atomic_store(&core.now_ns, 1000 * NS_PER_S);
        return dashboard_new(&(struct dashboard_options){ .now_ns = fake_now });
}

static void pass(uint64_t ms) {
        atomic_fetch_add(&core.now_ns, ms * NS_PER_MS);
}

static void ask(struct dashboard *d, const struct dashboard_question *q, struct strbuf *out) {
        strbuf_clear(out);
        assert_null(dashboard_print(d, q, out));
}

static void expect(const struct strbuf *out, const char *part) {
        if (strstr(strbuf_cstr(out), part) == NULL)
                fail_msg("%s\nis not in\n%s", part, strbuf_cstr(out));
}

static void sample(struct dashboard *d) {
        mutex_lock(&d->lock);
        assert_null(dashboard_sample_locked(d));
        mutex_unlock(&d->lock);
}

static const struct dashboard_question everything;

static void test_an_answer_has_what_changed(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        add_model("a");
        add_model("b");
        pass(1000);
        ask(d, &everything, &out);
        expect(&out, "\"seq\":1,\"full\":true,\"window_ms\":1000");
        expect(&out, "\"models\":[[0,\"a\",\"1\",\"READY\",\"\"],[1,\"b\",\"1\",\"READY\",\"\"]]");

        serve(1, 10);
        pass(1000);
        ask(d, &(struct dashboard_question){ .since = 1 }, &out);
        expect(&out, "\"seq\":2,\"full\":false,\"window_ms\":1000");
        expect(&out, "\"models\":[],\"gone\":[]");
        /* Ten requests, ten executions of ten rows; ten milliseconds of a second; 30, 39 and 39 us. */
        expect(&out, "\"rows\":[[1,10,0,0,0,0,10,10,0,0,0,9,2,0,30,39,39,");
        /* The total and the means, which are exact. */
        expect(&out, ",10,0,21000,21001,21002,21003,21004]]");

        pass(1000); /* the rate of b ends */
        ask(d, &(struct dashboard_question){ .since = 2 }, &out);
        expect(&out, "\"rows\":[[1,0,0,0,0,0,0,0,0,0,0,0,2,0,0,0,0,");
        pass(1000);
        ask(d, &(struct dashboard_question){ .since = 3 }, &out);
        expect(&out, "\"rows\":[]");
        dashboard_free(d);
}

static void test_pages_share_a_reading(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        add_model("a");
        pass(1000);
        for (unsigned i = 0; i < 10; i++) {
                ask(d, &everything, &out);
                pass(10);
        }
        assert_int_equal(core.n_readings, 1);
        pass(1000);
        ask(d, &everything, &out);
        assert_int_equal(core.n_readings, 2);
        dashboard_free(d);
}

static void test_a_failed_load_shows_its_reason(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        assert_null(dashboard_start(d));
        pass(1000);
        core.index = "[{\"name\":\"x\"}]";
        ask(d, &everything, &out);
        expect(&out, "\"models\":[[0,\"x\",\"\",\"\",\"\"]]");

        core.index = "[{\"name\":\"x\",\"version\":\"2\",\"state\":\"UNAVAILABLE\",\"reason\":"
                     "\"no \\\"file\\\"\"}]";
        core.changed(core.userp);
        pass(60); /* a page that has loaded a model needs not wait for the next reading */
        ask(d, &(struct dashboard_question){ .since = 1 }, &out);
        expect(&out, "\"models\":[[1,\"x\",\"2\",\"UNAVAILABLE\",\"no \\\"file\\\"\"]]");
        expect(&out, "\"gone\":[0]");
        assert_int_equal(core.n_indexes, 2);

        pass(1000); /* nothing changed: the index is not read again */
        ask(d, &(struct dashboard_question){ .since = 2 }, &out);
        assert_int_equal(core.n_indexes, 2);
        pass(5000); /* but some time later, for new directories */
        ask(d, &(struct dashboard_question){ .since = 3 }, &out);
        assert_int_equal(core.n_indexes, 3);
        dashboard_free(d);
}

/* The index is of pages alone; the first one must not wait for it. */
static void test_the_first_page_sees_all_models_even_after_a_sample(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        core.index = "[{\"name\":\"x\"}]";
        pass(5000);
        sample(d);
        pass(10);
        ask(d, &everything, &out);
        expect(&out, "\"models\":[[0,\"x\",\"\",\"\",\"\"]]");
        dashboard_free(d);
}

/* A page that was away for long gets all that there is, and not what went long ago. */
static void test_old_pages_begin_anew(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        pass(1000);
        core.index = "[{\"name\":\"x\"},{\"name\":\"y\"}]";
        ask(d, &everything, &out);
        core.index = "[{\"name\":\"y\"}]";
        for (unsigned i = 0; i < 100; i++) {
                pass(5000);
                ask(d, &(struct dashboard_question){ .since = 50 }, &out);
        }
        ask(d, &(struct dashboard_question){ .since = 1 }, &out);
        expect(&out, "\"full\":true");
        expect(&out, "\"models\":[[1,\"y\",\"\",\"\",\"\"]],\"gone\":[]");
        assert_int_equal(d->n_models, 1);
        dashboard_free(d);
}

static bool sees_a(void *owner, struct str model) {
        (void)owner;
        return str_is(model, "a");
}

static void test_other_models_are_left_out(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        add_model("a");
        add_model("b");
        serve(0, 1);
        serve(1, 1);
        pass(1000);
        ask(d, &(struct dashboard_question){ .sees = sees_a }, &out);
        expect(&out, "\"models\":[[0,\"a\",\"1\",\"READY\",\"\"]],\"gone\":[],\"rows\":[[0,");
        assert_null(strstr(strbuf_cstr(&out), "\"b\""));
        assert_null(strstr(strbuf_cstr(&out), ",[1,"));
        dashboard_free(d);
}

static void test_the_log_is_there_when_permitted(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        ask(d, &everything, &out);
        assert_null(strstr(strbuf_cstr(&out), "\"log\""));
        ask(d, &(struct dashboard_question){ .with_log = true }, &out);
        expect(&out, "\"log\":[[3,1234,\"error\",\"a.c:12\",\"say \\\"why\\\"\"]]}");
        ask(d, &(struct dashboard_question){ .with_log = true, .log_since = 3 }, &out);
        expect(&out, "\"log\":[]}");
        dashboard_free(d);
}

static void expect_history(struct dashboard *d, const char *model, const char *part) {
        AUTO_STRBUF out = { 0 };

        strbuf_init(&out, 0);
        assert_null(dashboard_print_history(d, str_of(model), STR_LIT("1"), &out));
        expect(&out, part);
}

static void test_the_history_has_samples_of_models_with_requests(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };
        AUTO_ERROR        err = NULL;

        (void)state;
        strbuf_init(&out, 0);
        add_model("a");
        add_model("idle");
        serve(0, 100);
        pass(5000);
        sample(d);
        pass(5000);
        sample(d);
        serve(0, 50);
        pass(5000);
        sample(d);
        expect_history(d, "a", "\"period_s\":5");
        /* 100 ms of five seconds; 30, 39 and 39 us */
        expect_history(d, "a", "\"samples\":[[100,0,100,100,0,19,0,30,39,39,39,39],0,[50,0,");
        expect_history(d, "idle", "\"samples\":[0,0,0]");
        expect_history(d, "", "\"samples\":[[100,0,");
        assert_int_equal(d->n_histories, 1);

        for (unsigned i = 0; i < SAMPLE_RING_LENGTH; i++) {
                pass(5000);
                sample(d);
        }
        assert_int_equal(d->n_histories, 0); /* nothing for 15 minutes */
        err = dashboard_print_history(d, STR_LIT("none"), STR_LIT("1"), &out);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        dashboard_free(d);
}

/* A model that was loaded again counts from zero. */
static void test_a_reload_makes_no_huge_numbers(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        add_model("a");
        serve(0, 100);
        pass(1000);
        ask(d, &everything, &out);
        core.n_models = 0;
        add_model("a");
        serve(0, 7);
        pass(1000);
        ask(d, &(struct dashboard_question){ .since = 1 }, &out);
        expect(&out, "\"rows\":[[0,7,0,0,0,0,7,7,");
        expect(&out, ",7,0,21000,21001,21002,21003,21004]]");

        core.n_models = 0; /* unloaded */
        core.index = "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"UNAVAILABLE\"}]";
        pass(5000);
        ask(d, &(struct dashboard_question){ .since = 2 }, &out);
        expect(&out, "\"models\":[[0,\"a\",\"1\",\"UNAVAILABLE\",\"\"]]");
        expect(&out, "\"rows\":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,");
        dashboard_free(d);
}

static void test_many_models(void **state) {
        struct dashboard *d = begin();
        AUTO_STRBUF       out = { 0 };
        char              name[16];

        (void)state;
        strbuf_init(&out, 0);
        for (unsigned i = 0; i < MAX_MODELS; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                add_model(name);
        }
        pass(1000);
        ask(d, &everything, &out);
        expect(&out, "[599,\"m599\",\"1\",\"READY\",\"\"]]");
        pass(1000);
        ask(d, &(struct dashboard_question){ .since = 1 }, &out);
        assert_in_range(out.len, 1, 500); /* nothing changed */
        dashboard_free(d);
}

SUITE(dashboard) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_answer_has_what_changed),
                cmocka_unit_test(test_pages_share_a_reading),
                cmocka_unit_test(test_a_failed_load_shows_its_reason),
                cmocka_unit_test(test_the_first_page_sees_all_models_even_after_a_sample),
                cmocka_unit_test(test_old_pages_begin_anew),
                cmocka_unit_test(test_other_models_are_left_out),
                cmocka_unit_test(test_the_log_is_there_when_permitted),
                cmocka_unit_test(test_the_history_has_samples_of_models_with_requests),
                cmocka_unit_test(test_a_reload_makes_no_huge_numbers),
                cmocka_unit_test(test_many_models),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
