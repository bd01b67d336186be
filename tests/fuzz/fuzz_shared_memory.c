/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as what clients do with shared memory. The first one chooses: the body of a register
 * request, of either kind; or a list of steps on a registry with regions of a real object, each step 18 bytes: what
 * to do, the region, offset and size.
 *
 * Keys come in bodies only, and what they name is not opened. The steps know one object, made for
 * them: nothing else on this machine is mapped.
 */
#include "base/mem.h"
#include "call/infer_call.h"
#include "expect.h"
#include "http/http_handlers.h"
#include "shm/shared_memory.h"
#include "shm/shm_region.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OBJECT_PAGES 4
#define STEP_BYTES 18
#define MAX_STEPS 64

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile unsigned char sink;

/* A handle of any length is read; without GPUs nothing is opened. */
static void read_cuda_body(struct str body, struct arena *arena) {
        struct cuda_place place = { .name = "r", .device = -1 };
        struct error     *err = http_shm_decode_cuda(body, arena, &place);

        EXPECT((place.handle.ptr != NULL) == (err == NULL) && (place.device >= 0) == (err == NULL));
        for (size_t i = 0; i < place.handle.len; i++)
                sink = (unsigned char)place.handle.ptr[i];
        error_free(err);
}

static void read_body(struct str body) {
        struct shm_place place = { .name = "r" };
        struct arena     arena;
        struct error    *err;
        char            *copy = malloc(body.len > 0 ? body.len : 1);

        if (copy == NULL)
                return;
        memcpy(copy, body.ptr, body.len);
        arena_init(&arena, NULL, 0, 0);
        err = http_shm_decode(str_range(copy, body.len), &arena, &place);
        EXPECT((place.key != NULL) == (err == NULL));
        if (err == NULL)
                err = shm_region_check_key("r", place.key);
        if (err == NULL)
                EXPECT(place.key[0] != '\0' &&
                       strchr(place.key + strspn(place.key, "/"), '/') == NULL);
        error_free(err);
        read_cuda_body(str_range(copy, body.len), &arena);
        arena_done(&arena);
        free(copy);
}

/* ---- steps ---- */

struct object {
        char   key[64];
        int    fd;
        size_t bytes;
};

struct step {
        uint8_t  what;
        char     name[2];
        uint64_t offset, byte_size;
};

static struct step read_step(const uint8_t *at) {
        struct step s = { .what = at[0], .name = { (char)('a' + at[1] % 4), '\0' } };

        memcpy(&s.offset, at + 2, sizeof(s.offset));
        memcpy(&s.byte_size, at + 10, sizeof(s.byte_size));
        return s;
}

/* Whatever range is found can be read and written. */
static void use(struct shared_memory *m, const struct step *s, const struct object *o) {
        struct infer_core             core = { .shared_memory = m };
        struct infer_call_options     options = { .core = &core };
        struct infer_shared_memory    at = { s->name, s->offset, s->byte_size };
        struct infer_input            in = { .name = "I", .shared_memory = at };
        struct infer_requested_output out = { .name = "O", .shared_memory = at };
        struct infer_request q = { .inputs = &in, .outputs = &out, .n_inputs = 1, .n_outputs = 1 };
        struct infer_call    call;
        struct arena         arena;
        struct error        *err;

        in.datatype = s->what & 0x10 ? TRITONSERVER_TYPE_BYTES : TRITONSERVER_TYPE_UINT8;
        arena_init(&arena, NULL, 0, 0);
        infer_call_init(&call, &options);
        err = infer_call_find_regions(&call, &q, &arena);
        if (err == NULL) {
                EXPECT(in.bytes.len == s->byte_size && in.bytes.len <= o->bytes);
                for (size_t i = 0; i < in.bytes.len; i++)
                        sink = (unsigned char)in.bytes.ptr[i];
                memset(call.targets[0].memory, 1, call.targets[0].bytes);
                EXPECT(infer_call_check_regions(&call) == NULL);
        }
        error_free(err);
        infer_call_done(&call);
        infer_request_done(&q);
        arena_done(&arena);
}

static void list(struct shared_memory *m, const struct step *s) {
        struct shared_memory_entry *entries;
        struct arena                arena;
        size_t                      n;

        arena_init(&arena, NULL, 0, 0);
        error_free(shared_memory_list(m, SHARED_MEMORY_SYSTEM,
                                      s->what & 0x10 ? str_of(s->name) : STR_LIT(""), &arena,
                                      &entries, &n));
        for (size_t i = 0; i < n; i++)
                EXPECT(entries[i].byte_size > 0);
        arena_done(&arena);
}

static void take_step(struct shared_memory *m, const struct step *s, struct object *o) {
        struct shm_place place = { s->name, o->key, s->offset, s->byte_size };

        switch (s->what % 8) {
        case 0:
        case 1: error_free(shared_memory_register(m, &place)); break;
        case 2:
                error_free(shared_memory_unregister(m, SHARED_MEMORY_SYSTEM, str_of(s->name)));
                break;
        case 3: list(m, s); break;
        case 4: error_free(shared_memory_unregister(m, SHARED_MEMORY_SYSTEM, STR_LIT(""))); break;
        case 5:
                o->bytes = s->byte_size % (OBJECT_PAGES * 4096);
                EXPECT(ftruncate(o->fd, (off_t)o->bytes) == 0);
                break;
        default: use(m, s, o); break;
        }
}

static void take_steps(const uint8_t *bytes, size_t size) {
        struct object         o = { .bytes = (size_t)OBJECT_PAGES * 4096 };
        struct shared_memory *m;

        snprintf(o.key, sizeof(o.key), "/neso_fuzz_%ld", (long)getpid());
        o.fd = shm_open(o.key, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (o.fd < 0)
                return;
        EXPECT(ftruncate(o.fd, (off_t)o.bytes) == 0);
        EXPECT(shared_memory_new(NULL, &m) == NULL);
        for (size_t i = 0; i < MAX_STEPS && (i + 1) * STEP_BYTES <= size; i++) {
                struct step s = read_step(bytes + i * STEP_BYTES);

                take_step(m, &s, &o);
        }
        shared_memory_free(m);
        shm_unlink(o.key);
        close(o.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        if (size == 0)
                return 0;
        if (bytes[0] % 2 == 0)
                read_body(str_range((const char *)bytes + 1, size - 1));
        else
                take_steps(bytes + 1, size - 1);
        return 0;
}
