#include "daemon.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "census.h"
#include "coro/stacks.h"
#include "describe.h"
#include "durable.h"
#include "ending.h"
#include "eventd/version.h"
#include "kernel/kernel.h"
#include "kind/kind.h"
#include "memory_ask.h"
#include "net/conn.h"
#include "net/listener.h"
#include "net/standing.h"
#include "notify.h"
#include "pools.h"
#include "reload.h"
#include "sockets.h"
#include "stats/memory.h"
#include "stats/profile.h"
#include "watch.h"

enum {
	STATUS_MS = 5000,     /* between looks at the sessions' health */
	UNREAD_MS = 1,        /* between looks whether mailboxes are ready */
	DRAIN_MS = 10,        /* between looks at what is queued */
	CLOSE_MS = 2000,      /* for connections to close */
	HARD_STOP_MS = 10000, /* beyond StopTimeout=: then it gives up */
	HURRY_MS = 2000,      /* after a second signal */
	STATUS_TEXT_MAX = 128,
};

enum daemon_state {
	DAEMON_STARTING,
	DAEMON_RUNNING,
	DAEMON_DRAINING, /* queued events are still handled */
	DAEMON_STOPPING, /* sessions stop, connections close */
};

struct daemon {
	struct kernel kernel;
	struct loop *loops;
	struct net *nets;
	unsigned n_loops, n_made;
	struct pools pools;
	struct server server;
	struct sockets sockets;
	int memory_fd; /* of memory_open() */
	struct listener listeners[NOTIFY_SOCKETS_MAX];
	unsigned n_listeners;
	struct hosting hosting;
	struct reloader reloader;
	struct watch watch;
	struct ending ending;
	struct durable durable;
	struct census census;
	struct round round;
	uv_signal_t on_term, on_int, on_hup;
	uv_timer_t status_timer; /* running: health; later: the next look */
	uv_timer_t hard_timer;
	enum daemon_state state;
	bool counting; /* the census is under way */
	bool stop_wanted;
	bool hurry;        /* asked twice */
	uint64_t since_ms; /* of the state */
	uint64_t asked_ms; /* of the last signal to stop */
	struct tally last;
	char status[STATUS_TEXT_MAX];
	int exit;
};

static uint64_t
elapsed_ms(const struct daemon *d)
{
	return uv_now(&d->loops[0].uv) - d->since_ms;
}

/* ---- telling how things stand ------------------------------------------ */

/* True if it differs from what was told last. */
static bool
status_make(struct daemon *d, const struct tally *tally)
{
	char text[STATUS_TEXT_MAX];

	snprintf(text, sizeof(text),
		"%" PRIu32 " sessions, %" PRIu32 " failed%s", tally->sessions,
		tally->failed,
		durable_is_degraded(&d->durable) ? "; the store is degraded"
						 : "");
	if (strcmp(text, d->status) == 0)
		return false;
	strcpy(d->status, text);
	return true;
}

static void daemon_stop(struct daemon *d);

/* ---- running ----------------------------------------------------------- */

static void
daemon_on_counted(struct census *census, void *arg)
{
	struct daemon *d = arg;

	d->counting = false;
	if (d->state == DAEMON_RUNNING && status_make(d, &census->sum))
		notify_status(d->status);
	if (d->state == DAEMON_RUNNING && d->stop_wanted)
		daemon_stop(d);
}

static void
daemon_on_status_timer(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	if (d->counting || d->state != DAEMON_RUNNING)
		return;
	d->counting = true;
	census_take(&d->census, daemon_on_counted, d);
}

/* ---- reload ------------------------------------------------------------ */

/* A stuck loop cannot hold up the end for longer. */
static void
watch_limit(struct daemon *d)
{
	uint64_t ms = d->reloader.config->stop_timeout_ms;

	atomic_store(&d->watch.stop_ms, ms + HARD_STOP_MS);
}

static void
daemon_on_reloaded(void *arg, bool preview, int status)
{
	struct daemon *d = arg;

	watch_limit(d);
	for (unsigned i = 0; i < d->n_listeners && !preview; i++)
		listener_renew(&d->listeners[i],
			(mode_t)d->reloader.config->socket_mode);
	if (!preview)
		notify_ready(status ? "the new configuration is refused, the "
				      "old one stays"
				    : d->status);
	if (!status)
		d->status[0] = '\0'; /* tell the next census */
	if (d->stop_wanted)
		daemon_stop(d);
}

