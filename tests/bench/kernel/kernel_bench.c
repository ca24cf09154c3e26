/* The kernel scenarios: sessions of the native and the lua kind in this
 * process, run by the loop executor as in the daemon, without sockets.
 *
 * `--profile SYSTEM SCENARIO [N]` prints how long it took, and the profile.
 *
 * main() makes kernel, loops and sessions, and then runs loop 0 itself; the
 * driver session there calls the first session of the scenario and stops the
 * loops when the answer has come. */
#include <limits.h>
#include <stdbool.h>

#include "../bench.h"
#include "exec/loop.h"
#include "kernel/kernel.h"
#include "kernel/sched.h"
#include "kernel/session.h"
#include "kernel/spec.h"
#include "kind/kind.h"
#include "stats/profile.h"
#include "table.h"

enum {
	LOOPS_MAX = 2,
	ANSWER_MS = 45000,
	RING = 10000,
	ACTORS = 100000, /* as in sessions.c */
	SENDERS = 8,
};

struct rig {
	const struct bench_case *c;
	struct kernel kernel;
	struct loop loops[LOOPS_MAX];
	unsigned n_loops;
	struct sched_task go;
	const char *alias, *event; /* whom the driver calls, and how */
	struct session *driver;
	int status;
	char answer[1024];
	uint64_t wall_ns, cpu_ns; /* from the call to the answer */
};

static struct rig the_rig; /* it is large */

static bool with_table; /* print the profile instead of rows */

/* The scenario X-profile is X with profiling on. */
static bool
is_profiled(const struct bench_case *c)
{
	return with_table || strstr(c->scenario, "-profile");
}

/* ---- kernel and loops -------------------------------------------------- */

static struct rig *
rig_new(const struct bench_case *c, unsigned n_loops,
	const struct kernel_limits *limits)
{
	struct rig *rig = &the_rig;

	rig->c = c;
	rig->n_loops = n_loops;
	rig->status = -1;
	if (kernel_init(&rig->kernel, limits, &clock_system) != 0)
		bench_fail(c, "the kernel cannot be made");
	for (unsigned i = 0; i < n_loops; i++)
		if (loop_init(&rig->loops[i], &rig->kernel, i) != 0)
			bench_fail(c, "loop %u cannot be made", i);
	profile_init(&rig->kernel);
	for (unsigned i = 0; i < n_loops; i++)
		profile_set_all(&rig->loops[i].sched, is_profiled(c));
	return rig;
}

static void
rig_stop(struct rig *rig)
{
	for (unsigned i = 0; i < rig->n_loops; i++)
		loop_stop(&rig->loops[i]);
}

/* Start, and with the same call again end, the measurement of both clocks. */
static void
rig_clock(struct rig *rig)
{
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	rig->wall_ns = now_ns() - rig->wall_ns;
	rig->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u +
		      (uint64_t)cpu.tv_nsec - rig->cpu_ns;
}

/* ---- the driver -------------------------------------------------------- */

static enum session_result
driver_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static enum session_result
driver_run(struct session *s, struct msg *m)
{
	(void)s, (void)m;
	return SESSION_DONE;
}

static void
driver_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct rig *rig = s->state;

	(void)token;
	rig_clock(rig);
	rig->status = (int)msg_status(reply);
	snprintf(rig->answer, sizeof rig->answer, "%.*s", (int)reply->size,
		(const char *)reply->data);
	rig_stop(rig);
}

static void
driver_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	(void)s, (void)seq, (void)size, (void)status, (void)text;
}

static void
driver_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed;
}

static size_t
driver_memory(const struct session *s)
{
	(void)s;
	return 0;
}

static const struct session_ops driver_ops = {
	.kind = "driver",
	.start = driver_start,
	.run = driver_run,
	.reply = driver_reply,
	.settled = driver_settled,
	.stop = driver_stop,
	.memory = driver_memory,
};

