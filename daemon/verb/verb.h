#pragma once
/* Verbs: the requests of a client, one file per group. A verb answers at once
 * or, when it must ask other loops, later; its connection may have gone by
 * then.
 *
 * verb/ knows no sockets: a connection shows itself as a struct peer. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "eventd.pb-c.h"
#include "eventd/status.h"
#include "kernel/sched.h"
#include "policy/rights.h"

struct daemon_ops;
struct peer;
struct peer_crowd;
struct peer_face;
struct will;

/* What a consumer wants of one delivery that it holds. */
struct delivery_change {
	uint64_t binding, delivery;
	uint32_t ms;    /* until it comes again, or its lease ends */
	bool timed;     /* else as the session file says */
	bool give_back; /* else its lease is extended */
};

/* What only a connection can do. All on its loop's thread. */
struct peer_ops {
	/* Send @response, which is borrowed. */
	void (*respond)(struct peer *p, const Eventd__V1__Response *response);
	/* Status 0 and *@ref, or an error and @text. */
	int (*resolve)(struct peer *p, const char *alias, uint64_t *ref,
		char *text, size_t size);
	/* Answer request @id, at once or later. */
	void (*bind)(struct peer *p, uint64_t id, const Eventd__V1__Bind *bind);
	void (*unbind)(struct peer *p, uint64_t id, uint64_t binding);
	void (*change)(struct peer *p, uint64_t id,
		const struct delivery_change *change);
	/* The client behind a session of this loop; false: there is none. */
	bool (*behind)(struct session *s, struct peer_face *face);
	/* The clients that get the events of a session of this loop; false: it
	 * is not for them. */
	bool (*crowd)(struct session *s, struct peer_crowd *crowd);
	/* The rights of a client of this loop whose process is @pid; NULL. */
	struct rights *(*rights_of)(struct sched *s, pid_t pid);
};

/* A peer as others see it, on whatever loop. */
struct peer_face {
	uid_t uid;
	pid_t pid;
	const char *name; /* good until the thread does anything else */
};

/* How clients have bound the events of a session. */
struct peer_crowd {
	enum bind_mode mode;
	uint32_t n; /* of them */
};

enum { VERB_REQUESTS_MAX = 16 }; /* of a connection, answered later */

struct peer {
	const struct peer_ops *ops;
	unsigned n_requests;     /* to be answered later */
	struct session *session; /* of the connection */
	uid_t uid;
	pid_t pid;             /* for display: it may be another's by now */
	const char *name;      /* from Hello; "" if none */
	struct rights *rights; /* by its credentials; a reference */
	struct user *user;     /* whom all is charged to, and that as it was */
	uint32_t charged_calls, charged_watches; /* at the end of the turn */
	struct peer_shared *shared;
	struct will *will; /* what it leaves, or NULL */
	bool goodbye;      /* it has said that it goes */
};

/* The same for every connection. */
struct peer_shared {
	const char *version;
	const struct daemon_ops *daemon;
	void *daemon_data;
	uid_t owner; /* may manage, as root may */
	uint64_t started_wall_ns;
	_Atomic uint32_t n_connections;
	_Atomic uint64_t denied; /* requests that were refused by policy */
};

/* Carry out @request, which is borrowed. */
void verb_run(struct peer *p, const Eventd__V1__Request *request);

/* The answer to a Wait has come: request @id. */
void verb_found(struct peer *p, uint64_t id, const struct msg *reply);
/* The peer is gone: post its will unless it said goodbye, and free it. Its
 * session is still there. */
void verb_execute_will(struct peer *p);

/* ---- for the verbs ----------------------------------------------------- */

enum { VERB_TEXT_MAX = 512 };

/* Answer request @id with an error. */
void verb_refuse(struct peer *p, uint64_t id, int status, const char *text);
/* The daemon is not stopping; else an answer has been sent. */
bool verb_is_open(struct peer *p, uint64_t id);
/* The alias is a valid name; else an answer has been sent. */
bool verb_name_ok(struct peer *p, uint64_t id, const char *alias);
/* It may do @right to @alias, with @event or NULL; else that has been counted
 * and logged, and an answer has been sent. */
