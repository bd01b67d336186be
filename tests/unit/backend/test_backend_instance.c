/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "backend/backend_instance.h"
#include "backend/fake_host.h"
#include "backend/log_lines.h"
#include "backend/probe.h"
#include "base/clock.h"
#include "infer/fake_model.h"
#include "infer/infer_thread.h"
#include "infer/request_prepare.h"

#define N_REQUESTS 3

#define CONFIG                                                                                     \
        "name: 'm' backend: 'fake' max_batch_size: 8 "                                             \
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "                                \
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }]"

/* A model of the fake backend, its parts put together by hand. */
struct place {
        struct temp_tree     tree;
        struct fake_library  library;
        struct fake_model   *fake;
        struct backend_model model;
};

static void begin(struct place *p, const char *kind) {
        AUTO_STRBUF     json = { 0 };
        struct backend *backend;

        fake_host_reset();
        p->tree = temp_tree_make();
        p->library = fake_library_open(&p->tree, kind, "lib.so");
        strbuf_init(&json, 0);
        strbuf_puts(&json, "{}");
        assert_ok(backend_open("fake", p->library.path, &json, NULL, &backend), "open");
        p->fake = fake_model_new(CONFIG);
        p->model = (struct backend_model){ .backend = backend,
                                           .name = "m",
                                           .version = 1,
                                           .directory = p->tree.path,
                                           .config = p->fake->model.config,
                                           .stats = p->fake->model.stats };
        assert_ok(backend_model_start(&p->model), "start");
}

static void end(struct place *p) {
        backend_model_stop(&p->model);
        fake_model_free(p->fake);
        fake_library_close(&p->library);
        temp_tree_remove(&p->tree);
}

static struct error *make_instance(struct place *p, const Inference__ModelInstanceGroup *group,
                                   const char *host_policy, struct backend_instance **ret) {
        static const struct batch_member member = { .name = "m_0", .min_rows = 1, .max_rows = 1 };
        struct backend_instance_options  options = { .model = &p->model,
                                                     .member = &member,
                                                     .name = "m_0_1",
                                                     .group = group,
                                                     .device_id = 5,
                                                     .host_policy_json = str_of(host_policy) };

        return backend_instance_new(&options, ret);
}

static struct backend_instance *instance(struct place *p) {
        static const Inference__ModelInstanceGroup group = {
                .kind = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU
        };
        struct backend_instance *in;

        assert_ok(make_instance(p, &group, "{\"cpu\":{}}", &in), "instance");
        return in;
}

static void test_is_what_it_was_told(void **state) {
        static const struct {
                Inference__ModelInstanceGroup__Kind kind;
                TRITONSERVER_InstanceGroupKind      expected;
        } rows[] = {
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO,
                  TRITONSERVER_INSTANCEGROUPKIND_AUTO },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU,
                  TRITONSERVER_INSTANCEGROUPKIND_CPU },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU,
                  TRITONSERVER_INSTANCEGROUPKIND_GPU },
                { INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL,
                  TRITONSERVER_INSTANCEGROUPKIND_MODEL },
        };
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                Inference__ModelInstanceGroup group = { .kind = rows[i].kind, .passive = i == 1 };
                struct backend_instance      *in;

                assert_ok(make_instance(&p, &group, "{\"mine\":{\"numa-node\":\"0\"}}", &in),
                          "new");
                assert_string_equal(in->name, "m_0_1");
                assert_string_equal(in->executor.name, "m_0_1");
                assert_int_equal(in->kind, rows[i].expected);
                assert_int_equal(in->device_id, 5);
                assert_ptr_equal(in->group, &group);
                assert_string_equal(in->host_policy->text, "{\"mine\":{\"numa-node\":\"0\"}}");
                assert_int_equal(in->executor.is_passive, i == 1);
                assert_false(in->executor.may_inline);
                backend_instance_free(in);
        }
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 4);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 4);
        backend_instance_free(NULL);
        end(&p);
}

static void test_optional_entry_points(void **state) {
        struct backend_instance *in;
        struct place             p;

        (void)state;
        begin(&p, "fake_bare");
        in = instance(&p);
        assert_true(in->executor.may_inline);
        assert_true(in->executor.ops->is_ready(&in->executor));
        backend_instance_free(in);
        end(&p);
}

static void test_initialize_fails(void **state) {
        static const Inference__ModelInstanceGroup group = { 0 };
        struct backend_instance                   *in = NULL;
        struct place                               p;

        (void)state;
        begin(&p, "fake_backend");
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m_0_1", TRITONSERVER_ERROR_UNAVAILABLE,
                       "no room");
        assert_error(make_instance(&p, &group, "{}", &in), ERR_UNAVAILABLE, "no room");
        assert_null(in);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 1);
        end(&p);
}

