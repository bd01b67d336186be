/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "config/config_check.h"
#include "config_rows.h"

#define ENSEMBLE(rest, steps)                                                                      \
        "name: 'e' platform: 'ensemble' " rest " ensemble_scheduling { " steps " }"
#define INPUT(name) "input { name: '" name "' data_type: TYPE_FP32 dims: 1 } "
#define OUTPUT(name) "output { name: '" name "' data_type: TYPE_FP32 dims: 1 } "
#define MAP(field, model, ensemble) field " { key: '" model "' value: '" ensemble "' } "
#define STEP(from, to)                                                                             \
        "step { model_name: 'a' model_version: -1 " MAP("input_map", "I", from)                    \
                MAP("output_map", "O", to) "} "
#define STEP2(from1, from2, to)                                                                    \
        "step { model_name: 'a' model_version: -1 " MAP("input_map", "I", from1)                   \
                MAP("input_map", "J", from2) MAP("output_map", "O", to) "} "
#define IO INPUT("X") OUTPUT("Y")

static const struct config_row field_rows[] = {
        { ENSEMBLE(IO, STEP("X", "Y")), NULL },
        { "name: 'e' backend: 'b' " IO "ensemble_scheduling { " STEP("X", "Y") "}",
          "ensemble scheduling cannot be set for model 'e' whose platform is not ensemble" },
        { ENSEMBLE(IO "instance_group { }", STEP("X", "Y")),
          "instance group should not be specified for ensemble 'e'" },
        { ENSEMBLE(IO "optimization { }", STEP("X", "Y")),
          "optimization should not be specified for ensemble 'e'" },
        { ENSEMBLE(IO "model_warmup { }", STEP("X", "Y")),
          "model_warmup can not be specified for ensemble 'e'" },
        { ENSEMBLE(IO, ""), "must specify 'step' for ensemble 'e'" },
        { ENSEMBLE(IO, STEP("X", "Y") "step { }"),
          "must specify 'model_name' in step 1 of ensemble 'e'" },
        { ENSEMBLE(IO, "step { model_name: 'a' }"),
          "must specify 'input_map' in step 0 of ensemble 'e'" },
        { ENSEMBLE(IO, "step { model_name: 'a' " MAP("input_map", "I", "X") "}"),
          "must specify 'output_map' in step 0 of ensemble 'e'" },
};

static const struct config_row flow_rows[] = {
        /* a chain, in any order of steps; a diamond; a tensor read twice by one step */
        { ENSEMBLE(IO, STEP("X", "T") STEP("T", "Y")), NULL },
        { ENSEMBLE(IO, STEP("T", "Y") STEP("X", "T")), NULL },
        { ENSEMBLE(IO, STEP2("T", "U", "Y") STEP("X", "U") STEP("X", "T")), NULL },
        { ENSEMBLE(IO, STEP2("X", "X", "Y")), NULL },
        { ENSEMBLE(INPUT("X") OUTPUT("T") OUTPUT("Y"), STEP("X", "T") STEP("T", "Y")), NULL },
        { ENSEMBLE(IO, STEP("X", "Y") STEP("X", "Y")),
          "ensemble tensor 'Y' can appear in an output map only once for ensemble 'e' step 1" },
        { ENSEMBLE(IO, "step { model_name: 'a' " MAP("input_map", "I", "X")
                               MAP("output_map", "O", "Y") MAP("output_map", "P", "Y") "}"),
          "ensemble tensor 'Y' can appear in an output map only once for ensemble 'e' step 0" },
        { ENSEMBLE(IO INPUT("Z"), STEP("X", "Y")),
          "ensemble input 'Z' for ensemble e' is not used" },
        { ENSEMBLE(IO, STEP("X", "Y") STEP("Y", "X")),
          "ensemble input 'X' for ensemble 'e' is also an output of step 1" },
        { ENSEMBLE(IO OUTPUT("Z"), STEP("X", "Y")),
          "ensemble output 'Z' for ensemble e' is not used" },
        { ENSEMBLE(IO, STEP2("X", "T", "Y")),
          "output 'Y' for ensemble 'e' is not written: at least one of its depending tensors, 'T', "
          "is not connected" },
        { ENSEMBLE(IO OUTPUT("T"), STEP("X", "Y") STEP("T", "U")),
          "output 'T' for ensemble 'e' is not written" },
        /* a loop never becomes ready */
        { ENSEMBLE(IO, STEP("X", "T") STEP2("T", "Y", "Y")),
          "output 'Y' for ensemble 'e' is not written: at least one of its depending tensors, 'Y', "
          "is not connected" },
        { ENSEMBLE(IO, STEP("X", "Y") STEP("U", "T") STEP("T", "U")),
          "ensemble tensor 'T' is unused in ensemble 'e'" },
        { ENSEMBLE(IO, STEP("X", "Y") STEP("X", "T")),
          "ensemble tensor 'T' is unused in ensemble 'e'" },
        { ENSEMBLE(IO, STEP("X", "Y") STEP("U", "T") STEP("T", "V")),
          "ensemble tensor 'T' is unused in ensemble 'e'" },
};

static void test_fields(void **state) {
        (void)state;
        run_normalized_rows(field_rows, ARRAY_LEN(field_rows), model_config_check);
}

static void test_flow(void **state) {
        (void)state;
        run_normalized_rows(flow_rows, ARRAY_LEN(flow_rows), model_config_check);
}

/* Wide steps one after the other: the work must grow with the text, not with its square. */
static void test_large(void **state) {
        enum { WIDTH = 2000, STEPS = 5 };
        struct strbuf        text;
        struct model_config *c;

        (void)state;
        strbuf_init(&text, 0);
        strbuf_puts(&text, "name: 'e' platform: 'ensemble' version_policy { } ");
        for (int i = 0; i < WIDTH; i++)
                strbuf_printf(&text, "input { name: 't0_%d' } output { name: 't%d_%d' } ", i, STEPS,
                              i);
        strbuf_puts(&text, "ensemble_scheduling { ");
        for (int step = 0; step < STEPS; step++) {
                strbuf_puts(&text, "step { model_name: 'a' ");
                for (int i = 0; i < WIDTH; i++)
                        strbuf_printf(&text,
                                      "input_map { key: 'i%d' value: 't%d_%d' } "
                                      "output_map { key: 'o%d' value: 't%d_%d' } ",
                                      i, step, i, i, step + 1, i);
                strbuf_puts(&text, "} ");
        }
        strbuf_puts(&text, "}");
        c = config_of(strbuf_cstr(&text));
        assert_int_equal(c->pb->ensemble_scheduling->step[STEPS - 1]->n_input_map, WIDTH);
        assert_null(model_config_check(c));
        model_config_free(c);
        strbuf_done(&text);
}

/* Short of memory the check refuses; it neither ends the process nor passes. */
static void test_memory_short(void **state) {
        static const char    text[] = "version_policy { } " ENSEMBLE(IO, STEP("X", "Y"));
        struct model_config *c = config_of(text);
        unsigned             n = 0;
        struct error        *err;

        (void)state;
        do {
                mem_fail_after(++n);
                err = model_config_check(c);
                mem_fail_after(0);
                if (err != NULL)
                        assert_outcome(err, ERR_UNAVAILABLE, "out of memory", text);
        } while (err != NULL);
        assert_true(n > 1);
        model_config_free(c);
}

SUITE(config_check_ensemble) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_flow),
                cmocka_unit_test(test_large),
                cmocka_unit_test(test_memory_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
