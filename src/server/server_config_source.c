/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in its file each part of a model's configuration stands. */
#include "base/file.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/json_writer.h"
#include "codec/pb_text_review.h"
#include "config/model_config.h"
#include "infer/message.h"
#include "infer/model.h"
#include "repo/repo.h"
#include "server/server.h"

#include <string.h>

/* A file that was changed after the load may have mistakes; its other lines are shown all the same. */
static void ignore_mistake(void *owner, struct error *err) {
        (void)owner;
        error_free(err);
}

static void print_lines(struct json_writer *w, const struct pb_text_review *review) {
        json_member_object(w, "lines");
        for (size_t i = 0; i < review->n_places; i++)
                json_member_u64(w, review->places[i].path, review->places[i].place.line);
        json_end_object(w);
}

static struct error *print_file(struct json_writer *w, const char *path, bool is_changed) {
        AUTO_STRBUF           text = { .max = MODEL_CONFIG_TEXT_MAX_BYTES };
        struct pb_text_review review;
        AUTO_MODEL_CONFIG     config = NULL;
        struct error         *err;

        TRY(file_read(path, MODEL_CONFIG_TEXT_MAX_BYTES, &text));
        pb_text_review_init(&review, ignore_mistake, NULL);
        err = model_config_read_all(&review, strbuf_str(&text), &config);
        if (err == NULL) {
                json_member_bool(w, "changed", is_changed);
                print_lines(w, &review);
        }
        pb_text_review_done(&review);
        return err;
}

/* "config.pbtxt" or "configs/<name>.pbtxt": what comes after the model's directory. */
static const char *name_in_directory(const char *path) {
        const char *slash = strrchr(path, '/');
        const char *end = slash - strlen("/configs");

        return end > path && str_is(str_range(end, strlen("/configs")), "/configs") ? end + 1
                                                                                    : slash + 1;
}

static struct error *print_source(struct json_writer *w, const struct model *model,
                                  const char *path, bool is_changed) {
        AUTO_CHARS version = mem_printf("%lld", (long long)model->version);

        json_begin_object(w);
        json_member_string(w, "name", model->name);
        json_member_string(w, "version", version);
        json_key(w, "file");
        if (path != NULL) {
                json_put_string(w, name_in_directory(path));
                TRY(print_file(w, path, is_changed));
        } else {
                json_put_raw(w, STR_LIT("null"));
        }
        json_end_object(w);
        return NULL;
}

struct error *server_model_config_source(struct server *s, const char *name, int64_t version,
                                         struct message **ret) {
        AUTO_STRBUF        out = { 0 };
        AUTO_CHARS         path = NULL;
        struct json_writer w = { .out = &out };
        struct model      *model;
        struct error      *err;
        bool               is_changed;

        TRY(server_get_model(s, name, version, &model));
        err = repo_find_config_file(s->repo, name, version, &path, &is_changed);
        if (err == NULL)
                err = print_source(&w, model, path, is_changed);
        model_unref(model);
        TRY(err);
        return message_new_take(&out, ret);
}
