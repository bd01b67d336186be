/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/chain_line.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "config/data_type.h"
#include "config/model_config.h"
#include "config/model_io.h"

#include <string.h>

/* ---- the parameters -------------------------------------------------------------------------- */

bool chain_line_is_platform(const struct model_config *c) {
        return config_text_is(c->pb->platform, "chain");
}

void chain_line_done(struct chain_line *line) {
        for (size_t i = 0; i < line->n_stages; i++)
                free(line->stages[i].name);
        for (size_t i = 0; i < line->n_map; i++) {
                free(line->map[i].output);
                free(line->map[i].input);
        }
        free(line->stages);
        free(line->map);
        *line = (struct chain_line){ 0 };
}

static struct error *read_choice(const struct model_config *c, const char *key, const char *no,
                                 const char *yes, bool *ret) {
        const char *value = model_config_find_parameter(c, key);

        if (value == NULL)
                return NULL;
        *ret = strcmp(value, yes) == 0;
        if (*ret || strcmp(value, no) == 0)
                return NULL;
        return model_config_at_parameter(c, key,
                                         error_new(ERR_INVALID_ARG,
                                                   "parameter '%s' of model '%s' must be '%s' or "
                                                   "'%s', got '%s'",
                                                   key, c->pb->name, no, yes, value));
}

/* Parses "B" or "B:2". */
static struct error *add_stage(struct chain_line *line, const char *model, const char *key,
                               struct str text) {
        struct str name, version;
        int64_t    number = -1;

        version = str_split(text, ':', &name);
        name = str_trim(name);
        if (version.ptr != NULL && (!str_to_i64(str_trim(version), &number) || number <= 0))
                return error_new(ERR_INVALID_ARG,
                                 "parameter '%s' of model '%s': '%.*s' is no version, expected "
                                 "<model> or <model>:<version>",
                                 key, model, STR_ARG(version));
        if (name.len == 0)
                return error_new(ERR_INVALID_ARG, "parameter '%s' of model '%s' has an empty name",
                                 key, model);
        line->stages = mem_realloc(line->stages, (line->n_stages + 1) * sizeof(*line->stages));
        line->stages[line->n_stages++] = (struct chain_stage){
                .name = mem_strndup(name.ptr, name.len),
                .version = number,
        };
        return NULL;
}

/* Next item of a list that is separated by commas; ptr NULL at the end. */
static struct str next_item(struct str *rest) {
        struct str item;

        if (rest->ptr == NULL)
                return *rest;
        *rest = str_split(*rest, ',', &item);
        return str_trim(item);
}

static struct error *read_map(struct chain_line *line, const char *model, const char *value) {
        struct str rest = str_of(value), item;

        while ((item = next_item(&rest)).ptr != NULL) {
                struct str output, input = str_split(item, ':', &output);

                output = str_trim(output);
                input = str_trim(input);
                if (output.len == 0 || input.len == 0)
                        return error_new(ERR_INVALID_ARG,
                                         "parameter 'next_map' of model '%s': '%.*s' is not "
                                         "<output>:<input>",
                                         model, STR_ARG(item));
                for (size_t i = 0; i < line->n_map; i++)
                        if (str_is(input, line->map[i].input))
                                return error_new(ERR_INVALID_ARG,
                                                 "parameter 'next_map' of model '%s' names input "
                                                 "'%.*s' twice",
                                                 model, STR_ARG(input));
                line->map = mem_realloc(line->map, (line->n_map + 1) * sizeof(*line->map));
                line->map[line->n_map++] = (struct chain_pair){ mem_strndup(output.ptr, output.len),
                                                                mem_strndup(input.ptr, input.len) };
        }
        return NULL;
}

static struct error *read_next(struct chain_line *line, const char *model, const char *next) {
        if (strchr(next, ',') != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "parameter 'next' of model '%s' is '%s': chains are linear; use "
                                 "ensemble_scheduling",
                                 model, next);
        TRY(add_stage(line, model, "next", str_of(next)));
        if (strcmp(line->stages[0].name, model) == 0)
                return error_new(ERR_INVALID_ARG, "chain of model '%s' is circular: %s -> %s",
                                 model, model, model);
        line->kind = CHAIN_NEXT;
        return NULL;
}

static struct error *read_stages(struct chain_line *line, const char *model, const char *stages) {
        struct str rest = str_of(stages), item;

        while ((item = next_item(&rest)).ptr != NULL)
                TRY(add_stage(line, model, "stages", item));
        for (size_t i = 0; i < line->n_stages; i++)
                if (strcmp(line->stages[i].name, model) == 0)
                        return error_new(ERR_INVALID_ARG,
                                         "chain of model '%s' is circular: %s -> %s", model, model,
                                         model);
        line->kind = CHAIN_STAGES;
        return NULL;
}

