#pragma once
/* Delays: events that become due later, by elapsed time, at a wall-clock time
 * or by a calendar, once or again and again. Each lives on the scheduler that
 * set it and goes, when due, to whoever holds its alias then. One thread.
 *
 * A pending delay takes 88 bytes, and no others if its event and payload are
 * short: the message is made when it is due. Of these 64 are a cache line and
 * all that setting, finding and cancelling it touches; the rest, whom it goes
 * to and what, is its parcel. What few delays have (a name, a repetition,
 * slack, a calendar, headers) is apart. */
#include <stdbool.h>
#include <stdint.h>

#include "kernel/delay_past.h"
#include "kernel/timers.h"

struct alias;
struct calendar;
struct delay_stored;
struct sched;
struct session;

/* The wire's numbers. */
enum delay_clock {
	DELAY_MONOTONIC, /* stands still while the machine is suspended */
	DELAY_BOOTTIME,  /* does not */
	DELAY_WALL,      /* may be set */
	DELAY_CLOCKS,
};

/* What becomes of calendar times that passed unseen: the machine was
 * suspended, or its clock was set. The wire's numbers. */
enum delay_misfire {
	DELAY_ONCE, /* one event, for the first of them */
	DELAY_SKIP, /* nothing */
	DELAY_ALL,  /* one for each, DELAYS_MISSED_MAX at most */
	DELAY_MISFIRES,
};

enum delay_flag {
	DELAY_ALIAS = 1,     /* to an alias, not to a session */
	DELAY_APART = 2,     /* event and payload are not within */
	DELAY_SELF = 4,      /* to its owner itself: goes with it */
	DELAY_SCHEDULE = 8,  /* of its session's spec */
	DELAY_BY_ALIAS = 16, /* its name counts for its alias, not its owner */
	DELAY_LISTED = 32,   /* is in session.delays of its owner */
	DELAY_URGENT = 64,   /* its events are MSG_URGENT */
	DELAY_STORED = 128,  /* more.stored */
};

enum {
	DELAY_FEW = 12,       /* bytes of event and payload, each with a NUL */
	DELAY_NAME_MAX = 127, /* bytes, of the alphabet of events */
	DELAYS_MISSED_MAX = 1000,
	DELAYS_DEAD_MAX = 16,
	/* A calendar time that is seen this much later has been missed. */
	DELAY_MISSED_MS = 1000,
};

struct delay_more {
	struct delay_more *chain; /* in the table of names */
	struct delay *delay;
	uint64_t hash;      /* of the name */
	uint64_t due_ns;    /* as asked for; the timer's has slack in it */
	uint64_t repeat_ns; /* 0: once */
	uint64_t slack_ns;
	uint64_t last_ns; /* calendar: the last that fired */
	uint64_t ttl_ns;  /* an event's life, from when it fires; 0: any */
	struct calendar *calendar;   /* a reference */
	struct delay_stored *stored; /* NULL: it is not in the store */
	uint32_t headers_size;       /* behind the payload */
	uint16_t n_missed;           /* in a row */
	uint8_t misfire;             /* enum delay_misfire */
	uint8_t name_size;           /* 0: it has none */
	char name[];                 /* NUL-terminated */
};

struct delay {
	/* TIMER_DELAY; .a is the clock, .b flags, .c the event's bytes, .size
	 * the payload's */
	struct timer timer;
	uint64_t id;             /* 0: free */
	uint64_t owner;          /* session that set it; 0: none */
	uint32_t next, prev;     /* slots + 1: of its owner's, or free ones */
	struct delay_more *more; /* NULL: it has nothing of that */
};

struct delay_parcel {
	union {
		struct alias *alias; /* a reference */
		uint64_t to;
	};
	union {
		struct {
			uint8_t few[DELAY_FEW]; /* event, NUL, payload, NUL */
			uint32_t uid;           /* the user that set it */
		};
		uint8_t *apart; /* the same and headers */
	};
};

