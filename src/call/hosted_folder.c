/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/hosted_folder.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/pb_text_lexer.h"

#include <stdlib.h>
#include <string.h>

/* The limit of the core's reader. */
#define CONFIG_MAX_BYTES ((size_t)64 << 20)

/* The sub-folders that are models. */
struct candidates {
        size_t n_models, n_ensembles;
        char  *model;    /* owned; name of the last one */
        char  *ensemble; /* owned; name of the last one */
};

static void candidates_done(struct candidates *c) {
        free(c->model);
        free(c->ensemble);
}

static bool has_config(const char *folder) {
        AUTO_CHARS path = path_join(folder, "config.pbtxt");

        return file_exists(path);
}

static bool is_number(const char *name) {
        return *name != '\0' && strspn(name, "0123456789") == strlen(name);
}

static bool has_version(const char *folder) {
        struct dir_list list = { 0 };
        AUTO_ERROR      err = dir_list_read_directories(folder, &list);
        bool            found = false;

        for (size_t i = 0; err == NULL && i < list.n_names && !found; i++)
                found = is_number(list.names[i]);
        dir_list_done(&list);
        return found;
}

/* ---- is it an ensemble? ---------------------------------------------------------------------- */

/* Reads on past a field's value, when that begins here. */
static struct error *skip_nested(struct pb_lexer *l) {
        size_t depth = 0;

        do {
                depth += pb_lexer_is_opener(l);
                depth -= pb_lexer_is_closer(l) && depth > 0;
                TRY(pb_lexer_next(l));
        } while (depth > 0 && l->token.kind != PB_TOKEN_END);
        return NULL;
}

static struct error *read_platform(struct pb_lexer *l, bool *ret_is_ensemble) {
        AUTO_STRBUF value = { .max = CONFIG_MAX_BYTES };
        bool        found;

        TRY(pb_lexer_next(l));
        TRY(pb_lexer_accept(l, ':', &found));
        if (l->token.kind != PB_TOKEN_STRING)
                return NULL;
        TRY(pb_lexer_read_string(l, &value));
        *ret_is_ensemble = *ret_is_ensemble || str_is(strbuf_str(&value), "ensemble");
        return NULL;
}

/* Looks for the platform "ensemble", or for the steps of one, among the fields of the whole text. */
static struct error *read_fields(struct str text, const char *path, bool *ret_is_ensemble) {
        struct pb_lexer l;

        TRY(pb_lexer_start(&l, text, path));
        while (l.token.kind != PB_TOKEN_END) {
                if (str_is(l.token.text, "ensemble_scheduling"))
                        *ret_is_ensemble = true;
                if (str_is(l.token.text, "platform"))
                        TRY(read_platform(&l, ret_is_ensemble));
                else
                        TRY(skip_nested(&l));
        }
        return NULL;
}

/* A text with mistakes is no ensemble; the core reports them if it is loaded. */
static bool is_ensemble(const char *folder) {
        AUTO_CHARS  path = path_join(folder, "config.pbtxt");
        AUTO_STRBUF text = { .max = CONFIG_MAX_BYTES };
        AUTO_ERROR  err = NULL;
        bool        found = false;

        if (!file_exists(path))
                return false;
        err = file_read(path, CONFIG_MAX_BYTES, &text);
        if (err == NULL)
                err = read_fields(strbuf_str(&text), path, &found);
        return err == NULL && found;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static void look_at(const char *url, const char *name, struct candidates *c) {
        AUTO_CHARS path = path_join(url, name);

        if (name[0] == '.' || (!has_config(path) && !has_version(path)))
                return;
        c->n_models++;
        free(c->model);
        c->model = mem_strdup(name);
        if (!is_ensemble(path))
                return;
        c->n_ensembles++;
        free(c->ensemble);
        c->ensemble = mem_strdup(name);
}

static struct error *choose_model(const char *url, const struct candidates *c, char **ret) {
        if (c->n_models == 0)
                *ret = mem_strdup("."); /* the core recognises further forms, and has the errors */
        else if (c->n_models == 1)
                *ret = mem_strdup(c->model);
        else if (c->n_ensembles == 1)
                *ret = mem_strdup(c->ensemble);
        else
                return error_new(ERR_INVALID_ARG,
                                 "the folder '%s' holds %zu models, of which %zu are ensembles: "
                                 "exactly one must be, which is served",
                                 url, c->n_models, c->n_ensembles);
        return NULL;
}

static struct error *find_directory(const char *url, char **ret) {
        struct candidates c = { 0 };
        struct dir_list   list;
        struct error     *err;

        if (has_config(url)) {
                *ret = mem_strdup(".");
                return NULL;
        }
        TRY(dir_list_read_directories(url, &list));
        for (size_t i = 0; i < list.n_names; i++)
                look_at(url, list.names[i], &c);
        err = choose_model(url, &c, ret);
        dir_list_done(&list);
        candidates_done(&c);
        return err;
}

static bool is_below(const char *path, const char *folder) {
        size_t len = strlen(folder);

        return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* File systems of the kernel hold no models. As in the reference server. */
static struct error *check_place(const char *url, const char *path) {
        static const char *const forbidden[] = { "/dev", "/proc", "/sys" };

        for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
                if (is_below(path, forbidden[i]))
                        return error_new(ERR_INVALID_ARG,
                                         "the url '%s' must not lead below /dev, /proc or /sys",
                                         url);
        if (!file_is_directory(path))
                return error_new(ERR_INVALID_ARG, "the url '%s' is not the path of a folder", url);
        return NULL;
}

struct error *hosted_folder_find(const char *url, struct hosted_folder *ret) {
        AUTO_CHARS path = NULL;
        char      *directory;

        if (url[0] != '/')
                return error_new(ERR_INVALID_ARG, "the url '%s' is not an absolute path", url);
        path = realpath(url, NULL);
        if (path == NULL)
                return error_new(ERR_INVALID_ARG, "the url '%s' is not the path of a folder", url);
        TRY(check_place(url, path));
        TRY(find_directory(path, &directory));
        *ret = (struct hosted_folder){ STEAL(path), directory };
        return NULL;
}

void hosted_folder_done(struct hosted_folder *f) {
        free(f->repository);
        free(f->directory);
        *f = (struct hosted_folder){ 0 };
}
