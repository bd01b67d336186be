/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/otlp_json.h"

#include "codec/json_writer.h"
#include "trace/trace_record.h"
#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 }; /* opentelemetry.proto.trace.v1.Span.SpanKind */

#define ID_CHARS 17 /* a span id with the NUL */

/* The state of one export. */
struct otlp {
        struct json_writer         w;
        const struct trace_record *record;
        char                       trace_id[33];
        size_t                     n_spans;
};

struct span {
        char        id[ID_CHARS];
        const char *parent_id; /* NULL = none */
        const char *name;
        int         kind;
        uint64_t    start_ns, end_ns; /* monotonic */
};

/* ---- pieces ---------------------------------------------------------------------------------- */

static void put_time(struct otlp *o, const char *key, uint64_t monotonic_ns) {
        char text[24]; /* an int64_t and the NUL */

        snprintf(text, sizeof(text), "%" PRId64, (int64_t)monotonic_ns + o->record->wall_offset_ns);
        json_key(&o->w, key);
        json_put_string(&o->w, text); /* 64-bit numbers are strings in protobuf's JSON */
}

static void begin_attribute(struct json_writer *w, struct str key, const char *type) {
        json_begin_object(w);
        json_member_str(w, "key", key);
        json_member_object(w, "value");
        json_key(w, type);
}

static void put_text_attribute(struct json_writer *w, struct str key, struct str value) {
        begin_attribute(w, key, "stringValue");
        json_put_str(w, value);
        json_end_object(w);
        json_end_object(w);
}

static void put_number_attribute(struct json_writer *w, const char *key, int64_t value) {
        char text[24];

        snprintf(text, sizeof(text), "%" PRId64, value);
        begin_attribute(w, str_of(key), "intValue");
        json_put_string(w, text);
        json_end_object(w);
        json_end_object(w);
}

static void put_event(struct otlp *o, const struct trace_event *e) {
        json_begin_object(&o->w);
        put_time(o, "timeUnixNano", e->at_ns);
        json_member_string(&o->w, "name", e->name);
        json_end_object(&o->w);
}

/* Prints the span up to its attributes. The caller prints these, each as an element. */
static void begin_span(struct otlp *o, const struct span *s) {
        struct json_writer *w = &o->w;

        o->n_spans++;
        json_begin_object(w);
        json_member_string(w, "traceId", o->trace_id);
        json_member_string(w, "spanId", s->id);
        if (*o->record->tracestate != '\0') {
                json_member_string(w, "traceState", o->record->tracestate);
        }
        if (s->parent_id != NULL) {
                json_member_string(w, "parentSpanId", s->parent_id);
        }
        json_member_string(w, "name", s->name);
        json_member_i64(w, "kind", s->kind);
        put_time(o, "startTimeUnixNano", s->start_ns);
        put_time(o, "endTimeUnixNano", s->end_ns);
        json_member_array(w, "attributes");
}

static void begin_events(struct otlp *o) {
        json_end_array(&o->w);
        json_member_array(&o->w, "events");
}

static void end_span(struct otlp *o) {
        json_end_array(&o->w);
        json_member_object(&o->w, "status");
        json_end_object(&o->w);
        json_end_object(&o->w);
}

static void new_id(struct span *s) {
        uint8_t bytes[8];

        traceparent_new_id(bytes, sizeof(bytes));
        traceparent_print_id(bytes, sizeof(bytes), s->id);
}

static void put_model(struct otlp *o, const struct trace_inference *i) {
        struct json_writer *w = &o->w;

        put_text_attribute(w, STR_LIT("triton.model_name"), str_of(i->model_name));
        put_number_attribute(w, "triton.model_version", i->model_version);
        put_number_attribute(w, "triton.trace_id", (int64_t)i->id);
        put_number_attribute(w, "triton.trace_parent_id", (int64_t)i->parent_id);
        if (*i->request_id != '\0')
                put_text_attribute(w, STR_LIT("triton.request_id"), str_of(i->request_id));
}

