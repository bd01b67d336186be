/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/option_table.h"

#include "base/compiler.h"

#include <string.h>

#define AT(field) offsetof(struct cli_options, field)

/* Options of each service, under its own prefix. */
#define TLS_ROWS(prefix, field, title, default_cert)                                               \
        { .name = prefix "-use-ssl", .kind = OPTION_BOOL, .offset = AT(field.use_ssl),             \
          .argument = "<boolean>", .default_text = "false",                                        \
          .help = "Serve " title " over TLS." },                                                   \
        { .name = prefix "-use-ssl-mutual", .kind = OPTION_BOOL,                                   \
          .offset = AT(field.use_ssl_mutual), .argument = "<boolean>", .default_text = "false",    \
          .help = "The same, for clients with a certificate only." },                              \
        { .name = prefix "-server-cert", .kind = OPTION_TEXT, .offset = AT(field.server_cert),     \
          .argument = "<path>", .default_text = default_cert,                                      \
          .help = "Server certificate with its chain (PEM); read again on SIGHUP." }, \
        { .name = prefix "-server-key", .kind = OPTION_TEXT, .offset = AT(field.server_key),       \
          .argument = "<path>", .default_text = default_cert,                                      \
          .help = "Its key (PEM, without a pass phrase)." },                                       \
        { .name = prefix "-root-cert", .kind = OPTION_TEXT, .offset = AT(field.root_cert),         \
          .argument = "<path>", .default_text = "\"\"",                                            \
          .help = "Authorities of client certificates (PEM)." }

static const struct option_row help_rows[] = {
        { .name = "help", .kind = OPTION_FLAG, .offset = AT(help), .help = "Print this text." },
};

static const struct option_row logging_rows[] = {
        { .name = "log-verbose", .kind = OPTION_TEXT, .offset = AT(log_verbose),
          .argument = "<integer>", .default_text = "0",
          .help = "Level of verbose messages: 0 (none) and up, or true/false." },
        { .name = "log-info", .kind = OPTION_BOOL, .offset = AT(log_info),
          .argument = "<boolean>", .default_text = "true",
          .help = "Log informational messages." },
        { .name = "log-warning", .kind = OPTION_BOOL, .offset = AT(log_warning),
          .argument = "<boolean>", .default_text = "true", .help = "Log warnings." },
        { .name = "log-error", .kind = OPTION_BOOL, .offset = AT(log_error),
          .argument = "<boolean>", .default_text = "true", .help = "Log errors." },
        { .name = "log-format", .kind = OPTION_TEXT, .offset = AT(log_format),
          .argument = "<default|ISO8601|json>", .default_text = "default",
          .help = "Form of log lines; json also turns on one access line per request." },
        { .name = "log-file", .kind = OPTION_TEXT, .offset = AT(log_file), .argument = "<path>",
          .default_text = "standard error", .help = "File that the log is appended to." },
};

static const struct option_row server_rows[] = {
        { .name = "id", .kind = OPTION_TEXT, .offset = AT(id), .argument = "<string>",
          .default_text = "triton", .help = "Name of this server, as its metadata reports it." },
        { .name = "exit-timeout-secs", .kind = OPTION_NUMBER, .offset = AT(exit_timeout_secs),
          .argument = "<integer>", .min = 0, .max = 86400, .default_text = "30",
          .help = "Seconds to wait for requests in flight when stopping." },
        { .name = "exit-on-error", .kind = OPTION_BOOL, .offset = AT(exit_on_error),
          .argument = "<boolean>", .default_text = "true",
          .help = "End when a model fails to load at the start." },
        { .name = "strict-readiness", .kind = OPTION_BOOL, .offset = AT(strict_readiness),
          .argument = "<boolean>", .default_text = "true",
          .help = "Ready only when every model is; false: ready when the server answers." },
        { .name = "api-key-file", .kind = OPTION_TEXT, .offset = AT(api_key_file),
          .argument = "<path>", .refuses_empty = true,
          .help = "Keys with their endpoints and models (docs/security.md); read again on "
                  "SIGHUP." },
        { .name = "in-flight-limit", .kind = OPTION_TEXTS, .offset = AT(in_flight_limit),
          .argument = "<[model,]requests|bytes=n>",
          .help = "Most requests, or bytes of their messages, at a time, of all models or of one; "
                  "beyond, they are refused at once." },
        { .name = "memory-budget", .kind = OPTION_NUMBER, .offset = AT(memory_budget_bytes),
          .argument = "<bytes>", .min = 0, .max = 9007199254740992.0,
          .default_text = "0 (a quarter of what the process may use)",
          .help = "Most memory for requests and answers at a time, decompressed; beyond, large ones "
                  "are refused at once. At least 16777216." },
};

