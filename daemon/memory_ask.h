#pragma once
/* What the daemon's memory is made of, asked for by a loop: a thread of libuv's
 * pool reads it, for that takes longer the more there is. See
 * daemon_ops.memory. */
#include "verb/daemon_ops.h"

struct loop;

/* @fd: of memory_open(), or -1; open until all loops have ended. On the thread
 * of @l; @done as daemon_ops.memory() says. */
void memory_ask(struct loop *l, int fd, memory_done_fn done, void *arg);