static void
daemon_reload(void *daemon, struct sched *sched, bool preview,
	reload_done_fn done, void *arg)
{
	struct daemon *d = daemon;

	reloader_ask(&d->reloader, sched, preview, done, arg);
}

static void
daemon_describe(void *daemon, struct sched *sched,
	const struct session_order *order,
	void (*done)(void *arg, int status, const char *text,
		struct session_spec *spec),
	void *arg)
{
	const struct daemon *d = daemon;

	describe_start(loop_of(sched), d->n_loops, order, done, arg);
}

static void
daemon_store(void *daemon, struct sched *sched, const struct store_ask *what,
	store_done_fn done, void *arg)
{
	struct daemon *d = daemon;

	durable_ask(&d->durable, sched, what, done, arg);
}

static void
daemon_memory(void *daemon, struct sched *sched, memory_done_fn done, void *arg)
{
	struct daemon *d = daemon;

	memory_ask(loop_of(sched), d->memory_fd, done, arg);
}

static const struct daemon_ops daemon_ops = {
	.memory = daemon_memory,
	.store = daemon_store,
	.describe = daemon_describe,
	.reload = daemon_reload,
};

static void
hangup_done(
	void *arg, int status, const char *text, const struct reload_diff *diff)
{
	(void)arg, (void)status, (void)text, (void)diff; /* it is in the log */
}

static void
daemon_on_hangup(uv_signal_t *signal, int number)
{
	struct daemon *d = signal->data;

	(void)number;
	reloader_ask(
		&d->reloader, &d->loops[0].sched, false, hangup_done, NULL);
}

/* ---- the end, last step first ------------------------------------------ */

static void
loop_leave(struct round *round, struct loop *l)
{
	(void)round;
	net_deinit(l->net);
	if (l->sched.index == 0)
		return;
	kind_thread_deinit();
	loop_stop(l);
}

static void
daemon_on_left(struct round *round)
{
	struct daemon *d = container_of(round, struct daemon, round);

	uv_close((uv_handle_t *)&d->on_term, NULL);
	uv_close((uv_handle_t *)&d->on_int, NULL);
	uv_close((uv_handle_t *)&d->on_hup, NULL);
	uv_close((uv_handle_t *)&d->status_timer, NULL);
	uv_close((uv_handle_t *)&d->hard_timer, NULL);
	loop_stop(&d->loops[0]);
}

static void
close_connections(struct round *round, struct loop *l)
{
	(void)round;
	conn_close_all(l);
}

static void daemon_on_closed(struct round *round);

static void
daemon_on_close_timer(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	round_start(&d->round, close_connections, daemon_on_closed);
}

static void
daemon_on_closed(struct round *round)
{
	struct daemon *d = container_of(round, struct daemon, round);
	uint32_t n = atomic_load(&d->server.shared.n_connections);

	if (n > 0 && elapsed_ms(d) < CLOSE_MS) {
		uv_timer_start(
			&d->status_timer, daemon_on_close_timer, DRAIN_MS, 0);
		return;
	}
	if (n > 0)
		log_warn("daemon.connections-left", "connections=%" PRIu32, n);
	watch_stop(&d->watch);
	d->ending = (struct ending){.loops = d->loops,
		.n_loops = d->n_loops,
		.pools = &d->pools,
		.sockets = &d->sockets,
		.status = &d->exit};
	ending_begin(&d->ending);
	round_start(&d->round, loop_leave, daemon_on_left);
}

/* Replies that the stopping sessions caused have been written by now. */
static void
daemon_on_answers_out(struct round *round)
{
	round_start(round, close_connections, daemon_on_closed);
}

static void
daemon_on_stored(void *arg)
{
	struct daemon *d = arg;

	round_start(&d->round, NULL, daemon_on_answers_out);
}

/* What the sessions left is written, and posters are told. */
static void
daemon_on_stopped(struct round *round)
{
	struct daemon *d = container_of(round, struct daemon, round);

	durable_finish(&d->durable, daemon_on_stored, d);
}

static void
daemon_stop_sessions(struct daemon *d, const struct tally *tally)
{
	d->state = DAEMON_STOPPING;
	if (tally->waiting > 0)
		log_warn("daemon.undelivered",
			"events=%" PRIu64 " hint=\"StopTimeout= is %" PRIu32
			" ms\"",
			tally->waiting, d->reloader.config->stop_timeout_ms);
	d->since_ms = uv_now(&d->loops[0].uv);
	round_start(&d->round, sessions_stop, daemon_on_stopped);
}