/* ---- spans ----------------------------------------------------------------------------------- */

static bool is_of_computing(const struct trace_event *e) {
        return e->activity >= TRITONSERVER_TRACE_COMPUTE_START &&
               e->activity <= TRITONSERVER_TRACE_COMPUTE_END;
}

static const struct trace_event *find_event(const struct trace_record    *r,
                                            const struct trace_inference *i, int activity) {
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next)
                if (e->inference == i && e->activity == activity)
                        return e;
        return NULL;
}

/* Sets the times to the earliest and the latest point; of all inferences when i is NULL. */
static void set_times(struct span *s, const struct trace_record *r,
                      const struct trace_inference *i) {
        s->start_ns = UINT64_MAX;
        s->end_ns = 0;
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next) {
                if (i != NULL && e->inference != i)
                        continue;
                if (e->at_ns < s->start_ns)
                        s->start_ns = e->at_ns;
                if (e->at_ns > s->end_ns)
                        s->end_ns = e->at_ns;
        }
        if (s->start_ns > s->end_ns)
                s->start_ns = s->end_ns;
}

static void put_compute(struct otlp *o, const struct trace_inference *i, const char *parent_id) {
        const struct trace_record *r = o->record;
        const struct trace_event  *start = find_event(r, i, TRITONSERVER_TRACE_COMPUTE_START);
        const struct trace_event  *end = find_event(r, i, TRITONSERVER_TRACE_COMPUTE_END);
        struct span s = { .parent_id = parent_id, .name = "compute", .kind = KIND_INTERNAL };

        if (start == NULL || end == NULL)
                return;
        new_id(&s);
        s.start_ns = start->at_ns;
        s.end_ns = end->at_ns;
        begin_span(o, &s);
        put_model(o, i);
        begin_events(o);
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next)
                if (e->inference == i && is_of_computing(e))
                        put_event(o, e);
        end_span(o);
}

/* Finds the end of the backend's own span that begins with `start`: "<name>_START" ...
 * "<name>_END". */
static const struct trace_event *find_custom_end(const struct trace_event *start,
                                                 size_t                   *ret_name_bytes) {
        struct str name = str_of(start->name);

        if (start->activity != TRITONSERVER_TRACE_CUSTOM_ACTIVITY ||
            !str_ends(name, STR_LIT("_START")) || name.len == sizeof("_START") - 1)
                return NULL;
        *ret_name_bytes = name.len - (sizeof("_START") - 1);
        for (const struct trace_event *e = start->next; e != NULL; e = e->next)
                if (e->inference == start->inference && e->activity == start->activity &&
                    strncmp(e->name, start->name, *ret_name_bytes) == 0 &&
                    strcmp(e->name + *ret_name_bytes, "_END") == 0)
                        return e;
        return NULL;
}

static void put_custom(struct otlp *o, const struct trace_event *start, const char *parent_id) {
        size_t                    name_bytes = 0;
        const struct trace_event *end = find_custom_end(start, &name_bytes);
        struct span               s = { .parent_id = parent_id, .kind = KIND_INTERNAL };
        AUTO_STRBUF               name = { 0 };

        if (end == NULL)
                return;
        strbuf_put(&name, start->name, name_bytes);
        strbuf_spoil(o->w.out, &name);
        new_id(&s);
        s.name = strbuf_cstr(&name);
        s.start_ns = start->at_ns;
        s.end_ns = end->at_ns;
        begin_span(o, &s);
        begin_events(o);
        put_event(o, start);
        put_event(o, end);
        end_span(o);
}

/* Derives a span id from the record's own id and the position of the inference. Parents are printed
 * first, so a child can compute the id of its parent without a look-up. */