/* As many as a huge page holds. It lies at a multiple of its size, so that a
 * delay finds its parcel. */
enum {
	DELAY_CHUNK_SIZE = 2 * 1024 * 1024,
	DELAY_CHUNK = DELAY_CHUNK_SIZE /
		      (sizeof(struct delay) + sizeof(struct delay_parcel)),
};
struct delay_chunk {
	struct delay delays[DELAY_CHUNK];
	struct delay_parcel parcels[DELAY_CHUNK];
};

struct delays {
	struct delay_chunk **chunks;
	uint32_t n_chunks, max_chunks;
	uint32_t n_used; /* slots that have been in use */
	uint32_t free;   /* the first free one + 1 */
	uint32_t n;
	uint32_t n_calendars;
	uint64_t size;       /* bytes charged */
	uint64_t last;       /* counts delays: the generation in ids */
	uint64_t wall_turn;  /* the turn in which wall_ahead was looked up: */
	uint64_t wall_ahead; /* of the wall clock before the monotonic one */
	unsigned sched;
	uint32_t n_names, n_buckets;
	struct delay_more **names; /* hash table; NULL: there are none */
	uint32_t n_stored, n_stored_buckets;
	struct delay_stored **stored; /* likewise: by id */
	/* Slots of plain ones that have been cancelled, but are not out of
	 * their rings yet: see delays_bury(). */
	uint32_t n_dead;
	uint32_t dead[DELAYS_DEAD_MAX];
	struct delay_past past;
};

/* Bytes that the delays of one scheduler hold, for they outlive whoever set
 * them. */
enum { DELAYS_SIZE_MAX = 256 << 20 };

enum {
	DELAY_E_LIMIT = 1, /* MaxTimers= or DELAYS_SIZE_MAX is reached */
	DELAY_E_NO_ALIAS = 2,
	DELAY_E_FIRED = 3,    /* no such timer: fired, cancelled or never was */
	DELAY_E_NEVER = 4,    /* its calendar has no time to come */
	DELAY_E_CALENDAR = 5, /* one with a calendar has no other repetition */
	DELAY_E_VOLATILE = 6, /* the mailbox is not durable */
	DELAY_E_STORE = 7,    /* the store has failed */
};

/* Where, what and when. Everything is copied, but for a reference taken to the
 * calendar. */
struct delay_init {
	const char *alias; /* NULL: to session @to */
	uint32_t alias_size;
	uint64_t to;
	const char *event; /* valid */
	uint8_t event_size;
	const void *data;
	uint32_t size;
	const void *headers; /* encoded */
	uint32_t headers_size;
	enum delay_clock clock;
	uint64_t due_ns; /* of that clock */
	uint64_t repeat_ns;
	uint64_t slack_ns; /* may be so much late, to fire with others */
	struct calendar *calendar; /* instead of clock, due_ns, repeat_ns */
	enum delay_misfire misfire;
	/* An earlier one of that name is cancelled: of the same owner or, if
	 * @by_alias, to the same alias. */
	const char *name;
	uint8_t name_size;
	bool by_alias;
	uint64_t ttl_ns; /* of each event; 0: no end */
	bool urgent;     /* each event goes before those that are not */
	bool schedule;   /* of the owner's spec: a crash does not end it */
	uint64_t owner;  /* if it is on another scheduler */
	bool stored;     /* delay_set_stored() has to be called */
	bool restored;   /* ... it was, in another run */
	bool has_uid;    /* else the daemon's own session sets it */
	uint32_t uid;
};

/* uid of a delay that no user has set. */
#define DELAY_NO_UID UINT32_MAX

struct delay_own {
	const char *event; /* valid */
	const void *data;
	uint64_t due_ns;
	uint32_t size;
	uint8_t event_size;
};

