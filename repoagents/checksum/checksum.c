/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository agent "checksum": refuses to load a model whose files do not have the digests in its
 * configuration.
 *
 * Each parameter is one file to check before the load. Its name is "<algorithm>:<file>", with MD5 or
 * SHA256 and a path below the model's directory. Its value is the digest in hexadecimal digits:
 *
 *     model_repository_agents { agents { name: "checksum"
 *       parameters { key: "SHA256:1/model.onnx" value: "9f86d081..." } } }
 *
 * Ownership.  Nothing is kept between calls.
 * Threads.  Any number of models at the same time.
 */
#include "triton/core/tritonrepoagent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRY(expression)                                                                            \
        do {                                                                                       \
                TRITONSERVER_Error *try_err_ = (expression);                                       \
                if (try_err_ != NULL)                                                              \
                        return try_err_;                                                           \
        } while (0)

__attribute__((format(printf, 1, 2))) static TRITONSERVER_Error *refusal(const char *format, ...) {
        TRITONSERVER_Error *err;
        va_list             args;
        char               *text = NULL;

        va_start(args, format);
        if (vasprintf(&text, format, args) < 0)
                text = NULL;
        va_end(args);
        err = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, text != NULL ? text : format);
        free(text);
        return err;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* True when the text of the path does not leave its start directory. */
static bool is_plain(const char *path) {
        if (*path == '\0' || *path == '/')
                return false;
        for (const char *part = path; part != NULL; part = strchr(part, '/')) {
                part += *part == '/';
                if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
                        return false;
        }
        return true;
}

/* The same check after links were resolved: `root` and `path` have none. */
static bool is_below(const char *root, const char *path) {
        size_t len = strlen(root);

        return strncmp(path, root, len) == 0 && path[len] == '/';
}

static TRITONSERVER_Error *open_regular(const char *path, const char *file, int *ret) {
        struct stat stat;
        /* O_NONBLOCK: open() must not wait for the writer of a named pipe. */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd < 0)
                return refusal("unable to open '%s': %s", file, strerror(errno));
        if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
                close(fd);
                return refusal("'%s' is no regular file", file);
        }
        *ret = fd;
        return NULL;
}

static TRITONSERVER_Error *open_below(const char *directory, const char *file, int *ret) {
        char  root[PATH_MAX];
        char  path[PATH_MAX];
        char *joined = NULL;
        bool  is_there;

        if (!is_plain(file))
                return refusal("'%s': the path must stay within the model directory", file);
        if (realpath(directory, root) == NULL)
                return refusal("unable to open '%s': %s", directory, strerror(errno));
        if (asprintf(&joined, "%s/%s", root, file) < 0)
                return refusal("unable to open '%s': out of memory", file);
        is_there = realpath(joined, path) != NULL;
        free(joined);
        if (!is_there)
                return refusal("unable to open '%s': %s", file, strerror(errno));
        if (!is_below(root, path))
                return refusal("'%s': the path must stay within the model directory", file);
        return open_regular(path, file, ret);
}

/* ---- the digest ------------------------------------------------------------------------------ */

/* Room for the longest digest in hexadecimal digits, and a NUL. */
#define DIGEST_MAX_TEXT 65
/* Models have gigabytes. They are read in pieces that fit on a small stack. */
#define PIECE_BYTES 16384

struct digest_kind {
        const char *name;     /* name in configurations and in libcrypto: "MD5" */
        size_t      n_digits; /* hexadecimal */
};

static const struct digest_kind kinds[] = {
        { .name = "MD5", .n_digits = 32 },
        { .name = "SHA256", .n_digits = 64 },
};

/* Returns NULL for an unknown name. Ignores case. */
static const struct digest_kind *find_digest_kind(const char *name, size_t name_len) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strlen(kinds[i].name) == name_len &&
                    strncasecmp(kinds[i].name, name, name_len) == 0)
                        return &kinds[i];
        return NULL;
}

