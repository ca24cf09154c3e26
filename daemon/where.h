#pragma once
/* Where: the place at which a handler is, of a thread that is asked for it by a
 * signal (kernel/stall.h), and in words for the log. */
#include <stdbool.h>
#include <stddef.h>

#include "kernel/stall.h"

struct session;

/* Once, before the first signal. */
void where_init(void);
/* In the handler of a signal that interrupted the thread at @pc, which runs a
 * handler of @s: answer, or have its kind do so at the next place where it can.
 */
void where_answer(const struct session *s, struct stall *st, const void *pc);
/* Of an answer that comes within @ms: one line without what would end the value
 * in the log; "" if none comes. @program: the session's script or plugin. Who
 * asked. */
void where_text(struct stall *st, const char *program, unsigned ms,
	char text[STALL_TEXT]);
/* The last part of @path; "?" for NULL. */
const char *where_base(const char *path);
/* The function at @pc, with its offset. How many bytes. */
size_t where_frame(const char *program, const void *pc, char *text, size_t size,
	bool *is_plugin);
