/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/fetch_file.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/work_pool.h"
#include "codec/base64.h"
#include "store/file_checksum.h"
#include "store/piece_transfer.h"
#include "store/store.h"
#include "store/store_credentials.h"
#include "store/store_fetch.h"
#include "store/store_hub.h"
#include "store/store_kind.h"
#include "store/store_list.h"

#include <stdio.h>
#include <string.h>

struct runner {
        struct work        job;
        struct fetch_file *file;
};

struct fetch_file {
        struct store_fetch       *fetch;  /* borrowed: waits for it */
        struct store_hub         *hub;    /* borrowed */
        const struct store_entry *entry;  /* borrowed: the listing */
        char                     *what;   /* owned; its address, for messages */
        char                     *target; /* owned */
        bool                      is_reusable;
        struct cache_file         cache;
        struct runner            *runners; /* owned; one for each transfer at a time */
        size_t                    n_max_runners;
        bool                      is_second; /* the first transfer had another checksum */

        /* Facts from the first answer; constant when other runners begin. */
        bool          has_head;
        bool          is_encrypted; /* the ETag is not the MD5 of the contents */
        bool          has_answer_sha256;
        unsigned char answer_sha256[DIGEST_SHA256_BYTES];

        /* Guarded by the hub's lock. */
        bool   is_alone;     /* one runner transfers everything, or the first answer is awaited */
        size_t n_runners;    /* that have not ended */
        size_t next_piece;   /* the first that no runner has looked at */
        bool   is_digesting; /* a runner adds pieces to the checksum */
        size_t n_digested;   /* pieces */

        struct file_checksum checksum; /* of the runner that computes the digest, or the last one */
        bool                 has_checksum;
};

static void run_transfer(struct work *job);

static void fetch_file_free(struct fetch_file *f) {
        cache_file_close(&f->cache);
        file_checksum_done(&f->checksum);
        free(f->runners);
        free(f->what);
        free(f->target);
        free(f);
}

/* Ends the fetch with the first error. Takes `err`. */
static void fail_fetch(struct fetch_file *f, struct error *err, bool has_changed) {
        struct store_fetch *fetch = f->fetch;

        MUTEX_GUARD(&f->hub->lock);
        fetch->has_changed = fetch->has_changed || has_changed;
        if (fetch->error == NULL && err->code != ERR_CANCELLED)
                fetch->error = STEAL(err);
        error_free(err);
        store_hub_end_fetch_locked(f->hub, fetch);
}

/* ---- runners --------------------------------------------------------------------------------- */

/* Returns the next piece that is not there; n_pieces when there is none, or the fetch has ended. */
static size_t take_piece(struct fetch_file *f) {
        size_t n = f->cache.n_pieces;

        MUTEX_GUARD(&f->hub->lock);
        if (atomic_load(&f->fetch->is_cancelled))
                return n;
        while (f->next_piece < n && f->cache.has_piece[f->next_piece])
                f->next_piece++;
        return f->next_piece < n ? f->next_piece++ : n;
}

/* The first answer is a range: the others may ask for theirs. */
static void start_runners(struct fetch_file *f) {
        size_t n = MIN(f->n_max_runners, f->cache.n_pieces);

        mutex_lock(&f->hub->lock);
        f->is_alone = false;
        f->n_runners = MAX(n, 1);
        mutex_unlock(&f->hub->lock);
        for (size_t i = 1; i < n; i++)
                work_pool_push(f->hub->transfers, &f->runners[i].job);
}

static void note_head(struct fetch_file *f, const struct store_answer *a) {
        const char *kind = store_answer_header(a, "x-amz-server-side-encryption");
        const char *key = store_answer_header(a, "x-amz-server-side-encryption-customer-algorithm");
        const char *sum = store_answer_header(a, "x-amz-checksum-sha256");
        const char *encoding = store_answer_header(a, "content-encoding");

        if (str_equal_nocase(str_of(encoding), STR_LIT("gzip")))
                log_warn("%s: the object has Content-Encoding: gzip; the model gets the bytes that "
                         "are stored, which are not decompressed",
                         f->what);
        f->has_head = true;
        f->is_encrypted = str_starts(str_of(kind), STR_LIT("aws:")) || *key != '\0';
        f->has_answer_sha256 =
                a->status == 200 &&
                base64_decode_exactly(str_of(sum), f->answer_sha256, DIGEST_SHA256_BYTES);
}

static void on_head(struct piece_transfer *t) {
        struct fetch_file *f = t->userp;

        if (!f->has_head)
                note_head(f, &t->answer);
        if (t->has_range)
                start_runners(f);
        t->on_head = NULL; /* tries that follow bring nothing new */
}

static struct error *note_pieces(struct fetch_file *f, uint64_t begin, uint64_t end) {
        size_t first = (size_t)(begin / STORE_PIECE_BYTES), last = first + 1;

