#pragma once
/* The one table of status codes: they travel on the wire, libevd returns the
 * errno beside them, and eventctl exits with the exit code beside them.
 *
 * Numbers and words never change once released; new ones are appended. */
#include <errno.h>

/* X(NAME, code, word, errno, exit code, meaning) */
#define EVD_STATUS_TABLE(X)                                                   \
	X(OK, 0, "ok", 0, 0, "done")                                          \
	X(HANDLER, 1, "handler-error", EREMOTEIO, 1,                          \
		"the handler answered with an error")                         \
	X(INVALID, 2, "invalid", EINVAL, 64, "an argument is not valid")      \
	X(BAD_DATA, 3, "bad-data", EBADMSG, 65, "the data is malformed")      \
	X(NO_INPUT, 4, "no-input", ENXIO, 66, "the input cannot be read")     \
	X(NO_ALIAS, 5, "no-alias", ENOENT, 68, "no session holds this alias") \
	X(UNAVAILABLE, 6, "unavailable", ECONNREFUSED, 69,                    \
		"the daemon cannot be reached")                               \
	X(INTERNAL, 7, "internal", EFAULT, 70, "a bug in eventd")             \
	X(TAKEN, 8, "alias-taken", EADDRINUSE, 73,                            \
		"another session holds this alias")                           \
	X(IO, 9, "io", EIO, 74, "reading or writing failed")                  \
	X(FULL, 10, "full", EAGAIN, 75, "the mailbox is full")                \
	X(LIMIT, 11, "limit", EDQUOT, 75, "a limit is reached")               \
	X(PROTOCOL, 12, "protocol", EPROTO, 76,                               \
		"the peer does not speak the protocol")                       \
	X(UNSUPPORTED, 13, "unsupported", EOPNOTSUPP, 76,                     \
		"this daemon does not know the request")                      \
	X(DENIED, 14, "denied", EACCES, 77, "refused by policy")              \
	X(CONFIG, 15, "config", EUCLEAN, 78, "the configuration is wrong")    \
	X(TIMEOUT, 16, "timeout", ETIMEDOUT, 124,                             \
		"no answer before the deadline")                              \
	X(CANCELLED, 17, "cancelled", ECANCELED, 1, "it was cancelled")       \
	X(NOT_FOUND, 18, "not-found", ESRCH, 68, "no such id")                \
	X(TOO_LARGE, 19, "too-large", EMSGSIZE, 65,                           \
		"a size is over its limit")                                   \
	X(DIED, 20, "died", EHOSTDOWN, 69,                                    \
		"the session died before it handled the event")               \
	X(FAILED, 21, "failed", EHOSTUNREACH, 69,                             \
		"the session has failed and is not restarted")                \
	X(LOST, 22, "lost", EPIPE, 69,                                        \
		"the connection was lost; the outcome is unknown")            \
	X(EXPIRED, 23, "expired", ETIME, 75,                                  \
		"the event expired before it was handled")                    \
	X(NO_MEMORY, 24, "no-memory", ENOMEM, 75, "out of memory")            \
	X(DROPPED, 25, "dropped", ENOBUFS, 75,                                \
		"the full mailbox dropped the event")                         \
	X(POISON, 26, "poison", EOWNERDEAD, 69,                               \
		"the event crashed its session again and again")

enum evd_status {
#define EVD_STATUS_ENUM(name, code, word, err, exit, text) \
	EVD_STATUS_##name = (code),
	EVD_STATUS_TABLE(EVD_STATUS_ENUM)
#undef EVD_STATUS_ENUM
};
