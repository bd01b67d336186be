/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_encoding.h"

#include "base/compiler.h"

#define Q_ONE 1000 /* weights have three decimals: RFC 9110, 12.4.2 */

static const char *const encoding_names[] = {
        [HTTP_ENCODING_IDENTITY] = "identity",
        [HTTP_ENCODING_GZIP] = "gzip",
        [HTTP_ENCODING_DEFLATE] = "deflate",
};

const char *http_encoding_name(enum http_encoding encoding) {
        return encoding_names[encoding];
}

/* "0.5" is 500, "1" is 1000; 0 when it is no weight. */
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

/* Of the parameters behind a name: the "q", else 1. */
static unsigned find_weight(struct str parameters) {
        struct str one;

        while (parameters.ptr) {
                parameters = str_split(parameters, ';', &one);
                one = str_trim(one);
                if (one.len >= 2 && (one.ptr[0] | 0x20) == 'q' && one.ptr[1] == '=')
                        return read_weight(str_range(one.ptr + 2, one.len - 2));
        }
        return Q_ONE;
}

void http_encoding_consider(struct http_encoding_choice *choice, struct str accept) {
        struct str one, name;

        while (accept.ptr) {
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
