/* SPDX-License-Identifier: BSD-3-Clause */
/* Files are built of protobuf's bytes: the library that writes ONNX files makes none of the odd ones. */
#include "suite.h"

#include "fake_server.h"
#include "onnxruntime/external_data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- building -------------------------------------------------------------------------------- */

struct bytes {
        size_t  n;
        uint8_t at[9000];
};

static struct bytes none(void) {
        return (struct bytes){ 0 };
}

static void put_varint(struct bytes *b, uint64_t value) {
        for (; value >= 0x80; value >>= 7)
                b->at[b->n++] = (uint8_t)(value | 0x80);
        b->at[b->n++] = (uint8_t)value;
}

static void put(struct bytes *to, unsigned field, const void *bytes, size_t n) {
        put_varint(to, (uint64_t)field << 3 | 2);
        put_varint(to, n);
        memcpy(&to->at[to->n], bytes, n);
        to->n += n;
}

/* A message with one field that has this content. */
static struct bytes in(unsigned field, struct bytes content) {
        struct bytes b = none();

        put(&b, field, content.at, content.n);
        return b;
}

static struct bytes joined(struct bytes a, struct bytes b) {
        memcpy(&a.at[a.n], b.at, b.n);
        a.n += b.n;
        return a;
}

static struct bytes entry(const char *key, const char *value) {
        struct bytes b = none();

        put(&b, 1, key, strlen(key));
        put(&b, 2, value, strlen(value));
        return b;
}

/* The name comes first, as in files that ONNX writes. */
static struct bytes tensor(const char *name, const char *location) {
        struct bytes b = none(), length = entry("length", "64"), at = entry("location", location);

        put(&b, 8, name, strlen(name));
        put(&b, 13, length.at, length.n);
        put(&b, 13, at.at, at.n);
        return b;
}

/* ---- walking --------------------------------------------------------------------------------- */

static char found[4][64]; /* "<tensor>=<location>" */
static int  n_found;

static TRITONSERVER_Error *on_found(void *userp, const char *name, const char *location) {
        (void)userp;
        assert_true(n_found < 4);
        snprintf(found[n_found++], sizeof(found[0]), "%s=%s", name, location);
        return NULL;
}

static int file_of(const struct bytes *b) {
        int fd = memfd_create("model", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, b->at, b->n), (ssize_t)b->n);
        return fd;
}

static TRITONSERVER_Error *walk(struct bytes model) {
        TRITONSERVER_Error *err;
        int                 fd = file_of(&model);

        n_found = 0;
        err = external_data_walk(fd, on_found, NULL);
        close(fd);
        return err;
}

static void check_finds(struct bytes model, const char *expected) {
        TRITONSERVER_Error *err = walk(model);

        if (err != NULL)
                fail_msg("%s: %s", expected, TRITONSERVER_ErrorMessage(err));
        assert_int_equal(n_found, 1);
        assert_string_equal(found[0], expected);
}

static void check_fails(struct bytes model, const char *part) {
        TRITONSERVER_Error *err = walk(model);

        assert_non_null(err);
        if (strstr(TRITONSERVER_ErrorMessage(err), part) == NULL)
                fail_msg("%s, not %s", TRITONSERVER_ErrorMessage(err), part);
        TRITONSERVER_ErrorDelete(err);
}

enum { GRAPH = 7, NODE = 1, INITIALIZER = 5, ATTRIBUTE = 5 };

static struct bytes graph(struct bytes content) {
        return in(GRAPH, content);
}

static struct bytes attribute(struct bytes content) {
        return graph(in(NODE, in(ATTRIBUTE, content)));
}

