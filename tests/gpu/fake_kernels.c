/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules and kernels of the stand-in. PTX text is not run: a C function that has the kernel's name is. The
 * text declares the parameters, whose values a launch copies. */
#include "fake_private.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_BASE ((uint64_t)0x30D0000000)
#define FUNCTION_BASE ((uint64_t)0xF0F0000000)
#define MAX_NAME 64

struct function {
        struct function    *next;
        uint64_t            id, module;
        char                name[MAX_NAME];
        fake_cuda_kernel_fn kernel;
        size_t              sizes[FAKE_MAX_USES];
        size_t              n_parameters;
};

struct module {
        struct module *next;
        uint64_t       id;
        int            device;
        char          *text;
};

struct kernel {
        struct kernel      *next;
        char                name[MAX_NAME];
        fake_cuda_kernel_fn run;
};

static struct module   *modules;
static struct function *functions;
static struct kernel   *kernels;
static uint64_t         n_made;

/* ---- kernels that are there ------------------------------------------------------------------ */

static cu_pointer pointer_at(const struct fake_cuda_launch *l, size_t i) {
        return *(const cu_pointer *)l->parameters[i];
}

/* A kernel of one thread an element leaves out what it has no thread for. */
static size_t elements(const struct fake_cuda_launch *l, size_t i) {
        size_t n = *(const unsigned *)l->parameters[i];

        return n < l->n_threads ? n : l->n_threads;
}

static void add_f32(const struct fake_cuda_launch *l) {
        size_t       n = elements(l, 3), bytes = n * sizeof(float);
        const float *a = l->memory(l, pointer_at(l, 0), bytes);
        const float *b = l->memory(l, pointer_at(l, 1), bytes);
        float       *out = l->memory(l, pointer_at(l, 2), bytes);

        for (size_t i = 0; i < n; i++)
                out[i] = a[i] + b[i];
}

static void scale_f32(const struct fake_cuda_launch *l) {
        size_t       n = elements(l, 3), bytes = n * sizeof(float);
        float        factor = *(const float *)l->parameters[1];
        const float *in = l->memory(l, pointer_at(l, 0), bytes);
        float       *out = l->memory(l, pointer_at(l, 2), bytes);

        for (size_t i = 0; i < n; i++)
                out[i] = factor * in[i];
}

static void copy_bytes(const struct fake_cuda_launch *l) {
        size_t      n = elements(l, 2);
        const void *in = l->memory(l, pointer_at(l, 0), n);
        void       *out = l->memory(l, pointer_at(l, 1), n);

        memmove(out, in, n);
}

static fake_cuda_kernel_fn find_kernel(const char *name) {
        static const struct {
                const char         *name;
                fake_cuda_kernel_fn run;
        } own[] = { { "add_f32", add_f32 },
                    { "scale_f32", scale_f32 },
                    { "copy_bytes", copy_bytes } };

        for (const struct kernel *k = kernels; k != NULL; k = k->next)
                if (strcmp(k->name, name) == 0)
                        return k->run;
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
                if (strcmp(own[i].name, name) == 0)
                        return own[i].run;
        return NULL;
}

void fake_cuda_kernel(const char *name, fake_cuda_kernel_fn function) {
        struct kernel *k = calloc(1, sizeof(*k));

        if (k == NULL)
                abort();
        (void)snprintf(k->name, sizeof(k->name), "%s", name);
        k->run = function;
        pthread_mutex_lock(&fake.lock);
        k->next = kernels;
        kernels = k;
        pthread_mutex_unlock(&fake.lock);
}

/* ---- modules --------------------------------------------------------------------------------- */

static bool is_ptx(const char *text) {
        while (isspace((unsigned char)*text))
                text++;
        return strncmp(text, ".version", 8) == 0;
}

cu_result cuModuleLoadData(cu_module *ret, const void *image) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS && (ret == NULL || image == NULL))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS && !is_ptx(image))
                result = CU_INVALID_IMAGE;
        if (result == CU_SUCCESS) {
                struct module *m = calloc(1, sizeof(*m));

                if (m == NULL)
                        abort();
                m->id = MODULE_BASE + ++n_made;
                m->device = device->ordinal;
                m->text = strdup(image);
                m->next = modules;
                modules = m;
                *ret = (cu_module)(uintptr_t)m->id;
        }
        return fake_leave(result);
}

static struct module **find_module(const char *function, cu_module module) {
        struct module **at = &modules;

        while (*at != NULL && (*at)->id != (uint64_t)(uintptr_t)module)
                at = &(*at)->next;
        if (*at == NULL)
                fake_report("unknown module", "%s: %p is no module, or was unloaded", function,
                            (void *)module);
        return at;
}

static void drop_functions(uint64_t module) {
        for (struct function **at = &functions; *at != NULL;) {
                struct function *f = *at;

                if (f->module != module) {
                        at = &f->next;
                } else {
                        *at = f->next;
                        free(f);
                }
        }
}

cu_result cuModuleUnload(cu_module module) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                struct module **at = find_module(__func__, module);
                struct module  *m = *at;

                *at = m->next;
                drop_functions(m->id);
                free(m->text);
                free(m);
        }
        return fake_leave(result);
}

