#include "coro/contexts.h"

#include <stdint.h>

#include "coro/coro.h"

void
coro_contexts_make(struct coro *co, char *top, void (*fn)(void))
{
	uintptr_t at = ((uintptr_t)top - sizeof(struct coro_contexts)) &
		       ~(uintptr_t)63;
	struct coro_contexts *c = (struct coro_contexts *)at;

	getcontext(&c->self);
	c->self.uc_stack.ss_sp = co->low;
	c->self.uc_stack.ss_size = (size_t)((char *)c - co->low);
	c->self.uc_link = NULL;
	makecontext(&c->self, fn, 0);
	co->contexts = c;
}

void
coro_contexts_enter(struct coro *co)
{
	swapcontext(&co->contexts->back, &co->contexts->self);
}

void
coro_contexts_leave(struct coro *co)
{
	swapcontext(&co->contexts->self, &co->contexts->back);
}