/* ---- draining ---------------------------------------------------------- */

static void daemon_on_drain_timer(uv_timer_t *timer);

/* Two equal looks in a row with nothing waiting: what one session posted to
 * another between the looks of two loops would show in the second. */
static void
daemon_on_drained(struct census *census, void *arg)
{
	struct daemon *d = arg;
	const struct tally *sum = &census->sum;
	bool idle = sum->waiting == 0 && sum->transit_in == sum->transit_out &&
		    memcmp(sum, &d->last, sizeof(*sum)) == 0;

	d->counting = false;
	d->last = *sum;
	if (idle || d->hurry ||
		elapsed_ms(d) >= d->reloader.config->stop_timeout_ms)
		daemon_stop_sessions(d, sum);
	else
		uv_timer_start(&d->status_timer, daemon_on_drain_timer,
			sum->waiting ? DRAIN_MS : 0, 0);
}

static void
daemon_on_drain_timer(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	census_take(&d->census, daemon_on_drained, d);
}

static void
announce(struct round *round, struct loop *l)
{
	(void)round;
	conn_announce_closing(l);
}

static void
daemon_on_announced(struct round *round)
{
	struct daemon *d = container_of(round, struct daemon, round);

	memset(&d->last, 0xff, sizeof(d->last));
	census_take(&d->census, daemon_on_drained, d);
}

static void
daemon_on_hard_timer(uv_timer_t *timer)
{
	const struct daemon *d = timer->data;

	log_err("daemon.stuck",
		"ms=%" PRIu64
		" reason=\"a handler does not return; giving up\"",
		uv_now(timer->loop) - d->asked_ms);
	_exit(DAEMON_EXIT_INTERNAL);
}

/* Once, when nothing else of ours is under way. */
static void
daemon_stop(struct daemon *d)
{
	d->stop_wanted = true;
	if (d->state != DAEMON_RUNNING || d->counting || d->reloader.running)
		return;
	d->state = DAEMON_DRAINING;
	d->since_ms = uv_now(&d->loops[0].uv);
	uv_timer_stop(&d->status_timer);
	log_info("daemon.stopping", "connections=%" PRIu32,
		atomic_load(&d->server.shared.n_connections));
	notify_stopping();
	atomic_store(&d->kernel.stopping, true);
	for (unsigned i = 0; i < d->n_listeners; i++)
		listener_close(&d->listeners[i]);
	round_start(&d->round, announce, daemon_on_announced);
}

/* From now on it ends, even if a loop is stuck and no step comes to its end. */
static void
daemon_limit(struct daemon *d)
{
	uint64_t ms = d->reloader.config->stop_timeout_ms;

	uv_update_time(&d->loops[0].uv);
	d->asked_ms = uv_now(&d->loops[0].uv);
	uv_timer_start(&d->hard_timer, daemon_on_hard_timer,
		d->hurry ? HURRY_MS : ms + HARD_STOP_MS, 0);
}

static void
daemon_on_signal(uv_signal_t *signal, int number)
{
	struct daemon *d = signal->data;

	(void)number;
	d->hurry = d->stop_wanted;
	daemon_limit(d);
	reloader_close(&d->reloader);
	daemon_stop(d);
}

/* ---- the start --------------------------------------------------------- */

static int
listen_all(struct daemon *d)
{
	struct sockets *s = &d->sockets;
	int r = 0;

	while (s->n > 0 && !r) {
		struct listener *l = &d->listeners[d->n_listeners++];

		r = listener_start(l, d->loops, d->n_loops, &d->server,
			s->fds[--s->n], s->path);
	}
	return r;
}

static void
daemon_ready(struct daemon *d)
{
	const struct config *c = d->reloader.config;

	d->state = DAEMON_RUNNING;
	log_info("daemon.ready",
		"version=%s socket=%s loops=%u sessions=%" PRIu32
		" failed=%" PRIu32,
		EVD_VERSION, d->sockets.path ? c->socket : "passed", d->n_loops,
		d->census.sum.sessions, d->census.sum.failed);
	status_make(d, &d->census.sum);
	notify_ready(d->status);
	uv_timer_start(
		&d->status_timer, daemon_on_status_timer, STATUS_MS, STATUS_MS);
	reloader_open(&d->reloader);
}

