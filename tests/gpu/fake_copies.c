/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of the stand-in. Source and destination are checked at the call; the bytes move when the work runs.
 * Until then a destination on the host has garbage, unless queued work still reads what it has. */
#include "fake_private.h"

#include <string.h>

#define GARBAGE 0xCB

struct copy {
        const char *function;
        cu_pointer  to, from;
        bool        to_host, from_host;
        int         to_device, from_device; /* whose context must be able to use it */
        size_t      bytes;
        cu_stream   stream;
};

static cu_result check_side(const struct copy *c, cu_pointer memory, bool is_host, int device) {
        if (is_host)
                return fake_host_check(c->function, (const void *)(uintptr_t)memory, c->bytes);
        return fake_memory_check(c->function, &fake.devices[device], memory, c->bytes);
}

static void *side(cu_pointer memory, bool is_host) {
        return is_host ? (void *)(uintptr_t)memory : fake_shadow((uintptr_t)memory);
}

static cu_result queue(const struct fake_device *device, const struct copy *c) {
        struct fake_stream *s;
        struct fake_op     *op;
        cu_result           result = fake_stream_find(c->function, c->stream, device, &s);

        if (result == CU_SUCCESS)
                result = check_side(c, c->from, c->from_host, c->from_device);
        if (result == CU_SUCCESS)
                result = check_side(c, c->to, c->to_host, c->to_device);
        if (result != CU_SUCCESS || c->bytes == 0)
                return result;
        op = fake_op_new(FAKE_COPY, c->function);
        op->to = side(c->to, c->to_host);
        op->from = side(c->from, c->from_host);
        op->bytes = c->bytes;
        op->reads[op->n_reads++] = (struct fake_use){ (uintptr_t)c->from, c->bytes };
        op->writes = (struct fake_use){ (uintptr_t)c->to, c->bytes };
        if (c->to_host && !fake_is_read_in_flight((uintptr_t)c->to, c->bytes))
                memset(op->to, GARBAGE, c->bytes);
        fake_stream_push(s, op);
        fake.n_copies++;
        return CU_SUCCESS;
}

/* With the device whose context is current on both sides. */
static cu_result copy_here(struct copy *c) {
        struct fake_device *device;
        cu_result           result = fake_enter(c->function, &device);

        if (result == CU_SUCCESS) {
                c->to_device = c->from_device = device->ordinal;
                result = queue(device, c);
        }
        return fake_leave(result);
}

cu_result cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
        return copy_here(&(struct copy){ .function = __func__,
                                         .to = to,
                                         .from = (uintptr_t)from,
                                         .from_host = true,
                                         .bytes = bytes,
                                         .stream = stream });
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
        return copy_here(&(struct copy){ .function = __func__,
                                         .to = (uintptr_t)to,
                                         .to_host = true,
                                         .from = from,
                                         .bytes = bytes,
                                         .stream = stream });
}

cu_result cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
        return copy_here(&(struct copy){
                .function = __func__, .to = to, .from = from, .bytes = bytes, .stream = stream });
}

/* Needs no access of the devices to each other: the driver takes a way round then. */
cu_result cuMemcpyPeerAsync(cu_pointer to, cu_context to_context, cu_pointer from,
                            cu_context from_context, size_t bytes, cu_stream stream) {
        struct copy c = {
                .function = __func__, .to = to, .from = from, .bytes = bytes, .stream = stream
        };
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                c.to_device = fake_context_device(to_context);
                c.from_device = fake_context_device(from_context);
                result = c.to_device < 0 || c.from_device < 0 ? CU_INVALID_CONTEXT
                                                              : queue(device, &c);
        }
        return fake_leave(result);
}

cu_result cuMemsetD8Async(cu_pointer to, unsigned char value, size_t bytes, cu_stream stream) {
        struct fake_device *device;
        struct fake_stream *s;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = fake_stream_find(__func__, stream, device, &s);
        if (result == CU_SUCCESS)
                result = fake_memory_check(__func__, device, to, bytes);
        if (result == CU_SUCCESS && bytes > 0) {
                struct fake_op *op = fake_op_new(FAKE_SET, __func__);

                op->to = fake_shadow((uintptr_t)to);
                op->value = value;
                op->bytes = bytes;
                op->writes = (struct fake_use){ (uintptr_t)to, bytes };
                fake_stream_push(s, op);
        }
        return fake_leave(result);
}
