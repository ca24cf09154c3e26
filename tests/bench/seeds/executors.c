/* The experiment of the mail of 2002: how many requests a second, on one and on
 * two listeners, when a connection is opened for each and when it is kept.
 *
 *   evd    eventd, whose session `echo` has this executor; a request is a
 *          hello and a call, an answer is a welcome and a reply
 *   model  the same design in plain C, without any protocol (models.c)
 *   model-frames  the same that speaks eventd's protocol, and does no more
 *
 * One process makes the load for both: 64 connections at once. exec-block has
 * 1,000 sessions that block for a millisecond an event on a pool of 16, and one
 * on the loop whose answers are timed meanwhile; its model is a loop and 16
 * threads that sleep. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "../bench.h"
#include "envelope.h"
#include "frame.h"
#include "models.h"

enum {
	CONNS = 64,
	THREADS = 32,
	BLOCK_THREADS = 16,
	MS = 2000,
	BYTES_MAX = 4096
};

static const struct bench_case *bench;
static char dir[] = "/tmp/bench-exec-XXXXXX";
static int listeners[MODEL_LISTENERS_MAX], n_listeners;
static bool keep, is_evd, has_frames;
static unsigned busy_us, n_loops = 1;

/* What one sends first and then, and how many frames or bytes answer that. */
static struct {
	uint8_t first[BYTES_MAX], next[BYTES_MAX];
	size_t first_size, next_size;
} say;

static void
check(bool ok, const char *what)
{
	if (!ok)
		bench_fail(bench, "%s: %s", what, strerror(errno));
}

static const char *
path_of(const char *name, int i)
{
	static char path[4][108];
	char *p = path[(unsigned)i % 4];

	snprintf(p, sizeof path[0], "%s/%s%d", dir, name, i);
	return p;
}

/* ---- servers ----------------------------------------------------- */

static void
listen_all(void)
{
	for (int i = 0; i < n_listeners; i++) {
		struct sockaddr_un a = {.sun_family = AF_UNIX};

		snprintf(a.sun_path, sizeof a.sun_path, "%s",
			path_of("sock", i));
		listeners[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		check(listeners[i] >= 0 &&
				bind(listeners[i], (void *)&a, sizeof a) == 0 &&
				listen(listeners[i], 4096) == 0,
			"listen");
	}
}

static void
put_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	check(f && fputs(text, f) >= 0 && fclose(f) == 0, name);
}

/* The plugin that answers, beside this program. */
static const char *
plugin(void)
{
	static char path[640];
	char self[512];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (getenv("BENCH_ECHO_PLUGIN"))
		return getenv("BENCH_ECHO_PLUGIN");
	check(n > 0, "exe");
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(path, sizeof path, "%s/bench_echo.so", self);
	return path;
}

static void
configure(const char *executor)
{
	char text[1024], path[256];

	snprintf(path, sizeof path, "%s/sessions.d", dir);
	check(mkdir(path, 0700) == 0, "sessions.d");
	snprintf(text, sizeof text,
		"[Daemon]\nSessionsDirectory=%s\nLogLevel=error\n"
		"Loops=%u\nBusyPoll=%u\n"
		"[Store]\nPath=%s/store\n"
		"[Limits]\nConnectionRate=none\n"
		"[Pool block]\nType=worker\nThreads=%d\n",
		path, n_loops, busy_us, dir, BLOCK_THREADS);
	put_file("eventd.conf", text);
	snprintf(text, sizeof text,
		"[Session]\nAlias=echo\nKind=native\nPlugin=%s\n"
		"Executor=%s\nLoop=%u\n",
		plugin(), executor, n_loops - 1);
	put_file("sessions.d/echo.conf", text);
}

