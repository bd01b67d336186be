/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of pb_text_read(), and its state when it stopped.
 *
 * A reader that finds a mistake stops at once and leaves its state unchanged: the open messages and
 * lists, the field, the token. pb_text_recover.c uses the state to correct the mistake.
 *
 * Ownership.  All members are borrowed except `scratch`, which pb_text_reader_run() frees.
 */
#pragma once

#include "base/strbuf.h"
#include "codec/pb_build.h"
#include "codec/pb_text.h"
#include "codec/pb_text_lexer.h"

/* Kind of mistake. */
enum pb_text_stop {
        PB_STOP_OTHER,   /* an unterminated string (lexer.is_broken), or no memory */
        PB_STOP_UNKNOWN, /* the token is not a field of the message */
        PB_STOP_TWICE,   /* the token is a field that is already set, or whose oneof is */
        PB_STOP_COLON,   /* the token should be the ':' of a field */
        PB_STOP_NO_LIST, /* the token begins a list for a field that is not repeated */
        PB_STOP_OPEN,    /* the token should open a message */
        PB_STOP_DEPTH,   /* a message is nested too deeply */
        PB_STOP_VALUE,   /* the value that begins at `value` is not valid for the field */
        PB_STOP_COMMA,   /* the token should be the ',' or ']' of a list */
        PB_STOP_END,     /* the token is neither a field name nor the end of the message */
};

/* An open message. */
struct pb_text_frame {
        ProtobufCMessage               *message;
        char                            close;   /* '}' or '>'; '\0' for the outermost */
        unsigned                        indent;  /* of the line where it was opened */
        bool                            is_flat; /* has fields that are not indented further than
                                                  * `indent` */
        const ProtobufCFieldDescriptor *field;   /* the current field, or the last one; may be NULL */
        struct pb_place                 place;   /* place of the field's name */
        const char                     *name;    /* the field's name */
        const char                     *list;    /* start of the open list of the field; NULL: no
                                                  * list */
};

struct pb_text_reader {
        struct pb_lexer      lexer;
        struct arena        *arena;
        struct strbuf        scratch; /* for strings, before they are copied to the arena */
        unsigned             depth;   /* open messages, without the outermost */
        struct pb_text_frame frames[PB_TEXT_MAX_DEPTH + 1];

        /* The innermost field: */
        struct pb_lexer name;  /* at its name */
        struct pb_lexer value; /* at the start of the last value */
        const char     *comma; /* the comma before that value, within a list; or NULL */

        unsigned          closed_depth; /* depth of the message that just ended; 0: none */
        const char       *closed_at;    /* its closing bracket */
        enum pb_text_stop stop;
};

struct error *pb_text_reader_run(struct pb_text_reader *r, const ProtobufCMessageDescriptor *type,
                                 struct str text, const char *file_for_errors,
                                 struct pb_patches patches, struct arena *arena,
                                 ProtobufCMessage **ret) NODISCARD;
