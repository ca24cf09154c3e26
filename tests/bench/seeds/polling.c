/* The experiment of the mails of 2006, epoll_bench -n 2000: a thread of low
 * priority writes one byte at a time to a random one of 2,000 streams, and
 * gives up the CPU after each 2,000; another learns which are ready and reads
 * up to 1,024 bytes of each. A successful read is an event.
 *
 *   evd       our loop (exec/loop.h) waits, and each read is posted to the
 *             stream's own session; an event is one that this has handled
 *   evd-busy  the same with BusyPoll=20: it looks a little, and gives up the
 *             CPU meanwhile, before it sleeps
 *   limit     no collecting at all (-f): both walk the streams in order
 *   epoll-et, epoll-lt  epoll, edge and level triggered, and no sessions
 *
 * Streams are socket pairs (no prefix), connections over AF_INET (inet_), and
 * pipes (pipe_). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "../bench.h"
#include "base/list.h"
#include "exec/loop.h"
#include "kernel/kernel.h"
#include "kernel/mailbox.h"
#include "kernel/sched.h"
#include "kernel/session.h"

enum {
	STREAMS = 2000,
	MS = 2000,
	BATCH = 1024,
	YIELD_BELOW = 1000,
	BUSY_NS = 20000
};

struct stream {
	struct io_watch watch; /* evd */
	struct session *session;
	int in, out;
};

static const struct bench_case *bench;
static struct stream streams[STREAMS];
static bool in_order;
static struct kernel kernel;
static struct loop loop;
static unsigned long n_events, n_calls, n_ready;

static void
check(bool ok, const char *what)
{
	if (!ok)
		bench_fail(bench, "%s: %s", what, strerror(errno));
}

static bool
is_evd(void)
{
	return strncmp(bench->system, "evd", 3) == 0;
}

/* ---- streams ----------------------------------------------------- */

static int
inet_listen(struct sockaddr_in *a)
{
	socklen_t size = sizeof *a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	check(fd >= 0 && !bind(fd, (void *)a, size) && !listen(fd, 1024) &&
			!getsockname(fd, (void *)a, &size),
		"listen");
	return fd;
}

static void
inet_pair(int listener, const struct sockaddr_in *a, int fds[2])
{
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	check(!connect(fds[0], (const void *)a, sizeof *a), "connect");
	fds[1] = accept(listener, NULL, NULL);
	check(fds[1] >= 0, "accept");
}

static void
open_streams(char kind)
{
	struct sockaddr_in a;
	int listener = kind == 'i' ? inet_listen(&a) : -1, fds[2];

	for (int i = 0; i < STREAMS; i++) {
		if (kind == 'i')
			inet_pair(listener, &a, fds);
		else if (kind == 'u')
			check(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds),
				"socketpair");
		else
			check(!pipe(fds), "pipe");
		streams[i] = (struct stream){.in = fds[0], .out = fds[1]};
		if (!in_order)
			fcntl(fds[0], F_SETFL, O_NONBLOCK);
		/* It must not hang in a full one when the end has come. */
		fcntl(fds[1], F_SETFL, O_NONBLOCK);
	}
	if (listener >= 0)
		close(listener);
}

static void
close_streams(void)
{
	for (int i = 0; i < STREAMS; i++) {
		close(streams[i].in);
		close(streams[i].out);
	}
}

static void *
writer_main(void *arg)
{
	uint64_t random = 88172645463325252u, until = *(const uint64_t *)arg;
	unsigned i = 0;

	setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
	while (now_ns() < until) {
		for (int left = STREAMS; left; left--) {
			i = in_order ? (i + 1) % STREAMS
				     : (unsigned)(xorshift(&random) % STREAMS);
			if (write(streams[i].out, "", 1) < 0 && errno != EAGAIN)
				return NULL;
		}
		sched_yield();
	}
	if (is_evd())
		loop_stop(&loop);
	/* Whoever waits in a read goes on. */
	for (i = 0; i < STREAMS; i++)
		if (write(streams[i].out, "", 1) < 0 && errno != EAGAIN)
			break;
	return NULL;
}

static bool
take(int fd)
{
	char data[1024];

	return read(fd, data, sizeof data) > 0;
}

/* ---- plain readers ----------------------------------------------- */

static void
read_in_order(uint64_t until)
{
	while (now_ns() < until)
		for (unsigned i = 0; i < STREAMS; i++)
			n_events += take(streams[i].in);
}

static void
read_by_epoll(uint64_t until, uint32_t flags)
{
	static struct epoll_event ready[BATCH];
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (int i = 0; i < STREAMS; i++) {
		struct epoll_event e = {EPOLLIN | flags, {.fd = streams[i].in}};

		check(!epoll_ctl(fd, EPOLL_CTL_ADD, streams[i].in, &e),
			"epoll_ctl");
	}
	while (now_ns() < until) {
		int n = epoll_wait(fd, ready, BATCH, -1);

		n_calls++;
		n_ready += (unsigned long)(n > 0 ? n : 0);
		for (int i = 0; i < n; i++)
			n_events += take(ready[i].data.fd);
		if (n < YIELD_BELOW)
			sched_yield();
	}
	close(fd);
}

