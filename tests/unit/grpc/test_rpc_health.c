/* SPDX-License-Identifier: BSD-3-Clause */
/* Health/Watch and Check against a core, and a loop's timer, that do what the test wants. */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_methods.h"
#include "health.pb-c.h"
#include "http/fake_control.h"
#include "net/loop.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool cannot_watch;

/* The one watch of a test; NULL when there is none. */
static NESO_ReadyWatchFn_t on_change;
static void               *on_change_userp;

struct TRITONSERVER_Error *NESO_ReadyWatchNew(struct NESO_ReadyWatch    **watch,
                                              struct TRITONSERVER_Server *s,
                                              NESO_ReadyWatchFn_t changed, void *userp) {
        (void)s;
        if (cannot_watch)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no watch");
        assert_null(on_change);
        on_change = changed;
        on_change_userp = userp;
        *watch = (struct NESO_ReadyWatch *)(void *)&on_change;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ReadyWatchDelete(struct NESO_ReadyWatch *watch) {
        assert_ptr_equal(watch, &on_change);
        assert_non_null(on_change);
        on_change = NULL;
        return NULL;
}

static void change(void) {
        on_change(on_change_userp);
}

static int setup(void **state) {
        (void)state;
        fake_control.is_live = fake_control.is_ready = true;
        fake_control.is_exiting = fake_control.asks_backends = cannot_watch = false;
        fake_call_init();
        return 0;
}

static int teardown(void **state) {
        (void)state;
        assert_null(on_change);
        fake_call_done();
        return 0;
}

static int reported(size_t n) {
        struct strbuf                         *sent = &fake_call.messages[n];
        Grpc__Health__V1__HealthCheckResponse *m;
        int                                    status;

        assert_true(n < fake_call.n_messages);
        m = grpc__health__v1__health_check_response__unpack(NULL, sent->len,
                                                            (const uint8_t *)strbuf_cstr(sent));
        assert_non_null(m);
        status = (int)m->status;
        grpc__health__v1__health_check_response__free_unpacked(m, NULL);
        return status;
}

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING

static void watch_tells_changes(void **state) {
        (void)state;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        assert_int_equal(fake_call.n_messages, 1);
        assert_int_equal(reported(0), SERVING);
        change(); /* of something else */
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 1);
        fake_control.is_ready = false;
        change();
        change(); /* the second finds a look on its way */
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 2);
        assert_int_equal(reported(1), NOT_SERVING);
        rpc_health_end_watch(&fake_call.call);
        assert_int_equal(fake_call.code, GRPC_CANCELLED);
}

/* Backends announce no change: they are asked on a work thread, again and again. */
static void watch_asks_backends_now_and_then(void **state) {
        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        assert_int_equal(fake_call.n_messages, 0);
        fake_call_run_work();
        assert_int_equal(reported(0), SERVING);
        fake_call_let_time_pass();
        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 1);
        fake_control.is_ready = false;
        fake_call_let_time_pass();
        fake_call.has_no_timers = true; /* no memory: changes are told all the same */
        fake_call_run_work();
        assert_int_equal(reported(1), NOT_SERVING);
        assert_null(fake_call.timer);
        fake_control.is_ready = true;
        change();
        fake_call_deliver();
        fake_call_run_work();
        assert_int_equal(reported(2), SERVING);
        rpc_health_end_watch(&fake_call.call);
}

/* Nothing is polled while the core knows the answer. */
static void watch_without_such_backends(void **state) {
        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        fake_call_run_work();
        assert_non_null(fake_call.timer);
        fake_control.asks_backends = false; /* that model was unloaded */
        change();
        fake_call_deliver();
        assert_null(fake_call.timer);
        assert_null(fake_call.work);
        rpc_health_end_watch(&fake_call.call);
}

/* What has changed meanwhile counts, not what a backend has said before. */
static void watch_of_a_change_while_a_backend_is_asked(void **state) {
        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        fake_call_run_work();
        fake_call_let_time_pass();
        fake_control.asks_backends = fake_control.is_ready = false; /* a model has failed */
        change();
        fake_call_deliver();
        assert_int_equal(reported(1), NOT_SERVING);
        fake_control.is_ready = true; /* for the query that began before */
        fake_control.asks_backends = true;
        change();
        fake_call_deliver();
        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 2);
        fake_call_run_work(); /* once more, after the change */
        assert_int_equal(reported(2), SERVING);
        rpc_health_end_watch(&fake_call.call);
}

/* The client has its status at once, though the call waits for the thread. */
static void watch_ends_while_a_backend_is_asked(void **state) {
        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        fake_control.is_exiting = true;
        change();
        fake_call_deliver();
        assert_int_equal(reported(0), NOT_SERVING);
        assert_true(fake_call.is_concluded);
        assert_int_equal(fake_call.code, GRPC_UNAVAILABLE);
        assert_int_equal(fake_call.n_finished, 0);
        rpc_health_end_watch(&fake_call.call); /* and the client goes */
        fake_call_run_work();
        assert_int_equal(fake_call.n_finished, 1);
}