bool verb_may(struct peer *p, uint64_t id, enum right right, const char *alias,
	const char *event);
/* The same of posting events of any name to it. */
bool verb_may_post_all(struct peer *p, uint64_t id, const char *alias);
/* Its user has room for @n more of @kind; else that has been counted, and an
 * answer has been sent. */
bool verb_has_room(
	struct peer *p, uint64_t id, enum charge_kind kind, uint64_t n);
/* The same without an answer: 0 or EVD_STATUS_LIMIT and why. */
int peer_lacks_room(struct peer *p, enum charge_kind kind, uint64_t n,
	char *text, size_t size);
/* Charge its user with the calls and watches that it has now. */
void peer_charge(struct peer *p);
/* verb_may() manage the daemon as a whole. */
bool verb_may_manage(struct peer *p, uint64_t id);
/* Count and log that it may not; why goes to @text. Returns
 * EVD_STATUS_DENIED. */
int peer_deny(struct peer *p, enum right right, const char *alias,
	const char *event, char *text, size_t size);

void verb_resolve(struct peer *p, const Eventd__V1__Request *r);
void verb_bind(struct peer *p, const Eventd__V1__Request *r);
void verb_unbind(struct peer *p, const Eventd__V1__Request *r);
void verb_give_back(struct peer *p, const Eventd__V1__Request *r);
void verb_extend(struct peer *p, const Eventd__V1__Request *r);
void verb_store(struct peer *p, const Eventd__V1__Request *r);
void verb_why(struct peer *p, const Eventd__V1__Request *r);
void verb_wait(struct peer *p, const Eventd__V1__Request *r);
void verb_watch(struct peer *p, const Eventd__V1__Request *r);
void verb_unwatch(struct peer *p, const Eventd__V1__Request *r);
void verb_watch_names(struct peer *p, const Eventd__V1__Request *r);
void verb_will(struct peer *p, const Eventd__V1__Request *r);
void verb_goodbye(struct peer *p, const Eventd__V1__Request *r);
void verb_delay(struct peer *p, const Eventd__V1__Request *r);
void verb_cancel(struct peer *p, const Eventd__V1__Request *r);
void verb_cancel_call(struct peer *p, const Eventd__V1__Request *r);
void verb_adjust(struct peer *p, const Eventd__V1__Request *r);
void verb_calendar(struct peer *p, const Eventd__V1__Request *r);
void verb_timers(struct peer *p, const Eventd__V1__Request *r);
void verb_list(struct peer *p, const Eventd__V1__Request *r);
void verb_status(struct peer *p, const Eventd__V1__Request *r);
void verb_reload(struct peer *p, const Eventd__V1__Request *r);
void verb_restart(struct peer *p, const Eventd__V1__Request *r);
void verb_policy(struct peer *p, const Eventd__V1__Request *r);
void verb_policy_explain(struct peer *p, const Eventd__V1__Request *r);
void verb_limits(struct peer *p, const Eventd__V1__Request *r);
void verb_profile(struct peer *p, const Eventd__V1__Request *r);
void verb_spawn(struct peer *p, const Eventd__V1__Request *r);
void verb_set_executor(struct peer *p, const Eventd__V1__Request *r);
void verb_stop(struct peer *p, const Eventd__V1__Request *r);
void verb_ping(struct peer *p, const Eventd__V1__Request *r);
void verb_queue_peek(struct peer *p, const Eventd__V1__Request *r);
void verb_queue_pause(struct peer *p, const Eventd__V1__Request *r);
void verb_queue_resume(struct peer *p, const Eventd__V1__Request *r);
void verb_queue_purge(struct peer *p, const Eventd__V1__Request *r);
void verb_queue_move(struct peer *p, const Eventd__V1__Request *r);
void verb_dead_list(struct peer *p, const Eventd__V1__Request *r);
void verb_dead_show(struct peer *p, const Eventd__V1__Request *r);
void verb_dead_requeue(struct peer *p, const Eventd__V1__Request *r);
void verb_dead_purge(struct peer *p, const Eventd__V1__Request *r);
