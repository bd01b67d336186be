/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the python backend and of a model: settings, the model's program, and the interpreter
 * that runs it.
 *
 * Settings of the backend (--backend-config=python,<key>=<value>):
 *
 *     python-path               the interpreter (python3, found in PATH)
 *     stub-timeout-seconds      time limit of a process's start and of finalize() (30)
 *     stub-restart              whether a crashed process is restarted (true)
 *     shm-max-byte-size         limit of the memory shared by an instance and the server (0: none)
 *     shm-default-byte-size     addresses of that memory at first, half of them for each direction (4 MiB)
 *     shm-growth-byte-size      least number of addresses that are added when it grows (1 MiB)
 *     shm-region-prefix-name, shm_message_queue_size, thread-pool-size
 *                               of the reference server; checked and without effect here
 *
 * Parameters of a model: EXECUTION_ENV_PATH, FORCE_CPU_ONLY_INPUT_TENSORS, and PIPELINE_DEPTH,
 * ASYNC_CONCURRENCY, EXECUTE_TIMEOUT_MS, GPU_INPUTS_IN_PLACE (docs/python_models.md).
 *
 * Ownership.  The backend outlives its models, a model its instances.
 * Threads.  Neither changes after its creation, except for atomic fields and fields with a lock.
 */
#pragma once

#include "kit/model.h"
#include "kit/stream.h"
#include "python/region.h"
#include "python/stub_process.h"

#include <pthread.h>
#include <stdatomic.h>

struct environments;
struct model;

struct settings {
        char                 *python; /* owned; the interpreter's path or name */
        uint64_t              timeout_ns;
        struct region_options region;
        bool                  restarts;
};

struct backend {
        struct settings            settings;
        struct kit_json           *config;             /* owned; as the server gives it */
        struct reaper             *reaper;             /* owned */
        struct environments       *environments;       /* owned: unpacked archives */
        const char                *directory;          /* of the library and of the stub's files;
                                                        * borrowed */
        char                      *backends_directory; /* owned; of all backends */
        TRITONSERVER_MetricFamily *restarts_family;    /* owned; NULL without metrics */

        TRITONSERVER_ResponseAllocator *allocator; /* owned; for calls to other models */
        TRITONBACKEND_MemoryManager    *memory;    /* borrowed */
        _Atomic uint64_t                n_holds;   /* of tensors on GPUs, so far: their numbers */
        struct kit_workers              workers;   /* threads that load models */

        pthread_mutex_t lock; /* guards the list, the models' instances, and all waits (waits.h) */
        struct model   *models;  /* borrowed */
        int             n_maybe; /* waits of the kind SHM_WAIT_MAYBE */
};

struct model {
        struct kit_model     kit;
        struct backend      *backend;
        TRITONSERVER_Server *server;
        char  *library_directory; /* owned; for a backend written in Python, else NULL */
        char  *file;              /* owned; path of the program */
        char  *python;            /* owned; path of the interpreter */
        char **environment;       /* owned; of its processes */
        bool   is_decoupled;
        bool   is_iterative;
        bool   takes_device_memory; /* FORCE_CPU_ONLY_INPUT_TENSORS is "no": inputs stay on GPUs */
        bool   takes_in_place;      /* GPU_INPUTS_IN_PLACE: without a copy there (holds.h) */
        uint32_t             depth; /* limit of executions that an instance has at a time */
        uint32_t             async_concurrency;  /* the same for a coroutine execute(); 1: off */
        uint64_t             execute_timeout_ns; /* 0: none */
        atomic_bool          makes_calls;        /* to other models; then executions are not
                                                  * pipelined */
        atomic_bool          has_warned_of_type; /* of an output, other than the configuration's */
        TRITONSERVER_Metric *restarts;           /* owned; NULL without metrics */

        bool             is_listed;
        struct model    *next;      /* in the backend's list */
        struct instance *instances; /* borrowed; guarded by the backend's lock */
        bool             can_serve; /* used within find_servers(), waits.c */
};

TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *triton, struct backend **ret);
void                backend_free(struct backend *backend);

/* Reads the configuration and finds program and interpreter; starts nothing. */
TRITONSERVER_Error *model_new(TRITONBACKEND_Model *triton, struct model **ret);
void                model_free(struct model *model);
/* Reads the configuration again after its completion. */
TRITONSERVER_Error *model_read_again(struct model *model);