static void
exec_evd(void)
{
	char conf[256], number[16];

	for (int i = 0; i < n_listeners; i++)
		dup2(listeners[i], 10 + i);
	for (int i = 0; i < n_listeners; i++)
		dup2(10 + i, 3 + i);
	snprintf(number, sizeof number, "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	snprintf(number, sizeof number, "%d", n_listeners);
	setenv("LISTEN_FDS", number, 1);
	snprintf(conf, sizeof conf, "%s/eventd.conf", dir);
	execl(getenv("EVENTD") ? getenv("EVENTD") : "eventd", "eventd",
		"--config", conf, (char *)NULL);
	_exit(127);
}

static pid_t
serve(const char *design)
{
	bool blocks = strcmp(design, "block") == 0;
	struct model_init init = {.design = design,
		.n_listeners = n_listeners,
		.n_threads = blocks ? BLOCK_THREADS
			     : keep ? CONNS
				    : THREADS,
		.keep = keep,
		.frames = has_frames};
	pid_t pid;

	listen_all();
	pid = fork();
	check(pid >= 0, "fork");
	if (pid)
		return pid;
	memcpy(init.listeners, listeners, sizeof listeners);
	if (is_evd)
		exec_evd();
	model_run(&init);
	_exit(1);
}

/* ---- what clients say -------------------------------------------- */

/* A hello of version 1, by hand (Frame.hello.version), and a call. */
static void
learn(const char *alias, const char *event)
{
	static const uint8_t hello[] = {4, 5 << 3 | 2, 2, 1 << 3, 1};
	uint8_t payload[MODEL_REQUEST] = {0};
	struct envelope e = {.call = 1,
		.alias = alias,
		.alias_size = (uint8_t)strlen(alias),
		.event = event,
		.event_size = (uint8_t)strlen(event),
		.payload = payload,
		.payload_size = sizeof payload};

	if (!has_frames) {
		say.first_size = say.next_size = MODEL_REQUEST;
		return;
	}
	say.next_size = envelope_encode_frame(&e, say.next);
	memcpy(say.first, hello, sizeof hello);
	memcpy(say.first + sizeof hello, say.next, say.next_size);
	say.first_size = sizeof hello + say.next_size;
}

struct client {
	int fd;
	uint64_t from;
	uint8_t in[BYTES_MAX];
	size_t n;
	int frames; /* that have still to come */
};

static struct client clients[CONNS];
static unsigned n_opened;

static int
dial(unsigned i)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof a.sun_path, "%s",
		path_of("sock", (int)(i % (unsigned)n_listeners)));
	check(fd >= 0 && connect(fd, (void *)&a, sizeof a) == 0, "connect");
	return fd;
}

static void
fire(int poll_fd, struct client *c)
{
	bool first = c->fd < 0;
	size_t size = first ? say.first_size : say.next_size;
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

	c->from = now_ns();
	c->n = 0;
	c->frames = first && has_frames ? 2 : 1;
	if (first) {
		c->fd = dial(n_opened++);
		check(!epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &e), "epoll");
	}
	check(send(c->fd, first ? say.first : say.next, size, MSG_NOSIGNAL) ==
			(ssize_t)size,
		"send");
}

/* A frame that has come is taken off. */
static bool
take_frame(struct client *c)
{
	size_t head, body;

	if (!has_frames && c->n < MODEL_ANSWER)
		return false;
	if (has_frames && frame_take(c->in, c->n, BYTES_MAX, &head, &body))
		return false;
	body = has_frames ? head + body : MODEL_ANSWER;
	if (body > c->n)
		return false;
	memmove(c->in, c->in + body, c->n - body);
	c->n -= body;
	c->frames--;
	return true;
}

/* True: it has its answer. */
static bool
receive(struct client *c)
{
	ssize_t n = recv(c->fd, c->in + c->n, sizeof c->in - c->n, 0);

	check(n > 0, "the server closed");
	c->n += (size_t)n;
	while (c->frames && take_frame(c))
		;
	return !c->frames;
}

