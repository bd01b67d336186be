// SPDX-License-Identifier: BSD-3-Clause
// infer.c in C++17: the objects of the C API owned by unique_ptr, the response awaited as a future.
//
//   infer_cpp REPOSITORY BACKENDS MODEL INPUT OUTPUT SHAPE < values > values
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <triton/core/tritonserver.h>

namespace {

void check(TRITONSERVER_Error *err) {
    if (err == nullptr)
        return;
    std::string text = std::string(TRITONSERVER_ErrorCodeString(err)) + " - " + TRITONSERVER_ErrorMessage(err);
    TRITONSERVER_ErrorDelete(err);
    throw std::runtime_error(text);
}

// An object that ends with the function of the C API that is there for it.
template <typename T, TRITONSERVER_Error *(*end)(T *)>
struct Ends {
    void operator()(T *object) const { TRITONSERVER_ErrorDelete(end(object)); }
};
template <typename T, TRITONSERVER_Error *(*end)(T *)>
using Owned = std::unique_ptr<T, Ends<T, end>>;

using Options = Owned<TRITONSERVER_ServerOptions, TRITONSERVER_ServerOptionsDelete>;
using Server = Owned<TRITONSERVER_Server, TRITONSERVER_ServerDelete>;
using Allocator = Owned<TRITONSERVER_ResponseAllocator, TRITONSERVER_ResponseAllocatorDelete>;
using Request = Owned<TRITONSERVER_InferenceRequest, TRITONSERVER_InferenceRequestDelete>;
using Response = Owned<TRITONSERVER_InferenceResponse, TRITONSERVER_InferenceResponseDelete>;

// The callbacks are C: no exception may leave them.
TRITONSERVER_Error *give(TRITONSERVER_ResponseAllocator *, const char *, size_t byte_size,
                         TRITONSERVER_MemoryType, int64_t, void *, void **buffer, void **buffer_userp,
                         TRITONSERVER_MemoryType *type, int64_t *id) {
    *buffer = ::operator new(byte_size, std::nothrow);
    *buffer_userp = nullptr;
    *type = TRITONSERVER_MEMORY_CPU;
    *id = 0;
    return *buffer != nullptr ? nullptr : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
}

TRITONSERVER_Error *take_back(TRITONSERVER_ResponseAllocator *, void *buffer, void *, size_t,
                              TRITONSERVER_MemoryType, int64_t) {
    ::operator delete(buffer);
    return nullptr;
}

struct Outcome {
    std::promise<TRITONSERVER_InferenceResponse *> response;
    std::promise<void> released;
};

void on_response(TRITONSERVER_InferenceResponse *response, uint32_t, void *userp) {
    static_cast<Outcome *>(userp)->response.set_value(response);
}

void on_release(TRITONSERVER_InferenceRequest *, uint32_t, void *userp) {
    static_cast<Outcome *>(userp)->released.set_value();
}

Server start(const char *repository, const char *backends) {
    TRITONSERVER_ServerOptions *made = nullptr;
    check(TRITONSERVER_ServerOptionsNew(&made));
    Options options(made);
    check(TRITONSERVER_ServerOptionsSetModelRepositoryPath(made, repository));
    check(TRITONSERVER_ServerOptionsSetBackendDirectory(made, backends));
    check(TRITONSERVER_ServerOptionsSetStrictModelConfig(made, false));
    check(TRITONSERVER_ServerOptionsSetLogInfo(made, false));
    TRITONSERVER_Server *server = nullptr;
    check(TRITONSERVER_ServerNew(&server, made));
    return Server(server);
}

std::vector<int64_t> read_shape(const char *text) {
    std::vector<int64_t> shape;
    for (char *at = const_cast<char *>(text); *at != '\0'; at += *at == 'x')
        shape.push_back(std::strtoll(at, &at, 10));
    return shape;
}

std::vector<float> infer(TRITONSERVER_Server *server, char **names, const std::vector<int64_t> &shape,
                         const std::vector<float> &values) {
    const char *model = names[0], *input = names[1], *output = names[2];
    Outcome outcome;
    TRITONSERVER_ResponseAllocator *made_allocator = nullptr;
    check(TRITONSERVER_ResponseAllocatorNew(&made_allocator, give, take_back, nullptr));
    Allocator allocator(made_allocator);
    TRITONSERVER_InferenceRequest *made = nullptr;
    check(TRITONSERVER_InferenceRequestNew(&made, server, model, -1));
    Request request(made);
    check(TRITONSERVER_InferenceRequestSetReleaseCallback(made, on_release, &outcome));
    check(TRITONSERVER_InferenceRequestSetResponseCallback(made, allocator.get(), nullptr, on_response, &outcome));
    check(TRITONSERVER_InferenceRequestAddInput(made, input, TRITONSERVER_TYPE_FP32, shape.data(), shape.size()));
    check(TRITONSERVER_InferenceRequestAppendInputData(made, input, values.data(), values.size() * sizeof(float),
                                                       TRITONSERVER_MEMORY_CPU, 0));
    check(TRITONSERVER_InferenceRequestAddRequestedOutput(made, output));
    check(TRITONSERVER_ServerInferAsync(server, made, nullptr));
    Response response(outcome.response.get_future().get());
    outcome.released.get_future().wait();

    check(TRITONSERVER_InferenceResponseError(response.get()));
    const char *name;
    const int64_t *dims;
    const void *base;
    void *userp;
    uint64_t n_dims;
    size_t byte_size;
    int64_t id;
    TRITONSERVER_DataType type;
    TRITONSERVER_MemoryType memory;
    check(TRITONSERVER_InferenceResponseOutput(response.get(), 0, &name, &type, &dims, &n_dims, &base, &byte_size,
                                               &memory, &id, &userp));
    const float *first = static_cast<const float *>(base);
    return std::vector<float>(first, first + byte_size / sizeof(float));
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 7)
        return std::fputs("infer_cpp REPOSITORY BACKENDS MODEL INPUT OUTPUT SHAPE\n", stderr), 2;
    try {
        std::vector<float> values(65536);
        values.resize(std::fread(values.data(), sizeof(float), values.size(), stdin));
        Server server = start(argv[1], argv[2]);
        std::vector<float> result = infer(server.get(), argv + 3, read_shape(argv[6]), values);
        std::fwrite(result.data(), sizeof(float), result.size(), stdout);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "infer_cpp: %s\n", failure.what());
        return 1;
    }
    return 0;
}
