/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_message.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/mem.h"
#include "http/http_head.h"

#include <assert.h>
#include <llhttp.h>
#include <string.h>

/* First size of the buffer of a chunked body, which then doubles. */
#define FIRST_BODY_BYTES ((size_t)16 << 10)

struct http_parser {
        llhttp_t             native;
        struct http_message *message; /* borrowed: the owner */
};

static struct http_message *message_of(llhttp_t *native) {
        return CONTAINER_OF(native, struct http_parser, native)->message;
}

/* Records the first refusal. Returns -1, which stops the parser. */
static int refuse_message(struct http_message *m, unsigned status, enum http_limit limit,
                          char *text) {
        if (m->refusal.status) {
                free(text);
                return -1;
        }
        m->refusal = (struct http_refusal){ .status = status, .limit = limit, .text = text };
        return -1;
}

static int refuse_syntax(struct http_message *m, const char *reason) {
        return refuse_message(m, 400, HTTP_LIMIT_NONE,
                              mem_printf("malformed HTTP request: %s", reason));
}

static int refuse_version(struct http_message *m) {
        return refuse_message(m, 505, HTTP_LIMIT_NONE,
                              mem_strdup("only HTTP/1.0 and HTTP/1.1 are supported"));
}

static uint32_t offset_of(const struct http_message *m, const char *at) {
        return (uint32_t)(at - m->base); /* a head is at most a few times header_bytes */
}

static int on_url(llhttp_t *native, const char *at, size_t len) {
        struct http_message *m = message_of(native);

        if (m->target_len == 0)
                m->target_at = offset_of(m, at);
        m->target_len = offset_of(m, at + len) - m->target_at;
        return 0;
}

static int refuse_fields(struct http_message *m) {
        return refuse_message(m, 431, HTTP_LIMIT_HEADER_FIELDS,
                              mem_printf("request has more than the maximum of %zu header fields",
                                         m->limits->header_fields));
}

/* A name may come in several pieces; a new field starts after the name before it is complete. */
static int on_field_name(llhttp_t *native, const char *at, size_t len) {
        struct http_message *m = message_of(native);
        struct http_field   *f;

        if (m->name_is_complete || m->n_fields == 0) {
                if (m->n_fields == m->limits->header_fields)
                        return refuse_fields(m);
                m->fields[m->n_fields++] = (struct http_field){ .name_at = offset_of(m, at) };
                m->name_is_complete = false;
        }
        f = &m->fields[m->n_fields - 1];
        f->name_len = offset_of(m, at + len) - f->name_at;
        return 0;
}

static int on_field_name_complete(llhttp_t *native) {
        struct http_message *m = message_of(native);

        /* The parser accepts an empty name, for which it calls no on_header_field. */
        if (m->n_fields == 0 || m->name_is_complete || m->fields[m->n_fields - 1].name_len == 0)
                return refuse_syntax(m, "empty header name");
        m->name_is_complete = true;
        return 0;
}

static int on_field_value(llhttp_t *native, const char *at, size_t len) {
        struct http_message *m = message_of(native);
        struct http_field   *f;

        f = &m->fields[m->n_fields - 1]; /* there is one: its name came before */
        if (f->value_at == 0)
                f->value_at = offset_of(m, at);
        f->value_len = offset_of(m, at + len) - f->value_at;
        return 0;
}

/* Pauses the parser: the caller decides how the body is read. */
static int on_headers_complete(llhttp_t *native) {
        (void)native;
        return HPE_PAUSED;
}

static int refuse_body(struct http_message *m) {
        return refuse_message(
                m, 400, HTTP_LIMIT_BODY_BYTES,
                mem_printf("request body exceeds the maximum allowed input size of %zu "
                           "bytes. Use --http-max-input-size to increase the limit.",
                           m->limits->input_bytes));
}

static size_t room_for_body(const struct http_message *m) {
        return m->max_body_bytes - (m->body != NULL ? m->body->len : 0);
}

/* Checks the size of a chunk before its bytes arrive. */
static int on_chunk_size(struct http_message *m, uint64_t size) {
        m->extension_bytes = 0;
        m->framing_bytes = 0;
        if (size > room_for_body(m))
                return refuse_body(m);
        if (size > 0 && ++m->n_chunks > m->limits->chunks)
                return refuse_message(
                        m, 400, HTTP_LIMIT_CHUNKS,
                        mem_printf("Chunked request body exceeds maximum of %zu non-empty "
                                   "chunks. Send fewer or larger HTTP chunks.",
                                   m->limits->chunks));
        return 0;
}

