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
        json_key(w, "ts");
        json_put_string(w, text);
}

static void put_text(struct json_writer *w, const char *key, struct str text) {
        json_key(w, key);
        json_put_str(w, text);
}

static void put_number(struct json_writer *w, const char *key, uint64_t number) {
        json_key(w, key);
        json_put_u64(w, number);
}

void access_log_write(void *owner, const struct access_entry *a) {
        AUTO_STRBUF        line = { 0 };
        struct json_writer w;

        (void)owner;
        strbuf_init(&line, MAX_LINE_BYTES);
        json_writer_init(&w, &line);
        json_begin_object(&w);
        put_time(&w);
        put_text(&w, "level", STR_LIT("access"));
        put_text(&w, "peer", str_of(a->peer));
        put_text(&w, "method", a->method);
        put_text(&w, "path", a->path);
        if (a->model.len > 0)
                put_text(&w, "model", a->model);
        if (a->key.len > 0)
                put_text(&w, "key", a->key);
        put_number(&w, "status", a->status);
        put_number(&w, "bytes_in", a->bytes_in);
        put_number(&w, "bytes_out", a->bytes_out);
        put_number(&w, "duration_us", a->duration_ns / NS_PER_US);
        if (a->is_aborted) {
                json_key(&w, "aborted");
                json_put_bool(&w, true);
        }
        json_end_object(&w);
        if (!line.overflowed)
                TRITONSERVER_ErrorDelete(NESO_LogLine(line.ptr, line.len));
}
