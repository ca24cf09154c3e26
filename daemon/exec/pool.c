#include "exec/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "exec/baton.h"
#include "exec/leader.h"
#include "exec/loop.h"
#include "kernel/sched.h"
#include "kernel/stuck.h"

const char *const pool_type_words[] = {
	[POOL_WORKER] = "worker",
	[POOL_THREADPOOL] = "threadpool",
	[POOL_LEADER] = "leader",
	NULL,
};

static struct pool *
pool_of(struct executor *x)
{
	return container_of(x, struct pool, executor);
}

/* ---- idle threads, under the lock ---------------------------------- */

static void
push_idle(struct pool *p, struct pool_thread *t)
{
	atomic_store_explicit(&t->word, WORD_LOOKS, memory_order_relaxed);
	t->next = p->idle;
	p->idle = t;
	p->n_idle++;
}

static struct pool_thread *
pop_idle(struct pool *p)
{
	struct pool_thread *t = p->idle;

	if (!t)
		return NULL;
	p->idle = t->next;
	p->n_idle--;
	return t;
}

/* It is on the stack no more. One that still looks needs no system call. */
void
pool_rouse(struct pool_thread *t)
{
	if (atomic_exchange(&t->word, WORD_WOKEN) != WORD_SLEEPS)
		return;
	atomic_fetch_add_explicit(&t->pool->n_woken, 1, memory_order_relaxed);
	word_wake(&t->word, 1);
}

void
pool_rouse_soon(struct pool_thread *t)
{
	struct loop *l = loop_here;

	if (!l) {
		pool_rouse(t);
		return;
	}
	t->next = l->to_rouse;
	l->to_rouse = t;
}

void
pool_rouse_all(struct pool_thread *first)
{
	for (struct pool_thread *next; first; first = next) {
		next = first->next;
		pool_rouse(first);
	}
}

static void
wait_for_word(struct pool_thread *t)
{
	uint64_t busy_ns =
		atomic_load_explicit(&t->pool->busy_ns, memory_order_relaxed);
	uint64_t until = busy_ns ? clock_now(&clock_system) + busy_ns : 0;
	uint32_t looks = WORD_LOOKS;

	while (busy_ns && atomic_load(&t->word) == WORD_LOOKS) {
		sched_yield();
		if (clock_now(&clock_system) >= until)
			break;
	}
	if (!atomic_compare_exchange_strong(&t->word, &looks, WORD_SLEEPS))
		return;
	while (atomic_load(&t->word) == WORD_SLEEPS)
		word_wait(&t->word, WORD_SLEEPS, 0);
}

/* ---- the queue, under the lock ------------------------------------- */

void
pool_put(struct pool *p, struct away *a)
{
	a->next = NULL;
	if (p->head)
		p->tail->next = a;
	else
		p->head = a;
	p->tail = a;
	if (++p->n_queued > p->most_queued)
		p->most_queued = p->n_queued;
}

struct away *
pool_take(struct pool *p)
{
	struct away *a = p->head;

	if (!a)
		return NULL;
	p->head = a->next;
	p->n_queued--;
	return a;
}

/* ---- a thread ------------------------------------------------------ */

/* Under the lock. */
static bool
is_over(const struct pool_thread *t)
{
	const struct pool *p = t->pool;

	if (t->own)
		return atomic_load(&t->own->ended);
	return p->stop || p->n_threads > p->n_max;
}

/* What it runs next; NULL: nothing more, or a loop. */
static struct away *
next_job(struct pool_thread *t)
{
	struct pool *p = t->pool;
	struct away *a = NULL;

	pthread_mutex_lock(&p->lock);
	while (!t->leads && !(a = t->job ? t->job : pool_take(p)) &&
		!is_over(t)) {
		push_idle(p, t);
		pthread_mutex_unlock(&p->lock);
		wait_for_word(t);
		pthread_mutex_lock(&p->lock);
	}
	t->job = NULL;
	if (!a && !t->leads && !t->own) { /* it ends */
		p->n_threads--;
		t->tid = 0;
	}
	pthread_mutex_unlock(&p->lock);
	return a;
}