static int on_chunk_extension(struct http_message *m, size_t len) {
        m->extension_bytes += len;
        if (m->extension_bytes > m->limits->chunk_extension_bytes)
                return refuse_message(m, 400, HTTP_LIMIT_CHUNK_EXTENSION,
                                      mem_printf("chunk extensions exceed the maximum of %zu bytes",
                                                 m->limits->chunk_extension_bytes));
        return 0;
}

/* Makes room for `len` more bytes; the buffer doubles, up to the limit. */
static int grow_body(struct http_message *m, size_t len) {
        size_t      max = m->max_body_bytes;
        size_t      used = m->body != NULL ? m->body->len : 0;
        size_t      cap;
        struct buf *larger;

        if (len > max - used)
                return refuse_body(m);
        if (m->body != NULL && len <= m->body->cap - used)
                return 0;
        cap = MAX(MAX(used * 2, used + len), FIRST_BODY_BYTES); /* used + len <= max */
        larger = buf_new(m->pool, MIN(cap, MAX(max, FIRST_BODY_BYTES)));
        if (larger == NULL) /* the byte budget has counted its own refusal */
                return refuse_message(m, 503,
                                      byte_budget_fits(buf_pool_budget(m->pool), cap)
                                              ? HTTP_LIMIT_MEMORY
                                              : HTTP_LIMIT_NONE,
                                      mem_strdup(buf_pool_shortage(m->pool, cap)));
        if (m->body != NULL)
                memcpy(larger->bytes, m->body->bytes, used);
        larger->len = used;
        buf_unref(m->body);
        m->body = larger;
        return 0;
}

static int on_chunk_bytes(struct http_message *m, struct str bytes) {
        m->framing_bytes = 0;
        if (grow_body(m, bytes.len) != 0)
                return -1;
        memcpy(m->body->bytes + m->body->len, bytes.ptr, bytes.len);
        m->body->len += bytes.len;
        return 0;
}

/* Trailers are counted, not kept. */
static int on_trailer(struct http_message *m) {
        return ++m->n_trailers > m->limits->header_fields ? refuse_fields(m) : 0;
}

static const llhttp_settings_t callbacks = {
        .on_url = on_url,
        .on_header_field = on_field_name,
        .on_header_field_complete = on_field_name_complete,
        .on_header_value = on_field_value,
        .on_headers_complete = on_headers_complete,
};

struct http_message *http_message_new(const struct http_limits *limits, struct buf_pool *pool) {
        size_t bytes =
                sizeof(struct http_message) +
                limits->header_fields * sizeof(struct http_field); /* from the command line */
        struct http_message *m = mem_aligned_alloc(CACHE_LINE_BYTES, bytes);

        memset(m, 0, sizeof(*m));
        m->limits = limits;
        m->pool = pool;
        m->max_body_bytes = http_limits_body_bytes(limits);
        m->parser = mem_zalloc(sizeof(*m->parser));
        m->parser->message = m;
        llhttp_init(&m->parser->native, HTTP_REQUEST, &callbacks);
        return m;
}

void http_message_free(struct http_message *m) {
        if (m == NULL)
                return;
        buf_unref(m->body);
        free(m->refusal.text);
        free(m->parser);
        free(m);
}

static void reset_parser(struct http_message *m) {
        llhttp_init(&m->parser->native, HTTP_REQUEST, &callbacks);
        buf_unref(m->body);
        m->body = NULL;
        m->base = NULL;
        m->n_chunks = m->extension_bytes = m->framing_bytes = m->n_trailers = 0;
        m->max_body_bytes = http_limits_body_bytes(m->limits);
        m->name_is_complete = m->in_chunks = false;
        m->chunks = (struct http_chunk_reader){ 0 };
        m->fed_bytes = 0;
}

void http_message_reset(struct http_message *m) {
        if (m->fed_bytes > 0)
                reset_parser(m);
        http_head_forget(m);
        if (m->refusal.status) {
                free(m->refusal.text);
                m->refusal = (struct http_refusal){ 0 };
        }
}

struct str http_message_target(const struct http_message *m, const char *base) {
        return str_range(base + m->target_at, m->target_len);
}

struct http_header http_message_header(const struct http_message *m, const char *base, size_t i) {
        const struct http_field *f = &m->fields[i];

        return (struct http_header){
                .name = str_range(base + f->name_at, f->name_len),
                .value = str_trim(str_range(base + f->value_at, f->value_len)),
        };
}

/* True when each line ends in CRLF and no field is folded. llhttp accepts folded fields, and a bare LF when
 * it was built without its strict mode. */
