/* What scripts send: posts, calls whose answers come as events, forwarded
 * events and questions to many. Functions return nil, a status word and a text
 * where the kernel refuses; a wrong argument is an error. */
#include "kind/lua_send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/sched.h"
#include "kind/answers.h"
#include "kind/call_notice.h"
#include "kind/lua_session.h"
#include "proto/status.h"

/* ---- calls ------------------------------------------------------------- */

/* The answer, or nil, status word and text. Without any: the session stops,
 * and `_stop` has resumed who waited. */
static int
call_on(lua_State *L, int status, lua_KContext context)
{
	const struct msg *reply = lua_session_of(L)->reply;

	(void)status, (void)context;
	if (!reply)
		return lua_push_failure(L, EVD_STATUS_CANCELLED, NULL);
	if (!msg_status(reply)) {
		lua_pushlstring(
			L, (const char *)msg_payload(reply), reply->size);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, status_word((int)msg_status(reply)));
	if (reply->size)
		lua_pushlstring(L, (const char *)reply->data, reply->size);
	else
		lua_pushstring(L, status_text((int)msg_status(reply)));
	return 3;
}

/* A call made while a call is handled gets no more than its deadline. */
static uint64_t
deadline(const struct lua_session *ls)
{
	return ls->m ? msg_deadline_ns(ls->m) : 0;
}

static int
call_and_wait(lua_State *L, struct msg *m, uint32_t timeout_ms)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t to = m->to;
	int r = session_call(
		ls->session, m, ++ls->last_token, timeout_ms, NULL);

	if (r) {
		lua_free_refused(L, m, 1);
		return lua_push_refusal(L, r, to, 1);
	}
	lua_waits_for(ls, SESSION_WAIT_ANSWER);
	return lua_wait(L, call_on);
}

static int
begin_asked(struct lua_session *ls, struct msg *m, const struct lua_options *o,
	struct lua_asked *asked)
{
	uint64_t token = (uintptr_t)asked | LUA_ASKED_TOKEN;

	if (o->waits)
		return session_post(ls->session, m, (enum msg_level)o->level,
			token, o->timeout_ms, &asked->call);
	return session_call(ls->session, m, token, o->timeout_ms, &asked->call);
}

/* The answer comes as the event that the options tell. */
static int
call_and_go_on(lua_State *L, struct msg *m, const struct lua_options *o)
{
	struct lua_session *ls = lua_session_of(L);
	struct lua_asked *asked = malloc(sizeof(*asked) + o->reply_size + 1u);
	uint64_t to = m->to;
	int r = -ENOMEM;

	if (asked) {
		asked->size = o->reply_size;
		memcpy(asked->event, o->reply, o->reply_size + 1u);
		r = begin_asked(ls, m, o, asked);
	}
	if (r) {
		free(asked);
		msg_free(&ls->sched->pool, m);
		return lua_push_refusal(L, r, to, 1);
	}
	list_append(&ls->asked, &asked->link);
	lua_pushinteger(L, (lua_Integer)asked->call);
	return 1;
}

static void
check_wait_for(lua_State *L, uint64_t to)
{
	lua_check_wait(L, "eventd.call");
	luaL_argcheck(L, to != lua_session_peek(L)->session->id, 1,
		"a session that calls itself would wait for ever");
}

/* Apart from send_call(): see post_any(). */
__attribute__((noinline)) static int
call_with(lua_State *L, uint64_t to)
{
	struct lua_session *ls = lua_session_of(L);
	struct lua_options o;
	struct msg *m;

	lua_check_options(
		L, 4, LUA_OPT_EVENT | LUA_OPT_TIMEOUT | LUA_OPT_REPLY, &o);
	if (!o.reply) {
		check_wait_for(L, to);
		if (ls->cancelled)
			return lua_push_failure(L, EVD_STATUS_CANCELLED, NULL);
	}
	m = lua_check_event(L, 2, 3, &o);
	m->to = to;
	msg_wide(m)->deadline_ns = deadline(ls);
	return o.reply ? call_and_go_on(L, m, &o)
		       : call_and_wait(L, m, o.timeout_ms);
}

