/* Put before the daemon by LD_PRELOAD: counts what it asks of malloc(), into
 * the file that ALLOC_COUNT_FILE names, for a test to read. Any thread. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static _Atomic uint64_t nobody;
static _Atomic uint64_t *count = &nobody;

static void __attribute__((constructor)) count_in_file(void)
{
	const char *path = getenv("ALLOC_COUNT_FILE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		0);
	close(fd);
	if (map != MAP_FAILED)
		count = map;
}

void *
malloc(size_t size)
{
	atomic_fetch_add(count, 1);
	return __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
	atomic_fetch_add(count, 1);
	return __libc_calloc(n, size);
}

void *
realloc(void *old, size_t size)
{
	atomic_fetch_add(count, 1);
	return __libc_realloc(old, size);
}
