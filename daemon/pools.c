#include "pools.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "config.h"
#include "exec/pool.h"
#include "kernel/away.h"
#include "kind/kind.h"

static struct pool_init
init_of(const struct config_pool *c)
{
	return (struct pool_init){
		.name = c->name,
		.type = (enum pool_type)c->type,
		.n_threads = c->threads,
		.busy_ns = c->busy_us * NS_PER_US,
		.stuck_ns = c->stuck_ms * (uint64_t)NS_PER_MS,
		.cpus = c->has_cpus ? &c->cpus : NULL,
		.thread_init = kind_thread_init,
		.thread_deinit = kind_thread_deinit,
	};
}

/* That is it or was: another type is another pool. */
static struct pool *
find(struct pools *p, const struct config_pool *c)
{
	for (unsigned i = 0; i < p->n; i++)
		if (strcmp(p->items[i]->name, c->name) == 0 &&
			p->items[i]->type == (enum pool_type)c->type)
			return p->items[i];
	return NULL;
}

static int
make(struct pools *p, const struct config_pool *c)
{
	struct pool_init init = init_of(c);
	struct pool *pool;

	if (p->n == KERNEL_EXECUTORS_MAX)
		return POOLS_E_MANY;
	pool = pool_new(&init);
	if (!pool)
		return err_raise(-ENOMEM);
	pool_retire(pool); /* until pools_change() */
	kernel_executor_add(p->kernel, &pool->executor);
	p->items[p->n++] = pool;
	return 0;
}

int
pools_make(struct pools *p, const struct config *c)
{
	int r = 0;

	for (size_t i = 0; i < c->n_pools && !r; i++)
		if (!find(p, &c->pools[i]))
			r = make(p, &c->pools[i]);
	return r;
}

static bool
is_in(const struct config *c, const struct pool *pool)
{
	const struct config_pool *same = config_pool_find(c, pool->name);

	return same && pool->type == (enum pool_type)same->type;
}

void
pools_change(struct pools *p, const struct config *c)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct pool *pool = p->items[i];

		if (is_in(c, pool) || atomic_load(&pool->executor.gone))
			continue;
		pool_retire(pool);
		log_info("pool.removed", "pool=\"%s\" type=%s sessions=%u",
			pool->name, pool->executor.ops->name,
			(unsigned)atomic_load(&pool->executor.n_sessions));
	}
	for (size_t i = 0; i < c->n_pools; i++) {
		struct pool_init init = init_of(&c->pools[i]);

		pool_change(find(p, &c->pools[i]), &init);
	}
}

static bool
has_what_is_gone(struct session *s)
{
	const struct executor *x = session_executor(s);

	return x && atomic_load(&x->gone);
}

static void
move(struct session *s)
{
	const char *old = session_executor(s)->name;
	struct executor *x = NULL;

	if (s->spec && s->spec->executor)
		x = kernel_executor(
			atomic_load(&s->home)->kernel, s->spec->executor);
	session_set_executor(s, x);
	log_info("session.moved",
		"session=\"%s\" executor=\"%s\" reason=\"the pool %s is gone\"",
		session_name(s), x ? x->name : "loop", old);
}

void
pools_move(struct loop *l)
{
	struct kernel *k = l->sched.kernel;
	uint32_t n = l->sched.n_away ? k->sessions.n_slots : 0;

	for (uint32_t slot = 1; slot <= n; slot++) {
		struct session *s = session_at(k, slot);

		if (atomic_load(&s->id) && atomic_load(&s->home) == &l->sched &&
			has_what_is_gone(s))
			move(s);
	}
}

void
pools_settle(struct pools *p)
{
	for (unsigned i = 0; i < p->n; i++)
		pool_settle(p->items[i]);
}

int
pools_init(struct pools *p, struct kernel *k, const struct config *c)
{
	int r;

	p->kernel = k;
	r = pools_make(p, c);
	if (r)
		return err_fold(r);
	pools_change(p, c);
	return 0;
}

bool
pools_stop(struct pools *p, uint32_t ms)
{
	unsigned n_stuck = 0;

	for (unsigned i = 0; i < p->n; i++)
		n_stuck += pool_stop(p->items[i], n_stuck ? 0 : ms);
	return n_stuck == 0;
}

void
pools_deinit(struct pools *p)
{
	while (p->n)
		pool_free(p->items[--p->n]);
}