static void
daemon_on_first_count(struct census *census, void *arg)
{
	struct daemon *d = arg;
	int r = listen_all(d);

	(void)census;
	if (r) {
		log_err("daemon.failed", "errno=%d reason=\"%s\"", -r,
			strerror(-r));
		notify_failed(-r, "it cannot listen");
		d->exit = DAEMON_EXIT_OS;
		d->stop_wanted = true;
		d->state = DAEMON_RUNNING;
	} else {
		daemon_ready(d);
	}
	if (d->stop_wanted)
		daemon_stop(d);
}

static void daemon_on_unread_timer(uv_timer_t *timer);

/* Nobody is to ask before what the store has is known. */
static void
daemon_wait_read(struct daemon *d)
{
	if (atomic_load(&d->kernel.n_unready) && !d->stop_wanted)
		uv_timer_start(
			&d->status_timer, daemon_on_unread_timer, UNREAD_MS, 0);
	else
		census_take(&d->census, daemon_on_first_count, d);
}

static void
daemon_on_unread_timer(uv_timer_t *timer)
{
	daemon_wait_read(timer->data);
}

static void
daemon_on_hosted(struct transition *t, void *arg)
{
	struct daemon *d = arg;

	transition_free(t);
	if (d->durable.lmdb)
		standing_begin(&d->loops[0].sched, lmdb_boxes(d->durable.lmdb));
	daemon_wait_read(d);
}

/* Every loop runs: make the sessions. */
static void
daemon_on_loops_up(struct round *round)
{
	struct daemon *d = container_of(round, struct daemon, round);
	struct transition *t;

	if (transition_make(&t, &d->hosting, d->reloader.config)) {
		log_err("daemon.failed", "reason=\"out of memory\"");
		_exit(DAEMON_EXIT_OS);
	}
	transition_run(t, daemon_on_hosted, d);
}

static void
loop_arrive(struct round *round, struct loop *l)
{
	int r = kind_thread_init();

	(void)round;
	if (r)
		log_warn("loop.no-watch", "loop=%u errno=%d", l->sched.index,
			-r);
}

static void
mask_hangups(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(how, &set, NULL);
}

void
daemon_hold_hangups(void)
{
	mask_hangups(SIG_BLOCK);
}

static int
handles_init(struct daemon *d)
{
	uv_loop_t *uv = &d->loops[0].uv;

	uv_signal_init(uv, &d->on_term);
	uv_signal_init(uv, &d->on_int);
	uv_signal_init(uv, &d->on_hup);
	uv_timer_init(uv, &d->status_timer);
	uv_timer_init(uv, &d->hard_timer);
	d->on_term.data = d->on_int.data = d->on_hup.data = d;
	d->status_timer.data = d->hard_timer.data = d;
	if (uv_signal_start(&d->on_term, daemon_on_signal, SIGTERM) ||
		uv_signal_start(&d->on_int, daemon_on_signal, SIGINT) ||
		uv_signal_start(&d->on_hup, daemon_on_hangup, SIGHUP))
		return err_raise(-ENOMEM);
	mask_hangups(SIG_UNBLOCK);
	return 0;
}

static void
server_set_up(struct daemon *d, const struct config *c)
{
	server_init(&d->server);
	d->server.shared.version = "eventd " EVD_VERSION;
	d->server.shared.daemon = &daemon_ops;
	d->server.shared.daemon_data = d;
	d->memory_fd = memory_open(0);
	d->server.shared.owner = geteuid();
	d->server.shared.started_wall_ns = clock_wall(&clock_system);
	d->server.window_posts = c->window_posts;
	d->server.window_bytes = c->window_bytes;
	d->server.max_connections = c->max_connections;
	d->server.max_calls = c->limits.max_calls;
	d->server.policy = c->policy;
	d->server.max_memfd = c->max_memfd;
}

static int
loops_init(struct daemon *d, uint64_t busy_ns)
{
	int r = 0;

	/* A scheduler's inbox asks for a cache line of its own. */
	d->loops = aligned_alloc(
		_Alignof(struct loop), d->n_loops * sizeof(*d->loops));
	if (d->loops)
		memset(d->loops, 0, d->n_loops * sizeof(*d->loops));
	d->nets = calloc(d->n_loops, sizeof(*d->nets));
	if (!d->loops || !d->nets)
		return err_raise(-ENOMEM);
	for (; d->n_made < d->n_loops && !r; d->n_made++) {
		struct loop *l = &d->loops[d->n_made];

		r = loop_init(l, &d->kernel, d->n_made);
		l->busy_ns = busy_ns;
		if (!r)
			r = net_init(&d->nets[d->n_made], l, &d->server);
	}
	return r;
}

