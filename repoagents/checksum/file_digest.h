/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests of files; the one place of this agent that knows libcrypto.
 *
 * Threads.  Any.
 */
#pragma once

#include <stddef.h>

/* Room for the longest digest in hexadecimal digits, and a NUL. */
#define FILE_DIGEST_MAX_TEXT 65

struct file_digest_kind {
        const char *name;     /* as configurations and libcrypto say it: "MD5" */
        size_t      n_digits; /* hexadecimal ones */
};

/* NULL when there is no such kind; upper and lower case are the same. */
const struct file_digest_kind *file_digest_find(const char *name, size_t name_len);

/* What the rest of an open file amounts to, in lower case digits. NULL, or why it is not known:
 * borrowed until the thread's next error. */
const char *file_digest_read(const struct file_digest_kind *kind, int fd,
                             char ret[FILE_DIGEST_MAX_TEXT]);