static const char *add_file(EVP_MD_CTX *state, int fd) {
        char    piece[PIECE_BYTES];
        ssize_t n;

        while ((n = read(fd, piece, sizeof(piece))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return strerror(errno);
                if (EVP_DigestUpdate(state, piece, (size_t)n) != 1)
                        return "libcrypto failed";
        }
        return NULL;
}

static const char *print_digest(const struct digest_kind *kind, EVP_MD_CTX *state, char *ret) {
        unsigned char bytes[EVP_MAX_MD_SIZE];
        unsigned      n_bytes = 0;

        if (EVP_DigestFinal_ex(state, bytes, &n_bytes) != 1 || n_bytes * 2 != kind->n_digits)
                return "libcrypto failed";
        for (unsigned i = 0; i < n_bytes; i++)
                snprintf(ret + (size_t)2 * i, 3, "%02x", bytes[i]);
        return NULL;
}

/* Writes the digest of the rest of an open file, in lower case digits. Returns NULL, or the reason
 * of the failure, which is borrowed until the thread's next error. */
static const char *read_digest(const struct digest_kind *kind, int fd, char ret[DIGEST_MAX_TEXT]) {
        EVP_MD     *digest = EVP_MD_fetch(NULL, kind->name, NULL);
        EVP_MD_CTX *state = EVP_MD_CTX_new();
        const char *why = NULL;

        /* Some builds of libcrypto do not have MD5. */
        if (digest == NULL || state == NULL || EVP_DigestInit_ex(state, digest, NULL) != 1)
                why = "this libcrypto has no such digest";
        if (why == NULL)
                why = add_file(state, fd);
        if (why == NULL)
                why = print_digest(kind, state, ret);
        EVP_MD_CTX_free(state);
        EVP_MD_free(digest);
        return why;
}

/* ---- one parameter --------------------------------------------------------------------------- */

static TRITONSERVER_Error *compare_digest(const struct digest_kind *kind, const char *directory,
                                          const char *file, const char *expected) {
        char        found[DIGEST_MAX_TEXT];
        const char *why;
        int         fd;

        TRY(open_below(directory, file, &fd));
        why = read_digest(kind, fd, found);
        close(fd);
        if (why != NULL)
                return refusal("unable to compute %s of '%s': %s", kind->name, file, why);
        if (strcasecmp(found, expected) != 0)
                return refusal("%s mismatch of file '%s': expected %s, found %s", kind->name, file,
                               expected, found);
        return NULL;
}

static TRITONSERVER_Error *check_parameter(const char *directory, const char *name,
                                           const char *value) {
        const char               *colon = strchr(name, ':');
        const struct digest_kind *kind;

        if (colon == NULL)
                return refusal("parameter '%s' is not of the form <algorithm>:<file>", name);
        kind = find_digest_kind(name, (size_t)(colon - name));
        if (kind == NULL)
                return refusal("parameter '%s': the algorithm must be MD5 or SHA256", name);
        if (strlen(value) != kind->n_digits ||
            strspn(value, "0123456789abcdefABCDEF") != kind->n_digits)
                return refusal("parameter '%s': the value '%s' is no %s digest of %zu hexadecimal "
                               "digits",
                               name, value, kind->name, kind->n_digits);
        return compare_digest(kind, directory, colon + 1, value);
}

static TRITONSERVER_Error *check_all(TRITONREPOAGENT_Agent      *agent,
                                     TRITONREPOAGENT_AgentModel *model) {
        TRITONREPOAGENT_ArtifactType type;
        const char                  *directory, *name, *value;
        uint32_t                     n;

        TRY(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &directory));
        if (type != TRITONREPOAGENT_ARTIFACT_FILESYSTEM)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED,
                                             "only models in local directories can be checked");
        TRY(TRITONREPOAGENT_ModelParameterCount(agent, model, &n));
        for (uint32_t i = 0; i < n; i++) {
                TRY(TRITONREPOAGENT_ModelParameter(agent, model, i, &name, &value));
                TRY(check_parameter(directory, name, value));
        }
        return NULL;
}

/* ---- entry points ---------------------------------------------------------------------------- */

/* Refuses a server with another version of the interface. */
TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent) {
        uint32_t major, minor;

        (void)agent;
        TRY(TRITONREPOAGENT_ApiVersion(&major, &minor));
        if (major != TRITONREPOAGENT_API_VERSION_MAJOR || minor < TRITONREPOAGENT_API_VERSION_MINOR)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED,
                                             "the server has another version of the repository "
                                             "agent interface");
        return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent           *agent,
                                                TRITONREPOAGENT_AgentModel      *model,
                                                const TRITONREPOAGENT_ActionType action_type) {
        return action_type == TRITONREPOAGENT_ACTION_LOAD ? check_all(agent, model) : NULL;
}
