#pragma once
/* Stall: a question to the thread that a handler holds up: where is it? One
 * who watches asks, by a signal; the thread itself answers, in the signal's
 * handler or at the next place where its kind can. Who asked may give up
 * waiting at any moment; then nothing is told any more. */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { STALL_TEXT = 1280, STALL_FRAMES = 24 };

/* OnStall= */
enum stall_action {
	STALL_LOG,
	STALL_MOVE, /* its next events are run by a pool */
	STALL_STOP, /* the handler is stopped by an error */
};

struct stall {
	_Atomic int state; /* of its own */
	sem_t told;
	/* The answer: text, or return addresses from the innermost on. */
	char text[STALL_TEXT];
	void *frames[STALL_FRAMES];
	int n_frames;
};

void stall_init(struct stall *st);
/* Who asks, before the signal. */
void stall_ask(struct stall *st);
/* Wait for the answer, at most @ms; false: none will come. */
bool stall_wait(struct stall *st, unsigned ms);
/* Who answers, in a signal handler or out of one: it is still asked, and the
 * answer may be written until stall_end(). */
bool stall_begin(struct stall *st);
void stall_end(struct stall *st);
