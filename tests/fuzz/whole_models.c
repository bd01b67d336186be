/* SPDX-License-Identifier: BSD-3-Clause */
#include "whole_models.h"

#include "base/compiler.h"

#define N_PLAIN 3

#define IN(name, type, dims) "input { name: '" name "' data_type: " type " dims: [" dims "] } "
#define MAYBE(name, type)                                                                          \
        "input { name: '" name "' data_type: " type " dims: [ 1 ] optional: true } "
#define OUT(name, type, dims) "output { name: '" name "' data_type: " type " dims: [" dims "] } "
#define SET(key, value) "parameters { key: '" key "' value { string_value: '" value "' } } "

#define PAIR(type) IN("INPUT0", type, "-1") OUT("OUTPUT0", type, "-1")
#define TEXT_IN IN("text_input", "TYPE_STRING", "1")
#define TEXT_OUT OUT("text_output", "TYPE_STRING", "1")
#define IDENTITY "backend: 'identity' "
#define DECOUPLED "model_transaction_policy { decoupled: true } "

const struct whole_model whole_models[] = {
        { "numbers", IDENTITY PAIR("TYPE_FP32") },
        { "texts", IDENTITY PAIR("TYPE_STRING") },
        { "batches", IDENTITY "max_batch_size: 4 dynamic_batching { } " PAIR("TYPE_FP32") },

        { "say", IDENTITY IN("openai_request", "TYPE_STRING", "1")
                         OUT("openai_response", "TYPE_STRING", "1") },
        { "words", IDENTITY DECOUPLED TEXT_IN MAYBE("sampling_parameters", "TYPE_STRING")
                           MAYBE("stream", "TYPE_BOOL") MAYBE("embedding_request", "TYPE_STRING")
                                   MAYBE("return_num_input_tokens", "TYPE_BOOL")
                                           TEXT_OUT SET("openai_template", "render") },
        { "render", IDENTITY IN("openai_request", "TYPE_STRING", "1")
                            OUT("text", "TYPE_STRING", "1") SET("openai", "off") },
        { "trt",
          IDENTITY TEXT_IN IN("max_tokens", "TYPE_INT32", "1") MAYBE("stop_words", "TYPE_STRING")
                  MAYBE("num_return_sequences", "TYPE_INT32") MAYBE("temperature", "TYPE_FP32")
                          TEXT_OUT SET("openai_max_tokens", "7") SET("openai_template", "render") },
        { "llm", IDENTITY TEXT_IN MAYBE("sampling_param_max_tokens", "TYPE_INT32")
                         MAYBE("sampling_param_stop", "TYPE_STRING")
                                 MAYBE("guided_decoding_guide_type", "TYPE_STRING")
                                         MAYBE("guided_decoding_guide", "TYPE_STRING")
                                                 TEXT_OUT SET("openai_template", "render") },
        { "vectors",
          IDENTITY IN("text", "TYPE_STRING", "1") MAYBE("dimensions", "TYPE_FP32")
                  OUT("same", "TYPE_STRING", "1") OUT("vector", "TYPE_FP32", "1")
                          SET("openai", "embeddings") SET("openai_dimensions", "truncate") },
        { "several", "backend: 'testing' " DECOUPLED PAIR("TYPE_INT32") SET("responses", "3") },
        { "sequence", IDENTITY
          "sequence_batching { max_sequence_idle_microseconds: 500000 } " PAIR("TYPE_INT32") },
        { "kept", IDENTITY "response_cache { enable: true } " PAIR("TYPE_FP32")
                          IN("INPUT1", "TYPE_STRING", "-1") OUT("OUTPUT1", "TYPE_STRING", "-1") },
};

size_t whole_models_count(bool is_full) {
        return is_full ? ARRAY_LEN(whole_models) : N_PLAIN;
}
