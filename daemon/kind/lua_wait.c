#include "kind/lua_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernel/sched.h"
#include "kind/lua_session.h"
#include "proto/status.h"

static const char key_tasks; /* into the registry: their coroutines */

/* ---- several at once --------------------------------------------------- */

int
lua_tasks_init(struct lua_session *ls)
{
	uint32_t most = ls->session->spec->concurrency;

	if (most <= 1)
		return 0;
	ls->tasks = calloc(1, sizeof(*ls->tasks));
	if (!ls->tasks)
		return err_raise(-ENOMEM);
	ls->tasks->most = most;
	ls->tasks->current = calloc(1, sizeof(*ls->tasks->current));
	if (!ls->tasks->current)
		return err_raise(-ENOMEM);
	ls->tasks->current->co = ls->tasks->first = ls->co;
	return 0;
}

void
lua_tasks_deinit(struct lua_session *ls)
{
	struct lua_tasks *tasks = ls->tasks;
	struct lua_task *t;

	if (!tasks)
		return;
	while ((t = tasks->spare)) {
		tasks->spare = t->next;
		free(t);
	}
	free(tasks->current);
	free(tasks);
	ls->tasks = NULL;
}

/* Another coroutine with the same at its bottom; raises. */
static int
make_coroutine(lua_State *L)
{
	struct lua_session *ls = lua_session_peek(L);
	lua_State *co = lua_newthread(L);
	int n = ls->n_slots;

	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_tasks) != LUA_TTABLE) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &key_tasks);
	}
	lua_pushvalue(L, -2);
	lua_pushboolean(L, 1);
	lua_rawset(L, -3);
	luaL_checkstack(co, LUA_MINSTACK, NULL);
	lua_run_slots(ls, L);
	lua_xmove(L, co, n);
	ls->made = co;
	return 0;
}

static struct lua_task *
task_new(struct lua_session *ls)
{
	char text[LUA_REPORT_MAX];
	struct lua_task *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (lua_protect(ls, make_coroutine, NULL, text)) {
		free(t);
		return NULL;
	}
	t->co = ls->made;
	return t;
}

bool
lua_tasks_next(struct lua_session *ls)
{
	struct lua_tasks *tasks = ls->tasks;
	struct lua_task *t = tasks->current;

	if (tasks->n_waiting >= tasks->most)
		return false;
	if (!t && (t = tasks->spare))
		tasks->spare = t->next;
	if (!t)
		t = task_new(ls);
	tasks->current = t;
	if (!t)
		return false; /* when one has ended */
	ls->co = t->co;
	ls->cancelled = false;
	return true;
}

static struct lua_task **
bucket(struct lua_tasks *tasks, uint64_t token)
{
	return &tasks->waiting[token % LUA_BUCKETS];
}

/* Those that have waited longest come first. */
void
lua_tasks_park(struct lua_session *ls)
{
	struct lua_tasks *tasks = ls->tasks;
	struct lua_task *t = tasks->current;
	struct lua_task **link = bucket(tasks, ls->waits_for);

	t->m = TAKE(ls->m);
	t->answers = TAKE(ls->answers);
	t->await = TAKE(ls->await);
	t->waits_for = ls->waits_for;
	t->is_call = ls->is_call;
	t->stashed = ls->stashed;
	t->cancelled = ls->cancelled;
	t->next = NULL;
	while (*link)
		link = &(*link)->next;
	*link = t;
	t->wait = ls->wait;
	ls->waits_for = 0;
	tasks->current = NULL;
	tasks->n_waiting++;
	tasks->for_what[t->wait]++;
}

static void
enter(struct lua_session *ls, struct lua_task **link)
{
	struct lua_tasks *tasks = ls->tasks;
	struct lua_task *t = *link, *idle = tasks->current;

	*link = t->next;
	tasks->n_waiting--;
	tasks->for_what[t->wait]--;
	if (idle) {
		idle->next = tasks->spare;
		tasks->spare = idle;
	}
	tasks->current = t;
	ls->co = t->co;
	ls->m = t->m;
	ls->answers = t->answers;
	ls->await = t->await;
	ls->waits_for = t->waits_for;
	ls->wait = t->wait;
	ls->is_call = t->is_call;
	ls->stashed = t->stashed;
	ls->cancelled = t->cancelled;
}

static bool
enter_answers(struct lua_session *ls, const struct answers *answers)
{
	for (size_t i = 0; i < LUA_BUCKETS; i++) {
		struct lua_task **link = &ls->tasks->waiting[i];

		for (; *link; link = &(*link)->next)
			if ((*link)->answers == answers) {
				enter(ls, link);
				return true;
			}
	}
	return false;
}

bool
lua_tasks_enter(
	struct lua_session *ls, uint64_t token, const struct answers *answers)
{
	struct lua_task **link = bucket(ls->tasks, token);