static void test_every_place(void **state) {
        struct bytes t = tensor("w", "f"), g = in(INITIALIZER, t);
        struct bytes place[] = {
                graph(g),                                 /* initializer */
                graph(in(15, in(1, t))),                  /* sparse_initializer.values */
                graph(in(15, in(2, t))),                  /* sparse_initializer.indices */
                attribute(in(5, t)),                      /* t */
                attribute(in(6, g)),                      /* g */
                attribute(in(10, t)),                     /* tensors */
                attribute(in(11, g)),                     /* graphs */
                attribute(in(22, in(1, t))),              /* sparse_tensor */
                attribute(in(23, in(2, t))),              /* sparse_tensors */
                in(20, in(1, g)),                         /* training_info.initialization */
                in(20, in(2, g)),                         /* training_info.algorithm */
                in(25, in(7, in(5, in(5, t)))),           /* functions.node.attribute.t */
                in(25, in(11, in(5, t))),                 /* functions.attribute_proto.t */
                attribute(in(6, in(1, in(5, in(6, g))))), /* a subgraph of a subgraph */
        };

        (void)state;
        for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++)
                check_finds(place[i], "w=f");
}

static void test_other_fields(void **state) {
        struct bytes t = tensor("w", "f"), odd = none();

        (void)state;
        put_varint(&odd, 7 << 3 | 0); /* `graph` as a number: ignored, as by the runtime */
        put_varint(&odd, UINT64_MAX);
        put_varint(&odd, 7 << 3 | 1);
        odd.n += 8;
        put_varint(&odd, 7 << 3 | 5);
        odd.n += 4;
        check_finds(joined(odd, graph(in(INITIALIZER, t))), "w=f");
        check_finds(joined(in(14, t), graph(in(INITIALIZER, t))), "w=f"); /* metadata_props */
        assert_null(walk(none()));
        assert_int_equal(n_found, 0);
        assert_null(walk(graph(in(INITIALIZER, in(9, t))))); /* raw_data */
        assert_int_equal(n_found, 0);
}

/* A message field that is there twice is joined by the runtime. */
static void test_pieces(void **state) {
        struct bytes head = none(), tail = none(), key_last = none(), late_name = none();
        struct bytes e = entry("location", "f");

        (void)state;
        put(&head, 8, "w", 1);
        put_varint(&head, 14 << 3); /* data_location: EXTERNAL */
        put_varint(&head, 1);
        put(&tail, 13, e.at, e.n);
        check_finds(attribute(joined(in(5, head), in(5, tail))), "=f");
        check_finds(joined(graph(none()), graph(in(INITIALIZER, tail))), "=f");

        put(&late_name, 13, e.at, e.n);
        put(&late_name, 8, "v", 1);
        put(&late_name, 8, "w", 1);
        check_finds(graph(in(INITIALIZER, late_name)), "w=f");

        put(&key_last, 2, "a", 1);
        put(&key_last, 1, "length", 6);
        put(&key_last, 2, "f", 1);
        put(&key_last, 1, "location", 8);
        check_finds(graph(in(INITIALIZER, in(13, key_last))), "=f");

        put(&key_last, 1, "location2", 9);
        assert_null(walk(graph(in(INITIALIZER, in(13, key_last)))));
        assert_int_equal(n_found, 0);
        check_finds(graph(in(INITIALIZER, in(13, in(1, (struct bytes){ 8, "location" })))), "=");
}

static void test_many(void **state) {
        struct bytes two =
                joined(in(INITIALIZER, tensor("a", "1")), in(INITIALIZER, tensor("b", "2")));

        (void)state;
        assert_null(walk(joined(graph(two), graph(in(INITIALIZER, tensor("c", "3"))))));
        assert_int_equal(n_found, 3);
        assert_string_equal(found[0], "a=1");
        assert_string_equal(found[1], "b=2");
        assert_string_equal(found[2], "c=3");
}

/* Locations beyond the window of the file, and data that is skipped. */
static void test_large_file(void **state) {
        enum { SKIPPED = 300000 };
        struct bytes        head = none(), raw = none(), t = in(INITIALIZER, tensor("w", "f"));
        TRITONSERVER_Error *err;
        int                 fd;

        (void)state;
        put_varint(&raw, 9 << 3 | 2);
        put_varint(&raw, SKIPPED);
        put_varint(&head, GRAPH << 3 | 2);
        put_varint(&head, 4 + raw.n + SKIPPED + t.n); /* 4: the tag and length of the tensor */
        put_varint(&head, INITIALIZER << 3 | 2);
        put_varint(&head, raw.n + SKIPPED);
        head = joined(head, raw);
        fd = file_of(&head);
        assert_int_equal(ftruncate(fd, (off_t)(head.n + SKIPPED)), 0);
        assert_int_equal(pwrite(fd, t.at, t.n, (off_t)(head.n + SKIPPED)), (ssize_t)t.n);
        n_found = 0;
        err = external_data_walk(fd, on_found, NULL);
        if (err != NULL)
                fail_msg("%s", TRITONSERVER_ErrorMessage(err));
        assert_int_equal(n_found, 1);
        assert_string_equal(found[0], "w=f");
        close(fd);
}

