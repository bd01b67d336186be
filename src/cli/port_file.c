/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/port_file.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool write_text(const char *path, const struct strbuf *text) {
        int     fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        ssize_t n;

        if (fd < 0)
                return false;
        n = write(fd, strbuf_cstr(text), text->len);
        if (close(fd) != 0 || n < 0)
                return false;
        errno = EIO; /* a part of so few bytes */
        return (size_t)n == text->len;
}

struct error *port_file_write(const char *path, const struct port_entry *entries, size_t n) {
        AUTO_CHARS    beside = mem_printf("%s.new", path);
        AUTO_STRBUF   text = { 0 };
        struct error *err;

        for (size_t i = 0; i < n; i++)
                if (entries[i].port != 0)
                        strbuf_printf(&text, "%s=%u\n", entries[i].name, entries[i].port);
        TRY(strbuf_check(&text, "the ports"));
        if (write_text(beside, &text) && rename(beside, path) == 0)
                return NULL;
        err = error_new(ERR_UNAVAILABLE, "--port-file: cannot write %s: %s", path, strerror(errno));
        (void)unlink(beside);
        return err;
}

void port_file_remove(const char *path) {
        (void)unlink(path);
}
