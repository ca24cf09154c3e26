#include "kind/lua_watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "kernel/away.h"
#include "kernel/msg.h"
#include "kernel/stall.h"
#include "kind/lua_session.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#if defined(__SANITIZE_THREAD__)
#define SIGNALS_ARE_LATE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIGNALS_ARE_LATE 1
#endif
#endif
#ifndef SIGNALS_ARE_LATE
#define SIGNALS_ARE_LATE 0
#endif

enum {
	HOOK_EVERY = 10000, /* instructions, where the hook is always on */
	STACK_MAX = 250,    /* levels that are looked at */
	ARMED = LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT,
};

_Thread_local struct lua_watch lua_watch_here;

static int
tick_signal(void)
{
	return SIGRTMIN + 6;
}

/* ---- lateness ---------------------------------------------------------- */

static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void on_hook(lua_State *L, lua_Debug *ar);

static void
look_at_clock(struct lua_watch *w)
{
	uint64_t limit_ns = (uint64_t)w->limit_ms * NS_PER_MS;

	if (w->running && limit_ns && cpu_ns() - w->started_ns > limit_ns)
		w->late = LUA_WATCH_LATE;
}

const char *
lua_watch_stalled_text(void)
{
	return away_here ? "handler did not return (OnStall=stop)"
			 : "handler held up its loop (OnStall=stop)";
}

static int
raise_late(lua_State *L)
{
	uint32_t ms = lua_watch_here.limit_ms;

	if (lua_watch_here.late == LUA_WATCH_STALLED)
		return luaL_error(L, "%s", lua_watch_stalled_text());
	if (ms % 1000)
		return luaL_error(L,
			"handler ran longer than HandlerTimeout=%dms", (int)ms);
	return luaL_error(L, "handler ran longer than HandlerTimeout=%ds",
		(int)(ms / 1000));
}

/* ---- where it is ------------------------------------------------------ */

/* Somebody waits for the hook to be called. */
static bool
is_wanted(const struct lua_watch *w)
{
	return w->late || w->asked;
}

static uint64_t
event_of(const struct lua_session *ls)
{
	return ls->m ? ls->m->id : 0;
}

static void
tell_where(struct lua_watch *w, lua_State *L)
{
	const struct lua_session *ls = lua_session_peek(L);
	struct stall *st = w->asked;

	w->asked = NULL;
	if (!st || !stall_begin(st))
		return;
	if (ls->session->id == w->asked_session &&
		event_of(ls) == w->asked_event)
		lua_report_where(ls, L, st->text, sizeof(st->text));
	stall_end(st);
}

bool
lua_watch_ask(const struct session *s, struct stall *st, bool stops)
{
	struct lua_watch *w = &lua_watch_here;
	lua_State *L = w->running;

	if (!L || lua_session_peek(L)->session != s)
		return false;
	w->asked_session = s->id;
	w->asked_event = event_of(lua_session_peek(L));
	w->asked = st;
	if (stops && !w->late)
		w->late = LUA_WATCH_STALLED;
	lua_sethook(L, on_hook, ARMED, 1);
	return true;
}

void
lua_watch_check(lua_State *L)
{
	struct lua_watch *w = &lua_watch_here;

	if (w->asked)
		tell_where(w, L);
	if (w->by_hook && !w->late)
		look_at_clock(w);
	if (!w->late)
		return;
	lua_sethook(L, on_hook, ARMED, 1);
	raise_late(L);
}

/* ---- holding the home ------------------------------------------------- */

static bool
is_called(lua_State *L, const void *call, int level)
{
	lua_Debug ar;

	for (; level < STACK_MAX && lua_getstack(L, level, &ar); level++)
		if (ar.i_ci == call)
			return true;
	return level == STACK_MAX;
}

static void
let_go(struct lua_watch *w)
{
	struct away *a = away_here;

	w->holder = NULL;
	if (a && a->held && !a->pinned && !a->depth)
		away_drop(a);
}

void
lua_watch_hold(lua_State *L)
{
	struct lua_watch *w = &lua_watch_here;
	struct away *a = away_here;
	lua_Debug ar;

	if (a->held)
		return;
	away_take(a);
	if (!lua_getstack(L, 0, &ar))
		return; /* until what runs ends */
	w->holder = L;
	w->holder_call = ar.i_ci;
	if (!w->late)
		lua_sethook(L, on_hook,
			LUA_MASKRET | (w->by_hook ? LUA_MASKCOUNT : 0),
			HOOK_EVERY);
	if (is_wanted(w)) /* the signal may have come meanwhile */
		lua_sethook(L, on_hook, ARMED, 1);
}

/* The hook of one that is in time. */
static void
set_plain_hook(struct lua_watch *w, lua_State *L)
{
	int mask = (w->by_hook ? LUA_MASKCOUNT : 0) |
		   (w->holder == L ? LUA_MASKRET : 0);

	lua_sethook(L, mask ? on_hook : NULL, mask, HOOK_EVERY);
	if (is_wanted(w))
		lua_sethook(L, on_hook, ARMED, 1);
}

