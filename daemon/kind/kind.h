#pragma once
/* The kinds of sessions that files can ask for, by the word in Kind=. */
#include <stddef.h>

#include "kernel/session.h"

/* NULL: no such kind. */
const struct session_ops *kind_find(const char *word);
/* "lua, native, group" for messages. */
const char *kind_words(void);

extern const struct session_ops kind_lua;
extern const struct session_ops kind_native;

/* Before a thread runs sessions: give it what kinds need there, which is the
 * timer behind HandlerTimeout=. A thread that has not been prepared is when
 * its first Lua session starts. 0 or a negative errno: time limits then cost
 * more. */
int kind_thread_init(void);
/* Before that thread ends. */
void kind_thread_deinit(void);
