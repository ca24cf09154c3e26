/* What coroutines of daemon/coro cost, by themselves and under handlers of a
 * plugin that wait. */
#include <limits.h>

#include "coro.h"
#include "coro/coro.h"
#include "coro/stacks.h"
#include "exec/loop.h"
#include "kernel/sched.h"
#include "kind/kind.h"

enum { WAITING = 100000, TURNS_MAX = 1000000 };

/* ---- by themselves ----------------------------------------------------- */

static void
operate(struct coro *co, void *arg)
{
	(void)co;
	coro_operation(arg);
}

static void
run_in_coroutine(void *arg)
{
	struct coro *co = coro_new(operate, arg);

	coro_resume(co);
	coro_free(co);
}

static void
cost(const struct bench_case *c)
{
	coro_cost(c, run_in_coroutine);
}

static void
wait_for_ever(struct coro *co, void *arg)
{
	(void)arg;
	for (;;)
		coro_wait(co);
}

static void
spin(long n)
{
	struct coro *co = coro_new(wait_for_ever, NULL);

	while (n-- > 0)
		coro_resume(co);
	coro_free(co);
}

static void
switches(const struct bench_case *c)
{
	coro_switches(c, spin);
}

static void
memory_of_coroutines(const struct bench_case *c)
{
	struct coro **co = calloc(WAITING, sizeof(struct coro *));
	struct coro_stacks stacks;
	long before;

	memset(co, 1, WAITING * sizeof(struct coro *));
	before = rss_bytes();
	for (long i = 0; i < WAITING; i++) {
		co[i] = coro_new(wait_for_ever, NULL);
		if (!co[i])
			bench_fail(c, "no more than %ld coroutines", i);
		coro_resume(co[i]);
	}
	coro_stacks(&stacks);
	bench_row(c, "rss_bytes", (double)(rss_bytes() - before) / WAITING,
		"bytes");
	bench_row(c, "own_bytes", (double)stacks.size / stacks.n, "bytes");
	bench_row(c, "unguarded", stacks.n_unguarded, "1");
}

/* ---- under handlers ---------------------------------------------------- */

struct rig {
	struct kernel kernel;
	struct loop loop;
	struct session *s;
};

static struct rig the_rig;

static char *
plugin_path(void)
{
	char path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

	path[n < 0 ? 0 : n] = '\0';
	strcpy(strrchr(path, '/') + 1, "bench_waits.so");
	return strdup(path);
}

static struct rig *
rig_new(const struct bench_case *c)
{
	struct rig *rig = &the_rig;
	struct session_spec *spec = spec_new();

	if (kernel_init(&rig->kernel, &kernel_limits_default, &clock_system) ||
		loop_init(&rig->loop, &rig->kernel, 0) || !spec)
		bench_fail(c, "the kernel cannot be made");
	spec->kind = strdup("native");
	spec->path = plugin_path();
	spec->concurrency = WAITING;
	spec->restart = RESTART_NO;
	rig->s = session_new(&rig->loop.sched, &kind_native, spec, NULL);
	spec_unref(spec);
	while (sched_turn(&rig->loop.sched))
		;
	if (rig->s->life != SESSION_UP)
		bench_fail(
			c, "%s", rig->s->health ? rig->s->health->reason : "");
	return rig;
}

static void
post(struct rig *rig, const char *event, long n)
{
	struct sched *sched = &rig->loop.sched;

	for (long i = 0; i < n; i++) {
		struct msg *m = msg_new(&sched->pool,
			&(struct msg_init){.event = event,
				.event_size = (uint8_t)strlen(event),
				.event_static = true});

		m->to = rig->s->id;
		if (sched_post(sched, m))
			abort();
	}
	while (sched_turn(sched))
		;
}

static void
memory_of_handlers(const struct bench_case *c)
{
	struct rig *rig = rig_new(c);
	long before;

	post(rig, "none", 100);
	before = rss_bytes();
	post(rig, "wait", WAITING);
	if (rig->s->leased != WAITING)
		bench_fail(c, "%u handlers wait", (unsigned)rig->s->leased);
	bench_row(c, "rss_bytes", (double)(rss_bytes() - before) / WAITING,
		"bytes");
}

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		{"evd", "coroutine-1", cost, 4000000},
		{"evd", "coroutine-30", cost, 4000000},
		{"evd", "coroutine-switch", switches, SWITCHES},
		{"evd", "coroutine-wait", memory_of_coroutines, 0},
		{"evd", "coroutine-wait-handler", memory_of_handlers, 0},
		{0},
	};

	return bench_cases_main(argc, argv, cases);
}
