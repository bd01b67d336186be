/* SPDX-License-Identifier: BSD-3-Clause */
/* How deep calls from model to model are nested. The number travels as a parameter of the inner
 * request, which models in Python are not shown; clients cannot set it, since the server refuses
 * parameters of theirs that begin with "triton_". */
#pragma once

#define BLS_DEPTH_PARAMETER "triton_neso_bls_depth"
#define BLS_MAX_DEPTH 16