static void
rig_go(struct sched *sched, struct sched_task *task)
{
	struct rig *rig = &the_rig;
	struct msg_init init = {.event = rig->event,
		.event_size = (uint8_t)strlen(rig->event),
		.event_static = true};
	struct msg *m = msg_new(&sched->pool, &init);
	uint64_t call;

	(void)task;
	rig->driver = session_new(sched, &driver_ops, NULL, rig);
	if (!m || !rig->driver)
		bench_fail(rig->c, "out of memory");
	m->to = alias_holder(
		&rig->kernel.aliases, rig->alias, strlen(rig->alias));
	rig_clock(rig);
	if (session_call(rig->driver, m, 1, ANSWER_MS, &call) != 0)
		bench_fail(rig->c, "%s cannot be called", rig->alias);
}

/* Lines "metric value unit" become rows. What the CPUs spent on an event is
 * told beside its time: the steadier figure on a busy machine. */
static void
print_answer(struct rig *rig)
{
	char *save, *line;

	if (with_table) {
		printf("%s: elapsed %.3f s, %.3f s of CPU\n\n",
			rig->c->scenario, (double)rig->wall_ns / 1e9,
			(double)rig->cpu_ns / 1e9);
		table_print(&rig->kernel, stdout);
		return;
	}
	line = strtok_r(rig->answer, "\n", &save);

	if (!line)
		bench_fail(rig->c, "an empty answer came");
	for (; line; line = strtok_r(NULL, "\n", &save)) {
		char metric[64], unit[16];
		double value;

		if (sscanf(line, "%63s %lf %15s", metric, &value, unit) != 3)
			bench_fail(rig->c, "unexpected answer: %s", line);
		bench_row(rig->c, metric, value, unit);
		if (strcmp(metric, "ns_per_event") == 0)
			bench_row(rig->c, "cpu_ns_per_event",
				value * (double)rig->cpu_ns /
					(double)rig->wall_ns,
				"ns");
	}
}

/* Call @event of @alias, run until the answer, print it. */
static void
rig_run(struct rig *rig, const char *alias, const char *event)
{
	rig->alias = alias;
	rig->event = event;
	rig->go.run = rig_go;
	for (unsigned i = 1; i < rig->n_loops; i++)
		if (loop_start(&rig->loops[i]) != 0)
			bench_fail(rig->c, "loop %u cannot be started", i);
	loop_inject(&rig->loops[0], &rig->go);
	loop_run(&rig->loops[0]);
	for (unsigned i = 1; i < rig->n_loops; i++)
		loop_join(&rig->loops[i]);
	if (rig->status != 0)
		bench_fail(rig->c, "status %d: %s", rig->status, rig->answer);
	print_answer(rig);
}

/* ---- sessions ---------------------------------------------------------- */

static char *
beside_this_program(const char *name)
{
	char path[PATH_MAX + 256];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

	if (n < 0)
		n = 0;
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	snprintf(path + strlen(path), 256, "/%s", name);
	return strdup(path);
}

/* @how, @peer and @n are parameters of sessions.c; NULL and 0: not set. */
static struct session_spec *
native_spec(const char *how, const char *peer, long n)
{
	struct session_spec *spec = spec_new();
	char number[24];

	if (!spec)
		abort();
	spec->kind = strdup("native");
	spec->path =
		beside_this_program(strstr(the_rig.c->scenario, "-coroutine")
					    ? "bench_sessions_coroutine.so"
					    : "bench_sessions.so");
	spec->restart = RESTART_NO;
	if (how)
		spec_add_param(spec, "how", how);
	if (peer)
		spec_add_param(spec, "peer", peer);
	snprintf(number, sizeof number, "%ld", n);
	if (n)
		spec_add_param(spec, "n", number);
	return spec;
}

static void
spec_number(struct session_spec *spec, const char *key, long n)
{
	char number[24];

	snprintf(number, sizeof number, "%ld", n);
	spec_add_param(spec, key, number);
}

/* Takes the reference to @spec. */
static struct session *
add_session(struct rig *rig, unsigned loop, const char *alias,
	const struct session_ops *ops, struct session_spec *spec)
{
	struct session *s =
		session_new(&rig->loops[loop].sched, ops, spec, NULL);

	if (!s || session_add_alias(s, alias, strlen(alias)) != 0)
		bench_fail(rig->c, "session %s cannot be made", alias);
	spec_unref(spec);
	return s;
}

/* ---- scenarios --------------------------------------------------------- */

