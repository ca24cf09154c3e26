#pragma once
/* Mailbox: the bounded queue of events waiting for one session. Only the
 * thread of the session's home scheduler touches it.
 *
 * Behind the admitted events stand the parked ones: those that their poster's
 * window pays for until there is room. Events leave in the order they were
 * pushed, parked or not. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/msg.h"

enum { MAILBOX_E_FULL = 1 };

struct mailbox {
	struct msg_queue admitted;
	struct msg_queue parked;
	uint64_t size; /* bytes charged by the admitted */
	uint64_t max_size;
	uint32_t n; /* admitted */
	uint32_t n_parked;
	uint32_t max_n;
};

void mailbox_init(struct mailbox *box, uint32_t max_n, uint64_t max_size);
/* Change the bounds; admits nothing by itself, see mailbox_admit(). */
void mailbox_limit(struct mailbox *box, uint32_t max_n, uint64_t max_size);

/* Push @m. 0: admitted, and its flag MSG_ADMITTED says so; or parked, if it
 * has MSG_MAY_PARK and there is no room or others are parked already.
 * MAILBOX_E_FULL: nothing happened. An empty mailbox takes one event of any
 * size; one that has MSG_ADMITTED already is taken whatever the bounds. */
int mailbox_push(struct mailbox *box, struct msg *m);
/* Back to the front: it had been popped but not handled. */
void mailbox_unpop(struct mailbox *box, struct msg *m);
/* The first admitted event, or NULL. */
struct msg *mailbox_pop(struct mailbox *box);
/* Admit the next parked event if there is room now: it, or NULL. Call until
 * NULL after each pop. Cheap when nothing is parked. */
struct msg *mailbox_admit(struct mailbox *box);
/* Take out the next parked event, for an end without admission, or NULL. */
struct msg *mailbox_pop_parked(struct mailbox *box);
