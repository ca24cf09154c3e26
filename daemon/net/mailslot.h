#pragma once
/* Mailslot: the mailbox of a session file with Kind=client. It is there with
 * or without a client; whoever binds its alias consumes its events: they are
 * written to the consumer's socket, stay leased here until it has settled
 * them, and go back to the front when it leaves. In mode exclusive there is one
 * consumer, and others wait to be the next; in mode shared there are several,
 * and each event goes to the one that holds the fewest.
 *
 * In mode fanout its consumers are subscribers: each has a session with a
 * mailbox of its own, and what comes here is posted to all of these as messages
 * that refer to one body; see fanout.c.
 *
 * The first client that binds a free alias in mode shared or fanout makes a
 * mailslot as well, which ends with the last.
 *
 * The thread of the session's home. A consumer's connection may live on
 * another loop: then it is sent copies, and both sides tell each other by
 * sched_note(). What is leased and counted is so here alone. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "envelope.h"
#include "kernel/claim.h"
#include "kernel/session.h"
#include "kernel/tap.h"
#include "net/conn.h"
#include "net/lease.h"

/* What a note says: msg.handler. msg.seq is the token of the binding. */
enum mail_note {
	MAIL_DELIVER = 1, /* to the connection: the copy of an event */
	MAIL_UNBOUND,     /* to the connection: it consumes no more; status;
			   * msg.id: the connection that consumes instead */
	MAIL_ATTACHED,    /* to the connection: its turn has come */
	MAIL_CANCELLED,   /* to the connection: of the call msg.id */
	MAIL_GAP,         /* to the connection: of the fanout's own mailbox */
	MAIL_SETTLED,     /* to the mailslot: deliveries up to msg.id are */
	MAIL_DETACH,      /* to the mailslot: the binding is over; msg.id: its
			   * client has died */
};

struct resting;

/* A client that wants the events; all that its side knows. */
struct consumer_init {
	uint64_t conn;  /* session of the connection */
	uint64_t token; /* of its binding, never used again by @conn */
	uint32_t max_events;
	uint64_t max_size;
	uid_t uid;
	pid_t pid;
	enum claim_mode if_taken;
	bool allow_replace;
	enum bind_mode mode;
	uint64_t subscriber; /* fanout: the session that gets the copies */
	bool blocks;         /* ... its overflow may */
	bool payload;        /* monitor: it may see what events carry */
	bool durable;        /* the mailbox is to be so */
	bool hosted;         /* no client: @conn is a session of the daemon */
	/* Of a mailbox of its own, which this is no wish for: */
	const char *overflow; /* NULL: it has none */
	uint32_t box_events;
	uint64_t box_bytes;
	char name[CONN_NAME_MAX]; /* of the program */
	char alias[ENVELOPE_ALIAS_MAX + 1];
};

struct consumer {
	struct list link; /* in mailslot.consumers */
	struct consumer_init is;
	struct lease lease;
	struct msg *farewell; /* MAIL_UNBOUND, made beforehand: no failing */
	struct msg *welcome;  /* MAIL_ATTACHED, of one that waits; as that */
	uint64_t passed;      /* by this run of the mailslot: it had no room */
	/* of a subscriber, and of a hosted one: */
	uint64_t seq;       /* of its copies; the low bits are its place */
	uint32_t unsettled; /* of those, if it may block, or its user has no
			     * room for them */
	uint64_t told_ns;   /* that this is so; 0: not yet */
};

enum {
	MAILSLOT_CONSUMERS_MAX = 256,
	FANOUT_SUBSCRIBERS_MAX = 8192,
	PLACE_BITS = 16, /* of consumer.seq */
	PLACE_MASK = (1 << PLACE_BITS) - 1,
};

struct mailslot {
	struct session *session;
	struct list
		consumers;   /* shared: the one that got the last at the end */
	struct list waiting; /* exclusive: to be the next, in order */
	struct list leaving; /* hosted: they get no more */
	enum bind_mode mode;
	uint32_t n_consumers;
	uint64_t runs;           /* ever */
	bool fleeting;           /* it ends with its last consumer */
	struct resting *resting; /* given back for a while, first due first */
	uint64_t wake_ns; /* something ends then, monotonic; 0: nothing does */
	uint64_t wake_call;
	/* fanout, and hosted consumers: */
	struct consumer **places; /* by consumer.seq; those free are NULL */
	uint32_t n_places, n_placed;
	uint32_t n_blocking; /* consumers that are behind, and block */
	uint64_t last_seq;
};

extern const struct session_ops mailslot_ops;

/* no EVD_STATUS_* */
enum { MAILSLOT_E_QUEUED = 1000, MAILSLOT_E_VOLATILE = 1001 };

/* One that ends with its last consumer, who is to be attached at once: holder
 * of wish->alias, with a mailbox as @spec has it. One that is durable stays,
 * see standing.h. 0 and *@out, or what claim_make() returns;
 * MAILSLOT_E_VOLATILE: it cannot be durable; -ENOMEM: or MaxSessions= is
 * reached. */
