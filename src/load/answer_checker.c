/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/answer_checker.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "load/grpc_answer.h"

#include <stdlib.h>

struct comparison {
        const struct answer_checker *checker;
        size_t                       first;
        bool                        *is_compared; /* owned: of each output */
        bool                         is_equal;
};

static const struct input_entry *entry_of(const struct comparison *c, uint64_t row) {
        const struct input_set *s = c->checker->inputs;

        return &s->entries[c->checker->model->is_sequence ? c->first
                                                          : (c->first + row) % s->n_entries];
}

/* The rows of the batch, one after the other. */
static bool compare_rows(const struct comparison *c, size_t output, struct str bytes) {
        for (uint64_t row = 0; row < c->checker->batch; row++) {
                const struct input_entry *e = entry_of(c, row);
                struct str                wanted;

                if (e->outputs == NULL || e->outputs[output].bytes.ptr == NULL)
                        return true;
                wanted = e->outputs[output].bytes;
                if (bytes.len < wanted.len || !str_equal(str_range(bytes.ptr, wanted.len), wanted))
                        return false;
                bytes = str_skip(bytes, wanted.len);
        }
        return bytes.len == 0;
}

static void compare_output(struct comparison *c, struct str name, struct str bytes) {
        const struct load_tensor *t = load_model_output(c->checker->model, name);
        size_t                    output;

        if (t == NULL)
                return;
        output = (size_t)(t - c->checker->model->outputs);
        if (c->is_compared[output] || !compare_rows(c, output, bytes))
                c->is_equal = false;
        c->is_compared[output] = true;
}

/* Values are after the JSON, in the order of the outputs. */
static void compare_http(struct comparison *c, const struct answer *a) {
        struct str json = str_range(a->text.ptr, MIN(a->header_length, a->text.len));
        struct str left = str_skip(a->text, json.len), name;

        JSON_FOR_EACH(json_find(json, "outputs"), output) {
                uint64_t n = json_find_count(output, "parameters.binary_data_size");

                name = json_find(output, "name");
                if (n > left.len || name.len < 2) {
                        c->is_equal = false;
                        return;
                }
                compare_output(c, str_range(name.ptr + 1, name.len - 2),
                               str_range(left.ptr, (size_t)n));
                left = str_skip(left, (size_t)n);
        }
}

static bool on_output(void *owner, const struct grpc_output *o) {
        compare_output(owner, o->name, o->bytes);
        return true;
}

/* True when no output that is expected is missing. */
static bool has_all(const struct comparison *c) {
        const struct input_entry *e = entry_of(c, 0);

        for (size_t i = 0; e->outputs != NULL && i < c->checker->model->n_outputs; i++)
                if (e->outputs[i].bytes.ptr != NULL && !c->is_compared[i])
                        return false;
        return true;
}

bool answer_checker_compare(const struct answer_checker *checker, size_t first,
                            const struct answer *a) {
        struct comparison c = { .checker = checker,
                                .first = first,
                                .is_compared = mem_zalloc(checker->model->n_outputs + 1),
                                .is_equal = true };
        bool              is_right;

        if (checker->protocol == TARGET_HTTP)
                compare_http(&c, a);
        else if (!grpc_outputs_read(a->text, on_output, &c))
                c.is_equal = false;
        is_right = c.is_equal && has_all(&c);
        free(c.is_compared);
        return is_right;
}
