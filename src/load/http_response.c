/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/http_response.h"

#include "base/compiler.h"

#include <string.h>

void http_response_init(struct http_response *r) {
        *r = (struct http_response){ .state = HTTP_RESPONSE_HEAD,
                                     .line.max = HTTP_RESPONSE_MAX_HEAD,
                                     .whole.max = HTTP_RESPONSE_MAX_BODY };
}

void http_response_done(struct http_response *r) {
        strbuf_done(&r->line);
        strbuf_done(&r->whole);
}

static enum http_response_result refuse_response(struct http_response *r, const char *wrong) {
        r->wrong = wrong;
        return HTTP_RESPONSE_BAD;
}

/* ---- the head -------------------------------------------------------------------------------- */

/* "HTTP/1.1 200 OK" */
static bool read_status_line(struct http_response *r, struct str line) {
        uint64_t status;

        if (line.len < 12 || memcmp(line.ptr, "HTTP/1.", 7) != 0 || line.ptr[8] != ' ' ||
            !str_to_u64(str_range(line.ptr + 9, 3), &status) || status < 100)
                return false;
        r->status = (int)status;
        r->is_last = line.ptr[7] == '0';
        return true;
}

static const char *read_field(struct http_response *r, struct str line) {
        struct str name, value = str_trim(str_split(line, ':', &name));
        uint64_t   number;

        if (value.ptr == NULL || name.len == 0)
                return "a header field has no name";
        if (str_equal_nocase(name, STR_LIT("content-length"))) {
                if (!str_to_u64(value, &number) || (r->has_length && r->left != number))
                        return "the Content-Length is no number";
                r->has_length = true;
                r->left = number;
        } else if (str_equal_nocase(name, STR_LIT("transfer-encoding"))) {
                if (!str_equal_nocase(value, STR_LIT("chunked")))
                        return "the Transfer-Encoding is not chunked";
                r->is_chunked = true;
        } else if (str_equal_nocase(name, STR_LIT("connection"))) {
                r->is_last = str_equal_nocase(value, STR_LIT("close")) ||
                             (r->is_last && !str_equal_nocase(value, STR_LIT("keep-alive")));
        } else if (str_equal_nocase(name, STR_LIT("inference-header-content-length"))) {
                if (!str_to_u64(value, &number) || number > HTTP_RESPONSE_MAX_BODY)
                        return "the Inference-Header-Content-Length is no number";
                r->header_length = (size_t)number;
        }
        return NULL;
}

static struct str next_line(struct str *head) {
        struct str line;

        *head = str_split(*head, '\n', &line);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
                line.len--;
        return line;
}

/* Reads the lines of a head, which ends with an empty one. */
static const char *read_head(struct http_response *r, struct str head) {
        struct str  line = next_line(&head);
        const char *wrong;

        r->header_length = 0;
        r->has_length = r->is_chunked = false;
        r->left = 0;
        r->body = str_range("", 0);
        strbuf_clear(&r->whole);
        if (!read_status_line(r, line))
                return "what came is no HTTP/1.1";
        while ((line = next_line(&head)).len > 0)
                if ((wrong = read_field(r, line)) != NULL)
                        return wrong;
        if (r->has_length && r->is_chunked)
                return "the response is chunked and has a Content-Length";
        if (r->left > HTTP_RESPONSE_MAX_BODY)
                return "the response is longer than 1 GiB";
        return NULL;
}

static bool has_no_body(const struct http_response *r) {
        return r->status < 200 || r->status == 204 || r->status == 304;
}

/* Takes a range that ends with `mark` from *in, or keeps what there is; ptr NULL: there is more to come. The
 * range is in `line` when it came in pieces. */
static struct str take_until(struct http_response *r, struct str *in, struct str mark) {
        struct str  found = { 0 };
        const char *end;

        if (r->line.len == 0) {
                end = memmem(in->ptr, in->len, mark.ptr, mark.len);
                if (end != NULL) {
                        found = str_range(in->ptr, (size_t)(end - in->ptr) + mark.len);
                        *in = str_skip(*in, found.len);
                        return found;
                }
        }
        /* Byte by byte: the mark may be cut, and this is rare. */
        while (in->len > 0 && !r->line.overflowed) {
                strbuf_putc(&r->line, *in->ptr);
                *in = str_skip(*in, 1);
                if (str_ends(strbuf_str(&r->line), mark)) {
                        found = strbuf_str(&r->line);
                        r->line.len = 0; /* the text stays until the next call */
                        return found;
                }
        }
        return found;
}

static enum http_response_result after_head(struct http_response *r) {
        if (r->status >= 100 && r->status < 200) {
                r->state = HTTP_RESPONSE_HEAD; /* an interim response */
                return HTTP_RESPONSE_MORE;
        }
        if (has_no_body(r) || (r->has_length && r->left == 0)) {
                r->state = HTTP_RESPONSE_HEAD;
                return HTTP_RESPONSE_DONE;
        }
        if (!r->has_length && !r->is_chunked)
                return refuse_response(r, "the response has neither Content-Length nor chunks");
        r->state = r->is_chunked ? HTTP_RESPONSE_CHUNK_SIZE : HTTP_RESPONSE_BODY;
        return HTTP_RESPONSE_MORE;
}

