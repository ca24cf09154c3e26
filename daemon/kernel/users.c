#include "kernel/users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "eventd/status.h"

enum {
	WARN_S = 60,       /* between two warnings of one limit */
	TELL_S = 10,       /* between two log lines of refusals */
	SWEEP_FROM = 1024, /* users in the table: look for one that left */
	HELLO_MS = 10000,  /* until it is configured */
};

const char *const charge_keys[CHARGES + 1] = {
	[CHARGE_CONNECTIONS] = "Connections",
	[CHARGE_GREETING] = "Greeting",
	[CHARGE_EVENTS] = "Events",
	[CHARGE_BYTES] = "Bytes",
	[CHARGE_TIMERS] = "Timers",
	[CHARGE_ALIASES] = "Aliases",
	[CHARGE_CALLS] = "Calls",
	[CHARGE_WATCHES] = "Watches",
	[CHARGE_RATE] = "ConnectionRate",
	[CHARGE_BURST] = "ConnectionBurst",
	[CHARGE_HELLO] = "HelloTimeout",
};

static const char *const charge_texts[CHARGES] = {
	[CHARGE_CONNECTIONS] = "connections",
	[CHARGE_GREETING] = "connections without a hello",
	[CHARGE_EVENTS] = "events queued",
	[CHARGE_BYTES] = "bytes queued",
	[CHARGE_TIMERS] = "timers",
	[CHARGE_ALIASES] = "aliases bound",
	[CHARGE_CALLS] = "calls outstanding",
	[CHARGE_WATCHES] = "watches",
	[CHARGE_RATE] = "connections a second",
	[CHARGE_BURST] = "connections at once",
	[CHARGE_HELLO] = "milliseconds to the hello",
};

/* ---- limits ------------------------------------------------------------ */

struct limits *
limits_new(uint32_t owner, bool own)
{
	static const uint64_t defaults[CHARGES] = {
		[CHARGE_GREETING] = 4096,
		[CHARGE_EVENTS] = 4000000,
		[CHARGE_BYTES] = UINT64_C(1) << 30,
		[CHARGE_TIMERS] = 1 << 20,
		[CHARGE_ALIASES] = 65536,
		[CHARGE_CALLS] = 100000,
		[CHARGE_WATCHES] = 100000,
		[CHARGE_RATE] = 2000,
		[CHARGE_BURST] = 20000,
	};
	struct limits *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	for (unsigned i = 0; i < CHARGES; i++)
		l->all[i].max = defaults[i];
	l->owner = owner;
	l->own = own;
	return l;
}

void
limits_finish(struct limits *l, uint64_t max_connections, uint32_t hello_ms)
{
	struct limit *all = &l->all[CHARGE_CONNECTIONS];

	if (!l->all[CHARGE_HELLO].from)
		l->all[CHARGE_HELLO].max = hello_ms;
	l->max_connections = max_connections;
	if (!all->from) /* one user alone cannot keep all others out */
		all->max = l->own ? max_connections
				  : max_connections - max_connections / 4;
}

struct limits *
limits_free(struct limits *l)
{
	if (!l)
		return NULL;
	for (unsigned i = 0; i < CHARGES; i++)
		free(l->all[i].from);
	for (size_t k = 0; k < l->n_overrides; k++)
		for (unsigned i = 0; i < CHARGES; i++)
			free(l->overrides[k].limits[i].from);
	free(l->overrides);
	free(l);
	return NULL;
}

static struct limit_override *
override_find(const struct limits *l, uint32_t uid)
{
	for (size_t k = 0; k < l->n_overrides; k++)
		if (l->overrides[k].uid == uid)
			return &l->overrides[k];
	return NULL;
}

static struct limit_override *
override_get(struct limits *l, uint32_t uid)
{
	struct limit_override *o = override_find(l, uid), *bigger;

	if (o)
		return o;
	bigger =
		reallocarray(l->overrides, l->n_overrides + 1, sizeof(*bigger));
	if (!bigger)
		return NULL;
	l->overrides = bigger;
	o = &bigger[l->n_overrides++];
	*o = (struct limit_override){.uid = uid};
	return o;
}

