/* The figures are a small hash table per session, made when the session first
 * runs something while it is profiled. A scheduler's thread each. */
#include "stats/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"
#include "kernel/sched.h"

enum {
	ROOM_MIN = 4,        /* places of a table; at most half are taken */
	BASE_NS = NS_PER_MS, /* shortest base of a comparison of clocks */
};

struct figures {
	struct profile head;
	struct profile_row *rows; /* room of them, a power of two */
	/* Mostly asked for again, with its name in words. */
	struct profile_row *last;
	uint64_t last_head, last_tail;
	uint32_t room, n;
	uint32_t own, reset; /* see struct profiling */
};

/* ---- ticks ------------------------------------------------------------- */

/* A counter that runs at one speed, whatever the CPU does, or none. */
static bool
has_steady_tsc(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
#else
	return false;
#endif
}

static inline uint64_t
tsc(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return 0;
#endif
}

static inline uint64_t
ticks(const struct sched *s)
{
	return s->profile.tsc ? tsc() : clock_now(s->kernel->clock);
}

static bool
kernel_has_tsc(const struct kernel *k)
{
	return k->clock == &clock_system && has_steady_tsc();
}

/* The two clocks are compared over the whole time since profile_init(). */
uint64_t
profile_ns(const struct kernel *k, uint64_t n)
{
	uint64_t ns, passed;

	if (!k->profile_ticks)
		return n;
	do {
		ns = clock_now(k->clock) - k->profile_ns;
		passed = tsc() - k->profile_ticks;
	} while (ns < BASE_NS);
	return (uint64_t)((double)n * ((double)ns / (double)passed));
}

/* ---- the table --------------------------------------------------------- */

static uint32_t
hash_of(const char *event, uint8_t size)
{
	uint32_t hash = size;

	for (uint8_t i = 0; i < size; i++)
		hash = (hash ^ (uint8_t)event[i]) * 0x01000193u;
	return hash ^ hash >> 15;
}

static void
rows_free(struct figures *p)
{
	for (uint32_t i = 0; i < p->room; i++)
		free(p->rows[i].event);
	free(p->rows);
	p->rows = p->last = NULL;
	p->room = p->n = 0;
}

/* The row of the event, or the free place for it. */
static struct profile_row *
row_seek(struct figures *p, const char *event, uint8_t size, uint32_t hash)
{
	for (uint32_t i = hash;; i++) {
		struct profile_row *row = &p->rows[i & (p->room - 1)];

		if (!row->event ||
			(row->hash == hash && row->size == size &&
				memcmp(row->event, event, size) == 0))
			return row;
	}
}

static int
rows_grow(struct figures *p)
{
	struct figures bigger = {.room = p->room ? 2 * p->room : ROOM_MIN};

	bigger.rows = FAULT(profile_rows)
			      ? NULL
			      : calloc(bigger.room, sizeof(*bigger.rows));
	if (!bigger.rows)
		return err_raise(-ENOMEM);
	for (uint32_t i = 0; i < p->room; i++) {
		struct profile_row *row = &p->rows[i];

		if (row->event)
			*row_seek(&bigger, row->event, row->size, row->hash) =
				*row;
	}
	free(p->rows);
	p->rows = bigger.rows;
	p->room = bigger.room;
	p->last = NULL;
	return 0;
}

static struct profile_row *
row_add(struct figures *p, const char *event, uint8_t size, uint32_t hash)
{
	struct profile_row *row;

	if (2 * (p->n + 1) > p->room && rows_grow(p))
		return NULL;
	row = row_seek(p, event, size, hash);
	row->event = malloc(size + 1u);
	if (!row->event)
		return NULL;
	memcpy(row->event, event, size);
	row->event[size] = '\0';
	row->size = size;
	row->hash = hash;
	p->n++;
	return row;
}

static struct figures *
figures_of(const struct session *t)
{
	return t->health ? (struct figures *)t->health->profile : NULL;
}

static void on_gone(struct sched *s, struct session *t);