/* eventd.call(to, event [, data [, timeout or options]]) */
static int
send_call(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t to = lua_check_to(L, 1);
	uint32_t timeout_ms;
	struct msg *m;

	if (lua_type(L, 4) == LUA_TTABLE)
		return call_with(L, to);
	timeout_ms = lua_check_timeout_ms(L, 4);
	check_wait_for(L, to);
	if (ls->cancelled)
		return lua_push_failure(L, EVD_STATUS_CANCELLED, NULL);
	m = lua_check_msg(L, 2, 3);
	m->to = to;
	msg_wide(m)->deadline_ns = deadline(ls);
	return call_and_wait(L, m, timeout_ms);
}

static struct lua_asked *
asked_find(struct lua_session *ls, uint64_t call)
{
	LIST_FOREACH (node, &ls->asked) {
		struct lua_asked *asked =
			container_of(node, struct lua_asked, link);

		if (asked->call == call)
			return asked;
	}
	return NULL;
}

static void
asked_free(struct lua_asked *asked)
{
	list_remove(&asked->link);
	free(asked);
}

/* eventd.cancel_call(call): whether it was not answered yet */
static int
send_cancel_call(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct lua_asked *asked =
		asked_find(ls, (uint64_t)luaL_checkinteger(L, 1));

	lua_pushboolean(
		L, asked && !session_cancel_call(ls->session, asked->call));
	if (asked)
		asked_free(asked);
	return 1;
}

bool
lua_asked_reply(struct lua_session *ls, uint64_t token, const struct msg *reply)
{
	struct lua_asked *asked =
		(struct lua_asked *)(uintptr_t)(token & ~LUA_ASKED_TOKEN);

	if (!(token & LUA_ASKED_TOKEN))
		return false;
	call_notice_answer(
		ls->session, asked->call, asked->event, asked->size, reply);
	asked_free(asked);
	return true;
}

/* ---- posts ------------------------------------------------------------- */

/* Consumes @m; argument @i said where to, 0: to oneself. */
static int
post(lua_State *L, struct msg *m, uint64_t to, int i)
{
	struct lua_session *ls = lua_session_of(L);
	int r;

	m->to = to;
	m->from = ls->session->id;
	r = sched_post(ls->sched, m);
	if (r) {
		lua_free_refused(L, m, i);
		return lua_push_refusal(L, r, to, i);
	}
	lua_pushboolean(L, 1);
	return 1;
}

/* The same with options; of one that is traced the id is told as well. */
static int
post_traced(
	lua_State *L, struct msg *m, uint64_t to, const struct lua_options *o)
{
	uint64_t id = m->id;
	int n = post(L, m, to, 1);

	if (n > 1 || !o->trace)
		return n;
	lua_pushinteger(L, (lua_Integer)id);
	return 2;
}

/* The session @id if it lives here and takes a plain event at once. */
static inline struct session *
taker(const struct sched *s, uint64_t id, size_t size)
{
	struct session *t = session_find(s->kernel, id);

	return t && atomic_load_explicit(&t->home, memory_order_relaxed) == s &&
			       sched_takes(s, t, (uint32_t)size)
		       ? t
		       : NULL;
}

/* Something stands in the way. */
__attribute__((noinline)) static int
post_around(lua_State *L, uint64_t to, const struct lua_said_event *event,
	const char *data, size_t size)
{
	struct lua_session *ls = lua_session_of(L);
	struct msg *m = msg_new(
		&ls->sched->pool, &(struct msg_init){.event = event->text,
					  .event_size = (uint8_t)event->size,
					  .data = data,
					  .size = (uint32_t)size,
					  .plain = true});

	if (!m)
		return luaL_error(L, "not enough memory for an event");
	return post(L, m, to, 1);
}

