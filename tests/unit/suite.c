/* SPDX-License-Identifier: BSD-3-Clause */
/* main() of the programs of unit tests. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct suite *find_suite(const char *name) {
        for (const struct suite *s = suites; s->name != NULL; s++)
                if (strcmp(s->name, name) == 0)
                        return s;
        return NULL;
}

/* A process for each: suites change the environment, limits and the log, and some count threads. */
static int run_in_child(const struct suite *s) {
        int   status;
        pid_t child;

        fflush(NULL);
        child = fork();
        if (child == 0)
                exit(s->run() == 0 ? 0 : 1);
        if (child < 0 || waitpid(child, &status, 0) != child)
                return 1;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

static int run_all(void) {
        int n_failed = 0;

        for (const struct suite *s = suites; s->name != NULL; s++) {
                printf("== %s\n", s->name);
                if (run_in_child(s) == 0)
                        continue;
                printf("== %s failed\n", s->name);
                n_failed++;
        }
        return n_failed > 0 ? 1 : 0;
}

int main(int argc, char **argv) {
        const struct suite *s;

        if (argc < 2)
                return run_all();
        if (argc == 2 && strcmp(argv[1], "-l") == 0) {
                for (s = suites; s->name != NULL; s++)
                        puts(s->name);
                return 0;
        }
        s = argc == 2 ? find_suite(argv[1]) : NULL;
        if (s == NULL) {
                fprintf(stderr, "usage: %s [-l | SUITE]: one of what -l lists\n", argv[0]);
                return 2;
        }
        return s->run();
}