static struct figures *
figures_make(struct session *t)
{
	struct figures *p = figures_of(t);

	if (p)
		return p;
	p = FAULT(profile_new) || !session_health(t) ? NULL
						     : calloc(1, sizeof(*p));
	if (p) {
		p->head.gone = on_gone;
		t->health->profile = &p->head;
	}
	return p;
}

/* It was asked for, and all were not switched since. */
static bool
is_own(const struct sched *s, const struct figures *p)
{
	return p && p->own == s->profile.own + 1;
}

/* A name of up to 16 bytes is these two words and its size. */
static inline uint64_t
name_tail(const char *event, uint8_t size)
{
	return size > 8 ? hash_load(event + size - 8, 8) : 0;
}

static inline bool
is_last(const struct figures *p, const char *event, uint8_t size)
{
	const struct profile_row *row = p->last;

	return row && row->size == size &&
	       p->last_head == hash_load(event, size) &&
	       p->last_tail == name_tail(event, size) &&
	       (size <= 16 || memcmp(row->event, event, size) == 0);
}

static struct profile_row *
row_keep(struct figures *p, struct profile_row *row)
{
	if (row) {
		p->last_head = hash_load(row->event, row->size);
		p->last_tail = name_tail(row->event, row->size);
	}
	return p->last = row;
}

/* NULL: it is not profiled, or out of memory. */
__attribute__((noinline)) static struct profile_row *
row_look_up(struct sched *s, struct session *t, const char *event, uint8_t size)
{
	static const char other[] = "(other)";
	struct figures *p = figures_of(t);
	struct profile_row *row;
	uint32_t hash;

	if (!s->profile.all && !is_own(s, p))
		return NULL;
	p = p ? p : figures_make(t);
	if (!p)
		return NULL;
	if (p->reset != s->profile.reset) {
		rows_free(p);
		p->reset = s->profile.reset;
	}
	hash = hash_of(event, size);
	row = p->room ? row_seek(p, event, size, hash) : NULL;
	if (row && row->event)
		return row_keep(p, row);
	if (p->n < PROFILE_ROWS_MAX)
		return row_keep(p, row_add(p, event, size, hash));
	if (size == sizeof(other) - 1 && memcmp(event, other, size) == 0)
		return row_add(p, event, size, hash);
	return row_look_up(s, t, other, sizeof(other) - 1);
}

static inline struct profile_row *
row_find(struct sched *s, struct session *t, const char *event, uint8_t size)
{
	struct figures *p = figures_of(t);

	if (p && s->profile.all && p->reset == s->profile.reset &&
		is_last(p, event, size))
		return p->last;
	return row_look_up(s, t, event, size);
}

/* ---- what the kernel tells --------------------------------------------- */

static void
on_lap(struct sched *s)
{
	s->profile.lap = ticks(s);
}

static void
add_wait(struct profile_row *row, uint64_t wait)
{
	row->wait += wait;
	if (wait > row->wait_max)
		row->wait_max = wait;
}

static void
add_late(struct profile_row *row, uint64_t late_ns)
{
	row->n_late++;
	row->late_ns += late_ns;
	if (late_ns > row->late_max_ns)
		row->late_max_ns = late_ns;
}

static void
on_ran(struct sched *s, struct session *t, struct msg *m, int result)
{
	uint64_t begin = s->profile.lap, now = ticks(s);
	struct profile_row *row;

	s->profile.lap = now;
	if (result == SESSION_HELD)
		return;
	row = row_find(s, t, m->event, m->event_size);
	if (!row)
		return;
	row->calls++;
	row->own += now - begin;
	begin -= s->profile.blocked;
	if (m->stamp && m->stamp < begin)
		add_wait(row, begin - m->stamp);
	if (msg_late_ns(m))
		add_late(row, msg_late_ns(m));
	m->stamp = begin;
	if (result != SESSION_WAIT && result != SESSION_LEASED)
		row->whole += now - begin;
}

