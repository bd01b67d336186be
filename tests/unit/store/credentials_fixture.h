/* SPDX-License-Identifier: BSD-3-Clause */
/* A home of its own for each test of credentials: no variable of the machine, a temporary folder as HOME, a
 * clock that the test sets.
 *
 * Threads.  One.
 */
#pragma once

#include "store/store_credentials.h"
#include "store/store_url.h"

#include <stdint.h>

int         fixture_begin(void **state); /* set-up and tear-down of cmocka */
int         fixture_end(void **state);
const char *fixture_path(const char *name); /* in the folder; borrowed until the next call */
void        fixture_write(const char *name, const char *text); /* makes folders, too */
void        fixture_set(const char *variable, const char *value);
/* Sets the variable to the path of a file of the folder. */
void fixture_set_path(const char *variable, const char *name);

/* An address of a store, as it was parsed. Borrowed texts: literals. */
struct store_url fixture_url(enum store_kind kind, const char *host, const char *bucket,
                             const char *text);

/* The wall clock of fixture_open()'s credentials, in seconds; 1440938160 (2015-08-30T12:36:00Z) at the start. */
void fixture_set_time(uint64_t s);
/* Fails the test on an error. */
struct store_credentials *fixture_open(const struct store_url *url);
/* Fails unless it cannot be opened, with this text, in which "%" stands for the folder. */
void fixture_open_fails(const struct store_url *url, const char *text);
/* Signs "GET <origin>/<path>", and returns the header's value, or "URL" for the URL. Borrowed until the next
 * call. Fails the test on an error. */
const char *fixture_sign(struct store_credentials *c, const char *path, const char *header);
/* Signs in vain: the text of the error, as above. */
void fixture_sign_fails(struct store_credentials *c, enum error_code code, const char *text);
