/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses of the testing backend. */
#include "kit/input.h"
#include "kit/output.h"
#include "kit/string_tensor.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A request's own parameters. */
struct wishes {
        int64_t                 delay_ms;
        int64_t                 n_responses;
        int64_t                 fail_at;
        const char             *fail; /* borrowed: the request; NULL: do not fail */
        TRITONSERVER_Error_Code fail_code;
        const char             *activity; /* borrowed: the request; NULL: none */
        bool                    keeps_state;
};

/* A response that is being filled. */
struct answer {
        const struct testing_execution *execution;
        TRITONBACKEND_Request          *request;
        TRITONBACKEND_Response         *response;
        int64_t                         rows;
        int64_t                         index; /* of the response */
        struct testing_addresses        addresses;
};

static void read_wish(const char *key, TRITONSERVER_ParameterType type, const void *value,
                      struct wishes *ret) {
        const char *text = type == TRITONSERVER_PARAMETER_STRING ? value : NULL;
        int64_t     number = 0;

        if (type == TRITONSERVER_PARAMETER_INT)
                number = *(const int64_t *)value;
        else if (text != NULL)
                number = atoll(text);
        if (strcmp(key, "keep_state") == 0)
                ret->keeps_state = type == TRITONSERVER_PARAMETER_BOOL && *(const bool *)value;
        else if (strcmp(key, "delay_ms") == 0)
                ret->delay_ms = number;
        else if (strcmp(key, "responses") == 0)
                ret->n_responses = number;
        else if (strcmp(key, "fail_at") == 0)
                ret->fail_at = number;
        else if (strcmp(key, "fail") == 0)
                ret->fail = text != NULL ? text : "failed as requested";
        else if (strcmp(key, "activity") == 0)
                ret->activity = text;
        else if (strcmp(key, "fail_code") == 0 && text != NULL)
                ret->fail_code = testing_code(text);
        else if (strcmp(key, "fail_code") == 0 && number >= 0 &&
                 number <= TRITONSERVER_ERROR_CANCELLED)
                ret->fail_code = (TRITONSERVER_Error_Code)number;
}

static TRITONSERVER_Error *read_wishes(TRITONBACKEND_Request *request, struct wishes *ret) {
        uint32_t n;

        KIT_TRY(TRITONBACKEND_RequestParameterCount(request, &n));
        for (uint32_t i = 0; i < n; i++) {
                TRITONSERVER_ParameterType type;
                const char                *key;
                const void                *value;

                KIT_TRY(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
                read_wish(key, type, value, ret);
        }
        return NULL;
}

/* Reports one activity of the given name with `suffix`. */
static TRITONSERVER_Error *report_activity(TRITONBACKEND_Request *request,
                                           const struct wishes *wishes, const char *suffix) {
        TRITONSERVER_InferenceTrace *trace;
        TRITONSERVER_Error          *err;
        char                        *name;

        if (wishes->activity == NULL)
                return NULL;
        KIT_TRY(TRITONBACKEND_RequestTrace(request, &trace));
        if (trace == NULL)
                return NULL;
        if (asprintf(&name, "%s%s", wishes->activity, suffix) < 0)
                return kit_error_no_memory(strlen(wishes->activity), "a name");
        err = TRITONSERVER_InferenceTraceReportActivity(trace, kit_clock_ns(), name);
        free(name);
        return err;
}

static int64_t add_up(const struct answer *answer) {
        struct testing_sequence *sequence =
                testing_sequence_of(answer->execution->instance, answer->request);

        if (sequence == NULL)
                return 0;
        if (testing_sequence_begins(answer->request))
                sequence->sum = 0;
        sequence->sum += testing_first_value(answer->execution->instance, answer->request);
        return sequence->sum;
}

/* Returns false when the name is none of the numeric outputs. */
static bool find_number(const struct answer *answer, const char *output, int64_t *ret) {
        const struct testing_execution *execution = answer->execution;
        TRITONSERVER_Error             *err = NULL;
        uint32_t                        flags = 0;
        uint64_t                        id = 0;

        if (strcmp(output, "EXECUTIONS") == 0) {
                *ret = (int64_t)execution->number;
        } else if (strcmp(output, "BATCH_ROWS") == 0) {
                *ret = execution->n_rows;
        } else if (strcmp(output, "REQUESTS") == 0) {
                *ret = execution->n_requests;
        } else if (strcmp(output, "SERIAL") == 0) {
                *ret = execution->instance->serial;
        } else if (strcmp(output, "SUM") == 0) {
                *ret = add_up(answer);
        } else if (strcmp(output, "RESPONSE") == 0) {
                *ret = answer->index;
        } else if (strcmp(output, "READ_AT") == 0) {
                *ret = (int64_t)(uintptr_t)answer->addresses.read;
        } else if (strcmp(output, "WRITTEN_AT") == 0) {
                *ret = (int64_t)(uintptr_t)answer->addresses.written;
        } else if (strcmp(output, "FLAGS") == 0) {
                err = TRITONBACKEND_RequestFlags(answer->request, &flags);
                *ret = flags;
        } else if (strcmp(output, "CORRID") == 0) {
                err = TRITONBACKEND_RequestCorrelationId(answer->request, &id);
                *ret = (int64_t)id;
        } else {
                return false;
        }
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err); /* 0 when it is not a number */
        return true;
}

