#pragma once
/* One native session: its plugin's state and what it holds of the kernel.
 * The home's thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "eventd/plugin.h"
#include "kernel/claim.h"
#include "kernel/sched.h"
#include "kernel/session.h"
#include "kind/deferred.h"
#include "kind/kind.h"
#include "kind/native_image.h"
#include "proto/envelope.h"

struct native_gather;
struct native_managed;
struct native_task;
struct sched;

/* What a plugin sees as struct evd_ctx. */
struct native {
	const struct evd_host *host; /* first, see struct evd_ctx_head */
	struct session *session;
	const struct native_image *image;
	void *state;              /* the plugin's */
	struct msg *current;      /* being handled */
	struct native_more *more; /* NULL until it does anything */
	bool started;
	bool stopping;
	bool became;   /* more->first goes before its own handlers */
	uint8_t after; /* enum native_after */
};

_Static_assert(sizeof(struct native) <= 56, "every session pays for it");

/* What is to be done when the handler has returned 0. */
enum native_after {
	NATIVE_STASH = 1, /* put the event aside */
	NATIVE_FAIL = 2,  /* there was no memory for what must not fail */
};

/* What an idle session does not need. */
struct native_more {
	const struct native_slot *said; /* handler posted to last by name;
					 * never NULL */
	struct native_ref *refs;        /* number handed out - 1 */
	uint32_t n_refs, max_refs;
	const struct evd_handler *first; /* evd_ctx_become() */
	size_t n_first;
	struct list targets;        /* struct evd_target */
	struct list calls;          /* struct native_call: no reply yet */
	struct list gathers;        /* struct native_gather: not over yet */
	struct native_given *given; /* to the handler that runs */
	struct deferred deferred;
	struct log_site log;               /* its own allowance of log lines */
	char name[ENVELOPE_ALIAS_MAX + 1]; /* native_away.c: of itself */
	/* Of handlers on coroutines, see native_wait.h: */
	struct native_task *task; /* the one that runs; NULL: none */
	struct list tasks;        /* those that wait */
	struct session_waits waits;
	int result;                /* of the one that ended last */
	struct native_task *ended; /* that one, while it is seen to */
	bool is_lost;              /* one was given up: so is the state */
};

/* What the handler of an answer, or one that gathered, reads by functions of
 * the host; all of it belongs to it. */
struct native_given {
	struct native_gather *gathered; /* NULL: not of that kind */
	struct native_managed *managed; /* see native_manage.c */
	struct native_call *call;       /* that it answers, or NULL */
};

/* A reference to a handler: name and, once the holder is known and native on
 * this thread, the holder's own place for it. */
struct native_ref {
	const struct evd_target *target;
	uint64_t holder;                /* whose it is; 0: not known */
	const struct native_slot *slot; /* in the holder's image; NULL: none */
	const struct native_slot *own;  /* of that name in ours; NULL: none */
	char *event;
	uint8_t size; /* of the event */
};

/* A call that waits for its reply, which comes as an event of ours. */
struct native_call {
	struct list link;
	uint64_t call;
	uint8_t op; /* what was asked of a mailbox ..., + 1; 0: a plain call */
	uint8_t size;
	char event[];
};

extern const struct evd_host native_host;
/* native_away.c: the same for a session that an executor runs. */
extern const struct evd_host native_host_away;
/* native_ties.c, native_names.c: of the host. */
int native_watch(struct evd_ctx *ctx, const struct evd_watch_args *watch,
	uint64_t *number);
int native_unwatch(struct evd_ctx *ctx, uint64_t number);
int native_unlink(struct evd_ctx *ctx, uint64_t session);
int native_trap(struct evd_ctx *ctx, int on);
enum claim_mode native_claim_mode(unsigned flags); /* evd_bind_flag */
int native_bind(struct evd_ctx *ctx, const char *alias, unsigned flags);
int native_unbind(struct evd_ctx *ctx, const char *alias);
int native_wait(struct evd_ctx *ctx, const char *alias, uint64_t timeout_ms,
	const char *reply_event);
