#include "kind/native_send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/sched.h"
#include "kind/answers.h"
#include "proto/envelope.h"
#include "proto/headers.h"
#include "proto/status.h"

static struct native *
native_of(struct evd_ctx *ctx)
{
	return (struct native *)ctx;
}

/* ---- arguments --------------------------------------------------------- */

/* As far as the plugin knew them; the rest is 0. */
static int
take_args(const struct evd_send_args *args, struct evd_send_args *out)
{
	memset(out, 0, sizeof(*out));
	if (args->size < offsetof(struct evd_send_args, headers))
		return -EINVAL;
	memcpy(out, args,
		args->size < sizeof(*out) ? args->size : sizeof(*out));
	return 0;
}

static int
encode_headers(const struct evd_send_args *args, uint8_t *out, uint32_t *size)
{
	uint8_t *p = out;

	*size = 0;
	for (size_t i = 0; i < args->n_headers; i++) {
		const struct evd_ctx_header *from = &args->headers[i];
		struct header h = {
			.name = from->name,
			.name_size = strlen(from->name),
			.value = from->value,
			.size = from->size,
		};

		if (!name_is_valid(h.name, h.name_size, ENVELOPE_EVENT_MAX))
			return -EINVAL;
		if (h.size > ENVELOPE_HEADERS_MAX ||
			(size_t)(p - out) + headers_room(&h) >
				ENVELOPE_HEADERS_MAX)
			return -EMSGSIZE;
		p = headers_put(p, &h);
	}
	*size = (uint32_t)(p - out);
	return 0;
}

static int
check_args(struct native *n, const struct evd_send_args *args)
{
	size_t key = args->key ? strlen(args->key) : 0;

	if (!args->event || !name_is_valid(args->event, strlen(args->event),
				    ENVELOPE_EVENT_MAX))
		return -EINVAL;
	if (args->key && (!key || key > MSG_KEY_MAX))
		return -EINVAL;
	if (args->data_size > native_sched(n)->kernel->limits.max_payload)
		return -EMSGSIZE;
	return 0;
}

static void
apply(struct native *n, const struct evd_send_args *args, struct msg *m)
{
	struct msg_extra *extra = msg_extra(m);
	uint64_t most = UINT64_MAX / NS_PER_MS;

	if (args->urgent)
		m->flags |= MSG_URGENT;
	if (!extra)
		return;
	extra->durable = args->durable;
	extra->traced = args->trace;
	if (args->trace)
		*args->trace = m->id = sched_id(native_sched(n));
	msg_live(m, native_sched(n)->now_ns,
		args->ttl_ms < most ? args->ttl_ms * NS_PER_MS : 0);
	if (!args->key)
		return;
	extra->key_size = (uint8_t)strlen(args->key);
	memcpy(extra->key, args->key, extra->key_size);
}

static int
make_with(struct native *n, const struct evd_send_args *args,
	const uint8_t *headers, uint32_t headers_size, struct msg **out)
{
	struct msg_init init = {
		.event = args->event,
		.headers = headers,
		.headers_size = headers_size,
	};

	init.event_size = (uint8_t)strlen(args->event);
	init.data = args->data;
	init.size = (uint32_t)args->data_size;
	init.extra = args->ttl_ms || args->key || args->durable ||
		     args->trace || args->level == EVD_DURABLE;
	*out = msg_new(&native_sched(n)->pool, &init);
	if (!*out)
		return -ENOMEM;
	apply(n, args, *out);
	(*out)->from = n->session->id;
	return 0;
}

/* Apart, for it has a large frame. */
__attribute__((noinline)) static int
make_with_headers(
	struct native *n, const struct evd_send_args *args, struct msg **out)
{
	uint8_t headers[ENVELOPE_HEADERS_MAX];
	uint32_t size;
	int r = encode_headers(args, headers, &size);

	return r ? r : make_with(n, args, headers, size, out);
}

