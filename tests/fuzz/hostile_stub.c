/* SPDX-License-Identifier: BSD-3-Clause */
/* The other side of fuzz_python_channel.c: a process that the python backend starts in place of an
 * interpreter, and that writes into the shared memory what the file named by NESO_FUZZ_BYTES says.
 *
 * It begins as a stub does (one segment, SHM_HELLO, SHM_STARTED), so that requests reach it. Then each step is a
 * byte, and the bytes that it needs:
 *
 *     0 k h b n n v   a message: kind, handle, block of the segment, size, value
 *     1 o o n ...     n bytes at an offset of the segment
 *     2 o o w w w w   a word of the header
 *     3               waits for an execution and claims it
 *     4 n (o v)*n     the result of the execution that was claimed, with n bytes of it changed
 *     5 k n (o v)*n   a call of that kind, with n bytes of it changed
 *     6 b             gives a block of the server back
 *     7 g u           offers another segment: granule, units
 */
#include "python/shm_layout.h"
#include "python/shm_slot.h"
#include "python/shm_sync.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEGMENT_UNITS 8
#define SEGMENT_BYTES (SEGMENT_UNITS * SHM_UNIT)
#define FIRST_BLOCK ((uint32_t)(SHM_STUB_AREA / SHM_BLOCK))
#define MAX_BYTES 65536
#define MAX_STEPS 512
#define WAIT_NS 50000000u

static struct shm_header   *h;
static unsigned char       *segment;
static unsigned char        bytes[MAX_BYTES];
static size_t               size, at;
static struct shm_execution claimed;

static unsigned next_byte(void) {
        return at < size ? bytes[at++] : 0;
}

static unsigned next_word(void) {
        unsigned high = next_byte();

        return high << 8 | next_byte();
}

static void send_message(const struct shm_message *m) {
        uint32_t tail = atomic_load(&h->message_tail);

        h->messages[tail % SHM_MESSAGES] = *m;
        atomic_store(&h->message_tail, tail + 1);
        shm_wake(&h->receiver_sleep, SHM_NAPPING);
        shm_wake(&h->executor_sleep, SHM_NAPPING);
}

/* All waits together take at most twice the first one: an input may be full of them. */
static uint32_t next_wait_ns(void) {
        static uint32_t ns = 2 * WAIT_NS;

        ns /= 2;
        return ns;
}

static void offer(uint32_t index, uint32_t granule, uint32_t n_units) {
        struct shm_segment_record *r = &h->stub_segments[index];

        r->granule = granule;
        r->n_units = n_units;
        atomic_store(&r->state, SHM_SEGMENT_OFFERED);
        send_message(&(struct shm_message){ .kind = SHM_GROW, .handle = index });
        (void)shm_futex_wait(&r->state, SHM_SEGMENT_OFFERED, next_wait_ns());
}

/* Sends a record that lies at the begin of a block, after some of its bytes were changed. */
static void change(unsigned char *record, size_t record_bytes) {
        for (unsigned n = next_byte() % 16; n > 0; n--) {
                unsigned offset = next_byte();

                record[offset % record_bytes] = (unsigned char)next_byte();
        }
}

static void put(uint32_t kind, uint32_t handle, const void *record, uint32_t n_bytes) {
        static uint32_t next_block = 64; /* behind what steps write */
        uint32_t        block = next_block;

        next_block += (n_bytes + SHM_BLOCK - 1) / SHM_BLOCK;
        if ((uint64_t)next_block * SHM_BLOCK > SEGMENT_BYTES)
                exit(0);
        memcpy(segment + (size_t)block * SHM_BLOCK, record, n_bytes);
        send_message(&(struct shm_message){
                .kind = kind, .handle = handle, .block = FIRST_BLOCK + block, .n_bytes = n_bytes });
}

/* ---- steps -------------------------------------------------------------------------------------- */

static void claim(void) {
        uint32_t head = atomic_load(&h->execution_head);

        if (atomic_load(&h->execution_tail) == head) {
                atomic_store(&h->stub_sleep, SHM_ASLEEP);
                if (atomic_load(&h->execution_tail) == head)
                        (void)shm_futex_wait(&h->stub_sleep, SHM_ASLEEP, next_wait_ns());
                atomic_store(&h->stub_sleep, SHM_AWAKE);
        }
        if (atomic_load(&h->execution_tail) == head)
                return;
        claimed = h->executions[head % (2 * SHM_MAX_DEPTH)];
        atomic_store(&h->execution_head, head + 1);
        if (claimed.kind == SHM_FINALIZE)
                exit(0);
        (void)shm_slot_claim(&h->slots[claimed.slot % SHM_MAX_DEPTH].word, claimed.generation);
        h->slots[claimed.slot % SHM_MAX_DEPTH].claim_ns = shm_clock_ns();
}

/* Appends a part of a record; returns its place. */
static uint32_t append(unsigned char *record, uint32_t *n_bytes, const void *part,
                       size_t part_bytes) {
        uint32_t place = *n_bytes;

        memcpy(record + place, part, part_bytes);
        *n_bytes += (uint32_t)part_bytes;
        return place;
}

