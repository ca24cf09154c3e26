#include "exec/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "exec/leader.h"

_Thread_local struct loop *loop_here;

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET (1 << 1)
#endif

static void
loop_wake(struct sched *s)
{
	struct loop *l = loop_of(s);
	uint64_t one = 1;
	ssize_t n;

	atomic_fetch_add_explicit(&l->n_woken, 1, memory_order_relaxed);
	n = write(l->on_wake.fd, &one, sizeof(one));
	(void)n; /* full: it is awake already */
}

static void loop_hold(struct sched *s);
static void loop_drop(struct sched *s);

static const struct executor_ops loop_ops = {
	.name = "loop",
	.wake = loop_wake,
	.hold = loop_hold,
	.drop = loop_drop,
};

/* That the descriptor is readable no more. */
static void
drain(const struct io_watch *w)
{
	uint64_t n;
	ssize_t r = read(w->fd, &n, sizeof(n));

	(void)r;
}

static void
loop_on_wake(struct io_watch *w, uint32_t events)
{
	(void)events;
	drain(w);
}

/* ---- the wall clock -------------------------------------------------- */

/* A timerfd far in the future that is cancelled when the clock is set. */
static int
clock_arm(struct loop *l)
{
	struct itimerspec far = {
		.it_value = {.tv_sec = INT64_MAX / NS_PER_S}, /* year 2262 */
	};

	if (timerfd_settime(l->on_clock.fd,
		    TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL))
		return err_raise(-errno);
	return 0;
}

static void
loop_on_clock(struct io_watch *w, uint32_t events)
{
	struct loop *l = container_of(w, struct loop, on_clock);

	(void)events;
	drain(w);
	/* First, so that a change that follows is seen. */
	if (clock_arm(l))
		log_err("loop.clock", "errno=%d", errno);
	sched_clock_set(&l->sched);
	log_info("loop.clock-set", "loop=%u", l->sched.index);
}

/* ---- a turn ---------------------------------------------------------- */

static void
run_flushes(struct loop *l)
{
	struct loop_flush *flush = l->flush_head, *next;

	l->flush_head = NULL;
	l->flush_tail = &l->flush_head;
	for (; flush; flush = next) {
		next = flush->next;
		flush->queued = false;
		flush->run(flush);
	}
}

/* A turn at @ns at the latest; false if that is not to be had. */
static bool
set_timer(struct loop *l, uint64_t ns)
{
	struct itimerspec spec = {
		.it_value = {.tv_sec = (time_t)(ns / NS_PER_S),
			.tv_nsec = (long)(ns % NS_PER_S)},
	};

	if (ns >= l->timer_ns)
		return true;
	if (timerfd_settime(l->on_timer.fd, TFD_TIMER_ABSTIME, &spec, NULL)) {
		log_err("loop.timer", "errno=%d", errno);
		return false;
	}
	l->timer_ns = ns;
	return true;
}

/* Arm the timer for the scheduler's next, unless it is armed for as early:
 * firing early costs a turn, arming costs one for each call's deadline. What is
 * due by now gets its turn at once. */
static void
arm_timer(struct loop *l)
{
	uint64_t next;

	if (!sched_may_be_due(&l->sched, l->timer_ns))
		return;
	next = sched_next_ns(&l->sched);
	if (next >= l->timer_ns)
		return;
	if (next <= clock_now(l->sched.kernel->clock))
		l->busy = true;
	else
		set_timer(l, next);
}

/* A turn follows, which fires what is due and arms the timer again; that the
 * descriptor is readable no more is for the read, for nothing may be armed. */
static void
loop_on_timer(struct io_watch *w, uint32_t events)
{
	struct loop *l = container_of(w, struct loop, on_timer);

	(void)events;
	drain(w);
	l->timer_ns = UINT64_MAX;
}

