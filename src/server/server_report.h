/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables that the server logs at its start: backends, models, options. */
#pragma once

struct server;
struct server_options;

void server_report_start(struct server *s, const struct server_options *options);