static void
run_pingpong(struct rig *rig)
{
	/* the first letter */
	const char *how = strchr(rig->c->scenario, '-') + 1;

	add_session(rig, 0, "ping", &kind_native,
		native_spec(how, "pong", rig->c->n));
	/* pong counts from 0 and is never the last */
	add_session(rig, 0, "pong", &kind_native, native_spec(how, "ping", 0));
	rig_run(rig, "ping", "pingpong");
}

static void
pingpong(const struct bench_case *c)
{
	run_pingpong(rig_new(c, 1, &kernel_limits_default));
}

static void
add_lua(struct rig *rig, const char *alias, const char *peer)
{
	struct session_spec *spec = native_spec(NULL, peer, rig->c->n);

	free(spec->kind);
	free(spec->path);
	spec->kind = strdup("lua");
	spec->path = strdup(BENCH_KERNEL_DIR "/pingpong.lua");
	add_session(rig, 0, alias, &kind_lua, spec);
}

static void
lua_pingpong(const struct bench_case *c)
{
	struct rig *rig = rig_new(c, 1, &kernel_limits_default);

	add_lua(rig, "ping", "pong");
	add_lua(rig, "pong", "ping");
	rig_run(rig, "ping", "pingpong");
}

/* ACTORS sessions that answer to "ping", each with an alias. */
static struct rig *
rig_with_actors(const struct bench_case *c)
{
	struct kernel_limits limits = kernel_limits_default;
	struct session_spec *spec;
	struct rig *rig;
	char alias[16];

	limits.max_sessions = 2 * ACTORS;
	rig = rig_new(c, 1, &limits);
	spec = native_spec("one", "ping", 0);
	for (int i = 0; i < ACTORS; i++) {
		snprintf(alias, sizeof alias, "actor%05d", i);
		add_session(rig, 0, alias, &kind_native, spec_ref(spec));
	}
	spec_unref(spec);
	return rig;
}

/* The same two names all the time, among many. */
static void
pingpong_among(const struct bench_case *c)
{
	run_pingpong(rig_with_actors(c));
}

static void
pingpong_random(const struct bench_case *c)
{
	struct rig *rig = rig_with_actors(c);

	add_session(
		rig, 0, "ping", &kind_native, native_spec("many", NULL, c->n));
	rig_run(rig, "ping", "pingpong");
}

/* c->n events by @tokens tokens round @size sessions. */
static void
run_ring(struct rig *rig, long size, long tokens)
{
	char alias[16], peer[16];

	for (long i = 0; i < size; i++) {
		struct session_spec *spec;

		snprintf(alias, sizeof alias, "ring%ld", i);
		snprintf(peer, sizeof peer, "ring%ld", (i + 1) % size);
		spec = native_spec(
			NULL, peer, i ? 0 : rig->c->n / (size * tokens));
		if (i == 0) {
			spec_number(spec, "size", size);
			spec_number(spec, "tokens", tokens);
		}
		add_session(rig, 0, alias, &kind_native, spec);
	}
	rig_run(rig, "ring0", "ring");
}

static void
ring(const struct bench_case *c)
{
	run_ring(rig_new(c, 1, &kernel_limits_default), RING,
		atol(strrchr(c->scenario, '-') + 1));
}

/* So many events are under way, and a turn of the loop handles as many. */
static void
budget(const struct bench_case *c)
{
	struct kernel_limits limits = kernel_limits_default;
	long budget = atol(strrchr(c->scenario, '-') + 1);

	limits.budget = limits.turn_budget = (uint32_t)budget;
	run_ring(rig_new(c, 1, &limits), 2, budget);
}

static void
many_to_one(const struct bench_case *c)
{
	struct rig *rig = rig_new(c, 2, &kernel_limits_default);
	char alias[16];

	add_session(rig, 0, "sink", &kind_native,
		native_spec("credit", "all", c->n));
	add_session(rig, 0, "all", &kind_native, native_spec("all", NULL, 0));
	for (int i = 0; i < SENDERS; i++) {
		struct session_spec *spec =
			native_spec("window", "sink", c->n / SENDERS);

		spec_number(spec, "size", i);
		snprintf(alias, sizeof alias, "sender%d", i);
		add_session(rig, 1, alias, &kind_native, spec);
	}
	rig_run(rig, "sink", "sink");
}

