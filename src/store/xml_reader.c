/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/xml_reader.h"

#include "base/dl.h"
#include "base/strbuf.h"

#include <expat.h>
#include <limits.h>
#include <pthread.h>

#define LIBRARY "libexpat.so.1"

/* expat's functions, with the types of its header: it is opened when the first document is read. */
static struct {
        pthread_once_t once;
        struct error  *failure; /* owned; set once */
        struct dl     *library; /* owned; never closed */

        __typeof__(&XML_ParserCreate)               parser_create;
        __typeof__(&XML_ParserFree)                 parser_free;
        __typeof__(&XML_Parse)                      parse;
        __typeof__(&XML_StopParser)                 stop_parser;
        __typeof__(&XML_SetUserData)                set_user_data;
        __typeof__(&XML_SetElementHandler)          set_element_handler;
        __typeof__(&XML_SetCharacterDataHandler)    set_character_data_handler;
        __typeof__(&XML_SetStartDoctypeDeclHandler) set_start_doctype_decl_handler;
        __typeof__(&XML_GetErrorCode)               get_error_code;
        __typeof__(&XML_ErrorString)                error_string;
        __typeof__(&XML_GetCurrentLineNumber)       get_current_line_number;
        __typeof__(&XML_GetCurrentColumnNumber)     get_current_column_number;
} expat = { .once = PTHREAD_ONCE_INIT };

static struct error *find_functions(void) {
        const struct {
                const char   *name;
                dl_symbol_fn *place;
        } symbols[] = {
                { "XML_ParserCreate", (dl_symbol_fn *)&expat.parser_create },
                { "XML_ParserFree", (dl_symbol_fn *)&expat.parser_free },
                { "XML_Parse", (dl_symbol_fn *)&expat.parse },
                { "XML_StopParser", (dl_symbol_fn *)&expat.stop_parser },
                { "XML_SetUserData", (dl_symbol_fn *)&expat.set_user_data },
                { "XML_SetElementHandler", (dl_symbol_fn *)&expat.set_element_handler },
                { "XML_SetCharacterDataHandler",
                  (dl_symbol_fn *)&expat.set_character_data_handler },
                { "XML_SetStartDoctypeDeclHandler",
                  (dl_symbol_fn *)&expat.set_start_doctype_decl_handler },
                { "XML_GetErrorCode", (dl_symbol_fn *)&expat.get_error_code },
                { "XML_ErrorString", (dl_symbol_fn *)&expat.error_string },
                { "XML_GetCurrentLineNumber", (dl_symbol_fn *)&expat.get_current_line_number },
                { "XML_GetCurrentColumnNumber", (dl_symbol_fn *)&expat.get_current_column_number },
        };

        for (size_t i = 0; i < ARRAY_LEN(symbols); i++)
                TRY(dl_get(expat.library, symbols[i].name, symbols[i].place));
        return NULL;
}

static void open_library(void) {
        struct error *err = dl_open(LIBRARY, &expat.library);

        if (err == NULL)
                err = find_functions();
        expat.failure = error_wrap(err, "XML needs expat (" LIBRARY "), which could not be loaded");
}

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
                         (unsigned long)expat.get_current_line_number(r->parser),
                         (unsigned long)expat.get_current_column_number(r->parser) + 1, what);
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
        expat.stop_parser(r->parser, XML_FALSE);
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
        /* expat accepts "<a:/>". Without a name the path would have no memory yet. */
        if (*local_name(name) == '\0') {
                stop(r, place_error(r, "an element has no name"));
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
        enum XML_Error code = expat.get_error_code(r->parser);

        if (code == XML_ERROR_NO_MEMORY)
                return error_new_text(ERR_UNAVAILABLE, "no memory to read XML");
        return place_error(r, expat.error_string(code));
}

static struct error *parse(struct xml_reader *r, struct str document) {
        enum XML_Status status;

        expat.set_user_data(r->parser, r);
        expat.set_element_handler(r->parser, on_begin, on_end);
        expat.set_character_data_handler(r->parser, on_text);
        expat.set_start_doctype_decl_handler(r->parser, on_doctype);
        status = expat.parse(r->parser, document.ptr != NULL ? document.ptr : "", (int)document.len,
                             XML_TRUE);
        if (r->failure != NULL)
                return STEAL(r->failure);
        return status == XML_STATUS_OK ? NULL : syntax_error(r);
}

struct error *xml_read(struct str document, const struct xml_handler *h) {
        struct xml_reader r = { .handler = h,
                                .path.max = XML_MAX_PATH_BYTES,
                                .text.max = XML_MAX_TEXT_BYTES };
        struct error     *err;

        pthread_once(&expat.once, open_library);
        if (expat.failure != NULL)
                return error_copy(expat.failure);
        if (document.len > INT_MAX)
                return error_new_text(ERR_INVALID_ARG, "the XML document is too large");
        r.parser = expat.parser_create(NULL);
        if (r.parser == NULL)
                return error_new_text(ERR_UNAVAILABLE, "no memory to read XML");
        err = parse(&r, document);
        /* The text may have been a key. */
        if (r.text.ptr != NULL)
                explicit_bzero(r.text.ptr, r.text.cap);
        strbuf_done(&r.path);
        strbuf_done(&r.text);
        expat.parser_free(r.parser);
        return err;
}
