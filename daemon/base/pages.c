#include "base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void *
pages_map(size_t size)
{
	const size_t align = PAGES_HUGE;
	uint8_t *at = mmap(NULL, size + align, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (at == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)at & (align - 1);
	if (before)
		munmap(at, before);
	munmap(at + before + size, align - before);
	return at + before;
}

void
pages_unmap(void *at, size_t size)
{
	munmap(at, size);
}

void
pages_are_huge(void *at, size_t size)
{
	int saved = errno;

	madvise(at, size, MADV_HUGEPAGE);
	errno = saved;
}

void
pages_expect(void *at, size_t size)
{
	uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	uintptr_t from = ((uintptr_t)at + mask) & ~mask;
	uintptr_t to = ((uintptr_t)at + size) & ~mask;
	int saved = errno;

	if (from < to)
		madvise((void *)from, to - from, MADV_POPULATE_WRITE);
	errno = saved;
}
