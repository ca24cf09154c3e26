/* Rows that a journal writes beside its events, and with them: idempotency keys
 * and what kinds keep. See journal.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "kernel/aside.h"
#include "kernel/dead.h"
#include "kernel/delay_store.h"
#include "kernel/journal_batch.h"
#include "kernel/life.h"
#include "kernel/schedule.h"
#include "kernel/state.h"

enum { PIECE_ROWS = 1000, PIECE_SIZE = 1 << 20 };

/* ---- rows beside the events ---------------------------------------------- */

struct side_write *
side_new(struct journal *j, const struct store_write *w, enum side_kind kind,
	struct journal_told *told)
{
	struct side_write *side;
	size_t size = w->data ? w->size : 0;
	uint8_t key[BATCH_KEY];

	side = FAULT(side_add) ? NULL
			       : malloc(sizeof(*side) + sizeof(uint64_t) +
					 w->key_size + size + 1);
	if (!side)
		return NULL;
	side->next = NULL;
	side->kind = (uint8_t)kind;
	side->told = told;
	side->write = *w;
	batch_key(key, j, 0, 0);
	memcpy(side->bytes, key, sizeof(uint64_t));
	memcpy(side->bytes + sizeof(uint64_t), w->key, w->key_size);
	side->write.key = side->bytes;
	side->write.key_size = (uint16_t)(sizeof(uint64_t) + w->key_size);
	if (w->data) {
		side->write.data = side->bytes + side->write.key_size;
		memcpy(side->bytes + side->write.key_size, w->data, size);
	}
	return side;
}

void
side_link(struct journal *j, struct side_write *side)
{
	*j->sides_end = side;
	j->sides_end = &side->next;
	j->n_sides++;
	journal_touch(j);
}

static int
side_add(struct journal *j, const struct store_write *w, enum side_kind kind,
	struct journal_told *told)
{
	struct side_write *side = side_new(j, w, kind, told);

	if (!side)
		return err_raise(-ENOMEM);
	side_link(j, side);
	return 0;
}

int
journal_write(struct session *t, unsigned table, const void *key,
	size_t key_size, const void *data, size_t size)
{
	struct store_write w = {.table = (uint8_t)table,
		.key = key,
		.key_size = (uint16_t)key_size,
		.data = data,
		.size = (uint32_t)size};

	return session_journal(t)
		       ? side_add(session_journal(t), &w, SIDE_ENDS, NULL)
		       : 0;
}

int
journal_put(struct journal *j, const struct store_write *w, enum side_kind kind,
	struct journal_told *told)
{
	return side_add(j, w, kind, told);
}

void
side_drop(struct journal *j, struct side_write *side, int status)
{
	struct journal_told *told = side->told;

	free(side);
	if (told)
		told->told(told, j->sched, status);
}

int
journal_write_raw(struct session *t, unsigned table, const void *key,
	size_t key_size, const void *data, size_t size)
{
	struct journal *j = session_journal(t);
	struct side_write *side =
		FAULT(side_raw) ? NULL
				: malloc(sizeof(*side) + key_size + size);

	if (!side)
		return err_raise(-ENOMEM);
	*side = (struct side_write){.kind = data ? SIDE_EVENTS : SIDE_ENDS,
		.write = {.table = (uint8_t)table,
			.key = side->bytes,
			.key_size = (uint16_t)key_size,
			.size = (uint32_t)size}};
	memcpy(side->bytes, key, key_size);
	if (data) {
		side->write.data = side->bytes + key_size;
		memcpy(side->bytes + key_size, data, size);
	}
	*j->sides_end = side;
	j->sides_end = &side->next;
	j->n_sides++;
	journal_touch(j);
	return 0;
}

/* Without memory it is known for as long as the daemon runs. */
void
journal_note_key(struct session *t, const char *key, uint8_t size)
{
	uint64_t wall = sched_wall_ns(atomic_load(&t->home));
	struct store_write w = {.table = STORE_KEYS,
		.key = key,
		.key_size = size,
		.data = &wall,
		.size = sizeof(wall)};

	if (session_journal(t))
		side_add(session_journal(t), &w, SIDE_EVENTS, NULL);
}

