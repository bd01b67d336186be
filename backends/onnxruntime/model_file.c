/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_NAME "model.onnx"

/* A name that leads out of the version's directory. */
static bool escapes(const char *name) {
        for (const char *part = name; part != NULL; part = strchr(part, '/')) {
                part += *part == '/';
                if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
                        return true;
        }
        return name[0] == '/';
}

/* 'f' a file, 'd' a directory, 0 anything else or nothing. */
static char kind_of(const char *path) {
        struct stat status;

        if (stat(path, &status) != 0)
                return 0;
        if (S_ISDIR(status.st_mode))
                return 'd';
        return S_ISREG(status.st_mode) ? 'f' : 0;
}

static TRITONSERVER_Error *no_file(const struct kit_model *model, const char *name,
                                   const char *in_it) {
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE,
                         "unable to find '%" PRIu64 "/%s%s' for model '%s'", model->version, name,
                         in_it, model->name);
}

TRITONSERVER_Error *model_file_find(const struct kit_model *model, const char *file, char **ret) {
        const struct kit_json_value *root = kit_json_root(model->config);
        const char *name = kit_json_string(kit_json_find(root, "default_model_filename"), "");
        char       *path, *inner;
        char        kind;

        if (file != NULL)
                name = file;
        if (name[0] == '\0')
                name = DEFAULT_NAME;
        if (escapes(name))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "%s '%s' of model '%s' must stay within the "
                                 "model directory",
                                 file != NULL ? "member file" : "default_model_filename", name,
                                 model->name);
        if (asprintf(&path, "%s/%s", model->version_path, name) < 0)
                return kit_error_no_memory(strlen(name), "a path");
        kind = kind_of(path);
        if (kind == 'f') {
                *ret = path;
                return NULL;
        }
        if (kind != 'd') {
                free(path);
                return no_file(model, name, "");
        }
        if (asprintf(&inner, "%s/" DEFAULT_NAME, path) < 0)
                inner = NULL;
        free(path);
        if (inner == NULL)
                return kit_error_no_memory(strlen(name), "a path");
        if (kind_of(inner) != 'f') {
                free(inner);
                return no_file(model, name, "/" DEFAULT_NAME);
        }
        *ret = inner;
        return NULL;
}
