/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader behind pb_text_read(), and where it was when it stopped.
 *
 * A reader that finds a mistake stops at once and changes nothing any more: which messages and
 * lists are open, the field, the token. pb_text_recover.c looks at that to correct the mistake.
 *
 * Ownership.  All is borrowed, but `scratch`, which pb_text_reader_run() frees.
 */
#pragma once

#include "base/strbuf.h"
#include "codec/pb_build.h"
#include "codec/pb_text.h"
#include "codec/pb_text_lexer.h"

/* What was found wrong. */
enum pb_text_stop {
        PB_STOP_OTHER,   /* a string without an end (lexer.is_broken), or no memory */
        PB_STOP_UNKNOWN, /* the token is no field of the message */
        PB_STOP_TWICE,   /* the token is a field that was given, or its oneof was */
        PB_STOP_COLON,   /* the token should be the ':' of a field */
        PB_STOP_NO_LIST, /* the token begins a list for a field that is not repeated */
        PB_STOP_OPEN,    /* the token should open a message */
        PB_STOP_DEPTH,   /* a message lies too deep */
        PB_STOP_VALUE,   /* what began at `value` is no value of the field */
        PB_STOP_COMMA,   /* the token should be the ',' or ']' of a list */
        PB_STOP_END,     /* the token is neither a field name nor the end of the message */
};

/* A message that is open. */
struct pb_text_frame {
        ProtobufCMessage               *message;
        char                            close;   /* '}' or '>'; '\0' for the outermost */
        unsigned                        indent;  /* of the line where it was opened */
        bool                            is_flat; /* has fields that are not indented further */
        const ProtobufCFieldDescriptor *field;   /* being read, or the last one; may be NULL */
        struct pb_place                 place;   /* of its name */
        const char                     *name;    /* its name */
        const char                     *list;    /* where its list was opened; NULL: no list */
};

struct pb_text_reader {
        struct pb_lexer      lexer;
        struct arena        *arena;
        struct strbuf        scratch; /* for strings, before they go to the arena */
        unsigned             depth;   /* messages that are open, without the outermost */
        struct pb_text_frame frames[PB_TEXT_MAX_DEPTH + 1];

        /* The innermost field: */
        struct pb_lexer name;  /* at its name */
        struct pb_lexer value; /* at the value that was begun last */
        const char     *comma; /* the one before that value, within a list; or NULL */

        unsigned          closed_depth; /* of the message that ended just now; 0: none */
        const char       *closed_at;    /* its bracket */
        enum pb_text_stop stop;
};

struct error *pb_text_reader_run(struct pb_text_reader *r, const ProtobufCMessageDescriptor *type,
                                 struct str text, const char *file_for_errors,
                                 struct pb_patches patches, struct arena *arena,
                                 ProtobufCMessage **ret) NODISCARD;
