/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads and unloads of a program that has the server in it, by names that the tests of paths have.
 *
 *     path_cases <model repository> <directory of backends> < cases
 *
 * A case is a line: the name of a model in hexadecimal digits, and after a blank that of a file
 * which comes with the load, or "-". For each one a line comes back: the code of the load's error
 * and its text, or "-1". Models are unloaded as well; what does not load is nothing to unload.
 * Between two looks for MARK, and there alone, cases are at work.
 */
#include "triton/core/tritonserver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "/mark-of-path-cases"
#define CONFIG "{\"backend\":\"testing\"}"
#define MAX_TEXT 16384

static void must(struct TRITONSERVER_Error *err) {
        if (err == NULL)
                return;
        fprintf(stderr, "path_cases: %s\n", TRITONSERVER_ErrorMessage(err));
        exit(1);
}

static struct TRITONSERVER_Server *start(const char *repository, const char *backends) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Server        *server;

        must(TRITONSERVER_ServerOptionsNew(&options));
        must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository));
        must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends));
        must(TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                           TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        must(TRITONSERVER_ServerOptionsSetLogError(options, false));
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        return server;
}

/* Into `to`, which has room for what a line may hold; the rest of the line. */
static char *read_hex(char *from, char *to) {
        unsigned byte;

        for (; sscanf(from, "%2x", &byte) == 1 && from[0] != ' ' && from[0] != '\n'; from += 2)
                *to++ = (char)byte;
        *to = '\0';
        return from;
}

static struct TRITONSERVER_Error *load(struct TRITONSERVER_Server *server, const char *name,
                                       const char *file) {
        struct TRITONSERVER_Parameter *parameters[2];
        struct TRITONSERVER_Error     *err;
        char                           key[MAX_TEXT + 8];

        if (file == NULL)
                return TRITONSERVER_ServerLoadModel(server, name);
        snprintf(key, sizeof(key), "file:%s", file);
        parameters[0] = TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, CONFIG);
        parameters[1] = TRITONSERVER_ParameterBytesNew(key, "x", 1);
        err = TRITONSERVER_ServerLoadModelWithParameters(
                server, name, (const struct TRITONSERVER_Parameter **)parameters, 2);
        TRITONSERVER_ParameterDelete(parameters[0]);
        TRITONSERVER_ParameterDelete(parameters[1]);
        return err;
}

static void run_case(struct TRITONSERVER_Server *server, char *line) {
        static char                name[MAX_TEXT], file[MAX_TEXT];
        struct TRITONSERVER_Error *err;
        char                      *rest = read_hex(line, name);

        if (rest[1] != '-')
                read_hex(rest + 1, file);
        err = load(server, name, rest[1] != '-' ? file : NULL);
        printf("%d %s\n", err != NULL ? (int)TRITONSERVER_ErrorCode(err) : -1,
               err != NULL ? TRITONSERVER_ErrorMessage(err) : "");
        TRITONSERVER_ErrorDelete(err);
        TRITONSERVER_ErrorDelete(TRITONSERVER_ServerUnloadModel(server, name));
}

int main(int argc, char **argv) {
        static char                 line[4 * MAX_TEXT];
        struct TRITONSERVER_Server *server;

        if (argc != 3) {
                fprintf(stderr, "usage: %s <model repository> <directory of backends>\n", argv[0]);
                return 2;
        }
        server = start(argv[1], argv[2]);
        (void)access(MARK, F_OK);
        while (fgets(line, sizeof(line), stdin) != NULL)
                run_case(server, line);
        (void)access(MARK, F_OK);
        must(TRITONSERVER_ServerStop(server));
        must(TRITONSERVER_ServerDelete(server));
        return 0;
}