/* Fill and empty a mailbox, a million events at least in all. */
static void
drain(const struct bench_case *c)
{
	struct rig *rig = rig_new(c, 1, &kernel_limits_default);
	long n = c->n * (c->n < 1000000 ? 1000000 / c->n : 1);
	struct session_spec *sink = native_spec(NULL, "filler", n);
	struct session_spec *filler = native_spec(NULL, "sink", n);

	sink->max_events = (uint32_t)c->n + 1;
	sink->max_bytes = (uint64_t)c->n * 64 + 64;
	spec_number(sink, "tokens", c->n);
	spec_number(filler, "tokens", c->n);
	add_session(rig, 0, "sink", &kind_native, sink);
	add_session(rig, 0, "filler", &kind_native, filler);
	rig_run(rig, "sink", "sink");
}

static void
timers(const struct bench_case *c)
{
	struct kernel_limits limits = kernel_limits_default;
	struct session_spec *spec;
	struct rig *rig;

	limits.max_timers = (uint32_t)c->n + 1;
	rig = rig_new(c, 1, &limits);
	spec = native_spec(NULL, NULL, 0);
	spec->max_events = (uint32_t)c->n + 1;
	add_session(rig, 0, "timers", &kind_native, spec);
	rig_run(rig, "timers", "timers");
}

static void
turn_until_quiet(struct rig *rig)
{
	do
		while (sched_turn(&rig->loops[0].sched))
			;
	while (!sched_sleep(&rig->loops[0].sched));
	sched_awake(&rig->loops[0].sched);
}

/* The names of n sessions, before the clock runs. */
static char (*idle_names(long n))[16]
{
	char(*names)[16] = calloc((size_t)n, sizeof *names);

	for (long i = 0; i < n; i++)
		snprintf(names[i], sizeof names[i], "idle%ld", i);
	return names;
}

static void
add_idle(struct rig *rig, struct session **sessions, char (*names)[16], long n)
{
	struct session_spec *spec = native_spec("none", NULL, 0);

	sched_awake(&rig->loops[0].sched);
	for (long i = 0; i < n; i++)
		sessions[i] = add_session(
			rig, 0, names[i], &kind_native, spec_ref(spec));
	spec_unref(spec);
	turn_until_quiet(rig);
	for (long i = 0; i < n; i++)
		if (sessions[i]->life != SESSION_UP)
			bench_fail(rig->c, "session %ld is %s", i,
				session_state_word(sessions[i]));
}

static struct rig *
rig_for_idle(const struct bench_case *c)
{
	struct kernel_limits limits = kernel_limits_default;

	limits.max_sessions = 2 * (uint32_t)c->n;
	return rig_new(c, 1, &limits);
}

static void
spawn_stop(const struct bench_case *c)
{
	struct rig *rig = rig_for_idle(c);
	struct session **sessions = calloc((size_t)c->n, sizeof *sessions);
	char(*names)[16] = idle_names(c->n);

	memset(sessions, 1, (size_t)c->n * sizeof *sessions); /* its pages */
	rig_clock(rig);
	add_idle(rig, sessions, names, c->n);
	for (long i = 0; i < c->n; i++)
		session_stop(sessions[i]);
	turn_until_quiet(rig);
	rig_clock(rig);
	if (atomic_load(&rig->kernel.sessions.n) != 0)
		bench_fail(c, "%u sessions are left",
			(unsigned)atomic_load(&rig->kernel.sessions.n));
	bench_row(
		c, "ns_per_session", (double)rig->wall_ns / (double)c->n, "ns");
	bench_row(c, "cpu_ns_per_session", (double)rig->cpu_ns / (double)c->n,
		"ns");
}

/* A hundred random ones of the first @among by alias, again and again: how long
 * one takes. */