        if (end > begin)
                last = (size_t)((end - 1) / STORE_PIECE_BYTES) + 1;
        for (size_t i = first; i < last; i++) {
                TRY(cache_file_note_piece(&f->cache, i));
                mutex_lock(&f->hub->lock);
                f->cache.has_piece[i] = 1;
                mutex_unlock(&f->hub->lock);
        }
        return NULL;
}

static struct error *fetch_piece(struct fetch_file *f, size_t piece, bool is_first,
                                 bool *ret_has_changed) {
        uint64_t              begin = piece * STORE_PIECE_BYTES;
        struct piece_transfer t = { .store = f->fetch->store,
                                    .entry = f->entry,
                                    .what = f->what,
                                    .fd = f->cache.fd,
                                    .path = f->cache.part,
                                    .begin = begin,
                                    .end = MIN(begin + STORE_PIECE_BYTES, f->cache.size),
                                    .has_range = f->cache.n_pieces > 1,
                                    .is_first = is_first,
                                    .is_cancelled = &f->fetch->is_cancelled,
                                    .done_bytes = &f->fetch->done_bytes,
                                    .on_head = is_first ? on_head : NULL,
                                    .userp = f };
        struct error         *err = piece_transfer_run(&t);

        *ret_has_changed = t.has_changed;
        return err != NULL ? err : note_pieces(f, t.begin, t.end);
}

/* ---- the checksum ---------------------------------------------------------------------------- */

static struct error *choose_checksum(struct fetch_file *f) {
        const struct store_entry *e = f->entry;

        if (f->has_checksum)
                return NULL;
        f->has_checksum = true;
        if (e->has_sha256)
                return file_checksum_init(&f->checksum, DIGEST_SHA256, e->sha256);
        if (f->has_answer_sha256)
                return file_checksum_init(&f->checksum, DIGEST_SHA256, f->answer_sha256);
        if (e->has_md5 && !f->is_encrypted)
                return file_checksum_init(&f->checksum, DIGEST_MD5, e->md5);
        file_checksum_init_none(&f->checksum);
        return NULL;
}

/* Takes the next piece that can be added; n_pieces when there is none now, or another runner adds. */
static size_t take_digest(struct fetch_file *f, bool is_begun) {
        size_t at;

        MUTEX_GUARD(&f->hub->lock);
        at = f->n_digested;
        if (f->is_digesting && !is_begun)
                return f->cache.n_pieces;
        f->is_digesting = at < f->cache.n_pieces && f->cache.has_piece[at];
        if (!f->is_digesting)
                return f->cache.n_pieces;
        f->n_digested++;
        return at;
}

static struct error *digest_pieces(struct fetch_file *f) {
        struct error *err = NULL;
        bool          is_begun = false;
        size_t        at;

        while ((at = take_digest(f, is_begun)) < f->cache.n_pieces) {
                uint64_t begin = at * STORE_PIECE_BYTES;

                is_begun = true;
                if (err == NULL)
                        err = choose_checksum(f);
                if (err == NULL)
                        err = file_checksum_add(&f->checksum, f->cache.fd, begin,
                                                MIN(begin + STORE_PIECE_BYTES, f->cache.size));
        }
        return err;
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct error *wrong_checksum(const struct fetch_file *f) {
        return error_new(ERR_INTERNAL, "%s: what was fetched has another checksum than the object",
                         f->what);
}

/* *ret_again: the bytes are wrong and must be fetched once more. */
static struct error *finish_file(struct fetch_file *f, bool *ret_again) {
        bool is_right = true;

        *ret_again = false;
        TRY(digest_pieces(f));
        TRY(file_checksum_finish(&f->checksum, &is_right));
        if (!is_right) {
                cache_file_discard(&f->cache);
                *ret_again = !f->is_second;
                return f->is_second ? wrong_checksum(f) : NULL;
        }
        TRY(cache_file_link(&f->cache, f->target));
        if (f->is_reusable)
                return cache_file_commit(&f->cache);
        cache_file_discard(&f->cache); /* another object may have the same key */
        return NULL;
}

/* What distinguishes the contents of an object from those of another one at the same address. */
static char *identity_of(const struct store_entry *e) {
        const unsigned char *digest = e->has_sha256 ? e->sha256 : e->md5;
        size_t               n = e->has_sha256 ? sizeof(e->sha256) : sizeof(e->md5);
        char                *text;

        if (e->etag != NULL && *e->etag != '\0')
                return mem_strdup(e->etag);
        text = mem_zalloc(2 * n + 1);
        digest_print_hex(digest, n, text);
        return text;
}

static struct error *open_cache(struct fetch_file *f, enum cache_state *ret_state) {
        AUTO_CHARS identity = identity_of(f->entry);
        char       key[CACHE_KEY_CHARS + 1];

        TRY(cache_key_of(store_credentials_origin(f->fetch->store->credentials), f->what,
                         str_of(identity), f->entry->size, key));
        return cache_file_open(f->fetch->store->cache, key, f->entry->size, f->is_reusable,
                               &f->cache, ret_state);
}

static struct error *open_again(struct fetch_file *f) {
        enum cache_state state;

