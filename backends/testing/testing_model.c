/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameters of a testing backend's model, and the waits that they require. */
#include "kit/scratch.h"
#include "testing/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TRITONSERVER_Error_Code testing_code(const char *text) {
        static const char *const names[] = {
                "Unknown",     "Internal",    "Not found",      "Invalid argument",
                "Unavailable", "Unsupported", "Already exists", "Cancelled",
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i], text) == 0 || (text[0] == '0' + (int)i && text[1] == '\0'))
                        return (TRITONSERVER_Error_Code)i;
        return TRITONSERVER_ERROR_INTERNAL;
}

void testing_sleep_ms(int64_t ms) {
        struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

        if (ms <= 0)
                return;
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
                continue;
}

/* The descriptor in *ret stays -1 when the parameter is absent. */
static TRITONSERVER_Error *open_path(const struct kit_model *model, const char *key, int flags,
                                     int *ret) {
        const char *path = kit_model_parameter(model, key);
        char       *full;

        *ret = -1;
        if (path == NULL)
                return NULL;
        if (asprintf(&full, "%s%s%s", path[0] == '/' ? "" : model->path, path[0] == '/' ? "" : "/",
                     path) < 0)
                return kit_error_no_memory(strlen(path), key);
        *ret = open(full, flags | O_CLOEXEC, S_IRUSR | S_IWUSR);
        free(full);
        if (*ret >= 0)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "model '%s': %s '%s': %s", model->name,
                         key, path, strerror(errno));
}

static TRITONSERVER_Error *wait_at(int gate) {
        char    byte;
        ssize_t n;

        do
                n = read(gate, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n == 1)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "the gate cannot be read: %s",
                         n < 0 ? strerror(errno) : "end of file");
}

TRITONSERVER_Error *testing_write(int to, const char *bytes, size_t n_bytes) {
        ssize_t n;

        do
                n = write(to, bytes, n_bytes);
        while (n < 0 && errno == EINTR);
        if (n == (ssize_t)n_bytes)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "the testing backend cannot write: %s",
                         strerror(errno));
}

/* Writes to the reached_fifo, waits at the gate and sleeps, each only when the parameter is set. */
static TRITONSERVER_Error *pass(int reached, int gate, int64_t delay_ms) {
        if (reached >= 0)
                KIT_TRY(testing_write(reached, "r", 1));
        if (gate >= 0)
                KIT_TRY(wait_at(gate));
        testing_sleep_ms(delay_ms);
        return NULL;
}

/* Sleeps end up to 50 us late, so the last part is a busy wait. */
static void wait_us(int64_t us) {
        uint64_t        end_ns = kit_clock_ns() + (uint64_t)us * 1000u;
        int64_t         sleep_ns = (us - 80) * 1000;
        struct timespec t = { .tv_sec = (time_t)(sleep_ns / 1000000000),
                              .tv_nsec = (long)(sleep_ns % 1000000000) };

        if (us <= 0)
                return;
        if (sleep_ns > 0)
                nanosleep(&t, NULL);
        while (kit_clock_ns() < end_ns)
                continue;
}

TRITONSERVER_Error *testing_pause(const struct testing_model *model, int64_t n_rows,
                                  uint32_t n_requests) {
        char line[64];

        if (model->batch_log >= 0) {
                int len = snprintf(line, sizeof(line), "%u %lld\n", n_requests, (long long)n_rows);

                KIT_TRY(testing_write(model->batch_log, line, (size_t)len));
        }
        wait_us(model->execute_us);
        return pass(model->reached, model->gate, model->delay_ms);
}

TRITONSERVER_Error *testing_pass_instance(const struct testing_model *model) {
        return pass(model->instance_reached, model->instance_gate, model->instance_delay_ms);
}

/* Actions once at load. */
static TRITONSERVER_Error *pass_load(struct testing_model *model) {
        const char *fail = kit_model_parameter(&model->kit, "fail_load");
        const char *code = kit_model_parameter(&model->kit, "fail_load_code");
        int64_t     delay_ms = 0;
        int         gate;

        KIT_TRY(kit_model_parameter_int(&model->kit, "load_delay_ms", &delay_ms));
        testing_sleep_ms(delay_ms);
        KIT_TRY(open_path(&model->kit, "load_gate_fifo", O_RDWR, &gate));
        if (gate >= 0) {
                TRITONSERVER_Error *err = wait_at(gate);

                (void)close(gate);
                KIT_TRY(err);
        }
        if (fail == NULL)
                return NULL;
        return kit_error(code != NULL ? testing_code(code) : TRITONSERVER_ERROR_INTERNAL, "%s",
                         fail);
}

