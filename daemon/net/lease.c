#include "net/lease.h"

#include <stdlib.h>

#include "base/fault.h"
#include "kernel/journal.h"
#include "kernel/session.h"

enum { ROOM_MIN = 16, AHEAD = 4 };

void
lease_deinit(struct lease *l)
{
	free(l->ring);
	l->ring = NULL;
	l->room = 0;
}

const struct msg *
lease_first(const struct lease *l)
{
	for (uint64_t n = l->settled + 1; l->n_held && n <= l->delivered; n++)
		if (lease_at(l, n)->msg)
			return lease_at(l, n)->msg;
	return NULL;
}

bool
lease_grow(struct lease *l)
{
	uint32_t room = l->room ? l->room * 2 : ROOM_MIN;
	struct lease grown = *l;

	grown.ring =
		FAULT(lease_reserve) ? NULL : calloc(room, sizeof(*grown.ring));
	if (!grown.ring)
		return false;
	grown.room = room;
	for (uint64_t n = l->settled + 1; n <= l->delivered; n++)
		*lease_at(&grown, n) = *lease_at(l, n);
	free(l->ring);
	*l = grown;
	return true;
}

struct msg *
lease_take(struct lease *l, uint64_t number)
{
	struct msg *m;

	if (number <= l->settled || number > l->delivered)
		return NULL;
	m = lease_at(l, number)->msg;
	if (!m)
		return NULL;
	lease_at(l, number)->msg = NULL;
	l->n_held--;
	l->size -= msg_charge(m);
	return m;
}

/* The memory of what comes some deliveries later is fetched meanwhile. */
static void
fetch_ahead(const struct lease *l)
{
	const struct msg *m = lease_at(l, l->settled + AHEAD)->msg;

	if (!m)
		return;
	__builtin_prefetch((const struct msg_wide *)m - 1);
	__builtin_prefetch(m);
}

void
lease_settle(struct lease *l, struct session *s, uint64_t upto)
{
	while (l->settled < upto) {
		struct msg *m = lease_take(l, l->settled + 1);

		fetch_ahead(l);
		l->settled++;
		if (m)
			session_done(s, m, 0);
	}
}

bool
lease_extend(struct lease *l, uint64_t number, uint64_t end_ns)
{
	if (number <= l->settled || number > l->delivered ||
		!lease_at(l, number)->msg)
		return false;
	lease_at(l, number)->end_ns = end_ns;
	return true;
}

uint64_t
lease_ended(const struct lease *l, uint64_t now_ns, uint64_t *next_ns)
{
	*next_ns = UINT64_MAX;
	for (uint64_t n = l->settled + 1; l->n_held && n <= l->delivered; n++) {
		const struct lease_held *held = lease_at(l, n);

		if (!held->msg || !held->end_ns)
			continue;
		if (held->end_ns <= now_ns)
			return n;
		if (held->end_ns < *next_ns)
			*next_ns = held->end_ns;
	}
	return 0;
}

/* What is durable is not lost with who had it: back, the newest first. */
static void
return_durable(struct lease *l, struct session *s)
{
	if (!session_journal(s))
		return;
	for (uint64_t n = l->delivered; n > l->settled; n--) {
		const struct msg *m = lease_at(l, n)->msg;

		if (m && journal_has(m))
			session_return(s, lease_take(l, n));
	}
}

void
lease_end(struct lease *l, struct session *s, int status)
{
	return_durable(l, s);
	while (l->settled < l->delivered) {
		struct msg *m = lease_take(l, l->settled + 1);

		l->settled++;
		if (m)
			session_done(s, m, status);
	}
}

bool
lease_is_last(const struct session *s, const struct msg *m)
{
	uint32_t most = s->spec ? s->spec->max_attempts : 0;

	return most && m->attempt + 1u >= most;
}

void
lease_return(struct lease *l, struct session *s, bool died)
{
	struct msg_queue poison = {0};
	struct msg *m;

	for (uint64_t n = l->delivered; n > l->settled; n--) {
		m = lease_take(l, n);
		if (!m)
			continue;
		if (died && lease_is_last(s, m))
			msg_queue_push(&poison, m);
		else
			session_return(s, m);
	}
	l->settled = l->delivered;
	while ((m = msg_queue_pop(&poison)))
		session_done(s, m, EVD_STATUS_POISON);
}
