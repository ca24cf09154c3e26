#pragma once
/* Delays: events that become due later, by elapsed time, at a wall-clock time
 * or by a calendar, once or again and again. Each lives on the scheduler that
 * set it and goes, when due, to whoever holds its alias then. One thread.
 *
 * A pending delay takes 88 bytes, and no others if its event and payload are
 * short: the message is made when it is due. What few delays have (a name, a
 * repetition, slack, a calendar, headers) is apart. */
#include <stdbool.h>
#include <stdint.h>

#include "kernel/timers.h"

struct alias;
struct calendar;
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
};

enum {
	DELAY_FEW = 16, /* bytes of event and payload, each with a NUL */
	DELAY_CHUNK_BITS = 10,
	DELAY_NAME_MAX = 127, /* bytes, of the alphabet of events */
	DELAYS_MISSED_MAX = 1000,
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
	struct calendar *calendar; /* a reference */
	uint32_t headers_size;     /* behind the payload */
	uint16_t n_missed;         /* in a row */
	uint8_t misfire;           /* enum delay_misfire */
	uint8_t name_size;         /* 0: it has none */
	char name[];               /* NUL-terminated */
};

struct delay {
	/* TIMER_DELAY; .a is the clock, .b flags, .c the event's bytes, .size
	 * the payload's */
	struct timer timer;
	uint64_t id;    /* 0: free */
	uint64_t owner; /* session that set it; 0: none */
	union {
		struct alias *alias; /* a reference */
		uint64_t to;
	};
	uint32_t next, prev;     /* slots + 1: of its owner's, or free ones */
	struct delay_more *more; /* NULL: it has nothing of that */
	union {
		uint8_t few[DELAY_FEW]; /* event, NUL, payload, NUL */
		uint8_t *apart;         /* the same and headers */
	};
};

struct delays {
	struct delay **chunks;
	uint32_t n_chunks, max_chunks;
	uint32_t n_used; /* slots that have been in use */
	uint32_t free;   /* the first free one + 1 */
	uint32_t n;
	uint32_t n_calendars;
	uint64_t size; /* bytes charged */
	uint64_t last; /* counts delays: the generation in ids */
	unsigned sched;
	uint32_t n_names, n_buckets;
	struct delay_more **names; /* hash table; NULL: there are none */
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
};

/* Set it. @owner, of this scheduler, may be NULL. *@id and *@replaced (0: none)
 * may be NULL. 0, DELAY_E_LIMIT, DELAY_E_NO_ALIAS, DELAY_E_NEVER or -ENOMEM. */
int delay_set(struct sched *s, struct session *owner,
	const struct delay_init *init, uint64_t *id, uint64_t *replaced);
/* All by id are for the scheduler that holds it, see delay_sched(). */
int delay_cancel(struct sched *s, uint64_t id);
struct delay *delay_find(struct delays *d, uint64_t id);
/* Session that set it; 0: none, or no such timer. */
uint64_t delay_owner(struct sched *s, uint64_t id);

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

/* The id of the delay called @name that session @owner set, or, if @alias is
 * not NULL, of the one for it; 0: there is none here. */
uint64_t delay_named(struct sched *s, uint64_t owner, const struct alias *alias,
	const char *name, size_t size);
/* The scheduler where the names of an alias are kept. */
unsigned delay_names_home(const struct sched *s, const struct alias *alias);

/* Cancel all that @owner set, but for its schedule: how many. */
uint32_t delays_cancel_all(struct sched *s, struct session *owner);
/* All here to the alias called @name, or to the session that holds it. */
uint32_t delays_cancel_alias(struct sched *s, const char *name, size_t size);
/* All that @owner set for itself: its state goes; with @schedule also those of
 * its spec: it goes itself. */
void delays_cancel_owned(struct sched *s, struct session *owner, bool schedule);
void delay_fire(struct sched *s, struct timer *timer); /* it is due */
/* The wall clock was set: calendars may come earlier now. */
void delays_clock_set(struct sched *s);

/* ---- looking ----------------------------------------------------------- */

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
static inline const uint8_t *
delay_bytes(const struct delay *delay)
{
	return delay->timer.b & DELAY_APART ? delay->apart : delay->few;
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
void delays_init(struct delays *d, unsigned sched);
void delays_deinit(struct sched *s);

/* ---- where they live: delay_slots.c -------------------------------------- */

/* A free slot, with an id and armed nowhere. -ENOMEM. */
int delay_slot_take(struct delays *d, struct delay **out);
void delay_slot_give(struct delays *d, struct delay *delay);
/* Into and out of the list of its owner. */
void delay_list_in(
	struct delays *d, struct session *owner, struct delay *delay);
void delay_list_out(struct sched *s, struct delay *delay);

/* ---- the table of names: delay_names.c ---------------------------------- */

/* @delay->more has a name, and no other has it in its scope. -ENOMEM. */
int delay_names_add(struct sched *s, struct delay *delay);
void delay_names_remove(struct sched *s, struct delay *delay);