/* It has not been written: then it need not be erased after that. */
static void
unwrite_key(struct journal *j, const char *key, uint8_t size)
{
	struct side_write **link = &j->sides, *side;

	while ((side = *link)) {
		const uint8_t *its = side->bytes + sizeof(uint64_t);

		if (side->kind == SIDE_EVENTS &&
			side->write.table == STORE_KEYS &&
			side->write.key_size == sizeof(uint64_t) + size &&
			memcmp(its, key, size) == 0) {
			*link = side->next;
			j->n_sides--;
			free(side);
			continue;
		}
		link = &side->next;
	}
	j->sides_end = link;
}

void
journal_drop_key(struct session *t, const char *key, uint8_t size)
{
	if (session_journal(t))
		unwrite_key(session_journal(t), key, size);
	journal_write(t, STORE_KEYS, key, size, NULL, 0);
}

/* ---- what the mailbox itself is like ------------------------------------- */

struct box_job {
	struct store_job job;
	struct journal *journal;
	struct store_write write;
	struct store_box_row row;
	journal_done_fn done;
	void *arg;
};

static void
box_done(struct sched *s, struct store_job *job)
{
	struct box_job *b = container_of(job, struct box_job, job);
	struct journal *j = b->journal;

	b->done(s, b->arg, job->status);
	free(b);
	j->n_loads--;
	journal_unref(j);
}

static bool
box_store(struct journal *j, journal_done_fn done, void *arg)
{
	struct box_job *b = FAULT(box_store) ? NULL : calloc(1, sizeof(*b));

	if (!b)
		return false;
	b->journal = j;
	b->write = journal_box_write(j->box, &b->row);
	b->done = done;
	b->arg = arg;
	b->job.writes = &b->write;
	b->job.n_writes = 1;
	b->job.frees = true; /* it takes no room */
	b->job.sched = j->sched;
	b->job.done = box_done;
	j->n_loads++;
	j->store->ops->submit(j->store, &b->job, &b->job);
	return true;
}

bool
journal_pause(struct session *t, bool paused, journal_done_fn done, void *arg)
{
	struct journal *j = session_journal(t);

	if (!j || j->partial)
		return false;
	j->box->paused = paused;
	return box_store(j, done, arg);
}

static void
forget_done(struct sched *s, void *arg, int status)
{
	(void)s, (void)arg;
	if (status) /* it goes with what is written next */
		log_err("store.failed", "what=standing errno=%d", -status);
}

int
journal_stand(
	struct session *t, uint64_t traits, journal_done_fn done, void *arg)
{
	struct journal *j = session_journal(t);

	if (!j->box->standing) {
		if (atomic_fetch_add(&j->store->n_standing, 1) >=
			JOURNAL_STANDING_MAX) {
			atomic_fetch_sub(&j->store->n_standing, 1);
			return JOURNAL_E_MANY;
		}
		j->box->standing = true;
	}
	j->box->traits = traits;
	if (!box_store(j, done, arg))
		return err_raise(-ENOMEM);
	return 0;
}

void
journal_forget(struct session *t)
{
	struct journal *j = session_journal(t);

	if (!j || !j->box->standing)
		return;
	j->box->standing = false;
	j->box->traits = 0;
	atomic_fetch_sub(&j->store->n_standing, 1);
	box_store(j, forget_done, NULL);
}

/* ---- keys and dead letters of other runs -------------------------------- */

struct keys_job {
	struct store_job job;
	struct store_read read;
	struct journal *journal;
};

static void
take_key(struct journal *j, const struct store_row *row)
{
	struct session *t = j->session;
	const char *key = (const char *)row->key + sizeof(uint64_t);
	size_t size = row->key_size - sizeof(uint64_t);
	uint64_t since;

	if (row->size != sizeof(since) || !size || size > MSG_KEY_MAX)
		return;
	memcpy(&since, row->data, sizeof(since));
	if (!aside_restore_key(j->sched, t, key, (uint8_t)size, since))
		journal_drop_key(t, key, (uint8_t)size);
}

