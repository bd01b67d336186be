/* SPDX-License-Identifier: BSD-3-Clause */
/* "outputs" of an infer request: which tensors are wanted, and in which form. */
#include "http/http_infer_reading.h"

struct output_scan {
        struct infer_requested_output *out;
        bool                           has_name, has_parameters, has_binary, has_classification;
        struct http_infer_place        place;

        /* First faults, each NULL or to be freed. */
        struct error *name_error, *parameters_error;
};

/* The reference says "set" where it says "parse" of all others. */
static struct error *read_classification(struct http_infer_reading     *d,
                                         struct infer_requested_output *out) {
        uint64_t      n = 0;
        struct error *err = http_infer_read_u64(d, "classification", &n);

        if (err) {
                error_free(err);
                return error_new(ERR_INVALID_ARG,
                                 "Unable to set 'classification': attempt to access JSON "
                                 "non-unsigned-integer as unsigned-integer");
        }
        out->n_classes = (uint32_t)MIN(n, UINT32_MAX);
        return NULL;
}

/* Of equal keys the first counts, as in the reference. */
static struct error *read_output_parameter(struct http_infer_reading *d, struct output_scan *s,
                                           struct str key) {
        if (STR_IS(key, "binary_data") && !s->has_binary) {
                s->has_binary = true;
                return http_infer_read_bool(d, "binary_data", &s->out->is_binary);
        }
        if (STR_IS(key, "classification") && !s->has_classification) {
                s->has_classification = true;
                return read_classification(d, s->out);
        }
        return http_infer_read_place(d, key, &s->place, &s->out->shared_memory);
}

static struct error *read_output_parameters(struct http_infer_reading *d, struct output_scan *s) {
        struct error *first = NULL;
        struct str    key;

        TRY(http_infer_enter(d, "parameters", JSON_OBJECT));
        while (json_next_key(&d->json, d->source->arena, &key))
                http_infer_keep_first(&first, read_output_parameter(d, s, key));
        return first;
}

static void read_member(struct http_infer_reading *d, struct output_scan *s, struct str key) {
        if (STR_IS(key, "name") && !s->has_name) {
                s->has_name = true;
                s->name_error = http_infer_read_text(d, "name", &s->out->name);
        } else if (STR_IS(key, "parameters") && !s->has_parameters) {
                s->has_parameters = true;
                s->parameters_error = read_output_parameters(d, s);
        } else {
                json_skip(&d->json);
        }
}

static struct error *finish_output(struct output_scan *s) {
        const char *region = s->out->shared_memory.region;

        if (s->name_error)
                return STEAL(s->name_error);
        if (!s->has_name)
                return http_infer_missing("name");
        if (s->parameters_error)
                return STEAL(s->parameters_error);
        if (region && s->out->n_classes > 0)
                return error_new(ERR_INVALID_ARG, "Output can't set both 'shared_memory_region' "
                                                  "and 'classification'");
        if (region && s->out->is_binary)
                return error_new(ERR_INVALID_ARG, "Output can't set both 'shared_memory_region' "
                                                  "and 'binary_data'");
        return NULL;
}

static struct error *read_output(struct http_infer_reading *d) {
        struct output_scan s = { 0 };
        struct error      *err = infer_request_add_output(d->request, d->source->arena, &s.out);
        struct str         key;

        if (err || !json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                return err ? err : http_infer_missing("name");
        }
        while (json_next_key(&d->json, d->source->arena, &key))
                read_member(d, &s, key);
        if (!json_failed(&d->json))
                err = finish_output(&s);

        if (UNLIKELY(err != NULL || json_failed(&d->json))) {
                error_free(s.name_error);
                error_free(s.parameters_error);
        }
        return err;
}

struct error *http_infer_read_outputs(struct http_infer_reading *d) {
        return http_infer_read_list(d, "outputs", read_output);
}
