/* SPDX-License-Identifier: BSD-3-Clause */
/* Any text as a model's config.pbtxt, through the whole load: the file, the configuration, the backend, the
 * instances, the scheduler; then one inference that is cancelled, and the unload. The model has versions 1, 2
 * and 7, a file of labels and one of an initial state. The testing backend may complete the configuration.
 *
 * What must hold: a load fails with a reason or gives a model that describes itself; the inference is
 * refused, or answered and released once each; the unload ends.
 */
#include "base/compiler.h"
#include "base/error.h"
#include "config/model_config.h"
#include "core_api/core_error.h"
#include "expect.h"
#include "triton/core/tritonserver.h"
#include "whole_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL "fuzz"
#define MAX_BYTES 8192
#define MAX_INSTANCES 8

static const struct whole_server *s;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* ---- the model ---------------------------------------------------------------------------------- */

/* The testing backend waits, writes files and crashes where parameters say so. */
static bool is_harmless(const struct model_config *c) {
        static const char *const keys[] = { "fill_config", "fail_load", "fail_load_code",
                                            "fail_instance" };
        size_t                   n_known = 0;

        if (strcmp(c->pb->backend, "testing") != 0)
                return true;
        for (size_t i = 0; i < c->pb->n_parameters; i++)
                for (size_t k = 0; k < ARRAY_LEN(keys); k++)
                        n_known += strcmp(c->pb->parameters[i]->key, keys[k]) == 0;
        return n_known == c->pb->n_parameters;
}

/* Texts that ask for what takes long, or for more threads than a target should start. */
static bool is_costly(struct str text) {
        static const char *const words[] = { "delay_ms", "warmup", "python", "onnx" };
        struct model_config     *c = NULL;
        struct error            *err = model_config_read_text(text, "fuzz", &c);
        int64_t                  n = 0;
        bool                     is = false;

        for (size_t i = 0; err == NULL && i < c->pb->n_instance_group; i++)
                n += llabs((long long)c->pb->instance_group[i]->count);
        is = n > MAX_INSTANCES || (err == NULL && !is_harmless(c));
        error_free(err);
        model_config_free(c);
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                is |= memmem(text.ptr, text.len, words[i], strlen(words[i])) != NULL;
        return is;
}

static void put_file(const char *name, const char *text) {
        char  path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/" MODEL "/%s", s->models, name);
        if (text == NULL) {
                expect(mkdir(path, 0700) == 0, path);
                return;
        }
        file = fopen(path, "w");
        expect(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, path);
}

/* What configurations may name. */
static void put_files_once(void) {
        static bool has_files;

        if (has_files)
                return;
        has_files = true;
        whole_server_put_config(MODEL, STR_LIT(""));
        put_file("2", NULL);
        put_file("7", NULL);
        put_file("labels", "a\nb\n");
        put_file("initial_state", NULL);
        put_file("initial_state/eight", "12345678");
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
        put_files_once();
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
