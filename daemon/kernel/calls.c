#include "kernel/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

enum { SLOT_MASK = (1 << CALLS_SLOT_BITS) - 1 };

void
calls_init(struct calls *c, unsigned sched)
{
	memset(c, 0, sizeof(*c));
	c->sched = sched;
}

void
calls_deinit(struct calls *c)
{
	for (uint32_t i = 0; i < c->n_blocks; i++)
		free(c->blocks[i]);
	free(c->blocks);
	c->blocks = NULL;
	c->n_blocks = 0;
}

static struct call *
call_at(struct calls *c, uint32_t slot)
{
	return &c->blocks[slot / CALLS_BLOCK][slot % CALLS_BLOCK];
}

static int
grow(struct calls *c)
{
	uint32_t first = c->n_blocks * CALLS_BLOCK;
	struct call **blocks;
	struct call *block;

	if (first + CALLS_BLOCK > SLOT_MASK)
		return -1;
	blocks = realloc(c->blocks, (c->n_blocks + 1) * sizeof(*blocks));
	if (!blocks)
		return -1;
	c->blocks = blocks;
	block = FAULT(calls_grow) ? NULL : calloc(CALLS_BLOCK, sizeof(*block));
	if (!block)
		return -1;
	c->blocks[c->n_blocks++] = block;
	for (uint32_t i = CALLS_BLOCK; i-- > 0;) {
		block[i].next = c->free;
		c->free = first + i + 1;
	}
	return 0;
}

struct call *
calls_add(struct calls *c, uint32_t *chain)
{
	struct call *call;
	uint32_t slot;

	if (!c->free && grow(c))
		return NULL;
	slot = c->free - 1;
	call = call_at(c, slot);
	c->free = call->next;
	c->n++;
	call->next = *chain;
	call->before = 0;
	if (*chain)
		call_at(c, *chain - 1)->before = slot + 1;
	*chain = slot + 1;
	call->timer.link = NULL;
	call->to = 0;
	call->wait = NULL;
	call->id = (++c->last << (CALLS_SLOT_BITS + CALLS_SCHED_BITS)) |
		   ((uint64_t)slot << CALLS_SCHED_BITS) | c->sched;
	return call;
}

struct call *
calls_find(struct calls *c, uint64_t id)
{
	uint32_t slot = (uint32_t)(id >> CALLS_SCHED_BITS) & SLOT_MASK;
	struct call *call;

	if (!id || slot / CALLS_BLOCK >= c->n_blocks)
		return NULL;
	call = call_at(c, slot);
	return call->id == id ? call : NULL;
}

struct call *
calls_first(struct calls *c, uint32_t chain)
{
	return chain ? call_at(c, chain - 1) : NULL;
}

struct call *
calls_by_token(struct calls *c, uint32_t chain, uint64_t token)
{
	for (; chain; chain = call_at(c, chain - 1)->next)
		if (call_at(c, chain - 1)->token == token &&
			!call_at(c, chain - 1)->wait)
			return call_at(c, chain - 1);
	return NULL;
}

void
calls_remove(struct calls *c, struct call *call, uint32_t *chain)
{
	uint32_t slot = (uint32_t)(call->id >> CALLS_SCHED_BITS) & SLOT_MASK;

	if (call->next)
		call_at(c, call->next - 1)->before = call->before;
	if (call->before)
		call_at(c, call->before - 1)->next = call->next;
	else
		*chain = call->next;
	call->id = 0;
	call->next = c->free;
	c->free = slot + 1;
	c->n--;
}
