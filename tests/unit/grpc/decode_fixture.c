/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/decode_fixture.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct decode_fixture f;

int decode_setup(void **state) {
        (void)state;
        memset(&f, 0, sizeof(f));
        arena_init(&f.arena, NULL, 0, 0);
        strbuf_init(&f.message, 0);
        f.wire = (struct infer_wire){ .model_name = "" };
        infer_request_init(&f.wire.request);
        return 0;
}

int decode_teardown(void **state) {
        (void)state;
        infer_wire_done(&f.wire);
        strbuf_done(&f.message);
        arena_done(&f.arena);
        free(f.bytes);
        return 0;
}

struct error *decode(void) {
        struct infer_source source = { .arena = &f.arena };

        infer_wire_done(&f.wire);
        free(f.bytes);
        f.bytes = mem_alloc(f.message.len);
        memcpy(f.bytes, strbuf_cstr(&f.message), f.message.len);
        source.message = str_range(f.bytes, f.message.len);
        return infer_decode(&source, &f.wire);
}

void assert_decodes(void) {
        struct error *err = decode();

        if (err != NULL)
                fail_msg("refused: %s", err->message);
        if (f.wire.parameter_fault != NULL)
                fail_msg("fault: %s", f.wire.parameter_fault->message);
        if (f.wire.tensor_fault != NULL)
                fail_msg("fault: %s", f.wire.tensor_fault->message);
}

void assert_fault(const struct error *fault, const char *text) {
        assert_non_null(fault);
        assert_string_equal(fault->message, text);
        assert_int_equal(fault->code, ERR_INVALID_ARG);
}

void assert_malformed(void) {
        struct error *err = decode();

        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, "failed to parse the ModelInferRequest message");
        error_free(err);
}

void put_message(const ProtobufCMessage *m) {
        size_t   len = protobuf_c_message_get_packed_size(m);
        uint8_t *bytes = mem_alloc(len);

        protobuf_c_message_pack(m, bytes);
        strbuf_clear(&f.message);
        strbuf_put(&f.message, bytes, len);
        free(bytes);
}

void one_input_init(struct one_input *m, const char *datatype) {
        memset(m, 0, sizeof(*m));
        inference__model_infer_request__init(&m->request);
        inference__model_infer_request__infer_input_tensor__init(&m->input);
        inference__infer_tensor_contents__init(&m->contents);
        m->shape[0] = 3;
        m->shape[1] = -1;
        m->inputs[0] = &m->input;
        m->input.name = (char *)"INPUT0";
        m->input.datatype = (char *)datatype;
        m->input.shape = m->shape;
        m->input.n_shape = 2;
        m->request.model_name = (char *)"m";
        m->request.inputs = m->inputs;
        m->request.n_inputs = 1;
        m->request.raw_input_contents = m->raws;
}