/* For the execution's only request: 0 is the handle of the first request of an instance. */
static void answer(void) {
        static const int64_t dims[1] = { 8 };
        unsigned char        record[512] = { 0 };
        struct shm_result    head = { .n_items = 1 };
        struct shm_answer    answer = { .kind = SHM_ANSWER_OK, .n_outputs = 1 };
        struct shm_tensor    tensor = { .type = 6 /* INT8 */, .n_dims = 1, .n_bytes = 8 };
        uint32_t             n = sizeof(head) + sizeof(struct shm_result_item);

        tensor.data = SHM_STUB_AREA;
        tensor.dims = append(record, &n, dims, sizeof(dims));
        answer.outputs = append(record, &n, &tensor, sizeof(tensor));
        memcpy(record, &head, sizeof(head));
        memcpy(record + sizeof(head),
               &(struct shm_result_item){ .release_flags = 1,
                                          .answer = append(record, &n, &answer, sizeof(answer)) },
               sizeof(struct shm_result_item));
        change(record, n);
        h->slots[claimed.slot % SHM_MAX_DEPTH].end_ns = shm_clock_ns();
        put(SHM_RESULT, claimed.slot, record, n);
}

/* A request to the model "numbers"; its bytes are those of the segment. */
static uint32_t append_infer(unsigned char *record, uint32_t *n_bytes) {
        static const char    texts[24] = "numbersINPUT0{\"a\":1}";
        static const int64_t dims[1] = { 2 };
        struct shm_tensor    tensor = { .name_index = SHM_NO_INDEX,
                                        .name = { sizeof(struct shm_infer) + 7, 6 },
                                        .type = 11 /* FP32 */,
                                        .n_dims = 1,
                                        .data = SHM_STUB_AREA,
                                        .n_bytes = 8 };
        struct shm_infer     infer = { .n_inputs = 1,
                                       .model = { sizeof(infer), 7 },
                                       .parameters = { sizeof(infer) + 13, 7 },
                                       .version = -1,
                                       .execution = claimed.slot,
                                       .n_requests = 1 };
        uint32_t             place = *n_bytes, handles = 0;

        *n_bytes += sizeof(infer);
        append(record, n_bytes, texts, sizeof(texts));
        tensor.dims = append(record, n_bytes, dims, sizeof(dims)) - place;
        infer.inputs = append(record, n_bytes, &tensor, sizeof(tensor)) - place;
        infer.requests = append(record, n_bytes, &handles, sizeof(handles)) - place;
        memcpy(record + place, &infer, sizeof(infer));
        return place;
}

/* A question (services.c). */
static uint32_t append_text(unsigned char *record, uint32_t *n_bytes) {
        static const char *const asks[] = { "family_new",    "family_delete", "metric_new",
                                            "metric_delete", "metric_value",  "ready",
                                            "load",          "unload" };
        char                     text[256] = { 0 };

        snprintf(text, sizeof(text),
                 "{\"ask\":\"%s\",\"name\":\"a\",\"kind\":0,\"description\":\"b\",\"family\":0,"
                 "\"labels\":{\"c\":\"d\"},\"buckets\":[1,2],\"id\":0,\"model\":\"texts\"}",
                 asks[next_byte() % 8]);
        return append(record, n_bytes, text, strlen(text));
}

static void call(void) {
        unsigned char   record[1024] = { 0 };
        uint32_t        n = sizeof(struct shm_call);
        struct shm_call c = { .kind = next_byte(), .id = 1 };

        c.payload = c.kind == SHM_CALL_TEXT ? append_text(record, &n) : append_infer(record, &n);
        c.n_bytes = n - c.payload;
        memcpy(record, &c, sizeof(c));
        change(record, n);
        put(SHM_CALL, c.handle, record, n);
}

static void write_bytes(void) {
        unsigned offset = next_word(), n = next_byte();

        for (unsigned i = 0; i < n; i++)
                segment[(offset + i) % SEGMENT_BYTES] = (unsigned char)next_byte();
}

static void write_word(void) {
        unsigned offset = next_word() * 4u;
        uint32_t word = next_word() << 16;

        word |= next_word();
        if (offset + sizeof(word) <= sizeof(*h))
                memcpy((char *)h + offset, &word, sizeof(word));
}

static void message(void) {
        struct shm_message m = { .kind = next_byte(), .handle = next_byte() };

        m.block = FIRST_BLOCK + next_byte();
        m.n_bytes = next_word();
        m.value = next_byte();
        send_message(&m);
}

static void give_back(void) {
        atomic_store(&h->released, (uint32_t)(SHM_SERVER_AREA / SHM_BLOCK) + next_byte());
}

static void step(void) {
        unsigned granule;

        switch (next_byte() % 8) {
        case 0: message(); break;
        case 1: write_bytes(); break;
        case 2: write_word(); break;
        case 3: claim(); break;
        case 4: answer(); break;
        case 5: call(); break;
        case 6: give_back(); break;
        default: granule = next_byte(); offer(1 + granule % 4, granule, next_byte());
        }
}

static void *map(uint64_t offset, size_t n_bytes) {
        void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, SHM_MEMORY_FD,
                       (off_t)offset);

        if (p == MAP_FAILED)
                exit(1);
        return p;
}

int main(void) {
        const char       *path = getenv("NESO_FUZZ_BYTES");
        FILE             *file = path != NULL ? fopen(path, "rb") : NULL;
        struct shm_answer started = { .kind = SHM_ANSWER_OK };

        if (file == NULL)
                return 1;
        size = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        h = map(0, SHM_HEADER_BYTES);
        segment = map(SHM_STUB_AREA, SEGMENT_BYTES);
        memset(segment, 1, SHM_BLOCK);
        offer(0, 0, SEGMENT_UNITS);
        send_message(&(struct shm_message){ .kind = SHM_HELLO });
        put(SHM_STARTED, 0, &started, sizeof(started));
        for (unsigned i = 0; at < size && i < MAX_STEPS; i++)
                step();
        return 0;
}
