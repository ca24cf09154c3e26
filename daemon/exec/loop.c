#include "exec/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
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
	uint64_t one = 1;
	ssize_t n = write(loop_of(s)->wake_fd, &one, sizeof(one));

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

static void
loop_on_wake(uv_poll_t *handle, int status, int events)
{
	struct loop *l = handle->data;
	uint64_t n;
	ssize_t r = read(l->wake_fd, &n, sizeof(n));

	(void)r, (void)status, (void)events;
}

/* ---- the wall clock -------------------------------------------------- */

/* A timerfd far in the future that is cancelled when the clock is set. */
static int
clock_arm(struct loop *l)
{
	struct itimerspec far = {
		.it_value = {.tv_sec = INT64_MAX / NS_PER_S}, /* year 2262 */
	};

	if (timerfd_settime(l->clock_fd,
		    TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL))
		return err_raise(-errno);
	return 0;
}

static void
loop_on_clock(uv_poll_t *handle, int status, int events)
{
	struct loop *l = handle->data;
	uint64_t n;
	ssize_t r = read(l->clock_fd, &n, sizeof(n));

	(void)r, (void)status, (void)events;
	loop_enter(l);
	/* First, so that a change that follows is seen. */
	if (clock_arm(l))
		log_err("loop.clock", "errno=%d", errno);
	sched_clock_set(&l->sched);
	log_info("loop.clock-set", "loop=%u", l->sched.index);
}

/* ---- a turn ---------------------------------------------------------- */

static void
loop_on_idle(uv_idle_t *handle)
{
	(void)handle; /* while it is active the loop does not sleep */
}

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

static void
set_busy(struct loop *l, bool busy)
{
	if (busy == l->busy)
		return;
	l->busy = busy;
	if (busy)
		uv_idle_start(&l->idle, loop_on_idle);
	else
		uv_idle_stop(&l->idle);
}

/* Arm the timer for the scheduler's next, unless it is armed for as early:
 * firing early costs a turn, arming costs one for each call's deadline. What is
 * due by now gets its turn at once. */
static void
arm_timer(struct loop *l)
{
	uint64_t next = sched_next_ns(&l->sched);
	struct itimerspec spec = {.it_interval = {0, 0}};

	if (next >= l->timer_ns)
		return;
	if (next <= clock_now(l->sched.kernel->clock)) {
		set_busy(l, true);
		return;
	}
	spec.it_value.tv_sec = (time_t)(next / NS_PER_S);
	spec.it_value.tv_nsec = (long)(next % NS_PER_S);
	if (timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL))
		log_err("loop.timer", "errno=%d", errno);
	else
		l->timer_ns = next;
}

/* A turn follows, which fires what is due and arms the timer again; that the
 * descriptor is readable no more is for the read, for nothing may be armed. */
static void
loop_on_timer(uv_poll_t *handle, int status, int events)
{
	struct loop *l = handle->data;
	uint64_t n;
	ssize_t r = read(l->timer_fd, &n, sizeof(n));

	(void)r, (void)status, (void)events;
	l->timer_ns = UINT64_MAX;
}

static void
loop_turn(struct loop *l)
{
	bool more = sched_turn(&l->sched);

	run_flushes(l);
	sched_publish(&l->sched); /* what the flushes sent */
	if (l->sched.run_head || l->flush_head)
		more = true;
	set_busy(l, more);
	arm_timer(l);
	atomic_fetch_add_explicit(&l->turns, 1, memory_order_relaxed);
	l->shares = l->sched.n_away > 0 || l->busy_ns;
	if (l->shares || atomic_load_explicit(&l->stop, memory_order_relaxed))
		uv_stop(&l->uv);
}

/* After the poll: connections have read. */
static void
loop_on_check(uv_check_t *handle)
{
	struct loop *l = handle->data;

	loop_enter(l);
	loop_turn(l);
}

/* Before the poll. Callbacks of libuv's timers and of closed handles ran since
 * the turn: what they posted, deferred and set wants a turn before we sleep. */
