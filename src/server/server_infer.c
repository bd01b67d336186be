/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server.h"

#include "infer/model_submit.h"
#include "infer/request.h"
#include "infer/trace.h"

struct error *server_infer(struct server *s, struct request *req) {
        if (UNLIKELY(atomic_load_explicit(&s->state, memory_order_relaxed) != SERVER_READY))
                return error_new(ERR_UNAVAILABLE, "Server not ready");
        if (req->on_response == NULL || req->on_release == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "release and response callbacks must be set before inference");
        return model_submit(req);
}

/* A trace that never came to an inference goes back to its program. */
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