static TRITONSERVER_Error *fill_config(struct testing_model *model) {
        const char *json = kit_model_parameter(&model->kit, "fill_config");
        bool        is_wanted;

        KIT_TRY(TRITONBACKEND_ModelAutoCompleteConfig(model->kit.triton, &is_wanted));
        return is_wanted && json != NULL ? kit_model_set_config(&model->kit, json) : NULL;
}

static TRITONSERVER_Error *open_model(TRITONBACKEND_Model *triton, struct testing_model *model) {
        struct kit_model            *kit = &model->kit;
        const struct kit_json_value *root;

        KIT_TRY(kit_model_open(triton, kit));
        KIT_TRY(pass_load(model));
        KIT_TRY(fill_config(model));
        root = kit_json_root(kit->config);
        model->is_decoupled =
                kit_json_bool(kit_json_find(root, "model_transaction_policy/decoupled"), false);
        model->fail_instance = kit_model_parameter(kit, "fail_instance");
        model->crash = kit_model_parameter(kit, "crash");
        model->fail_execute = kit_model_parameter(kit, "fail_execute");
        KIT_TRY(kit_model_parameter_int(kit, "execute_delay_ms", &model->delay_ms));
        KIT_TRY(kit_model_parameter_int(kit, "execute_us", &model->execute_us));
        KIT_TRY(kit_model_parameter_int(kit, "responses", &model->n_responses));
        KIT_TRY(kit_model_parameter_int(kit, "iterations", &model->n_iterations));
        KIT_TRY(kit_model_parameter_int(kit, "add", &model->add));
        model->has_fail_value = kit_model_parameter(kit, "fail_value") != NULL;
        KIT_TRY(kit_model_parameter_int(kit, "fail_value", &model->fail_value));
        model->has_end_value = kit_model_parameter(kit, "end_value") != NULL;
        KIT_TRY(kit_model_parameter_int(kit, "end_value", &model->end_value));
        KIT_TRY(open_path(kit, "address_log", O_WRONLY | O_APPEND | O_CREAT, &model->address_log));
        KIT_TRY(open_path(kit, "life_log", O_WRONLY | O_APPEND | O_CREAT, &model->life_log));
        KIT_TRY(open_path(kit, "sequence_log", O_WRONLY | O_APPEND | O_CREAT,
                          &model->sequence_log));
        KIT_TRY(open_path(kit, "gate_fifo", O_RDWR, &model->gate));
        KIT_TRY(open_path(kit, "reached_fifo", O_RDWR, &model->reached));
        KIT_TRY(kit_model_parameter_int(kit, "instance_delay_ms", &model->instance_delay_ms));
        KIT_TRY(open_path(kit, "instance_gate_fifo", O_RDWR, &model->instance_gate));
        KIT_TRY(open_path(kit, "instance_reached_fifo", O_RDWR, &model->instance_reached));
        return open_path(kit, "batch_log", O_WRONLY | O_APPEND | O_CREAT, &model->batch_log);
}

TRITONSERVER_Error *testing_model_new(TRITONBACKEND_Model *triton, struct testing_model **ret) {
        struct testing_model *model = kit_alloc_array(1, sizeof(*model));
        TRITONSERVER_Error   *err;

        if (model == NULL)
                return kit_error_no_memory(sizeof(*model), "a model");
        model->gate = model->reached = model->batch_log = model->address_log = -1;
        model->life_log = model->sequence_log = -1;
        model->instance_gate = model->instance_reached = -1;
        model->n_responses = 1;
        err = open_model(triton, model);
        if (err != NULL) {
                testing_model_free(model);
                return err;
        }
        *ret = model;
        return NULL;
}

static void close_path(int opened) {
        if (opened >= 0)
                (void)close(opened);
}

void testing_model_free(struct testing_model *model) {
        close_path(model->gate);
        close_path(model->reached);
        close_path(model->batch_log);
        close_path(model->address_log);
        close_path(model->life_log);
        close_path(model->sequence_log);
        close_path(model->instance_gate);
        close_path(model->instance_reached);
        kit_model_close(&model->kit);
        free(model);
}
