/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of a request that loads a model: JSON with a configuration, files and parameters. It goes over
 * HTTP to a whole server, which loads the model or says why not.
 *
 * The first byte chooses the model and the operation. What must hold: one answer of JSON, with an error
 * text unless its status is 200; a model that was loaded is ready, describes itself and can be unloaded;
 * and nothing that a body says changes another model.
 */
#include "base/error.h"
#include "codec/json_find.h"
#include "core_api/core_error.h"
#include "expect.h"
#include "triton/core/tritonserver.h"
#include "whole_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BODY_BYTES 16384

static const struct whole_server *s;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Each execution would take as long as a body says; the testing backend does worse. */
static bool is_slow(struct str body) {
        return memmem(body.ptr, body.len, "delay", 5) != NULL ||
               memmem(body.ptr, body.len, "warmup", 6) != NULL ||
               memmem(body.ptr, body.len, "python", 6) != NULL ||
               memmem(body.ptr, body.len, "onnx", 4) != NULL ||
               memmem(body.ptr, body.len, "testing", 7) != NULL ||
               memmem(body.ptr, body.len, "count", 5) != NULL;
}

static int ask(const char *model, const char *verb, struct str body) {
        AUTO_STRBUF   answer;
        struct arena  arena;
        struct error *err;
        char          path[128];
        int           status;

        strbuf_init(&answer, 0);
        arena_init(&arena, NULL, 0, 0);
        snprintf(path, sizeof(path), "/v2/repository/models/%s/%s", model, verb);
        status = whole_server_ask(path, body, &answer);
        if (status != 200) {
                err = json_check(strbuf_str(&answer), JSON_OBJECT);
                expect(err == NULL, "the answer is no JSON");
                expect(json_find_text(strbuf_str(&answer), "error", &arena).len > 0,
                       "no error text");
        }
        arena_done(&arena);
        return status;
}

static bool is_ready(const char *model) {
        bool          is = false;
        struct error *err =
                core_error_take(TRITONSERVER_ServerModelIsReady(s->core, model, -1, &is));

        error_free(err);
        return is;
}

static void check_loaded(const char *model) {
        struct TRITONSERVER_Message *message;

        expect(is_ready(model), "a model that was loaded is not ready");
        expect(TRITONSERVER_ServerModelConfig(s->core, model, -1, 1, &message) == NULL, "config");
        TRITONSERVER_MessageDelete(message);
        expect(TRITONSERVER_ServerModelMetadata(s->core, model, -1, &message) == NULL, "metadata");
        TRITONSERVER_MessageDelete(message);
        expect(ask(model, "unload", STR_LIT("{}")) == 200, "it is not unloaded");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        static const char *const models[] = { "fresh", "numbers", "none", "batches" };
        const char              *model;
        struct str               body;

        s = whole_server_get(&(struct whole_server_options){ .may_load = true });
        if (size < 1 || size > MAX_BODY_BYTES)
                return 0;
        whole_server_put_config("fresh", STR_LIT("backend: 'identity' input { name: 'I' data_type: "
                                                 "TYPE_INT8 dims: 1 } output { name: 'O' "
                                                 "data_type: TYPE_INT8 dims: 1 }"));
        model = models[bytes[0] % 4];
        body = str_range((const char *)bytes + 1, size - 1);
        if (is_slow(body))
                return 0;
        if ((bytes[0] & 4) != 0)
                (void)ask(model, "unload", body);
        else if (ask(model, "load", body) == 200)
                check_loaded(model);
        expect(is_ready("texts"), "another model is gone");
        return 0;
}
