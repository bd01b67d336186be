/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/traceparent.h"

#include "base/clock.h"

#include <sys/random.h>

static int digit_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads 2 n digits at `text`. */
static bool read_bytes(const char *text, uint8_t *ret, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                ret[i] = (uint8_t)(high << 4 | low);
        }
        return true;
}

static bool is_zero(const uint8_t *bytes, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (bytes[i] != 0)
                        return false;
        return true;
}

bool traceparent_read(struct str s, struct traceparent *ret) {
        struct traceparent p;
        uint8_t            version;

        if (s.len < TRACEPARENT_CHARS || !read_bytes(s.ptr, &version, 1) || version == 0xff)
                return false;
        if (s.len > TRACEPARENT_CHARS && (version == 0 || s.ptr[TRACEPARENT_CHARS] != '-'))
                return false;
        if (s.ptr[2] != '-' || s.ptr[35] != '-' || s.ptr[52] != '-')
                return false;
        if (!read_bytes(s.ptr + 3, p.trace_id, sizeof(p.trace_id)) ||
            !read_bytes(s.ptr + 36, p.span_id, sizeof(p.span_id)) ||
            !read_bytes(s.ptr + 53, &p.flags, 1))
                return false;
        if (is_zero(p.trace_id, sizeof(p.trace_id)) || is_zero(p.span_id, sizeof(p.span_id)))
                return false;
        *ret = p;
        return true;
}

void traceparent_print_id(const uint8_t *bytes, size_t n, char *out) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                out[2 * i] = digits[bytes[i] >> 4];
                out[2 * i + 1] = digits[bytes[i] & 15];
        }
        out[2 * n] = '\0';
}

void traceparent_print(const struct traceparent *p, char out[TRACEPARENT_CHARS + 1]) {
        out[0] = out[1] = '0';
        out[2] = '-';
        traceparent_print_id(p->trace_id, sizeof(p->trace_id), out + 3);
        out[35] = '-';
        traceparent_print_id(p->span_id, sizeof(p->span_id), out + 36);
        out[52] = '-';
        traceparent_print_id(&p->flags, 1, out + 53);
}

void traceparent_new_id(uint8_t *bytes, size_t n) {
        /* getrandom() is never short for so few bytes. Before the kernel has randomness, the clock
         * is the source. */
        if (getrandom(bytes, n, GRND_NONBLOCK) != (ssize_t)n) {
                uint64_t now_ns = clock_now_ns();

                for (size_t i = 0; i < n; i++)
                        bytes[i] = (uint8_t)(now_ns >> (8 * (i % 8)));
        }
        if (is_zero(bytes, n))
                bytes[n - 1] = 1;
}
