/* SPDX-License-Identifier: BSD-3-Clause */
/* Response factories: any number of responses to one request of a decoupled model. */
#include "api/api_backend_types.h"

#include "infer/response_factory.h"

#define FACTORY(argument) ((struct response_factory *)(argument))

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory,
                                                     TRITONBACKEND_Request *request) {
        struct response_factory *f;

        API_NEEDS(factory);
        API_NEEDS(request);
        API_TRY(response_factory_new((struct request *)request, &f));
        *factory = (TRITONBACKEND_ResponseFactory *)f;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory) {
        response_factory_free(FACTORY(factory));
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory,
                                                           const uint32_t send_flags) {
        API_NEEDS(factory);
        return error_to_api(response_factory_send_flags(FACTORY(factory), send_flags));
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory,
                                                             bool *is_cancelled) {
        API_NEEDS(factory);
        API_NEEDS(is_cancelled);
        *is_cancelled = response_factory_is_cancelled(FACTORY(factory));
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **response,
                                                         TRITONBACKEND_ResponseFactory *factory) {
        struct response *r;

        API_NEEDS(response);
        API_NEEDS(factory);
        API_TRY(response_factory_respond(FACTORY(factory), &r));
        *response = (TRITONBACKEND_Response *)r;
        return NULL;
}
