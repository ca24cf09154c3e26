/* The scenarios: starts the server, forks the roles, measures, prints, and
 * stops what it started. Runs in the harness's own process. */
#include "common.h"

#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { WATCHDOG_S = 25 };

enum {
	K_FLOW,
	K_CALL,
	K_ECHO,
	K_PIPE,
	K_DUR,
	K_DUR_ACK,
	K_DRAIN,
	K_START,
	K_CONN,
	K_IDLE
};

static const struct scenario {
	const char *name;
	int kind;
	size_t size;
	int nprod, ncons;
	unsigned n;   /* dur-drain: events stored */
	bool relaxed; /* dur: sync about once a second, not per ack */
	bool one_cpu; /* pin every process to one CPU */
	bool sync;    /* wait for the ack of each post */
} scenarios[] = {
	{"thr-64", K_FLOW, .size = 64, .nprod = 1, .ncons = 1},
	{"thr-1k", K_FLOW, .size = 1024, .nprod = 1, .ncons = 1},
	{"fan-10", K_FLOW, .size = 64, .nprod = 1, .ncons = 10},
	{"multi-8", K_FLOW, .size = 64, .nprod = 8, .ncons = 1},
	{"sync-8", K_FLOW, .size = 64, .nprod = 8, .ncons = 1, .sync = true},
	{"rtt-64", K_CALL, .size = 64},
	{"rtt-64-1c", K_CALL, .size = 64, .one_cpu = true},
	{"echo-64", K_ECHO, .size = 64},
	{"echo-64-1c", K_ECHO, .size = 64, .one_cpu = true},
	{"echo-pipe-64", K_PIPE, .size = 64},
	{"dur-256", K_DUR, .size = 256},
	{"dur-256-e", K_DUR, .size = 256, .relaxed = true},
	{"dur-ack", K_DUR_ACK, .size = 256, .nprod = 1, .ncons = 1},
	{"dur-drain-1e3", K_DRAIN, .size = 256, .n = 1000},
	{"dur-drain-1e5", K_DRAIN, .size = 256, .n = 100000},
	{"dur-drain-1e6", K_DRAIN, .size = 256, .n = 1000000},
	{"dur-start-1e6", K_START, .size = 256, .n = 1000000},
	{"conn-2000", K_CONN, .size = 0},
	{"idle", K_IDLE, .size = 0},
	{NULL, 0, .size = 0},
};

static bool
word_in(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list; p && *p;) {
		size_t k = strcspn(p, " ");
		if (k == n && memcmp(p, word, n) == 0)
			return true;
		p += k;
		p += strspn(p, " ");
	}
	return false;
}

static bool
offers(const struct peer *p, const struct scenario *s)
{
	if (word_in(p->skip, s->name))
		return false;
	switch (s->kind) {
	case K_FLOW:
		return p->producer && p->consumer && (p->acks || !s->sync);
	case K_CALL:
		return p->caller && p->responder;
	case K_ECHO:
		return p->echo != NULL;
	case K_PIPE:
		return p->echo_pipe != NULL;
	case K_DUR:
		return p->durable != NULL;
	case K_DUR_ACK:
		return p->settled != NULL;
	case K_DRAIN:
	case K_START:
		return p->drain != NULL;
	case K_CONN:
		return p->open_conn != NULL;
	case K_IDLE:
		return p->server != NULL;
	}
	return false;
}

static void
out(struct bench *b, const char *metric, double value, const char *unit)
{
	printf("%s\t%s\t%s\t%.*f\t%s\n", b->peer->name, b->scenario, metric,
		value >= 1000 ? 0
		: value >= 10 ? 2
			      : 4,
		value, unit);
}

static void
smaps(pid_t pid, double *rss_kb, double *pss_kb)
{
	char path[64], line[256];
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
	FILE *f = fopen(path, "r");
	CHECK(f);
	while (fgets(line, sizeof line, f)) {
		double v;
		if (sscanf(line, "Rss: %lf", &v) == 1)
			*rss_kb += v;
		else if (sscanf(line, "Pss: %lf", &v) == 1)
			*pss_kb += v;
	}
	fclose(f);
}

