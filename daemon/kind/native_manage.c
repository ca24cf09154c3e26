/* What native sessions ask of mailboxes, dead letters and profiles: functions
 * of the host. The home's thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/alias.h"
#include "kind/manage.h"
#include "kind/native_send.h"
#include "proto/envelope.h"
#include "proto/status.h"

/* The answer that the running handler is given. */
struct native_managed {
	enum manage_op op;
	struct manage_answer answer;
	struct manage_answer rest; /* entries not read yet */
};

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

/* ---- asking ------------------------------------------------------------ */

static int
ask(struct native *n, enum manage_op op, const struct manage_args *args,
	const char *reply_event)
{
	struct native_call *call;
	char text[MANAGE_TEXT];
	int status;

	if (!reply_event || !name_is_valid(reply_event, strlen(reply_event),
				    ENVELOPE_EVENT_MAX))
		return -EINVAL;
	call = native_call_new(n, reply_event);
	if (!call)
		return -ENOMEM;
	call->op = (uint8_t)(op + 1);
	status = manage_ask(n->session, op, args, (uintptr_t)call, text);
	if (!status)
		return 0;
	native_call_free(call);
	return -status_errno(status);
}

/* What a plugin says, built with another version of the struct perhaps: false
 * if not even @least bytes of it are there. */
static bool
read_args(void *out, size_t room, const void *args, size_t size, size_t least)
{
	if (size < least)
		return false;
	memset(out, 0, room);
	memcpy(out, args, size < room ? size : room);
	return true;
}

/* What a plugin is told, as much as it has room for; a size is first. */
static void
write_info(void *info, size_t size, const void *from, size_t room)
{
	memcpy((char *)info + sizeof(size_t),
		(const char *)from + sizeof(size_t),
		(size < room ? size : room) - sizeof(size_t));
}

/* 0: nobody. */
static uint64_t
session_of(struct native *n, const char *alias, uint64_t id)
{
	if (alias)
		return alias_holder(&native_sched(n)->kernel->aliases, alias,
			strlen(alias));
	return id ? id : n->session->id;
}

int
native_queue(struct evd_ctx *ctx, unsigned op, const struct evd_queue_args *q)
{
	static const enum manage_op ops[] = {MANAGE_PAUSE, MANAGE_RESUME,
		MANAGE_PEEK, MANAGE_PURGE, MANAGE_MOVE};
	struct native *n = native_of(ctx);
	struct manage_args args;
	struct evd_queue_args copy;

	if (!read_args(&copy, sizeof(copy), q, q->size,
		    offsetof(struct evd_queue_args, after)))
		return -EINVAL;
	q = &copy;
	if (op > EVD_QUEUE_MOVE || (op == EVD_QUEUE_MOVE && !q->to))
		return -EINVAL;
	args = (struct manage_args){
		.session = session_of(n, q->alias, q->session),
		.to = q->to,
		.event = q->event,
		.ids = &q->id,
		.n_ids = op == EVD_QUEUE_PEEK && q->id,
		.after = q->after,
		.limit = q->limit,
		.bytes = q->bytes,
	};
	if (!args.session)
		return -ENOENT;
	return ask(n, ops[op], &args, q->reply_event);
}

int
native_dead(struct evd_ctx *ctx, unsigned op, const struct evd_dead_args *d)
{
	static const enum manage_op ops[] = {
		MANAGE_LETTERS, MANAGE_LETTER, MANAGE_REQUEUE, MANAGE_FORGET};
	struct native *n = native_of(ctx);
	struct manage_args args;
	struct evd_dead_args copy;

	if (!read_args(&copy, sizeof(copy), d, d->size,
		    offsetof(struct evd_dead_args, for_alias)))
		return -EINVAL;
	d = &copy;
	if (op > EVD_DEAD_PURGE || (op == EVD_DEAD_SHOW && d->n_ids != 1) ||
		(d->n_ids && !d->ids))
		return -EINVAL;
	args = (struct manage_args){
		.session = d->all ? 0 : session_of(n, d->alias, d->session),
		.alias = d->for_alias,
		.to = d->to,
		.ids = d->ids,
		.n_ids = d->n_ids,
		.after = d->after,
		.limit = d->limit,
		.bytes = d->bytes,
		.reason = d->reason ? dead_reason_of(d->reason) : DEAD_NONE,
	};
	if (!args.session && !d->all)
		return -ENOENT;
	if (d->reason && !args.reason)
		return -EINVAL;
	return ask(n, ops[op], &args, d->reply_event);
}

