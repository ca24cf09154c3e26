#pragma once
/* The servers of the mail of 2002, see models.c. A process of its own. */
#include <stdbool.h>
#include <stdint.h>

enum { MODEL_REQUEST = 32, MODEL_ANSWER = 64, MODEL_LISTENERS_MAX = 2 };

#define MODEL_ALIAS "echo" /* that frames are for */
#define MODEL_NAP "nap"    /* what is answered a millisecond later */

struct model_init {
	const char *design; /* worker, threadpool, leader, loop, block */
	int listeners[MODEL_LISTENERS_MAX];
	int n_listeners, n_threads;
	bool keep;   /* connections are kept open */
	bool frames; /* it speaks eventd's protocol */
};

/* Never returns. */
void model_run(const struct model_init *init);
