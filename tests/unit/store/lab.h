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

int         lab_begin(void **state); /* set-up and tear-down of cmocka */
int         lab_end(void **state);
const char *lab_path(const char *name); /* in the folder; borrowed until the next call */
void        lab_write(const char *name, const char *text); /* makes folders, too */
void        lab_set(const char *variable, const char *value);
/* Sets the variable to the path of a file of the folder. */
void lab_set_path(const char *variable, const char *name);

/* An address of a store, as it was parsed. Borrowed texts: literals. */
struct store_url lab_url(enum store_kind kind, const char *host, const char *bucket,
                         const char *text);

/* The wall clock of lab_open()'s credentials, in seconds; 1440938160 (2015-08-30T12:36:00Z) at the start. */
void lab_set_time(uint64_t s);
/* Fails the test on an error. */
struct store_credentials *lab_open(const struct store_url *url);
/* Fails unless it cannot be opened, with this text, in which "%" stands for the folder. */
void lab_open_fails(const struct store_url *url, const char *text);
/* Signs "GET <origin>/<path>", and returns the header's value, or "URL" for the URL. Borrowed until the next
 * call. Fails the test on an error. */
const char *lab_sign(struct store_credentials *c, const char *path, const char *header);
/* Signs in vain: the text of the error, as above. */
void lab_sign_fails(struct store_credentials *c, enum error_code code, const char *text);
