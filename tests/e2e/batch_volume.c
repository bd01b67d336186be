/* SPDX-License-Identifier: BSD-3-Clause */
/* A custom batching library for tests: a batch has at most as many bytes of inputs as the model's
 * parameter max_bytes says. With -DONLY_INCLUDE it lacks four of the five functions.
 */
#include "triton/core/tritonbackend.h"

#include <stdlib.h>
#include <string.h>

struct batch {
        uint64_t max_bytes;
        uint64_t bytes;
};

TRITONSERVER_Error *TRITONBACKEND_ModelBatchIncludeRequest(TRITONBACKEND_Request *request,
                                                           void *userp, bool *should_include) {
        struct batch        *batch = userp;
        TRITONBACKEND_Input *input;
        uint64_t             bytes = 0;
        TRITONSERVER_Error  *err = TRITONBACKEND_RequestInputByIndex(request, 0, &input);

        if (err == NULL)
                err = TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &bytes, NULL);
        if (err != NULL)
                return err;
        *should_include = batch->bytes + bytes <= batch->max_bytes;
        if (*should_include || batch->bytes == 0) /* the first one runs anyway */
                batch->bytes += bytes;
        return NULL;
}

#ifndef ONLY_INCLUDE

static TRITONSERVER_Error *read_limit(TRITONSERVER_Message *config, uint64_t *ret) {
        static const char   key[] = "\"max_bytes\":{\"string_value\":\"";
        const char         *text, *at;
        size_t              n;
        TRITONSERVER_Error *err = TRITONSERVER_MessageSerializeToJson(config, &text, &n);

        if (err != NULL)
                return err;
        at = strstr(text, key);
        if (at == NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG,
                                             "the parameter max_bytes is missing");
        *ret = strtoull(at + strlen(key), NULL, 10);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatcherInitialize(TRITONBACKEND_Batcher **batcher,
                                                         TRITONBACKEND_Model    *model) {
        struct batch         *limits = calloc(1, sizeof(*limits));
        TRITONSERVER_Message *config;
        TRITONSERVER_Error   *err = TRITONBACKEND_ModelConfig(model, 1, &config);

        if (limits == NULL)
                abort();
        if (err == NULL) {
                err = read_limit(config, &limits->max_bytes);
                TRITONSERVER_MessageDelete(config);
        }
        if (err != NULL)
                free(limits);
        else
                *batcher = (TRITONBACKEND_Batcher *)limits;
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher *batcher) {
        free(batcher);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatchInitialize(const TRITONBACKEND_Batcher *batcher,
                                                       void                       **userp) {
        struct batch *batch = malloc(sizeof(*batch));

        if (batch == NULL)
                abort();
        *batch = *(const struct batch *)batcher;
        *userp = batch;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatchFinalize(void *userp) {
        free(userp);
        return NULL;
}

#endif
