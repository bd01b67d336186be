/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs on the stand-in of the driver, each in a child process, so that one may be ended by a report.
 *
 * Ownership.  Nothing. Threads.  One. */
#pragma once

#include "driver_table.h"
#include "fake_cuda.h"

#include <stdint.h>
#include <sys/types.h>

#define FAKE_REPORT_BYTES 1024
#define ADD_PTX                                                                                    \
        ".version 7.0\n.target sm_50\n.address_size 64\n"                                          \
        ".visible .entry add_f32(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n)\n"  \
        "{ ret; }\n"

/* What a child has: the driver, the stand-in's own functions, and the context of device 0, which is current. */
struct fake_child {
        struct driver_table cuda;
        cu_context          context;
        cu_stream           stream;
#define FAKE_FIELD(result, name, parameters) result(*name) parameters;
        FAKE_CUDA_FUNCTIONS(FAKE_FIELD)
#undef FAKE_FIELD
};

typedef void (*fake_child_fn)(struct fake_child *c);

/* Ends the child: not as a report does. */
void fake_child_check(int is_true, const char *text, int line);
#define CHECK(expression) fake_child_check((expression) != 0, #expression, __LINE__)
#define CHECK_OK(call) fake_child_check((call) == CU_SUCCESS, #call, __LINE__)

/* A child that runs beside the caller. */
struct fake_running {
        pid_t pid;
        char  report[32];
};

struct fake_running fake_child_start(fake_child_fn run);
/* Waits for it, and checks that it ends well, and that nothing was reported. */
void fake_child_check_end(const struct fake_running *child);
/* Both. */
void fake_child_passes(fake_child_fn run);
/* Runs it, and checks that it is ended by a report of the kind: "fake gpu: <kind>: ". */
void fake_child_reports(fake_child_fn run, const char *kind);
