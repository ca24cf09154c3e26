/* Dead letters: a queue for each reason, see dead.h. */
#include "kernel/dead.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/history.h"
#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/wire.h"

enum {
	TEXT_MAX = 255, /* bytes of why */
	ALIAS_MAX = ENVELOPE_ALIAS_MAX,
	HEADERS_FIELD = 15, /* of Envelope */
};

static const char copy_event[] = "dead";

static const char *const words[DEAD_REASONS] = {
	[DEAD_NONE] = "",
	[DEAD_OVERFLOW] = "overflow",
	[DEAD_NO_ALIAS] = "no-alias",
	[DEAD_EXPIRED] = "expired",
	[DEAD_DIED] = "died",
	[DEAD_REFUSED] = "refused",
	[DEAD_ATTEMPTS] = "attempts",
	[DEAD_UNHANDLED] = "unhandled",
};

const char *
dead_word(enum dead_reason reason)
{
	return words[reason];
}

enum dead_reason
dead_reason_of(const char *word)
{
	for (enum dead_reason r = DEAD_NONE + 1; r < DEAD_REASONS; r++)
		if (strcmp(words[r], word) == 0)
			return r;
	return DEAD_NONE;
}

/* Bytes that it counts for. */
static uint64_t
charge(const struct dead *d)
{
	return sizeof(*d) + d->alias_size + strlen(dead_text(d)) + 2 +
	       sizeof(struct msg) + msg_charge(d->msg) + d->msg->event_size;
}

/* ---- the copy ------------------------------------------------------------ */

static size_t
put_bytes(uint8_t *out, unsigned field, const char *text, size_t size)
{
	size_t n = varint_put(out, field << 3 | WIRE_BYTES);

	n += varint_put(out + n, size);
	memcpy(out + n, text, size);
	return n + size;
}

/* An encoded Header, as envelopes have them. */
static size_t
header_put(uint8_t *out, const char *name, const char *value)
{
	uint8_t body[2 * ALIAS_MAX + 32];
	size_t n = put_bytes(body, 1, name, strlen(name));

	n += put_bytes(body + n, 2, value, strlen(value));
	return put_bytes(out, HEADERS_FIELD, (const char *)body, n);
}

static size_t
put_headers(uint8_t *out, const struct dead *d, const struct msg *m)
{
	char number[24];
	size_t n = 0;

	n += header_put(out + n, "dead-reason", words[d->reason]);
	n += header_put(out + n, "dead-alias", d->alias);
	n += header_put(out + n, "dead-event", m->event);
	snprintf(number, sizeof(number), "%" PRIu64, m->id);
	n += header_put(out + n, "dead-id", number);
	snprintf(number, sizeof(number), "%" PRIu64, m->from);
	n += header_put(out + n, "dead-from", number);
	snprintf(number, sizeof(number), "%" PRIu64, d->time_ns);
	n += header_put(out + n, "dead-time", number);
	return n + header_put(out + n, "dead-text", dead_text(d));
}

/* The event's own headers stay, behind ours. */
static struct msg *
copy_new(struct sched *s, const struct dead *d, const struct msg *m)
{
	uint8_t *headers = malloc(ENVELOPE_HEADERS_MAX);
	size_t size;
	struct msg *copy;

	if (!headers)
		return NULL;
	size = put_headers(headers, d, m);
	if (m->headers_size <= ENVELOPE_HEADERS_MAX - size) {
		memcpy(headers + size, msg_headers(m), m->headers_size);
		size += m->headers_size;
	}
	copy = msg_new(&s->pool, &(struct msg_init){.event = copy_event,
					 .event_size = sizeof(copy_event) - 1,
					 .event_static = true,
					 .data = msg_payload(m),
					 .size = m->size,
					 .headers = headers,
					 .headers_size = (uint32_t)size});
	free(headers);
	return copy;
}

/* To the alias that the session's file names. What died as such a copy makes
 * no other. */
static void
send_copy(struct sched *s, const struct session *owner, const struct dead *d,
	const struct msg *m)
{
	const char *to = owner && owner->spec ? owner->spec->dead_letter : NULL;
	uint64_t holder;
	struct msg *copy;

	if (!to || strcmp(m->event, copy_event) == 0)
		return;
	holder = alias_holder(&s->kernel->aliases, to, strlen(to));
	copy = holder ? copy_new(s, d, m) : NULL;
	if (!copy)
		return;
	copy->to = holder;
	copy->from = m->from;
	if (sched_post(s, copy))
		msg_free(&s->pool, copy);
}

/* ---- keeping ------------------------------------------------------------- */

struct dead *
dead_letter_new(const char *alias, const char *text)
{
	size_t alias_size = strnlen(alias, ALIAS_MAX);
	size_t text_size = strnlen(text, TEXT_MAX);
	struct dead *d =
		FAULT(dead_new)
			? NULL
			: calloc(1, sizeof(*d) + alias_size + text_size + 2);

	if (!d)
		return NULL;
	d->alias_size = (uint8_t)alias_size;
	memcpy(d->alias, alias, alias_size);
	memcpy(d->alias + alias_size + 1, text, text_size);
	return d;
}

static bool
is_wanted(const struct sched *s, const struct session *owner)
{
	return s->kernel->limits.dead_letters ||
	       (owner && owner->spec && owner->spec->dead_letter);
}

struct dead *
dead_new(struct sched *s, const struct session *owner, const struct msg *m,
	const struct dead_end *end)
{
	const char *alias = end->alias;
	struct dead *d;

	if (s->closing || m->op != MSG_EVENT || !is_wanted(s, owner))
		return NULL;
	if (!alias)
		alias = owner ? session_name(owner) : "";
	if (!*alias && s->leaving)
		alias = s->leaving;
	d = dead_letter_new(alias, end->text ? end->text : "");
	if (!d)
		return NULL;
	d->time_ns = clock_wall(s->kernel->clock);
	d->session = m->to;
	d->status = end->status;
	d->reason = (uint8_t)end->reason;
	send_copy(s, owner, d, m);
	return d;
}