/* More descriptors than select() can take, which nothing here uses. */
static void
raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int
threads_start(struct daemon *d)
{
	for (unsigned i = 1; i < d->n_loops; i++) {
		int r = loop_start(&d->loops[i]);

		if (r)
			return err_pass(r);
	}
	return 0;
}

static void
watch_set_up(struct daemon *d)
{
	d->watch.stuck_exit = DAEMON_EXIT_INTERNAL;
	d->watch.hurry_ms = HURRY_MS;
	watch_limit(d);
	if (watch_start(&d->watch, d->loops, d->n_loops, notify_watchdog_us(),
		    notify_watchdog))
		log_warn("watchdog.off", "reason=\"no thread for it\"");
}

static int
daemon_deinit(struct daemon *d)
{
	int r = 0;

	for (unsigned i = 1; i < d->n_loops; i++)
		loop_join(&d->loops[i]);
	ending_finish(&d->ending);
	for (unsigned i = 0; i < d->n_loops; i++)
		if (loop_deinit(&d->loops[i]))
			r = err_raise(-EBUSY);
	durable_close(&d->durable);
	kind_thread_deinit();
	hosting_deinit(&d->hosting);
	reloader_deinit(&d->reloader);
	sockets_close(&d->sockets);
	pools_deinit(&d->pools);
	if (d->memory_fd >= 0)
		close(d->memory_fd);
	kernel_deinit(&d->kernel);
	free(d->nets);
	free(d->loops);
	return r;
}

static int
failed(int status, int error, const char *reason)
{
	log_err("daemon.failed", "errno=%d reason=\"%s\"", error, reason);
	notify_failed(error, reason);
	return status;
}

static void
coroutines_init(const struct config *config)
{
	int r = coro_setup(&(struct coro_settings){
		.stack_size = config->coroutine_stack,
		.keep = config->coroutine_stacks,
	});

	if (r) /* a daemon before in the same process: its stacks are there */
		log_debug("daemon.coroutines", "errno=%d", -r);
}

/* What is made before threads run and is not undone: the process ends. */
static int
daemon_init(struct daemon *d, const struct config_source *source,
	struct config *config)
{
	char why[512];
	int r = sockets_open(&d->sockets, config, why, sizeof(why));

	d->memory_fd = -1;
	if (r)
		return failed(DAEMON_EXIT_SOCKET, -r, why);
	d->n_loops = config->loops;
	coroutines_init(config);
	r = kernel_init(&d->kernel, &config->limits, &clock_system);
	if (!r) {
		server_set_up(d, config);
		if (durable_open(&d->durable, &d->kernel, config,
			    source->no_store, why, sizeof(why)))
			return failed(DAEMON_EXIT_OS, EIO, why);
		r = pools_init(&d->pools, &d->kernel, config);
	}
	if (!r) {
		r = loops_init(d, config->busy_us * NS_PER_US);
	}
	if (!r) {
		durable_begin(&d->durable, d->loops, d->n_loops);
		profile_init(&d->kernel);
		hosting_init(&d->hosting, d->loops, d->n_loops, &d->pools);
		reloader_init(
			&d->reloader, d->loops, &d->hosting, source, config);
		d->reloader.ended = daemon_on_reloaded;
		d->reloader.arg = d;
		round_init(&d->round, d->loops, d->n_loops);
		census_init(&d->census, d->loops, d->n_loops);
		r = handles_init(d);
	}
	return r ? failed(DAEMON_EXIT_OS, -r, strerror(-r)) : 0;
}

int
daemon_run(const struct config_source *source, struct config *config)
{
	static struct daemon daemon; /* in case of _exit() no leak is told */
	struct daemon *d = &daemon;
	int status;

	log_init(config_log_level(config));
	config_warn(config);
	signal(SIGPIPE, SIG_IGN);
	raise_limits();
	status = daemon_init(d, source, config);
	if (!status && threads_start(d))
		status = failed(DAEMON_EXIT_OS, EAGAIN, "no more threads");
	if (status) {
		sockets_close(&d->sockets);
		fflush(NULL);
		_exit(status);
	}
	watch_set_up(d);
	round_start(&d->round, loop_arrive, daemon_on_loops_up);
	loop_run(&d->loops[0]);
	if (daemon_deinit(d) && !d->exit)
		d->exit = DAEMON_EXIT_INTERNAL;
	log_info("daemon.stopped", "status=%d", d->exit);
	return d->exit;
}
