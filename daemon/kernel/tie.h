#pragma once
/* Tie: what makes one session learn of the end of another. A watch goes one
 * way: its session gets the event `_down`, once, when the other ends. A link
 * goes both ways: a failed end takes the other session down, unless that one
 * traps, which gets `_down` instead.
 *
 * A tie has two ends, one in the list of each session, touched by that
 * session's home alone. The end that goes first tells the other by a task that
 * lies ready in the tie, so that no lack of memory can keep it quiet. What
 * crosses on the way finds its end gone and does nothing. */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "kernel/ties.h"

struct session;

/* How a session ended, for those who are tied to it. */
enum tie_end_why {
	TIE_STOPPED, /* somebody stopped or restarted it; session.why's 0 */
	TIE_NORMAL,  /* it ended by itself, or its client said goodbye */
	TIE_FAILED,  /* with its reason as the text */
	TIE_LOST,    /* its client's connection is gone */
	TIE_NONE,    /* there was no such session */
	TIE_KILLED,  /* somebody stopped it by hand, or its parent did */
	TIE_IDLE,    /* IdleStop= */
	TIE_UNREFERENCED, /* Collect= */
};

struct tie_init {
	uint64_t session;  /* to be watched; of one that is gone `_down` comes
			    * at once */
	const char *alias; /* by which it was found, for `_down`; NULL */
	bool link;
};

/**
 * tie_make() - let @s watch another session, or link it with one
 * @s:      a session of this thread
 * @number: set to the number of the watch; 0 for a link that is there already
 *
 * Return: 0, TIE_E_LIMIT, TIE_E_SELF, TIE_E_ENDING or -ENOMEM.
 */
int tie_make(struct session *s, const struct tie_init *init, uint64_t *number);
/* End a watch of @s: 0 or TIE_E_NONE. A `_down` that is on its way comes. */
int tie_unwatch(struct session *s, uint64_t number);
/* End the link of @s with the session @other: 0 or TIE_E_NONE. */
int tie_cut(struct session *s, uint64_t number); /* a watch or a link */
int tie_unlink(struct session *s, uint64_t other);
/* "normal", "failed" ... */
const char *tie_why_word(enum tie_end_why why);

/* ---- for the kernel's own files -------------------------------------- */

/* @s has no state any more: end all its ties, but for the places in line that
 * its spec asks for. @text: why, or NULL. */
void ties_end(struct session *s, enum tie_end_why why, const char *text);
/* Bytes of its watches and links; it has ties. */
size_t tie_memory(const struct session *s);
/* @s is about to be gone: those, too. */
void ties_drop(struct session *s);
