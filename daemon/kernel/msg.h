#pragma once
/* Message: what travels between sessions. One allocation holds the header,
 * the payload and the names that are not static.
 *
 * The header is one line of a cache and holds what every event needs. What
 * calls, posts with an ack, replies and delays need beside it stands in front,
 * in a struct msg_wide, if the message was made with it.
 *
 * A message has one owner at a time: who made it, then the mailbox it was
 * pushed to, then the session that handles it. It crosses threads only as a
 * whole, through the inbox of a scheduler. */
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/depot.h"
#include "kernel/users.h"

struct batch;
struct delay_stored;
struct sched;

enum msg_op {
	MSG_EVENT,  /* to a mailbox */
	MSG_REPLY,  /* to a pending call: call says which, status how it went */
	MSG_SETTLE, /* to the poster: seq and status of a post of its own */
	MSG_TASK,   /* run a function on the scheduler's thread */
	MSG_NOTE,   /* to session_ops.note(), past the mailbox: sched_note() */
	MSG_CONTROL, /* an event to the control lane: sched_control() */
	MSG_CANCEL,  /* to the callee: the caller of call wants no reply */
	MSG_MOVED,   /* to the caller's home: call was forwarded to `to` */
	MSG_KIN,     /* between parent and child, see kernel/kin.c */
};

enum msg_flag {
	MSG_ACK = 1,           /* the sender is told the fate, by its seq */
	MSG_MAY_PARK = 2,      /* waits for room instead of being refused */
	MSG_ADMITTED = 4,      /* counted as accepted */
	MSG_REPLIED = 8,       /* its call has been answered */
	MSG_URGENT = 16,       /* goes before those that are not */
	MSG_DELAYED = 32,      /* held by a timer, or was */
	MSG_EXTRA = 64,        /* has a struct msg_extra */
	MSG_WIDE = 128,        /* has a struct msg_wide */
	MSG_SHARED = 256,      /* refers to a struct msg_body */
	MSG_MANY = 512,        /* ... as many copies of one event do */
	MSG_LENT = 1024,       /* whose it is is told how it ends; crowd.h */
	MSG_BEYOND = 2048,     /* ... for which its user has no room */
	MSG_CHARGED = 1 << 14, /* to msg_wide.user */
};

enum {
	MSG_PAYLOAD_MAX = 1 << 30,
	MSG_KEY_MAX = 64,
	MSG_KEY_NUMBERED = 1, /* first byte of keys that clients count */
};

/* What the ack of a post stands for; the wire's numbers. */
enum msg_level {
	MSG_LEVEL_ACCEPTED,
	MSG_LEVEL_DURABLE,
	MSG_LEVEL_DELIVERED,
	MSG_LEVEL_HANDLED,
};

struct msg {
	struct msg *next; /* in a queue */
	uint64_t id;
	uint64_t from; /* session, 0: none */
	uint64_t to;   /* session */
	union {
		uint64_t stamp; /* profile: ticks, when it came or was taken */
		struct msg *batch; /* on its way: the batch behind this one */
	};
	const char *event;     /* NUL-terminated */
	uint32_t size;         /* payload bytes */
	uint32_t headers_size; /* encoded headers, behind the payload */
	union {
		struct {
			/* Index into the target kind's handlers + 1, or 0;
			 * MSG_NOTE: what it says, the kinds' own meaning. */
			uint16_t handler;
			uint16_t flags; /* enum msg_flag */
			uint8_t op;     /* enum msg_op */
			uint8_t event_size;
			uint8_t attempt;
			uint8_t pool_class;
		};
		uint64_t brief; /* all of these at once */
	};
	uint8_t data[]; /* payload, NUL, headers, event name, NUL, extra */
};

_Static_assert(sizeof(struct msg) == 64, "every event pays for it");

/* In front of a message with MSG_WIDE. Others have 0 for all of it. */
struct msg_wide {
	uint64_t call;    /* nonzero: a reply is expected or this is one */
	uint64_t seq;     /* with MSG_ACK: the sender's number for it */
	uint64_t late_ns; /* fired from a delay: this late */
	uint64_t due_ns;  /* ... when it was due, by the wall clock */
	union {
		struct { /* MSG_REPLY, MSG_SETTLE, MSG_NOTE */
			uint32_t status;
			/* MSG_SETTLE: payload bytes of the post */
			uint32_t settled_size;
		};
		/* MSG_EVENT with a call: when its caller gives up, monotonic;
		 * 0: not known */
		uint64_t deadline_ns;
	};
	uint32_t level; /* enum msg_level that settles it */
	uint32_t user;  /* with MSG_CHARGED: its index, see users.h */
};