void
pool_serve(struct pool_thread *t)
{
	for (;;) {
		struct away *a = next_job(t);
		struct loop *l = TAKE(t->leads);
		struct executor *x;

		if (!a && l)
			a = leader_lead(t, l);
		else if (!a)
			return;
		if (!a)
			continue;
		x = a->executor;
		atomic_store_explicit(&t->runs, a, memory_order_relaxed);
		atomic_store_explicit(&t->session, session_id(a->session),
			memory_order_relaxed);
		atomic_store_explicit(&a->thread, t->tid, memory_order_relaxed);
		away_run(a);
		atomic_store_explicit(&t->session, 0, memory_order_relaxed);
		atomic_store_explicit(&t->runs, NULL, memory_order_relaxed);
		if (atomic_load_explicit(&x->gone, memory_order_relaxed))
			pool_settle(pool_of(x));
	}
}

/* As `top -H` shows it: 15 characters at most. */
static void
name_thread(const struct pool *p)
{
	char name[16];

	snprintf(name, sizeof(name), "pool-%s", p->name);
	pthread_setname_np(pthread_self(), name);
}

static void *
thread_main(void *arg)
{
	struct pool_thread *t = arg;
	struct pool *p = t->pool;

	name_thread(p);
	pthread_mutex_lock(&p->lock);
	t->tid = gettid();
	if (p->has_cpus) /* they may have changed since */
		sched_setaffinity(0, sizeof(p->cpus), &p->cpus);
	pthread_mutex_unlock(&p->lock);
	if (p->thread_init)
		p->thread_init();
	while (atomic_load(&t->word) == WORD_SLEEPS)
		word_wait(&t->word, WORD_SLEEPS, 0);
	pool_serve(t);
	if (p->thread_deinit)
		p->thread_deinit();
	atomic_store(&t->ended, true);
	atomic_fetch_add(&p->n_ended, 1);
	word_wake(&p->n_ended, 1);
	return NULL;
}

/* On the pool's CPUs; or on any, if there are no such CPUs or it is forbidden:
 * sessions on the wrong CPUs are slow, without a thread they hang. */
static int
thread_create(struct pool *p, struct pool_thread *t)
{
	pthread_attr_t attr;
	int r;

	if (!p->has_cpus)
		return pthread_create(&t->thread, NULL, thread_main, t);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(p->cpus), &p->cpus);
	r = pthread_create(&t->thread, &attr, thread_main, t);
	pthread_attr_destroy(&attr);
	if (r != EINVAL && r != EPERM)
		return r;
	log_warn("pool.cpus", "pool=\"%s\" errno=%d text=\"CPUAffinity= %s\"",
		p->name, r,
		r == EPERM ? "is forbidden here: its threads use any CPU"
			   : "names no CPU that may be used: its threads use "
			     "any");
	p->has_cpus = false;
	return thread_create(p, t);
}

/* Where a thread was that has ended, or a new place; NULL: out of memory. */
static struct pool_thread *
find_place(struct pool *p)
{
	struct pool_thread *t;

	for (uint32_t i = 0; i < p->n_places; i++) {
		t = p->threads[i];
		if (!t->joined && atomic_load(&t->ended))
			t->joined = !pthread_join(t->thread, NULL);
		if (t->joined)
			return t;
	}
	if (p->n_places == POOL_THREADS_MAX)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->joined = true;
	p->threads[p->n_places++] = t;
	return t;
}

/* One more, if there may be: it looks into the queue first of all, or waits to
 * be roused. */
static struct pool_thread *
thread_add(struct pool *p, enum pool_word word)
{
	struct pool_thread *t;
	int r;

	if (p->n_threads >= p->n_max)
		return NULL;
	t = find_place(p);
	if (!t)
		return NULL;
	*t = (struct pool_thread){.pool = p, .joined = true};
	atomic_store(&t->word, word);
	r = thread_create(p, t);
	if (!r) {
		t->joined = false;
		p->n_threads++;
		p->n_made++;
	} else if (!p->n_threads) {
		log_err("pool.no-thread", "pool=\"%s\" errno=%d", p->name, r);
	}
	return r ? NULL : t;
}