int
limits_set(struct limits *l, const uint32_t *uid, enum charge_kind kind,
	uint64_t max, const char *from)
{
	char *copy = strdup(from);
	struct limit_override *o = uid && copy ? override_get(l, *uid) : NULL;
	struct limit *limit =
		uid ? (o ? &o->limits[kind] : NULL) : &l->all[kind];

	if (!copy || !limit) {
		free(copy);
		return err_raise(-ENOMEM);
	}
	if (o)
		o->set |= 1u << kind;
	free(limit->from);
	*limit = (struct limit){max, copy};
	return 0;
}

/* What counts for @uid, borrowed. */
static struct limit
limit_of(const struct limits *l, uint32_t uid, enum charge_kind kind)
{
	const struct limit_override *o = override_find(l, uid);
	struct limit limit = l->all[kind];

	if (o && (o->set & 1u << kind))
		return o->limits[kind];
	if (kind == CHARGE_CONNECTIONS && !limit.from &&
		(uid == 0 || uid == l->owner))
		limit.max = l->max_connections;
	return limit;
}

static void
user_set_limits(const struct limits *l, struct user *user)
{
	uint32_t uid = atomic_load(&user->uid);

	for (unsigned i = 0; i < CHARGES; i++)
		atomic_store(&user->max[i],
			limit_of(l, uid, (enum charge_kind)i).max);
}

void
users_set_limits(struct users *u, struct limits *limits)
{
	pthread_mutex_lock(&u->lock);
	limits_free(u->limits);
	u->limits = limits;
	for (uint32_t i = 1; i <= u->n; i++)
		user_set_limits(limits, users_at(u, i));
	pthread_mutex_unlock(&u->lock);
}

int
users_limit(
	struct users *u, uint32_t uid, enum charge_kind kind, struct limit *out)
{
	pthread_mutex_lock(&u->lock);
	*out = limit_of(u->limits, uid, kind);
	if (out->from)
		out->from = strdup(out->from);
	pthread_mutex_unlock(&u->lock);
	return 0;
}

/* ---- the table --------------------------------------------------------- */

int
users_init(struct users *u)
{
	memset(u, 0, sizeof(*u));
	u->limits = limits_new(0, true);
	u->table = calloc(USERS_MAX + 1, sizeof(*u->table));
	if (!u->limits || !u->table) {
		limits_free(u->limits);
		free(u->table);
		return err_raise(-ENOMEM);
	}
	limits_finish(u->limits, UINT64_MAX, HELLO_MS);
	pthread_mutex_init(&u->lock, NULL);
	return 0;
}

void
users_deinit(struct users *u)
{
	for (uint32_t i = 1; i <= u->n; i++)
		free(users_at(u, i));
	free(u->table);
	limits_free(u->limits);
	pthread_mutex_destroy(&u->lock);
}

struct user *
users_look(struct users *u, uint32_t i)
{
	uint32_t n;

	pthread_mutex_lock(&u->lock);
	n = u->n;
	pthread_mutex_unlock(&u->lock);
	return i < n ? users_at(u, i + 1) : NULL;
}

static struct user **
bucket_of(struct users *u, uint32_t uid)
{
	return &u->buckets[(uid ^ uid >> 8 ^ uid >> 16) % USERS_BUCKETS];
}

static bool
user_is_gone(const struct user *user)
{
	for (unsigned i = 0; i < CHARGES; i++)
		if (atomic_load(&user->used[i]))
			return false;
	return true;
}

static void
unchain(struct users *u, struct user *user)
{
	struct user **at = bucket_of(u, atomic_load(&user->uid));

	while (*at != user)
		at = &(*at)->chain;
	*at = user->chain;
}

static void
user_begin(struct users *u, struct user *user, uint32_t uid, uint64_t now_ns)
{
	struct user **bucket = bucket_of(u, uid);
	uint32_t index = user->index;

	memset(user, 0, sizeof(*user));
	user->index = index;
	atomic_store(&user->uid, uid);
	user_set_limits(u->limits, user);
	user->tokens = (double)atomic_load(&user->max[CHARGE_BURST]);
	user->tokens_ns = now_ns;
	user->chain = *bucket;
	*bucket = user;
}