/* To change it; @m has it. */
static inline struct msg_wide *
msg_wide(const struct msg *m)
{
	assert(m->flags & MSG_WIDE);
	return (struct msg_wide *)m - 1;
}

/* To read it: 0 for those that do not have it. */
static inline uint64_t
msg_call(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->call : 0;
}

static inline uint64_t
msg_seq(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->seq : 0;
}

static inline uint64_t
msg_late_ns(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->late_ns : 0;
}

/* When an event that a delay fired was due, by the wall clock; 0: it was none.
 */
static inline uint64_t
msg_due_ns(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->due_ns : 0;
}

static inline uint32_t
msg_status(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->status : 0;
}

static inline uint32_t
msg_settled_size(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->settled_size : 0;
}

static inline uint64_t
msg_deadline_ns(const struct msg *m)
{
	return m->flags & MSG_WIDE ? msg_wide(m)->deadline_ns : 0;
}

/* Nobody waits for an answer to it. */
static inline void
msg_uncall(struct msg *m)
{
	if (m->flags & MSG_WIDE)
		msg_wide(m)->call = 0;
}

static inline enum msg_level
msg_level(const struct msg *m)
{
	return m->flags & MSG_WIDE ? (enum msg_level)msg_wide(m)->level
				   : MSG_LEVEL_ACCEPTED;
}

/* What few events have; behind all else, see msg_extra(). */
struct msg_extra {
	uint64_t ttl_ns;     /* time to live; 0: no end */
	uint64_t expires_ns; /* it ends then, monotonic; 0: never */
	uint64_t key_home;   /* session that has noted the key */
	uint64_t re;         /* it is the answer to this call of the receiver */
	uint64_t sender;     /* who posted it, if `from` is who is told; or 0 */
	struct batch *batch; /* of the journal that has it; NULL: none */
	uint64_t taken_ns;   /* given to who handles it, monotonic, if it has */
	struct delay_stored *fired; /* on its way there from this timer */
	uint32_t status;            /* then: how that went */
	uint16_t place;             /* in the batch */
	bool traced;                /* its history is wanted, see history.h */
	bool durable;               /* it is to be in the store, whatever its
				     * mailbox */
	uint8_t key_size;
	char key[MSG_KEY_MAX]; /* idempotency key, not NUL-terminated */
};

static inline struct msg *
msg_next(const struct msg *m)
{
	return m->next;
}

static inline void
msg_link(struct msg *m, struct msg *next)
{
	m->next = next;
}

/* A first-in first-out chain through msg_next(). */
struct msg_queue {
	struct msg *head, *tail;
};

static inline void
msg_queue_push(struct msg_queue *q, struct msg *m)
{
	msg_link(m, NULL);
	if (q->head)
		msg_link(q->tail, m);
	else
		q->head = m;
	q->tail = m;
}

static inline struct msg *
msg_queue_pop(struct msg_queue *q)
{
	struct msg *m = q->head;

	if (m)
		q->head = msg_next(m);
	return m;
}

/* The same in half the room, by its last one, whose next is the first. */
struct msg_ring {
	struct msg *tail;
};

static inline struct msg *
msg_ring_head(const struct msg_ring *r)
{
	return r->tail ? msg_next(r->tail) : NULL;
}

static inline void
msg_ring_push(struct msg_ring *r, struct msg *m)
{
	if (r->tail) {
		msg_link(m, msg_next(r->tail));
		msg_link(r->tail, m);
	} else {
		msg_link(m, m);
	}
	r->tail = m;
}

/* Back to the front. */
static inline void
msg_ring_unpop(struct msg_ring *r, struct msg *m)
{
	struct msg *tail = r->tail;

	msg_ring_push(r, m);
	if (tail)
		r->tail = tail;
}

static inline struct msg *
msg_ring_pop(struct msg_ring *r)
{
	struct msg *m = msg_ring_head(r);

	if (!m)
		return NULL;
	if (m == r->tail)
		r->tail = NULL;
	else
		msg_link(r->tail, msg_next(m));
	return m;
}