static struct error *read_platform(const struct model_config *c, struct chain_line *line) {
        static const char *const others[] = { "next", "next_map" };
        const char              *stages = model_config_find_parameter(c, "stages");

        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                if (config_text_is_set(model_config_find_parameter(c, others[i])))
                        return model_config_at_parameter(
                                c, others[i],
                                error_new(ERR_INVALID_ARG,
                                          "parameter '%s' of model '%s' does not go with platform "
                                          "'chain', which has 'stages'",
                                          others[i], c->pb->name));
        if (c->pb->n_instance_group > 0)
                return error_in_field("instance_group",
                                      "instance group should not be specified for chain '%s'",
                                      c->pb->name);
        if (c->pb->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE__NOT_SET)
                return error_new(ERR_INVALID_ARG,
                                 "scheduling should not be specified for chain '%s': its stages "
                                 "have their own",
                                 c->pb->name);
        if (!config_text_is_set(stages))
                return error_in_field("platform", "must specify parameter 'stages' for chain '%s'",
                                      c->pb->name);
        return model_config_at_parameter(c, "stages", read_stages(line, c->pb->name, stages));
}

static struct error *read_parts(const struct model_config *c, struct chain_line *line) {
        const char *next = model_config_find_parameter(c, "next");
        const char *map = model_config_find_parameter(c, "next_map");
        bool        loads = true;

        if (chain_line_is_platform(c))
                TRY(read_platform(c, line));
        else if (config_text_is_set(next))
                TRY(model_config_at_parameter(c, "next", read_next(line, c->pb->name, next)));
        if (line->kind == CHAIN_NONE)
                return NULL;
        if (line->kind == CHAIN_NEXT && config_text_is_set(map))
                TRY(model_config_at_parameter(c, "next_map", read_map(line, c->pb->name, map)));
        if (line->kind == CHAIN_NEXT && model_config_is_ensemble(c))
                return model_config_at_parameter(
                        c, "next",
                        error_new(ERR_INVALID_ARG,
                                  "parameter 'next' is not supported for ensemble '%s': make a "
                                  "model of platform 'chain' with it as a stage",
                                  c->pb->name));
        TRY(read_choice(c, "chain_batching", "rebatch", "keep", &line->keeps_batches));
        TRY(read_choice(c, "chain_allow_end", "false", "true", &line->may_end));
        TRY(read_choice(c, "chain_autoload", "false", "true", &loads));
        line->is_strict = !loads;
        return NULL;
}

struct error *chain_line_read(const struct model_config *c, struct chain_line *ret) {
        struct chain_line line = { .kind = CHAIN_NONE };
        struct error     *err = read_parts(c, &line);

        if (err != NULL)
                chain_line_done(&line);
        else
                *ret = line;
        return err;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static void list_tensors(const struct model_io *tensors, uint32_t n, struct strbuf *out) {
        strbuf_putc(out, '[');
        for (uint32_t i = 0; i < n; i++)
                strbuf_printf(out, "%s'%s'", i > 0 ? "," : "", tensors[i].name);
        strbuf_putc(out, ']');
}

static struct error *no_match(const struct chain_end *from, const struct chain_end *to) {
        AUTO_STRBUF outputs = { 0 }, inputs = { 0 };

        list_tensors(from->io->outputs, from->io->n_outputs, &outputs);
        list_tensors(to->io->inputs, to->io->n_inputs, &inputs);
        TRY(strbuf_check(&outputs, "the text of an error"));
        TRY(strbuf_check(&inputs, "the text of an error"));
        return error_new(ERR_INVALID_ARG,
                         "outputs %s of model '%s' match inputs %s of its next model '%s' neither "
                         "by name nor by position; give 'next_map'",
                         strbuf_cstr(&outputs), from->model, strbuf_cstr(&inputs), to->model);
}

static bool dims_agree(const struct model_io *a, const struct model_io *b) {
        if (a->n_dims != b->n_dims)
                return false;
        for (uint32_t i = 0; i < a->n_dims; i++)
                if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i])
                        return false;
        return true;
}

/* For one model with batches and one without: the other model's first dimension is the batch, and
 * must be variable or 1. */
static bool is_first_dim(const struct model_io *with_batch, const struct model_io *plain) {
        if (plain->n_dims != with_batch->n_dims + 1)
                return false;
        for (uint32_t i = 0; i < with_batch->n_dims; i++)
                if (with_batch->dims[i] >= 0 && plain->dims[i + 1] >= 0 &&
                    with_batch->dims[i] != plain->dims[i + 1])
                        return false;
        return true;
}

static struct error *not_equal(const struct chain_end *from, const struct model_io *out,
                               const struct chain_end *to, const struct model_io *in,
                               const char *what, const char *left, const char *right) {
        return error_new(ERR_INVALID_ARG,
                         "output '%s' of model '%s' does not fit input '%s' of its next model "
                         "'%s': %s %s and %s",
                         out->name, from->model, in->name, to->model, what, left, right);
}

