#include "kernel/delay_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/delay_parts.h"
#include "kernel/delay_row.h"
#include "kernel/journal_batch.h"

enum {
	BUCKETS_MIN = 16,
	RETRY_MS = 200, /* the store has failed */
	AGAIN_MS = 10,  /* without memory */
};

static void on_told(struct journal_told *told, struct sched *s, int status);

/* ---- by id --------------------------------------------------------------- */

static struct delay_stored **
bucket_of(const struct delays *d, uint64_t id)
{
	return &d->stored[id & (d->n_stored_buckets - 1)];
}

struct delay *
delay_store_find(const struct delays *d, uint64_t id)
{
	struct delay_stored *st;

	if (!delay_id_is_stored(id) || !d->n_stored)
		return NULL;
	for (st = *bucket_of(d, id); st; st = st->chain)
		if (st->id == id)
			return st->delay;
	return NULL;
}

static int
grow(struct delays *d)
{
	struct delays old = *d;
	struct delay_stored *st, *next;
	uint32_t n =
		d->n_stored_buckets ? d->n_stored_buckets * 2 : BUCKETS_MIN;

	d->stored =
		FAULT(delay_store_grow) ? NULL : calloc(n, sizeof(*d->stored));
	if (!d->stored) {
		d->stored = old.stored;
		return err_raise(-ENOMEM);
	}
	d->n_stored_buckets = n;
	for (uint32_t i = 0; i < old.n_stored_buckets; i++)
		for (st = old.stored[i]; st; st = next) {
			next = st->chain;
			st->chain = *bucket_of(d, st->id);
			*bucket_of(d, st->id) = st;
		}
	free(old.stored);
	return 0;
}

/* What @delay has beside it, with the id @id. -ENOMEM. */
static int
stored_new(struct sched *s, struct journal *j, struct delay *delay, uint64_t id)
{
	struct delays *d = &s->delays;
	int r = d->n_stored < d->n_stored_buckets ? 0 : grow(d);
	struct delay_stored *st;

	if (r)
		return err_pass(r);
	st = FAULT(delay_store_new) ? NULL : calloc(1, sizeof(*st));
	if (!st)
		return err_raise(-ENOMEM);
	st->told.told = on_told;
	st->journal = j;
	st->delay = delay;
	st->id = id;
	st->chain = *bucket_of(d, id);
	*bucket_of(d, id) = st;
	d->n_stored++;
	list_append(&j->stored, &st->link);
	delay->more->stored = st;
	return 0;
}

static void
release(struct delay_stored *st)
{
	if (!st->delay && !st->n_refs)
		free(st);
}

/* ---- rows ---------------------------------------------------------------- */

static uint64_t
key_of(const struct delay_stored *st)
{
	return __builtin_bswap64(st->id & ~DELAY_ID_STORED);
}

/* Its row, or that there is none any more, is to be written. -ENOMEM. */
static int
put_row(struct delay_stored *st, const void *data, size_t size,
	enum side_kind kind, bool tell)
{
	uint64_t key = key_of(st);
	struct store_write w = {.table = STORE_TIMERS,
		.key = &key,
		.key_size = sizeof(key),
		.data = data,
		.size = (uint32_t)size};
	int r = journal_put(st->journal, &w, kind, tell ? &st->told : NULL);

	if (r || !tell)
		return r;
	st->n_refs++;
	st->n_puts++;
	for (struct delay_told *t = st->waiting; t; t = t->next)
		if (!t->after)
			t->after = st->n_puts;
	return 0;
}

static int
write_row(struct sched *s, struct delay_stored *st, uint64_t due_ns,
	enum side_kind kind, bool tell)
{
	size_t size = delay_row_size(st->delay);
	uint8_t *row = FAULT(delay_row) ? NULL : malloc(size);
	int r;

	if (!row)
		return err_raise(-ENOMEM);
	delay_row_put(s, st->delay, due_ns, row);
	r = put_row(st, row, size, kind, tell);
	free(row);
	return r;
}

static int
erase_row(struct delay_stored *st, enum side_kind kind, bool tell)
{
	return put_row(st, NULL, 0, kind, tell);
}

static void
no_memory(const struct delay_stored *st)
{
	log_err("delay.no-memory", "what=row timer=%" PRIu64, st->id);
}

void
delay_store_changed(struct sched *s, struct delay *delay)
{
	struct delay_stored *st = delay->more->stored;

	if (write_row(s, st, delay->more->due_ns, SIDE_ENDS, false))
		no_memory(st);
}

static void
wait_for(struct delay_stored *st, struct delay_told *told)
{
	if (!told)
		return;
	told->after = 0; /* the next one that is put */
	told->next = st->waiting;
	st->waiting = told;
}