static void aborted_while_a_backend_is_asked(void **state) {
        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        rpc_health_end_watch(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_run_work();
        assert_int_equal(fake_call.code, GRPC_CANCELLED);
        assert_int_equal(fake_call.n_messages, 0);
}

/* The system starts no thread: the state stays what it was, until the next query. */
static void watch_without_a_thread(void **state) {
        struct loop_work *w;

        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        fake_call_run_work();
        fake_call_let_time_pass();
        w = STEAL(fake_call.work);
        w->refuse(w, error_new(ERR_UNAVAILABLE, "no thread"));
        w->done(w);
        assert_int_equal(fake_call.n_finished, 0);
        fake_control.is_ready = false;
        fake_call_let_time_pass();
        fake_call_run_work();
        assert_int_equal(reported(1), NOT_SERVING);
        rpc_health_end_watch(&fake_call.call);
}

static void watch_ends_with_the_server(void **state) {
        (void)state;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        fake_control.is_exiting = true;
        change();
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 2);
        assert_int_equal(reported(1), NOT_SERVING);
        assert_int_equal(fake_call.code, GRPC_UNAVAILABLE);
        assert_string_equal(strbuf_cstr(&fake_call.text), "Server exiting");
}

/* The timer sees the end first, and a look is on its way. */
static void watch_ends_with_a_look_on_its_way(void **state) {
        (void)state;
        fake_control.asks_backends = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        fake_call_run_work();
        fake_control.is_exiting = true;
        change();
        fake_call_let_time_pass();
        assert_int_equal(fake_call.n_finished, 0);
        rpc_health_end_watch(&fake_call.call); /* and the client goes */
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_deliver();
        assert_int_equal(fake_call.code, GRPC_UNAVAILABLE);
}

static void watch_that_cannot_be_made(void **state) {
        (void)state;
        cannot_watch = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        assert_int_equal(fake_call.code, GRPC_INTERNAL);
        assert_int_equal(fake_call.n_messages, 0);
}

static void watch_of_a_server_that_is_exiting(void **state) {
        (void)state;
        fake_control.is_exiting = true;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        assert_int_equal(reported(0), NOT_SERVING);
        assert_int_equal(fake_call.code, GRPC_UNAVAILABLE);
}

static void aborted_at_once(void **state) {
        (void)state;
        fake_control.is_ready = false;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        assert_int_equal(reported(0), NOT_SERVING);
        rpc_health_end_watch(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 1);
}

/* A change was posted, and the client goes before the loop gets to it. */
static void aborted_with_a_look_on_its_way(void **state) {
        (void)state;
        rpc_health_watch(&fake_call.call, STR_LIT(""), NULL);
        change();
        rpc_health_end_watch(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0); /* the mail is in the call */
        fake_call_deliver();
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.n_messages, 1);
}

/* ---- questions ---- */

static int status_in(const ProtobufCMessage *answer) {
        return (int)((const Grpc__Health__V1__HealthCheckResponse *)(const void *)answer)->status;
}

/* On the loop, when no backend must be asked. */
static void check_is_answered_at_once(void **state) {
        ProtobufCMessage *answer;

        (void)state;
        assert_null(rpc_health_check(&fake_call.call, NULL, &answer));
        assert_int_equal(status_in(answer), SERVING);
        fake_control.is_ready = false;
        assert_null(rpc_health_check(&fake_call.call, NULL, &answer));
        assert_int_equal(status_in(answer), NOT_SERVING);
        assert_null(fake_call.work);
        grpc_call_finish(&fake_call.call, GRPC_OK, NULL);
}

static void check_asks_backends_on_a_thread(void **state) {
        ProtobufCMessage *answer;

        (void)state;
        fake_control.asks_backends = true;
        fake_control.is_ready = false;
        assert_null(rpc_health_check(&fake_call.call, NULL, &answer));
        assert_null(answer);
        assert_int_equal(fake_call.n_messages, 0);
        fake_call_run_work();
        assert_int_equal(reported(0), NOT_SERVING);
}

static void check_of_a_server_that_is_exiting(void **state) {
        ProtobufCMessage *answer;
        AUTO_ERROR        err = NULL;

        (void)state;
        fake_control.is_exiting = true;
        err = rpc_health_check(&fake_call.call, NULL, &answer);
        assert_string_equal(err->message, "Server exiting");
        grpc_call_finish(&fake_call.call, GRPC_OK, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

SUITE(rpc_health) {
        const struct CMUnitTest tests[] = {
                TEST(watch_tells_changes),
                TEST(watch_asks_backends_now_and_then),
                TEST(watch_without_such_backends),
                TEST(watch_of_a_change_while_a_backend_is_asked),
                TEST(watch_ends_while_a_backend_is_asked),
                TEST(aborted_while_a_backend_is_asked),
                TEST(watch_without_a_thread),
                TEST(watch_ends_with_the_server),
                TEST(watch_ends_with_a_look_on_its_way),
                TEST(watch_that_cannot_be_made),
                TEST(watch_of_a_server_that_is_exiting),
                TEST(aborted_at_once),
                TEST(aborted_with_a_look_on_its_way),
                TEST(check_is_answered_at_once),
                TEST(check_asks_backends_on_a_thread),
                TEST(check_of_a_server_that_is_exiting),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
