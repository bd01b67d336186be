/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of gRPC: ModelInferRequest with raw_input_contents. */
#include "load/request_private.h"
#include "load/wire.h"

/* Fields of proto/grpc_service.proto. */
enum {
        REQUEST_MODEL = 1,
        REQUEST_VERSION = 2,
        REQUEST_PARAMETERS = 4,
        REQUEST_INPUTS = 5,
        REQUEST_OUTPUTS = 6,
        REQUEST_RAW = 7
};
enum { INPUT_NAME = 1, INPUT_DATATYPE = 2, INPUT_SHAPE = 3, INPUT_PARAMETERS = 4 };
enum { OUTPUT_NAME = 1, OUTPUT_PARAMETERS = 2 };

static void put_part(struct strbuf *out, unsigned field, const struct shm_part *part) {
        wire_put_text_parameter(out, field, "shared_memory_region", str_of(part->region));
        wire_put_int_parameter(out, field, "shared_memory_offset", (int64_t)part->offset);
        wire_put_int_parameter(out, field, "shared_memory_byte_size", (int64_t)part->bytes);
}

static void put_input(const struct request_input *in, struct strbuf *message) {
        AUTO_STRBUF tensor = { 0 }, shape = { 0 };

        for (size_t i = 0; i < in->shape.n; i++)
                wire_put_varint(&shape, (uint64_t)in->shape.dims[i]);
        wire_put_bytes_field(&tensor, INPUT_NAME, str_of(in->tensor->name));
        wire_put_bytes_field(&tensor, INPUT_DATATYPE, str_of(in->tensor->datatype));
        wire_put_bytes_field(&tensor, INPUT_SHAPE, strbuf_str(&shape));
        if (in->part != NULL)
                put_part(&tensor, INPUT_PARAMETERS, in->part);
        wire_put_bytes_field(message, REQUEST_INPUTS, strbuf_str(&tensor));
}

static void put_outputs(const struct request_content *p, struct strbuf *message) {
        for (size_t i = 0; p->options->shm != NULL && i < p->model->n_outputs; i++) {
                AUTO_STRBUF     tensor = { 0 };
                struct shm_part part = load_regions_output(p->options->shm, i);

                wire_put_bytes_field(&tensor, OUTPUT_NAME, str_of(p->model->outputs[i].name));
                put_part(&tensor, OUTPUT_PARAMETERS, &part);
                wire_put_bytes_field(message, REQUEST_OUTPUTS, strbuf_str(&tensor));
        }
}

static void put_parameter(const struct request_parameter *p, struct strbuf *message) {
        char name[256];

        memcpy(name, p->name.ptr, p->name.len); /* request_set.c checks the length */
        name[p->name.len] = '\0';
        switch (p->kind) {
        case PARAMETER_TEXT:
                wire_put_text_parameter(message, REQUEST_PARAMETERS, name, p->text);
                break;
        case PARAMETER_INT:
                wire_put_int_parameter(message, REQUEST_PARAMETERS, name, p->number);
                break;
        case PARAMETER_BOOL:
                wire_put_bool_parameter(message, REQUEST_PARAMETERS, name, p->number != 0);
                break;
        case PARAMETER_REAL:
                wire_put_real_parameter(message, REQUEST_PARAMETERS, name, p->real);
                break;
        }
}

struct error *request_grpc_make(const struct request_content *p, struct strbuf *message) {
        wire_put_bytes_field(message, REQUEST_MODEL, str_of(p->model->name));
        if (p->model->version != NULL)
                wire_put_bytes_field(message, REQUEST_VERSION, str_of(p->model->version));
        if (p->options->is_stream)
                wire_put_bool_parameter(message, REQUEST_PARAMETERS,
                                        "triton_enable_empty_final_response", true);
        for (size_t i = 0; i < p->n_parameters; i++)
                put_parameter(&p->parameters[i], message);
        for (size_t i = 0; i < p->n_inputs; i++)
                put_input(&p->inputs[i], message);
        put_outputs(p, message);
        for (size_t i = 0; i < p->n_inputs; i++)
                if (p->inputs[i].part == NULL)
                        wire_put_bytes_field(message, REQUEST_RAW, p->inputs[i].bytes);
        return strbuf_check(message, "a request");
}
