/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence/sequence_control.h"

#include "base/mem.h"
#include "config/model_config.h"
#include "infer/model.h"
#include "sequence/sequence_table.h"

#include <string.h>

typedef Inference__ModelSequenceBatching__Control config_control;

#define KIND_START INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_START
#define KIND_READY INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_READY
#define KIND_CORRID INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_CORRID

struct control {
        const char    *name; /* borrowed: the configuration */
        int            kind;
        enum data_type type;
        uint32_t       n_bytes;
        char           value[2][sizeof(uint32_t)]; /* for false and for true; unused for CORRID */
};

struct sequence_controls {
        struct control       *controls; /* owned */
        uint32_t              n;
        const struct control *corrid; /* borrowed: one of them; NULL: none */
        uint32_t              n_dims;
};

struct control_room {
        /* link in the request that points to them; NULL: not attached */
        struct request_input **end;
        uint64_t               number; /* the value of CORRID as a number */
        struct request_input   inputs[];
};

static const int64_t ones[] = { 1, 1 };

/* ---- from the configuration ------------------------------------------------------------------ */

static void read_values(const config_control *pb, struct control *c) {
        c->n_bytes = sizeof(uint32_t);
        if (pb->n_int32_false_true == 2) {
                c->type = DATA_TYPE_INT32;
                memcpy(c->value, pb->int32_false_true, sizeof(c->value));
        } else if (pb->n_fp32_false_true == 2) {
                c->type = DATA_TYPE_FP32;
                memcpy(c->value, pb->fp32_false_true, sizeof(c->value));
        } else if (pb->n_bool_false_true == 2) {
                c->type = DATA_TYPE_BOOL;
                c->n_bytes = 1;
                c->value[0][0] = pb->bool_false_true[0] != 0;
                c->value[1][0] = pb->bool_false_true[1] != 0;
        }
}

static void add_control(struct sequence_controls *c, const char *name, const config_control *pb) {
        struct control *control = &c->controls[c->n++];

        *control = (struct control){ .name = name, .kind = pb->kind };
        if (pb->kind == KIND_CORRID) {
                control->type = (enum data_type)pb->data_type;
                control->n_bytes = (uint32_t)data_type_size(control->type);
                c->corrid = control;
        } else {
                read_values(pb, control);
        }
}

static struct error *check_name(const char *model, const struct model_config *config,
                                const char *name) {
        for (size_t i = 0; i < config->pb->n_input; i++)
                if (strcmp(config->pb->input[i]->name, name) == 0)
                        return error_new(ERR_INVALID_ARG,
                                         "model '%s': '%s' is an input and a control input of "
                                         "sequence_batching",
                                         model, name);
        return NULL;
}

struct error *sequence_controls_new(const char *model, const struct model_config *config,
                                    struct sequence_controls **ret) {
        const Inference__ModelSequenceBatching *pb = config->pb->sequence_batching;
        struct sequence_controls               *c;
        size_t                                  n = 0;

        for (size_t i = 0; i < pb->n_control_input; i++) {
                TRY(check_name(model, config, pb->control_input[i]->name));
                n += pb->control_input[i]->n_control;
        }
        c = mem_zalloc(sizeof(*c));
        c->controls = mem_zalloc((n + 1) * sizeof(struct control));
        c->n_dims = config->pb->max_batch_size > 0 ? 2 : 1;
        for (size_t i = 0; i < pb->n_control_input; i++)
                for (size_t k = 0; k < pb->control_input[i]->n_control; k++)
                        add_control(c, pb->control_input[i]->name,
                                    pb->control_input[i]->control[k]);
        *ret = c;
        return NULL;
}

void sequence_controls_free(struct sequence_controls *c) {
        if (c == NULL)
                return;
        free(c->controls);
        free(c);
}

struct error *sequence_controls_check(const struct sequence_controls *c,
                                      const struct request           *req) {
        bool is_text = req->correlation.text != NULL;

        if (c->corrid == NULL || is_text == (c->corrid->type == DATA_TYPE_BYTES))
                return NULL;
        return request_error(req, ERR_INVALID_ARG,
                             "sequence batching control '%s' data-type is '%s', but model '%s' "
                             "expects '%s'",
                             c->corrid->name, is_text ? "BYTES" : "UINT64", req->model->name,
                             data_type_name(c->corrid->type));
}

/* ---- attaching to a request ------------------------------------------------------------------ */

size_t sequence_controls_room(const struct sequence_controls *c) {
        return sizeof(struct control_room) + c->n * sizeof(struct request_input);
}

void sequence_controls_init_room(const struct sequence_controls *c, void *room) {
        struct control_room *r = room;

        memset(r, 0, sequence_controls_room(c));
        for (uint32_t i = 0; i < c->n; i++) {
                struct request_input *in = &r->inputs[i];

                in->name = c->controls[i].name;
                in->type = c->controls[i].type;
                in->shape = in->given_shape = ones;
                in->n_dims = in->n_given_dims = c->n_dims;
                in->n_chunks = in->n_plain = 1;
                in->first_chunk = in->last_chunk = &in->only_chunk;
                in->next = i + 1 < c->n ? &r->inputs[i + 1] : NULL;
        }
}

static void set_value(struct request_input *in, const void *bytes, uint64_t n) {
        in->byte_size = n;
        in->only_chunk.base = bytes;
        in->only_chunk.attributes = (struct buffer_attributes){ .byte_size = n };
}

static void set_corrid(const struct control *control, struct control_room *room,
                       struct request_input *in, const struct sequence *seq) {
        static const uint32_t no_text = 0;

        if (control->type == DATA_TYPE_BYTES) {
                bool has_text = seq != NULL && seq->link.id.text != NULL;

                set_value(in, has_text ? seq->text : (const void *)&no_text,
                          sizeof(no_text) + (has_text ? seq->n_text : 0));
                return;
        }
        room->number = seq != NULL ? seq->link.id.number : 0;
        /* little-endian: the low bytes come first */
        set_value(in, &room->number, control->n_bytes);
}

static bool is_true(const struct control *control, const struct request *req,
                    const struct sequence *seq) {
        switch (control->kind) {
        case KIND_READY: return seq != NULL;
        case KIND_START: return seq != NULL && (req->flags & REQUEST_SEQUENCE_START) != 0;
        default: return seq != NULL && (req->flags & REQUEST_SEQUENCE_END) != 0;
        }
}

void sequence_controls_attach(const struct sequence_controls *c, void *room, struct request *req,
                              const struct sequence *seq) {
        struct control_room   *r = room;
        struct request_input **end = &req->first_input;

        if (c->n == 0)
                return;
        for (uint32_t i = 0; i < c->n; i++) {
                const struct control *control = &c->controls[i];

                if (control->kind == KIND_CORRID)
                        set_corrid(control, r, &r->inputs[i], seq);
                else
                        set_value(&r->inputs[i], control->value[is_true(control, req, seq)],
                                  control->n_bytes);
        }
        while (*end != NULL)
                end = &(*end)->next;
        *end = r->inputs;
        r->end = end;
        req->n_inputs += c->n;
}

void sequence_controls_detach(const struct sequence_controls *c, void *room, struct request *req) {
        struct control_room *r = room;

        if (r->end == NULL)
                return;
        *r->end = NULL;
        r->end = NULL;
        req->n_inputs -= c->n;
}