static void
unlink_first(struct dead_letters *l, enum dead_reason reason)
{
	struct dead_queue *q = &l->queues[reason];
	struct dead *d = q->head;

	q->head = d->next;
	q->n--;
	q->size -= charge(d);
	l->n--;
	l->size -= charge(d);
}

static void
letter_free(struct sched *s, struct dead *d)
{
	msg_free(&s->pool, d->msg);
	free(d);
}

/* Down to the bounds. */
static void
make_room(struct sched *s)
{
	const struct kernel_limits *limits = &s->kernel->limits;
	struct dead_letters *l = &s->dead;

	while (l->n > limits->dead_letters || l->size > limits->dead_bytes) {
		bool by_size = l->n <= limits->dead_letters;
		unsigned most = 0;
		struct dead *d;

		for (unsigned i = 1; i < DEAD_REASONS; i++)
			if (by_size ? l->queues[i].size > l->queues[most].size
				    : l->queues[i].n > l->queues[most].n)
				most = i;
		d = l->queues[most].head;
		unlink_first(l, (enum dead_reason)most);
		dead_unstore(s, d);
		letter_free(s, d);
		l->forgotten++;
	}
}

/* To its place among those of its reason. */
static void
letter_link(struct sched *s, struct dead *d)
{
	struct dead_letters *l = &s->dead;
	struct dead_queue *q = &l->queues[d->reason];
	struct dead **link = &q->head;

	if (!q->head || q->tail->id < d->id) {
		d->next = NULL;
		if (q->head)
			q->tail->next = d;
		else
			q->head = d;
		q->tail = d;
	} else {
		while ((*link)->id < d->id)
			link = &(*link)->next;
		d->next = *link;
		*link = d;
	}
	q->n++;
	q->size += charge(d);
	l->n++;
	l->size += charge(d);
}

void
dead_keep(struct sched *s, struct dead *d, struct msg *m)
{
	msg_uncharge(&s->pool, m);
	m->flags &= MSG_URGENT | MSG_WIDE | MSG_SHARED;
	if (m->flags & MSG_WIDE) {
		msg_wide(m)->call = 0;
		msg_wide(m)->deadline_ns = 0;
		msg_wide(m)->level = 0;
	}
	d->msg = m;
	if (!d->no)
		dead_store(s, d);
	d->id = (++s->dead.total << 6) | s->index;
	letter_link(s, d);
	make_room(s);
}

void
dead_no_alias(struct sched *s, struct msg *m, const char *alias)
{
	struct dead *d;

	if (!m->id)
		m->id = sched_id(s);
	history_ended(s, NULL, m,
		&(struct history_end){MSG_END_REFUSED, EVD_STATUS_NO_ALIAS,
			sched_end_text(EVD_STATUS_NO_ALIAS), alias});
	d = dead_new(s, NULL, m,
		&(struct dead_end){.reason = DEAD_NO_ALIAS,
			.status = EVD_STATUS_NO_ALIAS,
			.text = sched_end_text(EVD_STATUS_NO_ALIAS),
			.alias = alias});
	if (d)
		dead_keep(s, d, m);
	else
		msg_free(&s->pool, m);
}

/* ---- finding ------------------------------------------------------------- */

static struct dead *
next_of(const struct dead_queue *q, uint64_t after)
{
	struct dead *d = q->head;

	while (d && d->id <= after)
		d = d->next;
	return d;
}

struct dead *
dead_next(struct sched *s, uint64_t after, enum dead_reason reason)
{
	struct dead *first = NULL;

	if (reason != DEAD_NONE)
		return next_of(&s->dead.queues[reason], after);
	for (unsigned i = 1; i < DEAD_REASONS; i++) {
		struct dead *d = next_of(&s->dead.queues[i], after);

		if (d && (!first || d->id < first->id))
			first = d;
	}
	return first;
}

struct dead *
dead_find(struct sched *s, uint64_t id)
{
	struct dead *d = id ? dead_next(s, id - 1, DEAD_NONE) : NULL;

	return d && d->id == id ? d : NULL;
}

static void
letter_unlink(struct sched *s, struct dead *d)
{
	struct dead_letters *l = &s->dead;
	struct dead_queue *q = &l->queues[d->reason];
	struct dead *before = q->head;

	if (before == d) {
		unlink_first(l, (enum dead_reason)d->reason);
		return;
	}
	while (before->next != d)
		before = before->next;
	before->next = d->next;
	if (q->tail == d)
		q->tail = before;
	q->n--;
	q->size -= charge(d);
	l->n--;
	l->size -= charge(d);
}

void
dead_drop(struct sched *s, struct dead *d)
{
	letter_unlink(s, d);
	dead_unstore(s, d);
	letter_free(s, d);
}

int
dead_requeue(struct sched *s, struct dead *d, uint64_t to)
{
	struct msg *m = d->msg;
	uint64_t was = m->to;
	int r;

	letter_unlink(s, d); /* its charge needs the event */
	m->to = to;
	m->attempt = 0;
	r = sched_post(s, m);
	if (!r) {
		dead_unstore(s, d);
		free(d);
		return 0;
	}
	m->to = was;
	letter_link(s, d);
	return r;
}

void
dead_deinit(struct sched *s)
{
	for (unsigned i = 0; i < DEAD_REASONS; i++)
		while (s->dead.queues[i].head) {
			struct dead *d = s->dead.queues[i].head;

			unlink_first(&s->dead, (enum dead_reason)i);
			letter_free(s, d);
		}
}
