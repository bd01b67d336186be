/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/json.h"

#include "kit/scratch.h"
#include "kit/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (16u << 20)
#define MAX_DEPTH 64

struct kit_json {
        char                  *source; /* owned: the original text, NUL-terminated */
        char                  *chars;  /* owned: a copy in which strings are unescaped in place */
        struct kit_json_value *values; /* owned */
        size_t                 n_values;
};

/* Position of the reader; the first failure sets `reason`. */
struct reader {
        struct kit_json *doc;
        char            *at;
        char            *end;
        const char      *reason;
};

static bool read_value(struct reader *in, unsigned depth, struct kit_json_value **ret);

static bool fail_at(struct reader *in, const char *reason) {
        if (in->reason == NULL)
                in->reason = reason;
        return false;
}

static void skip_space(struct reader *in) {
        while (in->at < in->end && strchr(" \t\r\n", *in->at) != NULL && *in->at != '\0')
                in->at++;
}

static bool accept(struct reader *in, char c) {
        if (in->at >= in->end || *in->at != c)
                return false;
        in->at++;
        return true;
}

/* Each value except the outermost follows one of "[,:", which new_document() has counted. */
static struct kit_json_value *new_value(struct reader *in) {
        return &in->doc->values[in->doc->n_values++];
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* Reads four hexadecimal digits. */
static bool read_code_unit(struct reader *in, uint32_t *ret) {
        uint32_t unit = 0;

        if (in->end - in->at < 4)
                return fail_at(in, "unfinished \\u escape");
        for (int i = 0; i < 4; i++) {
                int digit = hex_digit(*in->at++);

                if (digit < 0)
                        return fail_at(in, "bad \\u escape");
                unit = unit << 4 | (uint32_t)digit;
        }
        *ret = unit;
        return true;
}

/* Writes a code point in UTF-8; it is always shorter than its escape. */
static char *put_utf8(char *out, uint32_t point) {
        if (point < 0x80) {
                *out++ = (char)point;
        } else if (point < 0x800) {
                *out++ = (char)(0xc0 | point >> 6);
                *out++ = (char)(0x80 | (point & 0x3f));
        } else if (point < 0x10000) {
                *out++ = (char)(0xe0 | point >> 12);
                *out++ = (char)(0x80 | (point >> 6 & 0x3f));
                *out++ = (char)(0x80 | (point & 0x3f));
        } else {
                *out++ = (char)(0xf0 | point >> 18);
                *out++ = (char)(0x80 | (point >> 12 & 0x3f));
                *out++ = (char)(0x80 | (point >> 6 & 0x3f));
                *out++ = (char)(0x80 | (point & 0x3f));
        }
        return out;
}

/* Reads what follows "\u". NUL is refused: the strings of a document are C strings. */
static bool read_code_point(struct reader *in, uint32_t *ret) {
        uint32_t high, low;

        if (!read_code_unit(in, &high))
                return false;
        if (high == 0 || (high >= 0xdc00 && high < 0xe000))
                return fail_at(in, "bad \\u escape");
        *ret = high;
        if (high < 0xd800 || high >= 0xdc00)
                return true;
        if (!accept(in, '\\') || !accept(in, 'u') || !read_code_unit(in, &low))
                return fail_at(in, "unpaired surrogate");
        if (low < 0xdc00 || low >= 0xe000)
                return fail_at(in, "unpaired surrogate");
        *ret = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        return true;
}

static bool read_escape(struct reader *in, char **out) {
        static const char names[] = "\"\\/bfnrt";
        static const char values[] = "\"\\/\b\f\n\r\t";
        const char       *name;
        uint32_t          point;
        char              c;

        if (in->at >= in->end)
                return fail_at(in, "unfinished string");
        c = *in->at++;
        if (c == 'u') {
                if (!read_code_point(in, &point))
                        return false;
                *out = put_utf8(*out, point);
                return true;
        }
        name = c != '\0' ? strchr(names, c) : NULL;
        if (name == NULL)
                return fail_at(in, "unknown escape");
        *(*out)++ = values[name - names];
        return true;
}

/* Reads what follows the opening quote; unescapes in place and puts the NUL at the new end. */
static bool read_string(struct reader *in, const char **ret) {
        char *out = in->at;

        *ret = out;
        while (in->at < in->end) {
                unsigned char c = (unsigned char)*in->at++;

                if (c == '"') {
                        *out = '\0';
                        return true;
                }
                if (c < 0x20)
                        return fail_at(in, "control character in a string");
                if (c != '\\')
                        *out++ = (char)c;
                else if (!read_escape(in, &out))
                        return false;
        }
        return fail_at(in, "unfinished string");
}

static bool read_digits(struct reader *in) {
        char *begin = in->at;

        while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
                in->at++;
        return in->at > begin;
}

static bool read_number(struct reader *in, struct kit_json_value *value) {
        value->type = KIT_JSON_NUMBER;
        value->text = in->at;
        (void)accept(in, '-');
        if (!read_digits(in))
                return fail_at(in, "a value was expected");
        if (accept(in, '.') && !read_digits(in))
                return fail_at(in, "digits were expected");
        if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
                in->at++;
                if (!accept(in, '+'))
                        (void)accept(in, '-');
                if (!read_digits(in))
                        return fail_at(in, "digits were expected");
        }
        return true;
}

