/* Helpers for peers: clock, histogram, errors, starting a server, sockets.
 * Used by the harness's process and by every role's. */
#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

struct bench *the_bench;
pid_t main_pid;

/* ---- clock, histogram -------------------------------------------------- */

static uint64_t
clock_ns(clockid_t c)
{
	struct timespec t;
	if (clock_gettime(c, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t
now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t
proc_cpu_ns(pid_t pid)
{
	clockid_t c;
	return clock_getcpuclockid(pid, &c) == 0 ? clock_ns(c) : 0;
}

void
hist_add(struct hist *h, uint64_t v)
{
	unsigned i;
	if (v < 64) {
		i = (unsigned)v;
	} else {
		unsigned e = 63u - (unsigned)__builtin_clzll(v);
		i = (e - 5) * 64 + (unsigned)((v >> (e - 6)) & 63);
	}
	h->b[i]++;
	h->n++;
	if (v > h->max)
		h->max = v;
}

double
hist_us(const struct hist *h, double q)
{
	uint64_t need = (uint64_t)(q * (double)h->n), sum = 0;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		sum += h->b[i];
		if (sum > need || (sum == h->n && sum > 0)) {
			if (i < 64)
				return i / 1e3;
			unsigned e = i / 64 + 5;
			uint64_t step = 1ull << (e - 6);
			return (double)((1ull << e) + (i % 64) * step +
					step / 2) /
			       1e3;
		}
	}
	return 0;
}

/* ---- helpers for peers ------------------------------------------------- */

void
die(const char *fmt, ...)
{
	va_list ap;
	if (the_bench &&
		atomic_load(
			&the_bench->finish)) /* a responder, after the end */
		_exit(0);
	fprintf(stderr, "%s %s: ", the_bench ? the_bench->peer->name : "?",
		the_bench ? the_bench->scenario : "?");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	if (the_bench && getpid() != main_pid) {
		atomic_store(&the_bench->failed, 1);
		_exit(1);
	}
	exit(1);
}

const char *
path_in(struct bench *b, const char *name)
{
	static char buf[4][256];
	static int i;
	i = (i + 1) & 3;
	snprintf(buf[i], sizeof buf[i], "%s/%s", b->dir, name);
	return buf[i];
}

void
write_file(const char *path, const char *fmt, ...)
{
	FILE *f = fopen(path, "w");
	CHECK(f);
	va_list ap;
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	CHECK(fclose(f) == 0);
}

static pid_t
fork_server(struct bench *b)
{
	CHECK(b->nsrv < MAX_SRV);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = open(path_in(b, "server.log"),
			O_WRONLY | O_CREAT | O_APPEND, 0600);
		int in = open("/dev/null", O_RDONLY);
		dup2(in, 0);
		dup2(fd, 1);
		dup2(fd, 2);
		if (fd > 2)
			close(fd);
		if (in > 2)
			close(in);
		signal(SIGALRM, SIG_DFL);
		return 0;
	}
	b->srv[b->nsrv++] = pid;
	return pid;
}

pid_t
spawn(struct bench *b, const char *const argv[])
{
	pid_t pid = fork_server(b);
	if (pid == 0) {
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		fprintf(stderr, "exec %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	return pid;
}

pid_t
spawn_fn(struct bench *b, void (*fn)(struct bench *))
{
	pid_t pid = fork_server(b);
	if (pid == 0) {
		fn(b);
		_exit(0);
	}
	return pid;
}

static struct sockaddr_un
unix_addr(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	CHECK(strlen(path) < sizeof a.sun_path);
	strcpy(a.sun_path, path);
	return a;
}

int
unix_listen(const char *path)
{
	struct sockaddr_un a = unix_addr(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(listen(fd, 4096) == 0);
	return fd;
}

int
unix_connect(const char *path)
{
	struct sockaddr_un a = unix_addr(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int
unix_connect_wait(const char *path)
{
	for (int i = 0; i < 5000; i++) {
		int fd = unix_connect(path);
		if (fd >= 0)
			return fd;
		usleep(1000);
	}
	die("nobody listens on %s", path);
}

int
tcp_connect(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	CHECK(fd >= 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

int
free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	close(fd);
	return ntohs(a.sin_port);
}

void
write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;
	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("write");
		p += n;
		len -= (size_t)n;
	}
}

void
read_all(int fd, void *buf, size_t len)
{
	char *p = buf;
	while (len > 0) {
		ssize_t n = read(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("read: connection closed");
		p += n;
		len -= (size_t)n;
	}
}