static void
loop_turn(struct loop *l)
{
	bool more = sched_turn(&l->sched);

	run_flushes(l);
	sched_publish(&l->sched); /* what the flushes sent */
	l->busy = more || l->sched.run_head || l->flush_head;
	arm_timer(l);
	atomic_fetch_add_explicit(&l->turns, 1, memory_order_relaxed);
	l->shares = l->sched.n_away > 0 || l->busy_ns;
}

/* libuv has something to do, as it says itself: a timer that is due, a handle
 * that closes, a descriptor that it is to wait for. Its clock has milliseconds:
 * it is looked at once in each, or when the loop was about to sleep. */
static void
run_uv(struct loop *l)
{
	if (uv_now(&l->uv) == l->sched.now_ns / NS_PER_MS && !l->uv_waits)
		return;
	l->uv_waits = false;
	uv_update_time(&l->uv); /* timers that start now count from here */
	if (!uv_backend_timeout(&l->uv))
		uv_run(&l->uv, UV_RUN_NOWAIT);
}

static void
loop_on_uv(struct io_watch *w, uint32_t events)
{
	(void)events;
	uv_run(&container_of(w, struct loop, on_uv)->uv, UV_RUN_NOWAIT);
}

/* How long it may sleep, in ms. For libuv's next timer the loop's is armed
 * once: a time-out of each sleep would cost the arming of one each time. */
static int
sleep_ms(struct loop *l)
{
	int ms = uv_backend_timeout(&l->uv);
	uint64_t due_ns;

	if (ms <= 0) {
		l->uv_waits = !ms;
		return ms;
	}
	due_ns = (uv_now(&l->uv) + (uint64_t)ms) * NS_PER_MS;
	if (due_ns > l->sched.now_ns && set_timer(l, due_ns))
		return -1;
	l->uv_waits = true;
	return ms;
}

/* @n have come. */
static void
look(struct loop *l, int n)
{
	if (n && !l->slept)
		l->sched.now_ns = clock_now(l->sched.kernel->clock);
	io_run(&l->io, n);
	run_uv(l);
	loop_turn(l);
}

/* Between turns, when none of the last batch is looked at any more; what is to
 * be flushed may be in its grave. */
static void
bury(struct loop *l)
{
	if (!l->flush_head)
		io_bury(&l->io);
}

/* ---- with others ----------------------------------------------------- */

/* A thread that is not the loop's. */
static void
loop_hold(struct sched *s)
{
	struct loop *l = loop_of(s);

	baton_take(&l->baton);
	if (l->naps)
		sched_visit(s);
}

/* What was done while the loop sleeps wants its thread. */
static bool
is_wanted(struct loop *l)
{
	arm_timer(l);
	return l->sched.run_head || l->flush_head || l->touched || l->busy;
}

static void
loop_drop(struct sched *s)
{
	struct loop *l = loop_of(s);

	sched_publish(s);
	if (l->naps && l->flush_head && !s->run_head) {
		run_flushes(l);
		sched_publish(s);
	}
	if (l->naps)
		sched_leave(s, is_wanted(l));
	baton_drop(&l->baton);
}

enum { VAIN_MAX = 8 }; /* after so many an idle loop sleeps at once */

/* Look for what comes, without a sleep that somebody would have to end: how
 * many have come. A loop with nothing to do gives it up soon. */
static int
look_busily(struct loop *l)
{
	uint64_t from = clock_now(l->sched.kernel->clock);
	int n;

	if (l->n_vain >= VAIN_MAX)
		return 0;
	do {
		n = io_wait(&l->io, 0);
		if (n)
			return n;
		sched_yield(); /* to whoever we wait for, on this CPU */
	} while (clock_now(l->sched.kernel->clock) - from < l->busy_ns);
	l->n_vain++;
	return 0;
}

