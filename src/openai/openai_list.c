/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_list.h"

#include "base/arena.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "openai/openai_model.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

static bool is_listed(const struct openai_list_options *o, const struct openai_model *m) {
        return !m->is_off && (o->lists_all || m->format != OPENAI_FORMAT_NONE);
}

static void put_model(const struct openai_model *m, struct json_writer *w) {
        json_begin_object(w);
        json_member_string(w, "id", m->name);
        json_member_string(w, "object", "model");
        json_member_u64(w, "created", m->loaded_at_s);
        json_member_string(w, "owned_by", "neso");
        json_end_object(w);
}

static struct error *read_model(const struct openai_list_options *o, const char *name,
                                struct TRITONSERVER_InferenceRequest **ret_request,
                                struct openai_model                   *ret) {
        struct error *err;

        TRY(core_error_take(TRITONSERVER_InferenceRequestNew(ret_request, o->core, name, -1)));
        err = openai_model_read(*ret_request, name, ret);
        if (err != NULL)
                core_error_drop(TRITONSERVER_InferenceRequestDelete(*ret_request));
        return err;
}

struct error *openai_list_print_model(const struct openai_list_options *o, const char *name,
                                      struct strbuf *out) {
        struct TRITONSERVER_InferenceRequest *request;
        struct openai_model                   m;
        struct json_writer                    w = { .out = out };
        bool                                  lists;

        TRY(read_model(o, name, &request, &m));
        lists = is_listed(o, &m);
        if (lists)
                put_model(&m, &w);
        core_error_drop(TRITONSERVER_InferenceRequestDelete(request));
        if (!lists)
                return error_new(ERR_NOT_FOUND, "model '%s' is not offered to the OpenAI API",
                                 name);
        return strbuf_check(out, "the answer");
}

/* A model that has left meanwhile, or has a wrong parameter, is not in the list. */
static void put_indexed(const struct openai_list_options *o, struct str name, struct arena *arena,
                        struct json_writer *w) {
        struct TRITONSERVER_InferenceRequest *request;
        struct openai_model                   m;
        const char                           *text = arena_try_str(arena, name);
        AUTO_ERROR                            err = NULL;

        if (text == NULL || !access_grants_model(o->access, name))
                return;
        err = read_model(o, text, &request, &m);
        if (err != NULL)
                return;
        if (is_listed(o, &m))
                put_model(&m, w);
        core_error_drop(TRITONSERVER_InferenceRequestDelete(request));
}

/* The index has an entry for each version; those of a model follow each other. */
static void put_all(const struct openai_list_options *o, struct str index, struct arena *arena,
                    struct json_writer *w) {
        struct str last = { NULL, 0 };

        JSON_FOR_EACH(index, entry) {
                struct str name = json_find_text(entry, "name", arena);

                if (last.ptr == NULL || !str_equal(last, name))
                        put_indexed(o, name, arena, w);
                last = name;
        }
}

struct error *openai_list_print(const struct openai_list_options *o, struct strbuf *out) {
        struct TRITONSERVER_Message *message;
        struct json_writer           w = { .out = out };
        AUTO_ARENA                   arena = arena_of(0);
        struct error                *err;
        const char                  *json;
        size_t                       len;

        TRY(core_error_take(
                TRITONSERVER_ServerModelIndex(o->core, TRITONSERVER_INDEX_FLAG_READY, &message)));
        json_begin_object(&w);
        json_member_string(&w, "object", "list");
        json_member_array(&w, "data");
        err = core_error_take(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        if (err == NULL)
                put_all(o, str_range(json, len), &arena, &w);
        json_end_array(&w);
        json_end_object(&w);
        core_error_drop(TRITONSERVER_MessageDelete(message));
        return err != NULL ? err : strbuf_check(out, "the answer");
}