static struct user *
find_locked(struct users *u, uint32_t uid)
{
	struct user *user = *bucket_of(u, uid);

	while (user && atomic_load(&user->uid) != uid)
		user = user->chain;
	return user;
}

struct user *
users_find(struct users *u, uint32_t uid)
{
	struct user *user;

	pthread_mutex_lock(&u->lock);
	user = find_locked(u, uid);
	pthread_mutex_unlock(&u->lock);
	return user;
}

/* The place of one who holds nothing any more, or a new one. */
static struct user *
user_place(struct users *u)
{
	struct user *user;

	for (uint32_t i = 1; u->n >= SWEEP_FROM && i <= u->n; i++) {
		user = users_at(u, i);
		if (user_is_gone(user)) {
			unchain(u, user);
			return user;
		}
	}
	user = u->n < USERS_MAX && !FAULT(user_place) ? calloc(1, sizeof(*user))
						      : NULL;
	if (!user)
		return NULL;
	user->index = ++u->n;
	atomic_store_explicit(
		&u->table[user->index], user, memory_order_release);
	return user;
}

static struct user *
user_get(struct users *u, uint32_t uid, uint64_t now_ns)
{
	struct user *user = find_locked(u, uid);

	if (user)
		return user;
	user = user_place(u);
	if (user)
		user_begin(u, user, uid, now_ns);
	return user;
}

/* ---- what is near ------------------------------------------------------ */

static uint64_t
used_of(const struct user *user, enum charge_kind kind)
{
	int64_t used = atomic_load(&user->used[kind]);

	return used < 0 ? 0 : (uint64_t)used;
}

static const char *
where(const struct users *u, const struct user *user, enum charge_kind kind)
{
	const char *from =
		limit_of(u->limits, atomic_load(&user->uid), kind).from;

	return from ? from : "the default";
}

/* At 80 percent of a limit it is told, and again only after it has been below
 * 60. */
static uint64_t
near_from(uint64_t max)
{
	return max - max / 5;
}

static uint64_t
calm_below(uint64_t max)
{
	return max - max / 5 * 2;
}

/* It has come near its limit, or left it. True: that is to be told, once each,
 * for it has been told before that there is less of it. */
static bool
is_news(struct user *user, enum charge_kind kind, uint64_t used)
{
	uint64_t max =
		atomic_load_explicit(&user->max[kind], memory_order_relaxed);
	uint32_t bit = 1u << kind;

	if (used < calm_below(max)) {
		atomic_fetch_and(&user->warned, ~bit);
		return false;
	}
	return max != UINT64_MAX && used >= near_from(max) &&
	       !(atomic_fetch_or(&user->warned, bit) & bit);
}

static void
warn_locked(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t used, uint64_t now_ns)
{
	if (user->warned_ns[kind] &&
		now_ns - user->warned_ns[kind] <= (uint64_t)WARN_S * NS_PER_S)
		return;
	user->warned_ns[kind] = now_ns;
	log_warn("user.near-limit",
		"uid=%" PRIu32 " what=\"%s\" used=%" PRIu64 " limit=%" PRIu64
		" key=%s= from=\"%s\"",
		atomic_load(&user->uid), charge_texts[kind], used,
		atomic_load(&user->max[kind]), charge_keys[kind],
		where(u, user, kind));
}

static void
look_near(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t used, uint64_t now_ns)
{
	if (!is_news(user, kind, used))
		return;
	pthread_mutex_lock(&u->lock);
	warn_locked(u, user, kind, used, now_ns);
	pthread_mutex_unlock(&u->lock);
}

void
user_charge(struct users *u, struct user *user, enum charge_kind kind,
	int64_t n, uint64_t now_ns)
{
	int64_t used = atomic_fetch_add(&user->used[kind], n) + n;
	uint64_t max =
		atomic_load_explicit(&user->max[kind], memory_order_relaxed);

	/* Cheap for those that are far from it. */
	if (n > 0 && used > 0 && (uint64_t)used >= near_from(max))
		look_near(u, user, kind, (uint64_t)used, now_ns);
	else if (n < 0 &&
		 (atomic_load_explicit(&user->warned, memory_order_relaxed) &
			 1u << kind))
		look_near(u, user, kind, used < 0 ? 0 : (uint64_t)used, now_ns);
}