static void
read_some(struct journal *j)
{
	if (j->keys_known && j->timers_known && j->state_known)
		journal_is_read(j);
}

/* What came meanwhile, and is not known, is new. */
static void
keys_are_known(struct sched *s, struct journal *j)
{
	uint64_t id = j->session ? atomic_load(&j->session->id) : 0;
	struct msg *m;

	j->keys_known = true;
	while (j->session && (m = msg_queue_pop(&j->early))) {
		m->to = id;
		if (sched_post(s, m))
			msg_end(s, j->session, m, MSG_END_REFUSED,
				EVD_STATUS_FULL, NULL);
	}
	read_some(j);
}

static void
keys_done(struct sched *s, struct store_job *job)
{
	struct keys_job *k = container_of(job, struct keys_job, job);
	struct journal *j = k->journal;

	j->n_loads--;
	if (job->status)
		log_err("store.unreadable",
			"mailbox=\"%s\" what=keys reason=\"%s\"", j->box->name,
			strerror(-job->status));
	for (uint32_t i = 0; j->session && i < k->read.n; i++)
		take_key(j, &k->read.rows[i]);
	keys_are_known(s, j);
	free(k->read.rows);
	free(k);
	journal_unref(j);
}

static void
dead_done(struct sched *s, struct store_job *job)
{
	struct keys_job *k = container_of(job, struct keys_job, job);
	struct journal *j = k->journal;

	j->n_loads--;
	for (uint32_t i = 0; j->session && i < k->read.n; i++) {
		const struct store_row *row = &k->read.rows[i];
		uint64_t no;

		if (row->key_size != 2 * sizeof(no))
			continue;
		memcpy(&no, row->key + sizeof(no), sizeof(no));
		dead_restore(s, j->session, __builtin_bswap64(no), row->data,
			row->size);
	}
	free(k->read.rows);
	free(k);
	journal_unref(j);
}

typedef void (*read_done_fn)(struct sched *s, struct store_job *job);

static bool read_piece(struct journal *j, unsigned table,
	const struct store_row *after, read_done_fn done);

static void
timers_done(struct sched *s, struct store_job *job)
{
	struct keys_job *k = container_of(job, struct keys_job, job);
	struct journal *j = k->journal;
	bool more = false;

	j->n_loads--;
	if (job->status)
		log_err("store.unreadable",
			"mailbox=\"%s\" what=timers reason=\"%s\"",
			j->box->name, strerror(-job->status));
	for (uint32_t i = 0; j->session && i < k->read.n; i++)
		delay_restore(s, j->session, &k->read.rows[i]);
	if (j->session && k->read.more && k->read.n)
		more = read_piece(j, STORE_TIMERS, &k->read.rows[k->read.n - 1],
			timers_done);
	free(k->read.rows);
	free(k);
	if (!more) {
		j->timers_known = true;
		read_some(j);
	}
	journal_unref(j);
}

/* Without all of it the session must not start. */
static void
state_done(struct sched *s, struct store_job *job)
{
	struct keys_job *k = container_of(job, struct keys_job, job);
	struct journal *j = k->journal;
	bool more = false;

	(void)s;
	j->n_loads--;
	j->state_status = job->status;
	for (uint32_t i = 0; j->session && i < k->read.n; i++)
		state_restore(j->session, &k->read.rows[i]);
	if (j->session && k->read.more && k->read.n && !j->state_status) {
		more = read_piece(j, STORE_STATE, &k->read.rows[k->read.n - 1],
			state_done);
		if (!more)
			j->state_status = -ENOMEM;
	}
	free(k->read.rows);
	free(k);
	if (!more) {
		j->state_known = true;
		read_some(j);
	}
	journal_unref(j);
}

static void
read_state(struct journal *j)
{
	j->state_status = 0;
	j->state_known = false;
	if (read_piece(j, STORE_STATE, NULL, state_done))
		return;
	j->state_status = -ENOMEM;
	j->state_known = true;
}

