#pragma once
/* Contexts: switching by ucontext, for machines without a switch of our own
 * and for processes with a shadow stack, which the C library knows to handle.
 * Each switch costs two system calls. One thread at a time. */
#include <stddef.h>
#include <ucontext.h>

struct coro;

/* At the top of the stack they are for. */
struct coro_contexts {
	ucontext_t self, back;
};

/* Make @co enter @fn on its stack, which goes down from @top. */
void coro_contexts_make(struct coro *co, char *top, void (*fn)(void));
void coro_contexts_enter(struct coro *co);
