/* The daemon's side of include/eventd/plugin.h. Plugins are trusted not to
 * break memory; names, sizes and numbers they give are checked all the same.
 * The home's thread. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/dead.h"
#include "kernel/sched.h"
#include "kind/native_send.h"
#include "kind/native_wait.h"
#include "kind/session_log.h"
#include "proto/envelope.h"
#include "proto/status.h"

struct evd_target {
	struct list link; /* in native.targets */
	struct alias *alias;
};

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

/* ---- references -------------------------------------------------------- */

static struct evd_target *
host_resolve(struct evd_ctx *ctx, const char *alias)
{
	struct native *n = native_of(ctx);
	struct native_more *more = native_more(n);
	struct evd_target *target = more ? malloc(sizeof(*target)) : NULL;

	if (!target)
		return NULL;
	target->alias = alias_ref(
		&native_sched(n)->kernel->aliases, alias, strlen(alias));
	if (!target->alias) {
		free(target);
		return NULL;
	}
	list_append(&more->targets, &target->link);
	return target;
}

static void
host_release(struct evd_ctx *ctx, struct evd_target *target)
{
	if (!target)
		return;
	list_remove(&target->link);
	alias_unref(
		&native_sched(native_of(ctx))->kernel->aliases, target->alias);
	free(target);
}

static inline uint64_t
holder_of(const struct evd_target *target)
{
	return atomic_load_explicit(
		&target->alias->holder, memory_order_acquire);
}

/* It will not be a session of this thread. */
static bool
is_far(struct sched *here, uint64_t session)
{
	struct session *s = session_find(here->kernel, session);

	return s &&
	       atomic_load_explicit(&s->home, memory_order_relaxed) != here;
}

/* Ask @holder for its index of the event. Strings of an image are there for
 * ever, so the reference may keep one. */
static void
ref_resolve(struct native *n, struct native_ref *ref, uint64_t holder)
{
	struct session *to = native_at(native_sched(n), holder);

	ref->holder = to || is_far(native_sched(n), holder) ? holder : 0;
	ref->slot = to ? native_image_slot(
				 native_state(to)->image, ref->event, ref->size)
		       : NULL;
}

static bool
refs_have_room(struct native_more *more)
{
	uint32_t max = more->max_refs ? more->max_refs * 2 : 8;
	struct native_ref *refs;

	if (more->n_refs < more->max_refs)
		return true;
	refs = reallocarray(more->refs, max, sizeof(*refs));
	if (!refs)
		return false;
	more->refs = refs;
	more->max_refs = max;
	return true;
}

static uint32_t
host_handler(struct evd_ctx *ctx, struct evd_target *target, const char *event)
{
	struct native *n = native_of(ctx);
	struct native_more *more = native_more(n);
	struct native_ref *ref;
	size_t size = strlen(event);

	if (!name_is_valid(event, size, ENVELOPE_EVENT_MAX))
		return 0;
	for (uint32_t i = 0; more && i < more->n_refs; i++)
		if (more->refs[i].target == target &&
			strcmp(more->refs[i].event, event) == 0)
			return i + 1;
	if (!more || !refs_have_room(more))
		return 0;
	ref = &more->refs[more->n_refs];
	ref->event = strdup(event);
	if (!ref->event)
		return 0;
	ref->target = target;
	ref->own = native_image_slot(n->image, event, size);
	ref->size = (uint8_t)size;
	ref_resolve(n, ref, holder_of(target));
	return ++more->n_refs;
}

/* ---- posts ------------------------------------------------------------- */

static int
errno_of(int r)
{
	return r ? -status_errno(sched_status(r)) : 0;
}

/* 0 and *@out, or a negative errno for the plugin. */
static int
make(struct native *n, const struct msg_init *init, struct msg **out)
{
	if (init->size > native_sched(n)->kernel->limits.max_payload)
		return -EMSGSIZE;
	*out = msg_new(&native_sched(n)->pool, init);
	return *out ? 0 : -ENOMEM;
}