/* Set it. @owner, of this scheduler, may be NULL. *@id and *@replaced (0: none)
 * may be NULL. 0, DELAY_E_LIMIT, DELAY_E_NO_ALIAS, DELAY_E_NEVER or -ENOMEM. */
int delay_set(struct sched *s, struct session *owner,
	const struct delay_init *init, uint64_t *id, uint64_t *replaced);
/* Who is told when something of a delay is in the store, or why it is not. */
struct delay_told {
	struct delay_told *next;
	void (*told)(struct delay_told *t, struct sched *s, int r);
	uint64_t id, replaced;
	uint64_t due_ns; /* of the wall clock */
	uint32_t after;  /* delays' own: the row that it waits for */
};
/* Set one that is in the store, with the mailbox of @t, which lives here and
 * holds init->alias or is init->to, and journal_is_ready(). It is armed when
 * that is safe, and then @told, which may be NULL, is told: 0, or
 * DELAY_E_STORE. The same errors as delay_set(), or DELAY_E_VOLATILE: then
 * nobody is told. */
int delay_set_stored(struct sched *s, struct session *owner, struct session *t,
	const struct delay_init *init, struct delay_told *told);
/* What most delays are: to @owner itself, after elapsed time, once. @init has
 * no more than event, data and due_ns. The same errors. */
int delay_set_own(struct sched *s, struct session *owner,
	const struct delay_own *init, uint64_t *id);
/* When a delay of @wait_ns that is set now is due, by the monotonic clock. */
uint64_t delay_due_in(struct sched *s, uint64_t wait_ns);
/* All by id are for the scheduler that holds it, see delay_sched(). */
int delay_cancel(struct sched *s, uint64_t id);
/* The same of one that is delay_is_stored(): @told when its end is safe. */
int delay_cancel_told(struct sched *s, uint64_t id, struct delay_told *told);
struct delay *delay_find(struct delays *d, uint64_t id);
/* What has become of the delay @id. */
enum delay_fate delay_fate(const struct delays *d, uint64_t id);
/* Session that set it; 0: none, or no such timer. */
uint64_t delay_owner(struct sched *s, uint64_t id);

/* The user whose client set it, also when that has gone; DELAY_NO_UID: none. */
static inline uint32_t delay_uid(const struct delay *delay);

/* What to change of a pending one. */
struct delay_change {
	bool due;  /* it is due at due_ns of the wall clock, if wall, or */
	bool wall; /* else in due_ns from now by the clock it has */
	uint64_t due_ns;
	bool repeat; /* and then every repeat_ns; 0: once */
	uint64_t repeat_ns;
};
/* 0, DELAY_E_FIRED, DELAY_E_CALENDAR or -ENOMEM. */
int delay_adjust(
	struct sched *s, uint64_t id, const struct delay_change *change);

/* The same of one that is delay_is_stored(): @told when that is safe. */
int delay_adjust_told(struct sched *s, uint64_t id,
	const struct delay_change *change, struct delay_told *told);

/* The id of the delay called @name that session @owner set, or, if @alias is
 * not NULL, of the one for it; 0: there is none here. */
uint64_t delay_named(struct sched *s, uint64_t owner, const struct alias *alias,
	const char *name, size_t size);
/* What has become of the last that had the name @name here and is pending no
 * more: one that session @owner set or, if @alias is not NULL, one for that
 * alias, which may be nobody's now. */
struct delay_name {
	uint64_t owner;
	const char *alias, *name;
	size_t alias_size, size;
};
enum delay_fate delay_fate_of_name(
	struct sched *s, const struct delay_name *name);
/* The scheduler where the names of an alias are kept. */
unsigned delay_names_home(const struct sched *s, const struct alias *alias);

/* Cancel all that @owner set, but for its schedule: how many. */
uint32_t delays_cancel_all(struct sched *s, struct session *owner);
/* All here to the alias called @name, or to the session that holds it; but with
 * @uid those alone that this user has set. */
