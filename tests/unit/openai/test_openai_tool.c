/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tool must be called, and what is wrong with a choice. */
#include "suite.h"

#include "base/compiler.h"
#include "openai/openai_request.h"

#include <stdio.h>
#include <string.h>

#define A "{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":{\"x\":1}}}"
#define B "{\"type\":\"function\",\"function\":{\"name\":\"b\",\"parameters\":7}}"
#define CHOOSE(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static const struct {
        const char *members;
        const char *name;   /* "": none must be called; NULL: an error */
        const char *schema; /* or the field of the error */
} rows[] = {
        { "", "", "" },
        { ",\"tools\":[" A "]", "", "" },
        { ",\"tools\":[" A "],\"tool_choice\":\"auto\"", "", "" },
        { ",\"tools\":[" A "],\"tool_choice\":\"none\"", "", "" },
        { ",\"tools\":[" A "],\"tool_choice\":null", "", "" },
        { ",\"tools\":[],\"tool_choice\":\"none\"", "", "" },
        { ",\"tool_choice\":\"auto\"", "", "" },
        { ",\"tools\":[],\"tool_choice\":\"required\"", NULL, "tool_choice" },
        { ",\"tool_choice\":\"required\"", NULL, "tool_choice" },
        { ",\"tool_choice\":" CHOOSE("a"), NULL, "tool_choice" },
        { ",\"tool_choice\":\"always\"", NULL, "tool_choice" },
        { ",\"tools\":[" A "],\"tool_choice\":\"required\"", "a", "{\"x\":1}" },
        { ",\"tools\":[" A "," B "],\"tool_choice\":" CHOOSE("a"), "a", "{\"x\":1}" },
        { ",\"tools\":[{}," B "],\"tool_choice\":" CHOOSE("\\u0062"), "b",
          "{\"type\":\"object\"}" },
        { ",\"tools\":[" A "],\"tool_choice\":\"required\",\"response_format\":"
          "{\"type\":\"text\"}",
          "a", "{\"x\":1}" },
        { ",\"tools\":[" A "," B "],\"tool_choice\":\"required\"", NULL, "tool_choice" },
        { ",\"tools\":[" A "],\"tool_choice\":" CHOOSE("c"), NULL, "tool_choice" },
        { ",\"tools\":[" A "],\"tool_choice\":" CHOOSE(""), NULL, "tool_choice" },
        { ",\"tools\":[" A "],\"tool_choice\":\"always\"", NULL, "tool_choice" },
        { ",\"tools\":[" A "],\"tool_choice\":[7]", NULL, "tool_choice" },
        { ",\"tools\":[{\"function\":{}}],\"tool_choice\":\"required\"", NULL, "tools" },
        { ",\"tools\":[" A "],\"tool_choice\":\"required\",\"response_format\":"
          "{\"type\":\"json_object\"}",
          NULL, "response_format" },
};

static void test_choices(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char                  body[1000];
                struct arena          arena;
                struct openai_request q;
                struct openai_tool    tool;
                AUTO_ERROR            err = NULL;

                arena_init(&arena, NULL, 0, 0);
                snprintf(body, sizeof(body),
                         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]%s}", rows[i].members);
                assert_null(openai_request_read(OPENAI_CHAT, str_of(body), &arena, &q));
                err = openai_tool_choose(&q, &arena, &tool);
                if ((err == NULL) != (rows[i].name != NULL))
                        fail_msg("row %zu: %s", i, err != NULL ? err->message : "no error");
                if (err != NULL)
                        assert_string_equal(err->field, rows[i].schema);
                else if (!str_is(tool.name, rows[i].name) || !str_is(tool.schema, rows[i].schema))
                        fail_msg("row %zu: '%.*s' with %.*s", i, STR_ARG(tool.name),
                                 STR_ARG(tool.schema));
                arena_done(&arena);
        }
}

SUITE(openai_tool) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_choices),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
