#include "stats/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t
memory_resident(void)
{
	char text[128];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char *second;
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	strtoull(text, &second, 10); /* total pages; then the resident ones */
	return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}