/* The same of what needs no check but the payload, argument 3. */
static int
post_said(lua_State *L, const struct alias *alias,
	const struct lua_said_event *event)
{
	struct lua_session *ls = lua_session_peek(L);
	struct sched *s = ls->sched;
	char number[LUA_DATA_MAX];
	size_t size;
	const char *data = lua_check_data(L, 3, number, &size);
	uint64_t to =
		atomic_load_explicit(&alias->holder, memory_order_acquire);
	struct session *t = taker(s, to, size);
	struct msg *m;

	if (!t)
		return post_around(L, to, event, data, size);
	m = msg_new_named(&s->pool,
		&(struct msg){.id = sched_id(s),
			.from = session_id(ls->session),
			.to = to,
			.event = event->text,
			.size = (uint32_t)size,
			.flags = MSG_ADMITTED,
			.event_size = (uint8_t)event->size},
		data);
	if (!m)
		return luaL_error(L, "not enough memory for an event");
	sched_put(s, t, m);
	lua_pushboolean(L, 1);
	return 1;
}

/* True, and the id if it is traced, or nil, status word and text. */
static int
post_on(lua_State *L, int status, lua_KContext context)
{
	const struct msg *reply = lua_session_of(L)->reply;
	int r;

	(void)status;
	r = reply ? (int)msg_status(reply) : EVD_STATUS_CANCELLED;
	if (r)
		return lua_push_failure(L, r,
			reply && reply->size ? (const char *)reply->data
					     : NULL);
	lua_pushboolean(L, 1);
	if (!context)
		return 1;
	lua_pushinteger(L, context);
	return 2;
}

static int
post_and_wait(lua_State *L, struct msg *m, const struct lua_options *o)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t to = m->to, id = o->trace ? m->id : 0;
	int r = session_post(ls->session, m, (enum msg_level)o->level,
		++ls->last_token, o->timeout_ms, NULL);

	if (r) {
		msg_free(&ls->sched->pool, m);
		return lua_push_refusal(L, r, to, 1);
	}
	lua_waits_for(ls, SESSION_WAIT_ANSWER);
	return lua_wait_with(L, post_on, (lua_KContext)id);
}

/* With the option `wait`. */
static int
post_level(lua_State *L, uint64_t to, const struct lua_options *o)
{
	struct lua_session *ls = lua_session_of(L);
	struct msg *m;

	if (!o->reply) {
		lua_check_wait(L, "eventd.post");
		luaL_argcheck(L,
			to != ls->session->id || o->level < MSG_LEVEL_DELIVERED,
			1, "a session that waits for itself would for ever");
	}
	if (!o->reply && ls->cancelled)
		return lua_push_failure(L, EVD_STATUS_CANCELLED, NULL);
	m = lua_check_event(L, 2, 3, o);
	m->to = to;
	if (!to) {
		lua_free_refused(L, m, 1);
		return lua_push_refusal(L, SCHED_E_NO_SESSION, to, 1);
	}
	msg_wide(m)->deadline_ns = deadline(ls);
	return o->reply ? call_and_go_on(L, m, o) : post_and_wait(L, m, o);
}

static void
check_post_options(lua_State *L, struct lua_options *o)
{
	lua_check_options(L, 4,
		LUA_OPT_EVENT | LUA_OPT_KEY | LUA_OPT_WAIT | LUA_OPT_TIMEOUT |
			LUA_OPT_REPLY | LUA_OPT_DURABLE | LUA_OPT_TRACE,
		o);
	if (o->reply && o->trace)
		luaL_error(L, "there is no option 'trace' here with 'reply'");
	if (!o->waits && (o->timeout_ms || o->reply))
		luaL_error(L, "there is no option '%s' here without 'wait'",
			o->reply ? "reply" : "timeout");
}

/* With options, or of what has not been said before. Apart from send_post(),
 * for options take room on the stack that would be touched at each post. */
__attribute__((noinline)) static int
post_any(lua_State *L)
{
	struct lua_options o;
	uint64_t to = lua_check_to(L, 1);

	if (lua_gettop(L) <= 3 || lua_isnil(L, 4))
		return post(L, lua_check_msg(L, 2, 3), to, 1);
	check_post_options(L, &o);
	if (o.waits)
		return post_level(L, to, &o);
	return post_traced(L, lua_check_event(L, 2, 3, &o), to, &o);
}