static void derive_id(const struct trace_record *r, const struct trace_inference *wanted,
                      char id[ID_CHARS]) {
        uint64_t at = 1;
        uint8_t  bytes[8];

        for (const struct trace_inference *i = r->first_inference; i != NULL && i != wanted;
             i = i->next)
                at++;
        for (int b = 0; b < 8; b++)
                bytes[b] = (uint8_t)(r->context.span_id[b] ^ (uint8_t)((at << 8) >> (8 * b)));
        traceparent_print_id(bytes, sizeof(bytes), id);
}

static const struct trace_inference *find_parent(const struct trace_record    *r,
                                                 const struct trace_inference *child) {
        for (const struct trace_inference *i = r->first_inference; i != NULL; i = i->next)
                if (i->id == child->parent_id && i != child)
                        return i;
        return NULL;
}

static void put_inference(struct otlp *o, const struct trace_inference *i, const char *root_id) {
        const struct trace_record    *r = o->record;
        const struct trace_inference *parent = find_parent(r, i);
        char                          parent_id[ID_CHARS];
        struct span                   s = { .name = i->model_name, .kind = KIND_INTERNAL };

        if (parent != NULL)
                derive_id(r, parent, parent_id);
        s.parent_id = parent != NULL ? parent_id : root_id;
        derive_id(r, i, s.id);
        set_times(&s, r, i);
        begin_span(o, &s);
        put_model(o, i);
        begin_events(o);
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next)
                if (e->inference == i && !is_of_computing(e))
                        put_event(o, e);
        end_span(o);
        put_compute(o, i, s.id);
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next)
                if (e->inference == i)
                        put_custom(o, e, s.id);
}

static void put_record(struct otlp *o, const struct trace_record *r) {
        struct span root = { .name = "InferRequest", .kind = KIND_SERVER };
        char        parent_id[ID_CHARS];

        o->record = r;
        traceparent_print_id(r->context.trace_id, sizeof(r->context.trace_id), o->trace_id);
        traceparent_print_id(r->context.span_id, sizeof(r->context.span_id), root.id);
        if (r->has_parent) {
                traceparent_print_id(r->parent_span_id, sizeof(r->parent_span_id), parent_id);
                root.parent_id = parent_id;
        }
        set_times(&root, r, NULL);
        begin_span(o, &root);
        if (r->first_inference != NULL)
                put_model(o, r->first_inference);
        begin_events(o);
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next)
                if (e->inference == NULL)
                        put_event(o, e);
        end_span(o);
        for (const struct trace_inference *i = r->first_inference; i != NULL; i = i->next)
                put_inference(o, i, root.id);
}

/* ---- the whole export ------------------------------------------------------------------------ */

static void put_resource(struct json_writer *w, const struct otlp_resource *resource) {
        bool has_name = false;

        json_member_object(w, "resource");
        json_member_array(w, "attributes");
        for (size_t i = 0; i < resource->n_attributes; i++) {
                struct str key;
                struct str value = str_split(str_of(resource->attributes[i]), '=', &key);

                has_name = has_name || str_is(key, "service.name");
                put_text_attribute(w, key, value);
        }
        if (!has_name)
                put_text_attribute(w, STR_LIT("service.name"), STR_LIT("triton-inference-server"));
        json_end_array(w);
        json_end_object(w);
}

size_t otlp_json_print(const struct otlp_resource *resource, const struct trace_record *first,
                       struct strbuf *out) {
        struct otlp         o = { 0 };
        struct json_writer *w = &o.w;

        json_writer_init(w, out);
        json_begin_object(w);
        json_member_array(w, "resourceSpans");
        json_begin_object(w);
        put_resource(w, resource);
        json_member_array(w, "scopeSpans");
        json_begin_object(w);
        json_member_object(w, "scope");
        json_member_string(w, "name", "triton-server");
        json_member_string(w, "version", NESO_VERSION);
        json_end_object(w);
        json_member_array(w, "spans");
        for (const struct trace_record *r = first; r != NULL; r = r->next)
                put_record(&o, r);
        json_end_array(w);
        json_end_object(w);
        json_end_array(w);
        json_end_object(w);
        json_end_array(w);
        json_end_object(w);
        return o.n_spans;
}
