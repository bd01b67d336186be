/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/openai_parameters.h"
#include "config_rows.h"

#define BASE "name: 'm' backend: 'b' "
#define INPUT(name, type) "input { name: '" name "' data_type: TYPE_" type " dims: 1 } "
#define PARAMETER(key, value) "parameters { key: '" key "' value { string_value: '" value "' } } "

static const struct config_row rows[] = {
        { BASE, NULL },
        { BASE PARAMETER("openai", "off"), NULL },
        { BASE PARAMETER("openai", "embeddings"), NULL }, /* the backend may complete the inputs */
        { BASE PARAMETER("openai", "on"),
          "the parameter 'openai' of model 'm' is 'on', but must be 'embeddings' or 'off'" },
        { BASE PARAMETER("openai", "embeddings") INPUT("text", "STRING"), NULL },
        { BASE PARAMETER("openai", "embeddings") INPUT("text", "STRING")
                  INPUT("dimensions", "INT32"),
          NULL },
        { BASE PARAMETER("openai", "embeddings") INPUT("text", "FP32"),
          "model 'm' cannot serve embeddings: it needs one input of the type TYPE_STRING, and may "
          "have a second one, 'dimensions'" },
        { BASE PARAMETER("openai", "embeddings") INPUT("text", "STRING") INPUT("more", "STRING"),
          "model 'm' cannot serve embeddings: it needs one input of the type TYPE_STRING, and may "
          "have a second one, 'dimensions'" },
        { BASE PARAMETER("openai_format", "embed") INPUT("text", "FP32"),
          "model 'm' cannot serve embeddings: it needs one input of the type TYPE_STRING, and may "
          "have a second one, 'dimensions'" },
        { BASE PARAMETER("openai_format", "vllm"), NULL },
        { BASE PARAMETER("openai_format", "vllm") INPUT("text_input", "STRING")
                  INPUT("sampling_parameters", "STRING"),
          NULL },
        { BASE PARAMETER("openai_format", "vllm") INPUT("text_input", "STRING"),
          "the parameter 'openai_format' of model 'm' is 'vllm', but the model has no input "
          "'sampling_parameters'" },
        { BASE PARAMETER("openai_format", "trtllm") INPUT("text_input", "STRING"),
          "the parameter 'openai_format' of model 'm' is 'trtllm', but the model has no input "
          "'max_tokens'" },
        { BASE PARAMETER("openai_format", "llmapi") INPUT("text_input", "STRING"),
          "the parameter 'openai_format' of model 'm' is 'llmapi', but the model has no input "
          "'sampling_param_max_tokens'" },
        { BASE PARAMETER("openai_format", "openai") INPUT("text_input", "STRING"),
          "the parameter 'openai_format' of model 'm' is 'openai', but the model has no input "
          "'openai_request'" },
        { BASE PARAMETER("openai_format", "mine"),
          "the parameter 'openai_format' of model 'm' is 'mine', but must be 'vllm', 'trtllm', "
          "'llmapi', 'openai' or 'embed'" },
        { BASE PARAMETER("openai_max_tokens", "16"), NULL },
        { BASE PARAMETER("openai_max_tokens", "0"),
          "the parameter 'openai_max_tokens' of model 'm' is '0', but must be a positive "
          "integer" },
        { BASE PARAMETER("openai_dimensions", "truncate"), NULL },
        { BASE PARAMETER("openai_dimensions", "3"),
          "the parameter 'openai_dimensions' of model 'm' is '3', but must be 'truncate'" },
};

static void test_rows(void **state) {
        (void)state;
        run_rows(rows, sizeof(rows) / sizeof(rows[0]), openai_parameters_check);
}

SUITE(openai_parameters) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