static bool lines_are_strict(const struct http_message *m) {
        size_t line = m->target_at;
        size_t blank = m->head_bytes - 2;

        for (size_t i = 0; i <= m->n_fields; i++) {
                size_t      next = i < m->n_fields ? m->fields[i].name_at : blank;
                const char *lf = memchr(m->base + line, '\n', next - line);

                if (lf != m->base + next - 1 || lf[-1] != '\r')
                        return false;
                line = next;
        }
        return m->base[blank] == '\r';
}

/* True when there is one blank on each side of the target, and nothing behind the version. */
static bool request_line_is_strict(const struct http_message *m) {
        size_t method_len = strlen(m->method_text);
        size_t end = m->target_at + m->target_len;
        size_t next = m->n_fields > 0 ? m->fields[0].name_at : m->head_bytes - 2;

        return m->target_at > method_len && m->base[m->target_at - 1] == ' ' &&
               memcmp(m->base + m->target_at - 1 - method_len, m->method_text, method_len) == 0 &&
               next - end == sizeof(" HTTP/1.1\r\n") - 1 && m->base[end + 1] == 'H';
}

static void check_transfer_encoding(struct http_message *m, struct str value, bool *seen) {
        if (*seen || !str_equal_nocase(value, STR_LIT("chunked")))
                refuse_message(m, 501, HTTP_LIMIT_NONE,
                               mem_strdup(
                                       "Transfer-Encoding other than 'chunked' is not supported"));
        else if (m->is_http10)
                refuse_syntax(m, "Transfer-Encoding is not part of HTTP/1.0");
        *seen = true;
}

/* This length decides where the tensors begin, so two readers must agree about it. */
static void check_json_length(struct http_message *m, struct str value) {
        uint32_t first = m->known[HTTP_NAME_INFER_JSON_LENGTH];

        if (first > 0 && !str_equal(http_message_header(m, m->base, first - 1).value, value))
                refuse_syntax(m, "two Inference-Header-Content-Length that differ");
}

/* Checks the fields that decide where the request ends and how it is answered. */
static void check_fields(struct http_message *m) {
        bool has_coding = false;

        for (size_t i = 0; i < m->n_fields && !m->refusal.status; i++) {
                struct http_header h = http_message_header(m, m->base, i);
                enum http_name     name = http_head_find_name(h.name);

                if (name == HTTP_NAME_HOST && m->known[name] > 0)
                        refuse_syntax(m, "more than one Host");
                else if (name == HTTP_NAME_HOST && !http_head_is_host(h.value))
                        refuse_syntax(m, "Host is not the name of one host");
                if (name == HTTP_NAME_INFER_JSON_LENGTH)
                        check_json_length(m, h.value);
                if (m->known[name] == 0)
                        m->known[name] = (uint32_t)i + 1;
                if (name == HTTP_NAME_TRANSFER_ENCODING) {
                        check_transfer_encoding(m, h.value, &has_coding);
                } else if (name == HTTP_NAME_EXPECT) {
                        if (!str_equal_nocase(h.value, STR_LIT("100-continue")))
                                refuse_message(m, 417, HTTP_LIMIT_NONE,
                                               mem_strdup("only the expectation '100-continue' is "
                                                          "supported"));
                        m->expects_continue = !m->is_http10;
                }
        }
        if (!m->is_http10 && m->known[HTTP_NAME_HOST] == 0)
                refuse_syntax(m, "no Host, which HTTP/1.1 requires");
        if (m->is_chunked && !has_coding)
                refuse_syntax(m, "inconsistent Transfer-Encoding");
}

static enum http_method method_of(unsigned native) {
        switch (native) {
        case HTTP_GET: return HTTP_METHOD_GET;
        case HTTP_POST: return HTTP_METHOD_POST;
        case HTTP_HEAD: return HTTP_METHOD_HEAD;
        case HTTP_DELETE: return HTTP_METHOD_DELETE;
        default: return HTTP_METHOD_OTHER;
        }
}

static void complete_head(struct http_message *m, const char *end) {
        const llhttp_t *native = &m->parser->native;

        m->head_bytes = (size_t)(end - m->base);
        m->method = method_of(native->method);
        m->method_text = llhttp_method_name((llhttp_method_t)native->method);
        m->is_http10 = native->http_major == 1 && native->http_minor == 0;
        m->is_chunked = (native->flags & F_CHUNKED) != 0;
        m->content_length = native->flags & F_CONTENT_LENGTH ? native->content_length : 0;
        /* The bytes after a CONNECT are not HTTP. */
        m->keep_alive = llhttp_should_keep_alive(native) && native->method != HTTP_CONNECT;
        if (native->http_major != 1 || native->http_minor > 1)
                refuse_version(m);
        else if (!lines_are_strict(m))
                refuse_syntax(m, "header lines must end in CRLF and not be folded");
        else if (!request_line_is_strict(m))
                refuse_syntax(m, "request line with more than one blank between its parts");
        else if (native->flags & F_TRANSFER_ENCODING && native->flags & F_CONTENT_LENGTH)
                refuse_syntax(m, "both Content-Length and Transfer-Encoding");
        else
                check_fields(m);
        m->in_chunks = m->is_chunked;
}

