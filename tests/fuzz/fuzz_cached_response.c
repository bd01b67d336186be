/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as what a response cache has kept, from its library (hostile/hostile_cache.c) to the answer over
 * HTTP.
 *
 * The first byte says what the request asks for (flags below), the second one how the cache gives the bytes, the
 * rest is the entry. What must hold: an answer of JSON, or with the binary outputs that its JSON announces;
 * bytes that are no response are as if there were none, so that the model answers.
 */
#include "base/error.h"
#include "codec/json_find.h"
#include "core_api/datatype.h"
#include "expect.h"
#include "whole_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES 16384
#define BYTES_FD 703

enum { ONE_OUTPUT = 1, IS_BINARY = 2, CLASSIFIES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void make_file(void) {
        char path[32];
        int  fd = memfd_create("entry", MFD_CLOEXEC);

        expect_str(fd >= 0 && dup2(fd, BYTES_FD) >= 0, "no file", STR_LIT(""));
        close(fd);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", BYTES_FD);
        setenv("NESO_FUZZ_BYTES", path, 1);
}

static void print_request(struct strbuf *out, unsigned how) {
        strbuf_puts(
                out,
                "{\"inputs\":[{\"name\":\"INPUT0\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[1,"
                "2]}"
                ",{\"name\":\"INPUT1\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a\"]}],");
        strbuf_printf(out,
                      "\"outputs\":[{\"name\":\"OUTPUT0\",\"parameters\":{\"binary_data\":%s%s}}",
                      how & IS_BINARY ? "true" : "false",
                      how & CLASSIFIES ? ",\"classification\":2" : "");
        if ((how & ONE_OUTPUT) == 0)
                strbuf_puts(out, ",{\"name\":\"OUTPUT1\"}");
        strbuf_puts(out, "]}");
}

/* Elements of a JSON tensor are as many as its shape says. */
static void check_output(struct str output, struct str answer) {
        struct str shape = json_find(output, "shape"), data = json_find(output, "data");
        uint64_t   n = 1, n_data = 0;

        if (data.ptr == NULL)
                return;
        JSON_FOR_EACH(shape, dim) {
                uint64_t size = 0;

                expect_str(str_to_u64(dim, &size), "shape", answer);
                n *= size;
        }
        JSON_FOR_EACH(data, element) {
                (void)element;
                n_data++;
        }
        expect_str(n == n_data, "elements", answer);
}

/* Only numbers have classes: an entry whose output is a text is refused. */
static void check_answer(unsigned how, int status, struct str answer) {
        struct error *err = json_check(answer, JSON_OBJECT);

        expect_str(status == 200 || ((how & CLASSIFIES) != 0 && status == 400), "status", answer);
        expect_str(err == NULL, "no JSON", answer);
        JSON_FOR_EACH(json_find(answer, "outputs"), output)
                check_output(output, answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        AUTO_STRBUF request, answer;
        int         status;
        bool        is_first = getenv("NESO_FUZZ_BYTES") == NULL;

        strbuf_init(&request, 0);
        strbuf_init(&answer, 0);
        if (size < 2 || size > MAX_BYTES)
                return 0;
        if (is_first)
                make_file();
        (void)whole_server_get(
                &(struct whole_server_options){ .is_full = true, .cache = "hostile" });
        expect_str(ftruncate(BYTES_FD, 0) == 0 &&
                           pwrite(BYTES_FD, bytes + 1, size - 1, 0) == (ssize_t)size - 1,
                   "not written", STR_LIT(""));
        print_request(&request, bytes[0]);
        status = whole_server_ask("/v2/models/kept/infer", strbuf_str(&request), &answer);
        if ((bytes[0] & IS_BINARY) == 0)
                check_answer(bytes[0], status, strbuf_str(&answer));
        return 0;
}
