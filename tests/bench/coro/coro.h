#pragma once
/* The experiment of 2014, for every way to run one operation in a coroutine:
 * the operation is a number of getppid() calls, with and without by turns, so
 * that what drifts hits both; the quickest turn of each counts, for whatever
 * else the machine does makes turns slower only. One thread. */
#include <sys/syscall.h>

#include "../bench.h"

enum { SLICES = 200, SWITCHES = 20000000 };

static __attribute__((noinline)) void
coro_operation(void *arg)
{
	for (long i = *(const long *)arg; i > 0; i--)
		syscall(SYS_getppid);
}

static inline uint64_t
coro_time(void (*run)(void *), long *n_calls, long n)
{
	uint64_t start = now_ns();

	for (long i = 0; i < n; i++)
		run(n_calls);
	return now_ns() - start;
}

/* Calls a scenario's operation makes: coroutine-1, coroutine-30. */
static inline long
coro_calls(const struct bench_case *c)
{
	return atol(strchr(c->scenario, '-') + 1);
}

/* c->n operations, each in a coroutine by @run, which gets a long. */
static inline void
coro_cost(const struct bench_case *c, void (*run)(void *))
{
	long n_calls = coro_calls(c), n = c->n / n_calls / SLICES + 1;
	uint64_t without = UINT64_MAX, with = UINT64_MAX, took;

	coro_time(run, &n_calls, n); /* warm */
	for (int slice = 0; slice < SLICES; slice++) {
		took = coro_time(coro_operation, &n_calls, n);
		without = took < without ? took : without;
		took = coro_time(run, &n_calls, n);
		with = took < with ? took : with;
	}
	bench_row(
		c, "without_kops", (double)n * 1e6 / (double)without, "1000/s");
	bench_row(c, "with_kops", (double)n * 1e6 / (double)with, "1000/s");
	bench_row(c, "cost", 100 - (double)without * 100 / (double)with, "%");
	bench_row(
		c, "added", ((double)with - (double)without) / (double)n, "ns");
}

/* @spin goes in and out of one coroutine so many times. */
static inline void
coro_switches(const struct bench_case *c, void (*spin)(long n))
{
	uint64_t best = UINT64_MAX, took;
	long n = c->n / SLICES;

	for (int slice = 0; slice < SLICES; slice++) {
		took = now_ns();
		spin(n);
		took = now_ns() - took;
		best = took < best ? took : best;
	}
	bench_row(c, "in_and_out", (double)best / (double)n, "ns");
}
