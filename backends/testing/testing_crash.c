/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways in which the testing backend crashes when a parameter asks for it. */
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Beyond the end of a file there is no page to map. */
static void touch_no_page(void) {
        volatile char *page;
        FILE          *empty = tmpfile();

        if (empty == NULL)
                abort();
        page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0);
        if (page != MAP_FAILED)
                (void)*page;
}

/* No compiler knows that it never ends. */
static int overflow(volatile int *depth) {
        volatile char frame[4096];

        frame[0] = (char)*depth;
        return ++*depth > 0 ? overflow(depth) + frame[0] : frame[0];
}

void testing_crash(const char *how) {
        volatile int *volatile nowhere = NULL;
        volatile int  depth = 0;

        if (strcmp(how, "SIGSEGV") == 0)
                *nowhere = 1;
        else if (strcmp(how, "SIGBUS") == 0)
                touch_no_page();
        else if (strcmp(how, "SIGABRT") == 0)
                abort();
        else if (strcmp(how, "SIGFPE") == 0)
                raise(SIGFPE); /* not every machine has a division that fails */
        else if (strcmp(how, "SIGILL") == 0)
                __builtin_trap();
        else if (strcmp(how, "overflow") == 0)
                overflow(&depth);
}
