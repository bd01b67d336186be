/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_reply.h"

#include "base/buf.h"
#include "base/compiler.h"
#include "base/strbuf.h"
#include "codec/gzip.h"
#include "codec/json_writer.h"
#include "openai/openai_error.h"

#include <string.h>

/* Limit of an error text, which may quote names of tensors, keys and versions. */
#define MAX_ERROR_BYTES ((size_t)1 << 20)

/* ---- the head ---- */

/* Copies to `at`, whose memory was measured before; returns the end of the copy. */
static char *put_chars(char *at, const char *bytes, size_t len) {
        memcpy(at, bytes, len);
        return at + len;
}

#define PUT_LIT(at, literal) put_chars((at), (literal), sizeof(literal) - 1)

static char *put_text(char *at, const char *text) {
        return put_chars(at, text, strlen(text));
}

static char *put_u64(char *at, uint64_t value) {
        char  digits[20]; /* 2^64 has 20 digits */
        char *first = digits + sizeof(digits);

        do {
                *--first = (char)('0' + value % 10);
                value /= 10;
        } while (value > 0);
        return put_chars(at, first, (size_t)(digits + sizeof(digits) - first));
}

/* Replaces CR, LF and NUL by blanks, so that a value from a peer or a model cannot start a line. */
static char *put_value(char *at, struct str value) {
        for (size_t i = 0; i < value.len; i++) {
                char c = value.ptr[i];

                *at++ = c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
        }
        return at;
}

/* 405 is "Not Allowed", as in the reference. */
static const char *status_phrase(unsigned status) {
        switch (status) {
        case 200: return "OK";
        case 304: return "Not Modified";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Not Allowed";
        case 408: return "Request Timeout";
        case 413: return "Content Too Large";
        case 417: return "Expectation Failed";
        case 429: return "Too Many Requests";
        case 431: return "Request Header Fields Too Large";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 503: return "Service Unavailable";
        case 505: return "HTTP Version Not Supported";
        default: return "Unknown";
        }
}

static char *put_status(char *at, unsigned status) {
        if (status == 200)
                return PUT_LIT(at, "HTTP/1.1 200 OK\r\n");
        at = PUT_LIT(at, "HTTP/1.1 ");
        at = put_u64(at, status);
        *at++ = ' ';
        at = put_text(at, status_phrase(status));
        return PUT_LIT(at, "\r\n");
}

size_t http_reply_measure_head(const struct http_reply *reply, struct str content_type) {
        size_t bytes = sizeof("HTTP/1.1 431 Request Header Fields Too Large\r\n"
                              "Content-Type: \r\nConnection: keep-alive\r\n"
                              "Content-Length: \r\n"
                              "Transfer-Encoding: chunked\r\n\r\n") +
                       20;

        bytes += content_type.len;
        for (size_t i = 0; i < reply->n_headers; i++)
                bytes +=
                        reply->headers[i].name.len + reply->headers[i].value.len + sizeof(": \r\n");
        return bytes;
}

char *http_reply_print_head(const struct http_reply *reply, const struct http_framing *f,
                            char *at) {
        at = put_status(at, reply->status);
        at = PUT_LIT(at, "Content-Type: ");
        at = put_chars(at, f->content_type.ptr, f->content_type.len);
        at = PUT_LIT(at, "\r\n");
        for (size_t i = 0; i < reply->n_headers; i++) {
                at = put_chars(at, reply->headers[i].name.ptr, reply->headers[i].name.len);
                at = PUT_LIT(at, ": ");
                at = put_value(at, reply->headers[i].value);
                at = PUT_LIT(at, "\r\n");
        }
        if (f->closes)
                at = PUT_LIT(at, "Connection: close\r\n");
        else if (f->is_http10)
                at = PUT_LIT(at, "Connection: keep-alive\r\n");
        if (f->is_chunked)
                return f->is_http10 ? PUT_LIT(at, "\r\n")
                                    : PUT_LIT(at, "Transfer-Encoding: chunked\r\n\r\n");
        if (reply->status == 304) /* RFC 9110, 8.6: not the length of this empty body */
                return PUT_LIT(at, "\r\n");
        at = PUT_LIT(at, "Content-Length: ");
        at = put_u64(at, f->content_length);
        return PUT_LIT(at, "\r\n\r\n");
}

/* ---- the body ---- */

bool http_reply_compress(const struct http_part *parts, size_t n_parts, enum http_encoding encoding,
                         struct arena *arena, struct buf_pool *pool, struct http_part *ret) {
        enum gzip_format format =
                encoding == HTTP_ENCODING_GZIP ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB;
        struct iovec *iov = arena_try_alloc(arena, (n_parts + 1) * sizeof(*iov));
        struct buf   *packed;

        if (iov == NULL)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                iov[i] = (struct iovec){ (void *)(uintptr_t)parts[i].ptr, parts[i].len };
        if (gzip_deflate_buf(format, iov, n_parts, pool, &packed) != GZIP_OK)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                buf_unref(parts[i].buf);
        *ret = (struct http_part){ packed->bytes, packed->len, packed };
        return true;
}

struct str http_reply_error_text(struct arena *arena, const char *message) {
        AUTO_STRBUF        text = { .max = MAX_ERROR_BYTES };
        struct json_writer w = { .out = &text };

        json_begin_object(&w);
        json_member_string(&w, "error", message);
        json_end_object(&w);
        if (text.overflowed) /* a character takes up to six in JSON */
                return strlen(message) > MAX_ERROR_BYTES / 8
                               ? STR_LIT("{\"error\":\"the error message is too long\"}")
                               : STR_LIT("{\"error\":\"out of memory\"}");
        return str_range(arena_str(arena, strbuf_str(&text)), text.len);
}

