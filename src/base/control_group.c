/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/control_group.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_1 "/sys/fs/cgroup/memory"
#define VERSION_2 "/sys/fs/cgroup"
#define LIMIT_1 "memory.limit_in_bytes"
#define LIMIT_2 "memory.max"

/* Lowers *least to the number in a file, which ends in a line end; "max" and malformed text leave it
 * unchanged. */
static void lower_to_file(const char *path, uint64_t *least) {
        char     text[32]; /* the digits of 2^64 and a newline */
        FILE    *f = fopen(path, "re");
        uint64_t n;

        if (f == NULL)
                return;
        if (fgets(text, sizeof(text), f) != NULL) {
                text[strcspn(text, "\n")] = '\0';
                if (str_to_u64(str_of(text), &n))
                        *least = MIN(*least, n);
        }
        fclose(f);
}

/* Lowers *least to the limit of the group at `path` (below root and mount) and of all groups that contain it. */
static void lower_to_groups(const char *root, const char *mount, char *path, const char *file,
                            uint64_t *least) {
        for (;;) {
                AUTO_CHARS full = mem_printf("%s%s%s/%s", root, mount,
                                             strcmp(path, "/") == 0 ? "" : path, file);
                char      *slash = strrchr(path, '/');

                lower_to_file(full, least);
                if (slash == NULL || slash[1] == '\0')
                        return;
                slash[slash == path ? 1 : 0] = '\0';
        }
}

/* "0::/path" is version 2, "7:cpu,memory:/path" version 1. */
static void lower_to_line(const char *root, char *line, uint64_t *least) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

        if (path == NULL)
                return;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        controllers++;
        if (*controllers == '\0') {
                lower_to_groups(root, VERSION_2, path, LIMIT_2, least);
                return;
        }
        for (char *rest = controllers, *name; (name = strsep(&rest, ",")) != NULL;)
                if (strcmp(name, "memory") == 0)
                        lower_to_groups(root, VERSION_1, path, LIMIT_1, least);
}

static FILE *open_own(const char *root) {
        AUTO_CHARS path = mem_printf("%s/proc/self/cgroup", root);

        return fopen(path, "re");
}

uint64_t control_group_memory(const char *root) {
        AUTO_CHARS top_2 = mem_printf("%s" VERSION_2 "/" LIMIT_2, root);
        AUTO_CHARS top_1 = mem_printf("%s" VERSION_1 "/" LIMIT_1, root);
        uint64_t   least = UINT64_MAX;
        char       line[4096];
        FILE      *f = open_own(root);

        /* In a container the host's groups are invisible, and the container's own group is the root. */
        lower_to_file(top_2, &least);
        lower_to_file(top_1, &least);
        if (f == NULL)
                return least;
        while (fgets(line, sizeof(line), f) != NULL)
                lower_to_line(root, line, &least);
        fclose(f);
        return least;
}
