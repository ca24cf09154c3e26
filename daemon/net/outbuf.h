#pragma once
/* Output buffer of a connection: bytes in, bytes out, in order. It takes its
 * first block from a pool of the loop and gives it back when it is empty, so
 * that an idle connection holds none. One thread. The first block is small, for
 * most turns of most connections write few bytes; what needs more gets a large
 * one. */
#include <stddef.h>
#include <stdint.h>

enum {
	OUTBUF_SMALL = 4096,
	OUTBUF_SMALLS = 256, /* that the pool keeps */
	OUTBUF_BLOCK = 64 * 1024,
	OUTBUF_SPARES = 16,
};

struct outbuf_pool {
	uint8_t *smalls[OUTBUF_SMALLS];
	unsigned n_small;
	uint8_t *spares[OUTBUF_SPARES];
	unsigned n;
};

struct outbuf {
	uint8_t *data;
	size_t start, end, room;
};

void outbuf_pool_deinit(struct outbuf_pool *pool);
void outbuf_deinit(struct outbuf *b, struct outbuf_pool *pool);
static inline size_t
outbuf_size(const struct outbuf *b)
{
	return b->end - b->start;
}
/* Where @size more bytes may be written; NULL: out of memory. */
uint8_t *outbuf_reserve(
	struct outbuf *b, struct outbuf_pool *pool, size_t size);
/* @size bytes have left at the front. */
void outbuf_consume(struct outbuf *b, struct outbuf_pool *pool, size_t size);
