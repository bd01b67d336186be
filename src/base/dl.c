/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/dl.h"

#include "base/file.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dl {
        void *native; /* owned: handle of dlopen() */
        char *path;   /* owned */
};

/* dlerror() is NULL when nothing failed since the previous call. */
static const char *last_reason(void) {
        const char *reason = dlerror();

        return reason != NULL ? reason : "unknown reason";
}

static bool read_at(int fd, void *to, size_t size, uint64_t offset) {
        return offset <= INT64_MAX && pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* Returns false when the file is shorter than a segment needs. dlopen() refuses a file that is no library. */
static bool has_all_segments(int fd) {
        struct stat status;
        ElfW(Ehdr) head;
        ElfW(Phdr) segment;
        const size_t size = sizeof(segment);

        if (fstat(fd, &status) != 0 || !read_at(fd, &head, sizeof(head), 0) ||
            memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != size)
                return true;
        for (unsigned i = 0; i < head.e_phnum; i++) {
                if (!read_at(fd, &segment, size, head.e_phoff + i * size))
                        return false;
                if (segment.p_type == PT_LOAD &&
                    (segment.p_offset > (uint64_t)status.st_size ||
                     segment.p_filesz > (uint64_t)status.st_size - segment.p_offset))
                        return false;
        }
        return true;
}

/* dlopen() maps a file that was cut, and a signal ends the process when it reads the missing part. */
static struct error *check_whole(const char *path) {
        int  fd = strchr(path, '/') != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
        bool is_whole = fd < 0 || has_all_segments(fd);

        if (fd >= 0)
                close(fd);
        if (is_whole)
                return NULL;
        return error_new(ERR_INTERNAL,
                         "unable to load shared library '%s': the file ends within a segment; it "
                         "was cut, or is still being written",
                         path);
}

struct error *dl_open(const char *path, struct dl **ret) {
        void      *native;
        struct dl *library;

        TRY(check_whole(path));
        dlerror();
        native = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (native == NULL)
                return error_new(ERR_INTERNAL, "unable to load shared library '%s': %s", path,
                                 last_reason());

        library = mem_alloc(sizeof(*library));
        *library = (struct dl){ .native = native, .path = mem_strdup(path) };
        *ret = library;
        return NULL;
}

void dl_close(struct dl *library) {
        if (library == NULL)
                return;
        dlclose(library->native);
        dl_keep(library);
}

void dl_keep(struct dl *library) {
        free(library->path);
        free(library);
}

dl_symbol_fn dl_find(struct dl *library, const char *symbol) {
        void        *address = dlsym(library->native, symbol);
        dl_symbol_fn function;

        /* ISO C has no conversion from an object pointer to a function pointer; POSIX requires the
         * same bytes. */
        _Static_assert(sizeof(function) == sizeof(address), "function pointers are void pointers");
        memcpy(&function, &address, sizeof(function));
        return function;
}

struct error *dl_get(struct dl *library, const char *symbol, dl_symbol_fn *ret) {
        dl_symbol_fn function = dl_find(library, symbol);

        if (function == NULL)
                return error_new(ERR_NOT_FOUND, "unable to find symbol '%s' in shared library '%s'",
                                 symbol, library->path);
        *ret = function;
        return NULL;
}

struct error *dl_get_all(struct dl *library, const char *const *symbols, size_t n,
                         dl_symbol_fn *ret) {
        for (size_t i = 0; i < n; i++)
                TRY(dl_get(library, symbols[i], &ret[i]));
        return NULL;
}

const char *dl_path(const struct dl *library) {
        return library->path;
}

/* ---- plug-ins by name ----------------------------------------------------------------------- */

/* The name becomes a part of a path. */
static struct error *check_name(const struct plugin_kind *kind, const char *name) {
        if (*name != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
            strcmp(name, "..") != 0)
                return NULL;
        return error_new(ERR_INVALID_ARG, "'%s' is no name of a %s", name, kind->what);
}

struct error *plugin_open(const struct plugin_kind *kind, const char *directory, const char *name,
                          struct dl **ret, dl_symbol_fn *ret_symbols) {
        AUTO_CHARS file = mem_printf("lib%s_%s.so", kind->prefix, name);
        AUTO_CHARS folder = path_join(directory, name);
        AUTO_CHARS path = path_join(folder, file);
        struct dl *library;

        TRY(check_name(kind, name));
        if (!file_exists(path))
                return error_new(ERR_NOT_FOUND, "unable to find '%s' for %s. Searched: %s", file,
                                 kind->what, folder);
        TRY(dl_open(path, &library));
        TRY_OR(dl_get_all(library, kind->symbols, kind->n_symbols, ret_symbols), dl_close(library));
        *ret = library;
        return NULL;
}
