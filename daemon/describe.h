#pragma once
/* Describe: read and check what a session that a client asks for is to be, in
 * a thread of libuv's pool. See daemon_ops.describe. */
#include "verb/daemon_ops.h"

struct loop;

/* On the thread of @l; @n_loops is what Loop= must be below. */
void describe_start(struct loop *l, unsigned n_loops,
	const struct session_order *order,
	void (*done)(void *arg, int status, const char *text,
		struct session_spec *spec),
	void *arg);
