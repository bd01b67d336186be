/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/classify.h"

#include "base/mem.h"
#include "core_api/datatype.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* An element, reduced to its place in the order. */
struct scored {
        uint64_t rank; /* larger values have larger ranks */
        uint32_t index;
};

static bool is_before(const struct scored *a, const struct scored *b) {
        return a->rank != b->rank ? a->rank > b->rank : a->index < b->index;
}

/* Maps signed integers to unsigned integers of the same order. */
static uint64_t rank_int(int64_t value) {
        return (uint64_t)value ^ (UINT64_C(1) << 63);
}

/* IEEE 754 doubles have the order of their bits, once the bits of negative values are inverted. */
static uint64_t rank_real(double value) {
        uint64_t bits;

        if (isnan(value))
                return 0;
        value += 0.0; /* -0.0 and 0.0 are equal */
        memcpy(&bits, &value, sizeof(bits));
        return bits >> 63 ? ~bits : bits | (UINT64_C(1) << 63);
}

union element {
        uint8_t  u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        int8_t   i8;
        int16_t  i16;
        int32_t  i32;
        int64_t  i64;
        float    f32;
        double   f64;
};

/* memcpy(), because tensors need not be aligned. */
static union element load_element(TRITONSERVER_DataType datatype, const char *at) {
        union element e = { .u64 = 0 };

        memcpy(&e, at, datatype_bytes(datatype));
        return e;
}

static uint64_t rank_element(TRITONSERVER_DataType datatype, const char *at) {
        union element e = load_element(datatype, at);

        switch (datatype) {
        case TRITONSERVER_TYPE_UINT8: return e.u8;
        case TRITONSERVER_TYPE_UINT16: return e.u16;
        case TRITONSERVER_TYPE_UINT32: return e.u32;
        case TRITONSERVER_TYPE_UINT64: return e.u64;
        case TRITONSERVER_TYPE_INT8: return rank_int(e.i8);
        case TRITONSERVER_TYPE_INT16: return rank_int(e.i16);
        case TRITONSERVER_TYPE_INT32: return rank_int(e.i32);
        case TRITONSERVER_TYPE_INT64: return rank_int(e.i64);
        case TRITONSERVER_TYPE_FP32: return rank_real((double)e.f32);
        case TRITONSERVER_TYPE_FP64: return rank_real(e.f64);
        default: return 0;
        }
}

static void print_element(struct strbuf *out, TRITONSERVER_DataType datatype, const char *at) {
        union element e = load_element(datatype, at);

        switch (datatype) {
        case TRITONSERVER_TYPE_UINT8: strbuf_printf(out, "%u", e.u8); break;
        case TRITONSERVER_TYPE_UINT16: strbuf_printf(out, "%u", e.u16); break;
        case TRITONSERVER_TYPE_UINT32: strbuf_printf(out, "%" PRIu32, e.u32); break;
        case TRITONSERVER_TYPE_UINT64: strbuf_printf(out, "%" PRIu64, e.u64); break;
        case TRITONSERVER_TYPE_INT8: strbuf_printf(out, "%d", e.i8); break;
        case TRITONSERVER_TYPE_INT16: strbuf_printf(out, "%d", e.i16); break;
        case TRITONSERVER_TYPE_INT32: strbuf_printf(out, "%" PRId32, e.i32); break;
        case TRITONSERVER_TYPE_INT64: strbuf_printf(out, "%" PRId64, e.i64); break;
        case TRITONSERVER_TYPE_FP32: strbuf_printf(out, "%f", (double)e.f32); break;
        case TRITONSERVER_TYPE_FP64: strbuf_printf(out, "%f", e.f64); break;
        default: break;
        }
}

/* Restores the heap below `at`. The root of the heap is the worst of the best elements so far. */
static void sift_down(struct scored *heap, size_t n, size_t at) {
        for (;;) {
                size_t        child = 2 * at + 1;
                struct scored moved = heap[at];

                if (child >= n)
                        return;
                if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
                        child++;
                if (!is_before(&moved, &heap[child]))
                        return;
                heap[at] = heap[child];
                heap[child] = moved;
                at = child;
        }
}

/* Selects the k best of n elements, best first. */
static void select_best(const struct classify_source *s, const char *row, size_t n,
                        struct scored *best, size_t k) {
        size_t element_bytes = datatype_bytes(s->datatype);

        for (size_t i = 0; i < n; i++) {
                struct scored next = { rank_element(s->datatype, row + i * element_bytes),
                                       (uint32_t)i };

                if (i < k) {
                        best[i] = next;
                        if (i + 1 == k)
                                for (size_t j = k / 2; j-- > 0;)
                                        sift_down(best, k, j);
                } else if (is_before(&next, &best[0])) {
                        best[0] = next;
                        sift_down(best, k, 0);
                }
        }
        for (size_t left = k; left > 1; left--) {
                struct scored last = best[0];

                best[0] = best[left - 1];
                best[left - 1] = last;
                sift_down(best, left - 1, 0);
        }
}

static void put_class(const struct classify_source *s, const char *row, uint32_t index,
                      struct strbuf *out) {
        const char *label = s->label != NULL ? s->label(s->labels, index) : NULL;
        size_t      start = out->len;
        uint32_t    len = 0;

        strbuf_put(out, &len, sizeof(len));
        print_element(out, s->datatype, row + index * datatype_bytes(s->datatype));
        strbuf_printf(out, ":%" PRIu32, index);
        if (label != NULL && *label) {
                strbuf_putc(out, ':');
                strbuf_puts(out, label);
        }
        if (out->overflowed)
                return;
        len = (uint32_t)(out->len - start - sizeof(len));
        memcpy(out->ptr + start, &len, sizeof(len));
}

static struct error *check_type(TRITONSERVER_DataType datatype) {
        enum json_element unused;

        /* The types that JSON represents as numbers or booleans, without BOOL. */
        if (datatype != TRITONSERVER_TYPE_BOOL && datatype_json_element(datatype, &unused))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "class result not available for output due to unsupported type '%s'",
                         datatype_name(datatype));
}

struct error *classify(const struct classify_source *s, struct strbuf *out, size_t *ret_n_classes) {
        size_t         element_bytes, n_elements, n_per_row, k;
        struct scored *best;

        TRY(check_type(s->datatype));
        element_bytes = datatype_bytes(s->datatype);
        n_elements = s->bytes.len / element_bytes;
        if (n_elements > CLASSIFY_MAX_ELEMENTS)
                return error_new(ERR_INVALID_ARG, "classification output tensor too large");

        n_per_row = s->n_rows > 0 ? n_elements / s->n_rows : 0;
        k = MIN(s->n_classes, n_per_row);
        best = try_alloc(k * sizeof(*best));
        if (best == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the classification");
        for (size_t row = 0; k > 0 && row < s->n_rows; row++) {
                const char *at = s->bytes.ptr + row * n_per_row * element_bytes;

                select_best(s, at, n_per_row, best, k);
                for (size_t i = 0; i < k; i++)
                        put_class(s, at, best[i].index, out);
        }
        free(best);
        if (out->overflowed)
                return error_new(ERR_UNAVAILABLE, "out of memory for the classification");
        *ret_n_classes = k;
        return NULL;
}
