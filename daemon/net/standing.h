#pragma once
/* Standing mailboxes: mailslots that clients have bound as durable. No file
 * tells of them but the store, so that they are there again in its next run,
 * with or without a client, until they are stopped. */
#include <stdint.h>

#include "kernel/sched.h"
#include "kernel/store.h"

struct consumer_init;

/* @t is one from now on. MAIL_ATTACHED tells @who when that is safe. 0,
 * JOURNAL_E_MANY or -ENOMEM. */
int standing_store(struct session *t, const struct consumer_init *who);
/* The spec of @spec's mailbox that stands for @alias: 0, -EINVAL: it has
 * classes of events, or -ENOMEM. */
int standing_spec(struct session_spec *spec, const char *alias);
/* Make those among @boxes whose alias is free. At the start of @s, whose thread
 * it is. */
void standing_begin(struct sched *s, struct store_box *boxes);