int mailslot_open(struct sched *s, const struct consumer_init *wish,
	struct session_spec *spec, struct session **out);

/**
 * mailslot_attach() - let a client consume the events of @t
 * @t:    a session of this thread, with mailslot_ops
 * @init: copied
 * @text: set to why not, of @size bytes
 *
 * If another consumes them, @init says what to do. MAILSLOT_E_QUEUED: it waits
 * in line, MAIL_ATTACHED tells when its turn has come. So it does, whatever
 * @init says, for a consumer whose connection has gone.
 *
 * Return: EVD_STATUS_OK, MAILSLOT_E_QUEUED, TAKEN, LIMIT, FAILED, UNAVAILABLE
 * (it is about to start) or NO_MEMORY.
 */
int mailslot_attach(struct session *t, const struct consumer_init *init,
	char *text, size_t size);
/* The binding is over, @died: as its client has: what it held goes back, but
 * for what was tried MaxAttempts= times. Nothing if it is not there. */
void mailslot_detach(
	struct session *t, uint64_t conn, uint64_t token, bool died);
/* A consumer gives delivery @number back: it comes again after @delay_ms - 1,
 * or if that is 0 after RetryDelay=; or extends its lease to @lease_ms from
 * now, UINT64_MAX: to Lease=. False: it does not hold it. */
bool mailslot_give_back(struct session *t, uint64_t conn, uint64_t token,
	uint64_t number, uint64_t delay_ms);
bool mailslot_extend(struct session *t, uint64_t conn, uint64_t token,
	uint64_t number, uint64_t lease_ms);
/* Whether one that wants @mode may not be attached to @t for that alone. */
bool mailslot_differs(const struct session *t, enum bind_mode mode);
void mailslot_crowd(const struct session *t, struct peer_crowd *crowd);
/* Who consumes, or one of them, or NULL; good until this thread does anything
 * else. */
const struct consumer_init *mailslot_consumer(const struct session *t);

/* session_ops.rest */
void mailslot_rest(struct session *t, struct msg *m, uint64_t due_ns);
/* @m, with an extra, has been written to a client of @t called @name. */
void mailslot_tell_history(struct session *t, const struct msg *m,
	const struct consumer_init *who, const char *name);
/* A consumer has gone, with all that it had. @t may end of it. */
void mailslot_left(struct session *t);
/* It did not ask for it: @c is told why. */
void mailslot_dismiss(struct mailslot *slot, struct consumer *c, int status);

/* NULL: it is none of its consumers, or waits no more to be one. */
struct consumer *mailslot_find(
	const struct mailslot *slot, uint64_t conn, uint64_t token);

/* ---- rest.c -------------------------------------------------------------- */

enum { MAILSLOT_WAKE_TOKEN = 1 }; /* of the call by which it is woken */

/* Look again at @due_ns. */
void mailslot_wake_at(struct mailslot *slot, uint64_t due_ns);
/* It has been woken: what is due goes back. */
void mailslot_look_again(struct session *t);
/* What rests goes back, due or @all. */
void mailslot_rests_end(struct mailslot *slot, bool all);
/* When a lease that begins now ends; 0: never. */
uint64_t mailslot_lease_ns(const struct session *t);
/* @m, leased to nobody any more, comes again after RetryDelay=. */
void mailslot_try_later(struct session *t, struct msg *m);

/* ---- member.c ------------------------------------------------------------ */

extern const struct crowd_ops mailslot_crowds;

/* @c is a hosted session: lend @m to it. False: it takes nothing now. */
bool member_lend(
	struct mailslot *slot, struct consumer *c, const struct msg *m);
/* What was lent by @seq has ended so; @t may end of it. */
void member_settled(
	struct session *t, uint64_t seq, int status, const char *text);
/* It consumes no more; it stays in slot->leaving until what it has has ended.
 * It is told, with @status, if that is not 0. */
void member_out(struct mailslot *slot, struct consumer *c, int status);
/* Its caller wants no answer: tell who has it, if that is @c. */
void member_cancel(struct sched *s, const struct consumer *c, uint64_t call);
/* Events were dropped before it could have them. */
void member_tell_gap(
	struct sched *s, const struct consumer *c, const struct msg *m);

/* ---- fanout.c ------------------------------------------------------------ */

/* For who monitors a session: the head of an event's payload, at most. */
enum { MONITOR_PAYLOAD_MAX = 4096 };
void fanout_monitor(struct sched *s, const struct tap *tap, struct session *t,
	const struct msg *m);
/* @m goes to all subscribers. */
enum session_result fanout_run(struct session *t, struct msg *m);
/* The copy @seq has been taken in by its subscriber's mailbox, or never will.
 */
void fanout_settled(struct session *t, uint64_t seq);
/* @c, of mode fanout or hosted, comes: 0 or EVD_STATUS_NO_MEMORY; and goes. */
int fanout_add(struct mailslot *slot, struct consumer *c);
void fanout_remove(struct mailslot *slot, struct consumer *c);
