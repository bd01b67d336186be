/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_status.h"

const char *http_status_phrase(unsigned status) {
        switch (status) {
        case 200:
                return "OK";
        case 400:
                return "Bad Request";
        case 401:
                return "Unauthorized";
        case 403:
                return "Forbidden";
        case 404:
                return "Not Found";
        case 405:
                return "Not Allowed";
        case 408:
                return "Request Timeout";
        case 413:
                return "Content Too Large";
        case 417:
                return "Expectation Failed";
        case 431:
                return "Request Header Fields Too Large";
        case 500:
                return "Internal Server Error";
        case 501:
                return "Not Implemented";
        case 503:
                return "Service Unavailable";
        case 505:
                return "HTTP Version Not Supported";
        default:
                return "Unknown";
        }
}

unsigned http_status_of_code(enum error_code code) {
        switch (code) {
        case ERR_INTERNAL:
                return 500;
        case ERR_NOT_FOUND:
                return 404;
        case ERR_UNAVAILABLE:
                return 503;
        case ERR_UNSUPPORTED:
                return 501;
        case ERR_UNKNOWN:
        case ERR_INVALID_ARG:
        case ERR_ALREADY_EXISTS:
        case ERR_CANCELLED:
                break;
        }
        return 400;
}