/* All rows of @table that are of @j; false: out of memory. */
static bool
read_all(struct journal *j, unsigned table, uint32_t max,
	void (*done)(struct sched *s, struct store_job *job))
{
	struct keys_job *k = FAULT(read_keys) ? NULL : calloc(1, sizeof(*k));

	if (!k)
		return false;
	k->journal = j;
	batch_key(k->read.from, j, 0, 0);
	k->read.from_size = k->read.prefix = sizeof(uint64_t);
	k->read.table = (uint8_t)table;
	k->read.also = STORE_TABLES;
	k->read.max_rows = max;
	k->read.max_size = j->sched->kernel->limits.dead_bytes;
	k->job.read = &k->read;
	k->job.sched = j->sched;
	k->job.done = done;
	j->n_loads++;
	j->store->ops->submit(j->store, &k->job, &k->job);
	return true;
}

/* A piece of those, behind @after if that is not NULL. */
static bool
read_piece(struct journal *j, unsigned table, const struct store_row *after,
	read_done_fn done)
{
	struct keys_job *k = FAULT(read_piece) ? NULL : calloc(1, sizeof(*k));

	if (!k)
		return false;
	k->journal = j;
	batch_key(k->read.from, j, 0, 0);
	k->read.from_size = k->read.prefix = sizeof(uint64_t);
	if (after) { /* the first key behind it: one NUL longer */
		memcpy(k->read.from, after->key, after->key_size);
		k->read.from_size = (uint16_t)(after->key_size + 1);
		k->read.from[after->key_size] = 0;
	}
	k->read.table = (uint8_t)table;
	k->read.also = STORE_TABLES;
	k->read.max_rows = PIECE_ROWS;
	k->read.max_size = PIECE_SIZE;
	k->job.read = &k->read;
	k->job.sched = j->sched;
	k->job.done = done;
	j->n_loads++;
	j->store->ops->submit(j->store, &k->job, &k->job);
	return true;
}

void
journal_read_rest(struct journal *j)
{
	const struct kernel_limits *limits = &j->sched->kernel->limits;

	read_state(j);
	if (!read_piece(j, STORE_TIMERS, NULL, timers_done))
		j->timers_known = true;
	if (!read_all(j, STORE_KEYS, limits->max_keys, keys_done))
		j->keys_known = true;
	read_some(j);
	if (limits->dead_letters)
		read_all(j, STORE_DEAD, limits->dead_letters, dead_done);
}

/* ---- ready --------------------------------------------------------------- */

bool
journal_is_ready(const struct session *t)
{
	return !session_journal(t) || session_journal(t)->ready;
}

bool
journal_lets_start(struct session *t)
{
	struct journal *j = session_journal(t);

	if (!j || (j->ready && !j->state_status))
		return true;
	if (j->ready && !j->n_loads) { /* it is asked to start once more */
		j->ready = false;
		atomic_fetch_add(&j->sched->kernel->n_unready, 1);
		state_free(t);
		read_state(j);
		read_some(j);
	}
	return false;
}

static void
refuse_start(struct journal *j)
{
	char text[256];

	snprintf(text, sizeof(text), "its durable state cannot be read: %s",
		strerror(-j->state_status));
	life_refuse(j->session, text);
}

void
journal_await(struct session *t, struct journal_wait *w)
{
	struct journal *j = session_journal(t);

	w->next = j->waits;
	j->waits = w;
}

void
journal_is_read(struct journal *j)
{
	struct journal_wait *w, *next;

	if (j->ready)
		return;
	j->ready = true;
	atomic_fetch_sub(&j->sched->kernel->n_unready, 1);
	if (j->session && j->session->spec)
		schedule_arm(j->session);
	if (j->session && j->state_status)
		refuse_start(j);
	else if (j->session)
		sched_enqueue(j->sched, j->session);
	for (w = TAKE(j->waits); w; w = next) {
		next = w->next;
		w->ready(w, j->sched);
	}
}
