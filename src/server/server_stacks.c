/* SPDX-License-Identifier: BSD-3-Clause */
/* The call stacks of the processes that run a model's instances, as JSON. */
#include "server/server.h"

#include "backend/backend_instance.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "infer/message.h"
#include "infer/model.h"
#include "repo/loaded_model.h"
#include "repo/model_instances.h"

#define MAX_BYTES ((size_t)1 << 20) /* of all instances; further ones are left out */

struct printer {
        struct json_writer  w;
        struct strbuf      *out; /* borrowed */
        uint64_t            n_left_out;
};

static void print_instance(struct backend_instance *in, void *userp) {
        struct printer *p = userp;
        struct message *stacks = NULL;
        AUTO_ERROR      err = NULL;

        if (p->out->len > MAX_BYTES) {
                p->n_left_out++;
                return;
        }
        err = backend_instance_stacks(in, &stacks);
        json_begin_object(&p->w);
        json_key(&p->w, "name");
        json_put_string(&p->w, in->name);
        json_key(&p->w, err != NULL ? "error" : "process");
        if (err != NULL)
                json_put_string(&p->w, err->message);
        else
                json_put_raw(&p->w, message_text(stacks));
        json_end_object(&p->w);
        message_free(stacks);
}

static void print_model(struct printer *p, struct model *model) {
        AUTO_CHARS version = mem_printf("%lld", (long long)model->version);

        json_begin_object(&p->w);
        json_key(&p->w, "name");
        json_put_string(&p->w, model->name);
        json_key(&p->w, "version");
        json_put_string(&p->w, version);
        json_key(&p->w, "instances");
        json_begin_array(&p->w);
        model_instances_visit(loaded_model_of(model), print_instance, p);
        json_end_array(&p->w);
        json_key(&p->w, "left_out");
        json_put_u64(&p->w, p->n_left_out);
        json_end_object(&p->w);
}

struct error *server_model_stacks(struct server *s, const char *name, int64_t version,
                                  struct message **ret) {
        AUTO_STRBUF           out = { 0 };
        struct printer        p = { .out = &out };
        const struct backend *backend;
        struct model         *model;
        struct error         *err = NULL;

        TRY(server_get_model(s, name, version, &model));
        backend = loaded_model_of(model)->backend.backend;
        if (backend == NULL || backend->entry.instance_stacks == NULL)
                err = error_new(ERR_UNSUPPORTED,
                                "the instances of model '%s' are not processes of their own, whose "
                                "stacks could be read",
                                name);
        if (err == NULL) {
                strbuf_init(&out, 0);
                json_writer_init(&p.w, &out);
                print_model(&p, model);
                err = message_new_take(&out, ret);
        }
        model_unref(model);
        return err;
}
