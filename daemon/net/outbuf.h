#pragma once
/* Output buffer of a connection: bytes in, bytes out, in order. It is a chain
 * of blocks, so that nothing is moved that was written once. They come from a
 * pool of the loop and go back when they are empty, so that an idle connection
 * holds none. One thread. The first is small, for most turns of most
 * connections write few bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { /* bytes of memory, and how many */
	OUTBUF_SMALL = 4096,
	OUTBUF_SMALLS = 256, /* that the pool keeps */
	OUTBUF_BLOCK = 64 * 1024,
	OUTBUF_SPARES = 16,
	OUTBUF_PARTS = 8, /* that are written at once */
};

struct outblock {
	struct outblock *next;
	size_t start, end, room; /* of data */
	uint8_t data[];
};

struct outbuf_pool {
	struct outblock *smalls, *spares;
	unsigned n_small, n;
};

struct outbuf {
	struct outblock *first, *last; /* NULL: empty */
	size_t size;
};

void outbuf_pool_deinit(struct outbuf_pool *pool);
void outbuf_deinit(struct outbuf *b, struct outbuf_pool *pool);
static inline size_t
outbuf_size(const struct outbuf *b)
{
	return b->size;
}
/* Where @size more bytes may be written; NULL: out of memory. */
uint8_t *outbuf_reserve_any(
	struct outbuf *b, struct outbuf_pool *pool, size_t size);
static inline uint8_t *
outbuf_reserve(struct outbuf *b, struct outbuf_pool *pool, size_t size)
{
	struct outblock *last = b->last;

	if (last && last->room - last->end >= size)
		return last->data + last->end;
	return outbuf_reserve_any(b, pool, size);
}
/* @size bytes have been written there. */
static inline void
outbuf_add(struct outbuf *b, size_t size)
{
	b->last->end += size;
	b->size += size;
}
/* @size bytes from @from on, as parts behind the @n that are in @parts, up to
 * OUTBUF_PARTS of them; returns how many bytes these are. */
size_t outbuf_parts(const struct outbuf *b, size_t from, size_t size,
	struct iovec *parts, size_t *n);
/* @size bytes have left at the front. */
void outbuf_consume(struct outbuf *b, struct outbuf_pool *pool, size_t size);