/* What is sent before it is up waits: one request, in blocking calls. */
static void
await_answer(void)
{
	struct client c = {.fd = dial(0), .frames = has_frames ? 2 : 1};

	check(send(c.fd, say.first, say.first_size, MSG_NOSIGNAL) ==
			(ssize_t)say.first_size,
		"send");
	while (!receive(&c))
		;
	close(c.fd);
}

/* ---- the run ----------------------------------------------------- */

struct usage {
	double busy, all; /* ticks of the machine */
};

static struct usage
machine(void)
{
	double v[8] = {0}, all = 0;
	FILE *f = fopen("/proc/stat", "r");

	if (!f || fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1],
			  &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
		memset(v, 0, sizeof v);
	if (f)
		fclose(f);
	for (int i = 0; i < 8; i++)
		all += v[i];
	return (struct usage){all - v[3] - v[4], all};
}

/* Less the reader itself. */
static double
runnable(void)
{
	int n = 1;
	FILE *f = fopen("/proc/loadavg", "r");

	if (!f || fscanf(f, "%*f %*f %*f %d/", &n) != 1)
		n = 1;
	if (f)
		fclose(f);
	return n - 1;
}

/* CPU time of all threads of @pid, in us. */
static double
cpu_us(pid_t pid)
{
	struct timespec t;
	clockid_t id;

	check(clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &t) == 0,
		"CPU time");
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Voluntary and other context switches of all threads of @pid. */
static double
switches(pid_t pid)
{
	char command[128];
	double n = 0;
	FILE *f;

	snprintf(command, sizeof command,
		"cat /proc/%d/task/*/status | awk '/ctxt/ {n += $2} "
		"END {print n}'",
		(int)pid);
	f = popen(command, "r");
	if (!f || fscanf(f, "%lf", &n) != 1)
		n = 0;
	if (f)
		pclose(f);
	return n;
}

static void
row(const char *name, double value, const char *unit)
{
	char metric[64];

	snprintf(metric, sizeof metric, "%s%s", keep ? "keep_" : "", name);
	bench_row(bench, metric, value, unit);
}

static void
drive(pid_t pid)
{
	int poll_fd = epoll_create1(EPOLL_CLOEXEC), load_n = 0;
	double load = 0, before = switches(pid), n = 0, wait = 0, t,
	       cpu = cpu_us(pid);
	struct usage u = machine(), v;
	uint64_t from = now_ns(), now = from, next = from;
	struct epoll_event events[CONNS];

	for (int i = 0; i < CONNS; i++) {
		clients[i].fd = -1;
		fire(poll_fd, &clients[i]);
	}
	for (; now - from < (uint64_t)MS * 1000000; now = now_ns()) {
		int k = epoll_wait(poll_fd, events, CONNS, 1000);

		check(k > 0, "nothing comes");
		for (int i = 0; i < k; i++) {
			struct client *c = events[i].data.ptr;

			if (!receive(c))
				continue;
			n++;
			wait += (double)(now_ns() - c->from);
			if (!keep) {
				close(c->fd);
				c->fd = -1;
			}
			fire(poll_fd, c);
		}
		if (now >= next) {
			load += runnable();
			load_n++;
			next = now + 100000000;
		}
	}
	t = (double)(now - from) / 1e9;
	cpu = cpu_us(pid) - cpu;
	v = machine();
	row("requests_per_s", n / t, "1/s");
	row("mean_ms", wait / n / 1e6, "ms");
	row("cpu_load", load / load_n, "runnable");
	row("cpu_util", 100 * (v.busy - u.busy) / (v.all - u.all), "%");
	row("ctxt_per_request", (switches(pid) - before) / n, "switches");
	row("server_cpu_us", cpu / n, "us/request");
	for (int i = 0; i < CONNS; i++)
		close(clients[i].fd);
	close(poll_fd);
}

static void
clean(void)
{
	char command[128];

	for (int i = 0; i < n_listeners; i++)
		close(listeners[i]);
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	check(system(command) == 0, "rm");
}