/* The shape [1], or [rows, 1] when the model batches. */
static struct kit_output one_value(const struct answer *answer, const struct kit_tensor *config,
                                   int64_t shape[2]) {
        bool has_rows = answer->execution->instance->model->kit.max_batch_size > 0;

        shape[0] = has_rows ? answer->rows : 1;
        shape[1] = 1;
        return (struct kit_output){ .name = config->name,
                                    .type = config->type,
                                    .shape = shape,
                                    .n_dims = has_rows ? 2 : 1 };
}

/* Writes the same number for each row. Little-endian: the first bytes are right for narrower types,
 * too. */
static TRITONSERVER_Error *put_number(const struct answer *answer, const struct kit_tensor *config,
                                      int64_t number) {
        int64_t                        shape[2];
        struct kit_output              output = one_value(answer, config, shape);
        size_t                         size = TRITONSERVER_DataTypeByteSize(config->type);
        const struct testing_instance *instance = answer->execution->instance;
        struct testing_buffer          out;

        if (size == 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "output '%s' must have a type of numbers", config->name);
        KIT_TRY(testing_output_new(instance, answer->response, &output, size * (size_t)shape[0],
                                   &out));
        for (int64_t i = 0; i < shape[0]; i++)
                memcpy((char *)out.bytes + (size_t)i * size, &number, size);
        return testing_put(instance, &out);
}

static TRITONSERVER_Error *put_text(const struct answer *answer, const struct kit_tensor *config,
                                    const char *text) {
        int64_t                        shape[2];
        struct kit_output              output = one_value(answer, config, shape);
        struct kit_string              string = { .chars = text, .len = (uint32_t)strlen(text) };
        size_t                         size = kit_string_list_size(&string, 1);
        const struct testing_instance *instance = answer->execution->instance;
        struct testing_buffer          out;

        KIT_TRY(testing_output_new(instance, answer->response, &output, size * (size_t)shape[0],
                                   &out));
        for (int64_t i = 0; i < shape[0]; i++)
                kit_string_list_encode(&string, 1, (char *)out.bytes + (size_t)i * size);
        return testing_put(instance, &out);
}

static const char *input_of(const struct kit_model *model, const struct kit_tensor *output) {
        size_t place = (size_t)(output - model->outputs);

        if (strncmp(output->name, "ECHO_", 5) == 0)
                return output->name + 5;

        if (strncmp(output->name, "OUTPUT", 6) == 0)
                for (uint32_t i = 0; i < model->n_inputs; i++)
                        if (strncmp(model->inputs[i].name, "INPUT", 5) == 0 &&
                            strcmp(model->inputs[i].name + 5, output->name + 6) == 0)
                                return model->inputs[i].name;
        return place < model->n_inputs ? model->inputs[place].name : NULL;
}

