/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_fields.h"

#include "base/word.h"

static const struct str names[N_H2_FIELDS] = {
        [H2_FIELD_METHOD] = STR_LIT(":method"),
        [H2_FIELD_SCHEME] = STR_LIT(":scheme"),
        [H2_FIELD_PATH] = STR_LIT(":path"),
        [H2_FIELD_AUTHORITY] = STR_LIT(":authority"),
        [H2_FIELD_HOST] = STR_LIT("host"),
        [H2_FIELD_TE] = STR_LIT("te"),
        [H2_FIELD_USER_AGENT] = STR_LIT("user-agent"),
        [H2_FIELD_CONTENT_TYPE] = STR_LIT("content-type"),
        [H2_FIELD_CONTENT_LENGTH] = STR_LIT("content-length"),
        [H2_FIELD_GRPC_TIMEOUT] = STR_LIT("grpc-timeout"),
        [H2_FIELD_GRPC_ENCODING] = STR_LIT("grpc-encoding"),
        [H2_FIELD_GRPC_ACCEPT_ENCODING] = STR_LIT("grpc-accept-encoding"),
};

struct str h2_field_name(enum h2_field field) {
        return names[field];
}

void h2_fields_init(struct h2_fields *f, bool is_trailer) {
        *f = (struct h2_fields){ .is_trailer = is_trailer, .content_length = -1 };
}

/* ---- names ---- */

/* MALFORMED for connection-specific fields, which HTTP/2 forbids. */
static enum h2_field find_field(struct str name) {
        switch (name.len) {
        case 2: return STR_IS(name, "te") ? H2_FIELD_TE : H2_FIELD_OTHER;
        case 4: return STR_IS(name, "host") ? H2_FIELD_HOST : H2_FIELD_OTHER;
        case 5: return STR_IS(name, ":path") ? H2_FIELD_PATH : H2_FIELD_OTHER;
        case 7:
                if (STR_IS(name, ":method"))
                        return H2_FIELD_METHOD;
                if (STR_IS(name, ":scheme"))
                        return H2_FIELD_SCHEME;
                return STR_IS(name, "upgrade") ? H2_FIELD_MALFORMED : H2_FIELD_OTHER;
        case 10:
                if (STR_IS(name, ":authority"))
                        return H2_FIELD_AUTHORITY;
                if (STR_IS(name, "user-agent"))
                        return H2_FIELD_USER_AGENT;
                return STR_IS(name, "connection") || STR_IS(name, "keep-alive") ? H2_FIELD_MALFORMED
                                                                                : H2_FIELD_OTHER;
        case 12:
                if (STR_IS(name, "content-type"))
                        return H2_FIELD_CONTENT_TYPE;
                return STR_IS(name, "grpc-timeout") ? H2_FIELD_GRPC_TIMEOUT : H2_FIELD_OTHER;
        case 13: return STR_IS(name, "grpc-encoding") ? H2_FIELD_GRPC_ENCODING : H2_FIELD_OTHER;
        case 14: return STR_IS(name, "content-length") ? H2_FIELD_CONTENT_LENGTH : H2_FIELD_OTHER;
        case 16: return STR_IS(name, "proxy-connection") ? H2_FIELD_MALFORMED : H2_FIELD_OTHER;
        case 17: return STR_IS(name, "transfer-encoding") ? H2_FIELD_MALFORMED : H2_FIELD_OTHER;
        case 20:
                return STR_IS(name, "grpc-accept-encoding") ? H2_FIELD_GRPC_ACCEPT_ENCODING
                                                            : H2_FIELD_OTHER;
        default: return H2_FIELD_OTHER;
        }
}

/* True for a character of a token (RFC 9110, 5.6.2) except capitals. */
static bool is_name_char(char c) {
        static const char marks[] = "!#$%&'*+-.^_`|~";

        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               (c != '\0' && memchr(marks, c, sizeof(marks) - 1) != NULL);
}

/* True when `s` contains CR, LF or NUL, which would split a field in HTTP/1 (RFC 9113, 8.2.1). */
static bool has_break(struct str s) {
        for (size_t i = 0; i < s.len; i++)
                if (s.ptr[i] == '\r' || s.ptr[i] == '\n' || s.ptr[i] == '\0')
                        return true;
        return false;
}

static enum h2_field check_unknown(struct str name) {
        bool is_token = name.len > 0;

