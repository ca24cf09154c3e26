#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "coro/fault.h"
#include "kernel/away.h"
#include "where.h"

enum {
	ASKS = 4,        /* for a handler that runs, while a loop is stuck */
	QUESTIONS = 4,   /* within the limit */
	NAMED_MS = 1000, /* time for a stuck thread to say what it runs */
};

/* ---- signals ----------------------------------------------------------- */

/* What a signal handler must reach: when we were last asked to stop, how
 * often, and the handler (the loop's, the same for both signals) to go on
 * with. */
static _Atomic uint64_t stop_asked_ns;
static _Atomic unsigned n_stops;
static struct sigaction stop_then;

static void
on_stop_signal(int number)
{
	int saved_errno = errno;

	atomic_store(&stop_asked_ns, clock_now(&clock_system));
	atomic_fetch_add(&n_stops, 1);
	stop_then.sa_handler(number);
	errno = saved_errno;
}

static int
name_signal(void)
{
	return SIGRTMIN + 7;
}

static void
describe(struct watch_probe *probe, const struct session *s)
{
	const struct msg *m = s->ops->handles ? s->ops->handles(s) : NULL;

	if (s->spec->name)
		strncpy(probe->name, s->spec->name, WATCH_NAME_SIZE - 1);
	if (s->spec->path)
		strncpy(probe->program, where_base(s->spec->path),
			WATCH_NAME_SIZE - 1);
	probe->session = s->id;
	probe->on_stall = s->spec->on_stall;
	if (!m)
		return;
	strncpy(probe->event, m->event, WATCH_EVENT_SIZE - 1);
	probe->event_id = m->id;
}

static const struct loop *
loop_of_probe(const struct watch_probe *probe)
{
	const struct watch *w = probe->watch;

	return &w->loops[probe - w->probes];
}

/* On the stuck thread, at any instruction of its handler: nobody else touches
 * what it runs. */
static void
on_name_signal(int number, siginfo_t *info, void *context)
{
	int saved_errno = errno;
	struct watch_probe *probe = info->si_value.sival_ptr;
	const struct session *s;
	const struct loop *l;

	(void)number;
	if (info->si_code != SI_QUEUE || info->si_pid != getpid() ||
		!stall_begin(&probe->named))
		return;
	l = loop_of_probe(probe);
	s = loop_here == l ? l->sched.running : NULL; /* it leads no more */
	if (s && s->spec) {
		describe(probe, s);
		where_answer(s, &probe->stall, coro_fault_pc(context));
	}
	stall_end(&probe->named);
	errno = saved_errno;
}

