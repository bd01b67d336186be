/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that the load generator reads: inputs as JSON or as the bytes of one tensor, prompts, intervals.
 *
 * The first byte chooses the kind of file. What must hold: an error has a text; the values of an entry are as many as
 * its shape has; a sequence lies in the set; a request of these values has a JSON part that is JSON; the moments of a
 * schedule do not go back.
 */
#include "base/compiler.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "expect.h"
#include "load/input_json.h"
#include "load/input_set_private.h"
#include "load/load_options.h"
#include "load/prompt_set.h"
#include "load/request_language.h"
#include "load/request_set.h"
#include "load/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES 16384
#define N_MOMENTS 64

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char metadata[] =
        "{\"name\":\"m\",\"versions\":[\"1\"],\"inputs\":["
        "{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[-1,2]},"
        "{\"name\":\"T\",\"datatype\":\"BYTES\",\"shape\":[-1,-1]},"
        "{\"name\":\"U\",\"datatype\":\"UINT8\",\"shape\":[-1,-1,2]},"
        "{\"name\":\"B\",\"datatype\":\"BOOL\",\"shape\":[-1,1]},"
        "{\"name\":\"D\",\"datatype\":\"FP64\",\"shape\":[-1,-1]},"
        "{\"name\":\"H\",\"datatype\":\"FP16\",\"shape\":[-1,1]}],"
        "\"outputs\":[{\"name\":\"O\",\"datatype\":\"INT32\",\"shape\":[-1,2]},"
        "{\"name\":\"P\",\"datatype\":\"BYTES\",\"shape\":[-1,-1]}]}";
static const char config[] =
        "{\"max_batch_size\":4,\"input\":[{\"name\":\"T\",\"optional\":true},"
        "{\"name\":\"U\",\"optional\":true},{\"name\":\"B\",\"optional\":true},"
        "{\"name\":\"D\",\"optional\":true},{\"name\":\"H\",\"optional\":true}]}";
static struct load_model model;
static struct target     targets[2]; /* of HTTP, of gRPC */
static char              path[64];   /* of the file */
static int               fd;

static void begin(void) {
        static const struct target_options options[] = {
                { .protocol = TARGET_HTTP, .url = "127.0.0.1:1" },
                { .protocol = TARGET_GRPC, .url = "127.0.0.1:1" },
        };

        if (model.name != NULL)
                return;
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
                expect(target_open(&options[i], &targets[i]) == NULL, "target");
        fd = memfd_create("data", MFD_CLOEXEC);
        expect(fd >= 0, "memfd");
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        expect(load_model_read("m", NULL, str_of(metadata), str_of(config), &model) == NULL,
               "model");
}

static void write_file(struct str text) {
        expect(ftruncate(fd, 0) == 0 && pwrite(fd, text.ptr, text.len, 0) == (ssize_t)text.len,
               "file");
}

/* ---- inputs ----------------------------------------------------------------------------------- */

static void check_entry(const struct input_entry *e) {
        for (size_t i = 0; i < model.n_inputs; i++) {
                if (e->inputs[i].bytes.ptr == NULL)
                        expect(model.inputs[i].is_optional, "an input without values");
                else
                        expect(input_check_count(&model.inputs[i], &e->inputs[i]) == NULL,
                               "a shape of other values");
        }
        for (size_t i = 0; e->outputs != NULL && i < model.n_outputs; i++) {
                uint64_t n;

                if (e->outputs[i].bytes.ptr != NULL)
                        expect(input_count_elements(&model.outputs[i], e->outputs[i].bytes, &n),
                               "an expected element is cut");
        }
}

/* The JSON part of a request of HTTP; the binary values follow it. */
static void check_json_part(const struct wire_message *m) {
        AUTO_STRBUF whole = { 0 };
        struct str  text, head;
        const char *body, *length;

        strbuf_put(&whole, m->before.ptr, m->before.len);
        strbuf_put(&whole, m->after.ptr, m->after.len);
        text = strbuf_str(&whole);
        body = memmem(text.ptr, text.len, "\r\n\r\n", 4);
        length = memmem(text.ptr, text.len, "Inference-Header-Content-Length: ", 33);
        expect(body != NULL, "no body");
        head = str_skip(text, (size_t)(body + 4 - text.ptr));
        if (length != NULL && length < body) {
                size_t n = (size_t)strtoul(length + 33, NULL, 10);

                expect(n <= head.len, "the JSON part is longer than the body");
                head.len = n;
        }
        expect(json_check(head, JSON_OBJECT) == NULL, "the JSON part is no JSON");
}

