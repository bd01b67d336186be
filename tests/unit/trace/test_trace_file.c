/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "trace/trace_file.h"
#include "trace/trace_fixture.h"
#include "trace/trace_json.h"
#include "trace/trace_writer.h"
#include "triton/core/tritonserver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- elements -------------------------------------------------------------------------------- */

static void assert_printed(const struct trace_record *r, const char *wanted) {
        AUTO_STRBUF text = { 0 };
        bool        was_hit = true;

        strbuf_init(&text, 0);
        trace_json_print(r, &text);
        assert_string_equal(strbuf_cstr(&text), wanted);
        for (unsigned n = 1; was_hit; n++) { /* memory that is short for one allocation */
                strbuf_done(&text);
                mem_fail_once(n);
                trace_json_print(r, &text);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (!text.overflowed)
                        assert_string_equal(strbuf_cstr(&text), wanted);
        }
}

static void test_elements(void **state) {
        struct trace_record    *r = record_new(NULL);
        struct trace_inference *i;

        (void)state;
        assert_printed(r, "");
        i = record_add(r, 3, 0, "m\"", "");
        record_add(r, 4, 3, "n", "id");
        record_point(r, NULL, -1, "HTTP_RECV_START", 11);
        record_point(r, i, TRITONSERVER_TRACE_REQUEST_START, "REQUEST_START", 12);
        record_point(r, i, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, "MINE", 13);
        assert_printed(r, "{\"id\":3,\"model_name\":\"m\\\"\",\"model_version\":1},"
                          "{\"id\":4,\"model_name\":\"n\",\"model_version\":1,"
                          "\"request_id\":\"id\",\"parent_id\":3},"
                          "{\"id\":3,\"timestamps\":[{\"name\":\"HTTP_RECV_START\",\"ns\":11}]},"
                          "{\"id\":3,\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":12}]},"
                          "{\"id\":3,\"timestamps\":[{\"name\":\"CUSTOM_ACTIVITY\",\"ns\":13,"
                          "\"activity\":\"MINE\"}]}");
        trace_record_free(r);
}

static void test_tensor_rows(void **state) {
        static const struct {
                TRITONSERVER_DataType type;
                const char           *bytes;
                size_t                n;
                const char           *reported;
        } rows[] = {
                { TRITONSERVER_TYPE_BOOL, "\1\0", 2, "1,0" },
                { TRITONSERVER_TYPE_UINT8, "\1\xff", 2, "1,255" },
                { TRITONSERVER_TYPE_INT8, "\1\xff", 2, "1,-1" },
                { TRITONSERVER_TYPE_INT64, "\1\0\0\0\0\0\0\0", 8, "1" },
                { TRITONSERVER_TYPE_FP32, "\0\0\0\x3f", 4, "0.5" },
                { TRITONSERVER_TYPE_FP16, "\0\x3c\0\xc0", 4, "1.0,-2.0" },
                { TRITONSERVER_TYPE_BF16, "\x80\x3f", 2, "1.0" },
                { TRITONSERVER_TYPE_BYTES, "\1\0\0\0a\0\0\0\0", 9, "\\\"a\\\",\\\"\\\"" },
                { TRITONSERVER_TYPE_BYTES, "\1\0\0\0a\7\0\0\0b", 10, "\\\"a\\\"" },
                { TRITONSERVER_TYPE_BYTES, "\1\0\0", 3, "" },
                { TRITONSERVER_TYPE_INT32, "", 0, "" },
        };
        static const int64_t shape[2] = { 1, -1 };

        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
                struct trace_record *r = record_new(NULL);
                AUTO_CHARS           wanted =
                        mem_printf("{\"id\":1,\"model_name\":\"m\",\"model_version\":1},"
                                   "{\"id\":1,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{"
                                   "\"name\":\"IN\",\"data\":\"%s\",\"shape\":\"1,-1\","
                                   "\"dtype\":\"%s\"}}",
                                   rows[k].reported, TRITONSERVER_DataTypeString(rows[k].type));

                record_tensor(r, &(struct trace_tensor){ .inference = record_add(r, 1, 0, "m", ""),
                                                         .activity = "TENSOR_QUEUE_INPUT",
                                                         .name = "IN",
                                                         .type = (int)rows[k].type,
                                                         .shape = shape,
                                                         .n_dims = 2,
                                                         .bytes = rows[k].bytes,
                                                         .n_bytes = rows[k].n });
                assert_printed(r, wanted);
                trace_record_free(r);
        }
}

