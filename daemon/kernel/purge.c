/* Ending what waits in a mailbox as cancelled, in steps. See queue.h. */
#include <errno.h>
#include <stdlib.h>

#include "kernel/journal.h"
#include "kernel/queue.h"

static void on_step(struct sched *s, struct sched_task *task);

static struct session *
session_of(struct queue_purge *p, struct sched *s)
{
	return session_find(s->kernel, p->session);
}

static void
again(struct queue_purge *p, struct sched *s)
{
	p->task.run = on_step;
	sched_run_on(s, s, &p->task);
}

static void
finish(struct queue_purge *p, struct sched *s, int status)
{
	struct session *t = session_of(p, s);

	if (status == -ENOMEM)
		p->status = EVD_STATUS_NO_MEMORY;
	else if (status)
		p->status = EVD_STATUS_IO;
	if (t && p->stored) {
		journal_purge_end(t);
		if (t->box_bits & BOX_ABOVE)
			queue_fall(s, t);
		sched_enqueue(s, t);
		session_admit_parked(s, t);
	}
	p->done(p, s);
}

static void
rest_done(struct sched *s, void *arg, int status)
{
	finish(arg, s, status);
}

/* What is in memory, then what is not. */
static void
on_step(struct sched *s, struct sched_task *task)
{
	struct queue_purge *p = container_of(task, struct queue_purge, task);
	struct session *t = session_of(p, s);
	int r = 0;

	if (t && !p->walked && !p->walk.open)
		queue_walk_open(&p->walk, t);
	if (t && p->walk.open) {
		p->n += queue_purge(s, &p->walk, p->event);
		p->walked = !p->walk.open;
		if (!p->walked) {
			again(p, s);
			return;
		}
		t = session_of(p, s);
	}
	if (t && p->stored) /* which may be done at once, and @p with it */
		r = journal_purge_rest(t, &p->n, rest_done, p);
	else
		finish(p, s, 0);
	if (r)
		finish(p, s, r);
}

static void
begun(struct sched *s, void *arg, int status)
{
	struct queue_purge *p = arg;

	if (status) {
		p->stored = false;
		finish(p, s, status);
		return;
	}
	again(p, s);
}

void
queue_purge_start(struct queue_purge *p, struct sched *s)
{
	struct session *t = session_of(p, s);
	int r;

	p->n = 0;
	p->status = EVD_STATUS_OK;
	p->walked = false;
	p->walk.open = false;
	p->stored = session_journal(t) != NULL;
	r = p->stored ? journal_purge_begin(t, p->event, begun, p) : 0;
	if (r == JOURNAL_E_PURGING) {
		p->status = EVD_STATUS_LIMIT;
		p->walked = true;
		p->stored = false;
	} else if (r) {
		p->status = EVD_STATUS_NO_MEMORY;
		p->walked = true;
		p->stored = false;
	}
	if (!p->stored)
		again(p, s); /* never done at once */
}