static void log_addresses(const struct testing_instance *instance, const struct kit_input *input,
                          const void *out) {
        int                 to = instance->model->address_log;
        const void         *bytes, *in = NULL;
        TRITONSERVER_Error *err = testing_borrow(instance, input, &bytes, &in);
        char                line[64];
        int                 len;

        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        len = snprintf(line, sizeof(line), "%p %p\n", in, out);
        if (write(to, line, (size_t)len) != len)
                kit_error_log(kit_error(TRITONSERVER_ERROR_INTERNAL, "short write"),
                              "addresses are not logged");
}

/* Applies the model's parameters to the values of a repeated input; only to INT32. */
static TRITONSERVER_Error *work_on(const struct answer *answer, const struct kit_input *input,
                                   const struct testing_buffer *out) {
        const struct testing_model *model = answer->execution->instance->model;
        int32_t                    *values = out->bytes;

        if (model->address_log >= 0)
                log_addresses(answer->execution->instance, input, out->at);
        if (input->type != TRITONSERVER_TYPE_INT32 || input->n_bytes < sizeof(*values))
                return NULL;
        if (model->has_fail_value && values[0] == model->fail_value)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "value %lld",
                                 (long long)model->fail_value);
        if (model->has_end_value && values[0] == model->end_value)
                KIT_TRY(TRITONBACKEND_ResponseSetBoolParameter(answer->response, "chain_end",
                                                               true));
        for (uint64_t i = 0; model->add != 0 && i < input->n_bytes / sizeof(*values); i++)
                values[i] += (int32_t)model->add;
        return NULL;
}

static TRITONSERVER_Error *put_input(const struct answer *answer, const struct kit_tensor *config) {
        const char       *name = input_of(&answer->execution->instance->model->kit, config);
        struct kit_output output = { .name = config->name };
        const struct testing_instance *instance = answer->execution->instance;
        struct testing_buffer          out;
        struct kit_input               input;

        if (name == NULL || !kit_input_find(answer->request, name, &input))
                return NULL;
        output.type = input.type;
        output.shape = input.shape;
        output.n_dims = input.n_dims;
        KIT_TRY(testing_output_new(instance, answer->response, &output, input.n_bytes, &out));
        KIT_TRY(testing_copy(instance, &input, out.bytes));
        KIT_TRY(work_on(answer, &input, &out));
        return testing_put(instance, &out);
}

static TRITONSERVER_Error *step_states(struct answer *answer, const struct wishes *wishes) {
        return testing_states_step(answer->execution->instance, answer->request,
                                   wishes->keeps_state, &answer->addresses);
}

static TRITONSERVER_Error *fill_answer(const struct answer *answer) {
        const struct testing_instance *instance = answer->execution->instance;
        const struct kit_model        *kit = &instance->model->kit;

        for (uint32_t i = 0; i < kit->n_outputs; i++) {
                const struct kit_tensor *config = &kit->outputs[i];
                int64_t                  number;

                if (!kit_wants_output(answer->request, config->name))
                        continue;
                if (find_number(answer, config->name, &number))
                        KIT_TRY(put_number(answer, config, number));
                else if (strcmp(config->name, "INSTANCE") == 0)
                        KIT_TRY(put_text(answer, config, instance->name));
                else
                        KIT_TRY(put_input(answer, config));
        }
        return NULL;
}

/* The request still reads the old values while the new ones exist. */
static TRITONSERVER_Error *fill_with_states(struct answer *answer, const struct wishes *wishes) {
        KIT_TRY(step_states(answer, wishes));
        return fill_answer(answer);
}

