/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading, unloading, and changes of repositories, as far as the model control mode permits them. */
#include "server/server.h"

#include "base/reserve.h"
#include "base/str.h"
#include "repo/repo.h"

/* Text of the reference server, for the modes "none" and "poll" alike. */
static struct error *check_explicit(const struct server *s) {
        TRY(server_check_serving(s));
        if (s->control_mode != MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_UNAVAILABLE,
                                      "explicit model load / unload is not allowed if polling is "
                                      "enabled");
        return NULL;
}

static bool may_leave_directory(struct str name) {
        struct str bare = str_trim(name);

        if (str_is(bare, ".") || str_is(bare, ".."))
                return true;
        for (size_t i = 0; i < name.len; i++)
                if (name.ptr[i] == '/' || name.ptr[i] == '\\' || (unsigned char)name.ptr[i] < ' ')
                        return true;
        return name.len > MODEL_NAME_MAX_BYTES;
}

/* For loading only. Unloading needs no such check: no loaded model has such a name, and unloading a
 * model that is not loaded succeeds. */
static struct error *check_name(const char *name) {
        struct str s = str_of(name);

        if (str_trim(s).len == 0)
                return error_new_text(ERR_INVALID_ARG, "Model name cannot be empty. Please enter a "
                                                       "valid name to deploy.");
        if (may_leave_directory(s))
                return error_new(ERR_INVALID_ARG,
                                 "invalid model name '%.*s', model name must not contain path "
                                 "traversal characters",
                                 (int)MIN(s.len, (size_t)MODEL_NAME_MAX_BYTES), s.ptr);
        return NULL;
}

struct error *server_load_model(struct server *s, const char *name,
                                const struct repo_override *o) {
        TRY(check_explicit(s));
        TRY(check_name(name));
        if (reserve_is_short())
                return server_no_memory();
        return repo_load(s->repo, name, o);
}

struct error *server_unload_model(struct server *s, const char *name) {
        TRY(check_explicit(s));
        return repo_unload(s->repo, name);
}

struct error *server_unload_model_with_needs(struct server *s, const char *name) {
        TRY(check_explicit(s));
        return repo_unload_with_needs(s->repo, name);
}

static struct error *check_poll(const struct server *s) {
        if (s->control_mode != MODEL_CONTROL_POLL)
                return error_new_text(ERR_UNAVAILABLE, "polling is disabled");
        return server_check_serving(s);
}

struct error *server_poll(struct server *s) {
        TRY(check_poll(s));
        repo_poll(s->repo);
        return NULL;
}

struct error *server_start_poll(struct server *s) {
        TRY(check_poll(s));
        repo_start_poll(s->repo);
        return NULL;
}

struct error *server_register_repository(struct server *s, const char *path,
                                         const struct repo_name *names, size_t n_names) {
        TRY(server_check_serving(s));
        if (s->control_mode != MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_UNSUPPORTED,
                                      "repository registration is not allowed if model control "
                                      "mode is not EXPLICIT");
        return repo_add_path(s->repo, path, names, n_names);
}

struct error *server_unregister_repository(struct server *s, const char *path) {
        TRY(server_check_serving(s));
        if (s->control_mode != MODEL_CONTROL_EXPLICIT)
                return error_new_text(ERR_UNSUPPORTED,
                                      "repository unregistration is not allowed if model control "
                                      "mode is not EXPLICIT");
        return repo_remove_path(s->repo, path);
}