static void test_tensor_that_did_not_fit(void **state) {
        struct trace_record *r = record_new(NULL);

        (void)state;
        record_tensor(r, &(struct trace_tensor){ .inference = record_add(r, 1, 0, "m", ""),
                                                 .activity = "TENSOR_QUEUE_INPUT",
                                                 .name = "IN",
                                                 .type = TRITONSERVER_TYPE_INT8,
                                                 .n_bytes = 1 << 30 });
        assert_printed(r, "{\"id\":1,\"model_name\":\"m\",\"model_version\":1},"
                          "{\"id\":1,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{\"name\":"
                          "\"IN\",\"data\":\"\",\"shape\":\"\",\"dtype\":\"INT8\","
                          "\"omitted_bytes\":1073741824}}");
        trace_record_free(r);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define MAX_FILES 3

struct place {
        char               folder[32];
        char              *path; /* owned */
        struct trace_sink *sink;
};

static void begin(struct place *p) {
        strcpy(p->folder, "/tmp/neso_traces_XXXXXX");
        assert_non_null(mkdtemp(p->folder));
        p->path = path_join(p->folder, "t.json");
        p->sink = trace_file_new(p->path, MAX_FILES);
}

/* The names there are, and each is the text that is wanted. */
static void end(struct place *p, const char *const (*wanted)[2], size_t n_wanted) {
        struct dir_list names;

        p->sink->ops->free(p->sink);
        assert_null(dir_list_read(p->folder, &names));
        assert_int_equal(names.n_names, n_wanted);
        for (size_t i = 0; i < n_wanted; i++) {
                AUTO_CHARS  path = path_join(p->folder, names.names[i]);
                AUTO_STRBUF text = { 0 };

                assert_string_equal(names.names[i], wanted[i][0]);
                assert_null(file_read(path, 1 << 20, &text));
                assert_string_equal(strbuf_cstr(&text), wanted[i][1]);
                unlink(path);
        }
        dir_list_done(&names);
        rmdir(p->folder);
        free(p->path);
}

static bool has_indexed(const struct place *p, int index) {
        AUTO_CHARS path = mem_printf("%s.%d", p->path, index);

        return file_exists(path);
}

static void remove_indexed(const struct place *p, int index) {
        AUTO_CHARS path = mem_printf("%s.%d", p->path, index);

        assert_int_equal(unlink(path), 0);
}

static struct trace_source *source_new(int32_t count, uint32_t log_frequency) {
        struct trace_source *s = calloc(1, sizeof(*s));

        assert_non_null(s);
        ref_init(&s->ref);
        s->values = (struct trace_values){ 4, 1, count, log_frequency };
        return s;
}

static void take(struct place *p, struct trace_source *s, const char *model) {
        struct trace_record *r = record_new(s);

        atomic_fetch_add(&s->n_sampled, 1);
        record_add(r, 1, 0, model, "");
        p->sink->ops->take(p->sink, r);
}

#define ELEMENT(m) "{\"id\":1,\"model_name\":\"" m "\",\"model_version\":1}"

static void test_rest(void **state) {
        static const char *const wanted[][2] = {
                { "t.json", "[" ELEMENT("a") "," ELEMENT("b") "," ELEMENT("c") "]" },
        };
        struct place         p;
        struct trace_source *s = source_new(-1, 0), *other = source_new(-1, 0);

        (void)state;
        begin(&p);
        take(&p, s, "a");
        take(&p, s, "b");
        assert_false(file_exists(p.path));
        atomic_store(&s->is_retired, true);
        p.sink->ops->on_change(p.sink);
        assert_true(file_exists(p.path));
        take(&p, other, "c");
        trace_source_unref(s);
        trace_source_unref(other);
        end(&p, wanted, ARRAY_LEN(wanted));
}

static void test_retired_while_some_are_under_way(void **state) {
        static const char *const wanted[][2] = { { "t.json",
                                                   "[" ELEMENT("a") "," ELEMENT("b") "]" } };
        struct place             p;
        struct trace_source     *s = source_new(-1, 0);

        (void)state;
        begin(&p);
        take(&p, s, "a");
        atomic_fetch_add(&s->n_sampled, 2); /* one will be dropped */
        atomic_store(&s->is_retired, true);
        p.sink->ops->on_change(p.sink);
        assert_false(file_exists(p.path));
        atomic_fetch_add(&s->n_dropped, 1);
        p.sink->ops->on_change(p.sink);
        assert_false(file_exists(p.path));
        atomic_fetch_sub(&s->n_sampled, 1);
        take(&p, s, "b");
        assert_true(file_exists(p.path));
        assert_int_equal(atomic_load(&s->ref.count), 1);
        trace_source_unref(s);
        end(&p, wanted, ARRAY_LEN(wanted));
}

static void test_log_frequency(void **state) {
        static const char *const wanted[][2] = {
                { "t.json.0", "[" ELEMENT("a") "," ELEMENT("b") "]" },
                { "t.json.1", "[" ELEMENT("c") "," ELEMENT("d") "]" },
                { "t.json.2", "[" ELEMENT("e") "]" },
        };
        struct place         p;
        struct trace_source *s = source_new(-1, 2);

        (void)state;
        begin(&p);
        for (int i = 0; i < 5; i++)
                take(&p, s, (const char *[]){ "a", "b", "c", "d", "e" }[i]);
        trace_source_unref(s);
        end(&p, wanted, ARRAY_LEN(wanted));
}

/* At the limit records go to <file>. The removal of the oldest numbered file makes room for one. */
static void test_limit_of_files(void **state) {
        static const char *const wanted[][2] = {
                { "t.json", "[" ELEMENT("b") "," ELEMENT("c") "," ELEMENT("e") "]" },
        };
        struct place         p;
        struct trace_source *s = source_new(-1, 1), *counted = source_new(1, 0);

        (void)state;
        begin(&p);
        for (int i = 0; i < MAX_FILES; i++)
                take(&p, s, "a");
        assert_true(has_indexed(&p, MAX_FILES - 1));
        assert_false(file_exists(p.path));
        take(&p, s, "b");
        atomic_store(&counted->is_used_up, true);
        take(&p, counted, "c");
        assert_false(has_indexed(&p, MAX_FILES));
        remove_indexed(&p, 0);
        take(&p, s, "d");
        assert_true(has_indexed(&p, MAX_FILES));
        take(&p, s, "e");
        for (int i = 1; i <= MAX_FILES; i++)
                remove_indexed(&p, i);
        trace_source_unref(s);
        trace_source_unref(counted);
        end(&p, wanted, ARRAY_LEN(wanted));
}

static void assert_text(const char *path, const char *wanted) {
        AUTO_STRBUF text = { 0 };

        assert_null(file_read(path, 1 << 20, &text));
        assert_string_equal(strbuf_cstr(&text), wanted);
}

static void take_and_end(struct place *p, int32_t log_frequency, const char *model) {
        struct trace_source *s = source_new(-1, (uint32_t)log_frequency);

        take(p, s, model);
        atomic_store(&s->is_retired, true);
        p->sink->ops->on_change(p->sink);
        trace_source_unref(s);
}

/* A program that rotates logs renames the file, or copies and empties it: the next records begin a new array. */
static void test_rotation(void **state) {
        static const char *const wanted[][2] = {
                { "t.json", "[" ELEMENT("d") "," ELEMENT("e") "]" },
                { "t.json.old", "[" ELEMENT("a") "," ELEMENT("b") "]" },
        };
        struct place p;

        (void)state;
        begin(&p);
        AUTO_CHARS old = mem_printf("%s.old", p.path);

        take_and_end(&p, 0, "a");
        take_and_end(&p, 0, "b");
        assert_int_equal(rename(p.path, old), 0);
        take_and_end(&p, 0, "c");
        assert_text(p.path, "[" ELEMENT("c") "]");
        assert_int_equal(truncate(p.path, 0), 0);
        take_and_end(&p, 0, "d");
        take_and_end(&p, 0, "e");
        end(&p, wanted, ARRAY_LEN(wanted));
}

static void test_count(void **state) {
        static const char *const wanted[][2] = {
                { "t.json.0", "[" ELEMENT("a") "," ELEMENT("b") "]" },
        };
        struct place         p;
        struct trace_source *s = source_new(2, 0);

        (void)state;
        begin(&p);
        take(&p, s, "a");
        atomic_fetch_add(&s->n_sampled, 1);
        atomic_store(&s->is_used_up, true);
        p.sink->ops->on_change(p.sink);
        atomic_fetch_sub(&s->n_sampled, 1);
        take(&p, s, "b");
        assert_int_equal(atomic_load(&s->ref.count), 1);
        trace_source_unref(s);
        end(&p, wanted, ARRAY_LEN(wanted));
}

static void add_dropped(void *owner, uint64_t n) {
        *(uint64_t *)owner += n;
}

static void limit_files(rlim_t max_bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = max_bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static struct trace_writer *start_writer(struct place *p, uint64_t *n_dropped) {
        struct trace_writer *writer;

        assert_null(trace_writer_start(&(struct trace_writer_options){ .sink = p->sink,
                                                                       .max_spans = 10,
                                                                       .max_bytes = 1000,
                                                                       .batch_spans = 1,
                                                                       .stop_ns = NS_PER_S,
                                                                       .on_drop = add_dropped,
                                                                       .owner = n_dropped },
                                       &writer));
        return writer;
}

/* A file without room stays an array of what was written before, and a new one is removed; the records
 * are counted. */
static void test_full_disk(void **state) {
        struct place         p;
        struct trace_writer *writer;
        uint64_t             n_dropped = 0;

        (void)state;
        begin(&p);
        signal(SIGXFSZ, SIG_IGN);
        writer = start_writer(&p, &n_dropped);
        take_and_end(&p, 0, "a");
        limit_files(sizeof("[" ELEMENT("a") "]") + 10);
        take_and_end(&p, 0, "b");
        assert_int_equal(n_dropped, 1);
        assert_text(p.path, "[" ELEMENT("a") "]");
        limit_files(10);
        take_and_end(&p, 1, "c");
        assert_int_equal(n_dropped, 2);
        assert_false(has_indexed(&p, 0));
        limit_files(RLIM_INFINITY);
        take_and_end(&p, 0, "d");
        assert_text(p.path, "[" ELEMENT("a") "," ELEMENT("d") "]");
        trace_writer_stop(writer);
        unlink(p.path);
        rmdir(p.folder);
        free(p.path);
}

/* The name of the file may be that of a device, or a link that others use. */
static void test_full_device(void **state) {
        struct place         p;
        struct trace_writer *writer;
        uint64_t             n_dropped = 0;
        char                 target[sizeof("/dev/full")] = "";

        (void)state;
        begin(&p);
        assert_int_equal(symlink("/dev/full", p.path), 0);
        writer = start_writer(&p, &n_dropped);
        take_and_end(&p, 0, "a");
        assert_int_equal(n_dropped, 1);
        assert_int_equal(readlink(p.path, target, sizeof(target)), sizeof("/dev/full") - 1);
        trace_writer_stop(writer);
        unlink(p.path);
        rmdir(p.folder);
        free(p.path);
}

/* Its reader has gone: the record is lost, and the writer ends. */
static void test_pipe_without_a_reader(void **state) {
        struct place         p;
        struct trace_writer *writer;
        uint64_t             n_dropped = 0;

        (void)state;
        begin(&p);
        assert_int_equal(mkfifo(p.path, 0600), 0);
        writer = start_writer(&p, &n_dropped);
        alarm(20);
        take_and_end(&p, 0, "a");
        assert_int_equal(n_dropped, 1);
        trace_writer_stop(writer);
        alarm(0);
        unlink(p.path);
        rmdir(p.folder);
        free(p.path);
}

static void test_check_of_a_pipe(void **state) {
        struct place  p;
        struct error *err;
        AUTO_CHARS    text = NULL;
        int           fd;

        (void)state;
        begin(&p);
        text = mem_printf("trace file '%s' can not be written: Illegal seek", p.path);
        assert_int_equal(mkfifo(p.path, 0600), 0);
        fd = open(p.path, O_RDONLY | O_NONBLOCK);
        err = trace_file_check(p.path);
        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_true(file_exists(p.path));
        error_free(err);
        close(fd);
        unlink(p.path);
        rmdir(p.folder);
        p.sink->ops->free(p.sink);
        free(p.path);
}

static void test_check(void **state) {
        AUTO_ERROR err = trace_file_check("/nowhere/at/all");

        (void)state;
        assert_non_null(err);
        assert_string_equal(err->message, "trace file '/nowhere/at/all' can not be written: "
                                          "No such file or directory");
}

SUITE(trace_file) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_elements),
                cmocka_unit_test(test_tensor_rows),
                cmocka_unit_test(test_tensor_that_did_not_fit),
                cmocka_unit_test(test_rest),
                cmocka_unit_test(test_retired_while_some_are_under_way),
                cmocka_unit_test(test_log_frequency),
                cmocka_unit_test(test_limit_of_files),
                cmocka_unit_test(test_rotation),
                cmocka_unit_test(test_count),
                cmocka_unit_test(test_full_disk),
                cmocka_unit_test(test_full_device),
                cmocka_unit_test(test_pipe_without_a_reader),
                cmocka_unit_test(test_check),
                cmocka_unit_test(test_check_of_a_pipe),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
