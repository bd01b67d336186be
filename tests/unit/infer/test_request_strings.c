/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "infer/fake_model.h"
#include "infer/request_strings.h"

/* Bytes of one input, in up to four chunks; a literal's own NUL is not counted. */
struct chunk {
        const char *bytes;
        size_t      n;
        const char *policy;
};

#define CHUNK(literal)                                                                             \
        { .bytes = (literal), .n = sizeof(literal) - 1 }
#define FOR_POLICY(literal)                                                                        \
        { .bytes = (literal), .n = sizeof(literal) - 1, .policy = "p" }

struct row {
        const char  *what;
        int64_t      n_elements;
        struct chunk chunks[4];
        const char  *message; /* NULL: accepted */
};

#define NO_ID "[request id: <id_unknown>] "
#define CUT(n)                                                                                     \
        NO_ID "incomplete string length indicator for inference input 'S' for model 'm', "         \
              "expecting "                                                                         \
              "4 bytes but only " #n " bytes available. Please make sure the string length "       \
              "indicator is in one buffer."
#define COUNT(expected, got)                                                                       \
        NO_ID "expected " #expected                                                                \
              " string elements for inference input 'S' for model 'm', got " #got

static const struct row rows[] = {
        { "nothing at all", 0, { { 0 } }, NULL },
        { "one element", 1, { CHUNK("\5\0\0\0hello") }, NULL },
        { "an empty one", 1, { CHUNK("\0\0\0\0") }, NULL },
        { "bytes that look like lengths", 1, { CHUNK("\4\0\0\0\377\377\377\377") }, NULL },
        { "all four bytes of the length count",
          1,
          { CHUNK("\1\1\0\0x") },
          NO_ID "incomplete last string element for inference input 'S' for model 'm', 256 bytes "
                "are missing" },
        { "several", 3, { CHUNK("\1\0\0\0a\0\0\0\0\2\0\0\0bc") }, NULL },
        { "an element over two chunks", 1, { CHUNK("\5\0\0\0he"), CHUNK("llo") }, NULL },
        { "over three", 2, { CHUNK("\5\0\0\0h"), CHUNK("ell"), CHUNK("o\0\0\0\0") }, NULL },
        { "the length alone in its chunk", 1, { CHUNK("\2\0\0\0"), CHUNK("hi") }, NULL },
        { "a chunk for each", 2, { CHUNK("\1\0\0\0a"), CHUNK("\1\0\0\0b") }, NULL },
        { "bytes for a host policy do not count",
          1,
          { FOR_POLICY("\377"), CHUNK("\1\0\0\0a"), FOR_POLICY("\1\0") },
          NULL },
        { "too few", 2, { CHUNK("\1\0\0\0a") }, COUNT(2, 1) },
        { "none", 1, { { 0 } }, COUNT(1, 0) },
        { "too many", 1, { CHUNK("\1\0\0\0a\0\0\0\0") }, COUNT(1, 2) },
        { "any at all", 0, { CHUNK("\0\0\0\0") }, COUNT(0, 1) },
        { "a length cut after 1 byte", 1, { CHUNK("\1") }, CUT(1) },
        { "after 3 bytes", 2, { CHUNK("\1\0\0\0a\0\0\0") }, CUT(3) },
        { "a length over two chunks", 1, { CHUNK("\1\0"), CHUNK("\0\0a") }, CUT(2) },
        { "the last element is cut",
          2,
          { CHUNK("\1\0\0\0a\5\0\0\0bc") },
          NO_ID "incomplete last string element for inference input 'S' for model 'm', 3 bytes are "
                "missing" },
        { "the longest length",
          1,
          { CHUNK("\377\377\377\377") },
          NO_ID "incomplete last string element for inference input 'S' for model 'm', 4294967295 "
                "bytes are missing" },
};

static void run_row(struct fake_model *fake, const struct row *row) {
        struct request *req = fake_request(fake);
        struct error   *err;

        assert_ok(request_add_input(req, "S", DATA_TYPE_BYTES, &row->n_elements, 1), row->what);
        for (size_t i = 0; i < ARRAY_LEN(row->chunks); i++) {
                const struct chunk      *c = &row->chunks[i];
                struct buffer_attributes attributes = cpu_bytes(c->n);

                assert_ok(request_append_bytes(req, "S", c->bytes, &attributes, c->policy),
                          row->what);
        }
        err = request_check_strings(req, req->first_input);
        if ((err == NULL) != (row->message == NULL) ||
            (err != NULL &&
             (err->code != ERR_INVALID_ARG || strcmp(err->message, row->message) != 0)))
                fail_msg("%s\ngot      %s\nexpected %s", row->what,
                         err != NULL ? err->message : "(accepted)",
                         row->message != NULL ? row->message : "(accepted)");
        error_free(err);
        request_free(req);
}

static void test_rows(void **state) {
        struct fake_model *fake =
                fake_model_new("name: 'm' input { name: 'S' data_type: TYPE_STRING dims: -1 }");

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                run_row(fake, &rows[i]);
        fake_model_free(fake);
}

/* The same elements cut into two chunks at every place: only a cut length is refused. */
static void test_every_cut(void **state) {
        static const char  bytes[] = "\3\0\0\0abc\0\0\0\0\1\0\0\0d";
        static const char  inside_of_length[] = "0111000"
                                                "0111"
                                                "0111"
                                                "0";
        size_t             n = sizeof(bytes) - 1;
        struct fake_model *fake =
                fake_model_new("name: 'm' input { name: 'S' data_type: TYPE_STRING dims: -1 }");

        (void)state;
        for (size_t cut = 0; cut <= n; cut++) {
                struct request *req = fake_request(fake);
                struct error   *err;

                assert_ok(request_add_input(req, "S", DATA_TYPE_BYTES, (int64_t[]){ 3 }, 1), "S");
                append_bytes(req, "S", bytes, cut);
                append_bytes(req, "S", bytes + cut, n - cut);
                err = request_check_strings(req, req->first_input);
                assert_int_equal(err != NULL, cut < n && inside_of_length[cut] == '1');
                error_free(err);
                request_free(req);
        }
        fake_model_free(fake);
}

SUITE(request_strings) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_every_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
