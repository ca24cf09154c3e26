/* Sequence: posts with numbers that rise for ever, kept until they are settled
 * and sent again by the next connection. Belongs to the thread that uses the
 * handle. */
#include "sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "status.h"

/* A post that is not settled. */
struct kept {
	struct kept *next;
	uint64_t seq;    /* of this connection; 0: it has to be sent again */
	uint64_t number; /* as the program knows it */
	uint32_t entry;  /* of the window's ring */
	bool sync;       /* evd_post_wait() waits for it */
	struct envelope e;
	uint8_t bytes[];
};

struct sequence {
	uint64_t next;
	struct kept *first, **end; /* in the order in which they were posted */
	struct kept *posting;      /* the one that is about to be */
	uint64_t n_unsent;
	size_t id_size;
	char id[EVD_CLIENT_ID_MAX + 1];
};

/* ---- keeping ------------------------------------------------------------- */

static const void *
copy(uint8_t **end, const void *data, size_t size)
{
	uint8_t *at = *end;

	if (size)
		memcpy(at, data, size);
	*end += size;
	return at;
}

static struct kept *
kept_new(const struct envelope *e, const char *alias, const char *key,
	size_t key_size)
{
	size_t alias_size = strlen(alias);
	struct kept *k = malloc(sizeof(*k) + alias_size + e->event_size +
				e->payload_size + e->headers_size + key_size);
	uint8_t *end;

	if (!k)
		return NULL;
	end = k->bytes;
	k->next = NULL;
	k->seq = k->number = 0;
	k->sync = false;
	k->e = *e;
	k->e.to = 0; /* another connection has other references */
	k->e.alias = copy(&end, alias, alias_size);
	k->e.alias_size = (uint16_t)alias_size;
	k->e.event = copy(&end, e->event, e->event_size);
	k->e.payload = copy(&end, e->payload, e->payload_size);
	k->e.headers = copy(&end, e->headers, e->headers_size);
	k->e.key = copy(&end, key, key_size);
	k->e.key_size = (uint32_t)key_size;
	return k;
}

int
evd__sequence_begin(struct evd *c, const char *alias, struct envelope *e)
{
	struct sequence *s = c->sequence;
	char made[EVD_KEY_MAX + 1];
	const char *key = (const char *)e->key;
	size_t size = e->key_size;

	if (!size) {
		size = (size_t)snprintf(made, sizeof(made), "%c%s:%" PRIu64,
			SEQUENCE_MARK, s->id, s->next);
		key = made;
	}
	s->posting = kept_new(e, alias, key, size);
	if (!s->posting)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	e->key = s->posting->e.key;
	e->key_size = (uint32_t)size;
	return 0;
}

void
evd__sequence_sent(
	struct evd *c, uint64_t seq, uint64_t number, uint32_t entry, bool sync)
{
	struct sequence *s = c->sequence;
	struct kept *k = s->posting;

	s->posting = NULL;
	s->next++;
	k->seq = seq;
	k->number = number;
	k->entry = entry;
	k->sync = sync;
	*s->end = k;
	s->end = &k->next;
}

void
evd__sequence_undo(struct evd *c)
{
	free(c->sequence->posting);
	c->sequence->posting = NULL;
}

/* ---- settling ------------------------------------------------------------ */

static struct kept **
find(struct sequence *s, uint64_t seq)
{
	struct kept **link = &s->first;

	while (*link && (*link)->seq != seq)
		link = &(*link)->next;
	return link;
}

static void
drop(struct sequence *s, struct kept **link)
{
	struct kept *k = *link;

	*link = k->next;
	if (!k->next)
		s->end = link;
	free(k);
}

uint64_t
evd__sequence_number(struct evd *c, uint64_t seq, bool settled)
{
	struct sequence *s = c->sequence;
	struct kept **link = find(s, seq);
	uint64_t number;

	if (!*link)
		return 0;
	number = (*link)->number;
	if (settled)
		drop(s, link);
	return number;
}

/* ---- sending again ------------------------------------------------------- */

bool
evd__sequence_lost(struct evd *c, uint64_t seq)
{
	struct sequence *s = c->sequence;
	struct kept **link = find(s, seq);

	if (!*link)
		return false;
	if (!c->min_ms || c->connecting) { /* nobody connects again */
		drop(s, link);
		return false;
	}
	(*link)->sync = c->sync.post == seq;
	if ((*link)->sync)
		c->sync.post = SEQUENCE_WAITS;
	(*link)->seq = 0;
	s->n_unsent++;
	return true;
}

static bool
has_room(const struct evd *c, const struct kept *k)
{
	const struct window *w = &c->win;

	return w->next - w->acked <= w->granted_posts &&
	       w->next - w->acked <= w->mask + 1 &&
	       (w->bytes + k->e.payload_size <= w->granted_bytes || !w->n);
}

static bool
send_one(struct evd *c, struct kept *k)
{
	struct window *w = &c->win;

	k->e.seq = w->next;
	evd__window_grow(c);
	if (!has_room(c, k) || evd__out_envelope(c, &k->e, true))
		return false;
	w->ring[w->next & w->mask] = k->entry;
	k->seq = w->next++;
	w->n++;
	w->bytes += k->e.payload_size;
	if (k->sync && c->sync.post == SEQUENCE_WAITS)
		c->sync.post = k->seq;
	c->sequence->n_unsent--;
	return true;
}

/* What is new goes behind it: until then its window is shut. */
void
evd__sequence_resend(struct evd *c)
{
	struct kept *k;

	if (!c->sequence || !c->sequence->n_unsent)
		return;
	for (k = c->sequence->first; k; k = k->next)
		if (!k->seq && !send_one(c, k))
			break;
	if (c->sequence->n_unsent)
		c->win.max_posts = 0;
	else
		evd__window_bound(c);
}

uint64_t
evd__sequence_unsent(const struct evd *c)
{
	return c->sequence ? c->sequence->n_unsent : 0;
}

/* ---- for programs -------------------------------------------------------- */

void
evd__sequence_free(struct evd *c)
{
	struct sequence *s = c->sequence;

	if (!s)
		return;
	while (s->first)
		drop(s, &s->first);
	free(s->posting);
	free(s);
	c->sequence = NULL;
}

/* Rising from one run to the next, and with room for posts in between. */
static uint64_t
first_number(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int
evd_set_client_id(struct evd *c, const char *id, uint64_t first)
{
	struct sequence *s;

	EVD_CHECK(c);
	if (id && !name_is_valid(id, strlen(id), EVD_CLIENT_ID_MAX))
		return evd__fail(c, EVD_STATUS_INVALID,
			"a client's id is 1 to %d of A-Z a-z 0-9 _ . / -",
			EVD_CLIENT_ID_MAX);
	if (c->win.n || evd__sequence_unsent(c))
		return evd__fail(c, EVD_STATUS_INVALID,
			"posts are under way: evd_drain() first");
	evd__sequence_free(c);
	if (!id)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	s->end = &s->first;
	s->id_size = strlen(id);
	memcpy(s->id, id, s->id_size + 1);
	s->next = first ? first : first_number();
	c->sequence = s;
	return 0;
}

uint64_t
evd_client_sequence(const struct evd *c)
{
	return evd__is_foreign(c) || !c->sequence ? 0 : c->sequence->next;
}
