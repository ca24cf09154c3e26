#pragma once
/* Users: what each user (uid) makes the daemon hold, on whatever loops, and how
 * much of it he may. Shared by all threads: what is used and may be used are
 * atomic numbers; the table, the limits and all that is seldom stand under a
 * mutex. A user stays in the table while anything is charged to him, so that
 * his index means him. Index 0 is nobody, to whom nothing is charged.
 *
 * Events and bytes of posts change too often for that: each scheduler gathers
 * them in a struct charges and adds them up once a turn. So loops may overshoot
 * a limit by what they accept in one turn. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum charge_kind {
	CHARGE_CONNECTIONS,
	CHARGE_GREETING, /* connections that have not said hello */
	CHARGE_EVENTS,   /* posts and calls that are queued, parked or held */
	CHARGE_BYTES,    /* their payloads and headers, and those of timers */
	CHARGE_TIMERS,
	CHARGE_ALIASES, /* bindings */
	CHARGE_CALLS,   /* outstanding */
	CHARGE_WATCHES, /* of names, sessions and the like */
	CHARGE_RATE,    /* connections a second; not held, but limited */
	CHARGE_BURST,   /* connections at once beyond the rate; likewise */
	CHARGE_HELLO,   /* ms to a connection's hello; likewise */
	CHARGES,
};
/* Keys of [Limits], by enum charge_kind. */
extern const char *const charge_keys[CHARGES + 1];

enum { USERS_MAX = UINT16_MAX, USERS_BUCKETS = 256 };

/* One limit: UINT64_MAX is none. */
struct limit {
	uint64_t max;
	char *from; /* "FILE:LINE"; NULL: the default */
};

/* What differs for one user. */
struct limit_override {
	uint32_t uid;
	uint32_t set; /* bit i: limits[i] is given */
	struct limit limits[CHARGES];
};

/* As configured; immutable from users_set_limits() on. */
struct limits {
	struct limit all[CHARGES];
	struct limit_override *overrides; /* n_overrides */
	size_t n_overrides;
	/* Those who by default may have all connections that there are. */
	uint32_t owner;
	bool own; /* a user's own daemon */
	uint64_t max_connections;
};
/* With the defaults; NULL: out of memory. */
struct limits *limits_new(uint32_t owner, bool own);
/* All has been set; so many connections there may be, and so long they may take
 * to say hello. */
void limits_finish(
	struct limits *l, uint64_t max_connections, uint32_t hello_ms);
struct limits *limits_free(struct limits *l);
/* @uid NULL: of all. A later one replaces. 0 or -ENOMEM. */
int limits_set(struct limits *l, const uint32_t *uid, enum charge_kind kind,
	uint64_t max, const char *from);

struct user {
	struct user *chain; /* of the same bucket; under the mutex */
	uint32_t index;
	_Atomic uint32_t uid;
	_Atomic int64_t used[CHARGES];
	_Atomic uint64_t max[CHARGES];
	_Atomic uint64_t refused[CHARGES]; /* for the limit, ever */
	_Atomic uint64_t denied;           /* by policy, ever */
	_Atomic uint32_t warned;           /* bit i: it is near limit i */
	/* under the mutex */
	uint64_t told_ns[CHARGES]; /* when a refusal was logged last */
	uint64_t told[CHARGES];    /* how many had been refused then */
	uint64_t warned_ns[CHARGES];
	uint64_t tokens_ns; /* of the rate: when the bucket was looked at */
	double tokens;
};

struct users {
	pthread_mutex_t lock;
	_Atomic(struct user *) *table; /* by index */
	struct user *buckets[USERS_BUCKETS];
	uint32_t n; /* indices that have been in use */
	struct limits *limits;
};

int users_init(struct users *u); /* 0 or -ENOMEM */
void users_deinit(struct users *u);
/* Take over @limits: they count from now on, for everybody. */
void users_set_limits(struct users *u, struct limits *limits);

static inline struct user *
users_at(struct users *u, uint32_t index)
{
	return atomic_load_explicit(&u->table[index], memory_order_acquire);
}

