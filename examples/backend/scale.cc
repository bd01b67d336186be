// SPDX-License-Identifier: BSD-3-Clause
// scale.c in C++17 with the headers of the C API alone: Y = X * factor, a parameter of the model.
//
// Exceptions must not leave the functions that the server calls.
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <string>
#include <vector>

#include <triton/core/tritonbackend.h>

namespace {

struct Failure {
    TRITONSERVER_Error *error;
};

void check(TRITONSERVER_Error *err) {
    if (err != nullptr)
        throw Failure{err};
}

// The border to C: what `work` throws is returned.
template <typename Work>
TRITONSERVER_Error *guarded(Work work) noexcept {
    try {
        work();
        return nullptr;
    } catch (const Failure &failure) {
        return failure.error;
    } catch (const std::exception &failure) {
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, failure.what());
    }
}

uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); // what the server's statistics are in
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

struct Model {
    float factor = 2;
};

// The value of `"factor":{"string_value":"3"}`; a real backend has a reader of JSON.
float find_factor(const std::string &config, float otherwise) {
    const std::string key = "\"factor\":{\"string_value\":\"";
    const size_t at = config.find(key);
    return at == std::string::npos ? otherwise : std::strtof(config.c_str() + at + key.size(), nullptr);
}

void read_config(TRITONBACKEND_Model *triton, Model *model) {
    TRITONSERVER_Message *message;
    const char *text;
    size_t size;
    check(TRITONBACKEND_ModelConfig(triton, 1, &message));
    TRITONSERVER_Error *err = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
    if (err == nullptr)
        model->factor = find_factor(std::string(text, size), model->factor);
    TRITONSERVER_MessageDelete(message);
    check(err);
}

// One request's X: it may lie in several buffers, at any address.
std::vector<float> read_input(TRITONBACKEND_Request *request, std::vector<int64_t> *shape) {
    TRITONBACKEND_Input *input;
    const int64_t *dims;
    uint32_t n_dims, n_buffers;
    uint64_t size;
    check(TRITONBACKEND_RequestInput(request, "X", &input));
    check(TRITONBACKEND_InputProperties(input, nullptr, nullptr, &dims, &n_dims, &size, &n_buffers));
    shape->assign(dims, dims + n_dims);
    std::vector<float> values(size / sizeof(float));
    char *to = reinterpret_cast<char *>(values.data());
    for (uint32_t i = 0; i < n_buffers; i++) {
        const void *from;
        uint64_t n_bytes;
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        int64_t id = 0;
        check(TRITONBACKEND_InputBuffer(input, i, &from, &n_bytes, &memory, &id));
        std::memcpy(to, from, n_bytes);
        to += n_bytes;
    }
    return values;
}

void write_output(TRITONBACKEND_Response *response, const std::vector<int64_t> &shape,
                  const std::vector<float> &values) {
    TRITONBACKEND_Output *output;
    void *buffer;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    check(TRITONBACKEND_ResponseOutput(response, &output, "Y", TRITONSERVER_TYPE_FP32, shape.data(),
                                       static_cast<uint32_t>(shape.size())));
    check(TRITONBACKEND_OutputBuffer(output, &buffer, values.size() * sizeof(float), &memory, &id));
    if (!values.empty())
        std::memcpy(buffer, values.data(), values.size() * sizeof(float));
}

// Answers a request; the rows it had.
uint64_t answer(const Model &model, TRITONBACKEND_Request *request, TRITONBACKEND_Response *response) {
    std::vector<int64_t> shape;
    std::vector<float> values = read_input(request, &shape);
    for (float &value : values)
        value *= model.factor;
    write_output(response, shape, values);
    return static_cast<uint64_t>(shape.at(0));
}

} // namespace

extern "C" {

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
    return guarded([&] {
        Model *model = new Model;
        check(TRITONBACKEND_ModelSetState(triton, model)); // ModelFinalize() deletes it
        read_config(triton, model);
    });
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
    return guarded([&] {
        void *model;
        check(TRITONBACKEND_ModelState(triton, &model));
        delete static_cast<Model *>(model);
    });
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests, const uint32_t n) {
    TRITONBACKEND_Model *triton;
    void *model;
    if (TRITONSERVER_Error *err = TRITONBACKEND_ModelInstanceModel(instance, &triton))
        return err;
    if (TRITONSERVER_Error *err = TRITONBACKEND_ModelState(triton, &model))
        return err;

    // From here on the requests are ours: each is answered and released, whatever happens.
    const uint64_t start = now_ns();
    uint64_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        TRITONBACKEND_Response *response;
        const uint64_t begun = now_ns();
        TRITONSERVER_Error *err = TRITONBACKEND_ResponseNew(&response, requests[i]);
        if (err == nullptr) {
            err = guarded([&] { n_rows += answer(*static_cast<Model *>(model), requests[i], response); });
            TRITONSERVER_ErrorDelete(
                TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, err));
        }
        TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportStatistics(
            instance, requests[i], err == nullptr, start, begun, now_ns(), now_ns()));
        TRITONSERVER_ErrorDelete(err);
        TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
    }
    const uint64_t end = now_ns();
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, n_rows, start, start, end, end));
    return nullptr;
}

} // extern "C"