struct pool_thread *
pool_follower(struct pool *p)
{
	struct pool_thread *t = pop_idle(p);

	return t ? t : thread_add(p, WORD_SLEEPS);
}

bool
pool_unidle(struct pool *p, struct pool_thread *t)
{
	for (struct pool_thread **i = &p->idle; *i; i = &(*i)->next) {
		if (*i != t)
			continue;
		*i = t->next;
		p->n_idle--;
		return true;
	}
	return false;
}

/* ---- handing out --------------------------------------------------- */

/* Whoever is idle, or soon will be, takes it. */
static void
worker_hand(struct executor *x, struct away *a)
{
	struct pool *p = pool_of(x);
	struct pool_thread *t;

	pthread_mutex_lock(&p->lock);
	pool_put(p, a);
	t = pop_idle(p);
	if (!t)
		thread_add(p, WORD_LOOKS);
	pthread_mutex_unlock(&p->lock);
	if (t)
		pool_rouse_soon(t);
}

/* One idle thread is given it. */
static void
threadpool_hand(struct executor *x, struct away *a)
{
	struct pool *p = pool_of(x);
	struct pool_thread *t;

	pthread_mutex_lock(&p->lock);
	t = pop_idle(p);
	if (t) {
		t->job = a;
	} else {
		pool_put(p, a);
		thread_add(p, WORD_LOOKS);
	}
	pthread_mutex_unlock(&p->lock);
	if (t)
		pool_rouse_soon(t);
}

static const struct executor_ops pool_ops[] = {
	[POOL_WORKER] = {.name = "worker", .hand = worker_hand},
	[POOL_THREADPOOL] = {.name = "threadpool", .hand = threadpool_hand},
	[POOL_LEADER] = {.name = "leader", .hand = leader_hand},
};

/* ---- life ---------------------------------------------------------- */

struct pool *
pool_new(const struct pool_init *init)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->name = strdup(init->name);
	if (!p->name) {
		free(p);
		return NULL;
	}
	p->n_max = init->n_threads;
	p->executor.ops = &pool_ops[init->type];
	p->executor.name = p->name;
	p->type = init->type;
	p->busy_ns = init->busy_ns;
	p->executor.stuck_ns = init->stuck_ns;
	p->has_cpus = init->cpus != NULL;
	if (init->cpus)
		p->cpus = *init->cpus;
	p->thread_init = init->thread_init;
	p->thread_deinit = init->thread_deinit;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

/* Under the lock: all that are idle look again. Loops' own do no more than
 * that. */
static void
rouse_idle(struct pool *p)
{
	struct pool_thread *first = NULL, *t;

	while ((t = pop_idle(p))) {
		t->next = first;
		first = t;
	}
	pool_rouse_all(first);
}

/* Under the lock: those that run, too. Their new CPUs, or those that the caller
 * may use. */
static void
move_threads(struct pool *p)
{
	cpu_set_t any;
	int r = 0;

	if (!p->has_cpus && sched_getaffinity(0, sizeof(any), &any))
		return;
	for (uint32_t i = 0; i < p->n_places; i++)
		if (p->threads[i]->tid)
			r |= sched_setaffinity(p->threads[i]->tid,
				sizeof(cpu_set_t),
				p->has_cpus ? &p->cpus : &any);
	if (r)
		log_warn("pool.cpus", "pool=\"%s\" errno=%d", p->name, errno);
}

void
pool_change(struct pool *p, const struct pool_init *init)
{
	bool moves;

	pthread_mutex_lock(&p->lock);
	moves = p->has_cpus != (init->cpus != NULL) ||
		(init->cpus && !CPU_EQUAL(&p->cpus, init->cpus));
	p->has_cpus = init->cpus != NULL;
	if (init->cpus)
		p->cpus = *init->cpus;
	if (moves)
		move_threads(p);
	p->n_max = init->n_threads;
	p->stop = false;
	while (p->n_queued > p->n_threads && thread_add(p, WORD_LOOKS))
		;
	rouse_idle(p);
	pthread_mutex_unlock(&p->lock);
	atomic_store(&p->busy_ns, init->busy_ns);
	atomic_store(&p->executor.stuck_ns, init->stuck_ns);
	atomic_store(&p->executor.gone, false);
}

