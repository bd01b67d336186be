/* SPDX-License-Identifier: BSD-3-Clause */
/* The questions of load/control.h as messages of gRPC, and their answers as JSON.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "load/control.h"

/* Appends the header block and the message. */
struct error *grpc_message_make(const struct target *t, enum control_question q,
                                const struct control_subject *s, struct strbuf *ret_head,
                                struct strbuf *ret_message) NODISCARD;
/* Appends the answer as JSON, with numbers of 64 bits as numbers, as in HTTP's answers. */
struct error *grpc_message_print(enum control_question q, struct str message, struct strbuf *ret)
        NODISCARD;
