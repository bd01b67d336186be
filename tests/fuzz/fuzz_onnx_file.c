/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as an ONNX file. Whatever the walk accepts, it reports the same tensors and locations, in
 * the same order, as a plain reader over the whole text: a tensor that the walk misses could name any
 * file of the server. Locations are looked up in a folder with a file, a folder, a FIFO, and links; each one
 * that is not refused is a regular file that lies in the folder.
 */
#include "base/compiler.h"
#include "base/strbuf.h"
#include "codec/pb_reader.h"
#include "onnxruntime/external_data.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MAX_DEPTH 200 /* deeper than the walk goes */

/* ---- the plain reader ------------------------------------------------------------------------ */

enum kind { MODEL, TRAINING, FUNCTION, GRAPH, NODE, ATTRIBUTE, SPARSE, TENSOR, SKIPPED };

static enum kind kind_in(enum kind outer, uint32_t number) {
        switch (outer) {
        case MODEL:
                return number == 7    ? GRAPH
                       : number == 20 ? TRAINING
                       : number == 25 ? FUNCTION
                                      : SKIPPED;
        case TRAINING: return number == 1 || number == 2 ? GRAPH : SKIPPED;
        case FUNCTION: return number == 7 ? NODE : number == 11 ? ATTRIBUTE : SKIPPED;
        case GRAPH:
                return number == 1 ? NODE : number == 5 ? TENSOR : number == 15 ? SPARSE : SKIPPED;
        case NODE: return number == 5 ? ATTRIBUTE : SKIPPED;
        case ATTRIBUTE:
                if (number == 5 || number == 10)
                        return TENSOR;
                if (number == 6 || number == 11)
                        return GRAPH;
                return number == 22 || number == 23 ? SPARSE : SKIPPED;
        case SPARSE: return number == 1 || number == 2 ? TENSOR : SKIPPED;
        default: return SKIPPED;
        }
}

/* The last field of this number. */
static struct str find_last(struct str message, uint32_t number) {
        struct pb_reader r;
        struct pb_tag    tag;
        struct str       found = STR_LIT("");

        pb_reader_init(&r, message.ptr, message.len);
        while (pb_next(&r, &tag))
                if (tag.number == number && tag.wire == PB_WIRE_BYTES)
                        found = pb_read_bytes(&r);
                else
                        pb_skip(&r, tag);
        return found;
}

static void print_pair(struct strbuf *to, struct str name, struct str location) {
        name.len = MIN(name.len, (size_t)EXTERNAL_DATA_MAX_NAME - 1);
        name.len = strnlen(name.ptr, name.len);
        strbuf_put(to, name.ptr, name.len);
        strbuf_puts(to, "=");
        strbuf_put(to, location.ptr, location.len);
        strbuf_puts(to, "\n");
}

static void read_tensor(struct str tensor, struct strbuf *to) {
        struct pb_reader r;
        struct pb_tag    tag;

        pb_reader_init(&r, tensor.ptr, tensor.len);
        while (pb_next(&r, &tag)) {
                struct str entry;

                if (tag.number != 13 || tag.wire != PB_WIRE_BYTES) {
                        pb_skip(&r, tag);
                        continue;
                }
                entry = pb_read_bytes(&r);
                if (str_is(find_last(entry, 1), "location"))
                        print_pair(to, find_last(tensor, 8), find_last(entry, 2));
        }
}