/* The event that @args tell, but for where to. */
static int
make(struct native *n, const struct evd_send_args *args, struct msg **out)
{
	int r = check_args(n, args);

	if (r)
		return r;
	return args->n_headers ? make_with_headers(n, args, out)
			       : make_with(n, args, NULL, 0, out);
}

static uint64_t
receiver(struct native *n, const struct evd_send_args *args)
{
	if (!args->alias)
		return args->session;
	return alias_holder(&native_sched(n)->kernel->aliases, args->alias,
		strlen(args->alias));
}

/* What the kernel said of @m, which is ours again unless that is 0. */
static int
outcome(struct native *n, struct msg *m, int r)
{
	if (!r)
		return 0;
	msg_free(&native_sched(n)->pool, m);
	return -status_errno(sched_status(r));
}

int
native_make(struct native *n, const struct evd_send_args *args,
	struct evd_send_args *own, struct msg **out)
{
	int r = take_args(args, own);

	if (!r)
		r = make(n, own, out);
	if (r)
		return r;
	(*out)->to = receiver(n, own);
	return 0;
}

/* ---- posts and calls --------------------------------------------------- */

int
native_send(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	struct native *n = native_of(ctx);
	struct evd_send_args own;
	struct msg *m;
	int r = native_make(n, args, &own, &m);

	return r ? r : outcome(n, m, sched_post(native_sched(n), m));
}

static bool
is_reply_event(const char *event)
{
	return event && name_is_valid(event, strlen(event), ENVELOPE_EVENT_MAX);
}

uint64_t
native_deadline(const struct native *n)
{
	return n->current ? msg_deadline_ns(n->current) : 0;
}

int
native_ask(
	struct evd_ctx *ctx, const struct evd_send_args *args, uint64_t *call)
{
	struct native *n = native_of(ctx);
	struct evd_send_args own;
	struct msg *m;
	uint64_t id;
	int r = native_make(n, args, &own, &m);

	if (r)
		return r;
	if (own.key || !is_reply_event(own.reply_event)) {
		msg_free(&native_sched(n)->pool, m);
		return -EINVAL;
	}
	r = native_send_call(n, m, own.timeout_ms, own.reply_event, &id);
	if (!r && call)
		*call = id;
	return r;
}

int
native_post_of(struct native *n, const struct evd_send_args *args,
	struct msg *m, uint64_t token, uint64_t *id)
{
	int r = SCHED_E_NO_SESSION;

	if (args->level > EVD_HANDLED) {
		msg_free(&native_sched(n)->pool, m);
		return -EINVAL;
	}
	msg_wide(m)->deadline_ns = native_deadline(n);
	if (m->to)
		r = session_post(n->session, m, (enum msg_level)args->level,
			token, args->timeout_ms, id);
	return outcome(n, m, r);
}

int
native_post_level(
	struct evd_ctx *ctx, const struct evd_send_args *args, uint64_t *call)
{
	struct native *n = native_of(ctx);
	struct native_call *told = NULL;
	struct evd_send_args own;
	struct msg *m;
	int r = native_make(n, args, &own, &m);

	if (r)
		return r;
	r = is_reply_event(own.reply_event) ? -ENOMEM : -EINVAL;
	if (r == -ENOMEM)
		told = native_call_new(n, own.reply_event);
	if (!told) {
		msg_free(&native_sched(n)->pool, m);
		return r;
	}
	r = native_post_of(n, &own, m, (uintptr_t)told, &told->call);
	if (r)
		native_call_free(told);
	else if (call)
		*call = told->call;
	return r;
}

int
native_cancel_call(struct evd_ctx *ctx, uint64_t call)
{
	struct native *n = native_of(ctx);

	if (!n->more)
		return -ESRCH;
	LIST_FOREACH (node, &n->more->calls) {
		struct native_call *c =
			container_of(node, struct native_call, link);

		if (c->call != call)
			continue;
		if (session_cancel_call(n->session, call))
			return -ESRCH;
		list_remove(&c->link);
		free(c);
		return 0;
	}
	return -ESRCH;
}

