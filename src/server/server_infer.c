/* SPDX-License-Identifier: BSD-3-Clause */
/* Submission of clients' requests, depending on the state of the server. */
#include "server/server.h"

#include "infer/model.h"
#include "infer/model_generations.h"
#include "infer/model_submit.h"
#include "infer/request.h"
#include "infer/trace.h"
#include "repo/repo.h"

/* Live sequences continue while the server exits. */
static bool is_welcome(const struct server *s, struct request *req) {
        int state = atomic_load_explicit(&s->state, memory_order_relaxed);

        return LIKELY(state == SERVER_READY) ||
               (state == SERVER_EXITING && !request_is_in_use(req) &&
                model_generations_continues(req));
}

/* For a model that was unloaded, when the request does not continue a live sequence: returns the error
 * of the look-up. */
static COLD struct error *unloaded(struct server *s, const struct request *req) {
        struct model *model;
        struct error *err = repo_get(s->repo, req->model->name,
                                     req->has_version ? req->model->version : -1, &model);

        if (err != NULL)
                return err;
        model_unref(model); /* it was loaded again meanwhile */
        return model_generations_retired();
}

struct error *server_infer(struct server *s, struct request *req) {
        struct error *err;

        if (UNLIKELY(!is_welcome(s, req)))
                return error_new(ERR_UNAVAILABLE, "Server not ready");
        if (req->on_response == NULL || req->on_release == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "release and response callbacks must be set before inference");
        err = model_submit(req);
        if (UNLIKELY(err != NULL) && err == model_generations_retired())
                err = unloaded(s, req);
        return err;
}

/* Releases a trace whose inference did not begin. */
static struct error *give_back(struct trace *t, struct error *err) {
        t->options.on_release(t, t->options.userp);
        return err;
}

struct error *server_infer_traced(struct server *s, struct request *req, struct trace *t) {
        struct error *err;

        if (UNLIKELY(atomic_load(&t->n_holders) > 0))
                return trace_begin(t, req);
        if (UNLIKELY(request_is_in_use(req)))
                return give_back(t, model_submit_in_use());
        err = trace_begin(t, req);
        if (err != NULL)
                return give_back(t, err);
        err = server_infer(s, req);
        if (err != NULL)
                trace_refuse(req);
        return err;
}