size_t fake_count_modules(int device) {
        size_t n = 0;

        for (const struct module *m = modules; m != NULL; m = m->next)
                n += m->device == device;
        return n;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Behind ".entry <name>"; NULL when the text has no such kernel. */
static const char *find_entry(const char *text, const char *name) {
        size_t n = strlen(name);

        for (text = strstr(text, ".entry"); text != NULL; text = strstr(text + 1, ".entry")) {
                const char *at = text + 6;

                while (isspace((unsigned char)*at))
                        at++;
                if (strncmp(at, name, n) == 0 && !isalnum((unsigned char)at[n]) && at[n] != '_')
                        return at + n;
        }
        return NULL;
}

/* The parameters between "(" and ")": ".param .u64 a". */
static void read_parameters(const char *at, struct function *f) {
        const char *end = strchr(at, ')');

        for (at = strstr(at, ".param"); at != NULL && at < end; at = strstr(at + 1, ".param")) {
                const char *type = strchr(at + 1, '.');

                if (type == NULL || f->n_parameters == FAKE_MAX_USES)
                        return;
                f->sizes[f->n_parameters++] = (size_t)atoi(type + 2) / 8;
        }
}

static cu_result get_function(const struct module *m, const char *name, cu_function *ret) {
        const char         *entry = find_entry(m->text, name);
        fake_cuda_kernel_fn kernel = find_kernel(name);
        struct function    *f;

        if (entry == NULL || kernel == NULL)
                return CU_NOT_FOUND;
        f = calloc(1, sizeof(*f));
        if (f == NULL)
                abort();
        f->id = FUNCTION_BASE + ++n_made;
        f->module = m->id;
        (void)snprintf(f->name, sizeof(f->name), "%s", name);
        f->kernel = kernel;
        read_parameters(entry, f);
        f->next = functions;
        functions = f;
        *ret = (cu_function)(uintptr_t)f->id;
        return CU_SUCCESS;
}

cu_result cuModuleGetFunction(cu_function *ret, cu_module module, const char *name) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = get_function(*find_module(__func__, module), name, ret);
        return fake_leave(result);
}

static const struct function *find_function(cu_function function) {
        const struct function *f = functions;

        while (f != NULL && f->id != (uint64_t)(uintptr_t)function)
                f = f->next;
        if (f == NULL)
                fake_report("unknown kernel",
                            "cuLaunchKernel: %p is no function, or its module was unloaded",
                            (void *)function);
        return f;
}

/* ---- launches -------------------------------------------------------------------------------- */

static void *launch_memory(const struct fake_cuda_launch *l, cu_pointer address, size_t bytes) {
        if (fake_memory_check("a kernel", &fake.devices[l->device], address, bytes) != CU_SUCCESS)
                fake_report("illegal address",
                            "a kernel uses %zu bytes at %#llx, which device %d cannot use", bytes,
                            address, l->device);
        return fake_shadow((uintptr_t)address);
}

/* Pointers among the parameters are in use up to the end of their allocation. */
static void note_use(struct fake_op *op, const void *value, size_t bytes) {
        const struct fake_range *r;
        cu_pointer               address;

        if (bytes != sizeof(address) || op->n_reads == FAKE_MAX_USES)
                return;
        memcpy(&address, value, sizeof(address));
        r = fake_table_find(&fake.places, (uintptr_t)address);
        if (r != NULL)
                op->reads[op->n_reads++] =
                        (struct fake_use){ (uintptr_t)address,
                                           r->address + r->bytes - (uintptr_t)address };
}

static void copy_parameters(struct fake_op *op, const struct function *f, void **parameters) {
        op->values = calloc(f->n_parameters + 1, 8);
        op->parameters = calloc(f->n_parameters + 1, sizeof(void *));
        if (op->values == NULL || op->parameters == NULL)
                abort();
        for (size_t i = 0; i < f->n_parameters; i++) {
                op->parameters[i] = op->values + 8 * i;
                memcpy(op->parameters[i], parameters[i], f->sizes[i]);
                note_use(op, op->parameters[i], f->sizes[i]);
        }
}

cu_result cuLaunchKernel(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, cu_stream stream, void **parameters, void **extra) {
        size_t              n_blocks = (size_t)grid_x * grid_y * grid_z;
        size_t              n_threads = (size_t)block_x * block_y * block_z;
        struct fake_device *device;
        struct fake_stream *s;
        cu_result           result = fake_enter(__func__, &device);

        (void)shared_bytes;
        if (result == CU_SUCCESS &&
            (n_blocks == 0 || n_threads == 0 || n_threads > 1024 || extra != NULL))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS)
                result = fake_stream_find(__func__, stream, device, &s);
        if (result == CU_SUCCESS) {
                const struct function *f = find_function(function);
                struct fake_op        *op = fake_op_new(FAKE_KERNEL, __func__);

                copy_parameters(op, f, parameters);
                op->kernel = f->kernel;
                op->launch = (struct fake_cuda_launch){ .parameters = op->parameters,
                                                        .n_parameters = f->n_parameters,
                                                        .n_threads = n_blocks * n_threads,
                                                        .memory = launch_memory,
                                                        .device = device->ordinal };
                fake_stream_push(s, op);
                fake.n_launches++;
        }
        return fake_leave(result);
}