/* Free lists of messages by size class, one per scheduler; not thread-safe.
 * A message may be freed to another pool than it came from: what a pool has too
 * many of goes, a batch at a time, to the depot that the pools share, and those
 * that lack some take it there. A NULL pool is malloc(), for threads that have
 * none. */
enum {
	MSG_CLASSES = DEPOT_CLASSES,
	MSG_CLASS_SHARED = MSG_CLASSES + 1, /* pool_class with MSG_SHARED */
	MSG_POOL_BATCH = DEPOT_BATCH,
};

struct msg_pool {
	struct depot_block *free[MSG_CLASSES + 1]; /* the last: always NULL */
	/* How many `free` lacks of a batch; 0 for what came from malloc(),
	 * which is not kept, and for MSG_CLASS_SHARED. */
	uint32_t room[MSG_CLASSES + 2];
	struct depot_block *full[MSG_CLASSES]; /* a batch, or NULL */
	struct depot *depot;
	struct charges *charges; /* of its scheduler; NULL: none are made */
};

/* AddressSanitizer is to see each message come and go. */
#if defined(__SANITIZE_ADDRESS__)
#define MSG_POOL_BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MSG_POOL_BYPASS 1
#endif
#endif
#ifndef MSG_POOL_BYPASS
#define MSG_POOL_BYPASS 0
#endif

void msg_pool_init(struct msg_pool *p, struct depot *depot);
void msg_pool_deinit(struct msg_pool *p);
/* For msg_new() and msg_new_plain(). */
struct depot_block *msg_pool_rest(
	struct msg_pool *p, unsigned class, size_t total);
static inline unsigned
msg_class(const struct msg_pool *p, size_t total)
{
	return p && !MSG_POOL_BYPASS ? depot_class(total) : MSG_CLASSES;
}
/* The block that comes next, NULL: none is at hand; and to take that. */
static inline struct depot_block *
msg_pool_next(const struct msg_pool *p, unsigned class)
{
	return p ? p->free[class] : NULL;
}
static inline struct depot_block *
msg_pool_pop(struct msg_pool *p, unsigned class, struct depot_block *next)
{
	p->free[class] = next->next;
	p->room[class]++;
	return next;
}
static inline struct depot_block *
msg_pool_take(struct msg_pool *p, unsigned class, size_t total)
{
	struct depot_block *next = msg_pool_next(p, class);

	return __builtin_expect(next != NULL, 1)
		       ? msg_pool_pop(p, class, next)
		       : msg_pool_rest(p, class, total);
}

/**
 * msg_new() - an event with a payload
 * @event:      name, copied unless @event_static
 * @data:       payload of @size bytes, copied; NULL leaves it to the caller
 * @headers:    encoded headers, copied; may be NULL
 *
 * Return: the message with all else zero, or NULL when out of memory.
 */
struct msg_init {
	const char *event;
	uint8_t event_size;
	bool event_static; /* outlives the message and is NUL-terminated */
	const void *data;
	uint32_t size;
	const void *headers;
	uint32_t headers_size;
	bool extra; /* with a struct msg_extra, all 0 */
	bool plain; /* without a struct msg_wide: it will not be needed */
};
struct msg *msg_new(struct msg_pool *p, const struct msg_init *init);
/* memcpy() of what is mostly short, in pieces that a reader of words finds in
 * the store buffer. */