static void test_bad_host_policy(void **state) {
        static const Inference__ModelInstanceGroup group = { 0 };
        struct backend_instance                   *in = NULL;
        struct error                              *err;
        struct place                               p;

        (void)state;
        begin(&p, "fake_backend");
        err = make_instance(&p, &group, "{\"cpu\":", &in);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        assert_null(in);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 0);
        end(&p);
}

static void test_finalize_failure_is_logged(void **state) {
        struct backend_instance *in;
        struct place             p;

        (void)state;
        begin(&p, "fake_backend");
        fake_host_fail(FAKE_INSTANCE_FINALIZE, NULL, TRITONSERVER_ERROR_INTERNAL, "stuck");
        in = instance(&p);
        log_lines_begin();
        backend_instance_free(in);
        assert_int_equal(log_lines_count(
                                 "E failed to finalize instance 'm_0_1' of model 'm': stuck"),
                         1);
        log_lines_end();
        end(&p);
}

static void test_readiness_is_the_backends(void **state) {
        struct backend_instance *in;
        struct place             p;

        (void)state;
        begin(&p, "fake_backend");
        in = instance(&p);
        assert_true(in->executor.ops->is_ready(&in->executor));
        fake_host_fail(FAKE_INSTANCE_READY, "m_0_1", TRITONSERVER_ERROR_UNAVAILABLE, "warming");
        assert_false(in->executor.ops->is_ready(&in->executor));
        fake_host_fail(FAKE_INSTANCE_READY, NULL, TRITONSERVER_ERROR_UNKNOWN, NULL);
        assert_true(in->executor.ops->is_ready(&in->executor));
        backend_instance_free(in);
        end(&p);
}

/* Requests as a scheduler hands them over. */
static void make_probes(struct place *p, struct probe *probes, struct request **requests) {
        static const int32_t values[N_REQUESTS][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };

        for (size_t i = 0; i < N_REQUESTS; i++) {
                probe_init(&probes[i], &p->fake->model);
                probe_add_row(&probes[i], "IN", values[i], 2);
                requests[i] = probes[i].request;
                assert_ok(request_prepare(requests[i]), "prepare");
                atomic_store(&requests[i]->state, REQUEST_EXECUTING);
                p->fake->model.n_in_flight++;
        }
}

static void test_executes_the_batch(void **state) {
        struct backend_instance    *in;
        struct model_stats_snapshot s;
        struct request             *requests[N_REQUESTS];
        struct probe                probes[N_REQUESTS];
        struct place                p;

        (void)state;
        begin(&p, "fake_backend");
        in = instance(&p);
        make_probes(&p, probes, requests);
        in->executor.ops->execute(&in->executor, requests, N_REQUESTS);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 1);
        for (size_t i = 0; i < N_REQUESTS; i++) {
                const int32_t *out;

                probe_wait(&probes[i]);
                assert_null(probe_error(&probes[i]));
                assert_int_equal(probes[i].response->n_outputs, 1);
                assert_string_equal(probes[i].response->first_output->name, "OUT");
                assert_int_equal(probes[i].response->first_output->byte_size, 8);
                out = probes[i].response->first_output->base;
                assert_int_equal(out[0], 2 * i + 1);
                assert_int_equal(out[1], 2 * i + 2);
                probe_done(&probes[i]);
        }
        model_stats_read(p.fake->model.stats, &s);
        assert_int_equal(s.success.count, N_REQUESTS);
        assert_int_equal(s.inference_count, N_REQUESTS);
        assert_int_equal(s.execution_count, 1);
        assert_int_equal(s.n_batches, 1);
        assert_int_equal(s.batches[0].batch_size, N_REQUESTS);
        assert_int_equal(s.fail.count, 0);
        model_stats_snapshot_done(&s);
        assert_int_equal(p.fake->model.n_in_flight, 0);
        backend_instance_free(in);
        end(&p);
}

static void count_call(void *n) {
        ++*(unsigned *)n;
}

static void leave_row_open(void *n) {
        assert_int_equal(*(unsigned *)n, 1);
        infer_thread_begin_responses();
        assert_true(infer_thread_call_after_responses(count_call, n));
        assert_int_equal(*(unsigned *)n, 1);
}

/* An answer of one backend may run the next one on its thread: who waits for the answers before is
 * told first. And nobody is owed anything when a backend returns. */
