#pragma once
/* What the in-process benchmark programs share: clock, memory, result rows.
 *
 * Every program answers `list` with lines "system TAB scenario", and
 * `SYSTEM SCENARIO [N]` with rows "system TAB scenario TAB metric TAB value TAB
 * unit", or with a reason on stderr and a non-zero exit. One thread. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bench_case {
	const char *system, *scenario;
	void (*run)(const struct bench_case *c);
	long n;
};

static inline uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void
bench_row(const struct bench_case *c, const char *metric, double value,
	const char *unit)
{
	printf("%s\t%s\t%s\t%.6g\t%s\n", c->system, c->scenario, metric, value,
		unit);
	fflush(stdout);
}

#define bench_fail(c, ...)                                              \
	do {                                                            \
		fprintf(stderr, "%s %s: ", (c)->system, (c)->scenario); \
		fprintf(stderr, __VA_ARGS__);                           \
		fputc('\n', stderr);                                    \
		exit(1);                                                \
	} while (0)

static inline long
rss_bytes(void)
{
	long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

static inline uint64_t
xorshift(uint64_t *s)
{
	uint64_t x = *s;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *s = x;
}

/* main() of a program whose cases end with a NULL system. */
static inline int
bench_cases_main(int argc, char **argv, const struct bench_case *cases)
{
	const struct bench_case *c = cases;
	struct bench_case other; /* of another size */

	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (; c->system; c++)
			printf("%s\t%s\n", c->system, c->scenario);
		return 0;
	}
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: %s list | SYSTEM SCENARIO [N]\n",
			argv[0]);
		return 2;
	}
	while (c->system && (strcmp(c->system, argv[1]) != 0 ||
				    strcmp(c->scenario, argv[2]) != 0))
		c++;
	if (!c->system) {
		fprintf(stderr, "%s: no such benchmark: %s %s\n", argv[0],
			argv[1], argv[2]);
		return 2;
	}
	other = *c;
	if (argc == 4)
		other.n = atol(argv[3]);
	c->run(&other);
	return 0;
}
