#pragma once
/* Errors and ownership: 0 is success, positive codes are documented with the
 * function that returns them, negative errno is unexpected and passed up. */
#include <errno.h>

struct err_site {
	const char *file;
	int line;
};

/* Where the last negative code of this thread was born; for the log line of
 * its owner. */
extern _Thread_local struct err_site err_last;

static inline int
err_raise_at(const char *file, int line, int r)
{
	err_last.file = file;
	err_last.line = line;
	return r;
}

/* A negative code is born here. */
#define err_raise(r) err_raise_at(__FILE__, __LINE__, (r))
/* It travels through here. */
#define err_pass(r) (r)
/* A positive code that was not to be expected here. */
#define err_fold(r) \
	((r) > 0 ? err_raise_at(__FILE__, __LINE__, -ENOTRECOVERABLE) : (r))

/* CLEANUP(x_free) struct x *p: x_free(p) when p leaves its scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn##_cleanup)))
#define CLEANUP_DEFINE(type, fn)                 \
	static inline void fn##_cleanup(type *p) \
	{                                        \
		if (*p)                          \
			fn(*p);                  \
	}
/* Hand a CLEANUP variable over: its value, leaving NULL behind. */
#define TAKE(p)                                 \
	__extension__({                         \
		__typeof__(p) take_value = (p); \
		(p) = NULL;                     \
		take_value;                     \
	})
