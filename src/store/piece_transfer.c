/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/piece_transfer.h"

#include "store/store.h"
#include "store/store_hub.h"
#include "store/store_kind.h"
#include "store/store_list.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Answers with a part of the range each that the transfer of a piece may take. */
#define MAX_ANSWERS 256U

static void begin_again(struct piece_transfer *t) {
        atomic_fetch_sub(t->done_bytes, t->at - t->begin);
        t->at = t->begin;
}

static bool take_body(void *userp, struct str bytes);

static void prepare(void *userp, struct store_request *r) {
        struct piece_transfer *t = userp;
        char                   range[64];

        t->is_checked = false;
        if (!t->has_range || t->at == t->end) /* all bytes came, but not the end of the answer */
                begin_again(t);
        store_kind_print_object(t->store, t->entry, &r->url);
        store_kind_add_headers(t->store, t->entry, r);
        if (t->has_range) {
                snprintf(range, sizeof(range), "bytes=%llu-%llu", (unsigned long long)t->at,
                         (unsigned long long)(t->end - 1));
                store_request_add(r, "range", range);
        }
        r->take = take_body;
        r->userp = t;
}

/* ---- the head of an answer ------------------------------------------------------------------- */

/* Without the quotes and without the mark of a weak one. */
static struct str plain_etag(struct str etag) {
        if (str_starts(etag, STR_LIT("W/")))
                etag = str_skip(etag, 2);
        if (etag.len >= 2 && etag.ptr[0] == '"' && etag.ptr[etag.len - 1] == '"')
                etag = str_range(etag.ptr + 1, etag.len - 2);
        return etag;
}

static bool has_other_etag(const struct piece_transfer *t) {
        struct str found = plain_etag(str_of(store_answer_header(&t->answer, "etag")));
        struct str listed = plain_etag(str_of(t->entry->etag));

        return store_kind_compares_etag(t->store) && found.len > 0 && listed.len > 0 &&
               !str_equal(found, listed);
}

/* "bytes 0-8388607/9000000", with a star for a size that is not known. The range may end early. */
static bool read_range(struct piece_transfer *t) {
        unsigned long long first, last, size;
        int n = sscanf(store_answer_header(&t->answer, "content-range"), "bytes %llu-%llu/%llu",
                       &first, &last, &size);

        if (n < 2 || first != t->at || last < first || last >= t->end ||
            (n == 3 && size != t->entry->size))
                return false;
        t->answer_end = last + 1;
        return true;
}

/* The store serves no ranges. */
static void become_whole(struct piece_transfer *t) {
        begin_again(t);
        t->has_range = false;
        t->begin = t->at = 0;
        t->end = t->entry->size;
        t->farthest = 0;
}

static struct error *check_head(struct piece_transfer *t) {
        bool is_part = t->answer.status == 206;

        if (has_other_etag(t)) {
                t->has_changed = true;
                return NULL;
        }
        if (is_part && (!t->has_range || !read_range(t)))
                return error_new(ERR_UNAVAILABLE, "%s: the answer has another range, '%.64s'",
                                 t->what, store_answer_header(&t->answer, "content-range"));
        if (!is_part && t->has_range && !t->is_first)
                return error_new(ERR_UNAVAILABLE,
                                 "%s: a request for a range was answered with the whole object",
                                 t->what);
        if (!is_part && t->has_range)
                become_whole(t);
        if (!is_part)
                t->answer_end = t->end;
        if (t->on_head != NULL)
                t->on_head(t);
        return NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static struct error *write_bytes(struct piece_transfer *t, struct str bytes) {
        if (bytes.len > t->answer_end - t->at && t->answer_end < t->end)
                return error_new(ERR_UNAVAILABLE, "%s: the answer is longer than its range '%.64s'",
                                 t->what, store_answer_header(&t->answer, "content-range"));
        if (bytes.len > t->end - t->at)
                return error_new(ERR_UNAVAILABLE, "%s: the object is longer than its %llu bytes",
                                 t->what, (unsigned long long)t->entry->size);
        while (bytes.len > 0) {
                ssize_t n = pwrite(t->fd, bytes.ptr, bytes.len, (off_t)t->at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_errno(errno, "%s: unable to write '%s'", t->what, t->path);
                t->at += (uint64_t)n;
                atomic_fetch_add(t->done_bytes, (uint64_t)n);
                bytes = str_skip(bytes, (size_t)n);
        }
        return NULL;
}

static struct error *check_once(struct piece_transfer *t) {
        if (t->is_checked)
                return NULL;
        t->is_checked = true;
        return check_head(t);
}

static bool take_body(void *userp, struct str bytes) {
        struct piece_transfer *t = userp;

        t->fault = check_once(t);
        if (t->fault == NULL && !t->has_changed)
                t->fault = write_bytes(t, bytes);
        if (t->at > t->farthest)
                t->call.has_progressed = true;
        t->farthest = MAX(t->farthest, t->at);
        return t->fault == NULL && !t->has_changed;
}

/* ---- the transfer ---------------------------------------------------------------------------- */

/* Precondition failed; not found; the range begins after the end. */
static bool means_change(int status) {
        return status == 412 || status == 404 || status == 416;
}

/* Takes `err`, of the call. */
static struct error *judge(struct piece_transfer *t, struct error *err) {
        if (err == NULL)
                t->fault = check_once(t); /* an empty object has no bytes to be taken */
        if (t->fault != NULL) {
                error_free(err);
                return STEAL(t->fault);
        }
        if (err != NULL && means_change(t->call.status))
                t->has_changed = true;
        if (t->has_changed) {
                error_free(err);
                return error_new(ERR_UNAVAILABLE,
                                 "%s: the object was changed or removed after it was listed",
                                 t->what);
        }
        if (err == NULL && t->at != t->answer_end)
                return error_new(ERR_UNAVAILABLE, "%s: the object ends at %llu of its %llu bytes",
                                 t->what, (unsigned long long)t->at,
                                 (unsigned long long)t->entry->size);
        return err;
}

static struct error *fetch_once(struct piece_transfer *t) {
        struct error *err;

        t->call = (struct store_call){ .what = t->what,
                                       .prepare = prepare,
                                       .userp = t,
                                       .is_cancelled = t->is_cancelled,
                                       .pool = t->store->hub->transfers };
        err = judge(t, store_call(t->store, &t->call, &t->answer));
        store_answer_done(&t->answer);
        return err;
}

/* Each answer has a byte or more. A store that gives few each time would have a request for each of them. */
struct error *piece_transfer_run(struct piece_transfer *t) {
        t->at = t->farthest = t->begin;
        for (unsigned n = 0; n < MAX_ANSWERS; n++) {
                TRY(fetch_once(t));
                if (t->at == t->end)
                        return NULL;
        }
        return error_new(ERR_UNAVAILABLE,
                         "%s: %u answers had parts of the range, up to %llu of %llu", t->what,
                         MAX_ANSWERS, (unsigned long long)t->at, (unsigned long long)t->end);
}