/* eventd.post(to, event [, data [, options]]) */
static int
send_post(lua_State *L)
{
	const struct lua_said *said = &lua_session_of(L)->said;
	const struct lua_said_event *event = lua_said_event(L, 2, said);
	const struct alias *alias;

	if (!event || lua_gettop(L) != 3)
		return post_any(L);
	alias = lua_said_alias(L, 1, said);
	return alias ? post_said(L, alias, event) : post_any(L);
}

__attribute__((noinline)) static int
yield_with(lua_State *L, uint64_t self)
{
	struct lua_options o;

	lua_check_options(L, 3, LUA_OPT_EVENT | LUA_OPT_KEY, &o);
	return post(L, lua_check_event(L, 1, 2, &o), self, 1);
}

/* eventd.yield(event [, data [, options]]) */
static int
send_yield(lua_State *L)
{
	uint64_t self = lua_session_of(L)->session->id;

	if (!lua_isnoneornil(L, 3))
		return yield_with(L, self);
	return post(L, lua_check_msg(L, 1, 2), self, 1);
}

/* ---- forward ----------------------------------------------------------- */

/* What is forwarded: the event being handled, or a deferred call. */
struct forwarded {
	uint64_t call, deadline_ns;
	bool deferred;
};

static void
check_forwarded(lua_State *L, uint64_t call, struct forwarded *f)
{
	struct lua_session *ls = lua_session_of(L);
	struct msg *m = ls->m;

	*f = (struct forwarded){.deferred = call != 0, .call = call};
	if (call) {
		if (!deferred_find(&ls->deferred, call, &f->deadline_ns))
			luaL_error(L, "no such deferred call: it has been "
				      "answered or is another session's");
		return;
	}
	if (!m)
		luaL_error(L, "no event is being handled");
	if (msg_call(m) && !(m->flags & MSG_REPLIED)) {
		f->call = msg_call(m);
		f->deadline_ns = msg_deadline_ns(m);
	}
}

/* The event that goes on: as it came, but for what the arguments say. */
static struct msg *
check_forward_msg(lua_State *L, const struct lua_options *o)
{
	const struct msg *m = lua_session_of(L)->m;

	if (lua_isnoneornil(L, 2)) {
		if (!m)
			luaL_error(L, "which event?");
		lua_pushlstring(L, m->event, m->event_size);
		lua_replace(L, 2);
	}
	if (lua_isnoneornil(L, 3) && m) {
		lua_pushlstring(L, (const char *)msg_payload(m), m->size);
		lua_replace(L, 3);
	}
	return lua_check_event(L, 2, 3, o);
}

static void
keep_headers(const struct lua_session *ls, struct lua_options *o)
{
	if (o->headers_size || !ls->m || o->call)
		return;
	o->headers_size = ls->m->headers_size;
	memcpy(o->headers, msg_headers(ls->m), ls->m->headers_size);
}

/* eventd.forward(to [, event [, data [, options]]]) */
static int
send_forward(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint64_t to = lua_check_to(L, 1);
	struct lua_options o;
	struct forwarded f;
	struct msg *m;
	int r;

	lua_settop(L, 4);
	lua_check_options(L, 4, LUA_OPT_EVENT | LUA_OPT_KEY | LUA_OPT_CALL, &o);
	check_forwarded(L, o.call, &f);
	keep_headers(ls, &o);
	m = check_forward_msg(L, &o);
	m->to = to;
	m->from = ls->session->id;
	r = session_forward(ls->session, f.call, f.deadline_ns, m);
	if (r) {
		msg_free(&ls->sched->pool, m);
		return lua_push_refusal(L, r, to, 1);
	}
	if (f.deferred)
		deferred_remove(&ls->deferred, f.call);
	else if (f.call)
		msg_uncall(ls->m);
	lua_pushboolean(L, 1);
	return 1;
}

/* ---- gather ------------------------------------------------------------ */