static inline bool
msg_copy_is_short(size_t size)
{
	return size - sizeof(uint64_t) <= sizeof(uint64_t);
}
static inline void
msg_copy(uint8_t *to, const uint8_t *from, size_t size)
{
	uint64_t head, tail;
	uint32_t first, last;

	if (msg_copy_is_short(size)) {
		memcpy(&head, from, sizeof(head));
		memcpy(&tail, from + size - sizeof(tail), sizeof(tail));
		memcpy(to, &head, sizeof(head));
		memcpy(to + size - sizeof(tail), &tail, sizeof(tail));
	} else if (size >= sizeof(first) && size < sizeof(head)) {
		memcpy(&first, from, sizeof(first));
		memcpy(&last, from + size - sizeof(last), sizeof(last));
		memcpy(to, &first, sizeof(first));
		memcpy(to + size - sizeof(last), &last, sizeof(last));
	} else {
		memcpy(to, from, size);
	}
}
/* memcmp() == 0 of what is mostly short: names. */
static inline bool
msg_same(const char *a, const char *b, size_t size)
{
	uint64_t a8, b8, a8_last, b8_last;
	uint32_t a4, b4, a4_last, b4_last;

	if (size >= sizeof(a4) && size < sizeof(a8)) {
		memcpy(&a4, a, sizeof(a4));
		memcpy(&b4, b, sizeof(b4));
		memcpy(&a4_last, a + size - sizeof(a4), sizeof(a4));
		memcpy(&b4_last, b + size - sizeof(b4), sizeof(b4));
		return a4 == b4 && a4_last == b4_last;
	}
	if (size < sizeof(a8) || size > 2 * sizeof(a8))
		return memcmp(a, b, size) == 0;
	memcpy(&a8, a, sizeof(a8));
	memcpy(&b8, b, sizeof(b8));
	memcpy(&a8_last, a + size - sizeof(a8), sizeof(a8));
	memcpy(&b8_last, b + size - sizeof(b8), sizeof(b8));
	return a8 == b8 && a8_last == b8_last;
}
/* The same as msg_new(), plain and without headers, for the hot path. The
 * caller sets id, from, to, a static event, and stamp and next with its place
 * in a queue; all else but the payload is from @brief. */
static inline size_t
msg_plain_total(size_t size)
{
	return sizeof(struct msg) + size + 1;
}
/* In @block, of @class. */
static inline __attribute__((always_inline)) struct msg *
msg_lay_plain(struct depot_block *block, unsigned class, uint64_t brief,
	const void *data, uint32_t size)
{
	struct msg *m = (struct msg *)block;

	m->brief = brief;
	m->pool_class = (uint8_t) class;
	m->size = size;
	m->headers_size = 0;
	if (data && size)
		msg_copy(m->data, data, size);
	m->data[size] = 0;
	return m;
}
static inline struct msg *
msg_new_plain(
	struct msg_pool *p, uint64_t brief, const void *data, uint32_t size)
{
	size_t total = msg_plain_total(size);
	unsigned class = msg_class(p, total);
	struct depot_block *block =
		FAULT(msg_new) ? NULL : msg_pool_take(p, class, total);

	assert(size <= MSG_PAYLOAD_MAX);
	return block ? msg_lay_plain(block, class, brief, data, size) : NULL;
}
/* A plain one with a copy of the event, as that may go before the message; from
 * @head all but handler. */
static inline struct msg *
msg_new_named(struct msg_pool *p, const struct msg *head, const void *data)
{
	size_t total =
		sizeof(struct msg) + head->size + 1 + head->event_size + 1;
	unsigned class = msg_class(p, total);
	struct msg *m = FAULT(msg_new)
				? NULL
				: (struct msg *)msg_pool_take(p, class, total);
	uint8_t *event;

	assert(head->size <= MSG_PAYLOAD_MAX);
	if (!m)
		return NULL;
	event = m->data + head->size + 1;
	*m = (struct msg){
		.id = head->id,
		.from = head->from,
		.to = head->to,
		.event = (const char *)event,
		.size = head->size,
		.flags = head->flags,
		.event_size = head->event_size,
		.pool_class = (uint8_t) class,
	};
	msg_copy(m->data, data, head->size);
	event[-1] = 0;
	msg_copy(event, (const uint8_t *)head->event, head->event_size + 1u);
	return m;
}
/* msg_copy() of a name, which may be even shorter. */
static inline void
msg_copy_name(uint8_t *to, const uint8_t *from, size_t size)
{
	if (size >= sizeof(uint32_t)) {
		msg_copy(to, from, size);
	} else if (size) {
		to[0] = from[0];
		to[size / 2] = from[size / 2];
		to[size - 1] = from[size - 1];
	}
}
/* The same as msg_new() with MSG_WIDE, without headers, its event copied: for
 * the hot path of clients' posts. From @head are from, to, event, event_size,
 * flags and size, which is that of @data; from @wide all. */