/* Those that wait for what has been written, or, if @all, for anything. */
static void
tell(struct sched *s, struct delay_stored *st, int r, bool all)
{
	struct delay_told **link = &st->waiting, *told, *list = NULL;
	uint64_t due = st->delay ? delay_due_wall_ns(s, st->delay) : 0;

	while ((told = *link)) {
		if (!all && (!told->after || told->after > st->n_done)) {
			link = &told->next;
			continue;
		}
		*link = told->next;
		told->next = list;
		list = told;
	}
	while ((told = list)) {
		list = told->next;
		told->id = st->id;
		told->due_ns = due;
		told->told(told, s, r);
	}
}

void
delay_store_gone(struct sched *s, struct delay_stored *st)
{
	struct delay_stored **link = bucket_of(&s->delays, st->id);

	while (*link != st)
		link = &(*link)->chain;
	*link = st->chain;
	s->delays.n_stored--;
	list_remove(&st->link);
	st->delay = NULL;
	if (st->has_row && erase_row(st, SIDE_ENDS, st->waiting != NULL))
		no_memory(st); /* it fires once more, in another run */
	release(st);
}

/* ---- being set ----------------------------------------------------------- */

static int
make(struct sched *s, struct session *owner, struct session *t,
	const struct delay_init *init, struct delay **out)
{
	uint64_t no = atomic_fetch_add(&s->kernel->store->next_no, 1);
	int r = delay_make(s, owner, init, out);

	if (r)
		return r;
	r = stored_new(s, session_journal(t), *out,
		DELAY_ID_STORED | (no & ~DELAY_ID_STORED));
	if (r)
		delay_ended(s, *out, DELAY_FORGOTTEN);
	return r;
}

/* The row of the one that @st takes the place of goes in the same job. */
static int
replace(struct sched *s, struct delay_stored *st)
{
	struct delay *old = delay_find(&s->delays, st->replaces);

	if (!old || !delay_is_stored(old) ||
		old->more->stored->journal != st->journal)
		return 0;
	return erase_row(old->more->stored, SIDE_EVENTS, false);
}

int
delay_set_stored(struct sched *s, struct session *owner, struct session *t,
	const struct delay_init *init, struct delay_told *told)
{
	struct delay_init stored = *init;
	uint64_t due, old = delay_namesake(s, owner, init);
	struct delay_stored *st;
	struct delay *delay;
	int r;

	if (!session_journal(t))
		return DELAY_E_VOLATILE;
	stored.stored = true;
	r = delay_may_set(s, &stored, old, &due);
	if (!r)
		r = make(s, owner, t, &stored, &delay);
	if (r)
		return r;
	delay->more->due_ns = due;
	st = delay->more->stored;
	st->replaces = old;
	r = write_row(s, st, due, SIDE_EVENTS, true);
	if (!r)
		r = replace(s, st);
	if (r) { /* what is on its way finds nobody */
		st->has_row = st->n_refs;
		delay_ended(s, delay, DELAY_FORGOTTEN);
		return r;
	}
	st->journal->box->kept = true;
	s->counters.accepted++;
	st->setter = told;
	return 0;
}

/* ---- changing ------------------------------------------------------------ */

static int
change_now(struct sched *s, struct delay_stored *st)
{
	uint64_t due;
	int r = delay_apply(s, st->delay, &st->change, &due);

	st->changes = false;
	if (!r && due)
		delay_arm(s, st->delay, due);
	if (!r)
		r = write_row(s, st, st->delay->more->due_ns, SIDE_ENDS, true);
	return r ? err_pass(r) : 0;
}

/* What was put off until its row, or its event, was safe. */
static void
change_late(struct sched *s, struct delay_stored *st)
{
	int r = st->changes ? change_now(s, st) : 0;

	if (r)
		tell(s, st, r, true);
}

static void
wait_no_more(struct delay_stored *st, const struct delay_told *told)
{
	struct delay_told **link = &st->waiting;

	while (*link && *link != told)
		link = &(*link)->next;
	if (*link)
		*link = told->next;
}

int
delay_store_adjust(struct sched *s, struct delay *delay,
	const struct delay_change *change, struct delay_told *told)
{
	struct delay_stored *st = delay->more->stored;
	int r;

	if (st->ends || (st->state == STORED_FIRING && !st->next_ns))
		return DELAY_E_FIRED;
	if (change->repeat && delay->more->calendar)
		return DELAY_E_CALENDAR;
	st->change = *change;
	wait_for(st, told);
	st->changes = st->state != STORED_PENDING;
	r = st->changes ? 0 : change_now(s, st);
	if (r)
		wait_no_more(st, told);
	return r;
}