	if (answers)
		return enter_answers(ls, answers);
	while (*link && (*link)->waits_for != token)
		link = &(*link)->next;
	if (!*link)
		return false;
	enter(ls, link);
	return true;
}

bool
lua_tasks_enter_any(struct lua_session *ls)
{
	for (size_t i = 0; ls->tasks && i < LUA_BUCKETS; i++)
		if (ls->tasks->waiting[i]) {
			enter(ls, &ls->tasks->waiting[i]);
			return true;
		}
	return false;
}

void
lua_waits(const struct session *s, struct session_waits *out)
{
	const struct lua_session *ls = s->state;

	if (lua_is_idle(ls))
		return;
	if (ls->tasks) {
		out->n = ls->tasks->n_waiting;
		memcpy(out->for_what, ls->tasks->for_what,
			sizeof(out->for_what));
	}
	if (ls->waits_for) { /* alone, or _start */
		out->n++;
		out->for_what[ls->wait]++;
	}
}

bool
lua_tasks_have(lua_State *L, lua_State *co)
{
	const struct lua_tasks *tasks = lua_session_peek(L)->tasks;
	bool have;

	if (!tasks || co == tasks->first)
		return tasks;
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_tasks) != LUA_TTABLE) {
		lua_pop(L, 1);
		return false;
	}
	lua_pushthread(co);
	if (co != L)
		lua_xmove(co, L, 1);
	have = lua_rawget(L, -2) == LUA_TBOOLEAN;
	lua_pop(L, 2);
	return have;
}

/* ---- being cancelled --------------------------------------------------- */

/* The wait for @token ends. Its answers, if it asked many, come as they may. */
static void
cancel_wait(struct lua_session *ls, uint64_t token)
{
	static const char text[] = "the caller cancelled it";
	struct session *s = ls->session;
	struct call *call = calls_by_token(&ls->sched->calls, s->calls, token);

	if (call && session_cancel_token(s, token))
		(void)sched_reply(ls->sched, call->id, EVD_STATUS_CANCELLED,
			text, sizeof(text) - 1);
}

static bool
is_at(const struct msg *m, uint64_t call)
{
	return m && msg_call(m) == call;
}

bool
lua_wait_cancel(struct lua_session *ls, uint64_t call)
{
	if (is_at(ls->m, call)) {
		ls->cancelled = true;
		if (ls->waits_for)
			cancel_wait(ls, ls->waits_for);
		return true;
	}
	for (size_t i = 0; ls->tasks && i < LUA_BUCKETS; i++)
		for (struct lua_task *t = ls->tasks->waiting[i]; t; t = t->next)
			if (is_at(t->m, call)) {
				t->cancelled = true;
				cancel_wait(ls, t->waits_for);
				return true;
			}
	return false;
}

/* ---- a time ------------------------------------------------------------ */

/* @ms, or less if the call being handled ends sooner: then *@cut. */
static uint64_t
within_deadline(const struct lua_session *ls, uint64_t ms, bool *cut)
{
	uint64_t deadline = ls->m ? msg_deadline_ns(ls->m) : 0, now, left;

	*cut = false;
	if (!deadline)
		return ms;
	now = clock_now(ls->sched->kernel->clock);
	left = deadline > now ? (deadline - now) / NS_PER_MS + 1 : 0;
	*cut = left < ms;
	return *cut ? left : ms;
}

static int
push_status(lua_State *L, const struct msg *reply)
{
	return lua_push_failure(
		L, reply ? (int)msg_status(reply) : EVD_STATUS_CANCELLED, NULL);
}

static int
sleep_on(lua_State *L, int status, lua_KContext cut)
{
	const struct msg *reply = lua_session_peek(L)->reply;

	(void)status;
	if (reply && msg_status(reply) == EVD_STATUS_TIMEOUT && !cut)
		return 0;
	return push_status(L, reply);
}

/* Begin to wait for so many milliseconds at most. */
static int
begin(lua_State *L, enum session_wait what, uint64_t ms, bool *cut,
	uint64_t *call)
{
	struct lua_session *ls = lua_session_of(L);
	int r = session_sleep(ls->session, ++ls->last_token,
		within_deadline(ls, ms, cut), call);

	if (!r)
		lua_waits_for(ls, what);
	return r;
}

static int
refused(lua_State *L, int r)
{
	return luaL_error(L, "cannot wait: %s", status_text(sched_status(r)));
}

/* eventd.sleep(seconds): nothing, or nil, a status word and a text */
static int
wait_sleep(lua_State *L)
{
	uint64_t ns = lua_check_ns(L, 1);
	bool cut;
	int r;

	lua_check_wait(L, "eventd.sleep");
	if (lua_session_of(L)->cancelled)
		return push_status(L, NULL);
	r = begin(L, SESSION_WAIT_TIME, (ns + NS_PER_MS - 1) / NS_PER_MS, &cut,
		NULL);
	if (r)
		return refused(L, r);
	return lua_wait_with(L, sleep_on, cut);
}