static const struct option_row models_rows[] = {
        { .name = "model-repository", .kind = OPTION_TEXTS, .offset = AT(model_repository),
          .argument = "<path>",
          .help = "Directory of models; may be given more than once. Required." },
        { .name = "model-store", .kind = OPTION_TEXTS, .offset = AT(model_repository),
          .argument = "<path>", .help = "Older name of --model-repository." },
        { .name = "model-control-mode", .kind = OPTION_TEXT, .offset = AT(model_control_mode),
          .argument = "<none|poll|explicit>", .default_text = "none",
          .help = "Whether models change while serving: none, poll follows the repositories, "
                  "explicit follows load and unload requests." },
        { .name = "repository-poll-secs", .kind = OPTION_NUMBER, .offset = AT(poll_secs),
          .argument = "<integer>", .min = 0, .max = 2147483647, .default_text = "15",
          .help = "Seconds between two polls of the repositories; 0: none after the start." },
        { .name = "load-model", .kind = OPTION_TEXTS, .offset = AT(load_model),
          .argument = "<name>",
          .help = "Model to load at the start, '*' for all; needs "
                  "--model-control-mode=explicit." },
        { .name = "model-config-name", .kind = OPTION_TEXT, .offset = AT(model_config_name),
          .argument = "<string>", .help = "Use configs/<name>.pbtxt of each model that has it.",
          .refuses_empty = true },
        { .name = "disable-auto-complete-config", .kind = OPTION_FLAG,
          .offset = AT(disable_auto_complete),
          .help = "Take configurations as they are: nothing is filled in by backends." },
        { .name = "strict-model-config", .kind = OPTION_BOOL, .offset = AT(strict_model_config),
          .argument = "<boolean>", .default_text = "false",
          .help = "Older form of --disable-auto-complete-config." },
        { .name = "model-load-thread-count", .kind = OPTION_NUMBER,
          .offset = AT(model_load_threads), .argument = "<integer>", .min = 1, .max = 1024,
          .default_text = "4", .help = "Threads that load models." },
        { .name = "model-load-retry-count", .kind = OPTION_NUMBER,
          .offset = AT(model_load_retries), .argument = "<integer>", .max = 1000,
          .default_text = "0", .help = "Further attempts to load a model that failed." },
        { .name = "allow-uploaded-backends", .kind = OPTION_BOOL,
          .offset = AT(allow_uploaded_backends), .argument = "<boolean>", .default_text = "false",
          .help = "Let load requests bring shared objects and other code, which the server runs, and "
                  "configurations that name programs and files of the server." },
        { .name = "chain-strict-unload", .kind = OPTION_FLAG, .offset = AT(chain_strict_unload),
          .help = "Refuse to unload a model that is the next one of another." },
        { .name = "model-namespacing", .kind = OPTION_BOOL, .offset = AT(model_namespacing),
          .argument = "<boolean>", .default_text = "false",
          .help = "Allow the same model name in several repositories." },
        { .name = "enable-peer-access", .kind = OPTION_BOOL, .offset = AT(peer_access),
          .argument = "<boolean>", .default_text = "true",
          .help = "GPU peer access; this build has no GPU support." },
};

