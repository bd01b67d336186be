/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the devices that both stand-ins, of the driver and of NVML, have: by their number before
 * CUDA_VISIBLE_DEVICES.
 *
 * Ownership.  The caller's rooms. Threads.  Any. */
#pragma once

#include <stdio.h>
#include <string.h>

#define FAKE_BUS_BYTES 16

static inline void fake_bus_id(char ret[FAKE_BUS_BYTES], int number) {
        (void)snprintf(ret, FAKE_BUS_BYTES, "0000:%02x:00.0", (unsigned)(0x1a + number) & 0xffu);
}

static inline void fake_uuid(unsigned char ret[16], int number) {
        memcpy(ret, "Neso-Fake-GPU-", 14);
        ret[14] = 0;
        ret[15] = (unsigned char)number;
}