static struct bytes raw(const char *bytes, size_t n) {
        struct bytes b = { .n = n };

        memcpy(b.at, bytes, n);
        return b;
}

#define RAW(text) raw(text, sizeof(text) - 1)

static void test_malformed(void **state) {
        (void)state;
        check_fails(RAW("\x3a"), "within a field");
        check_fails(RAW("\x3a\x05x"), "longer than its message");
        check_fails(RAW("\x3a\x80"), "within a field");
        check_fails(RAW("\x3b\x3c"), "a group");
        check_fails(RAW("\x3c"), "a group");
        check_fails(RAW("\x3e"), "a group");
        check_fails(RAW("\x3f"), "a group");
        check_fails(RAW("\x02\x00"), "no field has such a number");
        check_fails(RAW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "more than 64 bits");
        check_fails(RAW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "more than 64 bits");
        check_fails(RAW("\x39"
                        "1234567"),
                    "longer than its message");
        check_fails(RAW("\x3d"
                        "123"),
                    "longer than its message");
        /* Protobuf would cut this tag to 32 bits, and read a graph. */
        check_fails(RAW("\xba\x80\x80\x80\x10\x00"), "no field has such a number");
        check_fails(RAW("\x3a\xff\xff\xff\xff\x0f"), "longer than its message");
        check_fails(RAW("\x3a\x02\x2a\x01"),
                    "longer than its message"); /* longer than the outer one */
        check_fails(RAW("\x3a"), "Protobuf parsing failed.");
}

static void test_depth(void **state) {
        struct bytes t = in(INITIALIZER, tensor("w", "f"));

        (void)state;
        for (int i = 0; i < 32; i++) /* three messages each, and two around them */
                t = in(NODE, in(ATTRIBUTE, in(6, t)));
        check_finds(graph(t), "w=f");
        t = in(NODE, in(ATTRIBUTE, in(6, t)));
        check_fails(graph(t), "too many messages within each other");
}

static void test_odd_locations(void **state) {
        static char  text[EXTERNAL_DATA_MAX_LOCATION + 2];
        struct bytes nul = none();

        (void)state;
        memset(text, 'x', sizeof(text) - 1);
        check_fails(graph(in(INITIALIZER, tensor("w", text))),
                    "the location of the external data of initializer 'w' has 4097 bytes");
        put(&nul, 1, "location", 8);
        put(&nul, 2, "a\0/../b", 7);
        check_fails(graph(in(INITIALIZER, in(13, nul))), "has a NUL after 'a'");
        memset(text, 'x', EXTERNAL_DATA_MAX_NAME);
        text[EXTERNAL_DATA_MAX_NAME] = '\0';
        n_found = 0;
        assert_null(walk(graph(in(INITIALIZER, tensor(text, "f"))))); /* the name is cut */
        assert_int_equal(n_found, 1);
}

/* ---- locations ------------------------------------------------------------------------------- */

#define FOLDER_TEMPLATE "/tmp/external_data_XXXXXX"
static char folder[sizeof(FOLDER_TEMPLATE)];

static void in_folder(const char *name, char path[static 128]) {
        snprintf(path, 128, "%s/%s", folder, name);
}

static void make_tree(void) {
        static const char *const files[] = { "secret", "1/weights", "1/sub/weights", "1/*" };
        char                     path[128], target[128];

        strcpy(folder, FOLDER_TEMPLATE);
        assert_non_null(mkdtemp(folder));
        in_folder("1", path);
        assert_int_equal(mkdir(path, 0700), 0);
        in_folder("1/sub", path);
        assert_int_equal(mkdir(path, 0700), 0);
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                in_folder(files[i], path);
                close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        }
        in_folder("1/stays", path);
        assert_int_equal(symlink("sub/weights", path), 0);
        in_folder("1/leaves", path);
        in_folder("secret", target);
        assert_int_equal(symlink(target, path), 0);
        in_folder("1/fifo", path);
        assert_int_equal(mkfifo(path, 0600), 0);
}

