#pragma once
/*
 * Common harness of the peer benchmarks.
 *
 * One program per client library.  A program holds a table of "peers" (a
 * server or transport, and one way of using it) and calls bench_main().  The
 * harness starts the server, forks the roles of the scenario, lines them up
 * at a barrier, measures, prints one TSV line per metric, and stops what it
 * started by PID.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum {
	MAX_PROD = 8,
	MAX_CONS = 10,
	MAX_ROLE = 20,
	MAX_SRV = 4,
	HIST_BUCKETS = 64 * 59,
};

/* ---- clock, histogram -------------------------------------------------- */

uint64_t now_ns(void);           /* CLOCK_MONOTONIC */
uint64_t proc_cpu_ns(pid_t pid); /* user+sys of all threads of pid */

/* Log-linear: 64 buckets per power of two, error below 0.8 %. */
struct hist {
	uint64_t n, max;
	uint32_t b[HIST_BUCKETS];
};
void hist_add(struct hist *h, uint64_t ns);
double hist_us(const struct hist *h, double q); /* quantile, in us */

/* ---- the run, in memory shared by all roles ---------------------------- */

enum role_kind {
	PRODUCER,
	CONSUMER,
	CALLER,
	RESPONDER,
	ECHO,
	ECHO_PIPE,
	DURABLE
};

struct role {
	_Alignas(64) enum role_kind kind;
	int idx; /* index among the roles of its kind */
	pid_t pid;
	struct bench *b;
	uint64_t sent, got;        /* messages sent / received (or acked) */
	uint64_t t_first, t_last;  /* first send, last receive (or ack) */
	uint64_t spent_ns;         /* dur-drain: taking them out, */
	uint64_t client_ns;        /* CPU time for that, this process's */
	uint64_t server_ns;        /* and the server's */
	uint64_t before_ns;        /* and storing them */
	uint64_t seen;             /* producer: cached progress of consumers */
	int ends;                  /* consumer: end marks seen */
	uint64_t expect[MAX_PROD]; /* consumer: next sequence per producer */
	uint64_t cpu;
	uint64_t stamp[4096]; /* send times of messages in flight */
	struct hist h;
	_Atomic int done;
};

struct bench {
	const struct peer *peer;
	const char *scenario;
	size_t size; /* payload bytes */
	int nprod, ncons;
	bool relaxed;    /* in dur-256-e */
	unsigned n;      /* in dur-drain: events that are stored */
	bool only_store; /* in dur-start: the server starts with them */
	bool settled;    /* in dur-ack: posts count when they are settled */
	bool sync;       /* in sync-8: wait for the ack of each post */
	uint64_t window; /* messages in flight per producer, 0: off */
	uint64_t run_ns; /* how long producers keep sending */
	int calls;       /* for rtt/echo: at most this many */
	char dir[200];   /* private temporary directory */
	int port;        /* a free loopback TCP port */
	pid_t srv[MAX_SRV];
	int nsrv;
	uint64_t srv_cpu;

	_Atomic int ready, go, finish, ndone, failed;
	_Atomic uint64_t t_end;
	struct {
		_Alignas(64) _Atomic uint64_t n;
	} rx[MAX_CONS]
	    [MAX_PROD]; /* messages of producer p seen by consumer c */
	struct {
		_Alignas(64) _Atomic uint64_t want;
		_Atomic uint32_t seq;
	} wake[MAX_PROD];
	struct role role[MAX_ROLE];
	int nrole;
};

/*
 * A peer.  Every hook may be NULL: the scenarios which need it are then not
 * offered.  Role hooks run in their own process; they set up their
 * connection, call role_ready(), and do the work.
 */
struct peer {
	const char *name;
	void (*server)(struct bench *); /* spawn() what is needed */
	int (*answers)(struct bench *); /* 1 once the server serves */
	void (*producer)(struct bench *, struct role *);
	void (*consumer)(struct bench *, struct role *);
	void (*caller)(struct bench *, struct role *);
	void (*responder)(struct bench *, struct role *);
	void (*echo)(struct bench *, struct role *);
	void (*echo_pipe)(struct bench *, struct role *);
	void (*durable)(struct bench *, struct role *);
	/* dur-ack: the poster, a DURABLE, or who takes and settles what it
	 * posts, a CONSUMER */
	void (*settled)(struct bench *, struct role *);
	void (*drain)(struct bench *, struct role *);
	int (*open_conn)(struct bench *, int i); /* open idle connection i */
	int (*open_sub)(struct bench *, int i);  /* make it a receiver too */
	uint64_t window;  /* 0: the transport itself pushes back */
	const char *skip; /* scenarios not to offer, space separated */
	bool acks;        /* producer() heeds b->sync: offers sync-8 */
};

/* ---- for peers --------------------------------------------------------- */

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define CHECK(x)                                                      \
	do {                                                          \
		if (!(x))                                             \
			die("%s:%d: %s (%s)", __FILE__, __LINE__, #x, \
				strerror(errno));                     \
	} while (0)

pid_t spawn(struct bench *b, const char *const argv[]);      /* exec a server */
pid_t spawn_fn(struct bench *b, void (*fn)(struct bench *)); /* own server */
const char *path_in(struct bench *b, const char *name); /* dir/name, static */
void write_file(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

int unix_listen(const char *path);
int unix_connect(const char *path);      /* -1 if nobody listens */
int unix_connect_wait(const char *path); /* retries for 5 s */
int free_port(void);
int tcp_connect(int port); /* loopback */
void write_all(int fd, const void *buf, size_t len);
void read_all(int fd, void *buf, size_t len);

void role_ready(struct role *r); /* barrier: all roles are set up */

/*
 * Producers.  msg_next() fills in the next message; it returns 0 when the
 * last one was already handed out.  Before msg_wait() the producer must flush
 * whatever it holds back; msg_wait() blocks while the window is full.
 */
int msg_next(struct role *r, void *buf);
static inline bool
msg_full(const struct role *r)
{
	return r->b->window && r->sent - r->seen >= r->b->window;
}
void msg_wait(struct role *r);

/* Consumers: returns 1 when the last message of every producer has come. */
int msg_got(struct role *r, const void *buf, size_t len);
/* The same for a fixed-length batch is a loop over msg_got(). */

/* Callers: while (call_next(r, buf)) { send; receive; call_done(r); } */
int call_next(struct role *r, void *buf);
void call_done(struct role *r);

/* Pipelined echo and durable posts: up to a fixed number outstanding. */
int post_next(struct role *r, void *buf); /* 0 when the time is over */
void post_acked(struct role *r, unsigned n);
/* In dur-ack, if the server does not tell the poster: the consumer says that it
 * has settled so many more; the poster looks, and waits if there are none. */
void settled_more(struct role *r, unsigned n);
unsigned settled_wait(struct role *r);
static inline unsigned
post_open(const struct role *r)
{
	return (unsigned)(r->sent - r->got);
}

int bench_main(int argc, char **argv, const struct peer *peers);
