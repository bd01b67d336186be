/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/interpreter.h"

#include "kit/scratch.h"
#include "python/environments.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECTORY_VARIABLE "$$TRITON_MODEL_DIRECTORY"

/* Returns `text` with the model's directory in place of the variable. */
static char *expand(const char *text, const char *directory) {
        const char *at = strstr(text, DIRECTORY_VARIABLE);
        size_t      n = strlen(text) + strlen(directory) + 1;
        char       *expanded = kit_alloc_array(n, 1);

        if (expanded == NULL)
                return NULL;
        if (at == NULL)
                (void)snprintf(expanded, n, "%s", text);
        else
                (void)snprintf(expanded, n, "%.*s%s%s", (int)(at - text), text, directory,
                               at + strlen(DIRECTORY_VARIABLE));
        return expanded;
}

static bool is_program(const char *path) {
        struct stat st;

        return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Returns the program's path as execvp() would find it; NULL when it is not found. */
static char *search_path(const char *program, const char *path) {
        char found[PATH_MAX];

        if (strchr(program, '/') != NULL)
                return is_program(program) ? strdup(program) : NULL;
        while (path != NULL && *path != '\0') {
                size_t len = strcspn(path, ":");
                int    n = snprintf(found, sizeof(found), "%.*s%s%s", (int)len, path,
                                 len > 0 ? "/" : "./", program);

                if (n > 0 && (size_t)n < sizeof(found) && is_program(found))
                        return strdup(found);
                path += len + (path[len] == ':');
        }
        return NULL;
}

/* ---- the environment ------------------------------------------------------------------------- */

static bool is_variable(const char *entry, const char *name) {
        size_t len = strlen(name);

        return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static char *join_variable(const char *name, const char *first, const char *rest) {
        const char *separator = rest != NULL && *rest != '\0' ? ":" : "";
        size_t      n = strlen(name) + strlen(first) + (rest != NULL ? strlen(rest) : 0) + 3;
        char       *text = kit_alloc_array(n, 1);

        if (text != NULL)
                (void)snprintf(text, n, "%s=%s%s%s", name, first, separator,
                               *separator != '\0' ? rest : "");
        return text;
}

static bool is_replaced(const char *entry) {
        static const char *const names[] = { "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PATH",
                                             "LD_LIBRARY_PATH", "PYTHONHOME" };

        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
                if (is_variable(entry, names[i]))
                        return true;
        return false;
}

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash != NULL ? slash + 1 : path;
}

/* Sets the variables that `activate` of that directory would set. */
static bool add_activated(char **environment, size_t n, const char *directory) {
        char bin[PATH_MAX], lib[PATH_MAX], prompt[PATH_MAX];

        (void)snprintf(bin, sizeof(bin), "%s/bin", directory);
        (void)snprintf(lib, sizeof(lib), "%s/lib", directory);
        (void)snprintf(prompt, sizeof(prompt), "(%s)", base_name(directory));
        environment[n] = join_variable("VIRTUAL_ENV", directory, NULL);
        environment[n + 1] = join_variable("VIRTUAL_ENV_PROMPT", prompt, NULL);
        environment[n + 2] = join_variable("PATH", bin, getenv("PATH"));
        environment[n + 3] = join_variable("LD_LIBRARY_PATH", lib, getenv("LD_LIBRARY_PATH"));
        for (size_t i = n; i < n + 4; i++)
                if (environment[i] == NULL)
                        return false;
        return true;
}

static TRITONSERVER_Error *make_environment(const char *directory, struct interpreter *ret) {
        size_t n = 0;
        bool   fits = true;

        while (environ[n] != NULL)
                n++;
        ret->environment = kit_alloc_array(n + 5, sizeof(*ret->environment));
        if (ret->environment == NULL)
                return kit_error_no_memory(n, "an environment");
        n = 0;
        for (size_t i = 0; environ[i] != NULL; i++) {
                if (directory != NULL && is_replaced(environ[i]))
                        continue;
                ret->environment[n] = strdup(environ[i]);
                fits = fits && ret->environment[n++] != NULL;
        }
        if (directory != NULL)
                fits = fits && add_activated(ret->environment, n, directory);
        return fits ? NULL : kit_error_no_memory(n, "an environment");
}

/* ---- what models call ------------------------------------------------------------------------ */

static TRITONSERVER_Error *check_activate(const char *directory) {
        char        path[PATH_MAX];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/bin/activate", directory);
        if (stat(path, &st) == 0)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "Path %s does not exist. The Python environment should contain an "
                         "'activate' script.",
                         path);
}

static TRITONSERVER_Error *find_in(const char *directory, struct interpreter *ret) {
        char path[PATH_MAX];

        KIT_TRY(check_activate(directory));
        (void)snprintf(path, sizeof(path), "%s/bin/python3", directory);
        ret->python = search_path(path, NULL);
        if (ret->python == NULL)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s is no interpreter", path);
        return make_environment(directory, ret);
}

static TRITONSERVER_Error *find_environment(struct environments    *environments,
                                            const struct kit_model *kit, const char *path,
                                            struct interpreter *ret) {
        char               *expanded = expand(path, kit->path);
        char               *directory = NULL;
        TRITONSERVER_Error *err;

        if (expanded == NULL)
                return kit_error_no_memory(strlen(path), "a path");
        kit_log(TRITONSERVER_LOG_INFO, __FILE__, __LINE__, "Using Python execution env %s",
                expanded);
        err = environments_open(environments, expanded, &directory);
        if (err == NULL)
                err = find_in(directory, ret);
        free(directory);
        free(expanded);
        return err;
}

TRITONSERVER_Error *interpreter_find(struct environments *environments, const struct kit_model *kit,
                                     const char *python, struct interpreter *ret) {
        const char         *path = kit_model_parameter(kit, "EXECUTION_ENV_PATH");
        TRITONSERVER_Error *err;

        *ret = (struct interpreter){ 0 };
        KIT_TRY(kit_model_refuse_sent(kit, "EXECUTION_ENV_PATH"));
        if (path != NULL && *path != '\0') {
                err = find_environment(environments, kit, path, ret);
        } else {
                ret->python = search_path(python, getenv("PATH"));
                err = ret->python != NULL
                              ? make_environment(NULL, ret)
                              : kit_error(
                                        TRITONSERVER_ERROR_INTERNAL,
                                        "the Python interpreter '%s' is not found; "
                                        "--backend-config=python,python-path=<path> names another",
                                        python);
        }
        if (err != NULL)
                interpreter_done(ret);
        return err;
}

void interpreter_done(struct interpreter *interpreter) {
        for (size_t i = 0; interpreter->environment != NULL && interpreter->environment[i] != NULL;
             i++)
                free(interpreter->environment[i]);
        free(interpreter->environment);
        free(interpreter->python);
        *interpreter = (struct interpreter){ 0 };
}
