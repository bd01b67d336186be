/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/serve_tls.h"

#include "base/compiler.h"
#include "base/log.h"
#include "cli/cli_options.h"
#include "net/tls.h"

/* One service and the names of its options. */
struct service {
        const char           *name;   /* in log lines */
        const char           *option; /* prefix of its options */
        const struct cli_tls *given;
        struct str            protocols;
        bool                  is_on;
};

static bool is_given(const char *path) {
        return path[0] != '\0';
}

static struct error *open_context(const struct service *s, struct tls_context **ret) {
        const struct cli_tls    *given = s->given;
        const struct tls_options options = {
                .cert_path = given->server_cert,
                .key_path = given->server_key,
                .root_path = given->use_ssl_mutual ? given->root_cert : NULL,
                .protocols = s->protocols,
        };

        if (!s->is_on)
                return NULL;
        if (!given->use_ssl && !given->use_ssl_mutual) {
                if (is_given(given->server_cert) || is_given(given->server_key))
                        log_warn("--%s-server-cert and --%s-server-key do nothing without "
                                 "--%s-use-ssl", s->option, s->option, s->option);
                return NULL;
        }
        if (!is_given(given->server_cert) || !is_given(given->server_key))
                return error_new(ERR_INVALID_ARG,
                                 "--%s-use-ssl needs --%s-server-cert and --%s-server-key",
                                 s->option, s->option, s->option);
        if (given->use_ssl_mutual && !is_given(given->root_cert))
                return error_new(ERR_INVALID_ARG, "--%s-use-ssl-mutual needs --%s-root-cert",
                                 s->option, s->option);
        return error_wrap(tls_context_new(&options, ret), "TLS of %s", s->name);
}

/* The metrics port uses the certificate of HTTP unless it has one of its own. */
static struct cli_tls metrics_tls(const struct cli_options *o) {
        struct cli_tls given = o->metrics_tls;

        if (!is_given(given.server_cert) && !is_given(given.server_key) &&
            (given.use_ssl || given.use_ssl_mutual)) {
                given.server_cert = o->http_tls.server_cert;
                given.server_key = o->http_tls.server_key;
        }
        return given;
}

/* Names of the protocols in the form of ALPN: each name follows its length. */
#define HTTP_PROTOCOLS STR_LIT("\x08" "http/1.1" "\x08" "http/1.0")
#define GRPC_PROTOCOLS STR_LIT("\x02" "h2")

struct error *serve_tls_prepare(struct serve_tls *t, const struct cli_options *o) {
        const struct cli_tls metrics_given = metrics_tls(o);
        const struct service http = { "HTTP", "http", &o->http_tls, HTTP_PROTOCOLS,
                                      o->allow_http };
        const struct service grpc = { "GRPC", "grpc", &o->grpc_tls, GRPC_PROTOCOLS,
                                      o->allow_grpc };
        const struct service metrics = { "metrics", "metrics", &metrics_given, HTTP_PROTOCOLS,
                                         o->allow_metrics };

        TRY(open_context(&http, &t->http));
        TRY(open_context(&grpc, &t->grpc));
        return open_context(&metrics, &t->metrics);
}

static void reload_one(struct tls_context *context, const char *name) {
        AUTO_ERROR err = context ? tls_context_reload(context) : NULL;

        if (err)
                log_error("TLS of %s: %s; what was read before stays in use", name, err->message);
        else if (context)
                log_info("TLS of %s: certificates were read again", name);
}

void serve_tls_reload(struct serve_tls *t) {
        reload_one(t->http, "HTTP");
        reload_one(t->grpc, "GRPC");
        reload_one(t->metrics, "metrics");
}

void serve_tls_done(struct serve_tls *t) {
        tls_context_free(t->http);
        tls_context_free(t->grpc);
        tls_context_free(t->metrics);
        *t = (struct serve_tls){ 0 };
}
