#pragma once
/* A session asks for a durable delay, whose mailbox may be on another loop, and
 * is told by a reply when it is in the store. The home's thread. */
#include <stdint.h>

struct delay_init;
struct session;

/* What the reply holds, if its status is EVD_STATUS_OK; else it has a text. It
 * is struct evd_timer_set. */
struct delay_answer {
	uint64_t id, replaced;
};

/* Set what @init says, all of which is copied, to the alias or to @s itself,
 * and have ops.reply(@token) called once. One to itself goes by a name of @s,
 * one to others by a name of the alias. 0, or as session_call(): then reply()
 * is not called. *@call, which may be NULL, is as session_call() has it. */
int session_delay(struct session *s, const struct delay_init *init,
	uint64_t token, uint64_t *call);