static double
find_ns(struct rig *rig, struct session **sessions, long among)
{
	enum { FINDS = 1000000, NAMES = 100 };
	char aliases[NAMES][16];
	struct session *found[NAMES];
	uint64_t random = 88172645463325252u, start;

	for (int i = 0; i < NAMES; i++) {
		long at = (long)(xorshift(&random) % (uint64_t)among);

		snprintf(aliases[i], sizeof aliases[i], "idle%ld", at);
		found[i] = sessions[at];
	}
	start = now_ns();
	for (int i = 0; i < FINDS; i++) {
		const char *alias = aliases[i % NAMES];
		uint64_t id = alias_holder(
			&rig->kernel.aliases, alias, strlen(alias));

		if (session_find(&rig->kernel, id) != found[i % NAMES])
			bench_fail(rig->c, "%s is not found", alias);
	}
	return (double)(now_ns() - start) / FINDS;
}

/* All of them by pages, as eventctl list asks for them: how long one takes of
 * the scheduler, without the coding for the wire. */
static double
list_ns(struct rig *rig)
{
	enum { PAGE = 1000 };
	struct kernel *k = &rig->kernel;
	uint64_t start = now_ns();
	long n = 0;

	for (uint32_t slot = 1; slot <= k->sessions.n_slots;) {
		for (int left = PAGE; left && slot <= k->sessions.n_slots;
			slot++) {
			const struct session *s = session_at(k, slot);

			if (!atomic_load(&s->id))
				continue;
			if (!session_name(s)[0] || session_memory(s) == 0)
				bench_fail(rig->c, "a session has no name");
			left--;
			n++;
		}
		sched_turn(&rig->loops[0].sched);
	}
	if (n != rig->c->n)
		bench_fail(rig->c, "%ld sessions are listed", n);
	return (double)(now_ns() - start) / (double)n;
}

static void
idle_session(const struct bench_case *c)
{
	struct rig *rig = rig_for_idle(c);
	struct session **sessions = calloc((size_t)c->n, sizeof *sessions);
	char(*names)[16] = idle_names(c->n);
	long before;

	memset(sessions, 1, (size_t)c->n * sizeof *sessions);
	before = rss_bytes();
	add_idle(rig, sessions, names, c->n);
	bench_row(c, "bytes_per_session",
		(double)(rss_bytes() - before) / (double)c->n, "bytes");
	bench_row(c, "find_one_ns", find_ns(rig, sessions, 1), "ns");
	bench_row(c, "find_any_ns", find_ns(rig, sessions, c->n), "ns");
	bench_row(c, "list_ns", list_ns(rig), "ns");
}

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		{"evd", "pingpong-id", pingpong, 10000000},
		{"evd", "pingpong-ref", pingpong, 10000000},
		{"evd", "pingpong-ref-coroutine", pingpong, 10000000},
		{"evd", "pingpong-alias", pingpong, 10000000},
		{"evd", "pingpong-id-profile", pingpong, 10000000},
		{"evd", "pingpong-ref-profile", pingpong, 10000000},
		{"evd", "pingpong-alias-profile", pingpong, 10000000},
		{"evd", "pingpong-alias-100k", pingpong_among, 10000000},
		{"evd", "pingpong-alias-100k-profile", pingpong_among,
			10000000},
		{"evd", "pingpong-random-100k", pingpong_random, 4000000},
		{"evd-lua", "lua-pingpong-alias", lua_pingpong, 2000000},
		{"evd-lua", "lua-pingpong-alias-profile", lua_pingpong,
			2000000},
		{"evd", "ring-1", ring, 4000000},
		{"evd", "ring-100", ring, 10000000},
		{"evd", "many-to-one-8", many_to_one, 8000000},
		{"evd", "spawn-stop", spawn_stop, 100000},
		{"evd", "idle-session", idle_session, 100000},
		{"evd", "idle-1m", idle_session, 1000000},
		{"evd", "drain-1e3", drain, 1000},
		{"evd", "drain-1e5", drain, 100000},
		{"evd", "drain-1e6", drain, 1000000},
		{"evd", "drain-1e7", drain, 10000000},
		{"evd", "budget-1", budget, 1000000},
		{"evd", "budget-50", budget, 10000000},
		{"evd", "budget-500", budget, 10000000},
		{"evd", "timers-1m", timers, 1000000},
		{0},
	};

	if (argc > 1 && strcmp(argv[1], "--profile") == 0) {
		with_table = true;
		argv[1] = argv[0];
		argc--;
		argv++;
	}
	return bench_cases_main(argc, argv, cases);
}