int
delay_store_cancel(
	struct sched *s, struct delay *delay, struct delay_told *told)
{
	struct delay_stored *st = delay->more->stored;

	if (st->ends || (st->state == STORED_FIRING && !st->next_ns))
		return DELAY_E_FIRED;
	wait_for(st, told);
	if (st->state == STORED_PENDING)
		delay_cancelled(s, delay);
	else
		st->ends = true;
	return 0;
}

/* It is pending again, and due at @due_ns; or what was asked meanwhile. */
static void
pending(struct sched *s, struct delay_stored *st, uint64_t due_ns)
{
	struct delay *delay = st->delay;

	st->state = STORED_PENDING;
	if (st->ends) {
		delay_cancelled(s, delay);
		return;
	}
	delay_arm(s, delay, due_ns);
	change_late(s, st);
}

/* ---- its row is back ----------------------------------------------------- */

static void
tell_setter(struct sched *s, struct delay_stored *st, int r)
{
	struct delay_told *told = TAKE(st->setter);

	if (!told)
		return;
	told->id = st->id;
	told->due_ns = st->delay ? delay_due_wall_ns(s, st->delay) : 0;
	told->replaced = 0;
	if (!r && st->replaces && delay_cancel(s, st->replaces) == 0)
		told->replaced = st->replaces;
	told->told(told, s, r);
}

static void
was_set(struct sched *s, struct delay_stored *st, int status)
{
	if (status) {
		if (st->delay) {
			s->counters.accepted--;
			delay_ended(s, st->delay, DELAY_FORGOTTEN);
		}
		tell_setter(s, st, DELAY_E_STORE);
		tell(s, st, DELAY_E_STORE, true);
		return;
	}
	st->has_row = true;
	tell_setter(s, st, 0); /* who may do something about it */
	if (st->delay)
		pending(s, st, st->delay->more->due_ns);
	else
		st->state = STORED_PENDING;
}

/* It is held until then. */
static void
on_told(struct journal_told *told, struct sched *s, int status)
{
	struct delay_stored *st = container_of(told, struct delay_stored, told);

	st->n_done++;
	if (st->state == STORED_SETTING)
		was_set(s, st, status);
	else
		tell(s, st, status ? DELAY_E_STORE : 0, false);
	st->n_refs--;
	release(st);
}

/* ---- it is due ----------------------------------------------------------- */

/* The session that gets its event, if that is the one with its journal. */
static bool
is_at_home(struct sched *s, const struct delay_stored *st, uint64_t to)
{
	struct session *t = session_find(s->kernel, to);

	return t && atomic_load(&t->home) == s &&
	       session_journal(t) == st->journal;
}

/* Its row says when it is due again. */
static void
go_on(struct sched *s, struct delay *delay, uint64_t next_ns)
{
	delay_arm(s, delay, next_ns);
	delay_store_changed(s, delay);
}

/* Somebody else has the alias now: it is told as if it were not durable. */
static void
fire_away(struct sched *s, struct delay *delay, struct msg *m, uint64_t next_ns)
{
	if (next_ns) {
		go_on(s, delay, next_ns);
	} else {
		delay_ended(s, delay, DELAY_HAS_FIRED);
		m->flags |= MSG_ADMITTED | MSG_DELAYED;
	}
	delay_post(s, m);
}

static void
again(struct sched *s, struct delay *delay, uint32_t ms)
{
	uint64_t now = delay_now(s, delay_clock(delay));

	delay->more->stored->state = STORED_PENDING;
	timers_add(delay_wheel(s, delay), &delay->timer,
		delay_sum(now, ms * (uint64_t)NS_PER_MS));
}

/* @m did not get into the mailbox: @r says why, or it has ended. */
static void
not_taken(struct sched *s, struct delay *delay, struct msg *m, int r)
{
	struct delay_stored *st = delay->more->stored;
	uint64_t next = st->next_ns;
	enum msg_end end = next ? MSG_END_REFUSED : MSG_END_DEAD;

	if (r == -ENOMEM) {
		msg_free(&s->pool, m);
		again(s, delay, AGAIN_MS);
		return;
	}
	st->state = STORED_PENDING;
	if (next)
		go_on(s, delay, next);
	else
		delay_ended(s, delay, DELAY_HAS_FIRED);
	if (r)
		msg_end(s, NULL, m, end, sched_status(r), NULL);
}

static void
fire(struct sched *s, struct delay *delay, struct msg *m, uint64_t next_ns)
{
	struct delay_stored *st = delay->more->stored;
	bool taken = false;
	int r;

	st->state = STORED_FIRING;
	st->next_ns = next_ns;
	st->taken = &taken;
	msg_extra(m)->fired = st;
	if (!next_ns)
		m->flags |= MSG_ADMITTED;
	r = sched_post(s, m);
	if (taken)
		return;
	st->taken = NULL;
	if (r)
		msg_extra(m)->fired = NULL;
	not_taken(s, delay, m, r);
}

