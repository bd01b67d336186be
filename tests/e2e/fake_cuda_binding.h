/* SPDX-License-Identifier: BSD-3-Clause */
/* IO binding of the stand-in of ONNX Runtime with CUDA: values whose memory is called "Cuda" have addresses of the
 * stand-in of CUDA's driver (tests/gpu), which the CPU cannot use. A run copies its inputs to the host, lets the
 * real library compute there, and copies outputs to the device.
 *
 * It is strict where the documentation of the runtime leaves an order open. An input of the host is copied to the
 * device on a stream when it is bound, and read on another one when the model runs; an output is written on a
 * stream. Without SynchronizeBoundInputs() and SynchronizeBoundOutputs() the bytes are wrong. It refuses values on
 * another device than the session's, strings on a device, and addresses there that are not aligned to 16 bytes, as
 * kernels with wide loads would.
 *
 * The file that NESO_FAKE_BINDINGS names gets a line for each run: "in <place>..., out <place>...", in the order of
 * the bindings. A place is "host", "gpu" (the address is the caller's) or "made" (it is the runtime's, on the
 * device), "made-host".
 *
 * Ownership.  A binding owns what it makes; values returned by GetBoundOutputValues() share its memory.
 * Threads.  Any; one at a time for a binding. */
#pragma once

#include <onnxruntime_c_api.h>

/* Sessions of these options are on the device. */
void binding_options(const OrtSessionOptions *options, int device);

/* Puts the functions into `api`, a copy of `real`. */
void binding_replace(const OrtApi *real, OrtApi *api);