void
pool_retire(struct pool *p)
{
	atomic_store(&p->executor.gone, true);
}

void
pool_settle(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	if (atomic_load(&p->executor.gone) &&
		!atomic_load(&p->executor.n_sessions) && !p->stop) {
		p->stop = true;
		rouse_idle(p);
	}
	pthread_mutex_unlock(&p->lock);
}

void
pool_tell_stuck(const struct pool_thread *t)
{
	struct away *a = atomic_load(&t->runs);
	const struct session *s = a ? a->session : NULL;

	log_err("session.stuck",
		"session=\"%s\" executor=\"%s\" "
		"reason=\"its handler does not return; it is left behind\"",
		s && s->spec && s->spec->name ? s->spec->name : "",
		t->pool->name);
}

/* Until all have ended, but for no longer than @ms. */
static void
await_ends(struct pool *p, uint32_t n_made, uint32_t ms)
{
	uint64_t now = clock_now(&clock_system);
	uint64_t due = now + ms * NS_PER_MS;
	uint32_t n;

	while ((n = atomic_load(&p->n_ended)) != n_made && now < due) {
		word_wait(&p->n_ended, n, due - now);
		now = clock_now(&clock_system);
	}
}

unsigned
pool_stop(struct pool *p, uint32_t ms)
{
	unsigned n_stuck = 0;
	uint32_t n_made;

	pthread_mutex_lock(&p->lock);
	p->stop = true;
	n_made = p->n_made;
	rouse_idle(p);
	pthread_mutex_unlock(&p->lock);
	await_ends(p, n_made, ms);
	for (uint32_t i = 0; i < p->n_places; i++) {
		struct pool_thread *t = p->threads[i];

		if (!t->joined && atomic_load(&t->ended))
			t->joined = !pthread_join(t->thread, NULL);
		if (t->joined)
			continue;
		pool_tell_stuck(t);
		n_stuck++;
	}
	return n_stuck;
}

struct pool *
pool_free(struct pool *p)
{
	if (!p)
		return NULL;
	pthread_mutex_destroy(&p->lock);
	for (uint32_t i = 0; i < p->n_places; i++)
		free(p->threads[i]);
	free(p->name);
	free(p);
	return NULL;
}

void
pool_look(struct pool *p, struct pool_state *state)
{
	pthread_mutex_lock(&p->lock);
	*state = (struct pool_state){
		.n_threads = p->n_threads,
		.n_busy = p->n_threads + p->n_guests - p->n_idle,
		.n_queued = p->n_queued,
		.most_queued = p->most_queued,
		.n_woken = atomic_load(&p->n_woken),
	};
	pthread_mutex_unlock(&p->lock);
	state->n_sessions = atomic_load(&p->executor.n_sessions);
	state->n_runs = atomic_load(&p->executor.n_runs);
	state->n_stuck = atomic_load(&p->executor.n_stuck);
	state->n_stuck_ever = atomic_load(&p->executor.n_stuck_ever);
}

static bool
thread_look(const struct pool_thread *t, struct sched *home, struct stuck *out)
{
	uint64_t id = atomic_load_explicit(&t->session, memory_order_relaxed);

	return id && stuck_look(home, id, out);
}

uint32_t
pool_look_stuck(
	struct pool *p, struct sched *home, struct stuck *out, uint32_t max)
{
	uint32_t n = 0;

	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->n_places && n < max; i++)
		n += thread_look(p->threads[i], home, &out[n]);
	for (const struct pool_thread *t = p->guests; t && n < max;
		t = t->next_guest)
		n += thread_look(t, home, &out[n]);
	pthread_mutex_unlock(&p->lock);
	return n;
}