static uint32_t
check_askees(lua_State *L)
{
	size_t n;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = lua_rawlen(L, 1);
	luaL_argcheck(L, n >= 1 && n <= ANSWERS_MAX, 1,
		"a list of 1 to 1024 aliases or session ids");
	for (size_t i = 1; i <= n; i++) {
		int type = lua_rawgeti(L, 1, (lua_Integer)i);

		if (type != LUA_TSTRING && !lua_isinteger(L, -1))
			luaL_argerror(
				L, 1, "a list of aliases and session ids");
		lua_pop(L, 1);
	}
	return (uint32_t)n;
}

/* One answer, as a table. */
static void
push_answer(lua_State *L, const struct answer *answer, lua_Integer i)
{
	const char *data = answer->data ? answer->data : "";

	lua_createtable(L, 0, 3);
	lua_rawgeti(L, 1, i);
	lua_setfield(L, -2, "alias");
	if (!answer->status) {
		lua_pushlstring(L, data, answer->size);
		lua_setfield(L, -2, "reply");
		return;
	}
	lua_pushstring(L, status_word(answer->status));
	lua_setfield(L, -2, "error");
	lua_pushstring(L, *data ? data : status_text(answer->status));
	lua_setfield(L, -2, "text");
}

/* The list, and how many answered well. */
static int
gather_end(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	struct answers *a = ls->answers;
	lua_Integer n_good = a->n_good;

	lua_createtable(L, (int)a->n, 0);
	for (uint32_t i = 0; i < a->n; i++) {
		push_answer(L, &a->at[i], i + 1);
		lua_rawseti(L, -2, i + 1);
	}
	ls->answers = answers_free(a);
	lua_pushinteger(L, n_good);
	return 2;
}

static int
gather_on(lua_State *L, int status, lua_KContext context)
{
	struct lua_session *ls = lua_session_of(L);

	(void)status, (void)context;
	if (!ls->reply || !ls->answers)
		return lua_push_failure(L, EVD_STATUS_CANCELLED, NULL);
	return gather_end(L);
}

/* Raises nothing. */
static void
ask_all(lua_State *L, struct answers *a, const struct msg *m,
	uint32_t timeout_ms)
{
	struct lua_session *ls = lua_session_of(L);

	for (uint32_t i = 0; i < a->n; i++) {
		struct msg *copy = msg_clone(&ls->sched->pool, m);

		lua_rawgeti(L, 1, i + 1);
		if (copy) {
			copy->to = lua_check_to(L, lua_gettop(L));
			msg_wide(copy)->deadline_ns = deadline(ls);
		}
		lua_pop(L, 1);
		answers_ask(a, i, ls->session, copy, timeout_ms);
	}
}

/* eventd.gather(list, event [, data [, options]]) */
static int
send_gather(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	uint32_t n = check_askees(L);
	struct lua_options o;
	struct msg *m;

	lua_check_wait(L, "eventd.gather");
	lua_settop(L, 4);
	luaL_checkstack(L, 8, NULL);
	lua_check_options(
		L, 4, LUA_OPT_EVENT | LUA_OPT_TIMEOUT | LUA_OPT_N, &o);
	m = lua_check_event(L, 2, 3, &o);
	answers_free(ls->answers); /* that could not be given */
	ls->answers = answers_new(n, o.n && o.n < n ? o.n : n);
	if (ls->answers)
		ask_all(L, ls->answers, m, o.timeout_ms);
	msg_free(&ls->sched->pool, m);
	if (!ls->answers)
		return luaL_error(L, "not enough memory to ask");
	if (answers_are_over(ls->answers))
		return gather_end(L);
	ls->last_token++;
	lua_waits_for(ls, SESSION_WAIT_ANSWER);
	return lua_wait(L, gather_on);
}

void
lua_send_deinit(struct lua_session *ls)
{
	LIST_FOREACH (node, &ls->asked)
		asked_free(container_of(node, struct lua_asked, link));
	ls->answers = answers_free(ls->answers);
}

void
lua_open_send(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"post", send_post},
		{"yield", send_yield},
		{"call", send_call},
		{"cancel_call", send_cancel_call},
		{"forward", send_forward},
		{"gather", send_gather},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}
