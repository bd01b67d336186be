/* SPDX-License-Identifier: BSD-3-Clause */
/* The access log: one JSON object per finished request, into the server's log.
 */
#pragma once

struct http_access;

/* http_server_options.on_access. */
void access_log_write(void *owner, const struct http_access *access);