static void test_rows_end_at_an_execution(void **state) {
        struct backend_instance *in;
        struct request          *requests[N_REQUESTS];
        struct probe             probes[N_REQUESTS];
        struct place             p;
        unsigned                 n_calls = 0;

        (void)state;
        begin(&p, "fake_backend");
        in = instance(&p);
        make_probes(&p, probes, requests);
        infer_thread_begin_responses();
        assert_true(infer_thread_call_after_responses(count_call, &n_calls));
        fake_host_on_call(FAKE_EXECUTE, leave_row_open, &n_calls);
        in->executor.ops->execute(&in->executor, requests, N_REQUESTS);
        assert_int_equal(n_calls, 2);
        assert_false(infer_thread_call_after_responses(count_call, &n_calls));
        for (size_t i = 0; i < N_REQUESTS; i++) {
                probe_wait(&probes[i]);
                probe_done(&probes[i]);
        }
        fake_host_on_call(FAKE_EXECUTE, NULL, NULL);
        backend_instance_free(in);
        end(&p);
}

struct beginning {
        struct backend_instance *in;
        uint64_t                 start_ns;
};

static void read_start(void *userp) {
        struct beginning *b = userp;

        b->start_ns = backend_instance_execution_start(b->in);
}

/* The scheduler has read the clock, and the backend gets that time; outside an execution the time now. */
static void test_start_of_an_execution(void **state) {
        struct request  *requests[N_REQUESTS];
        struct probe     probes[N_REQUESTS];
        struct beginning b;
        struct place     p;
        uint64_t         before_ns = clock_now_ns(), now_ns;

        (void)state;
        begin(&p, "fake_backend");
        b.in = instance(&p);
        make_probes(&p, probes, requests);
        fake_host_on_call(FAKE_EXECUTE, read_start, &b);
        atomic_store(&b.in->executor.start_ns, 1234);
        b.in->executor.ops->execute(&b.in->executor, requests, 1);
        assert_int_equal(b.start_ns, 1234);
        b.in->executor.ops->execute(&b.in->executor, requests + 1, N_REQUESTS - 1);
        now_ns = backend_instance_execution_start(b.in);
        assert_in_range(b.start_ns, before_ns, now_ns);
        assert_in_range(now_ns, b.start_ns, clock_now_ns());
        fake_host_on_call(FAKE_EXECUTE, NULL, NULL);
        for (size_t i = 0; i < N_REQUESTS; i++) {
                probe_wait(&probes[i]);
                probe_done(&probes[i]);
        }
        backend_instance_free(b.in);
        end(&p);
}

static void test_error_of_execute_answers_all(void **state) {
        struct backend_instance    *in;
        struct model_stats_snapshot s;
        struct request             *requests[N_REQUESTS];
        struct probe                probes[N_REQUESTS];
        struct place                p;

        (void)state;
        begin(&p, "fake_backend");
        in = instance(&p);
        make_probes(&p, probes, requests);
        fake_host_fail(FAKE_EXECUTE, NULL, TRITONSERVER_ERROR_UNSUPPORTED, "no such operator");
        in->executor.ops->execute(&in->executor, requests, N_REQUESTS);
        for (size_t i = 0; i < N_REQUESTS; i++) {
                const struct error *err = probe_error(&probes[i]);

                assert_int_equal(probes[i].n_answers, 1);
                assert_int_equal(probes[i].n_finals, 1);
                assert_int_equal(probes[i].n_releases, 1);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_UNSUPPORTED);
                assert_string_equal(err->message, "no such operator");
                assert_int_equal(probes[i].response->n_outputs, 0);
                probe_done(&probes[i]);
        }
        model_stats_read(p.fake->model.stats, &s);
        assert_int_equal(s.success.count, 0);
        assert_int_equal(s.fail.count, N_REQUESTS);
        assert_int_equal(s.execution_count, 0);
        model_stats_snapshot_done(&s);
        assert_int_equal(p.fake->model.n_in_flight, 0);
        backend_instance_free(in);
        end(&p);
}