static void print_shape(const struct model_io *t, bool is_batched, struct strbuf *out) {
        strbuf_putc(out, '[');
        if (is_batched)
                strbuf_puts(out, t->n_dims > 0 ? "-1," : "-1");
        for (uint32_t i = 0; i < t->n_dims; i++)
                strbuf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)t->dims[i]);
        strbuf_putc(out, ']');
}

static struct error *check_link(const struct chain_end *from, const struct chain_end *to,
                                uint32_t input, struct chain_link *link) {
        const struct model_io *out = &from->io->outputs[link->output];
        const struct model_io *in = &to->io->inputs[input];
        bool                   gives = from->io->max_batch_size > 0;
        bool                   takes = to->io->max_batch_size > 0;
        AUTO_STRBUF            left = { 0 }, right = { 0 };

        if (out->type != in->type)
                return not_equal(from, out, to, in, "data types", data_type_name(out->type),
                                 data_type_name(in->type));
        link->bridge = CHAIN_SAME;
        if (gives == takes && dims_agree(out, in))
                return NULL;
        if (gives != takes && dims_agree(out, in)) {
                link->bridge = takes ? CHAIN_ADD_ONE : CHAIN_DROP_ONE;
                return NULL;
        }
        if (gives != takes && (gives ? is_first_dim(out, in) : is_first_dim(in, out)))
                return NULL;
        print_shape(out, gives, &left);
        print_shape(in, takes, &right);
        TRY(strbuf_check(&left, "the text of an error"));
        TRY(strbuf_check(&right, "the text of an error"));
        return not_equal(from, out, to, in, "shapes", strbuf_cstr(&left), strbuf_cstr(&right));
}

static struct error *match_by_map(const struct chain_end *from, const struct chain_end *to,
                                  const struct chain_pair *map, size_t n_map,
                                  struct chain_edge *edge) {
        for (size_t i = 0; i < n_map; i++) {
                const struct model_io *out =
                        model_io_find_output(from->io, str_of(map[i].output), 0);
                const struct model_io *in = model_io_find_input(to->io, str_of(map[i].input), 0);

                if (out == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "'next_map' names output '%s', which model '%s' does not "
                                         "have",
                                         map[i].output, from->model);
                if (in == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "'next_map' names input '%s', which next model '%s' does "
                                         "not have",
                                         map[i].input, to->model);
                edge->inputs[in - to->io->inputs] = (struct chain_link){
                        .is_linked = true,
                        .output = (uint32_t)(out - from->io->outputs),
                };
        }
        for (uint32_t i = 0; i < edge->n_inputs; i++)
                if (!edge->inputs[i].is_linked && !to->io->inputs[i].is_optional)
                        return error_new(ERR_INVALID_ARG,
                                         "'next_map' of model '%s' does not name input '%s' of its "
                                         "next model '%s'",
                                         from->model, to->io->inputs[i].name, to->model);
        return NULL;
}

static bool match_by_name(const struct chain_end *from, const struct chain_end *to,
                          struct chain_edge *edge) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < edge->n_inputs; i++) {
                const struct model_io *in = &to->io->inputs[i];
                const struct model_io *out =
                        model_io_find_output(from->io, str_range(in->name, in->name_len), i);

                if (out == NULL && !in->is_optional)
                        return false;
                edge->inputs[i].is_linked = out != NULL;
                if (out != NULL)
                        edge->inputs[i].output = (uint32_t)(out - from->io->outputs);
                n += out != NULL;
        }
        return n > 0;
}

static bool match_by_position(const struct chain_end *from, struct chain_edge *edge) {
        if (from->io->n_outputs != edge->n_inputs)
                return false;
        for (uint32_t i = 0; i < edge->n_inputs; i++)
                edge->inputs[i] = (struct chain_link){ .is_linked = true, .output = i };
        return true;
}

static struct error *match(const struct chain_end *from, const struct chain_end *to,
                           const struct chain_pair *map, size_t n_map, struct chain_edge *edge) {
        if (n_map > 0)
                TRY(match_by_map(from, to, map, n_map, edge));
        else if (!match_by_name(from, to, edge) && !match_by_position(from, edge))
                return no_match(from, to);
        for (uint32_t i = 0; i < edge->n_inputs; i++)
                if (edge->inputs[i].is_linked)
                        TRY(check_link(from, to, i, &edge->inputs[i]));
        return NULL;
}

struct error *chain_edge_new(const struct chain_end *from, const struct chain_end *to,
                             const struct chain_pair *map, size_t n_map, struct chain_edge **ret) {
        /* bounded: the inputs of one configuration, whose text is bounded in bytes */
        struct chain_edge *edge =
                mem_zalloc(sizeof(*edge) + to->io->n_inputs * sizeof(edge->inputs[0]));
        struct error *err;

        edge->n_inputs = to->io->n_inputs;
        err = match(from, to, map, n_map, edge);
        if (err != NULL)
                free(edge);
        else
                *ret = edge;
        return err;
}