static void
server_memory(struct bench *b, double *rss_kb, double *pss_kb)
{
	*rss_kb = *pss_kb = 0;
	for (int i = 0; i < b->nsrv; i++)
		smaps(b->srv[i], rss_kb, pss_kb);
}

static uint64_t
server_cpu(struct bench *b)
{
	uint64_t sum = 0;
	for (int i = 0; i < b->nsrv; i++)
		sum += proc_cpu_ns(b->srv[i]);
	return sum;
}

static int
rm_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void
cleanup(void)
{
	if (!the_bench || getpid() != main_pid)
		return;
	for (int i = 0; i < the_bench->nrole; i++)
		if (the_bench->role[i].pid > 0)
			kill(the_bench->role[i].pid, SIGKILL);
	for (int i = 0; i < the_bench->nrole; i++)
		if (the_bench->role[i].pid > 0)
			waitpid(the_bench->role[i].pid, NULL, 0);
	for (int i = 0; i < the_bench->nsrv; i++)
		if (the_bench->srv[i] > 0)
			kill(the_bench->srv[i], SIGTERM);
	for (int i = 0; i < the_bench->nsrv; i++) {
		int ms = 0;
		while (the_bench->srv[i] > 0 &&
			waitpid(the_bench->srv[i], NULL, WNOHANG) == 0) {
			if (++ms == 2000)
				kill(the_bench->srv[i], SIGKILL);
			usleep(1000);
		}
	}
	if (getenv("BENCH_KEEP"))
		fprintf(stderr, "kept %s\n", the_bench->dir);
	else
		nftw(the_bench->dir, rm_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void
on_alarm(int sig)
{
	(void)sig;
	static const char msg[] = "watchdog: the run took too long\n";
	(void)!write(2, msg, sizeof msg - 1);
	for (int i = 0; i < the_bench->nsrv; i++)
		if (the_bench->srv[i] > 0)
			kill(the_bench->srv[i], SIGKILL);
	cleanup();
	_exit(3);
}

static void
on_term(int sig)
{
	(void)sig;
	exit(4);
}

static void
run_role(struct role *r)
{
	const struct peer *p = r->b->peer;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	switch (r->kind) {
	case PRODUCER:
		p->producer(r->b, r);
		break;
	case CONSUMER:
		(r->b->settled ? p->settled : p->consumer)(r->b, r);
		break;
	case CALLER:
		p->caller(r->b, r);
		break;
	case RESPONDER:
		p->responder(r->b, r);
		break;
	case ECHO:
		p->echo(r->b, r);
		break;
	case ECHO_PIPE:
		p->echo_pipe(r->b, r);
		break;
	case DURABLE:
		(r->b->settled    ? p->settled
			: r->b->n ? p->drain
				  : p->durable)(r->b, r);
		break;
	}
	atomic_store(&r->done, 1);
	atomic_fetch_add(&r->b->ndone, 1);
	futex_wake(&r->b->ndone);
	/* Stay, connections open, until everybody has been measured. */
	while (!atomic_load(&r->b->finish))
		futex_wait(&r->b->finish, 0, 100000000);
	_exit(0);
}

static void
add_role(struct bench *b, enum role_kind kind, int idx)
{
	struct role *r = &b->role[b->nrole];
	r->kind = kind;
	r->idx = idx;
	r->b = b;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		run_role(r);
	r->pid = pid;
	b->nrole++;
}

/* What the server said last, for whoever must find out why it failed. */
static void
show_log(struct bench *b)
{
	char line[512];
	FILE *f = fopen(path_in(b, "server.log"), "r");

	if (!f)
		return;
	for (int i = 0; i < 50 && fgets(line, sizeof line, f); i++)
		fprintf(stderr, "server: %s", line);
	fclose(f);
}

static void
servers_or_die(struct bench *b)
{
	for (int i = 0; i < b->nsrv; i++)
		if (waitpid(b->srv[i], NULL, WNOHANG) != 0) {
			b->srv[i] = 0;
			show_log(b);
			die("the server died");
		}
}

static void
alive_or_die(struct bench *b)
{
	if (atomic_load(&b->failed))
		die("a role failed");
	for (int i = 0; i < b->nrole; i++)
		if (waitpid(b->role[i].pid, NULL, WNOHANG) != 0) {
			b->role[i].pid = 0;
			die("role %d died", i);
		}
	servers_or_die(b);
}

/* Runs all roles that were added; measures the CPU time of everybody. */
static void
run_roles(struct bench *b, int nactive)
{
	for (int n; (n = atomic_load(&b->ready)) < b->nrole;) {
		futex_wait(&b->ready, (uint32_t)n, 20000000);
		alive_or_die(b);
	}
	usleep(20000); /* let the libraries' own threads settle */
	uint64_t srv0 = server_cpu(b);
	for (int i = 0; i < b->nrole; i++)
		b->role[i].cpu = proc_cpu_ns(b->role[i].pid);
	atomic_store(&b->t_end, now_ns() + b->run_ns);
	atomic_store(&b->go, 1);
	futex_wake(&b->go);
	for (int n; (n = atomic_load(&b->ndone)) < nactive;) {
		futex_wait(&b->ndone, (uint32_t)n, 50000000);
		alive_or_die(b);
	}
	b->srv_cpu = server_cpu(b) - srv0;
	for (int i = 0; i < b->nrole; i++)
		b->role[i].cpu = proc_cpu_ns(b->role[i].pid) - b->role[i].cpu;
	atomic_store(&b->finish, 1);
	futex_wake(&b->finish);
}

static void
run_flow(struct bench *b)
{
	for (int i = 0; i < b->ncons; i++)
		add_role(b, CONSUMER, i);
	for (int i = 0; i < b->nprod; i++)
		add_role(b, PRODUCER, i);
	run_roles(b, b->nrole);

	uint64_t t0 = UINT64_MAX, t1 = 0, sent = 0, got = 0, cpu_p = 0,
		 cpu_c = 0;
	for (int i = 0; i < b->nrole; i++) {
		struct role *r = &b->role[i];
		if (r->kind == PRODUCER) {
			sent += r->sent;
			cpu_p += r->cpu;
			if (r->t_first < t0)
				t0 = r->t_first;
		} else {
			got += r->got;
			cpu_c += r->cpu;
			if (r->t_last > t1)
				t1 = r->t_last;
		}
	}
	if (got != sent * (uint64_t)b->ncons)
		die("%llu messages sent, %llu received",
			(unsigned long long)sent, (unsigned long long)got);
	double n = (double)got;
	out(b, b->ncons > 1 ? "deliveries_per_s" : "msgs_per_s",
		n / ((double)(t1 - t0) / 1e9),
		b->ncons > 1 ? "deliveries/s" : "msgs/s");
	out(b, b->ncons > 1 ? "cpu_us_per_delivery" : "cpu_us_per_msg",
		(double)(cpu_p + cpu_c + b->srv_cpu) / 1e3 / n, "us");
	out(b, "cpu_producer", (double)cpu_p / 1e3 / n, "us");
	if (b->nsrv)
		out(b, "cpu_server", (double)b->srv_cpu / 1e3 / n, "us");
	out(b, "cpu_consumer", (double)cpu_c / 1e3 / n, "us");
	out(b, "n", n, "msgs");
}

static void
run_call(struct bench *b, int kind)
{
	int rtt = kind == K_CALL;
	if (kind != K_PIPE)
		b->run_ns *= 2;
	if (rtt)
		add_role(b, RESPONDER, 0);
	add_role(b, rtt ? CALLER : kind == K_ECHO ? ECHO : ECHO_PIPE, 0);
	run_roles(b, 1);
	struct role *r = &b->role[b->nrole - 1];
	uint64_t cpu = b->srv_cpu;
	for (int i = 0; i < b->nrole; i++)
		cpu += b->role[i].cpu;
	CHECK(r->got == r->sent && r->got > 0);
	if (kind == K_PIPE) {
		out(b, "msgs_per_s",
			(double)r->got /
				((double)(r->t_last - r->t_first) / 1e9),
			"msgs/s");
	} else {
		out(b, "p50", hist_us(&r->h, 0.5), "us");
		out(b, "p99", hist_us(&r->h, 0.99), "us");
		out(b, "p99.9", hist_us(&r->h, 0.999), "us");
	}
	out(b, "cpu_us_per_call", (double)cpu / 1e3 / (double)r->got, "us");
	out(b, "n", (double)r->got, "calls");
}

static void
run_dur(struct bench *b)
{
	add_role(b, DURABLE, 0);
	if (b->settled)
		add_role(b, CONSUMER, 0);
	run_roles(b, 1);
	struct role *r = &b->role[0];
	uint64_t cpu = b->srv_cpu;
	for (int i = 0; i < b->nrole; i++)
		cpu += b->role[i].cpu;
	CHECK(r->got == r->sent && r->got > 0);
	out(b, "acked_per_s",
		(double)r->got / ((double)(r->t_last - r->t_first) / 1e9),
		"msgs/s");
	out(b, "ack_p50", hist_us(&r->h, 0.5), "us");
	out(b, "ack_p99", hist_us(&r->h, 0.99), "us");
	out(b, "cpu_us_per_msg", (double)cpu / 1e3 / (double)r->got, "us");
	out(b, "cpu_server", (double)b->srv_cpu / 1e3 / (double)r->got, "us");
	out(b, "n", (double)r->got, "msgs");
}

static void
run_drain(struct bench *b)
{
	add_role(b, DURABLE, 0);
	run_roles(b, 1);
	struct role *r = &b->role[0];
	out(b, "drained_per_s", (double)r->got / ((double)r->spent_ns / 1e9),
		"msgs/s");
	out(b, "cpu_us_per_msg",
		(double)(r->client_ns + r->server_ns) / 1e3 / (double)r->got,
		"us");
	out(b, "cpu_server", (double)r->server_ns / 1e3 / (double)r->got, "us");
	out(b, "stored_per_s", (double)r->got / ((double)r->before_ns / 1e9),
		"msgs/s");
	out(b, "n", (double)r->got, "msgs");
}

static void
run_conn(struct bench *b)
{
	enum { N = 2000 };
	double rss0, pss0, rss1, pss1;
	usleep(200000);
	server_memory(b, &rss0, &pss0);
	uint64_t t0 = now_ns();
	for (int i = 0; i < N; i++)
		if (!b->peer->open_conn(b, i))
			die("connection %d refused", i);
	double s = (double)(now_ns() - t0) / 1e9;
	usleep(300000);
	server_memory(b, &rss1, &pss1);
	out(b, "rss_per_conn", (rss1 - rss0) * 1024 / N, "bytes");
	out(b, "pss_per_conn", (pss1 - pss0) * 1024 / N, "bytes");
	out(b, "conns_per_s", N / s, "conns/s");
	if (b->peer->open_sub) {
		for (int i = 0; i < N; i++)
			if (!b->peer->open_sub(b, i))
				die("subscription %d refused", i);
		usleep(300000);
		server_memory(b, &rss1, &pss1);
		out(b, "pss_per_receiver", (pss1 - pss0) * 1024 / N, "bytes");
	}
}

static void
start_server(struct bench *b, double *ms)
{
	uint64_t t0 = now_ns();
	b->peer->server(b);
	while (!b->peer->answers(b)) {
		if (now_ns() - t0 > 10000000000ull) {
			show_log(b);
			die("the server does not answer");
		}
		servers_or_die(b);
		usleep(100);
	}
	*ms = (double)(now_ns() - t0) / 1e6;
}

/* End the server with @signal, and start it on what it left. */
static void
start_again(struct bench *b, int sig, const char *metric)
{
	double ms, rss, pss;
	char name[32];

	for (int i = 0; i < b->nsrv; i++) {
		kill(b->srv[i], sig);
		waitpid(b->srv[i], NULL, 0);
	}
	b->nsrv = 0;
	start_server(b, &ms);
	server_memory(b, &rss, &pss);
	out(b, metric, ms, "ms");
	snprintf(name, sizeof name, "%s_rss", metric);
	out(b, name, rss, "kB");
}

static void
run_start(struct bench *b)
{
	add_role(b, DURABLE, 0);
	run_roles(b, 1);
	CHECK(b->role[0].got == b->n);
	start_again(b, SIGTERM, "startup");
	start_again(b, SIGKILL, "startup_killed");
}

static long
env_num(const char *name, long dflt)
{
	const char *s = getenv(name);
	return s && *s ? atol(s) : dflt;
}

static int
list_all(const struct peer *peers)
{
	for (const struct peer *p = peers; p->name; p++)
		for (const struct scenario *s = scenarios; s->name; s++)
			if (offers(p, s))
				printf("%s\t%s\n", p->name, s->name);
	return 0;
}

/* As many descriptors as the limits allow: conn-2000 needs them. */
static void
raise_nofile(void)
{
	struct rlimit rl;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

static struct bench *
bench_new(const struct peer *p, const struct scenario *s)
{
	struct bench *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *tmp = getenv("TMPDIR");

	CHECK(b != MAP_FAILED);
	b->peer = p;
	b->scenario = s->name;
	b->size = s->size;
	b->nprod = s->nprod;
	b->ncons = s->ncons;
	b->relaxed = s->relaxed;
	b->sync = s->sync;
	b->settled = s->kind == K_DUR_ACK;
	b->n = s->n;
	b->only_store = s->kind == K_START;
	b->window = (uint64_t)env_num("BENCH_WINDOW", (long)p->window);
	b->run_ns = (uint64_t)env_num("BENCH_MS", 3000) * 1000000u;
	b->calls = (int)env_num("BENCH_CALLS", 20000);
	b->port = free_port();
	snprintf(b->dir, sizeof b->dir, "%s/peers-XXXXXX",
		tmp && *tmp ? tmp : "/tmp");
	CHECK(mkdtemp(b->dir));
	return b;
}

static void
pin_to_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

static void
run_idle(struct bench *b, double startup_ms)
{
	double rss, pss;

	usleep(300000);
	server_memory(b, &rss, &pss);
	out(b, "startup", startup_ms, "ms");
	out(b, "rss", rss, "kB");
	out(b, "pss", pss, "kB");
}

static void
run_scenario(struct bench *b, const struct scenario *s, double startup_ms)
{
	switch (s->kind) {
	case K_FLOW:
		run_flow(b);
		break;
	case K_CALL:
	case K_ECHO:
	case K_PIPE:
		run_call(b, s->kind);
		break;
	case K_DUR:
	case K_DUR_ACK:
		run_dur(b);
		break;
	case K_DRAIN:
		run_drain(b);
		break;
	case K_START:
		run_start(b);
		break;
	case K_CONN:
		run_conn(b);
		break;
	case K_IDLE:
		run_idle(b, startup_ms);
		break;
	}
}

int
bench_main(int argc, char **argv, const struct peer *peers)
{
	const struct peer *p = peers;
	const struct scenario *s = scenarios;
	double startup_ms = 0;

	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list_all(peers);
	if (argc != 3) {
		fprintf(stderr, "usage: %s list | PEER SCENARIO\n", argv[0]);
		return 2;
	}
	while (p->name && strcmp(p->name, argv[1]) != 0)
		p++;
	while (s->name && strcmp(s->name, argv[2]) != 0)
		s++;
	if (!p->name || !s->name || !offers(p, s)) {
		fprintf(stderr, "%s: no such peer or scenario: %s %s\n",
			argv[0], argv[1], argv[2]);
		return 2;
	}
	raise_nofile();
	main_pid = getpid();
	the_bench = bench_new(p, s);
	atexit(cleanup);
	signal(SIGALRM, on_alarm);
	signal(SIGTERM, on_term);
	signal(SIGINT, on_term);
	signal(SIGPIPE, SIG_IGN);
	alarm(WATCHDOG_S);
	if (s->one_cpu)
		pin_to_this_cpu();
	if (p->server)
		start_server(the_bench, &startup_ms);
	run_scenario(the_bench, s, startup_ms);
	fflush(stdout);
	exit(0);
}