/* ---- an event ---------------------------------------------------------- */

static bool
lua_matches(const struct await *a, const struct msg *m)
{
	const struct lua_await *la = container_of(a, struct lua_await, await);

	return (!la->from || la->from == msg_sender(m)) &&
	       la->size == m->event_size &&
	       memcmp(la->event, m->event, la->size) == 0;
}

void
lua_await_drop(struct lua_session *ls)
{
	struct lua_await *la = TAKE(ls->await);

	if (!la)
		return;
	await_end(ls->session, &la->await);
	free(la);
}

static void
push_call(lua_State *L, struct msg *m)
{
	struct lua_session *ls = lua_session_of(L);

	if (!msg_call(m))
		return;
	if (deferred_add(&ls->deferred, msg_call(m), msg_deadline_ns(m)))
		luaL_error(L,
			"not enough memory to defer a call, or %d are "
			"deferred, the most possible",
			DEFERRED_MAX);
	lua_pushinteger(L, (lua_Integer)msg_call(m));
	lua_setfield(L, -2, "call");
	msg_uncall(m);
}

/* Its payload, and a table that tells of it. */
static int
push_event(lua_State *L, struct msg *m)
{
	lua_pushlstring(L, (const char *)msg_payload(m), m->size);
	lua_createtable(L, 0, 4);
	lua_pushlstring(L, m->event, m->event_size);
	lua_setfield(L, -2, "event");
	lua_pushinteger(L, (lua_Integer)m->id);
	lua_setfield(L, -2, "id");
	lua_pushinteger(L, (lua_Integer)msg_sender(m));
	lua_setfield(L, -2, "from");
	push_call(L, m);
	return 2;
}

static int
await_on(lua_State *L, int status, lua_KContext context)
{
	struct lua_session *ls = lua_session_of(L);
	int n;

	(void)status, (void)context;
	if (!ls->awaited)
		return push_status(L, ls->reply);
	n = push_event(L, ls->awaited);
	session_done(ls->session, TAKE(ls->awaited), EVD_STATUS_OK);
	return n;
}

/* The third argument is seconds, or a table with `timeout` and `from`. */
static uint64_t
check_options(lua_State *L, uint64_t *from)
{
	struct lua_session *ls = lua_session_peek(L);
	uint64_t ms = ls->sched->kernel->limits.call_timeout_ms;

	*from = 0;
	lua_settop(L, 2);
	if (lua_istable(L, 2)) {
		lua_getfield(L, 2, "from");
		if (!lua_isnil(L, -1))
			*from = (uint64_t)luaL_checkinteger(L, -1);
		lua_getfield(L, 2, "timeout");
		lua_replace(L, 2);
	}
	if (!lua_isnoneornil(L, 2))
		ms = (lua_check_ns(L, 2) + NS_PER_MS - 1) / NS_PER_MS;
	return ms;
}

static struct lua_await *
await_new(lua_State *L, const char *event, size_t size, uint64_t from)
{
	struct lua_await *la = malloc(sizeof(*la) + size + 1);

	if (!la) {
		luaL_error(L, "not enough memory to wait");
		return NULL;
	}
	la->await.matches = lua_matches;
	la->from = from;
	la->call = 0;
	la->size = (uint8_t)size;
	memcpy(la->event, event, size + 1);
	return la;
}

/* eventd.await_event(event [, timeout or options]) */
static int
wait_await_event(lua_State *L)
{
	struct lua_session *ls = lua_session_of(L);
	size_t size;
	const char *event = lua_check_event_name(L, 1, &size);
	uint64_t from, ms = check_options(L, &from);
	struct lua_await *la;
	bool cut;
	int r;

	lua_check_wait(L, "eventd.await_event");
	if (ls->cancelled)
		return push_status(L, NULL);
	la = await_new(L, event, size, from);
	r = begin(L, SESSION_WAIT_EVENT, ms, &cut, &la->call);
	if (!r && (r = await_begin(ls->session, &la->await))) {
		session_forget(ls->session, la->call);
		ls->waits_for = 0;
	}
	if (r) {
		free(la);
		return refused(L, r);
	}
	la->token = ls->waits_for;
	ls->await = la;
	return lua_wait_with(L, await_on, 0);
}

void
lua_open_wait(lua_State *L, int eventd)
{
	static const luaL_Reg functions[] = {
		{"sleep", wait_sleep},
		{"await_event", wait_await_event},
		{NULL, NULL},
	};

	lua_pushvalue(L, eventd);
	luaL_setfuncs(L, functions, 0);
	lua_pop(L, 1);
}
