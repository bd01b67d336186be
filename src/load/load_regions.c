/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/load_regions.h"

#include "base/mem.h"
#include "gpu/gpu.h"
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
        void         *gpu_memory; /* owned; NULL: none */
        unsigned char handle[GPU_SHARE_BYTES];
};

struct load_regions {
        enum load_memory kind;
        struct gpus     *gpus; /* owned */
        int              device;
        struct region   *regions; /* owned: of the inputs, then of the outputs */
        size_t           n_inputs, n_regions;
};

struct load_regions *load_regions_new(const struct load_model *m, enum load_memory kind,
                                      uint64_t output_bytes) {
        struct load_regions *a = mem_zalloc(sizeof(*a));

        a->kind = kind;
        a->n_inputs = m->n_inputs;
        a->n_regions = m->n_inputs + m->n_outputs;
        a->regions = mem_zalloc((a->n_regions + 1) * sizeof(*a->regions));
        for (size_t i = 0; i < a->n_regions; i++) {
                bool is_input = i < m->n_inputs;

                a->regions[i].name =
                        mem_printf("neso_bench_%d_%s_%zu", (int)getpid(), is_input ? "in" : "out",
                                   is_input ? i : i - m->n_inputs);
                a->regions[i].values.max = MAX_VALUES;
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

static struct error *make_object(struct region *r) {
        AUTO_CHARS key = mem_printf("/%s", r->name);
        int        fd;
        void      *memory;

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

/* More devices than these are not used (src/gpu). */
#define MAX_DEVICES 64

/* Without pools: each region is an allocation of its own, and begins where its handle does. */
static struct error *open_gpus(struct load_regions *a) {
        struct gpu_bytes    no_pools[MAX_DEVICES] = { 0 };
        struct gpus_options options = { .is_quiet = true,
                                        .pools = no_pools,
                                        .n_pools = MAX_DEVICES };

        for (int i = 0; i < MAX_DEVICES; i++)
                no_pools[i].device = i;
        TRY(gpus_open(&options, &a->gpus));
        if (gpus_count(a->gpus) == 0)
                return error_new_text(ERR_UNSUPPORTED,
                                      "--shared-memory=cuda: this machine has no GPU");
        a->device = gpus_at(a->gpus, 0)->device;
        return NULL;
}

static struct error *make_gpu_memory(struct load_regions *a, struct region *r) {
        struct gpu_copy copy = { .from = r->values.ptr,
                                 .to_device = a->device,
                                 .from_device = GPU_HOST,
                                 .bytes = r->values.len };
        uint64_t        offset;

        TRY(gpu_alloc(a->gpus, a->device, (size_t)r->bytes, &r->gpu_memory));
        copy.to = r->gpu_memory;
        if (copy.bytes > 0)
                TRY(gpu_copy_all(a->gpus, &copy, 1));
        TRY(gpu_share(a->gpus, a->device, r->gpu_memory, r->handle, &offset));
        if (offset != 0)
                return error_new(ERR_INTERNAL, "the region '%s' is within an allocation", r->name);
        return NULL;
}

static struct error *make_region(struct load_regions *a, struct region *r) {
        TRY(strbuf_check(&r->values, "the inputs in shared memory"));
        r->bytes = MAX(r->bytes, ALIGNMENT);
        return a->kind == LOAD_MEMORY_CUDA ? make_gpu_memory(a, r) : make_object(r);
}

static struct error *ask_control(const struct load_regions *a, struct control *c,
                                 const struct region *r, bool is_register) {
        AUTO_STRBUF            answer = { 0 };
        struct control_subject s = { .region = r->name,
                                     .region_bytes = r->bytes,
                                     .handle =
                                             str_range((const char *)r->handle, sizeof(r->handle)),
                                     .device = a->device };
        enum control_question  q;

        if (a->kind == LOAD_MEMORY_CUDA)
                q = is_register ? CONTROL_REGISTER_CUDA : CONTROL_UNREGISTER_CUDA;
        else
                q = is_register ? CONTROL_REGISTER : CONTROL_UNREGISTER;
        return control_ask(c, q, &s, &answer);
}

struct error *load_regions_open(struct load_regions *a, struct control *c) {
        struct error *err;

        if (a->kind == LOAD_MEMORY_CUDA)
                TRY(open_gpus(a));
        for (size_t i = 0; i < a->n_regions; i++) {
                struct region *r = &a->regions[i];

                TRY(make_region(a, r));
                err = ask_control(a, c, r, true);
                /* Without an answer it may have been registered all the same. */
                r->is_registered = err == NULL || err->code != ERR_INVALID_ARG;
                TRY(error_wrap(err, "registering shared memory"));
        }
        return NULL;
}

void load_regions_close(struct load_regions *a, struct control *c) {
        bool is_gone = false; /* the server: it is asked no more */

        if (a == NULL)
                return;
        for (size_t i = 0; i < a->n_regions; i++) {
                struct region *r = &a->regions[i];
                AUTO_CHARS     key = mem_printf("/%s", r->name);

                if (r->is_registered && !is_gone) {
                        AUTO_ERROR err = ask_control(a, c, r, false);

                        is_gone = err != NULL && err->code == ERR_UNAVAILABLE;
                }
                if (r->is_made)
                        shm_unlink(key);
                gpu_free(a->gpus, a->device, r->gpu_memory);
                free(r->name);
                strbuf_done(&r->values);
        }
        gpus_close(a->gpus);
        free(a->regions);
        free(a);
}