struct user *
users_charge(struct users *u, uint32_t uid, enum charge_kind kind, int64_t n,
	uint64_t now_ns)
{
	struct user *user;

	pthread_mutex_lock(&u->lock);
	user = find_locked(u, uid);
	if (user)
		atomic_fetch_add(&user->used[kind], n);
	pthread_mutex_unlock(&u->lock);
	if (user)
		look_near(u, user, kind, used_of(user, kind), now_ns);
	return user;
}

/* ---- what is refused --------------------------------------------------- */

static void
refuse_locked(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t now_ns, char *text, size_t size)
{
	uint64_t refused = atomic_fetch_add(&user->refused[kind], 1) + 1;
	uint64_t max = atomic_load(&user->max[kind]);
	uint64_t used = used_of(user, kind);
	uint32_t uid = atomic_load(&user->uid);

	if (kind == CHARGE_RATE)
		snprintf(text, size,
			"uid %" PRIu32 " connects more than %" PRIu64
			" times a second (%s= of [Limits] in eventd.conf: %s)",
			uid, max, charge_keys[kind], where(u, user, kind));
	else if (kind == CHARGE_HELLO)
		snprintf(text, size,
			"uid %" PRIu32 " said no hello within %" PRIu64
			" ms (%s= in eventd.conf: %s)",
			uid, max, charge_keys[kind], where(u, user, kind));
	else
		snprintf(text, size,
			"uid %" PRIu32 " has %" PRIu64 " of %" PRIu64
			" %s (%s= of [Limits] in eventd.conf: %s)",
			uid, used, max, charge_texts[kind], charge_keys[kind],
			where(u, user, kind));
	if (user->told_ns[kind] &&
		now_ns - user->told_ns[kind] < (uint64_t)TELL_S * NS_PER_S)
		return;
	log_warn("user.limit",
		"uid=%" PRIu32 " what=\"%s\" used=%" PRIu64 " limit=%" PRIu64
		" key=%s= from=\"%s\" refused=%" PRIu64,
		uid, charge_texts[kind], used, max, charge_keys[kind],
		where(u, user, kind), refused - user->told[kind]);
	user->told_ns[kind] = now_ns;
	user->told[kind] = refused;
}

int
user_refuse(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t now_ns, char *text, size_t size)
{
	pthread_mutex_lock(&u->lock);
	refuse_locked(u, user, kind, now_ns, text, size);
	pthread_mutex_unlock(&u->lock);
	return EVD_STATUS_LIMIT;
}

/* ---- connections ------------------------------------------------------- */

/* A bucket of ConnectionBurst= that fills by ConnectionRate= a second. */
static void
fill_bucket(struct user *user, uint64_t now_ns)
{
	double rate = (double)atomic_load(&user->max[CHARGE_RATE]);
	double burst = (double)atomic_load(&user->max[CHARGE_BURST]);

	if (now_ns > user->tokens_ns)
		user->tokens += rate * (double)(now_ns - user->tokens_ns) /
				(double)NS_PER_S;
	user->tokens_ns = now_ns;
	if (user->tokens > burst)
		user->tokens = burst;
}

/* So much of it is taken. */
static uint64_t
bucket_used(const struct user *user)
{
	double burst = (double)atomic_load(&user->max[CHARGE_BURST]);

	return burst > user->tokens ? (uint64_t)(burst - user->tokens) : 0;
}

static bool
take_token(struct users *u, struct user *user, uint64_t now_ns)
{
	fill_bucket(user, now_ns);
	if (user->tokens < 1)
		return false;
	user->tokens -= 1;
	if (is_news(user, CHARGE_BURST, bucket_used(user)))
		warn_locked(u, user, CHARGE_BURST, bucket_used(user), now_ns);
	return true;
}

