#pragma once
/* One Lua session: a state of its own, a main thread that loads the script,
 * runs `_stop` and reports errors, and one coroutine that runs the handlers,
 * one event at a time, and may wait in the middle of one. The home's thread.
 *
 * Nothing of Lua that can raise an error is called but under lua_pcall() or
 * lua_resume(): there is nobody above who could catch it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/list.h"
#include "base/log.h"
#include "kernel/away.h"
#include "kernel/claim.h"
#include "kernel/delays.h"
#include "kernel/session.h"
#include "kind/deferred.h"
#include "kind/lua_said.h"
#include "kind/lua_watch.h"

struct answers;
struct lua_await;
struct lua_tasks;
struct msg_init;
struct sched;

enum lua_stage {
	LUA_STAGE_LOADING,  /* the main chunk runs */
	LUA_STAGE_STARTING, /* _start */
	LUA_STAGE_UP,
	LUA_STAGE_STOPPING, /* _stop */
};

enum { LUA_SPAWN_DEPTH = 8 };

/* A Lua thread that resumes another, which runs now. */
struct lua_frame {
	lua_State *L;
	struct lua_frame *up;
};

/* The name of an event that was handled; its string is kept. */
struct lua_key {
	uint8_t size; /* 0: none */
	char name[39];
};
enum { LUA_KEYS = 8 }; /* a power of two */

struct lua_session {
	struct session *session;
	struct sched *sched;
	lua_State *L;  /* main thread */
	lua_State *co; /* of the handlers; see lua_run.c for its stack */
	size_t size, max_size; /* bytes of the state; 0: no limit */
	uint32_t handler_ms;
	enum lua_stage stage;
	struct msg *m;      /* being handled, or NULL */
	struct msg *reply;  /* what the wait brought, while it goes on */
	uint64_t waits_for; /* token; 0: nothing */
	uint64_t last_token;
	struct lua_frame *frames; /* who resumed whom, innermost first */
	unsigned depth;           /* spawned by one that was spawned by ... */
	unsigned closing;  /* coroutine.close() within coroutine.close() */
	bool is_call;      /* the event being handled wants a reply */
	bool is_unhandled; /* no handler has been found for it */
	bool yields;       /* a coroutine yields in order to wait */
	bool has_state;    /* eventd.become(): see lua_states.c */
	bool stashed;      /* the event being handled is to be put aside */
	struct list asked; /* calls whose answers come as events */
	struct answers *answers;   /* of eventd.gather() */
	struct lua_report *report; /* where an error's traceback goes */
	struct deferred deferred;
	struct log_site log; /* its own allowance of log lines */
	const char *path;    /* of the script; the spec's */
	struct lua_said said;
	struct lua_key keys[LUA_KEYS];
	/* See lua_wait.h: */
	uint8_t wait;   /* enum session_wait: what waits_for means */
	bool cancelled; /* nobody waits for an answer to what is handled */
	struct lua_await *await; /* an event is waited for */
	struct msg *awaited;     /* it came */
	struct lua_tasks *tasks; /* NULL: one at a time */
	lua_State *made;         /* the newest coroutine of those */
	int n_slots;             /* of a handler's coroutine */
};

/* For what touches nothing of the kernel. */
static inline struct lua_session *
lua_session_peek(lua_State *L)
{
	return *(struct lua_session **)lua_getextraspace(L);
}

/* For functions that scripts call: run by an executor, the session holds its
 * home from here on until the function returns, see lua_watch_hold(). */
static inline struct lua_session *
lua_session_of(lua_State *L)
{
	if (__builtin_expect(away_here != NULL, 0))
		lua_watch_hold(L);
	return lua_session_peek(L);
}

/* Between its runs a session's state is an odd number that says how deep its
 * spawning went, or NULL: not at all. */
static inline bool
lua_is_idle(const void *state)
{
	return !state || ((uintptr_t)state & 1);
}

static inline unsigned
lua_idle_depth(const void *state)
{
	return (unsigned)((uintptr_t)state >> 1);
}

static inline void *
lua_idle_state(unsigned depth)
{
	return (void *)((uintptr_t)depth << 1 | 1);
}

/* Its handler waits for what ls->last_token means. */
static inline void
lua_waits_for(struct lua_session *ls, enum session_wait what)
{
	ls->waits_for = ls->last_token;
	ls->wait = (uint8_t)what;
}

/* ---- lua_run.c: running handlers --------------------------------------- */

/* Keys into the registry, by address. */
extern const char lua_key_handlers, lua_key_event;

/* Set up the coroutine; the handlers are the table on top of @L. Raises. */
void lua_run_init(lua_State *L);
/* Run `_start`, the handler of ls->m, or go on with the one that waits.
 * LUA_OK, LUA_YIELD: it waits, or an error whose object is on ls->co, or
 * LUA_SESSION_LATE, _STALLED: it ended, but too late. */
