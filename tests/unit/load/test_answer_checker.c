/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/strbuf.h"
#include "load/answer_checker.h"
#include "load/input_json.h"

#include <string.h>

#define TENSOR(name) "{\"name\":\"" name "\",\"datatype\":\"UINT8\",\"shape\":[1]}"

static const char metadata[] = "{\"name\":\"m\",\"inputs\":[" TENSOR("A") "],\"outputs\":[" TENSOR(
        "X") "," TENSOR("Y") "," TENSOR("Z") "]}";
static const char data[] =
        "{\"data\":[{\"A\":[1]}],\"validation_data\":[{\"X\":[120],\"Y\":[121]}]}";

/* An answer with an output for each letter, in pairs of its name and its value. */
static bool is_right(const struct answer_checker *checker, const char *pairs) {
        AUTO_STRBUF   text = { 0 };
        struct answer a = { .kind = ANSWER_OK };

        strbuf_puts(&text, "{\"outputs\":[");
        for (const char *at = pairs; *at != '\0'; at += 2)
                strbuf_printf(&text, "%s{\"name\":\"%c\",\"parameters\":{\"binary_data_size\":1}}",
                              at == pairs ? "" : ",", at[0]);
        strbuf_puts(&text, "]}");
        a.header_length = text.len;
        for (const char *at = pairs; *at != '\0'; at += 2)
                strbuf_putc(&text, at[1]);
        a.text = strbuf_str(&text);
        return answer_checker_compare(checker, 0, &a);
}

static void test_outputs(void **state) {
        struct input_set      s = { 0 };
        struct load_model     m;
        struct answer_checker checker = {
                .model = &m, .inputs = &s, .protocol = TARGET_HTTP, .batch = 1
        };

        (void)state;
        assert_null(load_model_read("m", NULL, str_of(metadata), STR_LIT("{}"), &m));
        arena_init(&s.arena, NULL, 0, INPUT_SET_MAX_BYTES);
        assert_null(input_json_read(&s, &m, &m.inputs[0].shape, str_of(data)));
        assert_true(is_right(&checker, "XxYy"));
        assert_true(is_right(&checker, "YyXxZ?")); /* nothing is expected of Z */
        assert_false(is_right(&checker, "XxY?"));
        assert_false(is_right(&checker, "Xx"));
        assert_false(is_right(&checker, "XxXx")); /* two outputs, but not these two */
        assert_false(is_right(&checker, "XxYyXx"));
        assert_false(is_right(&checker, "XxZ?"));
        assert_false(is_right(&checker, ""));
        input_set_done(&s);
        load_model_done(&m);
}

SUITE(answer_checker) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_outputs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
