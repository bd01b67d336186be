/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of HTTP/1.1 to the whole server: any bytes, from the socket through the handlers to a model
 * and back. The first byte is the size of the pieces in which they are sent, and says when the client closes
 * its side (whole_server.h). The server has the OpenAI API and the dashboard.
 *
 * What must hold: each answer is well-formed HTTP, the connection ends after the client has closed its
 * side, and the server stops in time when the program ends.
 */
#include "whole_server.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER_BYTES ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        const struct whole_server *s =
                whole_server_get(&(struct whole_server_options){ .is_full = true });
        AUTO_STRBUF answers;
        struct str  in;

        strbuf_init(&answers, MAX_ANSWER_BYTES);
        if (size < 2)
                return 0;
        in = str_range((const char *)bytes + 1, size - 1);
        if (whole_server_is_slow(in))
                return 0;
        if (whole_server_talk_http(s->http_port, in, bytes[0], &answers) && !answers.overflowed &&
            whole_server_can_check(in))
                whole_server_check_answers(strbuf_str(&answers));
        return 0;
}