static void
on_was_away(struct sched *s, uint64_t wall_ns, uint64_t cpu_ns)
{
	const struct kernel *k = s->kernel;
	double rate = (double)profile_ns(k, 1 << 20) / (1 << 20);

	if (wall_ns < cpu_ns)
		wall_ns = cpu_ns;
	s->profile.lap = ticks(s) - (uint64_t)((double)cpu_ns / rate);
	s->profile.blocked = (uint64_t)((double)(wall_ns - cpu_ns) / rate);
}

/* It may have been taken before profiling began: then its stamp is 0, and only
 * what is spent now is known. */
static void
on_over(struct sched *s, struct session *t, struct msg *m, bool inside)
{
	uint64_t begin = s->profile.lap, now = ticks(s);
	struct profile_row *row;

	row = row_find(s, t, m->event, m->event_size);
	if (inside) {
		s->profile.lap = now;
		if (row)
			row->own += now - begin;
	}
	if (row && m->stamp)
		row->whole += now - m->stamp;
}

static void
on_spent(struct sched *s, struct session *t, const char *what, uint8_t size)
{
	uint64_t begin = s->profile.lap, now = ticks(s);
	struct profile_row *row;

	s->profile.lap = now;
	row = row_find(s, t, what, size);
	if (!row)
		return;
	row->own += now - begin;
	if (t->current) /* it goes on with that: counted when it is over */
		return;
	row->calls++;
	row->whole += now - begin;
}

static const struct profile_ops profile_ops;

/* On if there is somebody to measure. */
static void
switch_ops(struct sched *s)
{
	bool on = s->profile.all || s->profile.n_own;

	if (on && !s->profile.inner)
		on_lap(s);
	profiling_set(s, on ? &profile_ops : NULL);
}

static void
on_gone(struct sched *s, struct session *t)
{
	struct figures *p = figures_of(t);
	uint32_t at = 0;

	for (const struct profile_row *row; (row = profile_next(s, t, &at));) {
		s->profile.gone_calls += row->calls;
		s->profile.gone_ticks += row->own;
	}
	profile_set(s, t, false);
	rows_free(p);
	free(p);
	t->health->profile = NULL;
}

static const struct profile_ops profile_ops = {
	.lap = on_lap,
	.ran = on_ran,
	.over = on_over,
	.spent = on_spent,
	.was_away = on_was_away,
};

/* ---- switching --------------------------------------------------------- */

void
profile_init(struct kernel *k)
{
	if (kernel_has_tsc(k)) {
		k->profile_ns = clock_now(k->clock);
		k->profile_ticks = tsc();
	}
	for (unsigned i = 0; i < k->n_scheds; i++) {
		struct sched *s = k->scheds[i];

		s->profile.tsc = k->profile_ticks != 0;
		profile_set_all(s, k->limits.profile);
	}
}

void
profile_set_all(struct sched *s, bool on)
{
	s->profile.all = on;
	s->profile.own++;
	s->profile.n_own = 0;
	switch_ops(s);
}

int
profile_set(struct sched *s, struct session *t, bool on)
{
	struct figures *p = figures_of(t);

	if (on == is_own(s, p))
		return 0;
	p = p ? p : figures_make(t);
	if (!p)
		return err_raise(-ENOMEM);
	p->own = on ? s->profile.own + 1 : 0;
	if (on)
		s->profile.n_own++;
	else
		s->profile.n_own--;
	switch_ops(s);
	return 0;
}

bool
profile_is_on(const struct sched *s, const struct session *t)
{
	return s->profile.all || is_own(s, figures_of(t));
}

void
profile_reset(struct sched *s)
{
	s->profile.reset++;
	s->profile.gone_calls = s->profile.gone_ticks = 0;
}

/* ---- reading ----------------------------------------------------------- */

const struct profile_row *
profile_next(const struct sched *s, const struct session *t, uint32_t *at)
{
	const struct figures *p = figures_of(t);

	if (!p || p->reset != s->profile.reset)
		return NULL;
	while (*at < p->room) {
		const struct profile_row *row = &p->rows[(*at)++];

		if (row->event)
			return row;
	}
	return NULL;
}

size_t
profile_memory(const struct session *t)
{
	const struct figures *p = figures_of(t);

	return p ? sizeof(*p) + p->room * sizeof(*p->rows) : 0;
}
