/* CRC-32C: the instruction of SSE 4.2 if this processor has it, else a table
 * of a byte's remainders, made at the first use. Any thread. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

enum { POLYNOMIAL = 0x82f63b78 };

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void
table_make(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
		table[i] = crc;
	}
}

uint32_t
crc32c_plain(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *p = data;

	pthread_once(&table_once, table_make);
	crc = ~crc;
	while (size--)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
	return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc32c_fast(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *p = data;
	uint64_t sum = ~crc;

	for (; size >= 8; size -= 8, p += 8) {
		uint64_t word;

		memcpy(&word, p, 8);
		sum = __builtin_ia32_crc32di(sum, word);
	}
	while (size--)
		sum = __builtin_ia32_crc32qi((uint32_t)sum, *p++);
	return ~(uint32_t)sum;
}

uint32_t
crc32c(uint32_t crc, const void *data, size_t size)
{
	return __builtin_cpu_supports("sse4.2") ? crc32c_fast(crc, data, size)
						: crc32c_plain(crc, data, size);
}
#else
uint32_t
crc32c(uint32_t crc, const void *data, size_t size)
{
	return crc32c_plain(crc, data, size);
}
#endif