static void
loop_on_prepare(uv_prepare_t *handle)
{
	struct loop *l = handle->data;

	arm_timer(l);
	if (l->busy || l->shares)
		return;
	l->slept = !l->flush_head && sched_sleep(&l->sched);
	if (!l->slept)
		set_busy(l, true);
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

/* Look for what comes, without a sleep that somebody would have to end: true if
 * something did. A loop with nothing to do gives it up soon. */
static bool
look_busily(struct loop *l, struct pollfd *fd)
{
	uint64_t from = clock_now(l->sched.kernel->clock);

	if (l->n_vain >= VAIN_MAX)
		return false;
	do {
		if (poll(fd, 1, 0) > 0)
			return true;
		for (int i = 0; i < 16; i++)
			word_pause();
	} while (clock_now(l->sched.kernel->clock) - from < l->busy_ns);
	l->n_vain++;
	return false;
}

/* It was idle for no longer than it may look: then looking pays again. */
static void
sleep_in_poll(struct loop *l, int timeout)
{
	struct pollfd fd = {.fd = uv_backend_fd(&l->uv), .events = POLLIN};
	uint64_t from;

	if (!l->busy_ns) {
		poll(&fd, 1, timeout);
		return;
	}
	if (look_busily(l, &fd)) {
		l->n_vain = 0;
		return;
	}
	from = clock_now(l->sched.kernel->clock);
	poll(&fd, 1, timeout);
	if (clock_now(l->sched.kernel->clock) - from < l->busy_ns)
		l->n_vain = 0;
}

/* Sleep without the baton, until something comes that libuv waits for. */
static void
nap(struct loop *l)
{
	struct pool_thread *first;
	int timeout;

	uv_update_time(&l->uv);
	timeout = uv_backend_timeout(&l->uv);
	if (!timeout) {
		pool_rouse_all(TAKE(l->to_rouse));
		return;
	}
	l->naps = true;
	first = TAKE(l->to_rouse);
	baton_drop(&l->baton);
	pool_rouse_all(first);
	sleep_in_poll(l, timeout);
	baton_take(&l->baton);
	l->naps = l->touched = false;
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

/* One turn, and a nap if there is nothing more to do. What it is to run that is
 * not the loop any more, or NULL. */
static struct away *
step(struct loop *l)
{
	struct away *a;

	uv_run(&l->uv, UV_RUN_NOWAIT);
	if (atomic_load_explicit(&l->stop, memory_order_relaxed))
		return NULL;
	if (l->leads && (a = pass_on(l)))
		return a;
	if (l->busy || l->flush_head || !sched_sleep(&l->sched)) {
		pool_rouse_all(TAKE(l->to_rouse));
		if (baton_is_wanted(&l->baton))
			baton_offer(&l->baton);
		return NULL;
	}
	nap(l);
	sched_awake(&l->sched);
	return NULL;
}

/* ---- life ------------------------------------------------------------ */

static int
open_fds(struct loop *l)
{
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0)
		return err_raise(-errno);
	l->timer_fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->timer_fd < 0)
		return err_raise(-errno);
	l->clock_fd =
		timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->clock_fd < 0)
		return err_raise(-errno);
	return clock_arm(l);
}

static int
open_handles(struct loop *l)
{
	int r;

	r = uv_poll_init(&l->uv, &l->wake, l->wake_fd);
	if (r)
		return err_raise(r);
	r = uv_poll_init(&l->uv, &l->timer, l->timer_fd);
	if (r)
		return err_raise(r);
	r = uv_poll_init(&l->uv, &l->clock, l->clock_fd);
	if (r)
		return err_raise(r);
	uv_check_init(&l->uv, &l->check);
	uv_prepare_init(&l->uv, &l->prepare);
	uv_idle_init(&l->uv, &l->idle);
	l->wake.data = l->clock.data = l->check.data = l->prepare.data = l;
	l->idle.data = l->timer.data = l;
	uv_poll_start(&l->wake, UV_READABLE, loop_on_wake);
	uv_poll_start(&l->timer, UV_READABLE, loop_on_timer);
	uv_poll_start(&l->clock, UV_READABLE, loop_on_clock);
	uv_check_start(&l->check, loop_on_check);
	uv_prepare_start(&l->prepare, loop_on_prepare);
	return 0;
}

static void
close_handle(uv_handle_t *handle, void *arg)
{
	struct loop *l = arg;
	bool own = handle == (uv_handle_t *)&l->wake ||
		   handle == (uv_handle_t *)&l->clock ||
		   handle == (uv_handle_t *)&l->check ||
		   handle == (uv_handle_t *)&l->prepare ||
		   handle == (uv_handle_t *)&l->idle ||
		   handle == (uv_handle_t *)&l->timer;

	if (uv_is_closing(handle))
		return;
	if (!own)
		log_err("loop.open-handle", "loop=%u type=%s", l->sched.index,
			uv_handle_type_name(handle->type));
	uv_close(handle, NULL);
}

static int
close_all(struct loop *l)
{
	uv_walk(&l->uv, close_handle, l);
	/* It returns early once if uv_stop() was called while none ran. */
	if (uv_run(&l->uv, UV_RUN_DEFAULT))
		uv_run(&l->uv, UV_RUN_DEFAULT);
	return uv_loop_close(&l->uv);
}

static void
free_buffers(struct loop *l)
{
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	if (l->timer_fd >= 0)
		close(l->timer_fd);
	if (l->clock_fd >= 0)
		close(l->clock_fd);
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
	l->wake_fd = l->timer_fd = l->clock_fd = -1;
	l->timer_ns = UINT64_MAX;
	baton_init(&l->baton);
	l->flush_tail = &l->flush_head;
	l->read_buffer = malloc(LOOP_READ_SIZE);
	r = l->read_buffer ? uv_loop_init(&l->uv) : -ENOMEM;
	if (r) {
		free_buffers(l);
		return err_raise(r);
	}
	r = open_fds(l);
	if (!r)
		r = open_handles(l);
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
	struct away *a = NULL;

	baton_take(&l->baton);
	loop_here = l;
	l->naps = l->touched = false;
	l->leads = p;
	sched_awake(&l->sched);
	loop_turn(l); /* what was injected before, and the first timer */
	while (!a && !atomic_load(&l->stop)) {
		if (l->shares)
			a = step(l);
		else
			uv_run(&l->uv, UV_RUN_DEFAULT);
	}
	if (a)
		return a;
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
