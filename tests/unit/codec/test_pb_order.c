/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of fields against the .proto files themselves: they are read from the source tree,
 * where tests are started. */
#include "suite.h"

#include "base/compiler.h"
#include "base/file.h"
#include "codec/pb_field.h"
#include "codec/pb_order.h"
#include "grpc_service.pb-c.h"
#include "model_config.pb-c.h"

#include <stdio.h>

#define MAX_OPEN 8

/* A scan of a .proto file: for each message the fields, as they come. */
struct proto_scan {
        const ProtobufCMessageDescriptor *open[MAX_OPEN]; /* by nesting; NULL for enums, oneofs */
        const ProtobufCFieldDescriptor   *last[MAX_OPEN];
        size_t                            depth;
        int                               n_fields;
        int                               n_messages;
};

static const ProtobufCMessageDescriptor *const roots[] = {
        &inference__model_config__descriptor,
        &inference__server_metadata_response__descriptor,
        &inference__model_metadata_response__descriptor,
        &inference__model_infer_request__descriptor,
        &inference__model_infer_response__descriptor,
        &inference__model_statistics_response__descriptor,
        &inference__repository_index_response__descriptor,
        &inference__repository_model_load_request__descriptor,
        &inference__system_shared_memory_status_response__descriptor,
        &inference__cuda_shared_memory_register_request__descriptor,
        &inference__trace_setting_request__descriptor,
        &inference__log_settings_response__descriptor,
};

static const ProtobufCMessageDescriptor *find_below(const ProtobufCMessageDescriptor *type,
                                                    struct str                        name) {
        const ProtobufCMessageDescriptor *found = NULL;

        if (str_is(name, pb_type_name(type)))
                return type;
        for (unsigned i = 0; found == NULL && i < type->n_fields; i++)
                if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
                        found = find_below(pb_field_message(&type->fields[i]), name);
        return found;
}

/* By its name without the package; NULL for messages that no root leads to. */
static const ProtobufCMessageDescriptor *find_type(struct str name) {
        const ProtobufCMessageDescriptor *found = NULL;

        for (size_t i = 0; found == NULL && i < ARRAY_LEN(roots); i++)
                found = find_below(roots[i], name);
        return found;
}

static bool take_word(struct str *line, const char *word) {
        if (!str_starts(*line, str_of(word)))
                return false;
        *line = str_range(line->ptr + strlen(word), line->len - strlen(word));
        return true;
}

static void open_message(struct proto_scan *s, char names[MAX_OPEN][128], struct str rest) {
        struct str name;

        str_split(rest, ' ', &name);
        snprintf(names[s->depth], sizeof(names[0]), "%s%s%.*s",
                 s->depth > 0 ? names[s->depth - 1] : "", s->depth > 0 ? "." : "", STR_ARG(name));
        s->open[s->depth] = find_type(str_of(names[s->depth]));
        s->last[s->depth] = NULL;
        s->n_messages += s->open[s->depth] != NULL;
        s->depth++;
}

/* A oneof's fields belong to the message around it. */
static size_t owner_of(const struct proto_scan *s) {
        size_t at = s->depth - 1;

        while (at > 0 && s->open[at] == NULL)
                at--;
        return at;
}

static void check_field(struct proto_scan *s, struct str line) {
        size_t                          owner = owner_of(s);
        struct str                      before, name;
        const ProtobufCFieldDescriptor *expected;

        str_split(line, '=', &before);
        before = str_trim(before);
        for (name = before; name.ptr != NULL && name.len > 0; name = str_split(name, ' ', &before))
                ;
        expected = pb_order_next(s->open[owner], s->last[owner]);
        if (expected == NULL)
                fail_msg("%s has a field too many: %.*s", s->open[owner]->name, STR_ARG(before));
        if (!str_is(before, expected->name))
                fail_msg("%s: after %s comes %s, but %.*s is declared there", s->open[owner]->name,
                         s->last[owner] != NULL ? s->last[owner]->name : "the beginning",
                         expected->name, STR_ARG(before));
        s->last[owner] = expected;
        s->n_fields++;
}

static void close_block(struct proto_scan *s) {
        s->depth--;
        if (s->open[s->depth] != NULL &&
            pb_order_next(s->open[s->depth], s->last[s->depth]) != NULL)
                fail_msg("%s: %s is not in the .proto", s->open[s->depth]->name,
                         pb_order_next(s->open[s->depth], s->last[s->depth])->name);
}

