/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/placement.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODE_BITS (8 * sizeof(unsigned long))

/* Longest list of cores, each followed by a comma: 8192 times "8191,". */
#define CPULIST_MAX_BYTES ((size_t)5 * PLACEMENT_MAX_CORES)

static bool read_core(struct str s, size_t *ret) {
        uint64_t n;

        if (!str_to_u64(s, &n) || n >= PLACEMENT_MAX_CORES)
                return false;
        *ret = (size_t)n;
        return true;
}

/* "3" or "0-3". */
static bool read_range(struct str item, size_t *ret_first, size_t *ret_last) {
        struct str first;
        struct str last = str_split(item, '-', &first);

        if (last.ptr == NULL)
                last = first;
        return read_core(first, ret_first) && read_core(last, ret_last) && *ret_first <= *ret_last;
}

static struct error *read_list(struct placement *p, struct str list) {
        CPU_ZERO_S(sizeof(p->cores), p->cores);
        STR_FOR_EACH(list, ',', item) {
                size_t first, last;

                if (!read_range(item, &first, &last))
                        return error_new(ERR_INVALID_ARG,
                                         "'%.*s' is not a core below %d or a range of cores, as in "
                                         "0-3,8",
                                         STR_ARG(item), PLACEMENT_MAX_CORES);
                for (size_t core = first; core <= last; core++)
                        CPU_SET_S(core, sizeof(p->cores), p->cores);
        }
        p->has_cores = true;
        return NULL;
}

struct error *placement_read_cores(struct placement *p, const char *list) {
        TRY(read_list(p, str_of(list)));
        p->needs_each_core = true;
        return NULL;
}

/* Reads a node's list of cores from /sys: "0-3,8\n", or "\n" for a node with memory only. */
static struct error *read_cores_of_node(struct placement *p, const char *directory) {
        AUTO_CHARS  path = path_join(directory, "cpulist");
        AUTO_STRBUF text = { 0 };
        struct str  list;

        TRY(file_read(path, CPULIST_MAX_BYTES, &text));
        str_split(strbuf_str(&text), '\n', &list);
        if (list.len == 0)
                return NULL;
        return error_wrap(read_list(p, list), "%s", path);
}

struct error *placement_read_node(struct placement *p, const char *node,
                                  const char *nodes_directory) {
        AUTO_CHARS name = NULL;
        AUTO_CHARS directory = NULL;
        uint64_t   n;

        if (!str_to_u64(str_of(node), &n) || n >= PLACEMENT_MAX_NODES)
                return error_new(ERR_INVALID_ARG, "'%s' is not a number of a NUMA node below %d",
                                 node, PLACEMENT_MAX_NODES);
        name = mem_printf("node%u", (unsigned)n);
        directory = path_join(nodes_directory, name);
        if (!file_exists(directory))
                return error_new(ERR_INVALID_ARG, "this machine has no NUMA node %u", (unsigned)n);
        p->has_memory = true;
        p->memory_mode = MPOL_PREFERRED;
        memset(p->memory_nodes, 0, sizeof(p->memory_nodes));
        p->memory_nodes[n / NODE_BITS] = 1UL << (n % NODE_BITS);
        p->has_cores = p->needs_each_core = false;
        return read_cores_of_node(p, directory);
}

/* One more than the number of bits: the kernel reads one bit fewer than the number it is passed. */
#define MASK_BITS ((unsigned long)PLACEMENT_MAX_NODES + 1)

static struct error *get_memory(struct placement *p) {
        if (syscall(SYS_get_mempolicy, &p->memory_mode, p->memory_nodes, MASK_BITS, NULL, 0UL) != 0)
                return error_errno(errno, "unable to read the memory policy of a thread");
        p->has_memory = true;
        return NULL;
}

struct error *placement_get(struct placement *ret, bool with_memory) {
        struct placement p = { .has_cores = true };

        if (sched_getaffinity(0, sizeof(p.cores), p.cores) != 0)
                return error_errno(errno, "unable to read the cores of a thread");
        if (with_memory)
                TRY(get_memory(&p));
        *ret = p;
        return NULL;
}

/* The kernel silently ignores unavailable cores as long as one core of the mask is available. */
static struct error *check_cores(const struct placement *p) {
        struct placement given;

        TRY(placement_get(&given, false));
        for (size_t core = 0; core < PLACEMENT_MAX_CORES; core++)
                if (CPU_ISSET_S(core, sizeof(p->cores), p->cores) &&
                    !CPU_ISSET_S(core, sizeof(given.cores), given.cores))
                        return error_new(ERR_INVALID_ARG,
                                         "core %zu is not there, or this process may not use it",
                                         core);
        return NULL;
}

static struct error *apply_cores(const struct placement *p) {
        int failure = sched_setaffinity(0, sizeof(p->cores), p->cores) == 0 ? 0 : errno;

        if (p->needs_each_core && (failure == 0 || failure == EINVAL))
                TRY(check_cores(p));
        if (failure == EINVAL)
                return error_new(ERR_INVALID_ARG, "this process may use none of the cores");
        return failure == 0 ? NULL : error_errno(failure, "unable to set the cores of a thread");
}

static struct error *apply_memory(const struct placement *p) {
        if (syscall(SYS_set_mempolicy, p->memory_mode, p->memory_nodes, MASK_BITS) == 0)
                return NULL;
        if (errno == EINVAL)
                return error_new(ERR_INVALID_ARG, "the NUMA node has no memory, or none that this "
                                                  "process may use");
        return error_errno(errno, "unable to set the memory policy of a thread (in a container, "
                                  "that may need the capability SYS_NICE)");
}

struct error *placement_apply(const struct placement *p) {
        if (p->has_cores)
                TRY(apply_cores(p));
        return p->has_memory ? apply_memory(p) : NULL;
}

/* Lives on the stack of the starting thread, which waits until `is_placed` is posted. */
struct placed_start {
        const struct placement *placement;
        thread_fn               run;
        void                   *arg;
        sem_t                   is_placed;
        struct error           *error;
};

static void begin_placed(void *arg) {
        struct placed_start *start = arg;
        thread_fn            run = start->run;
        void                *run_arg = start->arg;
        struct error        *err = placement_apply(start->placement);

        start->error = err;
        sem_post(&start->is_placed); /* `start` may be freed now */
        if (err == NULL)
                run(run_arg);
}

struct error *placement_start_thread(const struct placement *p, struct thread *t, const char *name,
                                     thread_fn run, void *arg) {
        struct placed_start start = { .placement = p, .run = run, .arg = arg };
        struct error       *err;

        if (p == NULL)
                return thread_start(t, name, run, arg);
        sem_init(&start.is_placed, 0, 0);
        err = thread_start(t, name, begin_placed, &start);
        if (err == NULL) {
                while (sem_wait(&start.is_placed) != 0)
                        ; /* interrupted by a signal */
                err = start.error;
                if (err != NULL)
                        thread_join(t);
        }
        sem_destroy(&start.is_placed);
        return err;
}

struct error *placement_run(const struct placement *p, const char *name, thread_fn run, void *arg) {
        struct thread t = { .is_started = false };

        if (p == NULL) {
                run(arg);
                return NULL;
        }
        TRY(placement_start_thread(p, &t, name, run, arg));
        thread_join(&t);
        return NULL;
}
