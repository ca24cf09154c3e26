#include "exec/leader.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "exec/loop.h"

static struct pool *
pool_of(struct executor *x)
{
	return container_of(x, struct pool, executor);
}

/* From its loop: after the turn the thread that leads looks at it. From a
 * thread that has had enough of it: whoever is idle takes it. */
void
leader_hand(struct executor *x, struct away *a)
{
	struct pool *p = pool_of(x);
	struct loop *l = loop_of(a->sched);
	struct pool_thread *t = NULL;

	pthread_mutex_lock(&p->lock);
	pool_put(p, a);
	if (loop_here == l)
		l->leads = p;
	else
		t = pool_follower(p);
	pthread_mutex_unlock(&p->lock);
	if (t)
		pool_rouse(t);
}

/* Its first thread, which has not passed it on yet, is one of the pool's from
 * now on. */
static bool
enlist(struct loop *l, struct pool *p)
{
	if (l->member)
		return true;
	l->member = calloc(1, sizeof(*l->member));
	if (!l->member)
		return false;
	l->member->pool = p;
	l->member->own = l;
	l->member->tid = gettid();
	l->member->next_guest = p->guests;
	p->guests = l->member;
	p->n_guests++;
	return true;
}

struct away *
leader_pass(struct loop *l, struct pool *p, struct pool_thread **next)
{
	struct away *a = NULL;

	pthread_mutex_lock(&p->lock);
	*next = p->head && enlist(l, p) ? pool_follower(p) : NULL;
	if (*next)
		a = pool_take(p);
	pthread_mutex_unlock(&p->lock);
	return a;
}

void
leader_follow(struct pool_thread *next, struct loop *l)
{
	next->leads = l;
	pool_rouse(next);
}

/* What the former leader left is for the next: it looks at the queue, too. */
struct away *
leader_lead(struct pool_thread *t, struct loop *l)
{
	return loop_lead(l, t->pool);
}

void
leader_join(struct loop *l, struct away *a)
{
	l->member->job = a;
	pool_serve(l->member);
}

void
leader_tell_stuck(const struct loop *l)
{
	if (l->member && atomic_load(&l->member->runs))
		pool_tell_stuck(l->member);
}

/* Under the lock. */
static void
forget_guest(struct pool *p, struct pool_thread *t)
{
	struct pool_thread **i = &p->guests;

	while (*i != t)
		i = &(*i)->next_guest;
	*i = t->next_guest;
}

void
leader_end(struct loop *l)
{
	struct pool_thread *t = l->member;
	struct pool *p = t ? t->pool : NULL;
	bool idle;

	if (!t) {
		atomic_store(&l->ended, true);
		return;
	}
	pthread_mutex_lock(&p->lock);
	atomic_store(&l->ended, true);
	idle = pool_unidle(p, t);
	forget_guest(p, t);
	pthread_mutex_unlock(&p->lock);
	if (idle)
		pool_rouse(t);
}
