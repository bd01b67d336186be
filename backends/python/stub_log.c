/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stub_log.h"

#include <stdlib.h>

void stub_log_write(const struct answer_source *source) {
        struct shm_log log;
        char          *file, *text;

        if (!answer_copy(source, 0, &log, sizeof(log)))
                return;
        file = answer_copy_text(source, log.file);
        text = answer_copy_text(source, log.text);
        if (file != NULL && text != NULL && log.level <= TRITONSERVER_LOG_VERBOSE)
                kit_error_log(TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)log.level, file,
                                                      (int)log.line, text),
                              "failed to log");
        free(file);
        free(text);
}
