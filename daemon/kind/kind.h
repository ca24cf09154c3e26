#pragma once
/* The kinds of sessions that files can ask for, by the word in Kind=. */
#include <stddef.h>

#include "kernel/session.h"

/* NULL: no such kind. */
const struct session_ops *kind_find(const char *word);
/* "lua, native" for messages. */
const char *kind_words(void);

extern const struct session_ops kind_lua;
extern const struct session_ops kind_native;
