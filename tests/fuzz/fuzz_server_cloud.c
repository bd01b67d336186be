/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of HTTP/1.1 to a port of a cloud platform: SageMaker with and without streams, Vertex AI. As
 * fuzz_server_http.c, with a second byte that chooses the port. Loads name models of the server's own
 * repository by a path that seeds know: /proc/self/fd/702/<model>.
 */
#include "whole_server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ANSWER_BYTES ((size_t)64 << 20)
#define MODELS_FD 702

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void open_models(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || dup2(fd, MODELS_FD) < 0)
                abort();
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        static bool                is_open;
        const struct whole_server *s = whole_server_get(
                &(struct whole_server_options){ .may_load = true, .has_cloud = true });
        AUTO_STRBUF answers;
        struct str  in;

        strbuf_init(&answers, MAX_ANSWER_BYTES);
        if (!is_open)
                open_models(s->models);
        is_open = true;
        if (size < 3)
                return 0;
        in = str_range((const char *)bytes + 2, size - 2);
        if (whole_server_talk_http(s->cloud_ports[bytes[1] % N_CLOUD_PORTS], in, bytes[0],
                                   &answers) &&
            !answers.overflowed && whole_server_can_check(in))
                whole_server_check_answers(strbuf_str(&answers));
        return 0;
}
