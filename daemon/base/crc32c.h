#pragma once
/* CRC-32C (Castagnoli), by the processor's own instruction where there is one.
 * Any thread. */
#include <stddef.h>
#include <stdint.h>

/* Of @size bytes at @data; @crc: of what stands before them, first 0. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);
/* The same without the instruction; for the test. */
uint32_t crc32c_plain(uint32_t crc, const void *data, size_t size);
