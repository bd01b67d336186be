/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl` against a hostile server: a socket of this process, which answers each request with the next text of the
 * input.
 *
 * The first byte chooses the command, the second has flags. The rest is answers, each ended by a byte 0xff. One that
 * begins with '2', '4' or '5' is the body of an answer with the status 200, 400 or 503; with 'b', the next byte is the
 * length of its JSON part; others are sent as they are.
 *
 * What must hold: the exit code is one of the documented ones; a failure is one text of standard error; no command but
 * those with --json prints a control character, which a terminal would obey; what is printed ends in a line end, unless
 * a failure cuts it.
 */
#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "cli/ctl.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_BYTES 32768
#define SEPARATOR ((char)0xff)
#define MAX_WORDS 12

enum { IS_JSON = 1, IS_DOT = 2, HAS_VERSION = 4, HAS_VALUES = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct command {
        const char *words[3];
        unsigned    flags; /* that it takes */
} commands[] = {
        { { "index" }, 0 },
        { { "load", "m" }, 0 },
        { { "unload", "m" }, 0 },
        { { "ready", "m" }, HAS_VERSION },
        { { "ready" }, 0 },
        { { "stats" }, 0 },
        { { "stats", "m" }, HAS_VERSION },
        { { "sequences", "m" }, HAS_VERSION },
        { { "stacks", "m" }, HAS_VERSION },
        { { "gpus" }, 0 },
        { { "members", "m" }, HAS_VERSION },
        { { "metadata" }, 0 },
        { { "metadata", "m" }, HAS_VERSION },
        { { "config", "m" }, HAS_VERSION },
        { { "graph", "m" }, HAS_VERSION | IS_DOT },
        { { "infer", "m", "--zeros" }, HAS_VERSION | HAS_VALUES },
        { { "infer", "m", "--random" }, HAS_VERSION | HAS_VALUES },
        { { "drain" }, 0 },
};

static FILE         *errors; /* standard error of this process */
static int           listener = -1;
static char          url[64];
static struct thread server;
static struct mutex  lock;
static struct str    left; /* answers that were not given yet; under the lock */

static void expect(bool holds, const char *what, const char *text) {
        if (holds)
                return;
        fprintf(errors, "ctl answers: %s: %s\n", what, text);
        abort();
}

/* ---- the server ------------------------------------------------------------------------------- */

static void put_answer(struct str text, struct strbuf *out) {
        char kind = text.len > 0 ? text.ptr[0] : 'x';

        if (kind == '2' || kind == '4' || kind == '5') {
                strbuf_printf(out,
                              "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                              kind == '2'   ? "200 OK"
                              : kind == '4' ? "400 Bad Request"
                                            : "503 Unavailable",
                              text.len - 1);
                text = str_skip(text, 1);
        } else if (kind == 'b' && text.len > 1) {
                strbuf_printf(out,
                              "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n"
                              "Inference-Header-Content-Length: %u\r\n\r\n",
                              text.len - 2, (unsigned char)text.ptr[1]);
                text = str_skip(text, 2);
        }
        strbuf_put(out, text.ptr, text.len);
}

/* Reads a request to its end: a client that cannot send the rest would not read the answer. */
static void read_request(int fd) {
        AUTO_STRBUF request = { 0 };
        char        piece[4096];
        size_t      needed = 0;
        ssize_t     n;

        while ((needed == 0 || request.len < needed) && (n = read(fd, piece, sizeof(piece))) > 0) {
                const char *end, *length;

                strbuf_put(&request, piece, (size_t)n);
                end = memmem(request.ptr, request.len, "\r\n\r\n", 4);
                if (end == NULL)
                        continue;
                length = memmem(request.ptr, (size_t)(end - request.ptr),
                                "\r\nContent-Length: ", 18);
                needed = (size_t)(end + 4 - request.ptr) +
                         (length != NULL ? (size_t)strtoul(length + 18, NULL, 10) : 0);
        }
}

/* Copies the next answer, since a command may end before its last one was asked for. */
static void take_answer(struct strbuf *answer) {
        struct str text = { 0 };
        MUTEX_GUARD(&lock);

        if (left.ptr != NULL)
                left = str_split(left, SEPARATOR, &text);
        put_answer(text, answer);
}

static void set_answers(struct str answers) {
        MUTEX_GUARD(&lock);

        left = answers;
}

static void serve(void *arg) {
        (void)arg;
        for (;;) {
                AUTO_STRBUF answer = { 0 };
                int         fd = accept(listener, NULL, NULL);

                expect(fd >= 0, "accept", "");
                read_request(fd);
                take_answer(&answer);
                if (answer.len > 0)
                        (void)send(fd, answer.ptr, answer.len, MSG_NOSIGNAL);
                close(fd);
        }
}

static void begin(void) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t          len = sizeof(address);

        if (listener >= 0)
                return;
        errors = stderr;
        mutex_init(&lock, LOCK_LEAF);
        unsetenv("NESO_API_KEY");
        signal(SIGPIPE, SIG_IGN);
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        expect(listener >= 0 && bind(listener, (struct sockaddr *)&address, len) == 0 &&
                       listen(listener, 16) == 0 &&
                       getsockname(listener, (struct sockaddr *)&address, &len) == 0,
               "socket", "");
        (void)snprintf(url, sizeof(url), "--url=http://127.0.0.1:%u", ntohs(address.sin_port));
        expect(thread_start(&server, "server", serve, NULL) == NULL, "thread", "");
}

/* ---- the command ------------------------------------------------------------------------------ */

static bool is_for_terminal(const char *text, size_t len) {
        for (size_t i = 0; i < len; i++) {
                unsigned char b = (unsigned char)text[i];

                if ((b < ' ' && b != '\n') || b == 0x7f)
                        return false;
                if (b == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] >= 0x80 &&
                    (unsigned char)text[i + 1] < 0xa0)
                        return false;
        }
        return true;
}

static void check_output(const char *name, const char *text, size_t len, bool is_json,
                         bool is_whole) {
        expect(is_json || is_for_terminal(text, len), name, text);
        expect(!is_whole || len == 0 || text[len - 1] == '\n', name, "no line end");
}

static void run(const struct command *k, unsigned flags) {
        char  *argv[MAX_WORDS] = { NULL }, *out = NULL, *err = NULL;
        size_t n_out = 0, n_err = 0;
        bool   is_json = (flags & IS_JSON) != 0;
        FILE  *old_out = stdout, *old_err = stderr;
        int    argc = 0, code;

        flags &= k->flags;
        argv[argc++] = (char *)(uintptr_t) "ctl";
        for (size_t i = 0; i < ARRAY_LEN(k->words) && k->words[i] != NULL; i++)
                argv[argc++] = (char *)(uintptr_t)k->words[i];
        argv[argc++] = url;
        argv[argc++] = (char *)(uintptr_t) "--timeout=5";
        if (is_json)
                argv[argc++] = (char *)(uintptr_t) "--json";
        if ((flags & IS_DOT) != 0)
                argv[argc++] = (char *)(uintptr_t) "--dot";
        if ((flags & HAS_VERSION) != 0)
                argv[argc++] = (char *)(uintptr_t) "--version=1";
        if ((flags & HAS_VALUES) != 0)
                argv[argc++] = (char *)(uintptr_t) "--values=2";
        stdout = open_memstream(&out, &n_out);
        stderr = open_memstream(&err, &n_err);
        expect(stdout != NULL && stderr != NULL, "memory", "");
        code = ctl_main(argc, argv);
        fclose(stdout);
        fclose(stderr);
        stdout = old_out;
        stderr = old_err;
        expect(code >= 0 && code <= 3, "exit code", "");
        expect(code != 3 || n_err > 0, "no answer", "without a reason");
        expect(n_err == 0 || strncmp(err, "neso ctl: ", 10) == 0, "standard error", err);
        check_output("standard output", out, n_out, is_json, code == 0);
        check_output("standard error", err, n_err, false, true);
        free(out);
        free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        if (size < 2 || size > MAX_BYTES)
                return 0;
        begin();
        set_answers(str_range((const char *)bytes + 2, size - 2));
        run(&commands[bytes[0] % ARRAY_LEN(commands)], bytes[1]);
        set_answers((struct str){ 0 });
        return 0;
}