/* ---- our loop ---------------------------------------------------- */

static enum session_result
on_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

static enum session_result
on_event(struct session *s, struct msg *m)
{
	(void)s, (void)m;
	n_events++;
	return SESSION_DONE;
}

static void
on_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed;
}

static const struct session_ops stream_ops = {
	.kind = "stream", .start = on_start, .run = on_event, .stop = on_stop};

static void
on_ready(struct io_watch *w, uint32_t events)
{
	struct stream *stream = container_of(w, struct stream, watch);
	struct sched *s = &loop.sched;
	char data[1024];
	ssize_t n = read(w->fd, data, sizeof data);
	struct msg *m;

	(void)events;
	n_ready++;
	if (n <= 0)
		return;
	m = msg_new(&s->pool, &(struct msg_init){.event = "data",
				      .event_size = 4,
				      .event_static = true,
				      .data = data,
				      .size = (uint32_t)n});
	check(m != NULL, "message");
	m->to = session_id(stream->session);
	check(sched_post(s, m) == 0, "post");
}

static void
on_bury(struct io_watch *w)
{
	(void)w;
}

static void
evd_open(void)
{
	check(!kernel_init(&kernel, &kernel_limits_default, &clock_system) &&
			!loop_init(&loop, &kernel, 0),
		"loop");
	loop.busy_ns = strcmp(bench->system, "evd-busy") ? 0 : BUSY_NS;
	for (int i = 0; i < STREAMS; i++) {
		struct stream *stream = &streams[i];

		stream->session =
			session_new(&loop.sched, &stream_ops, NULL, stream);
		check(stream->session != NULL, "session");
		stream->watch =
			(struct io_watch){.fd = stream->in, .run = on_ready};
		list_init(&stream->watch.link);
		check(!io_want(&loop.io, &stream->watch, EPOLLIN), "io");
	}
}

/* Until the writer ends it. */
static void
read_by_loop(void)
{
	uint64_t turns = atomic_load(&loop.turns);

	loop_run(&loop);
	n_calls = atomic_load(&loop.turns) - turns;
}

static void
evd_close(void)
{
	for (int i = 0; i < STREAMS; i++)
		io_end(&loop.io, &streams[i].watch, on_bury);
	check(!loop_deinit(&loop), "loop");
	kernel_deinit(&kernel);
}

/* ---- the run ----------------------------------------------------- */

static double
switches(void)
{
	static char text[1 << 16];
	FILE *f = fopen("/proc/stat", "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	const char *at;

	if (f)
		fclose(f);
	text[n] = '\0';
	at = strstr(text, "ctxt ");
	return at ? strtod(at + 5, NULL) : 0;
}

static void
row(const char *prefix, const char *metric, double value, const char *unit)
{
	char name[64];

	snprintf(name, sizeof name, "%s%s", prefix, metric);
	bench_row(bench, name, value, unit);
}

static void
read_all(uint64_t until)
{
	if (is_evd())
		read_by_loop();
	else if (in_order)
		read_in_order(until);
	else
		read_by_epoll(
			until, strcmp(bench->system, "epoll-et") ? 0 : EPOLLET);
}

static void
one(char kind, const char *prefix)
{
	pthread_t writer;
	uint64_t from, until;
	double n, s;

	n_events = n_calls = n_ready = 0;
	open_streams(kind);
	if (is_evd())
		evd_open();
	from = now_ns();
	until = from + MS * 1000000ull;
	n = switches();
	check(!pthread_create(&writer, NULL, writer_main, &until), "thread");
	read_all(until);
	n = switches() - n;
	s = (double)(now_ns() - from) / 1e9;
	pthread_join(writer, NULL);
	check(n_events > 0, "nothing came");
	row(prefix, "events_per_s", (double)n_events / s, "1/s");
	row(prefix, "ctxt_per_s", n / s, "1/s");
	if (n_calls)
		row(prefix, "samples_per_call",
			(double)n_ready / (double)n_calls, "events");
	if (is_evd())
		evd_close();
	close_streams();
}

static void
run(const struct bench_case *c)
{
	struct rlimit files = {2 * STREAMS + 100, 2 * STREAMS + 100};

	bench = c;
	in_order = strcmp(c->system, "limit") == 0;
	if (setrlimit(RLIMIT_NOFILE, &files))
		bench_fail(c, "%d descriptors are not allowed: see ulimit -n",
			(int)files.rlim_cur);
	one('u', "");
	one('i', "inet_");
	one('p', "pipe_");
}

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		{"evd", "poll-2000", run, 0},
		{"evd-busy", "poll-2000", run, 0},
		{"limit", "poll-2000", run, 0},
		{"epoll-et", "poll-2000", run, 0},
		{"epoll-lt", "poll-2000", run, 0},
		{NULL, NULL, NULL, 0},
	};

	return bench_cases_main(argc, argv, cases);
}