/* ---- forward ----------------------------------------------------------- */

/* What the arguments leave out is as it came. */
static struct msg *
forward_as_it_came(struct native *n, struct evd_send_args *own)
{
	struct msg *m = msg_clone(&native_sched(n)->pool, n->current);

	if (!m)
		return NULL;
	m->handler = 0; /* another's index */
	m->from = n->session->id;
	if (own->urgent)
		m->flags |= MSG_URGENT;
	return m;
}

static int
make_forward(struct native *n, struct evd_send_args *own, struct msg **out)
{
	struct msg *m = n->current;

	if (m && !own->event && !own->data && !own->n_headers && !own->key &&
		!own->ttl_ms) {
		*out = forward_as_it_came(n, own);
		return *out ? 0 : -ENOMEM;
	}
	if (m && !own->event)
		own->event = m->event;
	if (m && !own->data) {
		own->data = msg_payload(m);
		own->data_size = m->size;
	}
	return make(n, own, out);
}

static int
find_forwarded(struct native *n, uint64_t wanted, uint64_t *call,
	uint64_t *deadline_ns)
{
	const struct msg *m = n->current;

	*call = wanted;
	*deadline_ns = 0;
	if (wanted)
		return n->more && deferred_find(&n->more->deferred, wanted,
					  deadline_ns)
			       ? 0
			       : -ESRCH;
	if (!m)
		return -EINVAL;
	if (msg_call(m) && !(m->flags & MSG_REPLIED)) {
		*call = msg_call(m);
		*deadline_ns = msg_deadline_ns(m);
	}
	return 0;
}

int
native_forward(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	struct native *n = native_of(ctx);
	struct evd_send_args own;
	uint64_t call, deadline_ns;
	struct msg *m;
	int r = take_args(args, &own);

	if (!r)
		r = find_forwarded(n, own.call, &call, &deadline_ns);
	if (!r)
		r = make_forward(n, &own, &m);
	if (r)
		return r;
	m->to = receiver(n, &own);
	r = session_forward(n->session, call, deadline_ns, m);
	if (r)
		return outcome(n, m, r);
	if (own.call)
		deferred_remove(&n->more->deferred, call);
	else if (call)
		msg_uncall(n->current);
	return 0;
}

/* ---- gather ------------------------------------------------------------ */

void
native_gather_free(struct native_gather *g)
{
	if (g->link.next)
		list_remove(&g->link);
	for (uint32_t i = 0; g->aliases && i < g->answers->n; i++)
		free(g->aliases[i]);
	free(g->aliases);
	free(g->event);
	answers_free(g->answers);
	free(g);
}

static struct native_gather *
gather_new(const struct evd_send_args *args)
{
	uint32_t n = (uint32_t)args->n_aliases;
	struct native_gather *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->answers = answers_new(n, args->n_wanted && args->n_wanted < n
					    ? (uint32_t)args->n_wanted
					    : n);
	g->event = strdup(args->reply_event ? args->reply_event : "");
	if (g->answers)
		g->aliases = calloc(n, sizeof(*g->aliases));
	for (uint32_t i = 0; g->aliases && i < n; i++) {
		g->aliases[i] = strdup(args->aliases[i]);
		if (!g->aliases[i])
			break;
	}
	if (g->event && g->aliases && g->aliases[n - 1])
		return g;
	native_gather_free(g);
	return NULL;
}

static void
ask_all(struct native *n, struct native_gather *g, const struct msg *m,
	uint32_t timeout_ms)
{
	for (uint32_t i = 0; i < g->answers->n; i++) {
		struct msg *copy = msg_clone(&native_sched(n)->pool, m);

		if (copy) {
			copy->to =
				alias_holder(&native_sched(n)->kernel->aliases,
					g->aliases[i], strlen(g->aliases[i]));
			msg_wide(copy)->deadline_ns = native_deadline(n);
		}
		answers_ask(g->answers, i, n->session, copy, timeout_ms);
	}
	list_append(&n->more->gathers, &g->link);
}