/* A hook may be left from a handler that ended at the last moment. */
static void
on_hook(lua_State *L, lua_Debug *ar)
{
	struct lua_watch *w = &lua_watch_here;

	if (w->holder == L && ar->event == LUA_HOOKRET &&
		!is_called(L, w->holder_call, 1))
		let_go(w);
	if (w->asked)
		tell_where(w, L);
	if (w->by_hook && !w->late)
		look_at_clock(w);
	if (!w->late) {
		set_plain_hook(w, L);
		return;
	}
	lua_sethook(L, on_hook, ARMED, 1);
	raise_late(L);
}

/* On the thread whose CPU time has passed, at any instruction of it.
 * lua_sethook() is made to be called from here. */
static void
on_tick(int signal, siginfo_t *info, void *context)
{
	struct lua_watch *w = &lua_watch_here;
	lua_State *L = w->running;

	(void)signal, (void)context;
	if (!L || info->si_code != SI_TIMER || !w->limit_ms)
		return;
	w->ticks += 1 + (uint32_t)info->si_overrun;
	/* One more than the limit has: the first tick may come at once. */
	if (w->ticks > w->limit_ms / LUA_WATCH_TICK_MS) {
		w->late = LUA_WATCH_LATE;
		lua_sethook(L, on_hook, ARMED, 1);
	}
}

/* ---- the thread's timer ------------------------------------------------ */

static void
install_handler(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};

	action.sa_sigaction = on_tick;
	sigemptyset(&action.sa_mask);
	sigaction(tick_signal(), &action, NULL);
}

static int
timer_start(struct lua_watch *w)
{
	static const struct itimerspec every = {
		.it_interval.tv_nsec = LUA_WATCH_TICK_MS * NS_PER_MS,
		.it_value.tv_nsec = LUA_WATCH_TICK_MS * NS_PER_MS,
	};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID};
	sigset_t set;

	event.sigev_signo = tick_signal();
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &w->timer) != 0)
		return err_raise(-errno);
	w->has_timer = true;
	sigemptyset(&set);
	sigaddset(&set, tick_signal());
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (timer_settime(w->timer, 0, &every, NULL) != 0)
		return err_raise(-errno);
	return 0;
}

int
lua_watch_thread_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct lua_watch *w = &lua_watch_here;
	int r = 0;

	if (w->ready)
		return 0;
	w->ready = true;
	w->by_hook = SIGNALS_ARE_LATE;
	if (w->by_hook)
		return 0;
	pthread_once(&once, install_handler);
	r = timer_start(w);
	w->by_hook = r != 0;
	return r;
}

void
lua_watch_thread_deinit(void)
{
	struct lua_watch *w = &lua_watch_here;

	if (w->has_timer)
		timer_delete(w->timer);
	w->has_timer = false;
	w->ready = false;
}

void
lua_watch_by_hook(bool by_hook)
{
	lua_watch_here.by_hook = by_hook || SIGNALS_ARE_LATE;
}

/* ---- what runs --------------------------------------------------------- */

void
lua_watch_switch(lua_State *L)
{
	struct lua_watch *w = &lua_watch_here;

	if (w->holder && w->holder != L &&
		!is_called(w->holder, w->holder_call, 0))
		let_go(w);
	w->running = L;
	/* The signal may have come before: it hooked the one that ran then. */
	if (is_wanted(w) && L)
		lua_sethook(L, on_hook, ARMED, 1);
	else if (w->by_hook && !lua_gethook(L))
		lua_sethook(L, on_hook, LUA_MASKCOUNT, HOOK_EVERY);
}

/* The rest of @before has a meaning only if something runs. */
static void
suspend(struct lua_watch *w, struct lua_watch_mark *before)
{
	w->running = NULL; /* no tick counts for half of each */
	before->ticks = w->ticks;
	before->limit_ms = w->limit_ms;
	before->late = w->late;
	before->started_ns = w->started_ns;
}

void
lua_watch_enter_rest(
	struct lua_watch_mark *before, lua_State *L, uint32_t limit_ms)
{
	struct lua_watch *w = &lua_watch_here;

	if (!w->ready)
		lua_watch_thread_init();
	if (before->running)
		suspend(w, before);
	w->ticks = 0;
	w->limit_ms = limit_ms;
	w->late = LUA_WATCH_IN_TIME;
	if (w->by_hook)
		w->started_ns = cpu_ns();
	lua_watch_switch(L);
}

/* The time of the inner one is the outer one's, too. */
void
lua_watch_leave_rest(const struct lua_watch_mark *before)
{
	struct lua_watch *w = &lua_watch_here;

	w->ticks += before->ticks;
	w->limit_ms = before->limit_ms;
	w->late = before->late;
	w->started_ns = before->started_ns;
	lua_watch_switch(before->running);
}

bool
lua_watch_is_late(void)
{
	return lua_watch_here.late;
}

bool
lua_watch_is_late_now(void)
{
	struct lua_watch *w = &lua_watch_here;

	if (w->by_hook && !w->late)
		look_at_clock(w);
	return w->late;
}
