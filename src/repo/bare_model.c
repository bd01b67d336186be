/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/bare_model.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/config_fill.h"
#include "config/version_policy.h"
#include "repo/model_files.h"
#include "repo/override.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* What a folder and its entries show. */
struct folder_signs {
        bool has_config;
        bool has_models;   /* a sub-folder is a model */
        bool has_versions; /* a sub-folder has the name of a version */
        bool has_file;     /* an entry has the name of a model's file */
};

static bool is_version(const char *name) {
        int64_t number;

        return version_from_name(str_of(name), &number);
}

static bool has_config(const char *config_name, const char *directory) {
        AUTO_CHARS path = model_files_find_config(config_name, directory);

        return path != NULL;
}

/* A folder that cannot be listed counts as one without version folders. */
static bool has_version_folder(const char *directory) {
        struct dir_list list = { 0 };
        AUTO_ERROR      err = dir_list_read_directories(directory, &list);
        bool            found = false;

        for (size_t i = 0; err == NULL && i < list.n_names && !found; i++)
                found = is_version(list.names[i]);
        dir_list_done(&list);
        return found;
}

/* A version of a configured model may have folders whose names are numbers. */
static bool is_model(const struct folder_signs *signs, const char *config_name, const char *entry,
                     const char *name) {
        if (has_config(config_name, entry))
                return true;
        return !(signs->has_config && is_version(name)) && has_version_folder(entry);
}

static void look_at(const char *config_name, const char *path, const char *name,
                    struct folder_signs *signs) {
        AUTO_CHARS entry = path_join(path, name);
        bool       is_folder = file_is_directory(entry);

        if (name[0] == '.')
                return;
        if (is_folder && is_model(signs, config_name, entry, name))
                signs->has_models = true;
        else if (is_folder && is_version(name))
                signs->has_versions = true;
        signs->has_file = signs->has_file || model_config_knows_file(name, is_folder);
}

static enum bare_form form_of(const struct folder_signs *signs) {
        if (signs->has_models)
                return BARE_NONE;
        if (signs->has_versions)
                return BARE_VERSIONS;
        return signs->has_config || signs->has_file ? BARE_FILES : BARE_NONE;
}

struct error *bare_model_find(const char *config_name, const char *path, enum bare_form *ret) {
        struct folder_signs signs = { .has_config = has_config(config_name, path) };
        struct dir_list     list;

        TRY(dir_list_read(path, &list));
        for (size_t i = 0; i < list.n_names && !signs.has_models; i++)
                look_at(config_name, path, list.names[i], &signs);
        dir_list_done(&list);
        *ret = form_of(&signs);
        return NULL;
}

/* ---- the view -------------------------------------------------------------------------------- */

static struct error *add_link(const char *view, const char *name, const char *target) {
        AUTO_CHARS link = path_join(view, name);

        if (symlink(target, link) == 0 || errno == EEXIST)
                return NULL;
        return error_errno(errno, "unable to make the link '%s'", link);
}

static struct error *fill_view(const char *view, const char *folder, const struct dir_list *list) {
        /* Also when they are not there yet: a poll finds them later. */
        static const char *const configs[] = { "config.pbtxt", "configs" };

        TRY(add_link(view, "1", folder));
        for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
                AUTO_CHARS target = path_join(folder, configs[i]);

                TRY(add_link(view, configs[i], target));
        }
        for (size_t i = 0; i < list->n_names; i++) {
                AUTO_CHARS target = path_join(folder, list->names[i]);

                TRY(add_link(view, list->names[i], target));
        }
        return NULL;
}

/* Links need a whole path, since the view is elsewhere. */
static struct error *read_whole_path(const char *path, char **ret) {
        *ret = realpath(path, NULL);
        return *ret != NULL ? NULL : error_errno(errno, "unable to find '%s'", path);
}

struct error *bare_model_make_view(struct override_store *store, const char *path,
                                   struct override_files **ret) {
        AUTO_CHARS             folder = NULL;
        struct override_files *view;
        struct dir_list        list;
        struct error          *err;

        TRY(read_whole_path(path, &folder));
        TRY(dir_list_read(folder, &list));
        err = override_files_new(store, &view);
        if (err == NULL) {
                err = fill_view(override_files_directory(view), folder, &list);
                if (err != NULL)
                        override_files_unref(view);
        }
        dir_list_done(&list);
        if (err == NULL)
                *ret = view;
        return err;
}
