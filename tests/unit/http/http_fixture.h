/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with made-up routes on real sockets, and a plain client, for the tests of connections.
 */
#pragma once

#include "http/http_server.h"
#include "net/seen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fixture {
        struct http_server_options options;
        struct http_server        *server;
        struct endpoint_policy     policy;

        struct seen       seen;     /* filled by callbacks */
        struct http_call *held;     /* one that has not been answered; guarded by seen.lock */
        struct http_call *answered; /* the one that `mail` answers */
        struct mail       mail;
        bool              is_loop_held; /* by a "/hold"; guarded by seen.lock */
        uint64_t          n_unwritten;  /* chunks, before the last one of an answer that was held */
};

/* Options may be changed between the two. */
void fixture_init(struct fixture *f);
void fixture_start(struct fixture *f);
void fixture_done(struct fixture *f); /* stops, too */

/* Waits until a "/later" is with its handler, then has it answered: "late". */
void fixture_wait_held(struct fixture *f);
void fixture_answer_held(struct fixture *f);

/* Waits until the loop stands still in a "/hold", whose answer is empty; and lets it go on. */
void fixture_wait_loop_held(struct fixture *f);
void fixture_let_loop_go(struct fixture *f);

int  client_open(const struct fixture *f);
void client_send(int fd, const char *bytes, size_t len);
void client_say(int fd, const char *text);
/* As client_say(), and waits until the system has it where the server will read it. */
void client_say_through(int fd, const char *text);
/* Reads exactly the text. */
void client_expect(int fd, const char *text);
/* Reads head and body of an answer with Content-Length; true when status and body are as given. */
void client_expect_answer(int fd, unsigned status, const char *body);
/* Reads an answer with Content-Length, whatever it is. */
void client_skip_answer(int fd);
/* Reads until the end of the connection, into `ret`. */
void client_read_all(int fd, struct strbuf *ret);
/* Nothing more comes but the end. */
void client_expect_end(int fd);
