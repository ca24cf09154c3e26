#pragma once
/* Pages: what is the same of all lists that come in pages. A page is a struct
 * response, an item of it the unpacked message. Belongs to whoever owns it. */
#include "internal.h"

/* evd_PAGE_count(), _at(), _next() and _free() for pages of struct evd_ITEM:
 * the message @Message of Response.@result with its list @items. */
#define EVD_PAGE(page, item, Message, result, items)                           \
	static const Eventd__V1__##Message *page##_pb(                         \
		const struct evd_##page *p)                                    \
	{                                                                      \
		return ((const struct response *)(const void *)p)->pb->result; \
	}                                                                      \
	size_t evd_##page##_count(const struct evd_##page *p)                  \
	{                                                                      \
		return page##_pb(p)->n_##items;                                \
	}                                                                      \
	const struct evd_##item *evd_##page##_at(                              \
		const struct evd_##page *p, size_t i)                          \
	{                                                                      \
		const Eventd__V1__##Message *pb = page##_pb(p);                \
		return i < pb->n_##items                                       \
			       ? (const struct evd_##item *)pb->items[i]       \
			       : NULL;                                         \
	}                                                                      \
	uint64_t evd_##page##_next(const struct evd_##page *p)                 \
	{                                                                      \
		return page##_pb(p)->next;                                     \
	}                                                                      \
	struct evd_##page *evd_##page##_free(struct evd_##page *p)             \
	{                                                                      \
		evd__response_free((struct response *)(void *)p);              \
		return NULL;                                                   \
	}
