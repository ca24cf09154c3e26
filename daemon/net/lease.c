#include "net/lease.h"

#include "kernel/session.h"

void
lease_settle(struct lease *l, struct session *s, uint64_t upto)
{
	while (l->settled < upto) {
		struct msg *m = msg_queue_pop(&l->held);

		l->settled++;
		l->size -= msg_charge(m);
		session_done(s, m, 0);
	}
}

void
lease_end(struct lease *l, struct session *s, int status)
{
	struct msg *m;

	while ((m = msg_queue_pop(&l->held)))
		session_done(s, m, status);
	l->settled = l->delivered;
	l->size = 0;
}

static bool
was_tried_enough(const struct session *s, const struct msg *m)
{
	uint32_t most = s->spec ? s->spec->max_attempts : 0;

	return most && m->attempt + 1u >= most;
}

void
lease_return(struct lease *l, struct session *s, bool died)
{
	struct msg_queue poison = {NULL};
	struct msg *newest = NULL, *m;

	while ((m = msg_queue_pop(&l->held))) {
		if (died && was_tried_enough(s, m)) {
			msg_queue_push(&poison, m);
			continue;
		}
		msg_link(m, newest);
		newest = m;
	}
	while ((m = newest)) {
		newest = msg_next(m);
		session_return(s, m);
	}
	l->settled = l->delivered;
	l->size = 0;
	while ((m = msg_queue_pop(&poison)))
		session_done(s, m, EVD_STATUS_POISON);
}
