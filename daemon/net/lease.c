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

void
lease_return(struct lease *l, struct session *s)
{
	struct msg *newest = NULL, *m;

	while ((m = msg_queue_pop(&l->held))) {
		msg_link(m, newest);
		newest = m;
	}
	while ((m = newest)) {
		newest = msg_next(m);
		session_return(s, m);
	}
	l->settled = l->delivered;
	l->size = 0;
}
