#pragma once
/* Mailslot: the mailbox of a session file with Kind=client. It is there with
 * or without a client; whoever binds its alias consumes its events: they are
 * written to the consumer's socket, stay leased here until it has settled
 * them, and go back to the front when it leaves.
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
#include "net/conn.h"
#include "net/lease.h"

/* What a note says: msg.handler. msg.seq is the token of the binding. */
enum mail_note {
	MAIL_DELIVER = 1, /* to the connection: the copy of an event */
	MAIL_UNBOUND,     /* to the connection: it consumes no more; status;
			   * msg.id: the connection that consumes instead */
	MAIL_ATTACHED,    /* to the connection: its turn has come */
	MAIL_CANCELLED,   /* to the connection: of the call msg.id */
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
};

struct mailslot {
	struct session *session;
	struct list consumers;   /* at most one as yet */
	struct list waiting;     /* to be the next, in order */
	struct resting *resting; /* given back for a while, first due first */
	uint64_t wake_ns; /* something ends then, monotonic; 0: nothing does */
	uint64_t wake_call;
};

extern const struct session_ops mailslot_ops;

enum { MAILSLOT_E_QUEUED = 1000 }; /* no EVD_STATUS_* */

/**
 * mailslot_attach() - let a client consume the events of @t
 * @t:    a session of this thread, with mailslot_ops
 * @init: copied
 * @text: set to why not, of @size bytes
 *
 * If another consumes them, @init says what to do. MAILSLOT_E_QUEUED: it waits
 * in line, MAIL_ATTACHED tells when its turn has come.
 *
 * Return: EVD_STATUS_OK, MAILSLOT_E_QUEUED, TAKEN, FAILED, UNAVAILABLE (it is
 * about to start) or NO_MEMORY.
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
/* Who consumes, or NULL; good until this thread does anything else. */
const struct consumer_init *mailslot_consumer(const struct session *t);
