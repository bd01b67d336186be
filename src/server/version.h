/* SPDX-License-Identifier: BSD-3-Clause */
/* The version that server metadata reports: that of the reference server whose behaviour and
 * protocols we offer, because clients and tools compare it; ours is NESO_VERSION.
 */
#pragma once

#define SERVER_VERSION "2.64.0"
#define NESO_VERSION "0.1.0"
