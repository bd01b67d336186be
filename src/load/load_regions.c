/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/load_regions.h"

#include "base/mem.h"
#include "load/control.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 64 /* a cache line, as tensors in requests are aligned */
#define MAX_VALUES ((size_t)4 << 30)

struct region {
        char         *name;   /* owned */
        struct strbuf values; /* owned: of an input */
        uint64_t      bytes;
        bool          is_made, is_registered;
};

struct load_regions {
        struct region *regions; /* owned: of the inputs, then of the outputs */
        size_t         n_inputs, n_regions;
};

struct load_regions *load_regions_new(const struct load_model *m, uint64_t output_bytes) {
        struct load_regions *a = mem_zalloc(sizeof(*a));

        a->n_inputs = m->n_inputs;
        a->n_regions = m->n_inputs + m->n_outputs;
        a->regions = mem_zalloc((a->n_regions + 1) * sizeof(*a->regions));
        for (size_t i = 0; i < a->n_regions; i++) {
                bool is_input = i < m->n_inputs;

                a->regions[i].name =
                        mem_printf("neso_bench_%d_%s_%zu", (int)getpid(), is_input ? "in" : "out",
                                   is_input ? i : i - m->n_inputs);
                strbuf_init(&a->regions[i].values, MAX_VALUES);
                a->regions[i].bytes = is_input ? 0 : output_bytes;
        }
        return a;
}

struct shm_part load_regions_add(struct load_regions *a, size_t input, struct str bytes) {
        struct region *r = &a->regions[input];
        uint64_t       offset;

        while (r->values.len % ALIGNMENT != 0 && !r->values.overflowed)
                strbuf_putc(&r->values, 0);
        offset = r->values.len;
        strbuf_put(&r->values, bytes.ptr, bytes.len);
        r->bytes = r->values.len;
        return (struct shm_part){ r->name, offset, bytes.len };
}

struct shm_part load_regions_output(const struct load_regions *a, size_t output) {
        const struct region *r = &a->regions[a->n_inputs + output];

        return (struct shm_part){ r->name, 0, r->bytes };
}

static struct error *make_region(struct region *r) {
        AUTO_CHARS key = mem_printf("/%s", r->name);
        int        fd;
        void      *memory;

        TRY(strbuf_check(&r->values, "the inputs in shared memory"));
        r->bytes = MAX(r->bytes, ALIGNMENT);
        fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return error_errno(errno, "unable to create the shared memory %s", key);
        r->is_made = true;
        /* Room is reserved now: a full /dev/shm would otherwise end this process at a write. */
        if (posix_fallocate(fd, 0, (off_t)r->bytes) != 0) {
                close(fd);
                return error_new(ERR_UNAVAILABLE, "no room for %llu bytes of shared memory",
                                 (unsigned long long)r->bytes);
        }
        memory = mmap(NULL, (size_t)r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (memory == MAP_FAILED)
                return error_errno(errno, "unable to map the shared memory %s", key);
        if (r->values.len > 0)
                memcpy(memory, r->values.ptr, r->values.len);
        munmap(memory, (size_t)r->bytes);
        return NULL;
}

static struct error *ask_control(struct control *c, enum control_question q,
                                 const struct region *r) {
        AUTO_STRBUF            answer = { 0 };
        struct control_subject s = { .region = r->name, .region_bytes = r->bytes };

        strbuf_init(&answer, 0);
        return control_ask(c, q, &s, &answer);
}

struct error *load_regions_open(struct load_regions *a, struct control *c) {
        for (size_t i = 0; i < a->n_regions; i++) {
                struct region *r = &a->regions[i];

                TRY(make_region(r));
                TRY(error_wrap(ask_control(c, CONTROL_REGISTER, r), "registering shared memory"));
                r->is_registered = true;
        }
        return NULL;
}

void load_regions_close(struct load_regions *a, struct control *c) {
        if (a == NULL)
                return;
        for (size_t i = 0; i < a->n_regions; i++) {
                struct region *r = &a->regions[i];
                AUTO_CHARS     key = mem_printf("/%s", r->name);

                if (r->is_registered)
                        error_free(
                                ask_control(c, CONTROL_UNREGISTER, r)); /* the server may be gone */
                if (r->is_made)
                        shm_unlink(key);
                free(r->name);
                strbuf_done(&r->values);
        }
        free(a->regions);
        free(a);
}
