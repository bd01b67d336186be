/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the kernel: the control groups of the process and their limits, and the cores of a NUMA node.
 *
 * The input is texts, each ended by a byte 0xff, one for each of the files below.
 *
 * What must hold: the limit of memory is the number in one of the files, or none; no limit is below the least number
 * in them; a node has a core when it has a list, and an error names the file.
 */
#include "base/control_group.h"
#include "base/mem.h"
#include "base/placement.h"
#include "base/str.h"
#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES 16384
#define SEPARATOR ((char)0xff)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char *const directories[] = {
        "proc",
        "proc/self",
        "sys",
        "sys/fs",
        "sys/fs/cgroup",
        "sys/fs/cgroup/a",
        "sys/fs/cgroup/a/b",
        "sys/fs/cgroup/memory",
        "sys/fs/cgroup/memory/a",
        "node0",
};

/* The last one is the node's list; the first the groups; the others are limits. */
static const char *const files[] = {
        "proc/self/cgroup",
        "sys/fs/cgroup/memory.max",
        "sys/fs/cgroup/a/memory.max",
        "sys/fs/cgroup/a/b/memory.max",
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
        "node0/cpulist",
};
enum { N_FILES = sizeof(files) / sizeof(*files), CPULIST = N_FILES - 1 };

static char root[] = "/dev/shm/neso-fuzz-XXXXXX";

static void end(void) {
        for (size_t i = 0; i < N_FILES; i++) {
                AUTO_CHARS path = mem_printf("%s/%s", root, files[i]);

                unlink(path);
        }
        for (size_t i = sizeof(directories) / sizeof(*directories); i-- > 0;) {
                AUTO_CHARS path = mem_printf("%s/%s", root, directories[i]);

                rmdir(path);
        }
        rmdir(root);
}

static void begin(void) {
        static bool has_begun;

        if (has_begun)
                return;
        has_begun = true;
        expect(mkdtemp(root) != NULL, "directory");
        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
                AUTO_CHARS path = mem_printf("%s/%s", root, directories[i]);

                expect(mkdir(path, 0700) == 0, directories[i]);
        }
        atexit(end);
}

static void write_file(const char *name, struct str text) {
        AUTO_CHARS path = mem_printf("%s/%s", root, name);
        FILE      *f = fopen(path, "we");

        expect(f != NULL && fwrite(text.ptr, 1, text.len, f) == text.len && fclose(f) == 0, name);
}

/* The number of the first line, as far as the reader looks. */
static bool read_limit(struct str text, uint64_t *ret) {
        struct str line;
        size_t     nul;

        (void)str_split(text, '\n', &line);
        if (line.len > 31)
                line.len = 31;
        nul = strnlen(line.ptr, line.len);
        return str_to_u64(str_range(line.ptr, nul), ret);
}

static void check_memory(const struct str *texts) {
        uint64_t found = control_group_memory(root), n, least = UINT64_MAX;
        bool     is_there = found == UINT64_MAX;

        for (size_t i = 1; i < CPULIST; i++)
                if (read_limit(texts[i], &n)) {
                        is_there = is_there || n == found;
                        least = n < least ? n : least;
                }
        expect(is_there, "a limit that no file has");
        expect(found >= least, "a limit below all of them");
        if (read_limit(texts[1], &n))
                expect(found <= n, "the limit of the top is not obeyed");
}

static void check_node(void) {
        struct placement p = { 0 };
        struct error    *err = placement_read_node(&p, "0", root);

        if (err != NULL) {
                expect(strstr(err->message, "cpulist") != NULL, "an error without the file");
                error_free(err);
                return;
        }
        expect(p.has_memory, "no memory");
        expect(!p.has_cores || CPU_COUNT_S(sizeof(p.cores), p.cores) > 0, "a list without a core");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct str texts[N_FILES], rest = str_range((const char *)bytes, size);

        if (size == 0 || size > MAX_BYTES)
                return 0;
        begin();
        for (size_t i = 0; i < N_FILES; i++) {
                texts[i] = STR_LIT("");
                if (rest.ptr != NULL)
                        rest = str_split(rest, SEPARATOR, &texts[i]);
                write_file(files[i], texts[i]);
        }
        check_memory(texts);
        check_node();
        return 0;
}