/* It was idle for no longer than it may look: then looking pays again. */
static int
sleep_in_wait(struct loop *l, int ms)
{
	uint64_t from;
	int n;

	if (!l->busy_ns)
		return io_wait(&l->io, ms);
	n = look_busily(l);
	if (n) {
		l->n_vain = 0;
		return n;
	}
	from = clock_now(l->sched.kernel->clock);
	n = io_wait(&l->io, ms);
	if (clock_now(l->sched.kernel->clock) - from < l->busy_ns)
		l->n_vain = 0;
	return n;
}

/* Sleep without the baton, until something comes: how many have. */
static int
nap(struct loop *l, int ms)
{
	struct pool_thread *first = TAKE(l->to_rouse);
	int n;

	l->naps = true;
	baton_drop(&l->baton);
	pool_rouse_all(first);
	n = sleep_in_wait(l, ms);
	baton_take(&l->baton);
	l->naps = l->touched = false;
	return n;
}

/* Until something comes, if there is nothing to do: how many have. */
static int
wait_for_more(struct loop *l)
{
	int ms, n;

	l->slept = false;
	bury(l);
	if (!list_is_empty(&l->io.fresh) && !l->busy && !l->flush_head) {
		n = io_wait(&l->io, 0);
		if (n)
			return n;
		io_settle(&l->io);
	}
	ms = l->busy || l->flush_head ? 0 : sleep_ms(l);
	if (!ms || !sched_sleep(&l->sched)) {
		pool_rouse_all(TAKE(l->to_rouse));
		if (baton_is_wanted(&l->baton))
			baton_offer(&l->baton);
		return io_wait(&l->io, 0);
	}
	n = l->shares ? nap(l, ms) : io_wait(&l->io, ms);
	sched_awake(&l->sched);
	l->slept = true;
	return n;
}

void
loop_once(struct loop *l, bool sleeps)
{
	bury(l);
	look(l, sleeps ? wait_for_more(l) : io_wait(&l->io, 0));
}

/* Somebody else goes on with the loop, if there is somebody: as a sleeping one
 * if there is nothing more to do, so that who runs what there was may write the
 * answer by itself. */
static struct away *
pass_on(struct loop *l)
{
	struct pool *p = TAKE(l->leads);
	struct pool_thread *next, *first;
	struct away *a = leader_pass(l, p, &next);

	if (!a)
		return NULL;
	l->naps = !l->busy && !l->flush_head && sched_sleep(&l->sched);
	loop_here = NULL;
	first = TAKE(l->to_rouse);
	baton_drop(&l->baton);
	leader_follow(next, l);
	pool_rouse_all(first);
	return a;
}

/* ---- life ------------------------------------------------------------ */

static int
watch(struct loop *l, struct io_watch *w, int fd,
	void (*run)(struct io_watch *, uint32_t))
{
	if (fd < 0)
		return err_raise(-errno);
	w->fd = fd;
	w->run = run;
	return err_pass(io_want(&l->io, w, EPOLLIN));
}

static int
open_fds(struct loop *l)
{
	int r = io_init(&l->io);

	if (!r)
		r = watch(l, &l->on_uv, uv_backend_fd(&l->uv), loop_on_uv);
	if (!r)
		r = watch(l, &l->on_wake,
			eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), loop_on_wake);
	if (!r)
		r = watch(l, &l->on_timer,
			timerfd_create(
				CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
			loop_on_timer);
	if (!r)
		r = watch(l, &l->on_clock,
			timerfd_create(
				CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK),
			loop_on_clock);
	return r ? err_pass(r) : clock_arm(l);
}

static void
loop_on_prepare(uv_prepare_t *handle)
{
	(void)handle; /* a loop without a handle would have libuv never wait */
}

static void
close_handle(uv_handle_t *handle, void *arg)
{
	struct loop *l = arg;

	if (uv_is_closing(handle))
		return;
	if (handle != (uv_handle_t *)&l->anchor)
		log_err("loop.open-handle", "loop=%u type=%s", l->sched.index,
			uv_handle_type_name(handle->type));
	uv_close(handle, NULL);
}