int native_watch_names(
	struct evd_ctx *ctx, const char *pattern, uint64_t *number);
/* native_spawn.c */
int native_spawn(struct evd_ctx *ctx, const struct evd_spawn_args *args,
	uint64_t *session);
void native_exit(struct evd_ctx *ctx, const char *text);
int native_stop_child(struct evd_ctx *ctx, uint64_t session);
uint64_t native_parent(struct evd_ctx *ctx);
size_t native_children(struct evd_ctx *ctx, uint64_t *sessions, size_t n);
uint32_t native_attempt(struct evd_ctx *ctx);
/* native_manage.c */
int native_queue(
	struct evd_ctx *ctx, unsigned op, const struct evd_queue_args *args);
int native_dead(
	struct evd_ctx *ctx, unsigned op, const struct evd_dead_args *args);
int native_profile(struct evd_ctx *ctx, uint64_t session, int set,
	const char *reply_event);
int native_managed(struct evd_ctx *ctx, struct evd_answer *answer);
int native_next_queued(struct evd_ctx *ctx, struct evd_queued *event);
int native_next_letter(struct evd_ctx *ctx, struct evd_letter *letter);
const void *native_state_get(
	struct evd_ctx *ctx, const char *key, size_t *size);
int native_state_set(
	struct evd_ctx *ctx, const char *key, const void *data, size_t size);
int native_next_row(struct evd_ctx *ctx, struct evd_profile_row *row);
/* The reply @event to such a call; NULL: there is nothing to be read of it. It
 * refers to the event's data. */
struct native_managed *native_managed_new(
	const struct native_call *call, const struct evd_message *event);
/* NULL: nothing. */
void native_given_free(struct native_given *given);

/* native_host.c: call; takes @m whatever happens. */
int native_send_call(struct native *n, struct msg *m, uint32_t timeout_ms,
	const char *reply_event, uint64_t *id);
/* Takes @m on success; the outcome has the token @token. */
int native_call_of(struct native *n, struct msg *m, uint64_t token,
	uint32_t timeout_ms, uint64_t *id);
/* native_send.c: of the event being handled, or 0. */
uint64_t native_deadline(const struct native *n);
/* native_time.c */
int native_delay(struct evd_ctx *ctx, const struct evd_delay_args *delay,
	uint64_t *timer);
int native_timer(struct evd_ctx *ctx, const struct evd_timer_args *args,
	uint64_t *timer);
int native_cancel(struct evd_ctx *ctx, uint64_t timer);
int native_cancel_name(struct evd_ctx *ctx, const char *name);
uint32_t native_cancel_all(struct evd_ctx *ctx);
int native_adjust(struct evd_ctx *ctx, uint64_t timer, const char *name,
	const struct evd_adjust_args *args);
int native_next_timer(
	struct evd_ctx *ctx, uint64_t after, struct evd_timer_info *info);

static inline struct sched *
native_sched(const struct native *n)
{
	return atomic_load_explicit(&n->session->home, memory_order_relaxed);
}
/* Concurrency= */
static inline uint32_t
native_most_waiting(const struct native *n)
{
	return n->session->spec->concurrency;
}
/* Made if need be; NULL: out of memory. */
struct native_more *native_more(struct native *n);
static inline struct native *
native_state(const struct session *s)
{
	return s->state;
}
/* The running native session @id if it lives on @here. */
static inline struct session *
native_at(struct sched *here, uint64_t id)
{
	struct session *s = session_find(here->kernel, id);
	struct sched *home =
		s ? atomic_load_explicit(&s->home, memory_order_relaxed) : NULL;

	return home == here && s->ops == &kind_native && s->state ? s : NULL;
}
/* The outcome will be the event @event; NULL: out of memory. */
struct native_call *native_call_new(struct native *n, const char *event);
void native_call_free(struct native_call *call);
/* All that @n holds of the kernel. */
void native_host_deinit(struct native *n);