static void
signals_set_up(void)
{
	struct sigaction a = {.sa_sigaction = on_name_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	where_init();
	sigfillset(&a.sa_mask);
	sigaction(name_signal(), &a, NULL);
	atomic_store(&stop_asked_ns, 0);
	if (sigaction(SIGTERM, NULL, &stop_then) ||
		stop_then.sa_flags & SA_SIGINFO ||
		stop_then.sa_handler == SIG_DFL ||
		stop_then.sa_handler == SIG_IGN)
		return;
	a = stop_then;
	a.sa_handler = on_stop_signal;
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
}

/* ---- questions --------------------------------------------------------- */

/* It turns again: who held it up may be told of there. */
static void
tell_returned(struct sched *s, const struct watch_held *held)
{
	struct session *t =
		held->session ? session_find(s->kernel, held->session) : NULL;

	if (t && atomic_load(&t->home) == s)
		stuck_returned(s, t,
			&(struct stuck_report){
				.event = held->event,
				.event_id = held->event_id,
				.executor = "loop",
				.ns = held->ns,
			});
}

static void
watch_on_answer(struct sched *s, struct sched_task *task)
{
	struct watch_probe *probe =
		container_of(task, struct watch_probe, task);

	tell_returned(s, &probe->held);
	watch_pools_look(s, &probe->found);
	atomic_store(&probe->out, false);
}

static void
probe_send(struct watch *w, unsigned i)
{
	struct watch_probe *probe = &w->probes[i];
	uint64_t now = clock_now(&clock_system);

	probe->held.session = probe->told ? probe->session : 0;
	if (probe->held.session) {
		probe->held.event_id = probe->event_id;
		probe->held.ns = now - probe->asked_ns;
		memcpy(probe->held.event, probe->event, WATCH_EVENT_SIZE);
	}
	memset(&probe->task, 0, sizeof(probe->task));
	probe->task.run = watch_on_answer;
	probe->asked_ns = now;
	probe->told = false;
	probe->n_asked = 0;
	atomic_store(&probe->out, true);
	loop_inject(&w->loops[i], &probe->task);
}

/* The session that runs on a stuck loop; "" if that cannot be had. */
static const char *
name_of(struct watch_probe *probe)
{
	const struct loop *l = loop_of_probe(probe);
	union sigval value = {.sival_ptr = probe};

	probe->name[0] = probe->event[0] = probe->program[0] = '\0';
	probe->session = probe->event_id = 0;
	probe->on_stall = STALL_LOG;
	stall_ask(&probe->stall);
	stall_ask(&probe->named);
	if (!atomic_load(&l->is_led) ||
		pthread_sigqueue(atomic_load(&l->leader), name_signal(), value))
		return "";
	return stall_wait(&probe->named, NAMED_MS) ? probe->name : "";
}

/* Its next events are run by a pool: OnStall=move. */
static void
watch_on_move(struct sched *s, struct sched_task *task)
{
	struct watch_probe *probe =
		container_of(task, struct watch_probe, move);
	struct session *t = session_find(s->kernel, probe->session);
	struct executor *x = kernel_executor(s->kernel, "worker");

	if (t && atomic_load(&t->home) == s && x && !session_executor(t) &&
		!session_set_executor(t, x))
		log_warn("session.moved",
			"session=\"%s\" executor=\"worker\" "
			"reason=\"it held up its loop (OnStall=move)\"",
			session_name(t));
	atomic_store(&probe->moving, false);
}

static void
tell_stuck(struct watch_probe *probe, unsigned loop)
{
	uint64_t ns = clock_now(&clock_system) - probe->asked_ns;
	char where[STALL_TEXT];
	const char *name;

	if (probe->told || atomic_load(&probe->moving))
		return;
	name = name_of(probe);
	where_text(&probe->stall, probe->program, probe->session ? NAMED_MS : 0,
		where);
	/* It was not yet, or no more, in a handler; or it gets no CPU, which is
	 * told once, and hides no handler that it is in afterwards. */
	if (!probe->session && probe->n_asked++ != ASKS)
		return;
	probe->told = probe->session != 0;
	log_err("loop.stuck",
		"loop=%u session=\"%s\" event=\"%s\" event_id=%" PRIu64
		" ms=%" PRIu64 " traceback=\"%s\" "
		"reason=\"a handler on it does not return%s\"",
		loop, name, probe->event, probe->event_id, ns / NS_PER_MS,
		where,
		probe->on_stall == STALL_STOP ? "; it is stopped (OnStall=)"
					      : "");
	if (!*name || probe->on_stall != STALL_MOVE)
		return;
	atomic_store(&probe->moving, true);
	memset(&probe->move, 0, sizeof(probe->move));
	probe->move.run = watch_on_move;
	loop_inject(&probe->watch->loops[loop], &probe->move);
}

/* The first loop, which would see to it, is stuck. */
static void
stop_if_asked(const struct watch *w)
{
	uint64_t asked = atomic_load(&stop_asked_ns);
	uint64_t now = clock_now(&clock_system);
	uint64_t ms = atomic_load(&n_stops) > 1 ? w->hurry_ms
						: atomic_load(&w->stop_ms);

	if (!asked || !atomic_load(&w->probes[0].out) ||
		now - asked < ms * NS_PER_MS)
		return;
	log_err("daemon.stuck",
		"ms=%" PRIu64
		" reason=\"a handler does not return; giving up\"",
		(now - asked) / NS_PER_MS);
	_exit(w->stuck_exit);
}

static void
watch_round(struct watch *w)
{
	bool all = true;

	for (unsigned i = 0; i < w->n_loops; i++) {
		if (atomic_load(&w->probes[i].out)) {
			all = false;
			tell_stuck(&w->probes[i], i);
		}
	}
	stop_if_asked(w);
	for (unsigned i = 0; i < w->n_loops; i++)
		if (!atomic_load(&w->probes[i].out))
			watch_pools_tell(&w->pools, &w->probes[i].found);
	if (all && w->ping)
		w->ping();
	for (unsigned i = 0; i < w->n_loops; i++)
		if (!atomic_load(&w->probes[i].out))
			probe_send(w, i);
}

static struct timespec
after(uint64_t ns)
{
	uint64_t due = clock_now(&clock_system) + ns;

	return (struct timespec){.tv_sec = (time_t)(due / NS_PER_S),
		.tv_nsec = (long)(due % NS_PER_S)};
}

static void *
watch_main(void *arg)
{
	struct watch *w = arg;
	struct timespec due;
	int r = ETIMEDOUT;

	pthread_setname_np(pthread_self(), "eventd-watch");
	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		if (r == ETIMEDOUT) {
			watch_round(w);
			due = after(w->interval_ns);
		}
		r = pthread_cond_timedwait(&w->wake, &w->lock, &due);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int
watch_start(struct watch *w, struct loop *loops, unsigned n_loops,
	uint64_t limit_us, void (*ping)(void))
{
	pthread_condattr_t attr;
	int r;

	w->loops = loops;
	w->n_loops = n_loops;
	w->interval_ns = (limit_us ? limit_us * NS_PER_US
				   : WATCH_LIMIT_MS * (uint64_t)NS_PER_MS) /
			 QUESTIONS;
	w->ping = limit_us ? ping : NULL;
	for (unsigned i = 0; i < n_loops; i++) {
		w->probes[i].watch = w;
		stall_init(&w->probes[i].named);
		stall_init(&w->probes[i].stall);
	}
	signals_set_up();
	watch_pools_init(&w->pools);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&w->thread, NULL, watch_main, w);
	w->started = r == 0;
	return r ? err_raise(-r) : 0;
}

void
watch_stop(struct watch *w)
{
	if (!w->started)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	w->started = false;
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
}
