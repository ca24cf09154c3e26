#pragma once
/* Status codes of the wire, as words, errnos and exit codes: one table,
 * include/eventd/status.h. Any thread. */
#include "eventd/status.h"

const char *status_word(int status); /* "no-alias"; "unknown" if unknown */
const char *status_text(int status); /* one line for people */
int status_errno(int status);        /* positive errno; EIO if unknown */
int status_exit(int status);         /* exit code; 70 if unknown */
int status_from_errno(int err);      /* |err| to a status; INTERNAL if none */