int
native_profile(
	struct evd_ctx *ctx, uint64_t session, int set, const char *reply_event)
{
	struct native *n = native_of(ctx);
	struct manage_args args = {
		.session = session_of(n, NULL, session),
		.set = set,
	};

	return ask(n, MANAGE_PROFILE, &args, reply_event);
}

/* ---- the answer -------------------------------------------------------- */

struct native_managed *
native_managed_new(
	const struct native_call *call, const struct evd_message *event)
{
	struct native_managed *managed;

	if (!call->op || event->status)
		return NULL;
	managed = calloc(1, sizeof(*managed));
	if (!managed)
		return NULL;
	managed->op = (enum manage_op)(call->op - 1);
	if (!manage_open(&managed->answer, event->data, event->size)) {
		free(managed);
		return NULL;
	}
	managed->rest = managed->answer;
	return managed;
}

void
native_given_free(struct native_given *given)
{
	if (!given)
		return;
	if (given->gathered)
		native_gather_free(given->gathered);
	if (given->call)
		native_call_free(given->call);
	free(given->managed);
	free(given);
}

static struct native_managed *
managed_of(struct evd_ctx *ctx)
{
	const struct native_more *more = native_of(ctx)->more;

	return more && more->given ? more->given->managed : NULL;
}

int
native_managed(struct evd_ctx *ctx, struct evd_answer *answer)
{
	const struct native_managed *managed = managed_of(ctx);
	struct evd_answer info;

	if (!managed || answer->size < sizeof(size_t))
		return -EINVAL;
	info = (struct evd_answer){
		.n = managed->answer.n,
		.next = managed->answer.next,
		.left = managed->answer.left,
		.status = (int)managed->answer.status,
		.text = managed->answer.text,
		.on = managed->answer.on,
	};
	write_info(answer, answer->size, &info, sizeof(info));
	return 0;
}

int
native_next_queued(struct evd_ctx *ctx, struct evd_queued *event)
{
	struct native_managed *managed = managed_of(ctx);
	struct evd_queued info;
	struct manage_event e;

	if (!managed || managed->op != MANAGE_PEEK ||
		event->size < sizeof(size_t))
		return -EINVAL;
	if (!manage_next_event(&managed->rest, &e))
		return -ENOENT;
	info = (struct evd_queued){
		.position = e.position,
		.id = e.id,
		.from = e.from,
		.event = e.event,
		.data = e.data,
		.data_size = e.data_size,
		.payload_size = e.size,
		.attempt = (uint32_t)e.attempt + 1,
		.is_call = e.call,
		.urgent = e.urgent,
	};
	write_info(event, event->size, &info, sizeof(info));
	return 0;
}

int
native_next_letter(struct evd_ctx *ctx, struct evd_letter *letter)
{
	struct native_managed *managed = managed_of(ctx);
	struct evd_letter info;
	struct manage_letter l;

	if (!managed || letter->size < sizeof(size_t) ||
		(managed->op != MANAGE_LETTERS && managed->op != MANAGE_LETTER))
		return -EINVAL;
	if (!manage_next_letter(&managed->rest, &l))
		return -ENOENT;
	info = (struct evd_letter){
		.id = l.id,
		.event_id = l.event_id,
		.from = l.from,
		.session = l.session,
		.alias = l.alias,
		.event = l.event,
		.reason = l.reason,
		.text = l.text,
		.data = l.data,
		.data_size = l.data_size,
		.payload_size = l.size,
		.time_ns = (int64_t)l.time_ns,
		.attempt = (uint32_t)l.attempt + 1,
		.status = (int)l.status,
	};
	write_info(letter, letter->size, &info, sizeof(info));
	return 0;
}

int
native_next_row(struct evd_ctx *ctx, struct evd_profile_row *row)
{
	struct native_managed *managed = managed_of(ctx);
	struct evd_profile_row info;
	struct manage_row from;

	if (!managed || managed->op != MANAGE_PROFILE ||
		row->size < sizeof(size_t))
		return -EINVAL;
	if (!manage_next_row(&managed->rest, &from))
		return -ENOENT;
	info = (struct evd_profile_row){
		.event = from.event,
		.calls = from.calls,
		.own_ns = from.own_ns,
		.whole_ns = from.whole_ns,
		.wait_ns = from.wait_ns,
		.wait_max_ns = from.wait_max_ns,
		.n_late = from.n_late,
		.late_ns = from.late_ns,
		.late_max_ns = from.late_max_ns,
	};
	write_info(row, row->size, &info, sizeof(info));
	return 0;
}