static const struct option_row http_rows[] = {
        { .name = "allow-http", .kind = OPTION_BOOL, .offset = AT(allow_http),
          .argument = "<boolean>", .default_text = "true", .help = "Listen for HTTP requests." },
        { .name = "http-address", .kind = OPTION_TEXT, .offset = AT(http_address),
          .argument = "<address>", .default_text = "0.0.0.0",
          .help = "Address for HTTP requests." },
        { .name = "http-port", .kind = OPTION_NUMBER, .offset = AT(http_port),
          .argument = "<integer>", .min = 0, .max = 65535, .default_text = "8000",
          .help = "Port for HTTP requests; 0 takes a free one and logs it." },
        { .name = "reuse-http-port", .kind = OPTION_BOOL, .offset = AT(reuse_http_port),
          .argument = "<boolean>", .default_text = "false",
          .help = "Share the port with other servers (SO_REUSEPORT)." },
        { .name = "http-header-forward-pattern", .kind = OPTION_TEXT,
          .offset = AT(http_header_forward_pattern), .argument = "<regex>",
          .default_text = "\"\"",
          .help = "Request headers that match become request parameters." },
        { .name = "http-thread-count", .kind = OPTION_NUMBER, .offset = AT(http_threads),
          .argument = "<integer>", .min = 0, .max = 1024, .default_text = "number of cores",
          .help = "Event loops that serve HTTP; 0 takes one for each core." },
        { .name = "http-max-input-size", .kind = OPTION_NUMBER,
          .offset = AT(http_max_input_bytes), .argument = "<bytes>", .min = 1,
          .max = 9007199254740992.0, .default_text = "67108864",
          .help = "Largest JSON of a request, raw input, and body once decompressed. Binary tensors "
                  "beside JSON are limited by --memory-budget." },
        { .name = "http-restricted-api", .kind = OPTION_TEXTS, .offset = AT(http_restricted_api),
          .argument = "<api,...:header=value>",
          .help = "Endpoints that need a header with this value." },
        { .name = "http-max-connections", .kind = OPTION_NUMBER,
          .offset = AT(http_max_connections), .argument = "<integer>", .min = 1, .max = 10000000,
          .default_text = "16384",
          .help = "Connections at a time; beyond, new ones are closed. Beyond nine tenths, those that "
                  "have been idle longest make room." },
        { .name = "http-max-connections-per-address", .kind = OPTION_NUMBER,
          .offset = AT(http_max_connections_per_address), .argument = "<integer>", .min = 0,
          .max = 10000000, .default_text = "three quarters of them",
          .help = "The same of one address of IPv4, or of one /64 of IPv6; 0, when all clients come "
                  "through a proxy, is any number." },
        { .name = "http-max-header-bytes", .kind = OPTION_NUMBER,
          .offset = AT(http_max_header_bytes), .argument = "<bytes>", .min = 1024, .max = 1048576,
          .default_text = "32768", .help = "Largest request line and headers." },
        { .name = "http-max-header-fields", .kind = OPTION_NUMBER,
          .offset = AT(http_max_header_fields), .argument = "<integer>", .min = 1, .max = 10000,
          .default_text = "100", .help = "Most header fields of a request." },
        { .name = "http-header-timeout-ms", .kind = OPTION_NUMBER,
          .offset = AT(http_header_timeout_ms), .argument = "<ms>", .min = 1, .max = 86400000,
          .default_text = "10000", .help = "Time for a client to send its headers." },
        { .name = "http-idle-timeout-ms", .kind = OPTION_NUMBER,
          .offset = AT(http_idle_timeout_ms), .argument = "<ms>", .min = 1, .max = 86400000,
          .default_text = "75000", .help = "Time a connection may wait for its next request." },
        { .name = "http-min-body-rate", .kind = OPTION_NUMBER, .offset = AT(http_min_body_rate),
          .argument = "<bytes/s>", .min = 0, .max = 1073741824, .default_text = "1024",
          .help = "Slowest upload, averaged over 10 seconds." },
        { .name = "http-min-answer-rate", .kind = OPTION_NUMBER,
          .offset = AT(http_min_answer_rate), .argument = "<bytes/s>", .min = 0,
          .max = 1073741824, .default_text = "1024",
          .help = "Slowest reading of an answer, averaged over --http-idle-timeout-ms." },
        TLS_ROWS("http", http_tls, "HTTP", "\"\""),
};

