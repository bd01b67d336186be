/* SPDX-License-Identifier: BSD-3-Clause */
/* Any text as a model's config.pbtxt, through the whole load: the file, the configuration, the backend, the
 * instances, the scheduler; then one inference that is cancelled, and the unload.
 *
 * What must hold: a load fails with a reason or gives a model that describes itself; the inference is
 * refused, or answered and released once each; the unload ends.
 */
#include "base/compiler.h"
#include "base/error.h"
#include "config/model_config.h"
#include "core_api/core_error.h"
#include "triton/core/tritonserver.h"
#include "whole_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL "fuzz"
#define MAX_BYTES 8192
#define MAX_INSTANCES 8

static const struct whole_server *s;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool holds, const char *what) {
        if (holds)
                return;
        fprintf(stderr, "config load: %s\n", what);
        abort();
}

/* ---- the model ---------------------------------------------------------------------------------- */

/* Texts that ask for what takes long, or for more threads than a target should start. */
static bool is_costly(struct str text) {
        static const char *const words[] = { "delay_ms", "warmup", "python", "onnx" };
        struct model_config     *c = NULL;
        struct error            *err = model_config_read_text(text, "fuzz", &c);
        int64_t                  n = 0;
        bool                     is = false;

        for (size_t i = 0; err == NULL && i < c->pb->n_instance_group; i++)
                n += llabs((long long)c->pb->instance_group[i]->count);
        is = n > MAX_INSTANCES;
        error_free(err);
        model_config_free(c);
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                is |= memmem(text.ptr, text.len, words[i], strlen(words[i])) != NULL;
        return is;
}

static void describe(void) {
        struct TRITONSERVER_Message *message;

        expect(TRITONSERVER_ServerModelConfig(s->core, MODEL, -1, 1, &message) == NULL, "config");
        TRITONSERVER_MessageDelete(message);
        expect(TRITONSERVER_ServerModelMetadata(s->core, MODEL, -1, &message) == NULL, "metadata");
        TRITONSERVER_MessageDelete(message);
        expect(TRITONSERVER_ServerModelStatistics(s->core, MODEL, -1, &message) == NULL, "stats");
        TRITONSERVER_MessageDelete(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct str    text = str_range((const char *)bytes, size);
        struct error *err;

        s = whole_server_get(
                &(struct whole_server_options){ .may_load = true, .needs_no_net = true });
        if (size > MAX_BYTES || is_costly(text))
                return 0;
        whole_server_put_config(MODEL, text);
        err = core_error_take(TRITONSERVER_ServerLoadModel(s->core, MODEL));
        if (err == NULL) {
                describe();
                whole_server_infer(MODEL, true);
                expect(TRITONSERVER_ServerUnloadModel(s->core, MODEL) == NULL, "unload");
        } else {
                expect(err->message[0] != '\0', "no reason");
        }
        error_free(err);
        return 0;
}
