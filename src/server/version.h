/* SPDX-License-Identifier: BSD-3-Clause */
/* The version that server metadata reports: that of the reference server whose behaviour and protocols
 * we provide, since clients and tools compare it. Our own version, NESO_VERSION, comes from the build.
 */
#pragma once

#define SERVER_VERSION "2.64.0"