static void read_message(struct str message, enum kind kind, int depth, struct strbuf *to) {
        struct pb_reader r;
        struct pb_tag    tag;

        if (kind == TENSOR) {
                read_tensor(message, to);
                return;
        }
        pb_reader_init(&r, message.ptr, message.len);
        while (depth < MAX_DEPTH && pb_next(&r, &tag)) {
                enum kind inner = kind_in(kind, tag.number);

                if (inner != SKIPPED && tag.wire == PB_WIRE_BYTES)
                        read_message(pb_read_bytes(&r), inner, depth + 1, to);
                else
                        pb_skip(&r, tag);
        }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static TRITONSERVER_Error *on_found(void *userp, const char *tensor, const char *location) {
        print_pair(userp, str_of(tensor), str_of(location));
        return NULL;
}

static int file_of(const uint8_t *bytes, size_t size) {
        int fd = memfd_create("model", MFD_CLOEXEC);

        if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
                abort();
        return fd;
}

/* ---- the files ------------------------------------------------------------------------------- */

static char folder[PATH_MAX]; /* resolved */

static const struct {
        const char *name;
        const char *to; /* of a link */
} entries[] = { { "w", NULL },
                { "d/w", NULL },
                { "d/up", "../w" },
                { "out", "../../etc/hostname" },
                { "abs", "/etc/hostname" },
                { "loop", "loop" },
                { "in", "d/up" } };

static void remove_folder(void) {
        char path[PATH_MAX + 16];

        for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
                snprintf(path, sizeof(path), "%s/%s", folder, entries[i].name);
                unlink(path);
        }
        snprintf(path, sizeof(path), "%s/pipe", folder);
        unlink(path);
        snprintf(path, sizeof(path), "%s/d", folder);
        rmdir(path);
        rmdir(folder);
}

static void must(bool holds) {
        if (!holds)
                abort();
}

static void make_folder(void) {
        char path[PATH_MAX + 16];

        snprintf(path, sizeof(path), "%s/neso_fuzz_XXXXXX", P_tmpdir);
        must(mkdtemp(path) != NULL && realpath(path, folder) != NULL);
        atexit(remove_folder);
        snprintf(path, sizeof(path), "%s/d", folder);
        must(mkdir(path, 0700) == 0);
        snprintf(path, sizeof(path), "%s/pipe", folder);
        must(mkfifo(path, 0600) == 0);
        for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
                int fd = -1;

                snprintf(path, sizeof(path), "%s/%s", folder, entries[i].name);
                if (entries[i].to != NULL)
                        must(symlink(entries[i].to, path) == 0);
                else
                        must((fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0 && close(fd) == 0);
        }
}

/* The resolved path lies in the folder and is that of a regular file. */
static TRITONSERVER_Error *must_be_inside(void *userp, const char *tensor, const char *location) {
        char        path[PATH_MAX * 2], resolved[PATH_MAX];
        struct stat st;

        (void)userp;
        (void)tensor;
        snprintf(path, sizeof(path), "%s/%s", folder, location);
        must(realpath(path, resolved) != NULL && stat(resolved, &st) == 0 && S_ISREG(st.st_mode));
        must(strncmp(resolved, folder, strlen(folder)) == 0 && resolved[strlen(folder)] == '/');
        return NULL;
}

static TRITONSERVER_Error *on_scalar(void *userp, const char *name) {
        (void)userp;
        must(strlen(name) < EXTERNAL_DATA_MAX_NAME);
        return NULL;
}

/* For a file that the walk has accepted. */
static void check_files(int fd) {
        TRITONSERVER_Error *err = external_data_check(fd, folder, "model.onnx", false);

        if (err == NULL)
                must(external_data_walk(fd, must_be_inside, NULL) == NULL);
        TRITONSERVER_ErrorDelete(err);
        TRITONSERVER_ErrorDelete(external_data_check(fd, folder, "d/model.onnx", true));
        TRITONSERVER_ErrorDelete(external_data_find_scalars(fd, on_scalar, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        AUTO_STRBUF         walked;
        AUTO_STRBUF         expected;
        TRITONSERVER_Error *err;
        int                 fd = file_of(bytes, size);

        if (folder[0] == '\0')
                make_folder();
        strbuf_init(&walked, 0);
        strbuf_init(&expected, 0);
        err = external_data_walk(fd, on_found, &walked);
        if (err == NULL) {
                read_message(str_range((const char *)bytes, size), MODEL, 0, &expected);
                if (!str_equal(strbuf_str(&walked), strbuf_str(&expected))) {
                        fprintf(stderr, "found:\n%s\nexpected:\n%s\n", strbuf_cstr(&walked),
                                strbuf_cstr(&expected));
                        abort();
                }
                check_files(fd);
        }
        close(fd);
        TRITONSERVER_ErrorDelete(err);
        return 0;
}
