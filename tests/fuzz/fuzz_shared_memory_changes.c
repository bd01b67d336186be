/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory that its client changes while the server reads it: a thread writes into the region as fast as
 * it can, while requests use it for inputs and outputs.
 *
 * The first byte says what is asked (flags below), the next six are offset, size and number of elements; the
 * rest is what the region holds and what the thread writes. What must hold: each request has an answer, which
 * is JSON where it says so; and nothing beyond the region is read or written.
 */
#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"
#include "codec/json_find.h"
#include "expect.h"
#include "shm/shared_memory.h"
#include "whole_server.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION_BYTES ((size_t)8192)
#define HEAD_BYTES 7
#define N_REQUESTS 4

enum { IS_TEXT = 1, BATCHES = 2, OUTPUT_TOO = 4, IS_BINARY = 8, CLASSIFIES = 16 };

static unsigned char *region;

/* The writer: idle until it has bytes to write. */
static struct {
        struct thread  thread;
        struct mutex   lock; /* guards bytes, size, is_ending */
        struct cond    changed;
        const uint8_t *bytes;
        size_t         size; /* 0: it is idle */
        bool           is_ending, is_writing;
        atomic_bool    must_stop;
} writer;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* ---- the writer -------------------------------------------------------------------------------- */

/* Places and bytes come from the input; what is written is undone every second time, so that a length is
 * right at one moment and wrong at the next. */
static void write_until_stopped(const uint8_t *bytes, size_t size) {
        uint32_t seed = 1;

        while (!atomic_load_explicit(&writer.must_stop, memory_order_relaxed)) {
                seed = seed * 1664525u + 1013904223u;
                for (size_t i = 0; i < 64; i++) {
                        size_t at = (seed >> 8) % size;

                        ((volatile unsigned char *)region)[at] =
                                (seed & 0x80) != 0 ? bytes[at] : bytes[(at + seed) % size] ^ 0xff;
                        seed = seed * 1664525u + 1013904223u;
                }
        }
}

static void run_writer(void *arg) {
        (void)arg;
        mutex_lock(&writer.lock);
        while (!writer.is_ending) {
                const uint8_t *bytes = writer.bytes;
                size_t         size = writer.size;

                if (size == 0) {
                        cond_wait(&writer.changed, &writer.lock);
                        continue;
                }
                writer.is_writing = true;
                cond_broadcast(&writer.changed);
                mutex_unlock(&writer.lock);
                write_until_stopped(bytes, size);
                mutex_lock(&writer.lock);
                writer.size = 0;
                writer.is_writing = false;
                cond_broadcast(&writer.changed);
        }
        mutex_unlock(&writer.lock);
}

static void begin_writing(const uint8_t *bytes, size_t size) {
        MUTEX_GUARD(&writer.lock);

        atomic_store(&writer.must_stop, false);
        writer.bytes = bytes;
        writer.size = size;
        cond_broadcast(&writer.changed);
        while (!writer.is_writing)
                cond_wait(&writer.changed, &writer.lock);
}

static void end_writing(void) {
        MUTEX_GUARD(&writer.lock);

        atomic_store(&writer.must_stop, true);
        while (writer.is_writing)
                cond_wait(&writer.changed, &writer.lock);
}

static void stop_writer(void) {
        mutex_lock(&writer.lock);
        writer.is_ending = true;
        cond_broadcast(&writer.changed);
        mutex_unlock(&writer.lock);
        thread_join(&writer.thread);
}

/* ---- the requests ------------------------------------------------------------------------------- */

static void start_once(const struct whole_server *s) {
        char             key[64];
        struct shm_place place = { .name = "r", .key = key, .byte_size = REGION_BYTES };
        int              fd;

        if (region != NULL)
                return;
        snprintf(key, sizeof(key), "/neso_fuzz_changes_%ld", (long)getpid());
        fd = shm_open(key, O_RDWR | O_CREAT | O_TRUNC, 0600);
        expect(fd >= 0 && ftruncate(fd, (off_t)REGION_BYTES) == 0, "no object");
        region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        expect(region != MAP_FAILED, "no memory");
        expect(shared_memory_register(s->regions, &place) == NULL, "no region");
        shm_unlink(key);
        close(fd);
        mutex_init(&writer.lock, LOCK_SERVER);
        cond_init(&writer.changed);
        expect(thread_start(&writer.thread, "writer", run_writer, NULL) == NULL, "no thread");
        atexit(stop_writer);
}

static void print_request(struct strbuf *out, const uint8_t *head) {
        unsigned how = head[0], offset = head[1] << 8 | head[2], size = head[3] << 8 | head[4];
        unsigned n = head[5] << 8 | head[6];

        strbuf_printf(out,
                      "{\"inputs\":[{\"name\":\"INPUT0\",\"datatype\":\"%s\",\"shape\":[%s%u],",
                      how & IS_TEXT ? "BYTES" : "FP32", how & BATCHES ? "1," : "", n);
        strbuf_printf(out,
                      "\"parameters\":{\"shared_memory_region\":\"r\",\"shared_memory_offset\":%u,"
                      "\"shared_memory_byte_size\":%u}}],\"outputs\":[{\"name\":\"OUTPUT0\","
                      "\"parameters\":{\"binary_data\":%s",
                      offset, size, how & IS_BINARY ? "true" : "false");
        if (how & OUTPUT_TOO)
                strbuf_printf(out,
                              ",\"shared_memory_region\":\"r\",\"shared_memory_offset\":%u,"
                              "\"shared_memory_byte_size\":%u",
                              offset / 2, size);
        else if (how & CLASSIFIES)
                strbuf_puts(out, ",\"classification\":3");
        strbuf_puts(out, "}}]}");
}

static void ask(const uint8_t *head) {
        const char *path = head[0] & IS_TEXT   ? "/v2/models/texts/infer"
                           : head[0] & BATCHES ? "/v2/models/batches/infer"
                                               : "/v2/models/numbers/infer";
        AUTO_STRBUF request, answer;
        int         status;

        strbuf_init(&request, 0);
        strbuf_init(&answer, 0);
        print_request(&request, head);
        status = whole_server_ask(path, strbuf_str(&request), &answer);
        expect(status == 200 || status == 400 || status == 500, "an unexpected status");
        if (status != 200 || (head[0] & IS_BINARY) == 0) {
                struct error *err = json_check(strbuf_str(&answer), JSON_OBJECT);

                expect(err == NULL, "the answer is no JSON");
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        const struct whole_server *s =
                whole_server_get(&(struct whole_server_options){ .has_regions = true });
        size_t n;

        start_once(s);
        if (size <= HEAD_BYTES)
                return 0;
        n = size - HEAD_BYTES < REGION_BYTES ? size - HEAD_BYTES : REGION_BYTES;
        memcpy(region, bytes + HEAD_BYTES, n);
        begin_writing(bytes + HEAD_BYTES, n);
        for (unsigned i = 0; i < N_REQUESTS; i++)
                ask(bytes);
        end_writing();
        return 0;
}