/* ---- sessions that block ----------------------------------------- */

enum { BLOCKERS = 1000, TIMED = 3000 };

static void
add_blockers(void)
{
	char name[64], text[1024];

	for (int i = 0; i < BLOCKERS; i++) {
		snprintf(name, sizeof name, "sessions.d/b%d.conf", i);
		snprintf(text, sizeof text,
			"[Session]\nAlias=b%d\nKind=native\nPlugin=%s\n"
			"Executor=block\n",
			i, plugin());
		put_file(name, text);
	}
}

static void
nap_next(int poll_fd, struct client *c, uint64_t *random)
{
	char alias[16];

	snprintf(
		alias, sizeof alias, "b%d", (int)(xorshift(random) % BLOCKERS));
	learn(alias, MODEL_NAP);
	fire(poll_fd, c);
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* 99 of 100 calls to the session on the loop take no longer, in us. Between
 * them what blocks goes on: how many of those were answered. */
static double
time_echo(int poll_fd, uint64_t *random, double *n_naps)
{
	static double us[TIMED];
	struct epoll_event events[CONNS];
	struct client echo = {.fd = -1};

	for (int i = 0, k; i < TIMED;) {
		if (echo.fd < 0 || !echo.frames) {
			learn(MODEL_ALIAS, "call");
			fire(poll_fd, &echo);
		}
		k = epoll_wait(poll_fd, events, CONNS, 5000);
		check(k > 0, "nothing comes");
		while (k-- > 0) {
			struct client *c = events[k].data.ptr;

			if (!receive(c))
				continue;
			if (c == &echo) {
				us[i++] = (double)(now_ns() - c->from) / 1000;
			} else {
				++*n_naps;
				nap_next(poll_fd, c, random);
			}
		}
	}
	close(echo.fd);
	qsort(us, TIMED, sizeof *us, by_size);
	return us[TIMED * 99 / 100];
}

static void
run_block(const struct bench_case *c)
{
	int poll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t random = 88172645463325252u, from;
	double n = 0;
	pid_t pid;

	bench = c;
	is_evd = strcmp(c->system, "evd") == 0;
	has_frames = keep = true;
	n_listeners = 1;
	check(mkdtemp(dir) != NULL, "mkdtemp");
	if (is_evd) {
		configure("loop");
		add_blockers();
	}
	pid = serve("block");
	time_echo(poll_fd, &random, &n); /* until it is up */
	bench_row(c, "quiet_p99", time_echo(poll_fd, &random, &n), "us");
	for (int i = 0; i < CONNS; i++) {
		clients[i].fd = -1;
		nap_next(poll_fd, &clients[i], &random);
	}
	n = 0;
	from = now_ns();
	bench_row(c, "p99", time_echo(poll_fd, &random, &n), "us");
	bench_row(
		c, "events_per_s", n * 1e9 / (double)(now_ns() - from), "1/s");
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	clean();
}

/* ---- looking before sleeping ------------------------------------- */

enum { CALLS = 4000, PACED = 800, PACE_NS = 1000000, IDLE_MS = 500 };

/* It blocks; in us. */
static double
call_once(struct client *c)
{
	bool first = c->fd < 0;
	size_t size = first ? say.first_size : say.next_size;

	c->frames = first ? 2 : 1;
	if (first)
		c->fd = dial(0);
	c->from = now_ns();
	check(send(c->fd, first ? say.first : say.next, size, MSG_NOSIGNAL) ==
			(ssize_t)size,
		"send");
	while (!receive(c))
		;
	return (double)(now_ns() - c->from) / 1000;
}

/* @n calls, each so long after the one before: the median, and what share of a
 * CPU the daemon took. */
static void
calls(struct client *c, pid_t pid, int n, long pace_ns, const char *what)
{
	static double us[CALLS];
	struct timespec pace = {.tv_nsec = pace_ns};
	double cpu = cpu_us(pid);
	uint64_t from = now_ns();
	char metric[64];

	for (int i = 0; i < n; i++) {
		if (pace_ns)
			nanosleep(&pace, NULL);
		us[i] = call_once(c);
	}
	cpu = 100000 * (cpu_us(pid) - cpu) / (double)(now_ns() - from);
	qsort(us, (size_t)n, sizeof *us, by_size);
	snprintf(metric, sizeof metric, "loops%u_%s_p50", n_loops, what);
	bench_row(bench, metric, us[n / 2], "us");
	snprintf(metric, sizeof metric, "loops%u_%s_cpu", n_loops, what);
	bench_row(bench, metric, cpu, "%");
}

static void
busy_with(unsigned loops)
{
	struct client c = {.fd = -1};
	char metric[64];
	double cpu;
	pid_t pid;

	n_loops = loops;
	strcpy(dir, "/tmp/bench-exec-XXXXXX");
	check(mkdtemp(dir) != NULL, "mkdtemp");
	configure("loop");
	pid = serve("loop");
	for (int i = 0; i < 500; i++)
		call_once(&c);
	calls(&c, pid, CALLS, 0, "calls");
	calls(&c, pid, PACED, PACE_NS, "paced");
	cpu = cpu_us(pid);
	usleep(IDLE_MS * 1000);
	snprintf(metric, sizeof metric, "loops%u_idle_cpu", loops);
	bench_row(bench, metric, (cpu_us(pid) - cpu) / IDLE_MS / 10, "%");
	close(c.fd);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	clean();
}

/* busy-MICROSECONDS: one client's calls one after the other, and one each
 * millisecond; on one loop, and on two with the session on the other one. */
static void
run_busy(const struct bench_case *c)
{
	bench = c;
	is_evd = has_frames = true;
	n_listeners = 1;
	busy_us = (unsigned)strtoul(c->scenario + strlen("busy-"), NULL, 10);
	learn(MODEL_ALIAS, "call");
	busy_with(1);
	busy_with(2);
}

/* ---- designs ----------------------------------------------------- */

/* exec-DESIGN-LISTENERS */
static void
one(const char *design, bool kept)
{
	pid_t pid;

	keep = kept;
	strcpy(dir, "/tmp/bench-exec-XXXXXX");
	check(mkdtemp(dir) != NULL, "mkdtemp");
	if (is_evd)
		configure(design);
	pid = serve(design);
	await_answer();
	drive(pid);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	clean();
}

static void
run_exec(const struct bench_case *c)
{
	char design[32];

	bench = c;
	is_evd = strcmp(c->system, "evd") == 0;
	has_frames = strcmp(c->system, "model") != 0;
	snprintf(design, sizeof design, "%s", c->scenario + strlen("exec-"));
	*strrchr(design, '-') = '\0';
	n_listeners = c->scenario[strlen(c->scenario) - 1] - '0';
	learn(MODEL_ALIAS, "call");
	one(design, false);
	one(design, true);
}

#define ONE(system, design)                              \
	{system, "exec-" design "-1", run_exec, 0},      \
	{                                                \
		system, "exec-" design "-2", run_exec, 0 \
	}
#define EXEC(design) \
	ONE("evd", design), ONE("model", design), ONE("model-frames", design)

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		EXEC("loop"),
		EXEC("worker"),
		EXEC("threadpool"),
		EXEC("leader"),
		{"evd", "exec-block", run_block, 0},
		{"model", "exec-block", run_block, 0},
		{"evd", "busy-0", run_busy, 0},
		{"evd", "busy-20", run_busy, 0},
		{"evd", "busy-50", run_busy, 0},
		{"evd", "busy-100", run_busy, 0},
		{NULL, NULL, NULL, 0},
	};

	signal(SIGPIPE, SIG_IGN);
	return bench_cases_main(argc, argv, cases);
}
