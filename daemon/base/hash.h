#pragma once
/* Hash of short byte strings: words folded by multiplication, as in wyhash.
 * Any thread. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t
hash_fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 u128;
	u128 product = (u128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t
hash_load(const char *p, size_t size)
{
	uint64_t word = 0;

	if (size >= 8) {
		memcpy(&word, p, 8);
	} else if (size >= 4) {
		uint32_t low, high;

		memcpy(&low, p, 4);
		memcpy(&high, p + size - 4, 4);
		word = (uint64_t)high << 32 | low;
	} else if (size > 0) {
		word = (uint64_t)(uint8_t)p[0] << 16 |
		       (uint64_t)(uint8_t)p[size / 2] << 8 |
		       (uint8_t)p[size - 1];
	}
	return word;
}

/* Keyed with random numbers, so that names that collide cannot be chosen. */
static inline uint64_t
hash_bytes(const uint64_t key[2], const char *p, size_t size)
{
	uint64_t hash = key[0] ^ size;

	for (; size > 8; size -= 8, p += 8)
		hash = hash_fold(hash ^ hash_load(p, 8), key[1]);
	hash = hash_fold(hash ^ hash_load(p, size), key[1]);
	return hash_fold(hash ^ key[0], 0x9e3779b97f4a7c15u ^ key[1]);
}
