/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests as bytes: batches, lengths, and the gap for sequences. */
#include "suite.h"

#include "base/compiler.h"
#include "codec/json_find.h"
#include "load/http_response.h"
#include "load/request_set.h"

#include <stdlib.h>
#include <string.h>

static const char metadata[] =
        "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[-1,1]}],"
        "\"outputs\":[{\"name\":\"O\",\"datatype\":\"INT32\",\"shape\":[-1,1]}]}";

struct made {
        struct load_model  model;
        struct input_set   inputs;
        struct request_set set;
        struct target      target;
};

static void make(struct made *k, const char *config, enum target_protocol protocol, uint64_t batch,
                 bool is_json) {
        struct input_options   inputs = { .n_distinct = 6, .seed = 1 };
        struct request_options o = { .batch = batch, .input_is_json = is_json };

        k->target = (struct target){ .protocol = protocol, .authority = "localhost:8000" };
        assert_null(load_model_read("m", NULL, str_of(metadata), str_of(config), &k->model));
        assert_null(input_set_make(&k->model, &inputs, &k->inputs));
        assert_null(request_set_make(&k->target, &k->model, &k->inputs, &o, &k->set));
}

static void done(struct made *k) {
        request_set_done(&k->set);
        input_set_done(&k->inputs);
        load_model_done(&k->model);
}

/* The request as it is sent. */
static void put_whole(const struct made *k, size_t i, const struct request_step *step,
                      struct strbuf *out) {
        struct call c = { 0 };

        request_set_patch(&k->set, step, &c);
        strbuf_put(out, k->set.messages[i].before.ptr, k->set.messages[i].before.len);
        strbuf_put(out, c.patch, c.n_patch);
        strbuf_put(out, k->set.messages[i].after.ptr, k->set.messages[i].after.len);
}

static uint64_t header(const struct strbuf *b, const char *name) {
        const char *at = strstr(strbuf_cstr(b), name);

        return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static struct str body_of(const struct strbuf *b) {
        const char *at = strstr(strbuf_cstr(b), "\r\n\r\n") + 4;

        return str_range(at, b->len - (size_t)(at - b->ptr));
}

/* Six entries and batches of four: three different requests, then the first one again. */
static void test_batches(void **state) {
        struct made k;

        (void)state;
        make(&k, "{\"max_batch_size\":8}", TARGET_HTTP, 4, false);
        assert_int_equal(k.set.n, 3);
        assert_int_equal(k.set.entries[1], 4);
        for (size_t i = 0; i < 3; i++) {
                AUTO_STRBUF whole = { 0 };
                struct str  body;

                strbuf_init(&whole, 0);
                put_whole(&k, i, &(struct request_step){ 0 }, &whole);
                body = body_of(&whole);
                assert_int_equal(header(&whole, "\r\nContent-Length: "), body.len);
                assert_int_equal(header(&whole, "Inference-Header-Content-Length: "),
                                 body.len - 16);
                for (size_t row = 0; row < 4; row++)
                        assert_memory_equal(body.ptr + body.len - 16 + 4 * row,
                                            k.inputs.entries[(4 * i + row) % 6].inputs[0].bytes.ptr,
                                            4);
        }
        done(&k);
}

/* The length is the same whatever the id and the flags are, and the JSON is valid. */
static void test_sequence(void **state) {
        static const struct request_step steps[] = { { 1, true, false },
                                                     { INT64_MAX, false, true },
                                                     { 42, true, true } };
        struct made                      k;

        (void)state;
        make(&k, "{\"max_batch_size\":8,\"sequence_batching\":{}}", TARGET_HTTP, 1, true);
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                AUTO_STRBUF whole = { 0 };
                struct str  body;

                strbuf_init(&whole, 0);
                put_whole(&k, 0, &steps[i], &whole);
                body = body_of(&whole);
                assert_int_equal(header(&whole, "\r\nContent-Length: "), body.len);
                assert_null(json_check(body, JSON_OBJECT));
                assert_int_equal(json_find_count(body, "parameters.sequence_id"), steps[i].id);
                assert_int_equal(json_find_flag(body, "parameters.sequence_start"),
                                 steps[i].is_start);
                assert_int_equal(json_find_flag(body, "parameters.sequence_end"), steps[i].is_end);
        }
        done(&k);
}

static void test_wrong_parameters(void **state) {
        static const char *const wrong[] = { "a",         "a:1",       ":1:int",      "a:x:int",
                                             "a:-1:uint", "a:1:float", "a:maybe:bool" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                char                  *parameters[] = { (char *)(uintptr_t)wrong[i] };
                struct input_options   inputs = { .n_distinct = 1 };
                struct request_options o = { .batch = 1,
                                             .parameters = parameters,
                                             .n_parameters = 1 };
                struct made            k = { .target = { .authority = "x:1" } };
                AUTO_ERROR             err = NULL;

                assert_null(load_model_read("m", NULL, str_of(metadata),
                                            STR_LIT("{\"max_batch_size\":8}"), &k.model));
                assert_null(input_set_make(&k.model, &inputs, &k.inputs));
                err = request_set_make(&k.target, &k.model, &k.inputs, &o, &k.set);
                assert_non_null(err);
                assert_non_null(strstr(err->message, "expected name:value:type"));
                input_set_done(&k.inputs);
                load_model_done(&k.model);
        }
}

SUITE(request_set) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_batches),
                cmocka_unit_test(test_sequence),
                cmocka_unit_test(test_wrong_parameters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