static void test_reports(void **state) {
        struct request_times        times = { .exec_start_ns = 1300,
                                              .compute_start_ns = 1310,
                                              .compute_end_ns = 1350,
                                              .exec_end_ns = 1370 };
        struct backend_instance    *in;
        struct model_stats_snapshot s;
        struct probe                probe;
        struct place                p;

        (void)state;
        begin(&p, "fake_backend");
        in = instance(&p);
        probe_init(&probe, &p.fake->model);
        probe.request->times.request_start_ns = 1000;
        probe.request->times.queue_start_ns = 1100;
        probe.request->batch_size = 4;
        backend_instance_report(in, probe.request, true, &times);
        backend_instance_report(in, probe.request, false, &times);
        backend_instance_report_batch(in, 4, &times);
        /* A model without batching counts as one inference. */
        probe.request->batch_size = 0;
        backend_instance_report(in, probe.request, true, &times);

        model_stats_read(p.fake->model.stats, &s);
        assert_int_equal(s.success.count, 2);
        assert_int_equal(s.success.ns, 2 * 370);
        assert_int_equal(s.queue.ns, 2 * 200);
        assert_int_equal(s.compute_input.ns, 2 * 10);
        assert_int_equal(s.compute_infer.ns, 2 * 40);
        assert_int_equal(s.compute_output.ns, 2 * 20);
        assert_int_equal(s.inference_count, 5);
        assert_int_equal(s.fail.count, 1);
        assert_int_equal(s.fail.ns, 370);
        assert_int_equal(s.execution_count, 1);
        assert_int_equal(s.batches[0].batch_size, 4);
        assert_int_equal(s.batches[0].compute_infer.ns, 40);
        model_stats_snapshot_done(&s);
        probe_done(&probe);
        backend_instance_free(in);
        end(&p);
}

/* ---- inputs on devices ----------------------------------------------------------------------- */

/* Requests of which some have their input on a device; the fake backend reads it on the CPU. */
struct device_place {
        struct place             p;
        struct fake_gpus         gpus;
        struct backend_instance *in;
        struct request          *requests[N_REQUESTS]; /* as the backend instance gets them */
        struct probe             probes[N_REQUESTS];
        void                    *memory[N_REQUESTS];
};

/* `devices` has the device of each request, or GPU_HOST. */
static void begin_on_devices(struct device_place *d, const int *devices) {
        struct gpus_options options = fake_gpus_options();

        begin(&d->p, "fake_backend");
        fake_gpus_open(&d->gpus, &options);
        d->p.model.backend->gpus = d->p.fake->model.gpus = d->gpus.gpus;
        d->in = instance(&d->p);
        make_probes(&d->p, d->probes, d->requests);
        for (size_t i = 0; i < N_REQUESTS; i++) {
                struct request     *req = d->requests[i];
                struct input_chunk *c = req->first_input->first_chunk;

                d->memory[i] = NULL;
                if (devices[i] == GPU_HOST)
                        continue;
                assert_ok(gpu_alloc(d->gpus.gpus, devices[i], 8, &d->memory[i]), "memory");
                put_bytes(d->gpus.gpus, devices[i], d->memory[i], c->base, 8);
                c->base = d->memory[i];
                c->attributes.memory_type = MEMORY_GPU;
                c->attributes.memory_id = devices[i];
                req->has_device_inputs = true;
        }
}

static void execute_on_devices(struct device_place *d) {
        d->in->executor.ops->execute(&d->in->executor, d->requests, N_REQUESTS);
        assert_int_equal(d->in->executor.start_ns, 0);
}

/* A request that was released is as the front end gave it, and its copy is freed. */
static void end_on_devices(struct device_place *d, const int *devices) {
        for (size_t i = 0; i < N_REQUESTS; i++) {
                const struct input_chunk *c = d->probes[i].request->first_input->first_chunk;

                assert_int_equal(d->probes[i].n_finals, 1);
                assert_int_equal(d->probes[i].n_releases, 1);
                if (d->memory[i] != NULL) {
                        assert_ptr_equal(c->base, d->memory[i]);
                        assert_int_equal(c->attributes.memory_type, MEMORY_GPU);
                        assert_int_equal(c->attributes.memory_id, devices[i]);
                        gpu_free(d->gpus.gpus, devices[i], d->memory[i]);
                }
                probe_done(&d->probes[i]);
        }
        assert_int_equal(d->p.fake->model.n_in_flight, 0);
        assert_int_equal(gpu_pool_usage(d->gpus.gpus, GPU_HOST).used_bytes, 0);
        backend_instance_free(d->in);
        end(&d->p);
        fake_gpus_close(&d->gpus);
}

static void assert_answered(struct device_place *d, size_t i) {
        const int32_t *out;

        assert_null(probe_error(&d->probes[i]));
        out = d->probes[i].response->first_output->base;
        assert_int_equal(out[0], 2 * i + 1);
        assert_int_equal(out[1], 2 * i + 2);
}

static void assert_not_copied(struct device_place *d, size_t i) {
        const struct error *err = probe_error(&d->probes[i]);

        assert_non_null(err);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_non_null(strstr(err->message, "an input cannot be copied from a device: GPU "));
}

