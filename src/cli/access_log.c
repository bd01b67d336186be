/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/access_log.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "call/service.h"
#include "codec/json_writer.h"
#include "triton/core/neso.h"

#include <stdio.h>
#include <time.h>

#define MAX_LINE_BYTES 65536

static void put_time(struct json_writer *w) {
        uint64_t  now_ns = clock_wall_ns();
        time_t    seconds = (time_t)(now_ns / NS_PER_S);
        struct tm parts;
        char      text[64];
        char      date[32];

        gmtime_r(&seconds, &parts);
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(text, sizeof(text), "%s.%06uZ", date, (unsigned)(now_ns % NS_PER_S / NS_PER_US));
        json_member_string(w, "ts", text);
}

void access_log_write(void *owner, const struct access_entry *a) {
        AUTO_STRBUF        line = { .max = MAX_LINE_BYTES };
        struct json_writer w = { .out = &line };

        (void)owner;
        json_begin_object(&w);
        put_time(&w);
        json_member_str(&w, "level", STR_LIT("access"));
        json_member_str(&w, "peer", str_of(a->peer));
        json_member_str(&w, "method", a->method);
        json_member_str(&w, "path", a->path);
        if (a->model.len > 0)
                json_member_str(&w, "model", a->model);
        if (a->key.len > 0)
                json_member_str(&w, "key", a->key);
        json_member_u64(&w, "status", a->status);
        json_member_u64(&w, "bytes_in", a->bytes_in);
        json_member_u64(&w, "bytes_out", a->bytes_out);
        json_member_u64(&w, "duration_us", a->duration_ns / NS_PER_US);
        if (a->is_aborted) {
                json_member_bool(&w, "aborted", true);
        }
        json_end_object(&w);
        if (!line.overflowed)
                TRITONSERVER_ErrorDelete(NESO_LogLine(line.ptr, line.len));
}