struct str http_reply_openai_error(struct arena *arena, unsigned status, const char *message) {
        AUTO_STRBUF         text = { .max = MAX_ERROR_BYTES };
        struct openai_error e = { .status = status, .message = message };

        openai_error_print(&e, &text);
        if (text.overflowed)
                return STR_LIT(
                        "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
                        "\"param\":null,\"code\":null}}");
        return str_range(arena_str(arena, strbuf_str(&text)), text.len);
}

static size_t measure_gathered(const struct http_reply *reply) {
        size_t bytes = 0;

        for (size_t i = 0; i < reply->n_parts; i++)
                bytes += reply->parts[i].buf != NULL ? 0 : reply->parts[i].len;
        for (size_t i = 0; i < reply->n_headers; i++)
                bytes += reply->headers[i].name.len + reply->headers[i].value.len;
        return bytes;
}

static const char *append(struct buf *b, const void *bytes, size_t len) {
        char *at = b->bytes + b->len;

        if (len > 0)
                memcpy(at, bytes, len);
        b->len += len;
        return at;
}

bool http_reply_gather(const struct http_reply *reply, struct buf_pool *pool,
                       struct http_gathered *ret) {
        struct buf *b;

        if (reply->n_parts > HTTP_GATHERED_PARTS || reply->n_headers > HTTP_GATHERED_HEADERS)
                return false;
        b = buf_new(pool, measure_gathered(reply));
        if (b == NULL)
                return false;
        ret->reply = *reply;
        ret->reply.parts = ret->parts;
        ret->reply.headers = ret->headers;
        ret->reply.is_brief = false;
        for (size_t i = 0; i < reply->n_parts; i++) {
                ret->parts[i] = reply->parts[i];
                if (ret->parts[i].buf != NULL)
                        continue;
                ret->parts[i].ptr = append(b, reply->parts[i].ptr, reply->parts[i].len);
                ret->parts[i].buf = b;
                buf_ref(b);
        }
        for (size_t i = 0; i < reply->n_headers; i++) {
                struct str name = reply->headers[i].name, value = reply->headers[i].value;

                ret->headers[i].name = str_range(append(b, name.ptr, name.len), name.len);
                ret->headers[i].value = str_range(append(b, value.ptr, value.len), value.len);
        }
        ret->holder = b;
        return true;
}

unsigned http_status_of_code(enum error_code code) {
        switch (code) {
        case ERR_INTERNAL: return 500;
        case ERR_NOT_FOUND: return 404;
        case ERR_UNAVAILABLE: return 503;
        case ERR_UNSUPPORTED: return 501;
        case ERR_UNKNOWN:
        case ERR_INVALID_ARG:
        case ERR_ALREADY_EXISTS:
        case ERR_CANCELLED: break;
        }
        return 400;
}

/* ---- Accept-Encoding ---- */

#define Q_ONE 1000 /* weights have three decimals (RFC 9110, 12.4.2) */

static const char *const encoding_names[] = {
        [HTTP_ENCODING_IDENTITY] = "identity",
        [HTTP_ENCODING_GZIP] = "gzip",
        [HTTP_ENCODING_DEFLATE] = "deflate",
};

const char *http_encoding_name(enum http_encoding encoding) {
        return encoding_names[encoding];
}

/* Reads a weight: "0.5" is 500, "1" is 1000, anything else 0. */
static unsigned read_weight(struct str s) {
        unsigned weight = 0, digit = Q_ONE;

        if (s.len == 0 || s.ptr[0] < '0' || s.ptr[0] > '1')
                return 0;
        for (size_t i = 0; i < s.len && i < sizeof("0.123") - 1; i++) {
                if (i == 1 && s.ptr[i] != '.')
                        return 0;
                if (i == 1)
                        continue;
                if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return 0;
                weight += (unsigned)(s.ptr[i] - '0') * digit;
                digit /= 10;
        }
        return MIN(weight, (unsigned)Q_ONE);
}

/* Returns the value of a parameter behind a name; ptr NULL if there is none. */
static struct str find_parameter(struct str parameters, const char *name) {
        struct str one, key, value;

        while (parameters.ptr != NULL) {
                parameters = str_split(parameters, ';', &one);
                value = str_split(str_trim(one), '=', &key);
                if (value.ptr != NULL && str_equal_nocase(key, str_of(name)))
                        return value;
        }
        return (struct str){ NULL, 0 };
}

/* Returns the weight "q" among the parameters of a name, 1 if there is none. */
static unsigned find_weight(struct str parameters) {
        struct str q = find_parameter(parameters, "q");

        return q.ptr != NULL ? read_weight(q) : Q_ONE;
}

unsigned http_accept_weight(struct str accept, const char *type, const char *version) {
        unsigned   best = 0;
        struct str one, name;

        while (accept.ptr != NULL) {
                struct str parameters, asked;

                accept = str_split(accept, ',', &one);
                parameters = str_split(one, ';', &name);
                asked = find_parameter(parameters, "version");
                if (str_equal_nocase(str_trim(name), str_of(type)) &&
                    (asked.ptr == NULL || str_is(asked, version)))
                        best = MAX(best, find_weight(parameters));
        }
        return best;
}

void http_encoding_consider(struct http_encoding_choice *choice, struct str accept) {
        struct str one, name;

        while (accept.ptr != NULL) {
                struct str parameters;
                unsigned   weight;

                accept = str_split(accept, ',', &one);
                parameters = str_split(one, ';', &name);
                weight = find_weight(parameters);
                for (size_t i = 0; i < ARRAY_LEN(encoding_names); i++) {
                        if (weight <= choice->weight ||
                            !str_equal_nocase(str_trim(name), str_of(encoding_names[i])))
                                continue;
                        choice->best = (enum http_encoding)i;
                        choice->weight = weight;
                }
        }
}