enum { LUA_SESSION_LATE = -1, LUA_SESSION_STALLED = -2 };
int lua_run_start(struct lua_session *ls);
int lua_run_event(struct lua_session *ls);
int lua_run_on(struct lua_session *ls);
void lua_run_stop(struct lua_session *ls);
/* A coroutine cannot wait here: raise an error for @what. */
void lua_check_wait(lua_State *L, const char *what);
/* Wait for the reply to ls->waits_for, then run @k; for `return`. */
int lua_wait(lua_State *L, lua_KFunction k);
int lua_wait_with(lua_State *L, lua_KFunction k, lua_KContext context);
/* Push what is at the bottom of a handler's coroutine: ls->n_slots values.
 * Raises. */
void lua_run_slots(struct lua_session *ls, lua_State *L);

/* ---- lua_report.c: errors as text -------------------------------------- */

enum { LUA_REPORT_MAX = 4096 };

/* Call the C function @fn with @arg on the main thread, protected and
 * watched. 0, or why not in @text. */
int lua_protect(struct lua_session *ls, lua_CFunction fn, void *arg,
	char text[LUA_REPORT_MAX]);
/* The error object on top of ls->co, with the traceback there. */
void lua_report(struct lua_session *ls, int status, char text[LUA_REPORT_MAX]);
/* Where @L, which runs now, is: a line a level, and those who resumed it. */
void lua_report_where(
	const struct lua_session *ls, lua_State *L, char *text, size_t size);

/* ---- what scripts see; each may raise ---------------------------------- */

void lua_open_sandbox(lua_State *L);            /* lua_sandbox.c */
void lua_open_coroutine(lua_State *L);          /* lua_coroutine.c */
void lua_open_eventd(lua_State *L);             /* lua_api.c */
void lua_open_time(lua_State *L, int eventd);   /* lua_time.c */
void lua_open_timers(lua_State *L, int eventd); /* lua_timers.c */
void lua_open_spawn(lua_State *L, int eventd);  /* lua_spawn.c */
/* The field if_taken of the table at @options. */
enum claim_mode lua_check_if_taken(lua_State *L, int options);
void lua_open_names(lua_State *L, int eventd);   /* lua_names.c */
void lua_open_ties(lua_State *L, int eventd);    /* lua_ties.c */
void lua_open_manage(lua_State *L, int eventd);  /* lua_manage.c */
void lua_open_durable(lua_State *L, int eventd); /* lua_durable.c */
void lua_open_event(lua_State *L);               /* lua_event.c: pushes it */
/* Push the table that is the first argument of a notice's handler. */
void lua_push_notice(lua_State *L, const struct msg *m);

/* Reading scripts, lua_file.c: @name beside the session's script. Raises an
 * error if it is not below there, else pushes the path. */
void lua_push_path(lua_State *L, const char *name);
/* Read and compile @path, as text: pushes a function or raises. */
void lua_load_path(lua_State *L, const char *path);
bool lua_path_exists(const char *path);

/* ---- arguments, lua_args.c --------------------------------------------- */

/* The session that argument @i means, an alias or an id; 0: nobody. */
uint64_t lua_check_to(lua_State *L, int i);
/* An event to be posted, from a name and a payload; the caller's to free. */
const char *lua_check_event_name(lua_State *L, int i, size_t *size);
struct msg *lua_check_msg(lua_State *L, int event, int data);
/* The same with what else @with says. */
struct msg *lua_check_init(
	lua_State *L, int event, int data, const struct msg_init *with);
/* Payload bytes of argument @i; those of an integer are put in @number. */
enum { LUA_DATA_MAX = 24 };
const char *lua_check_data(
	lua_State *L, int i, char number[LUA_DATA_MAX], size_t *size);
/* Seconds of argument @i as nanoseconds. */
uint64_t lua_check_ns(lua_State *L, int i);
/* The same as milliseconds for a call; 0: there is none. */
uint32_t lua_check_timeout_ms(lua_State *L, int i);
/* Seconds since 1970. */
uint64_t lua_check_wall_ns(lua_State *L, int i);
/* A string that can name a timer. */
const char *lua_check_timer_name(lua_State *L, int i, size_t *size);
const char *lua_clock_word(enum delay_clock clock);
const char *lua_misfire_word(enum delay_misfire misfire);
/* Push nil, the status's word and a text. */
int lua_push_failure(lua_State *L, int status, const char *text);
/* @m was refused: it is a dead letter if argument @i names nobody. */
void lua_free_refused(lua_State *L, struct msg *m, int i);
/* The same for what sched_post() returned; argument @i said where to. */
int lua_push_refusal(lua_State *L, int r, uint64_t session, int i);
