/* The experiment of the mails of 2011: how often a second can the memory of a
 * process be summed up, or each of its mappings be told (`all`)? The process is
 * a child with so many mappings, every one with a page that it has touched.
 *
 *   evd          what `eventctl status` shows: stats/memory.c
 *   limit        the least: the kernel's own sum, the file kept open, the text
 *                not looked at; and all mappings, read and not looked at
 *   smaps-fgets  all mappings, read by line and summed up, as modules for
 *                scripts do */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../bench.h"
#include "stats/memory.h"

enum { MS = 700, TEXT_MAX = 16 << 20, STEP = 2 * 4096 };

static char *text;
static char path[64];
static int rollup;

/* ---- the process ------------------------------------------------- */

static int
count_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int c, n = 0;

	while (f && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

/* Neighbours differ in protection, so that none are joined. */
static void
be_measured(long want, int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (long i = count_mappings(); i < want; i++) {
		char *p = mmap(NULL, STEP, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			_exit(1);
		*p = 1;
		if (i & 1)
			mprotect(p, STEP, PROT_READ);
	}
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t
target(const struct bench_case *c)
{
	long want = atol(strchr(c->scenario, '-') + 1);
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) || (pid = fork()) < 0)
		bench_fail(c, "no process");
	if (!pid)
		be_measured(want, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		bench_fail(c, "not %ld mappings", want);
	close(ready[0]);
	snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
	rollup = memory_open(pid);
	if (rollup < 0)
		bench_fail(c, "no smaps_rollup");
	return pid;
}

/* ---- ways -------------------------------------------------------- */

static size_t
slurp(const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t k;

	while ((k = read(fd, text + n, TEXT_MAX - n)) > 0)
		n += (size_t)k;
	close(fd);
	return n;
}

static uint64_t
by_evd(void)
{
	struct memory m;

	return memory_read(rollup, &m) ? m.resident : 0;
}

static uint64_t
by_kernel(void)
{
	return pread(rollup, text, TEXT_MAX, 0) > 0;
}

static uint64_t
by_reading(void)
{
	return slurp(path);
}

static uint64_t
by_fgets(void)
{
	static const char *const names[] = {"Size", "Rss", "Pss",
		"Shared_Clean", "Shared_Dirty", "Private_Clean",
		"Private_Dirty", "Referenced", "Swap"};
	enum { N = sizeof names / sizeof *names };
	unsigned long long sums[N] = {0}, value;
	FILE *f = fopen(path, "r");
	char line[512], name[64];

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%63[^:]: %llu", name, &value) != 2)
			continue;
		for (int i = 0; i < N; i++)
			if (strcmp(name, names[i]) == 0)
				sums[i] += value;
	}
	if (f)
		fclose(f);
	return sums[1] * 1024;
}

static void
rate(const struct bench_case *c, const char *metric, uint64_t (*way)(void))
{
	uint64_t from = now_ns(), took;
	double n = 0;

	do {
		if (!way())
			bench_fail(c, "nothing could be read");
		n++;
		took = now_ns() - from;
	} while (took < MS * 1000000u);
	bench_row(c, metric, n * 1e9 / (double)took, "1/s");
}

/* ---- systems ----------------------------------------------------- */

static void
end(pid_t pid)
{
	close(rollup);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The sum must be that of the mappings. */
static void
evd(const struct bench_case *c)
{
	pid_t pid = target(c);

	if (by_evd() != by_fgets())
		bench_fail(c, "the sums differ");
	rate(c, "summary_per_s", by_evd);
	end(pid);
}

static void
limit(const struct bench_case *c)
{
	pid_t pid = target(c);

	text = malloc(TEXT_MAX);
	rate(c, "summary_per_s", by_kernel);
	rate(c, "all_per_s", by_reading);
	free(text);
	end(pid);
}

static void
by_line(const struct bench_case *c)
{
	pid_t pid = target(c);

	rate(c, "all_per_s", by_fgets);
	end(pid);
}

#define SMAPS(n)                                                      \
	{"evd", "smaps-" n, evd, 0}, {"limit", "smaps-" n, limit, 0}, \
	{                                                             \
		"smaps-fgets", "smaps-" n, by_line, 0                 \
	}

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		SMAPS("50"),
		SMAPS("500"),
		SMAPS("5000"),
		{NULL, NULL, NULL, 0},
	};

	return bench_cases_main(argc, argv, cases);
}
