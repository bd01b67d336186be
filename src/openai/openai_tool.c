/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_tool.h"

#include "codec/json_find.h"
#include "openai/openai_request.h"

/* The first tool, or the first one of that name; name.ptr NULL when there is none. */
static struct openai_tool find_tool(const struct openai_request *q, const struct str *name,
                                    struct arena *arena) {
        JSON_FOR_EACH(q->tools, item) {
                struct openai_tool tool = { .name = json_find_text(item, "function.name", arena),
                                            .schema = json_find(item, "function.parameters") };

                if (tool.name.len > 0 && (name == NULL || str_equal(tool.name, *name)))
                        return tool;
        }
        return (struct openai_tool){ 0 };
}

static struct error *check_tool(const struct openai_request *q, struct openai_tool *tool) {
        struct error *err;

        if (tool->schema.len == 0 || tool->schema.ptr[0] != '{')
                tool->schema = STR_LIT("{\"type\":\"object\"}");
        err = openai_schema_check(tool->schema, "tools");
        if (err == NULL && q->response_format.ptr != NULL)
                err = openai_fault("response_format",
                                   "'response_format' has no place in the call of a tool, which "
                                   "'tool_choice' demands");
        return err;
}

static struct error *choose_named(const struct openai_request *q, struct arena *arena,
                                  struct openai_tool *ret) {
        struct str name = json_find_text(q->tool_choice, "function.name", arena);

        if (name.len == 0)
                return openai_fault("tool_choice",
                                    "'tool_choice' must be none, auto, required, or name a "
                                    "function");
        *ret = find_tool(q, &name, arena);
        if (ret->name.ptr == NULL)
                return openai_fault("tool_choice",
                                    "'tool_choice' names the function '%.*s', which 'tools' lacks",
                                    (int)MIN(name.len, (size_t)OPENAI_MAX_SHOWN), name.ptr);
        return check_tool(q, ret);
}

static struct error *choose_only(const struct openai_request *q, struct arena *arena,
                                 struct openai_tool *ret) {
        if (json_list_count(q->tools) != 1)
                return openai_fault("tool_choice",
                                    "a choice among several tools takes a model of the format "
                                    "'openai': for this one 'tool_choice' must name a function");
        *ret = find_tool(q, NULL, arena);
        if (ret->name.ptr == NULL)
                return openai_fault("tools", "a tool needs function.name");
        return check_tool(q, ret);
}

struct error *openai_tool_choose(const struct openai_request *q, struct arena *arena,
                                 struct openai_tool *ret) {
        *ret = (struct openai_tool){ 0 };
        if (q->tool_choice.ptr == NULL || STR_IS(q->tool_choice, "\"none\"") ||
            STR_IS(q->tool_choice, "\"auto\""))
                return NULL;
        if (q->tools.ptr == NULL)
                return openai_fault("tool_choice",
                                    "'tool_choice' demands a call, which needs 'tools'");
        if (STR_IS(q->tool_choice, "\"required\""))
                return choose_only(q, arena, ret);
        return choose_named(q, arena, ret);
}