static const struct option_row grpc_rows[] = {
        { .name = "allow-grpc", .kind = OPTION_BOOL, .offset = AT(allow_grpc),
          .argument = "<boolean>", .default_text = "true", .help = "Listen for GRPC requests." },
        { .name = "grpc-address", .kind = OPTION_TEXT, .offset = AT(grpc_address),
          .argument = "<address>", .default_text = "0.0.0.0",
          .help = "Address for GRPC requests." },
        { .name = "grpc-port", .kind = OPTION_NUMBER, .offset = AT(grpc_port),
          .argument = "<integer>", .min = 0, .max = 65535, .default_text = "8001",
          .help = "Port for GRPC requests; 0 takes a free one and logs it." },
        { .name = "reuse-grpc-port", .kind = OPTION_BOOL, .offset = AT(reuse_grpc_port),
          .argument = "<boolean>", .default_text = "false",
          .help = "Share the port with other servers (SO_REUSEPORT)." },
        { .name = "grpc-header-forward-pattern", .kind = OPTION_TEXT,
          .offset = AT(grpc_header_forward_pattern), .argument = "<regex>",
          .default_text = "\"\"", .help = "Metadata that match become request parameters." },
        { .name = "grpc-infer-thread-count", .kind = OPTION_NUMBER, .offset = AT(grpc_threads),
          .argument = "<integer>", .min = 0, .max = 128, .default_text = "number of cores",
          .help = "Event loops that serve GRPC; 0 takes one for each core." },
        { .name = "grpc-infer-allocation-pool-size", .kind = OPTION_NUMBER,
          .offset = AT(grpc_allocation_pool), .argument = "<integer>", .min = 0,
          .max = 2147483647, .default_text = "8",
          .help = "Accepted; request objects are always kept for reuse." },
        { .name = "grpc-max-response-pool-size", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_responses), .argument = "<integer>", .min = 1,
          .max = 2147483647, .default_text = "2147483647",
          .help = "Responses of a decoupled request that may wait to be written; its backend "
                  "waits beyond." },
        TLS_ROWS("grpc", grpc_tls, "GRPC", "\"\""),
        { .name = "grpc-infer-response-compression-level", .kind = OPTION_TEXT,
          .offset = AT(grpc_compression), .argument = "<none|low|medium|high>",
          .default_text = "none", .help = "Compression of inference responses." },
        { .name = "grpc-keepalive-time", .kind = OPTION_NUMBER, .offset = AT(grpc_keepalive_ms),
          .argument = "<ms>", .min = 1, .max = 2147483647, .default_text = "7200000",
          .help = "Silence of a client after which it is pinged." },
        { .name = "grpc-keepalive-timeout", .kind = OPTION_NUMBER,
          .offset = AT(grpc_keepalive_timeout_ms), .argument = "<ms>", .min = 1,
          .max = 2147483647, .default_text = "20000", .help = "Time for the answer to a ping." },
        { .name = "grpc-keepalive-permit-without-calls", .kind = OPTION_BOOL,
          .offset = AT(grpc_keepalive_without_calls), .argument = "<boolean>",
          .default_text = "false", .help = "Ping without calls in flight." },
        { .name = "grpc-http2-max-pings-without-data", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_pings), .argument = "<integer>", .min = 0, .max = 2147483647,
          .default_text = "2", .help = "Pings in a row while nothing else is sent; 0 = no limit." },
        { .name = "grpc-http2-min-recv-ping-interval-without-data", .kind = OPTION_NUMBER,
          .offset = AT(grpc_ping_interval_ms), .argument = "<ms>", .min = 0, .max = 2147483647,
          .default_text = "300000",
          .help = "Shortest time between pings of a client that is sent nothing." },
        { .name = "grpc-http2-max-ping-strikes", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_ping_strikes), .argument = "<integer>", .min = 0,
          .max = 2147483647, .default_text = "2",
          .help = "Early pings that are forgiven before the connection ends; 0 = all." },
        { .name = "grpc-max-connection-age", .kind = OPTION_NUMBER, .offset = AT(grpc_max_age_ms),
          .argument = "<ms>", .min = 0, .max = 2147483647, .default_text = "0 (unlimited)",
          .help = "Age at which a connection is asked to go, a tenth more or less." },
        { .name = "grpc-max-connection-age-grace", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_age_grace_ms), .argument = "<ms>", .min = 0, .max = 2147483647,
          .default_text = "0 (unlimited)", .help = "Time given to its calls then." },
        { .name = "grpc-restricted-protocol", .kind = OPTION_TEXTS,
          .offset = AT(grpc_restricted_protocol), .argument = "<protocol,...:key=value>",
          .help = "Protocols that need a header with this value." },
        { .name = "grpc-max-message-size", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_message_bytes), .argument = "<bytes>", .min = 1,
          .max = 2147483647, .default_text = "2147483647",
          .help = "Largest request message." },
        { .name = "grpc-max-decompressed-size", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_decompressed_bytes), .argument = "<bytes>", .min = 1,
          .max = 2147483647, .default_text = "67108864",
          .help = "Largest size of a compressed request message once it is decompressed." },
        { .name = "grpc-max-connections", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_connections), .argument = "<integer>", .min = 1, .max = 10000000,
          .default_text = "16384",
          .help = "Connections at a time; beyond, new ones are closed. Beyond nine tenths, those that "
                  "have been idle longest make room." },
        { .name = "grpc-max-connections-per-address", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_connections_per_address), .argument = "<integer>", .min = 0,
          .max = 10000000, .default_text = "three quarters of them",
          .help = "The same of one address of IPv4, or of one /64 of IPv6; 0, when all clients come "
                  "through a proxy, is any number." },
        { .name = "grpc-max-concurrent-streams", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_streams), .argument = "<integer>", .min = 1, .max = 65536,
          .default_text = "256", .help = "Calls at a time on one connection." },
        { .name = "grpc-max-header-bytes", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_header_bytes), .argument = "<bytes>", .min = 1024, .max = 1048576,
          .default_text = "32768", .help = "Largest metadata of a call." },
        { .name = "grpc-max-header-fields", .kind = OPTION_NUMBER,
          .offset = AT(grpc_max_header_fields), .argument = "<integer>", .min = 1, .max = 10000,
          .default_text = "100", .help = "Most metadata fields of a call." },
        { .name = "grpc-header-timeout-ms", .kind = OPTION_NUMBER,
          .offset = AT(grpc_header_timeout_ms), .argument = "<ms>", .min = 1, .max = 86400000,
          .default_text = "10000", .help = "Time for a client to greet, and to send its headers." },
        { .name = "grpc-min-message-rate", .kind = OPTION_NUMBER,
          .offset = AT(grpc_min_message_rate), .argument = "<bytes/s>", .min = 0,
          .max = 1073741824, .default_text = "1024",
          .help = "Slowest upload, averaged over 10 seconds." },
        { .name = "grpc-min-answer-rate", .kind = OPTION_NUMBER,
          .offset = AT(grpc_min_answer_rate), .argument = "<bytes/s>", .min = 0,
          .max = 1073741824, .default_text = "1024",
          .help = "Slowest reading of answers, averaged over 75 seconds." },
};

