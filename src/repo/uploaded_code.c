/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/uploaded_code.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "repo/override.h"

#include <stdbool.h>
#include <string.h>

#define HINT "Start the server with '--allow-uploaded-backends=true' to enable."

static bool begins_like_elf(const struct override_file *f) {
        static const char magic[] = { 0x7f, 'E', 'L', 'F' };

        return f->n_bytes >= sizeof(magic) && memcmp(f->bytes, magic, sizeof(magic)) == 0;
}

/* True for names such as "x.so" and "x.so.1". */
static bool is_named_like_library(struct str name) {
        for (size_t at = 1; at + 3 <= name.len; at++)
                if (memcmp(name.ptr + at, ".so", 3) == 0 &&
                    (at + 3 == name.len || name.ptr[at + 3] == '.'))
                        return true;
        return false;
}

/* Returns the kind of code in the file; NULL when it is no code. */
static const char *kind_of_code(const struct override_file *f) {
        const char *slash = strrchr(f->path, '/');
        struct str  name = str_of(slash ? slash + 1 : f->path);

        if (begins_like_elf(f) || is_named_like_library(name))
                return "a shared object";
        if (str_ends(name, STR_LIT(".py")) || str_ends(name, STR_LIT(".pyc")))
                return "a Python program";
        return NULL;
}

struct error *uploaded_code_check_files(const char *model, const struct override_file *files,
                                        size_t n_files) {
        for (size_t i = 0; i < n_files; i++) {
                const char *kind = kind_of_code(&files[i]);

                if (kind)
                        return error_new(ERR_UNSUPPORTED,
                                         "Uploaded code is disabled: 'file:%.64s' of model '%s' is "
                                         "%s. " HINT,
                                         files[i].path, model, kind);
        }
        return NULL;
}

/* True for a file in the directory or below it. Only the path is checked, because the operator made
 * the links in the directory. */
static bool is_within(const char *directory, const char *name) {
        AUTO_CHARS path = path_join(directory, name);
        struct str rest = str_of(name), part;

        if (*name == '/')
                return false;
        do {
                rest = str_split(rest, '/', &part);
                if (str_is(part, ".."))
                        return false;
        } while (rest.ptr != NULL);
        return file_exists(path);
}

struct error *uploaded_code_check_config(const struct model_config *config, const char *model,
                                         const char *directory) {
        const Inference__ModelOperations *operations = config->pb->model_operations;

        for (size_t i = 0; operations != NULL && i < operations->n_op_library_filename; i++)
                if (!is_within(directory, operations->op_library_filename[i]))
                        return error_new(ERR_UNSUPPORTED,
                                         "Uploaded code is disabled: the configuration sent for "
                                         "model '%s' names the library '%s', which is not in the "
                                         "model's directory. " HINT,
                                         model, operations->op_library_filename[i]);
        return NULL;
}
