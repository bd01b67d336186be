/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/input_json.h"

#include "codec/base64.h"
#include "codec/half_float.h"
#include "codec/json_find.h"
#include "codec/json_number.h"
#include "load/input_set_private.h"

#include <math.h>
#include <string.h>

#define MAX_VALUES ((size_t)1 << 30)

struct source {
        struct input_set        *set;
        const struct load_model *model;
        const struct load_shape *shapes;
        struct arena             scratch; /* decoded strings */
};

/* ---- values ------------------------------------------------------------------------------------ */

static struct error *wrong_value(const struct load_tensor *t, const char *wanted) {
        return error_new(ERR_INVALID_ARG, "a value of %s must be %s", t->datatype, wanted);
}

/* Multiplies by a power of ten; false when the result is no integer of 64 bits. */
static bool scale(uint64_t *n, int64_t exponent) {
        for (; *n != 0 && exponent > 0; exponent--)
                if (__builtin_mul_overflow(*n, 10U, n))
                        return false;
        for (; *n != 0 && exponent < 0; exponent++) {
                if (*n % 10 != 0)
                        return false;
                *n /= 10;
        }
        return true;
}

/* Zeros at the end are left to the exponent, of which "1.000" may have any number. */
static bool read_digits(const struct decimal *d, uint64_t *ret, int64_t *ret_exponent) {
        uint64_t n = 0;
        int64_t  n_zeros = 0;
        bool     is_fraction = false;

        *ret_exponent = d->shift;
        for (const char *at = d->digits; at < d->digits_end; at++) {
                if (*at == '.') {
                        is_fraction = true;
                        continue;
                }
                *ret_exponent -= is_fraction;
                n_zeros++;
                if (*at == '0')
                        continue;
                if (!scale(&n, n_zeros) || __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
                        return false;
                n_zeros = 0;
        }
        *ret_exponent += n_zeros;
        *ret = n;
        return true;
}

/* "16.0" and "1e18" are integers, too. Their digits are read, since a double would round them. */
static void find_integer(const struct json_number_scan *scan, struct json_number *n) {
        int64_t exponent;

        if (n->is_integer || scan->kind != JSON_NUMBER_REAL)
                return;
        n->is_integer = read_digits(&scan->decimal, &n->magnitude, &exponent) &&
                        scale(&n->magnitude, exponent);
        n->is_negative = scan->decimal.is_negative && n->magnitude != 0;
}

/* The largest magnitude of a type. */
static uint64_t magnitude_of(const struct load_tensor *t, bool is_negative) {
        uint64_t all = UINT64_MAX >> (64 - 8 * t->element_bytes);

        if (t->datatype[0] == 'U')
                return is_negative ? 0 : all;
        return is_negative ? all / 2 + 1 : all / 2;
}

static struct error *put_integer(const struct load_tensor *t, const struct json_number *n,
                                 struct strbuf *out) {
        uint64_t bits;

        if (!n->is_integer || n->magnitude > magnitude_of(t, n->is_negative))
                return wrong_value(t, "an integer that it holds");
        bits = n->is_negative ? -n->magnitude : n->magnitude;
        strbuf_put(out, &bits, t->element_bytes); /* the low bytes come first */
        return NULL;
}

/* As FP16 or BF16; false when it becomes an infinity. */
static bool read_half(const struct load_tensor *t, double real, uint16_t *ret) {
        bool     is_brain = t->datatype[0] == 'B';
        uint16_t all = is_brain ? 0x7f80 : 0x7c00;

        *ret = is_brain ? half_float_to_bf16((float)real) : half_float_to_fp16((float)real);
        return (*ret & all) != all || !isfinite(real);
}

static struct error *put_number(const struct load_tensor *t, const struct json_number *n,
                                struct strbuf *out) {
        float    real = (float)n->real;
        uint16_t half;

        if (strcmp(t->datatype, "FP32") == 0) {
                if (isfinite(n->real) && !isfinite(real))
                        return wrong_value(t, "a number that it holds");
                strbuf_put(out, &real, sizeof(real));
        } else if (strcmp(t->datatype, "FP64") == 0) {
                strbuf_put(out, &n->real, sizeof(n->real));
        } else if (strcmp(t->datatype, "FP16") == 0 || strcmp(t->datatype, "BF16") == 0) {
                if (!read_half(t, n->real, &half))
                        return wrong_value(t, "a number that it holds");
                strbuf_put(out, &half, sizeof(half));
        } else {
                return put_integer(t, n, out);
        }
        return NULL;
}

static struct json_number read_number(struct json_reader *r) {
        struct json_number_scan scan;
        struct json_number      n;

        json_number_scan(r->at, r->end, &scan); /* json_peek() has skipped blanks */
        n = json_read_number(r);
        find_integer(&scan, &n);
        return n;
}

static struct error *put_scalar(struct source *s, const struct load_tensor *t,
                                struct json_reader *r, struct strbuf *out) {
        enum json_type     type = json_peek(r);
        struct json_number n = { .is_integer = true };

        if (t->element_bytes == 0) {
                struct str text;
                uint32_t   len;

                if (type != JSON_STRING)
                        return wrong_value(t, "a string");
                text = json_read_string(r, &s->scratch);
                len = (uint32_t)text.len;
                strbuf_put(out, &len, sizeof(len));
                strbuf_put(out, text.ptr, text.len);
                return NULL;
        }
        if (type == JSON_BOOL)
                n.real = n.magnitude = json_read_bool(r);
        else if (type == JSON_NUMBER)
                n = read_number(r);
        else
                return wrong_value(t, "a number");
        if (strcmp(t->datatype, "BOOL") == 0)
                n = (struct json_number){ .is_integer = true,
                                          .magnitude = n.magnitude != 0 || n.real != 0 };
        return put_number(t, &n, out);
}

/* At most JSON_MAX_DEPTH deep. */
static struct error *put_array(struct source *s, const struct load_tensor *t, struct json_reader *r,
                               struct strbuf *out) {
        if (json_peek(r) != JSON_ARRAY)
                return put_scalar(s, t, r, out);
        for (json_enter_array(r); json_next_element(r);)
                TRY(put_array(s, t, r, out));
        return NULL;
}

static struct error *put_content(struct source *s, const struct load_tensor *t, struct str json,
                                 struct strbuf *out) {
        struct str         b64 = json_find(json, "b64");
        struct json_reader r;

        if (json.len > 0 && json.ptr[0] == '{') {
                if (b64.len < 2 || b64.ptr[0] != '"')
                        return error_new_text(
                                ERR_INVALID_ARG,
                                "expected an array, {\"b64\": ...} or {\"content\": ...}");
                if (!base64_decode(str_range(b64.ptr + 1, b64.len - 2), out))
                        return error_new_text(ERR_INVALID_ARG, "b64 is no base64");
                return NULL;
        }
        json_reader_init(&r, json);
        return put_array(s, t, &r, out);
}

static struct error *read_shape(struct str json, struct load_shape *ret) {
        ret->n = 0;
        JSON_FOR_EACH(json, dim)
                if (ret->n == LOAD_MAX_DIMS || !str_to_i64(dim, &ret->dims[ret->n++]))
                        return error_new_text(ERR_INVALID_ARG, "the shape is no array of numbers");
        return NULL;
}

/* When one dimension is variable and no shape is given, the number of values determines it. */
static void infer_shape(const struct load_tensor *t, struct input_values *v) {
        uint64_t n, fixed = 1;
        size_t   open = v->shape.n;

        for (size_t i = 0; i < v->shape.n; i++) {
                if (v->shape.dims[i] >= 0)
                        fixed *= (uint64_t)v->shape.dims[i];
                else if (open == v->shape.n)
                        open = i;
                else
                        return;
        }
        if (open < v->shape.n && fixed > 0 && input_count_elements(t, v->bytes, &n))
                v->shape.dims[open] = (int64_t)(n / fixed);
}

static struct error *read_values(struct source *s, const struct load_tensor *t,
                                 const struct load_shape *shape, struct str json,
                                 struct input_values *v) {
        AUTO_STRBUF bytes = { .max = MAX_VALUES };
        struct str  content = json_find(json, "content");

        v->shape = *shape;
        if (content.ptr != NULL)
                TRY(put_content(s, t, content, &bytes));
        else
                TRY(put_content(s, t, json, &bytes));
        if (content.ptr != NULL && json_find(json, "shape").ptr != NULL)
                TRY(read_shape(json_find(json, "shape"), &v->shape));
        v->bytes = str_range(arena_try_str(&s->set->arena, strbuf_str(&bytes)), bytes.len);
        if (v->bytes.ptr == NULL || bytes.overflowed)
                return input_set_no_room();
        infer_shape(t, v);
        return NULL;
}

/* ---- entries ----------------------------------------------------------------------------------- */

static struct error *read_inputs(struct source *s, struct str json, struct input_entry *e) {
        struct json_reader r = json_reader_of(json);
        struct str         key;

        for (json_enter_object(&r); json_next_key(&r, &s->scratch, &key);) {
                const struct load_tensor *t = load_model_input(s->model, key);
                struct str                value = json_skip(&r);
                size_t                    i;

                if (t == NULL)
                        return error_new(ERR_INVALID_ARG, "%.*s: model '%s' has no such input",
                                         STR_ARG(key), s->model->name);
                i = (size_t)(t - s->model->inputs);
                TRY(error_wrap(read_values(s, t, &s->shapes[i], value, &e->inputs[i]), "%s",
                               t->name));
                TRY(error_wrap(input_check_count(t, &e->inputs[i]), "%s", t->name));
        }
        for (size_t i = 0; i < s->model->n_inputs; i++)
                if (e->inputs[i].bytes.ptr == NULL && !s->model->inputs[i].is_optional)
                        return error_new(ERR_INVALID_ARG, "%s: the entry has no such member",
                                         s->model->inputs[i].name);
        return NULL;
}

static struct error *read_entry(struct source *s, struct str json) {
        struct input_entry *e;

        TRY(input_set_add(s->set, s->model, &e));
        return read_inputs(s, json, e);
}

static struct error *read_stream(struct source *s, struct str array) {
        size_t first = s->set->n_entries, k = 0;

        JSON_FOR_EACH(array, item) {
                if (item.ptr[0] != '{')
                        return error_new(ERR_INVALID_ARG, "[%zu] is no object", k);
                TRY(error_prefix(read_entry(s, item), "[%zu].", k));
                k++;
        }
        if (k > 0)
                input_set_add_stream(s->set, (struct input_stream){ first, k });
        return NULL;
}

static struct error *read_data(struct source *s, struct str array) {
        size_t k = 0;

        JSON_FOR_EACH(array, item) {
                if (item.ptr[0] == '[')
                        TRY(error_prefix(read_stream(s, item), "data[%zu]", k));
                else if (item.ptr[0] == '{')
                        TRY(error_prefix(read_entry(s, item), "data[%zu].", k));
                else
                        return error_new(ERR_INVALID_ARG,
                                         "data[%zu] is neither an object nor an array", k);
                k++;
        }
        return NULL;
}

/* ---- expected outputs -------------------------------------------------------------------------- */

static struct error *read_expected(struct source *s, struct str json, struct input_entry *e) {
        struct json_reader r;
        struct str         key;

        TRY(input_set_expect(s->set, s->model, e));
        json_reader_init(&r, json);
        for (json_enter_object(&r); json_next_key(&r, &s->scratch, &key);) {
                const struct load_tensor *t = load_model_output(s->model, key);
                struct str                value = json_skip(&r);

                if (t == NULL)
                        return error_new(ERR_INVALID_ARG, "%.*s: model '%s' has no such output",
                                         STR_ARG(key), s->model->name);
                TRY(error_wrap(read_values(s, t, &t->shape, value,
                                           &e->outputs[t - s->model->outputs]),
                               "%s", t->name));
        }
        return NULL;
}

/* Entries of sequences are counted one by one, as those of the data. */
static struct error *read_validation(struct source *s, struct str array, size_t *at) {
        JSON_FOR_EACH(array, item) {
                if (item.ptr[0] == '[') {
                        TRY(read_validation(s, item, at)); /* one level, as in the data */
                        continue;
                }
                if (*at >= s->set->n_entries || item.ptr[0] != '{')
                        return error_new(ERR_INVALID_ARG,
                                         "validation_data[%zu]: there is no such entry of the data",
                                         *at);
                TRY(error_prefix(read_expected(s, item, &s->set->entries[*at]),
                                 "validation_data[%zu].", *at));
                ++*at;
        }
        return NULL;
}

struct error *input_json_read(struct input_set *set, const struct load_model *m,
                              const struct load_shape *shapes, struct str text) {
        struct source s = { .set = set, .model = m, .shapes = shapes };
        struct error *err = json_check(text, JSON_OBJECT);
        size_t        at = set->n_entries;

        if (err != NULL)
                return err;
        if (json_find(text, "data").len == 0 || json_find(text, "data").ptr[0] != '[')
                return error_new_text(ERR_INVALID_ARG, "it has no array 'data'");
        arena_init(&s.scratch, NULL, 0, INPUT_SET_MAX_BYTES);
        err = read_data(&s, json_find(text, "data"));
        if (err == NULL)
                err = read_validation(&s, json_find(text, "validation_data"), &at);
        arena_done(&s.scratch);
        return err;
}