        if (name.len > 0 && name.ptr[0] == ':')
                return H2_FIELD_MALFORMED;
        for (size_t i = 0; i < name.len; i++) {
                if (name.ptr[i] >= 'A' && name.ptr[i] <= 'Z')
                        return H2_FIELD_MALFORMED;
                is_token = is_token && is_name_char(name.ptr[i]);
        }
        if (is_token)
                return H2_FIELD_OTHER;
        return has_break(name) ? H2_FIELD_MALFORMED : H2_FIELD_LEFT_OUT;
}

/* ---- values ---- */

/* False when no byte is a control character. True when each must be checked. */
static bool may_have_control(uint64_t bytes) {
        uint64_t below = (bytes - WORD_EACH(0x20)) & ~bytes;
        uint64_t del = bytes ^ WORD_EACH(0x7f);

        return ((below | ((del - WORD_EACH(1)) & ~del)) & WORD_HIGH_BITS) != 0;
}

static bool is_control(char c) {
        return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static bool has_control(struct str value) {
        for (size_t i = 0; i < value.len; i++)
                if (is_control(value.ptr[i]))
                        return true;
        return false;
}

static bool may_have_control_in(struct str value) {
        size_t i = 0;

        if (value.len < WORD_BYTES)
                return may_have_control(word_load_few(value.ptr, value.len));
        for (; value.len - i > WORD_BYTES; i += WORD_BYTES)
                if (may_have_control(word_load(value.ptr + i)))
                        return true;
        return may_have_control(word_load(value.ptr + value.len - WORD_BYTES));
}

/* True for a value without control characters. Blanks at the ends belong to the value: RFC 9113 forbids them,
 * but gRPC clients send them as a part of metadata. */
static bool is_value(struct str value) {
        return value.len == 0 || !may_have_control_in(value) || !has_control(value);
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static bool has_blank_end(struct str value) {
        return value.len > 0 && (is_blank(value.ptr[0]) || is_blank(value.ptr[value.len - 1]));
}

static bool read_length(struct h2_fields *f, struct str value) {
        return value.len > 0 && value.ptr[0] != '-' && value.ptr[0] != '+' &&
               str_to_i64(value, &f->content_length);
}

/* ---- fields ---- */

/* True when the field is the first of its name and not empty. */
static bool check_single(const struct h2_fields *f, enum h2_field field, struct str value) {
        return (f->seen & 1u << field) == 0 && value.len > 0;
}

static bool check_known(struct h2_fields *f, enum h2_field field, struct str value) {
        switch (field) {
        case H2_FIELD_METHOD:
        case H2_FIELD_SCHEME:
        case H2_FIELD_PATH:
        case H2_FIELD_AUTHORITY:
                return !f->is_trailer && !f->has_ordinary && check_single(f, field, value) &&
                       !has_blank_end(value);
        case H2_FIELD_HOST: return check_single(f, field, value);
        case H2_FIELD_CONTENT_LENGTH: return check_single(f, field, value) && read_length(f, value);
        case H2_FIELD_TE:
                return STR_IS(value, "trailers") || str_equal_nocase(value, STR_LIT("trailers"));
        default: return true;
        }
}

static bool is_pseudo(enum h2_field field) {
        return field >= H2_FIELD_METHOD && field <= H2_FIELD_AUTHORITY;
}

enum h2_field h2_fields_read(struct h2_fields *f, struct str name, struct str value) {
        enum h2_field field = find_field(name);

        if (field == H2_FIELD_OTHER)
                field = check_unknown(name);
        if (!is_value(value) && field != H2_FIELD_MALFORMED)
                field = is_pseudo(field) || has_break(value) ? H2_FIELD_MALFORMED
                                                             : H2_FIELD_LEFT_OUT;
        if (field == H2_FIELD_MALFORMED || !check_known(f, field, value))
                return H2_FIELD_MALFORMED;
        if (!is_pseudo(field))
                f->has_ordinary = true;
        f->seen |= 1u << field;
        return field;
}

/* Also refuses CONNECT, which has neither scheme nor path and is for proxies. */
bool h2_fields_are_complete(const struct h2_fields *f) {
        const uint32_t needed = 1u << H2_FIELD_METHOD | 1u << H2_FIELD_SCHEME | 1u << H2_FIELD_PATH;

        return (f->seen & needed) == needed &&
               (f->seen & (1u << H2_FIELD_AUTHORITY | 1u << H2_FIELD_HOST)) != 0;
}
