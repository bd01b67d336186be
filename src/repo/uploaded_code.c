/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/uploaded_code.h"

#include "base/compiler.h"
#include "base/str.h"
#include "repo/config_origin.h"
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
        struct str  name = str_of(slash != NULL ? slash + 1 : f->path);

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

                if (kind != NULL)
                        return error_new(ERR_UNSUPPORTED,
                                         "Uploaded code is disabled: 'file:%.64s' of model '%s' is "
                                         "%s. " HINT,
                                         files[i].path, model, kind);
        }
        return NULL;
}

/* ---- a configuration ------------------------------------------------------------------------- */

/* Parameters of the server that name a file or a program. Those of a backend are its own matter:
 * NESO_ModelParameterIsSent(). */
static const char *const file_parameters[] = { "TRITON_BATCH_STRATEGY_PATH" };

/* Agents of which no parameter does more than to read a file of the model's directory. */
static const char *const harmless_agents[] = { "checksum" };

static struct error *refuse_code(const char *model, const char *what, const char *name) {
        return error_new(ERR_UNSUPPORTED,
                         "Uploaded code is disabled: the configuration sent for model '%s' names "
                         "the %s '%s', which the model's config.pbtxt does not. " HINT,
                         model, what, name);
}

static bool has_library(const struct model_config *own, const char *name) {
        const Inference__ModelOperations *o = own != NULL ? own->pb->model_operations : NULL;

        for (size_t i = 0; o != NULL && i < o->n_op_library_filename; i++)
                if (config_text_is(o->op_library_filename[i], name))
                        return true;
        return false;
}

typedef Inference__ModelRepositoryAgents__Agent agent_pb;

static bool is_same_agent(const agent_pb *a, const agent_pb *b) {
        if (!config_text_is(a->name, b->name) || a->n_parameters != b->n_parameters)
                return false;
        for (size_t i = 0; i < a->n_parameters; i++)
                if (!config_text_is(a->parameters[i]->key, b->parameters[i]->key) ||
                    !config_text_is(a->parameters[i]->value, b->parameters[i]->value))
                        return false;
        return true;
}

static bool has_agent(const struct model_config *own, const agent_pb *wanted) {
        const Inference__ModelRepositoryAgents *all =
                own != NULL ? own->pb->model_repository_agents : NULL;

        for (size_t i = 0; i < ARRAY_LEN(harmless_agents); i++)
                if (config_text_is(wanted->name, harmless_agents[i]))
                        return true;
        for (size_t i = 0; all != NULL && i < all->n_agents; i++)
                if (is_same_agent(all->agents[i], wanted))
                        return true;
        return false;
}

struct error *uploaded_code_check_config(const struct model_config  *given,
                                         const struct model_config  *own,
                                         const struct config_origin *origin, const char *model) {
        const Inference__ModelOperations       *operations = given->pb->model_operations;
        const Inference__ModelRepositoryAgents *agents = given->pb->model_repository_agents;

        for (size_t i = 0; operations != NULL && i < operations->n_op_library_filename; i++)
                if (!has_library(own, operations->op_library_filename[i]))
                        return refuse_code(model, "library", operations->op_library_filename[i]);
        for (size_t i = 0; agents != NULL && i < agents->n_agents; i++)
                if (!has_agent(own, agents->agents[i]))
                        return refuse_code(model, "repository agent", agents->agents[i]->name);
        for (size_t i = 0; i < ARRAY_LEN(file_parameters); i++)
                if (config_origin_is_sent(origin, file_parameters[i]))
                        return refuse_code(model, "file of the parameter", file_parameters[i]);
        return NULL;
}
