/* Lua sessions as session_ops. The home's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/away.h"
#include "kernel/sched.h"
#include "kind/answers.h"
#include "kind/call_notice.h"
#include "kind/kind.h"
#include "kind/lua_memory.h"
#include "kind/lua_send.h"
#include "kind/lua_session.h"
#include "kind/lua_wait.h"

enum { MEMORY_MIN = 64 << 10 }; /* the libraries alone need some 25 KiB */

/* ---- the state --------------------------------------------------------- */

static int
panic(lua_State *L)
{
	const char *text = lua_tostring(L, -1);

	log_err("lua.panic", "reason=\"%s\"", text ? text : "no text");
	return 0; /* Lua aborts: a bug of ours */
}

static struct lua_session *
lua_session_new(struct session *s)
{
	struct lua_session *ls = calloc(1, sizeof(*ls));

	if (!ls)
		return NULL;
	ls->session = s;
	list_init(&ls->asked);
	ls->sched = atomic_load(&s->home);
	ls->max_size = s->spec->memory_max;
	ls->handler_ms = s->spec->handler_ms;
	ls->path = s->spec->path ? s->spec->path : "";
	ls->depth = lua_idle_depth(s->state);
	if (ls->max_size && ls->max_size < MEMORY_MIN)
		ls->max_size = MEMORY_MIN;
	ls->L = lua_newstate(lua_allocate, ls);
	if (!ls->L) {
		free(ls);
		return NULL;
	}
	*(struct lua_session **)lua_getextraspace(ls->L) = ls;
	lua_atpanic(ls->L, panic);
	return ls;
}

static int
load_script(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);

	lua_open_sandbox(L);
	lua_open_coroutine(L);
	lua_open_eventd(L);
	lua_load_path(L, ls->path);
	lua_call(L, 0, 1);
	if (!lua_istable(L, -1))
		return luaL_error(L,
			"script %s: it returned a %s, not its table of "
			"handlers",
			ls->path, luaL_typename(L, -1));
	lua_run_init(L);
	return 0;
}

/* ---- outcomes ---------------------------------------------------------- */

/* What ran has failed: so has the session, which is gone afterwards. */
static void
fail(struct lua_session *ls, int status)
{
	struct session *s = ls->session;
	const struct msg *m = ls->m;
	char text[LUA_REPORT_MAX];

	lua_report(ls, status, text);
	away_pin();
	if (m)
		session_fail(s, "event %s (id %" PRIu64 "): %s", m->event,
			m->id, text);
	else
		session_fail(s, "_start: %s", text);
}

static enum session_result
lua_start(struct session *s)
{
	struct lua_session *ls = lua_session_new(s);
	char text[LUA_REPORT_MAX];
	int status;

	if (!ls) {
		session_fail(s, "script %s: not enough memory",
			s->spec->path ? s->spec->path : "");
		return SESSION_CRASHED;
	}
	s->state = ls;
	if (lua_protect(ls, load_script, NULL, text)) {
		session_fail(s, "%s", text);
		return SESSION_CRASHED;
	}
	if (lua_tasks_init(ls)) {
		session_fail(s, "script %s: not enough memory", ls->path);
		return SESSION_CRASHED;
	}
	ls->stage = LUA_STAGE_STARTING;
	status = lua_run_start(ls);
	if (status == LUA_YIELD)
		return SESSION_WAIT;
	if (status != LUA_OK) {
		fail(ls, status);
		return SESSION_CRASHED;
	}
	ls->stage = LUA_STAGE_UP;
	return SESSION_DONE;
}

static enum session_result
lua_run(struct session *s, struct msg *m)
{
	struct lua_session *ls = s->state;
	int status;

	if (ls->tasks && !lua_tasks_next(ls))
		return SESSION_HELD;
	ls->m = m;
	ls->is_call = msg_call(m) != 0;
	ls->stashed = false;
	ls->cancelled = false;
	status = lua_run_event(ls);
	if (status == LUA_OK) {
		ls->m = NULL;
		if (ls->stashed)
			return SESSION_STASHED;
		return ls->is_unhandled ? SESSION_UNHANDLED : SESSION_DONE;
	}
	if (status == LUA_YIELD && ls->tasks) {
		lua_tasks_park(ls);
		return SESSION_LEASED;
	}
	if (status == LUA_YIELD)
		return SESSION_WAIT;
	fail(ls, status);
	return SESSION_CRASHED;
}

/* Several may wait. */
static bool
are_many(const struct lua_session *ls)
{
	return ls->tasks && ls->stage == LUA_STAGE_UP;
}

/* The handler that waits goes on with it. */
static bool
is_waited_for(struct lua_session *ls, uint64_t token, const struct msg *reply)
{
	struct answers *a;

	bool plain = !(token & (ANSWERS_TOKEN | LUA_ASKED_TOKEN));

	if (plain && are_many(ls))
		return lua_tasks_enter(ls, token, NULL);
	if (plain)
		return ls->waits_for && token == ls->waits_for;
	away_pin();
	if (lua_asked_reply(ls, token, reply))
		return false;
	a = answers_take(token, reply);
	if (!answers_are_over(a))
		return false;
	answers_close(a, ls->session);
	return !are_many(ls) || lua_tasks_enter(ls, 0, a);
}