static void remove_tree(void) {
        static const char *const names[] = { "1/fifo", "1/leaves",  "1/stays",
                                             "1/*",    "1/weights", "1/sub/weights",
                                             "1/sub",  "1",         "secret",
                                             "" };
        char                     path[128];

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                in_folder(names[i], path);
                assert_int_equal(remove(path), 0);
        }
}

static void check_location(const char *model_file, const char *location, bool follows,
                           const char *refusal) {
        struct bytes        model = graph(in(INITIALIZER, tensor("w", location)));
        int                 fd = file_of(&model);
        char                directory[128], text[512];
        TRITONSERVER_Error *err;

        in_folder("1", directory);
        err = external_data_check(fd, directory, model_file, follows);
        close(fd);
        if (refusal == NULL) {
                if (err != NULL)
                        fail_msg("%s: %s", location, TRITONSERVER_ErrorMessage(err));
                return;
        }
        if (err == NULL)
                fail_msg("%s is taken", location);
        snprintf(text, sizeof(text), "the external data of initializer 'w' is at '%s', %s",
                 location, refusal);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), text);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_INVALID_ARG);
        TRITONSERVER_ErrorDelete(err);
}

static void test_locations(void **state) {
#define NOT_WITHIN "which is not a path within the directory of the model's version"
#define LEAVES                                                                                     \
        "a symbolic link that leaves the directory of the model's version; "                       \
        "'--backend-config=onnxruntime,allow-data-links=true' permits it"
#define IRREGULAR "which is not a regular file"
        static const struct {
                const char *location, *refusal;
                const char *with_links; /* the same with links that may lead out */
        } rows[] = {
                { "weights", NULL, NULL },
                { "./sub/weights", NULL, NULL },
                { "leaves", LEAVES, NULL },
                { "/etc/passwd", NOT_WITHIN, NOT_WITHIN },
                { "../secret", NOT_WITHIN, NOT_WITHIN },
                { "sub/../../secret", NOT_WITHIN, NOT_WITHIN },
                { "sub/../weights", NOT_WITHIN, NOT_WITHIN },
                { "..", NOT_WITHIN, NOT_WITHIN },
                { "", NOT_WITHIN, NOT_WITHIN },
                { "sub", IRREGULAR, IRREGULAR },
                { "fifo", IRREGULAR, IRREGULAR },
                { "none", "No such file or directory", "No such file or directory" },
                { "*/_ORT_MEM_ADDR_/*", "which is not the name of a file",
                  "which is not the name of a file" },
                { "*", NULL, NULL },
        };

        (void)state;
        make_tree();
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                check_location("model.onnx", rows[i].location, false, rows[i].refusal);
                check_location("model.onnx", rows[i].location, true, rows[i].with_links);
        }
        check_location("sub/model.onnx", "weights", false, NULL);
        check_location("sub/model.onnx", "stays", false, "No such file or directory");
        check_location("sub/model.onnx", "../weights", false, NOT_WITHIN);
        remove_tree();
        assert_int_equal(fake.n_errors_alive, 0);
}

static void test_link_that_stays(void **state) {
        (void)state;
        SKIP_WHEN_EMULATED("qemu-user of Debian 12 has no openat2()");
        make_tree();
        check_location("model.onnx", "stays", false, NULL);
        check_location("model.onnx", "stays", true, NULL);
        remove_tree();
        assert_int_equal(fake.n_errors_alive, 0);
}

SUITE(external_data) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_place), cmocka_unit_test(test_other_fields),
                cmocka_unit_test(test_pieces),      cmocka_unit_test(test_many),
                cmocka_unit_test(test_large_file),  cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_depth),       cmocka_unit_test(test_odd_locations),
                cmocka_unit_test(test_locations),   cmocka_unit_test(test_link_that_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