uint64_t
users_used(struct users *u, struct user *user, enum charge_kind kind,
	uint64_t now_ns)
{
	uint64_t used;

	if (kind != CHARGE_BURST)
		return used_of(user, kind);
	pthread_mutex_lock(&u->lock);
	fill_bucket(user, now_ns);
	used = bucket_used(user);
	is_news(user, kind, used); /* no more, perhaps */
	pthread_mutex_unlock(&u->lock);
	return used;
}

static enum charge_kind
lacks(struct users *u, struct user *user, uint64_t now_ns)
{
	if (!user_has_room(user, CHARGE_CONNECTIONS, 0, 1))
		return CHARGE_CONNECTIONS;
	if (!user_has_room(user, CHARGE_GREETING, 0, 1))
		return CHARGE_GREETING;
	return take_token(u, user, now_ns) ? CHARGES : CHARGE_RATE;
}

static void
greeting_locked(struct users *u, struct user *user, uint64_t now_ns)
{
	int64_t n = atomic_fetch_add(&user->used[CHARGE_GREETING], 1) + 1;

	if (n > 0 && is_news(user, CHARGE_GREETING, (uint64_t)n))
		warn_locked(u, user, CHARGE_GREETING, (uint64_t)n, now_ns);
}

int
users_admit(struct users *u, uint32_t uid, uint64_t now_ns, struct user **out,
	char *text, size_t size)
{
	enum charge_kind kind = CHARGES;
	struct user *user;

	pthread_mutex_lock(&u->lock);
	user = user_get(u, uid, now_ns);
	if (user) {
		kind = lacks(u, user, now_ns);
		if (kind != CHARGES)
			refuse_locked(u, user, kind, now_ns, text, size);
		else /* under the lock, so that it stays in the table */
			greeting_locked(u, user, now_ns);
	}
	pthread_mutex_unlock(&u->lock);
	if (!user)
		return err_raise(-ENOMEM);
	if (kind != CHARGES)
		return USER_E_LIMIT;
	user_charge(u, user, CHARGE_CONNECTIONS, 1, now_ns);
	*out = user;
	return 0;
}

/* ---- of one scheduler -------------------------------------------------- */

void
charges_init(struct charges *c, struct users *users)
{
	memset(c, 0, sizeof(*c));
	c->users = users;
}

static int64_t
room(const struct user *user, enum charge_kind kind)
{
	int64_t used =
		atomic_load_explicit(&user->used[kind], memory_order_relaxed);
	uint64_t max =
		atomic_load_explicit(&user->max[kind], memory_order_relaxed);

	if (max > INT64_MAX / 2)
		max = INT64_MAX / 2;
	return (int64_t)max - used;
}

static void
slot_flush(struct charges *c, struct charge_slot *slot, uint64_t now_ns)
{
	struct user *user = users_at(c->users, slot->user);

	if (slot->events)
		user_charge(
			c->users, user, CHARGE_EVENTS, slot->events, now_ns);
	if (slot->bytes)
		user_charge(c->users, user, CHARGE_BYTES, slot->bytes, now_ns);
	slot->events = 0;
	slot->bytes = 0;
	slot->room_events = room(user, CHARGE_EVENTS);
	slot->room_bytes = room(user, CHARGE_BYTES);
}

void
charges_flush(struct charges *c, uint64_t now_ns)
{
	while (c->dirty) {
		unsigned i = (unsigned)__builtin_ctz(c->dirty);

		c->dirty &= c->dirty - 1;
		slot_flush(c, &c->slots[i], now_ns);
		c->slots[i].user = 0; /* who may have left by the next time */
	}
}

void
charge_claim(struct charges *c, struct charge_slot *slot, uint32_t user)
{
	if (slot->user)
		slot_flush(c, slot, 0);
	slot->user = user;
	slot_flush(c, slot, 0);
}

enum charge_kind
charge_retry(struct charges *c, struct charge_slot *slot, uint32_t size)
{
	enum charge_kind kind = CHARGES;

	slot->events--;
	slot->bytes -= size;
	slot_flush(c, slot, 0);
	if (slot->room_events < 1)
		kind = CHARGE_EVENTS;
	else if (slot->room_bytes < (int64_t)size)
		kind = CHARGE_BYTES;
	if (kind != CHARGES)
		return kind;
	slot->events++;
	slot->bytes += size;
	return CHARGES;
}