TRITONSERVER_Error *testing_answer(const struct testing_execution *execution,
                                   const struct kit_slot          *slot) {
        struct wishes wishes = { .fail_code = TRITONSERVER_ERROR_INTERNAL };
        struct answer answer = {
                .execution = execution,
                .request = slot->request,
                .response = slot->response,
                .rows = slot->rows,
        };

        KIT_TRY(read_wishes(slot->request, &wishes));
        KIT_TRY(report_activity(slot->request, &wishes, "_START"));
        testing_sleep_ms(wishes.delay_ms);
        if (wishes.fail != NULL)
                return kit_error(wishes.fail_code, "%s", wishes.fail);
        KIT_TRY(fill_with_states(&answer, &wishes));
        return report_activity(slot->request, &wishes, "_END");
}

static TRITONSERVER_Error *send_one(TRITONBACKEND_ResponseFactory *factory, struct answer *answer,
                                    const struct wishes *wishes) {
        TRITONSERVER_Error *err, *sent;

        KIT_TRY(TRITONBACKEND_ResponseNewFromFactory(&answer->response, factory));
        testing_sleep_ms(wishes->delay_ms);
        if (wishes->fail != NULL && wishes->fail_at == answer->index)
                err = kit_error(wishes->fail_code, "%s", wishes->fail);
        else
                err = fill_answer(answer);
        sent = TRITONBACKEND_ResponseSend(answer->response, 0, err);
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return sent;
}

static TRITONSERVER_Error *send_all(TRITONBACKEND_ResponseFactory *factory, struct answer *answer,
                                    const struct wishes *wishes) {
        for (; answer->index < wishes->n_responses; answer->index++) {
                bool is_cancelled = false;

                KIT_TRY(TRITONBACKEND_ResponseFactoryIsCancelled(factory, &is_cancelled));
                if (is_cancelled)
                        break;
                KIT_TRY(send_one(factory, answer, wishes));
        }
        return NULL;
}

TRITONSERVER_Error *testing_refuse(TRITONBACKEND_Request *request, TRITONSERVER_Error *err) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *failed = TRITONBACKEND_ResponseNew(&response, request);

        if (failed == NULL)
                failed = TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                    err);
        kit_error_log(failed, "failed to refuse a request");
        return err;
}

TRITONSERVER_Error *testing_answer_many(const struct testing_execution *execution,
                                        TRITONBACKEND_Request *request, int64_t rows) {
        TRITONBACKEND_ResponseFactory *factory;
        struct wishes                  wishes = {
                                 .fail_code = TRITONSERVER_ERROR_INTERNAL,
                                 .n_responses = execution->instance->model->n_responses,
        };
        struct answer       answer = { .execution = execution, .request = request, .rows = rows };
        TRITONSERVER_Error *err;

        err = read_wishes(request, &wishes);
        if (err == NULL)
                err = step_states(&answer, &wishes);
        if (err == NULL)
                err = TRITONBACKEND_ResponseFactoryNew(&factory, request);
        if (err != NULL)
                return testing_refuse(request, err);
        err = send_all(factory, &answer, &wishes);
        kit_error_log(TRITONBACKEND_ResponseFactorySendFlags(factory,
                                                             TRITONSERVER_RESPONSE_COMPLETE_FINAL),
                      "failed to end the responses of a request");
        kit_error_log(TRITONBACKEND_ResponseFactoryDelete(factory),
                      "failed to delete a response factory");
        return err;
}

TRITONSERVER_Error *testing_answer_step(const struct testing_execution *execution,
                                        TRITONBACKEND_Request *request, int64_t rows, int64_t index,
                                        bool is_last) {
        struct answer answer = {
                .execution = execution, .request = request, .rows = rows, .index = index
        };
        TRITONSERVER_Error *err, *sent;

        KIT_TRY(TRITONBACKEND_ResponseNew(&answer.response, request));
        err = fill_answer(&answer);
        sent = TRITONBACKEND_ResponseSend(answer.response,
                                          is_last ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0, err);
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return sent;
}
