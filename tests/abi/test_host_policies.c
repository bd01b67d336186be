/* SPDX-License-Identifier: BSD-3-Clause */
/* Host policies of a program that embeds the server: what the setter takes, what a backend is told,
 * and where its executions run.
 *
 *   test_host_policies <the probe backend's library>
 *
 * The backend's executions are functions of this file (probe_backend.c). What is looked at is the
 * warm-up of each model.
 */
#include "api_assert.h"
#include "embedded.h"
#include "model_place.h"
#include "triton/core/tritonbackend.h"

#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONFIG                                                                                     \
        "backend: \"probe\"\nruntime: \"libtriton_probe.so\"\n"                                    \
        "input { name: \"IN\" data_type: TYPE_FP32 dims: 1 }\n"                                    \
        "output { name: \"OUT\" data_type: TYPE_FP32 dims: 1 }\n"                                  \
        "model_warmup { name: \"w\" batch_size: 1 count: 1 inputs { key: \"IN\" value { "          \
        "data_type: TYPE_FP32 dims: 1 zero_data: true } } }\n"

static char *library;

static struct model_place place;
static int                core; /* the last one that this program may use */

/* ---- the backend ---------------------------------------------------------------------------- */

static struct {
        char      policy[256];
        cpu_set_t cores;
} seen;

static TRITONSERVER_Error *look(TRITONBACKEND_ModelInstance *instance) {
        TRITONSERVER_Message *policy;
        TRITONSERVER_Error   *err = TRITONBACKEND_ModelInstanceHostPolicy(instance, &policy);
        const char           *text;
        size_t                n_bytes;

        if (err == NULL)
                err = TRITONSERVER_MessageSerializeToJson(policy, &text, &n_bytes);
        if (err == NULL)
                snprintf(seen.policy, sizeof(seen.policy), "%.*s", (int)n_bytes, text);
        sched_getaffinity(0, sizeof(seen.cores), &seen.cores);
        return err;
}

/* The answer is empty, or the failure. */
static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests) {
        TRITONSERVER_Error *why = look(instance);

        for (uint32_t i = 0; i < n_requests; i++) {
                TRITONBACKEND_Response *response;
                TRITONSERVER_Error     *err = TRITONBACKEND_ResponseNew(&response, requests[i]);

                if (err == NULL)
                        err = TRITONBACKEND_ResponseSend(response,
                                                         TRITONSERVER_RESPONSE_COMPLETE_FINAL, why);
                if (err == NULL)
                        err = TRITONBACKEND_RequestRelease(requests[i],
                                                           TRITONSERVER_REQUEST_RELEASE_ALL);
                if (err != NULL)
                        return err;
        }
        if (why != NULL)
                TRITONSERVER_ErrorDelete(why);
        return NULL;
}

/* ---- the server ----------------------------------------------------------------------------- */

/* Replaces the model's configuration. */
static void write_config(const char *group) {
        char  path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/m/config.pbtxt", place.root);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fprintf(file, CONFIG "instance_group { count: 1 %s }\n", group) >= 0);
        assert_int_equal(fclose(file), 0);
}

static int make_repository(void **state) {
        void     *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        cpu_set_t all;

        (void)state;
        assert_non_null(handle);
        *(void **)dlsym(handle, "probe_execute") = (void *)execute;
        model_place_open(&place);
        model_place_add_model(&place, "m", CONFIG, library);
        assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
        core = CPU_SETSIZE - 1;
        while (core > 0 && !CPU_ISSET(core, &all))
                core--;
        return 0;
}

static int remove_repository(void **state) {
        (void)state;
        model_place_close(&place);
        return 0;
}

/* With policy "mine" on these cores. */
static struct TRITONSERVER_Error *start(const char *cores, struct TRITONSERVER_Server **ret) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Error         *err;

        options = embedded_options(place.root, NULL);
        assert_ok(TRITONSERVER_ServerOptionsSetHostPolicy(options, "mine", "cpu-cores", cores));
        err = TRITONSERVER_ServerNew(ret, options);
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
        return err;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_setter(void **state) {
        struct TRITONSERVER_ServerOptions *options;

        (void)state;
        assert_ok(TRITONSERVER_ServerOptionsNew(&options));
        assert_ok(TRITONSERVER_ServerOptionsSetHostPolicy(options, "mine", "numa-node", "0"));
        assert_error(TRITONSERVER_ServerOptionsSetHostPolicy(options, "mine", "cpu-core", "0"),
                     TRITONSERVER_ERROR_UNSUPPORTED,
                     "Unsupported host policy setting 'cpu-core' is specified, supported settings "
                     "are 'numa-node', 'cpu-cores'");
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
}

static void test_instances(void **state) {
        static const struct {
                const char *group, *name;
                bool        is_placed;
        } rows[] = {
                { "kind: KIND_CPU host_policy: \"mine\"", "mine", true },
                { "kind: KIND_CPU", "cpu", false },
                { "kind: KIND_MODEL", "model", false },
        };
        char      cores[16];
        cpu_set_t before, after;

        (void)state;
        snprintf(cores, sizeof(cores), "%d", core);
        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct TRITONSERVER_Server *server;
                char                        expected[256];

                memset(&seen, 0, sizeof(seen));
                write_config(rows[i].group);
                assert_ok(start(cores, &server));
                if (rows[i].is_placed)
                        snprintf(expected, sizeof(expected), "{\"%s\":{\"cpu-cores\":\"%s\"}}",
                                 rows[i].name, cores);
                else
                        snprintf(expected, sizeof(expected), "{\"%s\":{}}", rows[i].name);
                assert_string_equal(seen.policy, expected);
                if (rows[i].is_placed) {
                        assert_int_equal(CPU_COUNT(&seen.cores), 1);
                        assert_true(CPU_ISSET(core, &seen.cores));
                } else {
                        assert_true(CPU_EQUAL(&seen.cores, &before));
                }
                assert_ok(TRITONSERVER_ServerDelete(server));
        }
        /* The caller's own place is left alone. */
        assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
        assert_true(CPU_EQUAL(&after, &before));
}

static void test_policies_that_cannot_be_had(void **state) {
        struct TRITONSERVER_Server *server = NULL;

        (void)state;
        write_config("kind: KIND_CPU");
        assert_error(start("0-", &server), TRITONSERVER_ERROR_INVALID_ARG,
                     "host policy 'mine': cpu-cores=0-: '0-' is not a core below 8192 or a range "
                     "of cores, as in 0-3,8");
        assert_error(start("8191", &server), TRITONSERVER_ERROR_INVALID_ARG,
                     "host policy 'mine': core 8191 is not there, or this process may not use it");
        assert_null(server);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_setter),
                cmocka_unit_test(test_instances),
                cmocka_unit_test(test_policies_that_cannot_be_had),
        };

        if (argc != 2)
                return 2;
        library = realpath(argv[1], NULL);
        if (library == NULL)
                return 2;
        int failed = cmocka_run_group_tests(tests, make_repository, remove_repository);

        free(library);
        return failed;
}
