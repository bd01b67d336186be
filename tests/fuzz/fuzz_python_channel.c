/* SPDX-License-Identifier: BSD-3-Clause */
/* A process of the python backend that writes anything into the memory that it shares with the server
 * (hostile_stub.c): messages, records, the header's words, segments.
 *
 * Each input is a load, an inference and an unload. What must hold: the load ends, the request is refused, or
 * answered and released once, and another model goes on.
 */
#include "base/error.h"
#include "core_api/core_error.h"
#include "expect.h"
#include "triton/core/tritonserver.h"
#include "whole_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL "hostile"
#define MAX_BYTES 4096

static char path[128];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_file(const char *to, const void *bytes, size_t size) {
        FILE *file = fopen(to, "wb");

        expect(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, to);
}

static const struct whole_server *start_once(void) {
        static const char *const settings[] = {
                "python-path", FUZZ_STUB, "stub-restart", "false", "stub-timeout-seconds", "1", NULL
        };
        static const struct whole_server_options options = { .may_load = true,
                                                             .needs_no_net = true,
                                                             .is_strict = true,
                                                             .python_settings = settings };
        const struct whole_server               *s = whole_server_get(&options);
        char                                     program[128];

        if (path[0] != '\0')
                return s;
        snprintf(path, sizeof(path), "%s/bytes", s->models);
        setenv("NESO_FUZZ_BYTES", path, 1);
        whole_server_put_config(
                MODEL, STR_LIT("backend: 'python' input { name: 'I' data_type: TYPE_INT8 dims: 8 } "
                               "output { name: 'O' data_type: TYPE_INT8 dims: 8 }"));
        snprintf(program, sizeof(program), "%s/" MODEL "/1/model.py", s->models);
        write_file(program, "", 0);
        return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        const struct whole_server *s = start_once();
        struct error              *err;
        bool                       is_ready = false;

        if (size > MAX_BYTES)
                return 0;
        write_file(path, bytes, size);
        err = core_error_take(TRITONSERVER_ServerLoadModel(s->core, MODEL));
        if (err == NULL) {
                whole_server_infer(MODEL, false);
                expect(TRITONSERVER_ServerUnloadModel(s->core, MODEL) == NULL, "unload");
        }
        error_free(err);
        expect(TRITONSERVER_ServerModelIsReady(s->core, "numbers", -1, &is_ready) == NULL &&
                       is_ready,
               "another model is not ready");
        return 0;
}
