#pragma once
/* Lua watch: stops a handler that runs too long. Each thread that runs Lua
 * sessions has a timer on its own CPU time; its signal handler counts ticks
 * and, once the running handler has had more than it may, sets a hook on the
 * running Lua thread that raises an error at every further instruction. A
 * handler that is in time pays a few stores.
 *
 * Where such a timer cannot be had, and under ThreadSanitizer, which holds
 * signals back, a count hook that is always on does the same for more.
 *
 * What runs inside one C function is stopped when that returns, or calls
 * another, or asks lua_watch_check(). */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <lua.h>

struct session;
struct stall;

enum { LUA_WATCH_TICK_MS = 10 };

/* Why what runs must end. */
enum lua_watch_late {
	LUA_WATCH_IN_TIME,
	LUA_WATCH_LATE,    /* it has had more than it may */
	LUA_WATCH_STALLED, /* it holds up its loop: OnStall=stop */
};

/* The thread's own; its signal handler reads and writes it in between, which
 * is why it is volatile. */
struct lua_watch {
	lua_State *volatile running; /* NULL: none */
	volatile uint32_t ticks;     /* since it was entered */
	volatile uint32_t limit_ms;
	volatile uint8_t late; /* enum lua_watch_late */
	bool ready;
	bool by_hook;
	bool has_timer;
	uint64_t started_ns; /* by_hook: the thread's CPU time */
	timer_t timer;
	/* Which C function holds the home; NULL: none does by itself. */
	lua_State *holder;
	const void *holder_call;
	/* Where is it? NULL: nobody asks. */
	struct stall *volatile asked;
	uint64_t asked_session, asked_event; /* whose handler it is */
};
/* Reached from a signal handler: no lazy allocation of thread-local memory. */
extern _Thread_local struct lua_watch lua_watch_here
	__attribute__((tls_model("initial-exec")));

/* What was being watched, to go back to: one handler may run another. */
struct lua_watch_mark {
	lua_State *running;
	uint32_t ticks, limit_ms;
	uint8_t late;
	uint64_t started_ns;
};

/* For this thread. 0 or a negative errno: by the count hook then. */
int lua_watch_thread_init(void);
void lua_watch_thread_deinit(void);

/* @L starts to run and may do so for @limit_ms of CPU time; 0: for ever. */
void lua_watch_enter_rest(
	struct lua_watch_mark *before, lua_State *L, uint32_t limit_ms);
static inline void
lua_watch_enter(struct lua_watch_mark *before, lua_State *L, uint32_t limit_ms)
{
	struct lua_watch *w = &lua_watch_here;

	before->running = w->running;
	if (before->running || !w->ready || w->by_hook) {
		lua_watch_enter_rest(before, L, limit_ms);
		return;
	}
	w->ticks = 0;
	w->limit_ms = limit_ms;
	w->late = LUA_WATCH_IN_TIME;
	w->running = L;
}
/* Not in time: so it has failed, whatever it made of the errors raised in it.
 */
void lua_watch_leave_rest(const struct lua_watch_mark *before);
static inline enum lua_watch_late
lua_watch_leave(const struct lua_watch_mark *before)
{
	struct lua_watch *w = &lua_watch_here;
	enum lua_watch_late late;

	w->running = NULL;
	late = (enum lua_watch_late)w->late;
	w->late = LUA_WATCH_IN_TIME;
	w->limit_ms = 0;
	if (before->running)
		lua_watch_leave_rest(before);
	else
		w->holder = NULL; /* who ran it goes on holding */
	return late;
}
/* What runs now is late. An error raised by the hook travels with hooks off,
 * until it is caught: nothing of the script may be run meanwhile. */
bool lua_watch_is_late(void);
/* The same where no hook runs: looks at the clock if nothing else does. */
bool lua_watch_is_late_now(void);
/* What is said of one that was stopped by OnStall=. */
const char *lua_watch_stalled_text(void);
/* For C functions that may take long: raise the hook's error if it is. */
void lua_watch_check(lua_State *L);
/* The C function that runs on @L, for a session that an executor runs, holds
 * the session's home until it returns to the script, by whatever way. For
 * lua_session_of(). */
void lua_watch_hold(lua_State *L);
/* Where is the script of @s, which runs on this thread? In a signal handler;
 * the answer comes from the script's next instruction, or lua_watch_check() in
 * a function of ours. With @stops it fails there. False: no script of it
 * runs now. */
bool lua_watch_ask(const struct session *s, struct stall *st, bool stops);
/* Another Lua thread of the same state runs on. */
void lua_watch_switch(lua_State *L);
/* Use the count hook on this thread from now on; for tests. */
void lua_watch_by_hook(bool by_hook);