static bool read_word(struct reader *in, struct kit_json_value *value) {
        static const struct {
                const char        *text;
                enum kit_json_type type;
        } words[] = {
                { "true", KIT_JSON_TRUE },
                { "false", KIT_JSON_FALSE },
                { "null", KIT_JSON_NULL },
        };

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                size_t len = strlen(words[i].text);

                if ((size_t)(in->end - in->at) >= len && memcmp(in->at, words[i].text, len) == 0) {
                        in->at += len;
                        value->type = words[i].type;
                        return true;
                }
        }
        return read_number(in, value);
}

static bool read_key(struct reader *in, const char **ret) {
        skip_space(in);
        if (!accept(in, '"'))
                return fail_at(in, "a key was expected");
        if (!read_string(in, ret))
                return false;
        skip_space(in);
        return accept(in, ':') || fail_at(in, "':' was expected");
}

/* Reads what follows the opening bracket of an array or an object, up to `close`. */
static bool read_children(struct reader *in, struct kit_json_value *value, unsigned depth) {
        char                          close = value->type == KIT_JSON_OBJECT ? '}' : ']';
        const struct kit_json_value **link = &value->first;

        skip_space(in);
        if (accept(in, close))
                return true;
        do {
                struct kit_json_value *child;
                const char            *key = NULL;

                if (value->type == KIT_JSON_OBJECT && !read_key(in, &key))
                        return false;
                if (!read_value(in, depth + 1, &child))
                        return false;
                child->key = key;
                *link = child;
                link = &child->next;
                value->n_children++;
                skip_space(in);
        } while (accept(in, ','));
        return accept(in, close) || fail_at(in, "',' or a closing bracket was expected");
}

/* MAX_DEPTH limits the recursion. */
static bool read_value(struct reader *in, unsigned depth, struct kit_json_value **ret) {
        struct kit_json_value *value;
        bool                   is_read;

        if (depth > MAX_DEPTH)
                return fail_at(in, "nested too deeply");
        skip_space(in);
        value = new_value(in);
        value->begin = (size_t)(in->at - in->doc->chars);
        if (accept(in, '"')) {
                value->type = KIT_JSON_STRING;
                is_read = read_string(in, &value->text);
        } else if (accept(in, '{')) {
                value->type = KIT_JSON_OBJECT;
                is_read = read_children(in, value, depth);
        } else if (accept(in, '[')) {
                value->type = KIT_JSON_ARRAY;
                is_read = read_children(in, value, depth);
        } else {
                is_read = read_word(in, value);
        }
        value->end = (size_t)(in->at - in->doc->chars);
        *ret = value;
        return is_read;
}

static struct kit_json *new_document(const char *text, size_t len) {
        struct kit_json *doc = kit_alloc_array(1, sizeof(*doc));
        size_t           n = 1;

        if (doc == NULL)
                return NULL;
        for (size_t i = 0; i < len; i++)
                n += text[i] == '[' || text[i] == ',' || text[i] == ':';
        doc->values = kit_alloc_array(n, sizeof(*doc->values));
        doc->source = kit_alloc_array(len + 1, 1);
        doc->chars = kit_alloc_array(len + 1, 1);
        if (doc->values == NULL || doc->source == NULL || doc->chars == NULL) {
                kit_json_free(doc);
                return NULL;
        }
        memcpy(doc->source, text, len);
        memcpy(doc->chars, text, len);
        return doc;
}