static void scan_line(struct proto_scan *s, char names[MAX_OPEN][128], struct str line) {
        bool in_enum = false;

        line = str_trim(line);
        if (line.len == 0 || str_starts(line, STR_LIT("//")))
                return;
        for (size_t i = 0; i < s->depth; i++)
                in_enum = in_enum || strcmp(names[i], "enum") == 0;
        if (take_word(&line, "message ")) {
                assert_true(s->depth < MAX_OPEN);
                open_message(s, names, line);
        } else if (take_word(&line, "enum ") || take_word(&line, "service ")) {
                snprintf(names[s->depth], sizeof(names[0]), "enum");
                s->open[s->depth++] = NULL;
        } else if (take_word(&line, "oneof ")) {
                snprintf(names[s->depth], sizeof(names[0]), "oneof");
                s->open[s->depth++] = NULL;
        } else if (str_is(line, "}")) {
                close_block(s);
        } else if (s->depth > 0 && !in_enum && s->open[owner_of(s)] != NULL &&
                   line.ptr[line.len - 1] == ';') {
                check_field(s, line);
        }
}

static struct proto_scan scan_file(const char *path) {
        struct proto_scan s = { .depth = 0 };
        char              names[MAX_OPEN][128];
        AUTO_STRBUF       text;
        struct error     *err;

        strbuf_init(&text, 0);
        err = file_read(path, 1u << 20, &text);
        if (err != NULL)
                fail_msg("%s", err->message);
        for (struct str rest = strbuf_str(&text); rest.ptr != NULL;) {
                struct str line;

                rest = str_split(rest, '\n', &line);
                scan_line(&s, names, line);
        }
        assert_int_equal(s.depth, 0);
        return s;
}

struct reached {
        const ProtobufCMessageDescriptor *messages[128];
        unsigned                          n_messages, n_fields;
};

/* Counts a message and those of its fields. The entries of maps are not in the text of the file. */
static void reach(struct reached *r, const ProtobufCMessageDescriptor *d) {
        bool is_entry = str_ends(str_of(d->short_name), STR_LIT("Entry"));

        for (unsigned i = 0; i < r->n_messages; i++)
                if (r->messages[i] == d)
                        return;
        assert_true(r->n_messages < ARRAY_LEN(r->messages));
        if (!is_entry) {
                r->messages[r->n_messages++] = d;
                r->n_fields += d->n_fields;
        }
        for (unsigned i = 0; i < d->n_fields; i++)
                if (d->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
                        reach(r, d->fields[i].descriptor);
}

static void test_the_configuration_is_in_the_order_of_its_proto(void **state) {
        struct proto_scan s = scan_file("proto/model_config.proto");
        struct reached    all = { .n_messages = 0 };

        (void)state;
        reach(&all, &inference__model_config__descriptor);
        assert_int_equal(s.n_messages, all.n_messages);
        assert_int_equal(s.n_fields, all.n_fields);
}

static void test_control_messages_are_in_the_order_of_their_proto(void **state) {
        struct proto_scan s = scan_file("proto/grpc_service.proto");

        (void)state;
        assert_true(s.n_messages > 25);
        assert_true(s.n_fields > 90);
}

static void test_fields_around_a_oneof(void **state) {
        static const char *const        names[] = { "data_type", "dims", "zero_data", "data_file",
                                                    "name" };
        const ProtobufCFieldDescriptor *field = NULL;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                field = pb_order_next(
                        &inference__model_sequence_batching__initial_state__descriptor, field);
                assert_string_equal(field->name, names[i]);
        }
        assert_null(pb_order_next(&inference__model_sequence_batching__initial_state__descriptor,
                                  field));
}

static void test_a_message_without_fields(void **state) {
        (void)state;
        assert_null(pb_order_next(&inference__model_version_policy__all__descriptor, NULL));
}

SUITE(pb_order) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_configuration_is_in_the_order_of_its_proto),
                cmocka_unit_test(test_control_messages_are_in_the_order_of_their_proto),
                cmocka_unit_test(test_fields_around_a_oneof),
                cmocka_unit_test(test_a_message_without_fields),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