static inline __attribute__((always_inline)) struct msg *
msg_new_post(struct msg_pool *p, const struct msg *head,
	const struct msg_wide *wide, const void *data)
{
	size_t total = sizeof(*wide) + sizeof(*head) + head->size + 1 +
		       head->event_size + 1u;
	unsigned class = msg_class(p, total);
	uint8_t *block = FAULT(msg_new)
				 ? NULL
				 : (uint8_t *)msg_pool_take(p, class, total);
	struct msg *m = (struct msg *)(block + sizeof(*wide));
	uint8_t *event = m->data + head->size + 1;

	assert(head->size <= MSG_PAYLOAD_MAX);
	if (!block)
		return NULL;
	*(struct msg_wide *)block = *wide;
	*m = (struct msg){
		.from = head->from,
		.to = head->to,
		.event = (const char *)event,
		.size = head->size,
		.flags = head->flags | MSG_WIDE,
		.event_size = head->event_size,
		.pool_class = (uint8_t) class,
	};
	if (head->size)
		memcpy(m->data, data, head->size);
	event[-1] = 0;
	msg_copy_name(event, (const uint8_t *)head->event, head->event_size);
	event[head->event_size] = 0;
	return m;
}
/* msg_free() of one that `free` has no room for. */
struct msg *msg_free_rest(struct msg_pool *p, struct msg *m);
/* Where its memory begins. */
static inline void *
msg_block(const struct msg *m)
{
	return m->flags & MSG_WIDE ? (void *)((struct msg_wide *)m - 1)
				   : (void *)m;
}
/* msg_free() of one without MSG_WIDE. */
static inline void
msg_free_plain(struct msg_pool *p, struct msg *m)
{
	struct depot_block *block = (struct depot_block *)m;
	unsigned c = m->pool_class;

	if (__builtin_expect(!p->room[c], 0)) {
		msg_free_rest(p, m);
		return;
	}
	block->next = p->free[c];
	p->free[c] = block;
	p->room[c]--;
}
/* Bytes that @m counts for in a mailbox. */
static inline uint32_t
msg_charge(const struct msg *m)
{
	return m->size + m->headers_size;
}
/* @m is not charged any more. */
static inline void
msg_uncharge(struct msg_pool *p, struct msg *m)
{
	if (!(m->flags & MSG_CHARGED))
		return;
	m->flags &= (uint16_t)~MSG_CHARGED;
	assert(p && p->charges); /* it is a scheduler's */
	charge_add(p->charges, msg_wide(m)->user, -1, -(int64_t)msg_charge(m));
}
/* NULL: nothing. Returns NULL. */
static inline struct msg *
msg_free(struct msg_pool *p, struct msg *m)
{
	struct depot_block *block;
	unsigned c;

	if (!m)
		return NULL;
	c = m->pool_class;
	if (m->flags & MSG_CHARGED)
		msg_uncharge(p, m);
	if (!p || !p->room[c])
		return msg_free_rest(p, m);
	block = msg_block(m);
	block->next = p->free[c];
	p->free[c] = block;
	p->room[c]--;
	return NULL;
}
/* The rare part of @m; NULL: it has none. */
struct msg_extra *msg_extra_at(const struct msg *m);
static inline struct msg_extra *
msg_extra(const struct msg *m)
{
	return m->flags & MSG_EXTRA ? msg_extra_at(m) : NULL;
}
/* Who posted @m, for its handler. */
static inline uint64_t
msg_sender(const struct msg *m)
{
	const struct msg_extra *extra = msg_extra(m);

	return extra && extra->sender ? extra->sender : m->from;
}
/* Live for @ttl_ns from @now_ns; 0: no end. It has an extra. */
void msg_live(struct msg *m, uint64_t now_ns, uint64_t ttl_ns);
/* A MSG_EVENT with the same name, payload, headers, sender, receiver, handler,
 * priority and time to live; all else (ack, call, id, flags ...) is zero. */
struct msg *msg_clone(struct msg_pool *p, const struct msg *m);
/* The same of an event that stays @owner's, who is told, by @seq, when the copy
 * is handled, or how else it ended. It may park. */
struct msg *msg_lend(
	struct msg_pool *p, const struct msg *m, uint64_t owner, uint64_t seq);
/* A copy of @m, in its place, that has an extra; @m has none. */
struct msg *msg_with_extra(struct msg_pool *p, const struct msg *m);
/* ---- bytes that are stored once ------------------------------------------ */

/* A large payload, in memory of its own: never copied again. Its owner's
 * release() is called once, on any thread. Followed by a NUL. */