static int
close_all(struct loop *l)
{
	uv_walk(&l->uv, close_handle, l);
	uv_run(&l->uv, UV_RUN_DEFAULT);
	return uv_loop_close(&l->uv);
}

static void
free_buffers(struct loop *l)
{
	if (l->on_wake.fd >= 0)
		close(l->on_wake.fd);
	if (l->on_timer.fd >= 0)
		close(l->on_timer.fd);
	if (l->on_clock.fd >= 0)
		close(l->on_clock.fd);
	io_deinit(&l->io);
	free(l->read_buffer);
	l->read_buffer = NULL;
	free(l->member);
	l->member = NULL;
}

int
loop_init(struct loop *l, struct kernel *k, unsigned index)
{
	int r;

	memset(l, 0, sizeof(*l));
	l->io.fd = l->on_wake.fd = l->on_timer.fd = l->on_clock.fd = -1;
	l->timer_ns = UINT64_MAX;
	baton_init(&l->baton);
	l->flush_tail = &l->flush_head;
	l->read_buffer = malloc(LOOP_READ_SIZE);
	r = l->read_buffer ? uv_loop_init(&l->uv) : -ENOMEM;
	if (r) {
		free_buffers(l);
		return err_raise(r);
	}
	uv_prepare_init(&l->uv, &l->anchor);
	uv_prepare_start(&l->anchor, loop_on_prepare);
	r = open_fds(l);
	if (!r)
		r = sched_init(&l->sched, k, index, &loop_ops, l);
	if (r) {
		close_all(l);
		free_buffers(l);
		return err_pass(r);
	}
	epoch_offline(&l->sched.reader); /* until its thread runs */
	return 0;
}

struct away *
loop_lead(struct loop *l, struct pool *p)
{
	struct away *a;

	baton_take(&l->baton);
	loop_here = l;
	atomic_store(&l->leader, pthread_self());
	atomic_store(&l->is_led, true);
	l->naps = l->touched = false;
	l->leads = p;
	sched_awake(&l->sched);
	loop_turn(l); /* what was injected before, and the first timer */
	while (!atomic_load(&l->stop)) {
		if (l->leads && (a = pass_on(l)))
			return a;
		look(l, wait_for_more(l));
	}
	pool_rouse_all(TAKE(l->to_rouse));
	loop_here = NULL;
	epoch_offline(&l->sched.reader);
	l->naps = true; /* what still comes home from elsewhere is its own */
	baton_drop(&l->baton);
	leader_end(l);
	return NULL;
}

void
loop_run(struct loop *l)
{
	struct away *a = loop_lead(l, NULL);

	if (a)
		leader_join(l, a);
}

static void *
loop_main(void *arg)
{
	const struct loop *l = arg;
	char name[16];

	snprintf(name, sizeof(name), "eventd-loop%u", l->sched.index);
	pthread_setname_np(pthread_self(), name);
	loop_run(arg);
	return NULL;
}

int
loop_start(struct loop *l)
{
	int r = pthread_create(&l->thread, NULL, loop_main, l);

	if (r)
		return err_raise(-r);
	l->started = true;
	return 0;
}

void
loop_join(struct loop *l)
{
	if (l->started)
		pthread_join(l->thread, NULL);
	l->started = false;
}

void
loop_stop(struct loop *l)
{
	atomic_store(&l->stop, true);
	loop_wake(&l->sched);
}

void
loop_inject(struct loop *l, struct sched_task *task)
{
	sched_inject(&l->sched, task);
}

int
loop_deinit(struct loop *l)
{
	int r;

	if (!l->read_buffer) /* loop_init() has failed, or never ran */
		return 0;
	sched_deinit(&l->sched);
	run_flushes(l);
	r = close_all(l);
	free_buffers(l);
	return r ? err_raise(r) : 0;
}