        log_warn("%s: what was fetched has another checksum than the object; fetching it again",
                 f->what);
        atomic_fetch_sub(&f->fetch->done_bytes, f->cache.size);
        cache_file_close(&f->cache);
        file_checksum_done(&f->checksum);
        f->has_checksum = f->has_head = f->has_answer_sha256 = false;
        f->is_second = true;
        TRY(open_cache(f, &state));
        if (state != CACHE_PART)
                return error_new(ERR_UNAVAILABLE, "%s: another server fetches it", f->what);
        return NULL;
}

static void start_transfer(struct fetch_file *f) {
        mutex_lock(&f->hub->lock);
        f->is_alone = true;
        f->n_runners = 1;
        f->next_piece = f->n_digested = 0;
        f->is_digesting = false;
        mutex_unlock(&f->hub->lock);
        work_pool_push(f->hub->transfers, &f->runners[0].job);
}

/* The last runner has ended. */
static void end_file(struct fetch_file *f) {
        struct store_hub   *hub = f->hub;
        struct store_fetch *fetch = f->fetch;
        bool                again = false;

        if (!atomic_load(&fetch->is_cancelled)) {
                struct error *err = finish_file(f, &again);

                if (err == NULL && again)
                        err = open_again(f);
                if (err != NULL)
                        fail_fetch(f, err, false);
                again = again && err == NULL;
        }
        if (again) {
                start_transfer(f);
                return;
        }
        fetch_file_free(f);
        MUTEX_GUARD(&hub->lock);
        fetch->n_running--; /* the fetch may be gone after that */
        cond_broadcast(&hub->changed);
}

static bool end_runner(struct fetch_file *f) {
        MUTEX_GUARD(&f->hub->lock);
        return --f->n_runners == 0;
}

static struct error *run_piece(struct fetch_file *f, size_t piece, bool *ret_has_changed) {
        bool is_first;

        mutex_lock(&f->hub->lock);
        is_first = f->is_alone;
        mutex_unlock(&f->hub->lock);
        TRY(fetch_piece(f, piece, is_first, ret_has_changed));
        return digest_pieces(f);
}

static void run_transfer(struct work *job) {
        struct fetch_file *f = CONTAINER_OF(job, struct runner, job)->file;
        size_t             piece = take_piece(f);
        bool               has_changed = false;
        struct error      *err = NULL;

        if (piece < f->cache.n_pieces)
                err = run_piece(f, piece, &has_changed);
        if (err != NULL)
                fail_fetch(f, err, has_changed);
        if (piece < f->cache.n_pieces && err == NULL)
                work_pool_push(f->hub->transfers, job);
        else if (end_runner(f))
                end_file(f);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static uint64_t count_cached(const struct cache_file *c) {
        uint64_t n = 0;

        for (size_t i = 0; i < c->n_pieces; i++)
                if (c->has_piece[i])
                        n += MIN(STORE_PIECE_BYTES, c->size - i * STORE_PIECE_BYTES);
        return n;
}

static struct fetch_file *make_fetch(struct store_fetch *fetch, const struct store_entry *e,
                                     const char *target) {
        struct fetch_file *f = mem_zalloc(sizeof(*f));

        f->fetch = fetch;
        f->hub = fetch->store->hub;
        f->entry = e;
        f->what = store_kind_describe(fetch->store, e->name);
        f->target = mem_strdup(target);
        f->cache.fd = f->cache.record_fd = -1;
        f->is_reusable = (e->etag != NULL && *e->etag != '\0') || e->has_md5 || e->has_sha256;
        return f;
}

static void begin_runners(struct fetch_file *f) {
        f->n_max_runners = MIN((size_t)f->hub->n_transfers, f->cache.n_pieces);
        f->runners = mem_zalloc(f->n_max_runners * sizeof(*f->runners));
        for (size_t i = 0; i < f->n_max_runners; i++)
                f->runners[i] = (struct runner){ .job.run = run_transfer, .file = f };
        atomic_fetch_add(&f->fetch->done_bytes, count_cached(&f->cache));
        mutex_lock(&f->hub->lock);
        f->fetch->n_running++;
        mutex_unlock(&f->hub->lock);
        start_transfer(f);
}

struct error *fetch_file_begin(struct store_fetch *fetch, const struct store_entry *e,
                               const char *target, enum cache_state *ret_state) {
        struct fetch_file *f = make_fetch(fetch, e, target);
        struct error      *err = open_cache(f, ret_state);

        if (err == NULL && *ret_state == CACHE_PART) {
                begin_runners(f);
                return NULL;
        }
        if (err == NULL && *ret_state == CACHE_WHOLE)
                err = cache_file_link(&f->cache, f->target);
        if (err == NULL && *ret_state == CACHE_WHOLE)
                atomic_fetch_add(&fetch->done_bytes, e->size);
        fetch_file_free(f);
        return err;
}