int
native_gather_begin(struct native *n, const struct evd_send_args *args,
	bool waits, struct native_gather **out)
{
	struct native_gather *g;
	struct evd_send_args own;
	struct msg *m;
	int r = take_args(args, &own);

	if (!r && (!own.n_aliases || own.n_aliases > ANSWERS_MAX || own.key ||
			  (!waits && !is_reply_event(own.reply_event))))
		r = -EINVAL;
	if (waits)
		own.reply_event = NULL;
	if (!r)
		r = make(n, &own, &m);
	if (r)
		return r;
	g = native_more(n) ? gather_new(&own) : NULL;
	if (g)
		ask_all(n, g, m, own.timeout_ms);
	msg_free(&native_sched(n)->pool, m);
	if (!g)
		return -ENOMEM;
	*out = g;
	return 0;
}

int
native_gather(struct evd_ctx *ctx, const struct evd_send_args *args)
{
	struct native_gather *g;
	int r = native_gather_begin(native_of(ctx), args, false, &g);

	if (r || !answers_are_over(g->answers))
		return r;
	native_gather_free(g);
	return -ENOENT;
}

struct native_gather *
native_gather_take(struct native *n, uint64_t token, const struct msg *reply)
{
	struct answers *a = answers_take(token, reply);

	if (!answers_are_over(a))
		return NULL;
	answers_close(a, n->session);
	LIST_FOREACH (node, &n->more->gathers) {
		struct native_gather *g =
			container_of(node, struct native_gather, link);

		if (g->answers == a)
			return g;
	}
	return NULL;
}

int
native_answer(struct evd_ctx *ctx, size_t i, struct evd_ctx_answer *answer)
{
	const struct native_more *more = native_of(ctx)->more;
	const struct native_gather *g =
		more && more->given ? more->given->gathered : NULL;
	const struct answer *a;

	if (!g || i >= g->answers->n)
		return -ERANGE;
	a = &g->answers->at[i];
	*answer = (struct evd_ctx_answer){
		.alias = g->aliases[i],
		.status = a->status,
		.data = a->data ? a->data : "",
		.size = a->size,
	};
	return 0;
}

/* ---- receiving --------------------------------------------------------- */

const void *
native_header(struct evd_ctx *ctx, const char *name, size_t *size)
{
	const struct msg *m = native_of(ctx)->current;
	struct header h;

	*size = 0;
	if (!m || !headers_find(msg_headers(m), m->headers_size, name,
			  strlen(name), &h))
		return NULL;
	*size = h.size;
	return h.value;
}

int
native_stash(struct evd_ctx *ctx)
{
	struct native *n = native_of(ctx);
	bool given = n->more && n->more->given; /* it is not kept for later */
	int r = n->current && !given ? session_may_stash(n->session, n->current)
				     : -EINVAL;

	if (!r && !n->after)
		n->after = NATIVE_STASH;
	return r == SCHED_E_FULL ? -EAGAIN : r;
}

int
native_unstash(struct evd_ctx *ctx)
{
	return (int)session_unstash(native_of(ctx)->session);
}

void
native_become(struct evd_ctx *ctx, const struct evd_handler *handlers, size_t n)
{
	struct native *native = native_of(ctx);
	struct native_more *more = native->more;

	native->became = handlers && n;
	if (native->became && !(more = native_more(native))) {
		native->became = false;
		native->after = NATIVE_FAIL;
	}
	if (!more)
		return;
	more->first = handlers;
	more->n_first = native->became ? n : 0;
}

void
native_send_deinit(struct native *n)
{
	LIST_FOREACH (node, &n->more->gathers)
		native_gather_free(
			container_of(node, struct native_gather, link));
}