static enum http_response_result step_head(struct http_response *r, struct str *in) {
        struct str  head = take_until(r, in, STR_LIT("\r\n\r\n"));
        const char *wrong;

        if (r->line.overflowed)
                return refuse_response(r, "the head of the response is longer than 64 KiB");
        if (head.ptr == NULL)
                return HTTP_RESPONSE_MORE;
        wrong = read_head(r, head);
        return wrong != NULL ? refuse_response(r, wrong) : after_head(r);
}

/* ---- the body -------------------------------------------------------------------------------- */

static enum http_response_result finish_response(struct http_response *r) {
        r->state = HTTP_RESPONSE_HEAD;
        if (r->whole.overflowed)
                return refuse_response(r, "there is no memory for the response");
        if (r->whole.len > 0)
                r->body = strbuf_str(&r->whole);
        return HTTP_RESPONSE_DONE;
}

static enum http_response_result step_body(struct http_response *r, struct str *in) {
        size_t n = (size_t)MIN(r->left, in->len);

        if (n == r->left && r->whole.len == 0)
                r->body = str_range(in->ptr, n);
        else
                strbuf_put(&r->whole, in->ptr, n);
        *in = str_skip(*in, n);
        r->left -= n;
        return r->left == 0 ? finish_response(r) : HTTP_RESPONSE_MORE;
}

static bool read_hex(struct str line, uint64_t *ret) {
        uint64_t n = 0;
        size_t   i = 0;

        for (; i < line.len && i < 15; i++) {
                char c = line.ptr[i];

                if (c >= '0' && c <= '9')
                        n = n * 16 + (uint64_t)(c - '0');
                else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                        n = n * 16 + (uint64_t)((c | 0x20) - 'a') + 10;
                else
                        break;
        }
        *ret = n;
        return i > 0 && (i == line.len || line.ptr[i] == ';' || line.ptr[i] == '\r');
}

static enum http_response_result step_chunk_size(struct http_response *r, struct str *in) {
        struct str line = take_until(r, in, STR_LIT("\r\n"));

        if (line.ptr == NULL)
                return r->line.overflowed ? refuse_response(r, "a chunk has no size")
                                          : HTTP_RESPONSE_MORE;
        if (!read_hex(line, &r->left) || r->left > HTTP_RESPONSE_MAX_BODY)
                return refuse_response(r, "a chunk has no size");
        r->state = r->left > 0 ? HTTP_RESPONSE_CHUNK : HTTP_RESPONSE_TRAILER;
        return HTTP_RESPONSE_MORE;
}

static enum http_response_result step_chunk(struct http_response *r, struct str *in) {
        size_t n = (size_t)MIN(r->left, in->len);

        strbuf_put(&r->whole, in->ptr, n);
        *in = str_skip(*in, n);
        r->left -= n;
        if (r->whole.overflowed)
                return refuse_response(r, "the response is longer than 1 GiB");
        if (r->left == 0)
                r->state = HTTP_RESPONSE_CHUNK_END;
        return HTTP_RESPONSE_MORE;
}

static enum http_response_result step_chunk_end(struct http_response *r, struct str *in) {
        struct str line = take_until(r, in, STR_LIT("\r\n"));

        if (line.ptr == NULL)
                return HTTP_RESPONSE_MORE;
        if (line.len != 2)
                return refuse_response(r, "a chunk is longer than its size");
        r->state = HTTP_RESPONSE_CHUNK_SIZE;
        return HTTP_RESPONSE_MORE;
}

static enum http_response_result step_trailer(struct http_response *r, struct str *in) {
        struct str line = take_until(r, in, STR_LIT("\r\n"));

        if (line.ptr == NULL)
                return r->line.overflowed ? refuse_response(r, "the trailer is too long")
                                          : HTTP_RESPONSE_MORE;
        return line.len == 2 ? finish_response(r) : HTTP_RESPONSE_MORE;
}

static enum http_response_result step(struct http_response *r, struct str *in) {
        switch (r->state) {
        case HTTP_RESPONSE_HEAD: return step_head(r, in);
        case HTTP_RESPONSE_BODY: return step_body(r, in);
        case HTTP_RESPONSE_CHUNK_SIZE: return step_chunk_size(r, in);
        case HTTP_RESPONSE_CHUNK: return step_chunk(r, in);
        case HTTP_RESPONSE_CHUNK_END: return step_chunk_end(r, in);
        case HTTP_RESPONSE_TRAILER: return step_trailer(r, in);
        }
        return HTTP_RESPONSE_BAD;
}

enum http_response_result http_response_read(struct http_response *r, struct str *in) {
        enum http_response_result rc = HTTP_RESPONSE_MORE;

        while (rc == HTTP_RESPONSE_MORE && in->len > 0)
                rc = step(r, in);
        return rc;
}