static const struct option_row cloud_rows[] = {
        { .name = "allow-sagemaker", .kind = OPTION_BOOL, .argument = "<boolean>",
          .default_text = "false", .help = "Listen for SageMaker requests.",
          .missing = "the SageMaker front end", .harmless = "false" },
        { .name = "sagemaker-port", .kind = OPTION_NUMBER, .argument = "<integer>",
          .default_text = "8080", .help = "Port for SageMaker requests.",
          .missing = "the SageMaker front end" },
        { .name = "sagemaker-safe-port-range", .kind = OPTION_TEXT,
          .argument = "<integer-integer>", .help = "Ports allowed.",
          .missing = "the SageMaker front end" },
        { .name = "sagemaker-thread-count", .kind = OPTION_NUMBER, .argument = "<integer>",
          .default_text = "8", .help = "Threads that serve SageMaker.",
          .missing = "the SageMaker front end" },
        { .name = "allow-vertex-ai", .kind = OPTION_BOOL, .argument = "<boolean>",
          .default_text = "false", .help = "Listen for Vertex AI requests.",
          .missing = "the Vertex AI front end", .harmless = "false" },
        { .name = "vertex-ai-port", .kind = OPTION_NUMBER, .argument = "<integer>",
          .default_text = "8080", .help = "Port for Vertex AI requests.",
          .missing = "the Vertex AI front end" },
        { .name = "vertex-ai-thread-count", .kind = OPTION_NUMBER, .argument = "<integer>",
          .default_text = "8", .help = "Threads that serve Vertex AI.",
          .missing = "the Vertex AI front end" },
        { .name = "vertex-ai-default-model", .kind = OPTION_TEXT, .argument = "<name>",
          .default_text = "\"\"", .help = "Model for requests that name none.",
          .missing = "the Vertex AI front end" },
};