static uint32_t
size_of(size_t size)
{
	return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

static int
make_named(struct native *n, const char *event, const void *data, size_t size,
	struct msg **out)
{
	size_t event_size = strlen(event);

	if (!name_is_valid(event, event_size, ENVELOPE_EVENT_MAX))
		return -EINVAL;
	return make(n,
		&(struct msg_init){.event = event,
			.event_size = (uint8_t)event_size,
			.data = data,
			.size = size_of(size)},
		out);
}

/* The slot of the handler of @event, NULL: none. Mostly it is the one that was
 * asked for last; images stay, and so do their slots. */
static inline const struct native_slot *
slot_said(const struct native *n, const struct native_image *image,
	const char *event)
{
	const struct native_slot *said;

	if (!n->more)
		return NULL;
	said = n->more->said;
	return said->image == image && said->event == event ? said : NULL;
}

static const struct native_slot *
slot_of(struct native *n, const struct native_image *image, const char *event)
{
	const struct native_slot *said = n->more ? n->more->said : NULL;

	if (said && said->image == image && strcmp(said->event, event) == 0)
		return said;
	said = native_image_slot(image, event, strlen(event));
	if (said && native_more(n))
		n->more->said = said;
	return said;
}

__attribute__((noinline)) static int
post_failed(struct native *n, struct msg *m, int r)
{
	msg_free(&native_sched(n)->pool, m);
	return errno_of(r);
}

/* Takes @m whatever happens. */
static int
post(struct native *n, struct msg *m, uint64_t to)
{
	int r;

	m->to = to;
	m->from = n->session->id;
	r = sched_post(native_sched(n), m);
	return r ? post_failed(n, m, r) : 0;
}

/* @m is an event to a native session of this thread: that gets its own string
 * and index, so the name is looked up once, and neither checked nor copied. */
static inline void
address_here(struct sched *s, struct msg *m, const struct native *n,
	const struct session *t, const struct native_slot *slot)
{
	m->id = sched_id(s);
	m->from = session_id(n->session);
	m->to = session_id(t);
	m->event = slot->event;
}

/* A payload of any size, or something stands in the way. */
__attribute__((noinline)) static int
post_closely(struct sched *s, struct native *n, struct session *t,
	const struct native_slot *slot, const void *data, size_t size)
{
	struct msg *m;
	int r;

	if (size > s->kernel->limits.max_payload)
		return -EMSGSIZE;
	m = msg_new_plain(&s->pool, slot->brief, data, (uint32_t)size);
	if (!m)
		return -ENOMEM;
	address_here(s, m, n, t, slot);
	if (sched_takes(s, t, (uint32_t)size)) {
		sched_put(s, t, m);
		return 0;
	}
	m->flags = 0; /* it is not accepted yet */
	r = sched_post_here(s, t, m);
	return r ? post_failed(n, m, r) : 0;
}

/* The hot path: a small payload, memory at hand and nothing in the way. It
 * calls nothing, and so saves no registers. */
static inline __attribute__((always_inline)) int
post_here(struct sched *s, struct native *n, struct session *t,
	const struct native_slot *slot, const void *data, size_t size)
{
	struct depot_block *block;
	unsigned class;
	struct msg *m;

	if (!msg_copy_is_short(size) || !sched_takes(s, t, (uint32_t)size))
		return post_closely(s, n, t, slot, data, size);
	class = msg_class(&s->pool, msg_plain_total(size));
	block = msg_pool_next(&s->pool, class);
	if (!block)
		return post_closely(s, n, t, slot, data, size);
	if (FAULT(msg_new))
		return -ENOMEM;
	m = msg_lay_plain(msg_pool_pop(&s->pool, class, block), class,
		slot->brief, data, (uint32_t)size);
	address_here(s, m, n, t, slot);
	sched_put(s, t, m);
	return 0;
}

/* By the name of a handler of our own: that is there for ever, and another
 * session of this plugin, wherever it lives, finds its handler by it. */
static int
make_as_own(struct native *n, const struct native_slot *own, const void *data,
	size_t size, struct msg **out)
{
	struct sched *s = native_sched(n);

	if (size > s->kernel->limits.max_payload)
		return -EMSGSIZE;
	*out = msg_new_plain(&s->pool, own->brief, data, (uint32_t)size);
	if (!*out)
		return -ENOMEM;
	(*out)->id = 0;
	(*out)->stamp = 0;
	(*out)->flags = 0; /* it is not accepted yet */
	(*out)->event = own->event;
	return 0;
}

__attribute__((noinline)) static int
post_ref(struct native *n, const struct native_ref *ref, uint64_t holder,
	const void *data, size_t size)
{
	struct msg_init init = {.event = ref->event,
		.event_size = ref->size,
		.data = data,
		.size = size_of(size),
		.plain = true};
	struct msg *m;
	int r = ref->own ? make_as_own(n, ref->own, data, size, &m)
			 : make(n, &init, &m);

	return r ? r : post(n, m, holder);
}

static int
host_post(struct evd_ctx *ctx, struct evd_target *target, uint32_t handler,
	const void *data, size_t size)
{
	struct native *n = native_of(ctx);
	struct sched *s = native_sched(n);
	uint64_t holder = holder_of(target);
	struct native_ref *ref;
	struct session *peer;

	if (!n->more || handler - 1 >= n->more->n_refs)
		return -EINVAL;
	ref = &n->more->refs[handler - 1];
	if (!holder)
		return -ENOENT;
	if (ref->holder != holder && ref->target == target)
		ref_resolve(n, ref, holder);
	peer = ref->slot && ref->holder == holder ? native_at(s, holder) : NULL;
	return peer ? post_here(s, n, peer, ref->slot, data, size)
		    : post_ref(n, ref, holder, data, size);
}

__attribute__((noinline)) static int
post_named(struct native *n, uint64_t session, const char *event,
	const void *data, size_t size)
{
	struct session *peer = native_at(native_sched(n), session);
	const struct native_slot *slot =
		peer ? slot_of(n, native_state(peer)->image, event) : NULL;
	struct msg *m;
	int r;

	if (slot)
		return post_here(native_sched(n), n, peer, slot, data, size);
	r = make_named(n, event, data, size, &m);
	return r ? r : post(n, m, session);
}

__attribute__((no_stack_protector)) static int
host_post_id(struct evd_ctx *ctx, uint64_t session, const char *event,
	const void *data, size_t size)
{
	struct native *n = native_of(ctx);
	struct sched *s = native_sched(n);
	struct session *peer = native_at(s, session);
	const struct native_slot *slot =
		peer ? slot_said(n, native_state(peer)->image, event) : NULL;

	return slot ? post_here(s, n, peer, slot, data, size)
		    : post_named(n, session, event, data, size);
}

static uint64_t
holder_by_name(struct native *n, const char *alias)
{
	return alias_holder(
		&native_sched(n)->kernel->aliases, alias, strlen(alias));
}

/* Nobody holds @alias: a dead letter, if it could be a post at all. */
static int
undeliverable(struct native *n, const char *alias, const char *event,
	const void *data, size_t size)
{
	struct msg *m;
	int r = make_named(n, event, data, size, &m);

	if (r)
		return r;
	m->from = n->session->id;
	dead_no_alias(native_sched(n), m, alias);
	return -ENOENT;
}

static int
host_post_alias(struct evd_ctx *ctx, const char *alias, const char *event,
	const void *data, size_t size)
{
	struct native *n = native_of(ctx);
	uint64_t holder = holder_by_name(n, alias);

	return holder ? host_post_id(ctx, holder, event, data, size)
		      : undeliverable(n, alias, event, data, size);
}

/* ---- calls ------------------------------------------------------------- */

struct native_call *
native_call_new(struct native *n, const char *event)
{
	size_t size = strlen(event);
	struct native_more *more = native_more(n);
	struct native_call *call =
		more ? malloc(sizeof(*call) + size + 1) : NULL;

	if (!call)
		return NULL;
	call->call = 0;
	call->op = 0;
	call->size = (uint8_t)size;
	memcpy(call->event, event, size + 1);
	list_append(&more->calls, &call->link);
	return call;
}

void
native_call_free(struct native_call *call)
{
	list_remove(&call->link);
	free(call);
}

int
native_call_of(struct native *n, struct msg *m, uint64_t token,
	uint32_t timeout_ms, uint64_t *id)
{
	msg_wide(m)->deadline_ns = native_deadline(n);
	return errno_of(session_call(n->session, m, token, timeout_ms, id));
}

int
native_send_call(struct native *n, struct msg *m, uint32_t timeout_ms,
	const char *reply_event, uint64_t *id)
{
	struct native_call *call = native_call_new(n, reply_event);
	int r;

	if (!call) {
		msg_free(&native_sched(n)->pool, m);
		return -ENOMEM;
	}
	r = native_call_of(n, m, (uintptr_t)call, timeout_ms, &call->call);
	if (!r) {
		*id = call->call;
		return 0;
	}
	msg_free(&native_sched(n)->pool, m);
	native_call_free(call);
	return r;
}

static int
host_call(struct evd_ctx *ctx, const struct evd_call_args *call)
{
	struct native *n = native_of(ctx);
	uint64_t holder = holder_by_name(n, call->alias), id;
	struct msg *m;
	int r;

	if (!name_is_valid(call->reply_event, strlen(call->reply_event),
		    ENVELOPE_EVENT_MAX))
		return -EINVAL;
	if (!holder)
		return -ENOENT;
	r = make_named(n, call->event, call->data, call->size, &m);
	if (r)
		return r;
	m->to = holder;
	return native_send_call(n, m, call->timeout_ms, call->reply_event, &id);
}

static void
forget_deferred(struct native *n, uint64_t call)
{
	if (n->more)
		deferred_remove(&n->more->deferred, call);
}

static int
host_reply(struct evd_ctx *ctx, uint64_t call, int status, const void *data,
	size_t size)
{
	struct native *n = native_of(ctx);
	int r;

	if (!call)
		return 0;
	if (size > native_sched(n)->kernel->limits.max_payload)
		return -EMSGSIZE;
	r = sched_reply(native_sched(n), call, status, data, (uint32_t)size);
	if (r)
		return r;
	if (n->current && msg_call(n->current) == call)
		n->current->flags |= MSG_REPLIED;
	else if (!native_task_replied(n, call))
		forget_deferred(n, call);
	return 0;
}

static uint64_t
host_defer(struct evd_ctx *ctx)
{
	struct native *n = native_of(ctx);
	struct msg *m = n->current;
	uint64_t call;

	if (!m || !msg_call(m) || (m->flags & MSG_REPLIED))
		return 0;
	call = msg_call(m);
	/* Beyond the table's limit it is good, but dies with its deadline. */
	if (native_more(n))
		(void)deferred_add(
			&n->more->deferred, call, msg_deadline_ns(m));
	msg_uncall(m);
	return call;
}

/* ---- itself ------------------------------------------------------------ */

static uint64_t
host_self(struct evd_ctx *ctx)
{
	return native_of(ctx)->session->id;
}

static const char *
host_alias(struct evd_ctx *ctx)
{
	return session_first_alias(native_of(ctx)->session);
}

static const char *
host_param(struct evd_ctx *ctx, const char *key)
{
	return spec_param(native_of(ctx)->session->spec, key);
}

static void
host_log(struct evd_ctx *ctx, int level, const char *text)
{
	struct native *n = native_of(ctx);

	struct log_site once = {0};
	struct log_site *site = native_more(n) ? &n->more->log : &once;

	session_log(n->session, site, level, text, strlen(text));
}

void
native_host_deinit(struct native *n)
{
	struct native_more *more = n->more;

	if (!more)
		return;
	LIST_FOREACH (node, &more->targets)
		host_release((struct evd_ctx *)n,
			container_of(node, struct evd_target, link));
	LIST_FOREACH (node, &more->calls) {
		list_remove(node);
		free(container_of(node, struct native_call, link));
	}
	native_send_deinit(n);
	for (uint32_t i = 0; i < more->n_refs; i++)
		free(more->refs[i].event);
	free(more->refs);
	deferred_deinit(&more->deferred, native_sched(n));
	free(more);
	n->more = NULL;
}

const struct evd_host native_host = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_host),
	.resolve = host_resolve,
	.release = host_release,
	.handler = host_handler,
	.post = host_post,
	.post_id = host_post_id,
	.post_alias = host_post_alias,
	.call = host_call,
	.reply = host_reply,
	.defer = host_defer,
	.delay = native_delay,
	.cancel = native_cancel,
	.self = host_self,
	.alias = host_alias,
	.param = host_param,
	.log = host_log,
	.watch = native_watch,
	.unwatch = native_unwatch,
	.unlink = native_unlink,
	.trap = native_trap,
	.send = native_send,
	.ask = native_ask,
	.cancel_call = native_cancel_call,
	.forward = native_forward,
	.gather = native_gather,
	.answer = native_answer,
	.header = native_header,
	.stash = native_stash,
	.unstash = native_unstash,
	.become = native_become,
	.timer = native_timer,
	.cancel_name = native_cancel_name,
	.cancel_all = native_cancel_all,
	.adjust = native_adjust,
	.next_timer = native_next_timer,
	.bind = native_bind,
	.unbind = native_unbind,
	.wait = native_wait,
	.watch_names = native_watch_names,
	.spawn = native_spawn,
	.exit = native_exit,
	.stop_child = native_stop_child,
	.parent = native_parent,
	.children = native_children,
	.attempt = native_attempt,
	.queue = native_queue,
	.dead = native_dead,
	.profile = native_profile,
	.managed = native_managed,
	.next_queued = native_next_queued,
	.next_letter = native_next_letter,
	.next_row = native_next_row,
	.sleep = native_sleep,
	.await_call = native_await_call,
	.await_event = native_await_event,
	.post_level = native_post_level,
	.await_post = native_await_post,
	.await_gather = native_await_gather,
	.state_get = native_state_get,
	.state_set = native_state_set,
};