uint32_t delays_cancel_alias(
	struct sched *s, const char *name, size_t size, uint32_t uid);
/* All that @owner set for itself: its state goes; with @schedule also those of
 * its spec: it goes itself. */
void delays_cancel_owned(struct sched *s, struct session *owner, bool schedule);
void delay_fire(struct sched *s, struct timer *timer); /* it is due */
/* Take what has been cancelled out of the wheel and the lists of owners. To be
 * called in every turn after sessions have run. */
static inline void delays_bury(struct sched *s, struct delays *d);
void delays_bury_them(struct sched *s);
/* The wall clock was set: calendars may come earlier now. */
void delays_clock_set(struct sched *s);
/* The zones of the kernel have been forgotten: their files may be others now.
 * Calendars go by them from now on; nothing fires for that. */
void delays_zones_changed(struct sched *s);

/* ---- looking ----------------------------------------------------------- */

/* An id that is good in all runs, on whatever scheduler the delay is. */
#define DELAY_ID_STORED (UINT64_C(1) << 62)
static inline bool
delay_id_is_stored(uint64_t id)
{
	return id & DELAY_ID_STORED;
}
static inline bool
delay_is_stored(const struct delay *delay)
{
	return delay->timer.b & DELAY_STORED;
}
/* What others know it by. */
uint64_t delay_public_id(const struct delay *delay);

static inline unsigned
delay_sched(uint64_t id)
{
	return id & 63;
}
static inline enum delay_clock
delay_clock(const struct delay *delay)
{
	return (enum delay_clock)delay->timer.a;
}
static inline struct delay_parcel *
delay_parcel(const struct delay *delay)
{
	uintptr_t at = (uintptr_t)delay & (DELAY_CHUNK_SIZE - 1);

	return &((struct delay_chunk *)((uintptr_t)delay - at))
			->parcels[at / sizeof(*delay)];
}
static inline uint32_t
delay_uid(const struct delay *delay)
{
	return delay_parcel(delay)->uid;
}
static inline const uint8_t *
delay_bytes(const struct delay *delay)
{
	struct delay_parcel *parcel = delay_parcel(delay);

	return delay->timer.b & DELAY_APART ? parcel->apart : parcel->few;
}
/* NUL-terminated */
static inline const char *
delay_event(const struct delay *delay)
{
	return (const char *)delay_bytes(delay);
}
/* As asked for, of its clock. */
static inline uint64_t
delay_due_ns(const struct delay *delay)
{
	return delay->more ? delay->more->due_ns : delay->timer.due_ns;
}
/* What @clock says now. */
uint64_t delay_now(const struct sched *s, enum delay_clock clock);
/* The same of the wall clock, as it stands now. */
uint64_t delay_due_wall_ns(const struct sched *s, const struct delay *delay);
/* "" if it has none */
static inline const char *
delay_name(const struct delay *delay)
{
	return delay->more ? delay->more->name : "";
}
/* The next that @owner set, after @delay or, if NULL, the first. */
struct delay *delays_next_of(struct delays *d, const struct session *owner,
	const struct delay *delay);
/* The pending delay in the next slot after that of the id @after, which may be
 * gone, or NULL: for pages. 0: the first. */
struct delay *delays_next(struct delays *d, uint64_t after);
static inline void
delays_bury(struct sched *s, struct delays *d)
{
	if (d->n_dead)
		delays_bury_them(s);
}
void delays_init(struct delays *d, unsigned sched);
void delays_deinit(struct sched *s);

/* ---- the table of names: delay_names.c ---------------------------------- */

/* @delay->more has a name, and no other has it in its scope. -ENOMEM. */
int delay_names_add(struct sched *s, struct delay *delay);
void delay_names_remove(struct sched *s, struct delay *delay);
/* It is to be known what has become of @delay, if it has a name. */
void delay_names_past(
	struct sched *s, const struct delay *delay, enum delay_fate fate);