static const struct option_row metrics_rows[] = {
        { .name = "allow-metrics", .kind = OPTION_BOOL, .offset = AT(allow_metrics),
          .argument = "<boolean>", .default_text = "true", .help = "Serve metrics." },
        { .name = "allow-gpu-metrics", .kind = OPTION_BOOL, .offset = AT(allow_gpu_metrics),
          .argument = "<boolean>", .default_text = "true",
          .help = "GPU metrics; this build has none." },
        { .name = "allow-cpu-metrics", .kind = OPTION_BOOL, .offset = AT(allow_cpu_metrics),
          .argument = "<boolean>", .default_text = "true",
          .help = "CPU and memory use of the machine." },
        { .name = "metrics-address", .kind = OPTION_TEXT, .offset = AT(metrics_address),
          .argument = "<address>", .default_text = "the HTTP address",
          .help = "Address of the metrics page." },
        { .name = "metrics-port", .kind = OPTION_NUMBER, .offset = AT(metrics_port),
          .argument = "<integer>", .min = 0, .max = 65535, .default_text = "8002",
          .help = "Port of the metrics page." },
        { .name = "metrics-interval-ms", .kind = OPTION_REAL, .offset = AT(metrics_interval_ms),
          .argument = "<ms>", .min = 1, .max = 1000000000.0, .default_text = "2000",
          .help = "Least time between two readings of CPU use." },
        { .name = "metrics-config", .kind = OPTION_TEXTS, .offset = AT(metrics_config),
          .argument = "<name=value>", .help = "counter_latencies, histogram_latencies." },
        TLS_ROWS("metrics", metrics_tls, "metrics", "that of HTTP"),
};

