/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/local_server.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_TABLE ((size_t)64 << 20)

/* The inode of the socket that listens on the port, from a table of the kernel (proc_net_tcp(5)). */
static uint64_t inode_in(const char *table, uint16_t port) {
        AUTO_STRBUF text = { 0 };
        AUTO_ERROR  err = file_read(table, MAX_TABLE, &text);

        if (err != NULL)
                return 0;
        STR_FOR_EACH(strbuf_str(&text), '\n', line) {
                unsigned           local_port, state;
                unsigned long long inode;
                AUTO_CHARS         row = mem_strndup(line.ptr, line.len);

                if (sscanf(row, "%*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %llu",
                           &local_port, &state, &inode) == 3 &&
                    local_port == port && state == 0x0a)
                        return inode;
        }
        return 0;
}

static bool has_socket(const char *pid, uint64_t inode) {
        AUTO_CHARS      folder = mem_printf("/proc/%s/fd", pid);
        AUTO_CHARS      wanted = mem_printf("socket:[%llu]", (unsigned long long)inode);
        struct dir_list list;
        bool            is_found = false;

        AUTO_ERROR err = dir_list_read(folder, &list);
        if (err != NULL)
                return false;
        for (size_t i = 0; i < list.n_names && !is_found; i++) {
                AUTO_CHARS path = path_join(folder, list.names[i]);
                char       target[64];
                ssize_t    n = readlink(path, target, sizeof(target) - 1);

                target[n > 0 ? n : 0] = '\0';
                is_found = strcmp(target, wanted) == 0;
        }
        dir_list_done(&list);
        return is_found;
}

int local_server_find(uint16_t port) {
        uint64_t        inode = inode_in("/proc/net/tcp", port);
        struct dir_list list;
        int             pid = 0;

        if (inode == 0)
                inode = inode_in("/proc/net/tcp6", port);
        if (inode == 0)
                return 0;
        AUTO_ERROR err = dir_list_read("/proc", &list);
        if (err != NULL)
                return 0;
        for (size_t i = 0; i < list.n_names && pid == 0; i++)
                if (list.names[i][0] >= '1' && list.names[i][0] <= '9' &&
                    has_socket(list.names[i], inode))
                        pid = atoi(list.names[i]);
        dir_list_done(&list);
        return pid;
}

uint64_t local_server_cpu_ns(int pid) {
        clockid_t       clock;
        struct timespec t;

        if (clock_getcpuclockid((pid_t)pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
                return 0;
        return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The second number of statm: resident pages (proc_pid_statm(5)). */
uint64_t local_server_resident(int pid) {
        AUTO_CHARS         path = mem_printf("/proc/%d/statm", pid);
        AUTO_STRBUF        text = { .max = 4096 };
        unsigned long long pages;

        AUTO_ERROR err = file_read(path, 4096, &text);
        if (err != NULL || sscanf(strbuf_cstr(&text), "%*u %llu", &pages) != 1)
                return 0;
        return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
