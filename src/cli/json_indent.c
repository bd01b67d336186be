/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/json_indent.h"

#include "codec/json_reader.h"

#define BLANKS 2

static void new_line(struct strbuf *out, unsigned depth) {
        strbuf_putc(out, '\n');
        for (unsigned i = 0; i < depth * BLANKS; i++)
                strbuf_putc(out, ' ');
}

/* True when the array has no object or array in it. The reader is a copy. */
static bool has_only_scalars(struct json_reader r) {
        json_enter_array(&r);
        while (json_next_element(&r)) {
                enum json_type type = json_peek(&r);

                if (type == JSON_ARRAY || type == JSON_OBJECT)
                        return false;
                json_skip(&r);
        }
        return true;
}

static void put_value(struct json_reader *r, struct strbuf *out, unsigned depth);

static void put_array(struct json_reader *r, struct strbuf *out, unsigned depth) {
        bool on_one_line = has_only_scalars(*r);
        bool is_first = true;

        strbuf_putc(out, '[');
        for (json_enter_array(r); json_next_element(r); is_first = false) {
                if (!is_first)
                        strbuf_puts(out, on_one_line ? ", " : ",");
                if (!on_one_line)
                        new_line(out, depth + 1);
                put_value(r, out, depth + 1);
        }
        if (!on_one_line)
                new_line(out, depth);
        strbuf_putc(out, ']');
}

static void put_object(struct json_reader *r, struct strbuf *out, unsigned depth) {
        bool is_first = true;

        strbuf_putc(out, '{');
        for (json_enter_object(r);; is_first = false) {
                struct json_reader before = *r;
                struct str         key;
                const char        *start, *end;

                if (!json_next_key(r, NULL, &key))
                        break;
                if (!is_first)
                        strbuf_putc(out, ',');
                new_line(out, depth + 1);
                /* The key as it is written, with its escapes: from its first quote to the last
                 * quote before the value. */
                start = memchr(before.at, '"', (size_t)(r->at - before.at));
                for (end = r->at; end > start && end[-1] != '"';)
                        end--;
                strbuf_put(out, start, (size_t)(end - start));
                strbuf_puts(out, ": ");
                put_value(r, out, depth + 1);
        }
        if (!is_first)
                new_line(out, depth);
        strbuf_putc(out, '}');
}

/* Recursion is limited by the reader: JSON_MAX_DEPTH. */
static void put_value(struct json_reader *r, struct strbuf *out, unsigned depth) {
        struct str scalar;

        switch (json_peek(r)) {
        case JSON_OBJECT: put_object(r, out, depth); break;
        case JSON_ARRAY: put_array(r, out, depth); break;
        default: scalar = str_trim(json_skip(r)); strbuf_put(out, scalar.ptr, scalar.len);
        }
}

void json_indent(struct str json, struct strbuf *out) {
        struct json_reader r = json_reader_of(json);

        json_skip(&r);
        json_read_end(&r);
        if (json_failed(&r)) {
                strbuf_put(out, json.ptr, json.len);
                return;
        }
        json_reader_init(&r, json);
        put_value(&r, out, 0);
}
