#pragma once
/* Intrusive doubly linked list with a head that is its own sentinel. Not
 * thread-safe. */
#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr)-offsetof(type, member)))
#define LIST_FOREACH(pos, head)                                        \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; \
		pos != (head); pos = pos##_next, pos##_next = pos->next)

static inline void
list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool
list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void
list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Take @node out; it may be taken out twice. */
static inline void
list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}