/* Each request is copied once; the time for that is time for inputs. */
static void test_inputs_are_copied(void **state) {
        static const int            devices[] = { 0, GPU_HOST, 1 };
        struct device_place         d;
        struct model_stats_snapshot s;
        uint64_t                    start_ns;

        (void)state;
        begin_on_devices(&d, devices);
        start_ns = clock_now_ns();
        atomic_store(&d.in->executor.start_ns, start_ns);
        execute_on_devices(&d);
        for (size_t i = 0; i < N_REQUESTS; i++)
                assert_answered(&d, i);
        assert_int_equal(gpus_traffic(d.gpus.gpus).to_host, 16);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 1);
        model_stats_read(d.p.fake->model.stats, &s);
        assert_int_equal(s.success.count, N_REQUESTS);
        assert_int_equal(s.fail.count, 0);
        /* The fake backend reports none itself. Two requests of three, and the execution, have that time. */
        assert_true(s.compute_input.ns > 0);
        assert_int_equal(s.compute_input.ns % 2, 0);
        assert_int_equal(s.batches[0].compute_input.ns, s.compute_input.ns / 2);
        model_stats_snapshot_done(&s);
        end_on_devices(&d, devices);
}

/* A request that cannot be copied is refused; the others run. */
static void test_one_cannot_be_copied(void **state) {
        static const int            devices[] = { 0, 1, GPU_HOST };
        struct device_place         d;
        struct model_stats_snapshot s;

        (void)state;
        begin_on_devices(&d, devices);
        d.gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:1:700");
        execute_on_devices(&d);
        assert_not_copied(&d, 0);
        assert_answered(&d, 1);
        assert_answered(&d, 2);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 1);
        model_stats_read(d.p.fake->model.stats, &s);
        assert_int_equal(s.success.count, 2);
        assert_int_equal(s.fail.count, 1);
        assert_int_equal(s.batches[0].batch_size, 2);
        model_stats_snapshot_done(&s);
        end_on_devices(&d, devices);
}

static void test_none_can_be_copied(void **state) {
        static const int    devices[] = { 0, 1, 0 };
        struct device_place d;

        (void)state;
        begin_on_devices(&d, devices);
        d.gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:1+:700");
        execute_on_devices(&d);
        for (size_t i = 0; i < N_REQUESTS; i++)
                assert_not_copied(&d, i);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 0);
        end_on_devices(&d, devices);
}

/* In a batch of sequences the place of a request may be its slot: none is left out alone. */
static void test_sequences_are_refused_together(void **state) {
        static const int    devices[] = { 0, 1, GPU_HOST };
        struct device_place d;

        (void)state;
        begin_on_devices(&d, devices);
        d.p.model.has_sequences = true;
        d.gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:2:700");
        execute_on_devices(&d);
        for (size_t i = 0; i < N_REQUESTS; i++)
                assert_not_copied(&d, i);
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 0);
        end_on_devices(&d, devices);
}

/* The backend of a model on GPUs gets what the client gave. */
static void test_backend_that_looks(void **state) {
        static const int    devices[] = { 0, 1, 1 };
        struct device_place d;

        (void)state;
        begin_on_devices(&d, devices);
        d.p.fake->model.takes_device_memory = true;
        fake_host_fail(FAKE_EXECUTE, NULL, TRITONSERVER_ERROR_UNSUPPORTED, "cannot look");
        execute_on_devices(&d);
        for (size_t i = 0; i < N_REQUESTS; i++)
                assert_string_equal(probe_error(&d.probes[i])->message, "cannot look");
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 1);
        assert_int_equal(gpus_traffic(d.gpus.gpus).to_host, 0);
        end_on_devices(&d, devices);
}

SUITE(backend_instance) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_is_what_it_was_told),
                cmocka_unit_test(test_optional_entry_points),
                cmocka_unit_test(test_initialize_fails),
                cmocka_unit_test(test_bad_host_policy),
                cmocka_unit_test(test_finalize_failure_is_logged),
                cmocka_unit_test(test_readiness_is_the_backends),
                cmocka_unit_test(test_executes_the_batch),
                cmocka_unit_test(test_rows_end_at_an_execution),
                cmocka_unit_test(test_start_of_an_execution),
                cmocka_unit_test(test_error_of_execute_answers_all),
                cmocka_unit_test(test_reports),
                cmocka_unit_test(test_inputs_are_copied),
                cmocka_unit_test(test_one_cannot_be_copied),
                cmocka_unit_test(test_none_can_be_copied),
                cmocka_unit_test(test_sequences_are_refused_together),
                cmocka_unit_test(test_backend_that_looks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
