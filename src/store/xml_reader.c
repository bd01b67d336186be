/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/xml_reader.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <expat.h>
#include <limits.h>

struct xml_reader {
        XML_Parser                parser;  /* owned */
        const struct xml_handler *handler; /* borrowed */
        struct strbuf             path;
        struct strbuf             text;
        size_t        starts[XML_MAX_DEPTH]; /* length of the path before each element */
        unsigned      depth;
        struct error *failure; /* owned */
};

static struct error *place_error(struct xml_reader *r, const char *what) {
        return error_new(ERR_INVALID_ARG, "XML, line %lu, column %lu: %s",
                         (unsigned long)XML_GetCurrentLineNumber(r->parser),
                         (unsigned long)XML_GetCurrentColumnNumber(r->parser) + 1, what);
}

/* Keeps the first failure; expat may still call a handler after it was stopped. */
static void stop(struct xml_reader *r, struct error *err) {
        if (err == NULL)
                return;
        if (r->failure != NULL) {
                error_free(err);
                return;
        }
        r->failure = err;
        XML_StopParser(r->parser, XML_FALSE);
}

static const char *local_name(const char *name) {
        const char *colon = strrchr(name, ':');

        return colon != NULL ? colon + 1 : name;
}

static void on_begin(void *userp, const XML_Char *name, const XML_Char **attributes) {
        struct xml_reader *r = userp;

        (void)attributes;
        if (r->failure != NULL)
                return;
        if (r->depth == XML_MAX_DEPTH) {
                stop(r, place_error(r, "the elements are nested too deeply"));
                return;
        }
        r->starts[r->depth++] = r->path.len;
        if (r->path.len > 0)
                strbuf_putc(&r->path, '/');
        strbuf_puts(&r->path, local_name(name));
        if (r->path.overflowed) {
                stop(r, place_error(r, "the names of the elements are too long"));
                return;
        }
        strbuf_clear(&r->text);
        if (r->handler->begin != NULL)
                stop(r, r->handler->begin(r->handler->userp, strbuf_str(&r->path)));
}

static void on_end(void *userp, const XML_Char *name) {
        struct xml_reader *r = userp;

        (void)name;
        if (r->failure != NULL)
                return;
        if (r->handler->end != NULL)
                stop(r, r->handler->end(r->handler->userp, strbuf_str(&r->path),
                                        str_range(strbuf_cstr(&r->text), r->text.len)));
        r->path.len = r->starts[--r->depth];
        r->path.ptr[r->path.len] = '\0';
        strbuf_clear(&r->text);
}

static void on_text(void *userp, const XML_Char *bytes, int len) {
        struct xml_reader *r = userp;

        if (r->failure != NULL)
                return;
        strbuf_put(&r->text, bytes, (size_t)len);
        if (r->text.no_memory)
                stop(r,
                     error_new_text(ERR_UNAVAILABLE, "no memory for the text of an XML element"));
        else if (r->text.overflowed)
                stop(r, place_error(r, "the text of an element is too long"));
}

static void on_doctype(void *userp, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_internal_subset) {
        struct xml_reader *r = userp;

        (void)name;
        (void)system_id;
        (void)public_id;
        (void)has_internal_subset;
        stop(r, place_error(r, "a document type is not accepted"));
}

static struct error *syntax_error(struct xml_reader *r) {
        enum XML_Error code = XML_GetErrorCode(r->parser);

        if (code == XML_ERROR_NO_MEMORY)
                return error_new_text(ERR_UNAVAILABLE, "no memory to read XML");
        return place_error(r, XML_ErrorString(code));
}

static struct error *parse(struct xml_reader *r, struct str document) {
        enum XML_Status status;

        XML_SetUserData(r->parser, r);
        XML_SetElementHandler(r->parser, on_begin, on_end);
        XML_SetCharacterDataHandler(r->parser, on_text);
        XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
        status = XML_Parse(r->parser, document.ptr != NULL ? document.ptr : "", (int)document.len,
                           XML_TRUE);
        if (r->failure != NULL)
                return STEAL(r->failure);
        return status == XML_STATUS_OK ? NULL : syntax_error(r);
}

struct error *xml_read(struct str document, const struct xml_handler *h) {
        struct xml_reader r = { .handler = h };
        struct error     *err;

        if (document.len > INT_MAX)
                return error_new_text(ERR_INVALID_ARG, "the XML document is too large");
        r.parser = XML_ParserCreate(NULL);
        if (r.parser == NULL)
                return error_new_text(ERR_UNAVAILABLE, "no memory to read XML");
        strbuf_init(&r.path, XML_MAX_PATH_BYTES);
        strbuf_init(&r.text, XML_MAX_TEXT_BYTES);
        err = parse(&r, document);
        /* The text may have been a key. */
        if (r.text.ptr != NULL)
                explicit_bzero(r.text.ptr, r.text.cap);
        strbuf_done(&r.path);
        strbuf_done(&r.text);
        XML_ParserFree(r.parser);
        return err;
}
