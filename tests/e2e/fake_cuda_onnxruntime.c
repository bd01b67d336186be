/* SPDX-License-Identifier: BSD-3-Clause */
/* A library of ONNX Runtime that seems to have the providers CUDA and TensorRT: the API of the real library,
 * NESO_REAL_ONNXRUNTIME, with the functions about them replaced. Sessions compute on the CPU; their bindings keep
 * tensors in the memory of GPUs (fake_cuda_binding.h). Each provider that is appended writes a line to the file
 * NESO_FAKE_PROVIDERS: its name, and its options in their order. Without NESO_FAKE_TENSORRT=1 the library has no
 * TensorRT. */
#include "fake_cuda_binding.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_TEXT 1024

static OrtApi            api;
static const OrtApi     *real;
static const OrtApiBase *real_base;

struct provider {
        char text[MAX_TEXT];
};

static OrtStatus *create(const char *name, struct provider **ret) {
        *ret = calloc(1, sizeof(**ret));
        if (*ret == NULL)
                return real->CreateStatus(ORT_FAIL, "out of memory");
        (void)snprintf((*ret)->text, MAX_TEXT, "%s", name);
        return NULL;
}

static OrtStatus *update(struct provider *p, const char *const *keys, const char *const *values,
                         size_t n) {
        for (size_t i = 0; i < n; i++) {
                size_t used = strlen(p->text);

                if (strcmp(keys[i], "trt_refuse") == 0)
                        return real->CreateStatus(ORT_INVALID_ARGUMENT, "trt_refuse is no option");
                (void)snprintf(p->text + used, MAX_TEXT - used, " %s=%s", keys[i], values[i]);
        }
        return NULL;
}

static OrtStatus *append(const struct provider *p) {
        const char *path = getenv("NESO_FAKE_PROVIDERS");
        FILE       *file = path != NULL ? fopen(path, "ae") : NULL;

        if (file != NULL && (fprintf(file, "%s\n", p->text) < 0 || fclose(file) != 0))
                return real->CreateStatus(ORT_FAIL, "the line of a provider cannot be written");
        return NULL;
}

/* ---- CUDA ------------------------------------------------------------------------------------ */

static OrtStatus *ORT_API_CALL create_cuda(OrtCUDAProviderOptionsV2 **ret) {
        return create("cuda", (struct provider **)ret);
}

static OrtStatus *ORT_API_CALL update_cuda(OrtCUDAProviderOptionsV2 *options,
                                           const char *const *keys, const char *const *values,
                                           size_t n) {
        return update((struct provider *)options, keys, values, n);
}

static OrtStatus *ORT_API_CALL append_cuda(OrtSessionOptions              *session,
                                           const OrtCUDAProviderOptionsV2 *options) {
        const struct provider *p = (const struct provider *)options;

        binding_options(session, atoi(strstr(p->text, "device_id=") + strlen("device_id=")));
        return append(p);
}

static void ORT_API_CALL release_cuda(OrtCUDAProviderOptionsV2 *options) {
        free(options);
}

/* ---- TensorRT -------------------------------------------------------------------------------- */

static OrtStatus *ORT_API_CALL create_tensorrt(OrtTensorRTProviderOptionsV2 **ret) {
        return create("tensorrt", (struct provider **)ret);
}

static OrtStatus *ORT_API_CALL update_tensorrt(OrtTensorRTProviderOptionsV2 *options,
                                               const char *const *keys, const char *const *values,
                                               size_t n) {
        return update((struct provider *)options, keys, values, n);
}

static OrtStatus *ORT_API_CALL append_tensorrt(OrtSessionOptions                  *session,
                                               const OrtTensorRTProviderOptionsV2 *options) {
        (void)session;
        return append((const struct provider *)options);
}

static void ORT_API_CALL release_tensorrt(OrtTensorRTProviderOptionsV2 *options) {
        free(options);
}

/* ---- the library ----------------------------------------------------------------------------- */

static char *providers[] = { "TensorrtExecutionProvider", "CUDAExecutionProvider",
                             "CPUExecutionProvider" };

static bool has_tensorrt(void) {
        const char *text = getenv("NESO_FAKE_TENSORRT");

        return text != NULL && strcmp(text, "1") == 0;
}

static OrtStatus *ORT_API_CALL get_providers(char ***ret, int *n) {
        *ret = has_tensorrt() ? providers : providers + 1;
        *n = has_tensorrt() ? 3 : 2;
        return NULL;
}

static OrtStatus *ORT_API_CALL release_providers(char **names, int n) {
        (void)names;
        (void)n;
        return NULL;
}

static const OrtApi *ORT_API_CALL get_api(uint32_t version) {
        if (version > ORT_API_VERSION)
                return NULL;
        real = real_base->GetApi(ORT_API_VERSION);
        if (real == NULL)
                return NULL;
        memcpy(&api, real, sizeof(api));
        api.GetAvailableProviders = get_providers;
        api.ReleaseAvailableProviders = release_providers;
        api.CreateCUDAProviderOptions = create_cuda;
        api.UpdateCUDAProviderOptions = update_cuda;
        api.SessionOptionsAppendExecutionProvider_CUDA_V2 = append_cuda;
        api.ReleaseCUDAProviderOptions = release_cuda;
        api.CreateTensorRTProviderOptions = create_tensorrt;
        api.UpdateTensorRTProviderOptions = update_tensorrt;
        api.SessionOptionsAppendExecutionProvider_TensorRT_V2 = append_tensorrt;
        api.ReleaseTensorRTProviderOptions = release_tensorrt;
        binding_replace(real, &api);
        return &api;
}

static const char *ORT_API_CALL get_version(void) {
        return real_base->GetVersionString();
}

EXPORT const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) {
        static const OrtApiBase base = { get_api, get_version };
        const OrtApiBase *(*get_base)(void);
        const char *name = getenv("NESO_REAL_ONNXRUNTIME");
        void       *library = name != NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;

        if (library == NULL) {
                (void)fprintf(stderr, "NESO_REAL_ONNXRUNTIME: %s\n",
                              name != NULL ? dlerror() : "is not set");
                abort();
        }
        *(void **)&get_base = dlsym(library, "OrtGetApiBase");
        real_base = get_base();
        return &base;
}