void
delay_store_fire(
	struct sched *s, struct delay *delay, struct msg *m, uint64_t next_ns)
{
	delay->more->stored->late_ns = 0;
	if (!m && next_ns)
		go_on(s, delay, next_ns);
	else if (!m)
		delay_cancelled(s, delay);
	else if (is_at_home(s, delay->more->stored, m->to))
		fire(s, delay, m, next_ns);
	else
		fire_away(s, delay, m, next_ns);
}

int
delay_store_take(struct delay_stored *st)
{
	struct sched *s = st->journal->sched;
	enum side_kind kind =
		st->journal->store->interval_ms ? SIDE_RECORDS : SIDE_EVENTS;
	int r = st->next_ns ? write_row(s, st, st->next_ns, kind, false)
			    : erase_row(st, kind, false);

	if (r)
		return err_pass(r);
	st->n_refs++; /* the event's */
	*st->taken = true;
	st->taken = NULL;
	return 0;
}

void
delay_store_fired(struct sched *s, struct delay_stored *st, struct msg *m)
{
	if (st->delay && st->next_ns) {
		pending(s, st, st->next_ns);
	} else if (st->delay) {
		st->has_row = false;
		m->flags |= MSG_DELAYED; /* it is counted already */
		delay_ended(s, st->delay, DELAY_HAS_FIRED);
	}
	st->n_refs--;
	release(st);
}

void
delay_store_unfired(struct sched *s, struct delay_stored *st)
{
	if (st->delay && st->ends)
		pending(s, st, 0);
	else if (st->delay)
		again(s, st->delay, RETRY_MS);
	if (st->delay)
		change_late(s, st);
	st->n_refs--;
	release(st);
}

/* ---- another run --------------------------------------------------------- */

static uint64_t
due_of(const struct sched *s, const struct delay *delay, uint64_t due_ns)
{
	uint64_t next;

	if (!delay->more->calendar)
		return due_ns;
	next = delay_next_from_now(delay->more, clock_wall(s->kernel->clock));
	return next && next < due_ns ? next : due_ns;
}

static int
restore(struct sched *s, struct session *t, uint64_t no,
	const struct delay_init *init, const struct delay_row *row)
{
	struct delay *delay;
	struct delay_stored *st;
	int r = delay_make(s, row->self ? t : NULL, init, &delay);

	if (r)
		return err_pass(r);
	r = stored_new(s, session_journal(t), delay, DELAY_ID_STORED | no);
	if (r) {
		delay_ended(s, delay, DELAY_FORGOTTEN);
		return err_pass(r);
	}
	st = delay->more->stored;
	st->state = STORED_PENDING;
	st->has_row = true;
	st->late_ns = row->late_ns;
	delay->more->last_ns = row->last_ns;
	delay->more->n_missed = row->n_missed;
	s->counters.accepted++;
	delay_arm(s, delay, due_of(s, delay, init->due_ns));
	return 0;
}

void
delay_restore(
	struct sched *s, struct session *t, const struct store_row *stored)
{
	struct delay_init init = {.calendar = NULL};
	struct delay_row row;
	uint64_t no;
	int r;

	if (stored->key_size != 2 * sizeof(no))
		return;
	memcpy(&no, stored->key + sizeof(no), sizeof(no));
	no = __builtin_bswap64(no);
	r = delay_row_get(s, stored->data, stored->size, &init, &row);
	init.to = atomic_load(&t->id);
	if (!r && !delay_store_find(&s->delays, DELAY_ID_STORED | no))
		r = restore(s, t, no, &init, &row);
	calendar_unref(init.calendar);
	if (!r)
		return;
	atomic_fetch_add(&s->kernel->store->n_damaged, r > 0);
	log_err("store.damaged",
		"mailbox=\"%s\" timer=%" PRIu64 " reason=\"%s\"",
		session_name(t), DELAY_ID_STORED | no,
		r > 0 ? "its checksum is wrong" : strerror(-r));
}

void
delay_store_close(struct journal *j)
{
	while (!list_is_empty(&j->stored)) {
		struct delay_stored *st =
			container_of(j->stored.next, struct delay_stored, link);

		st->has_row = false;
		st->n_refs++;
		j->sched->counters.accepted--;
		delay_ended(j->sched, st->delay, DELAY_FORGOTTEN);
		if (st->changes || st->ends) /* which has not been written */
			tell(j->sched, st, DELAY_E_STORE, true);
		st->n_refs--;
		release(st);
	}
}
