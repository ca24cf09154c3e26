#pragma once
/* Handlers of scripts that wait: for a time, for an event, and several of them
 * at once where the session's file has Concurrency=. The home's thread. */
#include <stdbool.h>
#include <stdint.h>

#include <lua.h>

#include "kernel/await.h"
#include "kernel/session.h"

struct lua_session;

/* What is a handler's own, and stands in the session while it runs. */
struct lua_task {
	struct lua_task *next; /* spare, or of the same bucket */
	lua_State *co;
	struct msg *m;
	struct answers *answers;
	struct lua_await *await;
	uint64_t waits_for;
	bool is_call, stashed, cancelled;
	uint8_t wait; /* enum session_wait */
};

enum { LUA_BUCKETS = 256 };

/* Of a session whose handlers may wait beside each other. */
struct lua_tasks {
	struct lua_task *waiting[LUA_BUCKETS]; /* by what they wait for */
	struct lua_task *spare;                /* their coroutines are done */
	struct lua_task *current;              /* that of lua_session.co */
	lua_State *first;                      /* coroutine */
	uint32_t n_waiting, most;
	uint32_t for_what[SESSION_WAITS];
};

/* eventd.await_event(), while it waits. */
struct lua_await {
	struct await await;
	uint64_t from; /* 0: anybody */
	uint64_t call; /* the kernel's, with the timeout */
	uint64_t token;
	uint8_t size;
	char event[];
};

/* After the script was loaded: 0 or -ENOMEM. */
int lua_tasks_init(struct lua_session *ls);
void lua_tasks_deinit(struct lua_session *ls);
/* One more handler may begin: its coroutine is lua_session.co. */
bool lua_tasks_next(struct lua_session *ls);
/* The running handler waits. */
void lua_tasks_park(struct lua_session *ls);
/* The one that waits for @token, or in eventd.gather() for @answers, runs from
 * now on; false: there is none. */
bool lua_tasks_enter(
	struct lua_session *ls, uint64_t token, const struct answers *answers);
/* Any that waits: false if there is none. */
bool lua_tasks_enter_any(struct lua_session *ls);
/* For session_ops.waits(). */
void lua_waits(const struct session *s, struct session_waits *out);
/* Is @co a handler's own? */
bool lua_tasks_have(lua_State *L, lua_State *co);

/* The caller of @call wants no answer: is a handler of ours at it? */
bool lua_wait_cancel(struct lua_session *ls, uint64_t call);
/* Before a handler goes on, or goes: it waits for an event no more. */
void lua_await_drop(struct lua_session *ls);
void lua_open_wait(lua_State *L, int eventd); /* raises */
