#include "stats/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROLLUP_TEXT = 4096 }; /* it has 800 */

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

int
memory_open(pid_t pid)
{
	char path[64] = "/proc/self/smaps_rollup";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* "Private_Dirty:     1234 kB" */
static void
read_line(const char *line, struct memory *out)
{
	const struct {
		const char *name;
		uint64_t *sum;
	} fields[] = {
		{"Rss:", &out->resident},
		{"Pss:", &out->proportional},
		{"Shared_Clean:", &out->shared},
		{"Shared_Dirty:", &out->shared},
		{"Private_Clean:", &out->private},
		{"Private_Dirty:", &out->private},
		{"Private_Hugetlb:", &out->private},
		{"Shared_Hugetlb:", &out->shared},
		{"Swap:", &out->swap},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t n = strlen(fields[i].name);

		if (strncmp(line, fields[i].name, n) != 0)
			continue;
		*fields[i].sum += strtoull(line + n, NULL, 10) * 1024;
		return;
	}
}

bool
memory_read(int fd, struct memory *out)
{
	char text[ROLLUP_TEXT];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	*out = (struct memory){0};
	if (n <= 0)
		return false;
	text[n] = '\0';
	for (char *line = strchr(text, '\n'); line; line = strchr(line, '\n'))
		read_line(++line, out);
	return out->resident > 0;
}