static void make_requests(const struct input_set *s, bool is_json) {
        for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
                struct request_options o = { .batch = 1,
                                             .input_is_json = is_json,
                                             .output_is_json = is_json };
                struct request_set     requests;

                if (!end_error(request_set_make(&targets[i], &model, s, &o, &requests)))
                        continue;
                for (size_t k = 0; k < requests.n && targets[i].protocol == TARGET_HTTP; k++)
                        check_json_part(&requests.messages[k]);
                request_set_done(&requests);
        }
}

static void check_set(const struct input_set *s) {
        for (size_t i = 0; i < s->n_entries; i++)
                check_entry(&s->entries[i]);
        for (size_t i = 0; i < s->n_streams; i++)
                expect(s->streams[i].n > 0 && s->streams[i].first <= s->n_entries &&
                               s->streams[i].n <= s->n_entries - s->streams[i].first,
                       "a sequence beyond the set");
        make_requests(s, false);
        make_requests(s, true);
}

static void read_inputs(struct str text) {
        char                *sources[] = { path };
        struct input_options o = { .sources = sources, .n_sources = 1 };
        struct input_set     set;

        write_file(text);
        if (!end_error(input_set_make(&model, &o, &set)))
                return;
        check_set(&set);
        input_set_done(&set);
}

/* A directory with a file for the input A, or for T. */
static void read_tensor(struct str text) {
        char                 directory[] = "/dev/shm/neso-fuzz-XXXXXX", name[sizeof(directory) + 2];
        char                *sources[] = { directory };
        static char          shape[] = "T:2";
        char                *shapes[] = { shape };
        struct input_options o = {
                .sources = sources, .n_sources = 1, .shapes = shapes, .n_shapes = 1
        };
        static const char names[] = "ATOP";
        struct input_set  set;

        expect(mkdtemp(directory) != NULL, "directory");
        for (size_t i = 0; i < 4; i++) {
                FILE *f;

                (void)snprintf(name, sizeof(name), "%s/%c", directory, names[i]);
                f = fopen(name, "we");
                expect(f != NULL, "file");
                if (i == 0 && text.len != 8)
                        fwrite("\1\0\0\0\2\0\0\0", 8, 1, f);
                else
                        fwrite(text.ptr, 1, text.len, f);
                fclose(f);
        }
        if (end_error(input_set_make(&model, &o, &set))) {
                make_requests(&set, false);
                make_requests(&set, true);
                input_set_done(&set);
        }
        for (size_t i = 0; i < 4; i++) {
                (void)snprintf(name, sizeof(name), "%s/%c", directory, names[i]);
                unlink(name);
        }
        rmdir(directory);
}

/* ---- prompts ---------------------------------------------------------------------------------- */

static void read_prompts(struct str text) {
        struct prompt_options           o = { .path = path };
        struct prompt_set               prompts;
        struct request_set              requests;
        struct language_request_options l = {
                .target = &targets[0],
                .model = &model,
                .prompts = &prompts,
                .batch = 1,
        };

        write_file(text);
        if (!end_error(prompt_set_make(&o, &prompts)))
                return;
        expect(prompts.n > 0, "no prompt");
        for (int e = LANGUAGE_CHAT; e <= LANGUAGE_EMBEDDINGS; e++) {
                l.endpoint = (enum language_endpoint)e;
                if (!end_error(request_set_make_language(&l, &requests)))
                        continue;
                for (size_t i = 0; i < requests.n; i++)
                        check_json_part(&requests.messages[i]);
                request_set_done(&requests);
        }
        prompt_set_done(&prompts);
}

/* ---- intervals -------------------------------------------------------------------------------- */

static void read_intervals(struct str text) {
        struct load_values v;
        struct load_plan   plan;

        write_file(text);
        option_table_init(&load_option_table, &v, sizeof(v));
        free(v.intervals);
        v.intervals = mem_strdup(path);
        v.model = mem_strdup("m");
        if (end_error(load_plan_read(&v, &plan))) {
                struct schedule_options o = { .kind = SCHEDULE_INTERVALS,
                                              .intervals_ns = plan.intervals_ns,
                                              .n_intervals = plan.n_intervals,
                                              .n_parts = 1 };
                struct schedule         s;
                uint64_t                last = 0;

                expect(plan.n_intervals > 0, "no interval");
                schedule_init(&s, &o, 0);
                for (size_t i = 0; i < N_MOMENTS; i++, schedule_advance(&s)) {
                        expect(schedule_next(&s) >= last, "a moment before the last one");
                        last = schedule_next(&s);
                }
                load_plan_done(&plan);
        }
        option_table_done(&load_option_table, &v);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        static void (*const kinds[])(struct str text) = { read_inputs, read_prompts, read_intervals,
                                                          read_tensor };

        if (size == 0 || size > MAX_BYTES)
                return 0;
        begin();
        kinds[bytes[0] % ARRAY_LEN(kinds)](str_range((const char *)bytes + 1, size - 1));
        return 0;
}
