/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines that a model writes to the server's log. Threads.  The reader's. */
#pragma once

#include "python/answer.h"

/* A struct shm_log. */
void stub_log_write(const struct answer_source *source);