static enum http_parse check_head_bytes(struct http_message *m, size_t bytes,
                                        enum http_parse verdict) {
        if (bytes <= m->limits->header_bytes)
                return verdict;
        refuse_message(m, 431, HTTP_LIMIT_HEADER_BYTES,
                       mem_printf("request header exceeds the maximum of %zu bytes",
                                  m->limits->header_bytes));
        return HTTP_PARSE_REFUSED;
}

/* Feeds the parser. Returns DONE when it paused, with *ret_end after the last byte that it consumed. */
static enum http_parse feed(struct http_message *m, const char *bytes, size_t len,
                            const char **ret_end) {
        llhttp_t      *native = &m->parser->native;
        llhttp_errno_t rc = llhttp_execute(native, bytes, len);

        if (rc == HPE_OK)
                return HTTP_PARSE_MORE;
        if (rc == HPE_PAUSED) {
                *ret_end = llhttp_get_error_pos(native);
                llhttp_resume(native);
                return HTTP_PARSE_DONE;
        }
        if (rc == HPE_PAUSED_H2_UPGRADE) /* for example a gRPC client with the wrong port */
                refuse_version(m);
        else
                refuse_syntax(m, llhttp_get_error_reason(native));
        return HTTP_PARSE_REFUSED;
}

enum http_parse http_message_parse_head(struct http_message *m, struct str bytes) {
        const char     *end;
        enum http_parse verdict;

        assert(!m->in_chunks && bytes.len >= m->fed_bytes);
        if (m->fed_bytes == 0 && http_head_read_plain(m, bytes))
                return HTTP_PARSE_DONE;
        m->base = bytes.ptr;
        verdict = feed(m, bytes.ptr + m->fed_bytes, bytes.len - m->fed_bytes, &end);
        m->fed_bytes = bytes.len;
        if (verdict == HTTP_PARSE_MORE)
                return check_head_bytes(m, bytes.len, verdict);
        if (verdict == HTTP_PARSE_DONE) {
                complete_head(m, end);
                verdict = check_head_bytes(m, m->head_bytes, verdict);
        }
        m->base = NULL;
        return m->refusal.status ? HTTP_PARSE_REFUSED : verdict;
}

void http_message_limit_body(struct http_message *m, size_t max_bytes) {
        m->max_body_bytes = max_bytes;
}

/* Returns DONE at the end of the body; *in is the rest. */
static enum http_parse read_chunks(struct http_message *m, struct str *in) {
        struct str bytes;
        int        rc = 0;

        while (rc == 0) {
                switch (http_chunk_reader_next(&m->chunks, in, &bytes)) {
                case HTTP_CHUNK_MORE: return HTTP_PARSE_MORE;
                case HTTP_CHUNK_SIZE: rc = on_chunk_size(m, m->chunks.left); break;
                case HTTP_CHUNK_EXTENSION: rc = on_chunk_extension(m, bytes.len); break;
                case HTTP_CHUNK_BYTES: rc = on_chunk_bytes(m, bytes); break;
                case HTTP_CHUNK_TRAILER: rc = on_trailer(m); break;
                case HTTP_CHUNK_END: return HTTP_PARSE_DONE;
                case HTTP_CHUNK_MALFORMED: rc = refuse_syntax(m, m->chunks.reason); break;
                }
        }
        return HTTP_PARSE_REFUSED;
}

enum http_parse http_message_parse_chunks(struct http_message *m, struct str bytes,
                                          size_t *ret_used) {
        struct str      rest = bytes;
        enum http_parse verdict;

        assert(m->in_chunks);
        /* Endless leading zeros of a size and endless trailers count as framing as well. */
        m->framing_bytes += bytes.len;
        verdict = read_chunks(m, &rest);
        *ret_used = bytes.len - rest.len;
        if (verdict == HTTP_PARSE_MORE && m->framing_bytes > m->limits->header_bytes) {
                refuse_message(
                        m, 431, HTTP_LIMIT_HEADER_BYTES,
                        mem_printf("chunk sizes and trailers exceed the maximum of %zu bytes",
                                   m->limits->header_bytes));
                return HTTP_PARSE_REFUSED;
        }
        return verdict;
}
