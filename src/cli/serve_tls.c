/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/serve_tls.h"

#include "base/log.h"
#include "cli/cli_options.h"
#include "net/tls.h"

/* One service and its options. */
struct tls_service {
        const char *name;   /* in log lines */
        const char *option; /* prefix of its options */
        struct str  protocols;
        bool        is_on;
        bool        use_ssl, use_ssl_mutual;              /* the second one implies the first */
        const char *server_cert, *server_key, *root_cert; /* "": not given */
};

/* The options that have the prefix. */
#define GIVEN(o, prefix)                                                                           \
        .is_on = (o)->allow_##prefix, .use_ssl = (o)->prefix##_use_ssl,                            \
        .use_ssl_mutual = (o)->prefix##_use_ssl_mutual, .server_cert = (o)->prefix##_server_cert,  \
        .server_key = (o)->prefix##_server_key, .root_cert = (o)->prefix##_root_cert

static bool is_given(const char *path) {
        return path[0] != '\0';
}

static struct error *open_context(const struct tls_service *s, struct tls_context **ret) {
        const struct tls_options options = {
                .cert_path = s->server_cert,
                .key_path = s->server_key,
                .root_path = s->use_ssl_mutual ? s->root_cert : NULL,
                .protocols = s->protocols,
        };

        if (!s->is_on)
                return NULL;
        if (!s->use_ssl && !s->use_ssl_mutual) {
                if (is_given(s->server_cert) || is_given(s->server_key))
                        log_warn("--%s-server-cert and --%s-server-key do nothing without "
                                 "--%s-use-ssl",
                                 s->option, s->option, s->option);
                return NULL;
        }
        if (!is_given(s->server_cert) || !is_given(s->server_key))
                return error_new(ERR_INVALID_ARG,
                                 "--%s-use-ssl needs --%s-server-cert and --%s-server-key",
                                 s->option, s->option, s->option);
        if (s->use_ssl_mutual && !is_given(s->root_cert))
                return error_new(ERR_INVALID_ARG, "--%s-use-ssl-mutual needs --%s-root-cert",
                                 s->option, s->option);
        return error_wrap(tls_context_new(&options, ret), "TLS of %s", s->name);
}

/* The metrics port uses the certificate of HTTP unless it has one of its own. */
static void borrow_certificate(struct tls_service *metrics, const struct tls_service *http) {
        if (is_given(metrics->server_cert) || is_given(metrics->server_key) ||
            (!metrics->use_ssl && !metrics->use_ssl_mutual))
                return;
        metrics->server_cert = http->server_cert;
        metrics->server_key = http->server_key;
}

/* Names of the protocols in the form of ALPN: each name follows its length. */
#define HTTP_PROTOCOLS                                                                             \
        STR_LIT("\x08"                                                                             \
                "http/1.1"                                                                         \
                "\x08"                                                                             \
                "http/1.0")
#define GRPC_PROTOCOLS                                                                             \
        STR_LIT("\x02"                                                                             \
                "h2")

struct error *serve_tls_prepare(struct serve_tls *t, const struct cli_options *o) {
        const struct tls_service http = { "HTTP", "http", HTTP_PROTOCOLS, GIVEN(o, http) };
        const struct tls_service grpc = { "GRPC", "grpc", GRPC_PROTOCOLS, GIVEN(o, grpc) };
        struct tls_service metrics = { "metrics", "metrics", HTTP_PROTOCOLS, GIVEN(o, metrics) };

        borrow_certificate(&metrics, &http);
        TRY(open_context(&http, &t->http));
        TRY(open_context(&grpc, &t->grpc));
        return open_context(&metrics, &t->metrics);
}

static void reload_one(struct tls_context *context, const char *name) {
        AUTO_ERROR err = context != NULL ? tls_context_reload(context) : NULL;

        if (err != NULL)
                log_error("TLS of %s: %s; what was read before stays in use", name, err->message);
        else if (context != NULL)
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