static const struct option_row traces_rows[] = {
        { .name = "trace-config", .kind = OPTION_TEXTS, .offset = AT(trace_config),
          .argument = "<[mode,]setting=value>",
          .help = "Traces: mode=triton or opentelemetry; level=OFF, TIMESTAMPS or TENSORS; rate; "
                  "count; triton,file; triton,log-frequency; opentelemetry,url; "
                  "opentelemetry,resource=key=value; opentelemetry,bsp_max_queue_size, "
                  "bsp_schedule_delay, bsp_max_export_batch_size. See tracing.md." },
        { .name = "trace-file", .kind = OPTION_TEXT, .offset = AT(trace_file),
          .argument = "<path>", .help = "Older form of --trace-config triton,file." },
        { .name = "trace-level", .kind = OPTION_TEXTS, .offset = AT(trace_level),
          .argument = "<level>", .help = "Older form of --trace-config level." },
        { .name = "trace-rate", .kind = OPTION_NUMBER, .offset = AT(trace_rate),
          .argument = "<integer>", .min = 0, .max = 4294967295.0,
          .help = "Older form of --trace-config rate." },
        { .name = "trace-count", .kind = OPTION_NUMBER, .offset = AT(trace_count),
          .argument = "<integer>", .min = -1, .max = 2147483647.0,
          .help = "Older form of --trace-config count." },
        { .name = "trace-log-frequency", .kind = OPTION_NUMBER, .offset = AT(trace_log_frequency),
          .argument = "<integer>", .min = 0, .max = 4294967295.0,
          .help = "Older form of --trace-config triton,log-frequency." },
};

static const struct option_row plugin_rows[] = {
        { .name = "backend-directory", .kind = OPTION_TEXT, .offset = AT(backend_directory),
          .argument = "<path>", .default_text = "lib/neso/backends beside the library",
          .help = "Where backends are found." },
        { .name = "backend-config", .kind = OPTION_TEXTS, .offset = AT(backend_config),
          .argument = "<backend,setting=value>",
          .help = "Setting for one backend, or for all without a backend." },
        { .name = "repoagent-directory", .kind = OPTION_TEXT, .offset = AT(repoagent_directory),
          .argument = "<path>", .default_text = "lib/neso/repoagents beside the library",
          .help = "Where repository agents are found." },
        { .name = "cache-config", .kind = OPTION_TEXTS, .offset = AT(cache_config),
          .argument = "<cache,setting=value>",
          .help = "Setting of the response cache, which it turns on; may be repeated." },
        { .name = "cache-directory", .kind = OPTION_TEXT, .offset = AT(cache_directory),
          .argument = "<path>", .default_text = "lib/neso/caches beside the library",
          .help = "Where caches are found." },
        { .name = "scheduler", .kind = OPTION_TEXT, .offset = AT(scheduler),
          .argument = "<name>", .default_text = "default",
          .help = "Scheduler of models that name none: default, baseline, triton, or the name of a "
                  "library; see docs/schedulers.md." },
        { .name = "scheduler-directory", .kind = OPTION_TEXT, .offset = AT(scheduler_directory),
          .argument = "<path>", .default_text = "lib/neso/schedulers beside the library",
          .help = "Where scheduler libraries are found that no model's directory has." },
        { .name = "response-cache-byte-size", .kind = OPTION_NUMBER, .offset = AT(cache_bytes),
          .argument = "<bytes>", .min = 0, .max = 9007199254740992.0,
          .help = "Older form of --cache-config=local,size=<bytes>." },
};