/* A connection of @uid has come: *@out, which is charged with it and one that
 * has not said hello. 0; USER_E_LIMIT and why in @text; or -ENOMEM. */
enum { USER_E_LIMIT = 1 };
int users_admit(struct users *u, uint32_t uid, uint64_t now_ns,
	struct user **out, char *text, size_t size);
/* He who is in the table, or NULL. Stays there while something is charged. */
struct user *users_find(struct users *u, uint32_t uid);
/* The same, charged with @n more, so that he stays. */
struct user *users_charge(struct users *u, uint32_t uid, enum charge_kind kind,
	int64_t n, uint64_t now_ns);
/* The @i-th user in the table, from 0, or NULL at the end of it; free ones have
 * no charges, denials or refusals. */
struct user *users_look(struct users *u, uint32_t i);
/* How much he has: what is charged, or of ConnectionBurst= is taken. */
uint64_t users_used(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t now_ns);
/* What counts for @uid, whether in the table or not: @out->from is a copy to be
 * freed, or NULL. */
int users_limit(struct users *u, uint32_t uid, enum charge_kind kind,
	struct limit *out);

/* Charge @n more, or less; whatever the limit. Any thread. */
void user_charge(struct users *u, struct user *user, enum charge_kind kind,
	int64_t n, uint64_t now_ns);
/* Is there room for @n more? @unseen are not charged yet. */
static inline bool
user_has_room(const struct user *user, enum charge_kind kind, int64_t unseen,
	uint64_t n)
{
	int64_t used =
		atomic_load_explicit(&user->used[kind], memory_order_relaxed) +
		unseen;
	uint64_t max =
		atomic_load_explicit(&user->max[kind], memory_order_relaxed);

	return (used < 0 ? 0 : (uint64_t)used) <= max &&
	       n <= max - (used < 0 ? 0 : (uint64_t)used);
}
/* There is not, or a hello took longer: count it, log it now and then, and say
 * who, what, how much and which key in @text. Returns EVD_STATUS_LIMIT. */
int user_refuse(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t now_ns, char *text, size_t size);

/* ---- events and bytes of one scheduler ----------------------------------- */

enum { CHARGE_SLOTS = 8 };

struct charge_slot {
	uint32_t user;
	int32_t events; /* not added up yet */
	int64_t bytes;
	int64_t room_events; /* there was when it was added up last */
	int64_t room_bytes;
};

struct charges {
	struct users *users;
	uint32_t dirty; /* bit i: slot i has something */
	struct charge_slot slots[CHARGE_SLOTS];
};

void charges_init(struct charges *c, struct users *users);
/* Add up; the scheduler's thread. */
void charges_flush(struct charges *c, uint64_t now_ns);
void charge_claim(struct charges *c, struct charge_slot *slot, uint32_t user);
/* The kind whose limit it was if an event of @size bytes has no room, else
 * CHARGES and it is charged. For charge_take() alone. */
enum charge_kind charge_retry(
	struct charges *c, struct charge_slot *slot, uint32_t size);

static inline struct charge_slot *
charge_slot(struct charges *c, uint32_t user)
{
	struct charge_slot *slot = &c->slots[user % CHARGE_SLOTS];

	if (slot->user != user)
		charge_claim(c, slot, user);
	c->dirty |= 1u << user % CHARGE_SLOTS;
	return slot;
}

/* Charge an event of @size bytes to @user: CHARGES, or the kind that has no
 * room. */
static inline enum charge_kind
charge_take(struct charges *c, uint32_t user, uint32_t size)
{
	struct charge_slot *slot = charge_slot(c, user);

	slot->events++;
	slot->bytes += size;
	if (__builtin_expect(slot->events <= slot->room_events &&
				     slot->bytes <= slot->room_bytes,
		    1))
		return CHARGES;
	return charge_retry(c, slot, size);
}

/* @n events of @size bytes more or less, whatever the limit. */
static inline void
charge_add(struct charges *c, uint32_t user, int32_t n, int64_t size)
{
	struct charge_slot *slot = charge_slot(c, user);

	slot->events += n;
	slot->bytes += size;
}
