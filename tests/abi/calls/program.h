/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the program that calls every function of tritonserver.h and neso.h. */
#pragma once

#define CALLER "program"
#include "calls.h"
#include "triton/core/neso.h"

/* Where the test has put everything. */
struct places {
        const char *models;
        const char *more_models; /* a repository without models */
        const char *plugins;     /* backends, agents and caches */
        const char *log;         /* a file to be made */
};

/* What needs no server. */
void call_objects(void);
void call_metrics(void);

/* Each option once, on options that are thrown away; then those of a server of `mode`. */
struct TRITONSERVER_ServerOptions *call_options(const struct places          *places,
                                                TRITONSERVER_ModelControlMode mode);

/* Requests to the model "calls", traced; the backend calls its functions meanwhile. */
void call_inference(struct TRITONSERVER_Server *server);
/* One request to the model "cached", until it was answered. */
void infer_cached(struct TRITONSERVER_Server *server);