static const struct option_row memory_rows[] = {
        { .name = "rate-limit", .kind = OPTION_TEXT, .offset = AT(rate_limit),
          .argument = "<execution_count|off>", .default_text = "off",
          .help = "Whether instances wait for the resources that their groups name." },
        { .name = "adaptive-batching", .kind = OPTION_TEXT, .offset = AT(adaptive_batching),
          .argument = "<off|idle|flow>",
          .help = "When a batch runs before its queue delay is over, for models that do not set it; "
                  "see docs/batching.md. Without it, off for dynamic_batching." },
        { .name = "rate-limit-resource", .kind = OPTION_TEXTS, .offset = AT(rate_limit_resource),
          .argument = "<name:count[:device]>",
          .help = "How much there is of a resource, on one device or on each; without it, as much "
                  "as the most demanding instance needs. May be repeated." },
        { .name = "pinned-memory-pool-byte-size", .kind = OPTION_NUMBER,
          .offset = AT(pinned_pool_bytes), .argument = "<bytes>", .min = 0,
          .max = 9007199254740992.0, .default_text = "268435456",
          .help = "Size of the pinned memory pool; this build needs none." },
        { .name = "cuda-memory-pool-byte-size", .kind = OPTION_TEXTS, .offset = AT(cuda_pool_bytes),
          .argument = "<gpu:bytes>",
          .help = "CUDA memory pool of a GPU; without effect in this build, with a warning." },
        { .name = "cuda-virtual-address-size", .kind = OPTION_TEXTS, .offset = AT(cuda_virtual_bytes),
          .argument = "<gpu:bytes>",
          .help = "CUDA virtual addresses of a GPU; without effect in this build, with a "
                  "warning." },
        { .name = "min-supported-compute-capability", .kind = OPTION_REAL,
          .offset = AT(min_compute_capability), .argument = "<float>", .min = 0, .max = 1000,
          .default_text = "0",
          .help = "Least CUDA compute capability; this build has no GPU support." },
        { .name = "buffer-manager-thread-count", .kind = OPTION_NUMBER,
          .offset = AT(buffer_manager_threads), .argument = "<integer>", .min = 0, .max = 1024,
          .default_text = "0", .help = "Accepted; buffers need no threads here." },
        { .name = "host-policy", .kind = OPTION_TEXTS, .offset = AT(host_policy),
          .argument = "<name,setting=value>",
          .help = "Where instances of this host policy run: <name>,cpu-cores=0-3,8 or "
                  "<name>,numa-node=0; may be repeated." },
        { .name = "model-load-gpu-limit", .kind = OPTION_TEXTS, .offset = AT(model_load_gpu_limit),
          .argument = "<device:fraction>",
          .help = "Part of a GPU's memory that models may fill; without effect in this build, "
                  "with a warning." },
        { .name = "allow-client-shm", .kind = OPTION_BOOL, .offset = AT(allow_client_shm),
          .argument = "<boolean>", .default_text = "false",
          .help = "Let clients register shared memory." },
};

static const struct option_group groups[] = {
        { "Help", help_rows, ARRAY_LEN(help_rows) },
        { "Logging", logging_rows, ARRAY_LEN(logging_rows) },
        { "Server", server_rows, ARRAY_LEN(server_rows) },
        { "Models", models_rows, ARRAY_LEN(models_rows) },
        { "HTTP", http_rows, ARRAY_LEN(http_rows) },
        { "GRPC", grpc_rows, ARRAY_LEN(grpc_rows) },
        { "SageMaker and Vertex AI", cloud_rows, ARRAY_LEN(cloud_rows) },
        { "Metrics", metrics_rows, ARRAY_LEN(metrics_rows) },
        { "Traces", traces_rows, ARRAY_LEN(traces_rows) },
        { "Backends, agents, caches and schedulers", plugin_rows, ARRAY_LEN(plugin_rows) },
        { "Scheduling and memory", memory_rows, ARRAY_LEN(memory_rows) },
};

const struct option_group *option_groups(size_t *ret_n) {
        *ret_n = ARRAY_LEN(groups);
        return groups;
}

const struct option_row *option_find(const char *name, size_t len) {
        for (size_t g = 0; g < ARRAY_LEN(groups); g++)
                for (size_t i = 0; i < groups[g].n_rows; i++) {
                        const struct option_row *row = &groups[g].rows[i];

                        if (strlen(row->name) == len && memcmp(row->name, name, len) == 0)
                                return row;
                }
        return NULL;
}

const struct option_row *option_find_prefix(struct str prefix, size_t *ret_n_matches) {
        const struct option_row *found = NULL;

        *ret_n_matches = 0;
        for (size_t g = 0; g < ARRAY_LEN(groups); g++)
                for (size_t i = 0; i < groups[g].n_rows; i++)
                        if (str_starts(str_of(groups[g].rows[i].name), prefix)) {
                                found = &groups[g].rows[i];
                                ++*ret_n_matches;
                        }
        return *ret_n_matches == 1 ? found : NULL;
}
