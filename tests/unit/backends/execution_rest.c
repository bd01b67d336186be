/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that execution.c and entries.c refer to and the test of sent responses does not reach. */
#include <stdlib.h>

#define NOT_REACHED(name)                                                                          \
        void name(void);                                                                           \
        void name(void) {                                                                          \
                abort();                                                                           \
        }

NOT_REACHED(NESO_CancelWatchDelete)
NOT_REACHED(answer_copy)
NOT_REACHED(answer_copy_text)
NOT_REACHED(reader_shrink)
NOT_REACHED(region_break)
NOT_REACHED(region_free)
NOT_REACHED(request_write)
NOT_REACHED(session_ref)
NOT_REACHED(session_unref)
NOT_REACHED(session_push)
NOT_REACHED(session_sleep)
NOT_REACHED(session_wake_stub)
NOT_REACHED(session_call_receiver)
NOT_REACHED(waits_end_execution)
