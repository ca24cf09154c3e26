#pragma once
/* Memory of a process, as the kernel counts it. Any thread. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes. */
struct memory {
	uint64_t resident;
	uint64_t proportional; /* of what others share, this one's part */
	uint64_t private;      /* nobody else has it */
	uint64_t shared;
	uint64_t swap;
};

/* Of this process, and nothing else: cheap at any size. 0: cannot tell. */
uint64_t memory_resident(void);
/* The file that sums up all mappings of @pid, 0: this process; to be kept open,
 * for opening costs as much as reading. -1: there is none. */
int memory_open(pid_t pid);
/* What it says now. The kernel looks at every page: 30 us for a small process,
 * milliseconds for gigabytes. False: cannot tell. */
bool memory_read(int fd, struct memory *out);
