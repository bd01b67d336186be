/* SPDX-License-Identifier: BSD-3-Clause */
/* The access log: one JSON object per finished request, into the server's log.
 */
#pragma once

struct access_entry;

/* For on_access() of struct service. */
void access_log_write(void *owner, const struct access_entry *entry);