struct msg_region {
	const uint8_t *bytes;
	uint32_t size;
	void (*release)(struct msg_region *region);
};

/* The bytes of an event that goes to many, in the form that its receivers want,
 * or of one that has a region: stored once, and freed with the last message
 * that refers to it. They do not change any more once that is so. Any
 * thread. */
struct msg_body {
	_Atomic uint32_t refs;
	uint32_t size; /* of bytes[]; with a region: those are the headers */
	const uint8_t *payload, *headers;
	struct msg_region *region; /* NULL: all of it is in bytes[] */
	uint8_t event_size;
	bool is_delivery; /* what bytes[] is, but for its receiver */
	uint8_t bytes[];  /* the event's name and a NUL behind them */
};

/* In the place of the payload of a message with MSG_SHARED, whose size and
 * headers_size are those of the event that it stands for. */
struct msg_ref {
	struct msg_body *body;
	uint64_t pool_class; /* of its own memory */
};

/* With one reference and room for @size bytes, for which payload and headers
 * are yet to be set; NULL: out of memory. */
struct msg_body *msg_body_new(const struct msg *m, uint32_t size);
/* msg_new() of an event whose payload is that of @region, which it takes over
 * unless it is out of memory; init->data and ->size are not looked at. */
struct msg *msg_new_region(struct msg_pool *p, const struct msg_init *init,
	struct msg_region *region);
/* A region of @size bytes on the heap, to be filled in; NULL: out of memory. */
struct msg_region *msg_region_new(uint32_t size);
static inline struct msg_body *
msg_body_ref_many(struct msg_body *body, uint32_t n)
{
	atomic_fetch_add_explicit(&body->refs, n, memory_order_relaxed);
	return body;
}
static inline struct msg_body *
msg_body_ref(struct msg_body *body)
{
	return msg_body_ref_many(body, 1);
}
/* NULL: nothing. Returns NULL. */
struct msg_body *msg_body_unref_many(struct msg_body *body, uint32_t n);
static inline struct msg_body *
msg_body_unref(struct msg_body *body)
{
	return msg_body_unref_many(body, 1);
}
/* A message with the sizes, the name, id, sender, priority and time to live of
 * @m, without its key, that refers to @body. NULL: out of memory. */
struct msg *msg_refer(struct msg_pool *p, const struct msg *m,
	struct msg_body *body, bool plain);
/* The same with an extra, that remembers who posted @m. */
struct msg *msg_refer_from(
	struct msg_pool *p, const struct msg *m, struct msg_body *body);
/* The same as msg_refer(), plain, to @to, for what has no extra and is not
 * urgent: for the hot path. The reference is the caller's, who gives it away
 * on success. */
static inline struct msg *
msg_refer_plain(struct msg_pool *p, const struct msg *m, struct msg_body *body,
	uint64_t to, unsigned flags)
{
	size_t total = sizeof(struct msg) + sizeof(struct msg_ref);
	unsigned class = msg_class(p, total);
	struct msg *copy =
		FAULT(msg_new) ? NULL
			       : (struct msg *)msg_pool_take(p, class, total);

	if (!copy)
		return NULL;
	*copy = (struct msg){
		.id = m->id,
		.from = m->from,
		.to = to,
		.event = (const char *)body->bytes + body->size,
		.size = m->size,
		.headers_size = m->headers_size,
		.flags = (uint16_t)(MSG_SHARED | flags),
		.event_size = body->event_size,
		.pool_class = MSG_CLASS_SHARED,
	};
	*(struct msg_ref *)(void *)copy->data = (struct msg_ref){body, class};
	return copy;
}
static inline struct msg_body *
msg_body(const struct msg *m)
{
	return ((const struct msg_ref *)(const void *)m->data)->body;
}
static inline const uint8_t *
msg_payload(const struct msg *m)
{
	return m->flags & MSG_SHARED ? msg_body(m)->payload : m->data;
}
static inline const uint8_t *
msg_headers(const struct msg *m)
{
	return m->flags & MSG_SHARED ? msg_body(m)->headers
				     : m->data + m->size + 1;
}
/* NULL: its payload has none of its own. */
static inline struct msg_region *
msg_region(const struct msg *m)
{
	return m->flags & MSG_SHARED ? msg_body(m)->region : NULL;
}
