/* SPDX-License-Identifier: BSD-3-Clause */
/* Correct programs on the stand-in of the driver. */
#include "suite.h"

#include "fake_children.h"

#define N 1000

/* ---- add --------------------------------------------------------------------------------------- */

static void add(struct fake_child *c) {
        struct driver_table *cuda = &c->cuda;
        const size_t         bytes = N * sizeof(float);
        static float         a[N], b[N], out[N];
        cu_pointer           memory[3];
        cu_module            module;
        cu_function          function;
        unsigned             n = N;
        void                *parameters[] = { &memory[0], &memory[1], &memory[2], &n };

        for (int i = 0; i < N; i++) {
                a[i] = (float)i;
                b[i] = 2.0f * (float)i;
        }
        for (int i = 0; i < 3; i++)
                CHECK_OK(cuda->cuMemAlloc_v2(&memory[i], bytes));
        CHECK_OK(cuda->cuModuleLoadData(&module, ADD_PTX));
        CHECK_OK(cuda->cuModuleGetFunction(&function, module, "add_f32"));
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory[0], a, bytes, c->stream));
        CHECK_OK(cuda->cuMemcpyHtoDAsync_v2(memory[1], b, bytes, c->stream));
        CHECK_OK(cuda->cuLaunchKernel(function, (N + 255) / 256, 1, 1, 256, 1, 1, 0, c->stream,
                                      parameters, NULL));
        CHECK_OK(cuda->cuMemcpyDtoHAsync_v2(out, memory[2], bytes, c->stream));
        /* Nothing is there before the wait. */
        CHECK(out[1] != 3.0f);
        CHECK_OK(cuda->cuStreamSynchronize(c->stream));
        for (int i = 0; i < N; i++)
                CHECK(out[i] == 3.0f * (float)i);
        for (int i = 0; i < 3; i++)
                CHECK_OK(cuda->cuMemFree_v2(memory[i]));
        CHECK_OK(cuda->cuModuleUnload(module));
}

static void test_add(void **state) {
        (void)state;
        fake_child_passes(add);
}

SUITE(fake_program) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_add),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