TRITONSERVER_Error *kit_json_read(const char *text, size_t len, const char *what,
                                  struct kit_json **ret) {
        struct reader          in = { 0 };
        struct kit_json_value *root;
        TRITONSERVER_Error    *err;

        if (len > MAX_BYTES)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "%s has %zu bytes, more than the %u allowed", what, len,
                                 MAX_BYTES);
        in.doc = new_document(text, len);
        if (in.doc == NULL)
                return kit_error_no_memory(len, what);
        in.at = in.doc->chars;
        in.end = in.at + len;
        if (read_value(&in, 0, &root)) {
                skip_space(&in);
                if (in.at == in.end) {
                        *ret = in.doc;
                        return NULL;
                }
                (void)fail_at(&in, "text after the end of the document");
        }
        err = kit_error(TRITONSERVER_ERROR_INVALID_ARG, "%s is not valid JSON at byte %zu: %s",
                        what, (size_t)(in.at - in.doc->chars), in.reason);
        kit_json_free(in.doc);
        return err;
}

void kit_json_free(struct kit_json *doc) {
        if (doc == NULL)
                return;
        free(doc->source);
        free(doc->chars);
        free(doc->values);
        free(doc);
}

const struct kit_json_value *kit_json_root(const struct kit_json *doc) {
        return &doc->values[0];
}

static const struct kit_json_value *find_child(const struct kit_json_value *from, const char *name,
                                               size_t len) {
        const struct kit_json_value *child = from->first;
        uint32_t                     number = 0;

        if (from->type == KIT_JSON_OBJECT) {
                while (child != NULL &&
                       (strncmp(child->key, name, len) != 0 || child->key[len] != '\0'))
                        child = child->next;
                return child;
        }
        for (size_t i = 0; i < len; i++) {
                if (name[i] < '0' || name[i] > '9' || number > from->n_children)
                        return NULL;
                number = number * 10 + (uint32_t)(name[i] - '0');
        }
        while (child != NULL && number-- > 0)
                child = child->next;
        return child;
}

const struct kit_json_value *kit_json_find(const struct kit_json_value *from, const char *path) {
        while (from != NULL && *path != '\0') {
                size_t len = strcspn(path, "/");

                from = find_child(from, path, len);
                path += len;
                path += *path == '/';
        }
        return from;
}

const char *kit_json_string(const struct kit_json_value *value, const char *otherwise) {
        return value != NULL && value->type == KIT_JSON_STRING ? value->text : otherwise;
}

int64_t kit_json_int(const struct kit_json_value *value, int64_t otherwise) {
        char     *end;
        long long number;

        if (value == NULL || (value->type != KIT_JSON_NUMBER && value->type != KIT_JSON_STRING))
                return otherwise;
        errno = 0;
        number = strtoll(value->text, &end, 10);
        if (errno != 0 || end == value->text)
                return otherwise;
        if (value->type == KIT_JSON_STRING && *end != '\0')
                return otherwise;
        if (*end == '.' || *end == 'e' || *end == 'E')
                return otherwise;
        return number;
}

bool kit_json_bool(const struct kit_json_value *value, bool otherwise) {
        if (value == NULL || (value->type != KIT_JSON_TRUE && value->type != KIT_JSON_FALSE))
                return otherwise;
        return value->type == KIT_JSON_TRUE;
}

double kit_json_double(const struct kit_json_value *value, double otherwise) {
        return value != NULL && value->type == KIT_JSON_NUMBER ? strtod(value->text, NULL)
                                                               : otherwise;
}

uint32_t kit_json_count(const struct kit_json_value *value) {
        return value != NULL ? value->n_children : 0;
}

static const char *find_edit(const struct kit_json_edit *edits, size_t n_edits, const char *key) {
        for (size_t i = 0; i < n_edits; i++)
                if (strcmp(edits[i].key, key) == 0)
                        return edits[i].json;
        return NULL;
}

char *kit_json_edited(const struct kit_json *doc, const struct kit_json_edit *edits,
                      size_t n_edits) {
        const struct kit_json_value *root = kit_json_root(doc);
        struct kit_text              text = { 0 };
        const char                  *comma = "";

        kit_text_add(&text, "{", 1);
        for (const struct kit_json_value *at = root->first; at != NULL; at = at->next) {
                const char *json = find_edit(edits, n_edits, at->key);

                kit_text_print(&text, "%s", comma);
                kit_text_add_json(&text, at->key);
                kit_text_add(&text, ":", 1);
                if (json != NULL)
                        kit_text_add(&text, json, strlen(json));
                else
                        kit_text_add(&text, doc->source + at->begin, at->end - at->begin);
                comma = ",";
        }
        for (size_t i = 0; i < n_edits; i++) {
                if (kit_json_find(root, edits[i].key) != NULL)
                        continue;
                kit_text_print(&text, "%s", comma);
                kit_text_add_json(&text, edits[i].key);
                kit_text_print(&text, ":%s", edits[i].json);
                comma = ",";
        }
        kit_text_add(&text, "}", 1);
        return kit_text_take(&text);
}