/* The handler has ended well. */
static void
end_handler(struct lua_session *ls, bool leased)
{
	struct session *s = ls->session;
	struct msg *m = TAKE(ls->m);

	if (m && ls->stashed) {
		session_stash(s, m);
	} else if (m) {
		session_done(s, m, EVD_STATUS_OK);
	} else {
		ls->stage = LUA_STAGE_UP;
		session_started(s);
	}
	if (leased)
		session_wake(s);
}

/* With what ended its wait. */
static void
go_on(struct lua_session *ls, struct msg *reply)
{
	struct session *s = ls->session;
	bool leased = are_many(ls);
	struct msg *m = ls->m;
	int status;

	if (ls->await)
		away_pin();
	lua_await_drop(ls);
	away_unpin();
	ls->waits_for = 0;
	ls->reply = reply;
	status = lua_run_on(ls);
	ls->reply = NULL;
	if (status == LUA_YIELD && leased) {
		lua_tasks_park(ls);
	} else if (status == LUA_OK) {
		away_pin();
		end_handler(ls, leased);
	} else if (status != LUA_YIELD) {
		fail(ls, status);
		if (leased)
			session_abandon(s, m, true);
	}
}

static void
lua_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct lua_session *ls = s->state;

	if (is_waited_for(ls, token, reply))
		go_on(ls, reply);
}

static void
lua_awaited(struct session *s, struct await *a, struct msg *m)
{
	struct lua_session *ls = s->state;
	struct lua_await *la = container_of(a, struct lua_await, await);

	if (are_many(ls))
		lua_tasks_enter(ls, la->token, NULL);
	away_pin();
	if (session_cancel_call(s, la->call)) /* no timeout any more */
		session_forget(s, la->call);
	ls->await = NULL;
	free(la);
	ls->awaited = m;
	go_on(ls, NULL);
}

/* Who waits is told to end: every further wait of it is an error. */
static void
end_one(struct lua_session *ls, bool crashed)
{
	lua_await_drop(ls);
	if (!crashed && ls->waits_for) {
		ls->waits_for = 0;
		(void)lua_run_on(ls);
	}
	ls->waits_for = 0;
	ls->m = NULL; /* the kernel ends it */
	ls->answers = answers_free(ls->answers);
	if (ls->awaited)
		session_done(ls->session, TAKE(ls->awaited), EVD_STATUS_DIED);
}

static void
end_all(struct lua_session *ls, bool crashed)
{
	ls->stage = LUA_STAGE_STOPPING;
	end_one(ls, crashed);
	while (lua_tasks_enter_any(ls)) {
		struct msg *m = ls->m;

		end_one(ls, crashed);
		session_abandon(ls->session, m, false);
	}
}

static void
lua_stop(struct session *s, bool crashed)
{
	struct lua_session *ls = s->state;
	bool was_up;

	if (lua_is_idle(s->state))
		return;
	was_up = ls->stage == LUA_STAGE_UP;
	end_all(ls, crashed);
	if (was_up && !crashed)
		lua_run_stop(ls);
	lua_tasks_deinit(ls);
	deferred_deinit(&ls->deferred, ls->sched);
	lua_send_deinit(ls);
	lua_said_deinit(ls);
	lua_close(ls->L);
	s->state = lua_idle_state(ls->depth);
	free(ls);
}

/* One that is being handled is told so by its next wait, or the one it is in.
 */
static bool
lua_cancelled(struct session *s, uint64_t call)
{
	struct lua_session *ls = s->state;

	if (deferred_remove(&ls->deferred, call)) {
		call_notice_cancelled(s, call);
		return true;
	}
	return lua_wait_cancel(ls, call);
}

static size_t
lua_memory(const struct session *s)
{
	const struct lua_session *ls = s->state;

	return lua_is_idle(ls) ? 0 : sizeof(*ls) + ls->size;
}

static bool
lua_owes(const struct session *s)
{
	const struct lua_session *ls = s->state;

	return !lua_is_idle(ls) && ls->deferred.calls.n > 0;
}

static const struct msg *
lua_handles(const struct session *s)
{
	const struct lua_session *ls = s->state;

	return lua_is_idle(ls) ? NULL : ls->m;
}

const struct session_ops kind_lua = {
	.kind = "lua",
	.gaps = true,
	.start = lua_start,
	.run = lua_run,
	.reply = lua_reply,
	.settled = session_settled,
	.stop = lua_stop,
	.memory = lua_memory,
	.owes = lua_owes,
	.goes_away = true,
	.handles = lua_handles,
	.stalled = lua_watch_ask,
	.waits = lua_waits,
	.cancelled = lua_cancelled,
	.awaited = lua_awaited,
};
