/* SPDX-License-Identifier: BSD-3-Clause */
/* Where fields stand in a text: paths, lists, repeated fields, what is missing. */
#include "codec/pb_text_place.h"

#include "suite.h"

#include "base/compiler.h"
#include "model_config.pb-c.h"

static const char text[] = "# comment { with [ signs\n"
                           "name: 'a' 'b' \"}\"\n"
                           "max_batch_size: -3;\n"
                           "input [ { name: \"X\", dims: [ 1, -1 ,3 ] },\n"
                           "  { name: \"Y\" dims: 7 dims: [ 8 , 9 ] } ]\n"
                           "input < name: \"Z\"\n"
                           "  reshape: { shape: [ ] } >\n"
                           "parameters { key: \"input\" value { string_value: \"name: {\" } }\n"
                           "dynamic_batching { }\n";

struct row {
        const char *path;
        unsigned    line, column; /* 0: not there */
};

static const struct pb_patches no_patches = { NULL, 0 };

static const struct row rows[] = {
        { "name", 2, 1 },
        { "max_batch_size", 3, 1 },
        { "input[0]", 4, 9 },
        { "input[0].name", 4, 11 },
        { "input[0].dims", 4, 22 },
        { "input[0].dims[0]", 4, 30 },
        { "input[0].dims[1]", 4, 33 },
        { "input[0].dims[2]", 4, 37 },
        { "input[1].name", 5, 5 },
        { "input[1].dims[0]", 5, 15 },
        { "input[1].dims[1]", 5, 31 },
        { "input[1].dims[2]", 5, 35 },
        { "input[2]", 6, 1 },
        { "input[2].reshape.shape", 7, 14 },
        { "parameters[0].value.string_value", 8, 35 },
        { "dynamic_batching", 9, 1 },
        /* What is missing is shown where it would be. */
        { "input[0].data_type", 4, 9 },
        { "input[0].dims[3]", 4, 9 },
        { "input[2].reshape.shape[0]", 7, 3 },
        { "dynamic_batching.preferred_batch_size[0]", 9, 1 },
        { "name.other", 2, 1 },
        /* Nothing of it is there. */
        { "input[3]", 0, 0 },
        { "output[0].name", 0, 0 },
        { "nonsense", 0, 0 },
        { "", 0, 0 },
        { "input[x]", 0, 0 },
        { ".name", 0, 0 },
};

static void test_places(void **state UNUSED) {
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_place place = { 0, 0 };
                bool found = pb_text_find_place(&inference__model_config__descriptor, str_of(text),
                                                no_patches, rows[i].path, &place);

                if (found != (rows[i].line > 0) || place.line != rows[i].line ||
                    place.column != rows[i].column)
                        fail_msg("'%s': %d, %u:%u", rows[i].path, found, place.line, place.column);
        }
}

/* Texts that nobody could read end somewhere, with what was found so far or nothing. */
static void test_broken_texts(void **state UNUSED) {
        static const char *const texts[] = {
                "",
                "input",
                "input {",
                "input [",
                "input [ { dims: [ 1",
                "input { dims",
                "name: \"open",
                "}}}}]]>>",
                "input { dims: [ 1 2 { < [ } ",
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct pb_place place = { 1, 1 };
                bool            found =
                        pb_text_find_place(&inference__model_config__descriptor, str_of(texts[i]),
                                           no_patches, "input[0].dims[9]", &place);

                assert_true(!found || (place.line == 1 && place.column <= 9));
        }
}

SUITE(pb_text_place) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_broken_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
