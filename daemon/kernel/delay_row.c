#include "kernel/delay_row.h"

#include <errno.h>
#include <string.h>

#include "base/calendar.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "kernel/delay_parts.h"
#include "kernel/store.h"
#include "proto/envelope.h"

/* Little-endian; behind it name, event, alias, calendar, zone, payload and
 * headers, the first five with a NUL each. */
struct head {
	uint32_t crc; /* of all behind it */
	uint16_t version, flags;
	uint64_t due_ns;      /* of its clock, at the start `boot` */
	uint64_t due_wall_ns; /* the same, as the wall clock stood */
	uint64_t saved_ns;    /* then, by the wall clock */
	uint64_t repeat_ns, slack_ns, last_ns, ttl_ns;
	uint32_t uid, payload_size, headers_size;
	uint16_t n_missed;
	uint8_t clock, misfire, name_size, event_size;
	uint16_t alias_size, calendar_size, zone_size;
	uint8_t boot[16];
};

_Static_assert(sizeof(struct head) == 104, "no gaps in what is stored");

enum {
	VERSION = 1,
	FLAGS = DELAY_ALIAS | DELAY_SELF | DELAY_SCHEDULE | DELAY_BY_ALIAS |
		DELAY_URGENT,
	TEXTS = 5,
	TEXT_MAX = 4096,
};

static const char *
alias_of(const struct delay *delay)
{
	return delay->timer.b & DELAY_ALIAS ? delay_parcel(delay)->alias->name
					    : "";
}

static const char *
calendar_of(const struct delay *delay)
{
	return delay->more->calendar ? delay->more->calendar->text : "";
}

static const char *
zone_of(const struct delay *delay)
{
	return delay->more->calendar ? calendar_zone(delay->more->calendar)
				     : "";
}

size_t
delay_row_size(const struct delay *delay)
{
	const struct delay_more *more = delay->more;

	return sizeof(struct head) + TEXTS + more->name_size + delay->timer.c +
	       strlen(alias_of(delay)) + strlen(calendar_of(delay)) +
	       strlen(zone_of(delay)) + delay->timer.size + more->headers_size;
}

static uint8_t *
append(uint8_t *to, const void *from, size_t size)
{
	if (size)
		memcpy(to, from, size);
	return to + size;
}

static uint64_t
wall_of(const struct sched *s, const struct delay *delay, uint64_t due_ns,
	uint64_t wall)
{
	uint64_t now = delay_now(s, delay_clock(delay));

	if (delay_clock(delay) == DELAY_WALL)
		return due_ns;
	if (due_ns > now)
		return delay_sum(wall, due_ns - now);
	return wall > now - due_ns ? wall - (now - due_ns) : 0;
}

void
delay_row_put(struct sched *s, const struct delay *delay, uint64_t due_ns,
	uint8_t *out)
{
	const struct delay_more *more = delay->more;
	const char *event = delay_event(delay);
	uint64_t wall = clock_wall(s->kernel->clock);
	struct head h = {
		.version = VERSION,
		.flags = delay->timer.b & FLAGS,
		.due_ns = due_ns,
		.due_wall_ns = wall_of(s, delay, due_ns, wall),
		.saved_ns = wall,
		.repeat_ns = more->repeat_ns,
		.slack_ns = more->slack_ns,
		.last_ns = more->last_ns,
		.ttl_ns = more->ttl_ns,
		.uid = delay_uid(delay),
		.payload_size = delay->timer.size,
		.headers_size = more->headers_size,
		.n_missed = more->n_missed,
		.clock = delay->timer.a,
		.misfire = more->misfire,
		.name_size = more->name_size,
		.event_size = delay->timer.c,
		.alias_size = (uint16_t)strlen(alias_of(delay)),
		.calendar_size = (uint16_t)strlen(calendar_of(delay)),
		.zone_size = (uint16_t)strlen(zone_of(delay)),
	};
	uint8_t *end = out + sizeof(h);

	memcpy(h.boot, s->kernel->store->boot, sizeof(h.boot));
	end = append(end, more->name, h.name_size + 1u);
	end = append(end, event, h.event_size + 1u);
	end = append(end, alias_of(delay), h.alias_size + 1u);
	end = append(end, calendar_of(delay), h.calendar_size + 1u);
	end = append(end, zone_of(delay), h.zone_size + 1u);
	end = append(end, event + h.event_size + 1, h.payload_size);
	end = append(end, event + h.event_size + 1 + h.payload_size + 1,
		h.headers_size);
	memcpy(out, &h, sizeof(h));
	h.crc = crc32c(
		0, out + sizeof(h.crc), (size_t)(end - out) - sizeof(h.crc));
	memcpy(out, &h.crc, sizeof(h.crc));
}

/* ---- reading ------------------------------------------------------------- */

static bool
head_ok(const struct head *h, const uint8_t *data, size_t size)
{
	uint64_t all = sizeof(*h) + TEXTS + (uint64_t)h->name_size +
		       h->event_size + h->alias_size + h->calendar_size +
		       h->zone_size + h->payload_size + h->headers_size;

	return all == size && h->version == VERSION && !(h->flags & ~FLAGS) &&
	       h->clock < DELAY_CLOCKS && h->misfire < DELAY_MISFIRES &&
	       h->payload_size <= MSG_PAYLOAD_MAX &&
	       h->calendar_size <= TEXT_MAX && h->zone_size <= TEXT_MAX &&
	       crc32c(0, data + sizeof(h->crc), size - sizeof(h->crc)) ==
		       h->crc;
}

/* The next text, of @size bytes, which has no NUL but that behind it. */
static const char *
text_get(const uint8_t **at, size_t size, bool *ok)
{
	const char *text = (const char *)*at;

	*ok = *ok && strnlen(text, size + 1) == size;
	*at += size + 1;
	return text;
}

/* When that is by the clock as it goes now. Time goes on while the daemon is
 * down, and, by the wall clock, while the machine is. */
static uint64_t
due_now(struct sched *s, const struct head *h, uint64_t *late_ns)
{
	uint64_t now = delay_now(s, (enum delay_clock)h->clock);
	uint64_t wall = clock_wall(s->kernel->clock);
	uint64_t left, gone, late;

	*late_ns = 0;
	if (h->clock == DELAY_WALL ||
		memcmp(h->boot, s->kernel->store->boot, sizeof(h->boot)) == 0)
		return h->due_ns;
	left = h->due_wall_ns > h->saved_ns ? h->due_wall_ns - h->saved_ns : 0;
	gone = wall > h->saved_ns ? wall - h->saved_ns : 0;
	if (gone < left)
		return delay_sum(now, left - gone);
	late = gone - left;
	if (h->due_wall_ns < h->saved_ns)
		late = delay_sum(late, h->saved_ns - h->due_wall_ns);
	if (late <= now)
		return now - late;
	*late_ns = late - now;
	return 0;
}

static int
calendar_get(struct sched *s, const char *text, const char *zone,
	struct delay_init *init)
{
	char error[CALENDAR_ERROR_SIZE];
	int r;

	if (!text[0])
		return 0;
	r = calendar_new(text, zone, &s->kernel->zones, &init->calendar, error);
	return r < 0 ? err_pass(r) : r ? DELAY_ROW_E_DAMAGED : 0;
}

static bool
names_ok(const struct head *h, const char *event, const char *name,
	const char *alias)
{
	bool to_alias = h->flags & DELAY_ALIAS;

	return name_is_valid(event, h->event_size, ENVELOPE_EVENT_MAX) &&
	       (!h->name_size ||
		       name_is_valid(name, h->name_size, DELAY_NAME_MAX)) &&
	       (to_alias ? name_is_valid(
				   alias, h->alias_size, ENVELOPE_ALIAS_MAX)
			 : !h->alias_size);
}

int
delay_row_get(struct sched *s, const uint8_t *data, size_t size,
	struct delay_init *init, struct delay_row *row)
{
	const uint8_t *at = data + sizeof(struct head);
	const char *event, *name, *alias, *calendar, *zone;
	struct head h;
	bool ok = size >= sizeof(h);

	if (ok)
		memcpy(&h, data, sizeof(h));
	if (!ok || !head_ok(&h, data, size))
		return DELAY_ROW_E_DAMAGED;
	name = text_get(&at, h.name_size, &ok);
	event = text_get(&at, h.event_size, &ok);
	alias = text_get(&at, h.alias_size, &ok);
	calendar = text_get(&at, h.calendar_size, &ok);
	zone = text_get(&at, h.zone_size, &ok);
	if (!ok || !names_ok(&h, event, name, alias))
		return DELAY_ROW_E_DAMAGED;
	*row = (struct delay_row){.last_ns = h.last_ns,
		.n_missed = h.n_missed,
		.self = !(h.flags & DELAY_ALIAS)};
	*init = (struct delay_init){
		.alias = h.alias_size ? alias : NULL,
		.alias_size = h.alias_size,
		.event = event,
		.event_size = h.event_size,
		.data = at,
		.size = h.payload_size,
		.headers = at + h.payload_size,
		.headers_size = h.headers_size,
		.clock = (enum delay_clock)h.clock,
		.due_ns = due_now(s, &h, &row->late_ns),
		.repeat_ns = h.repeat_ns,
		.slack_ns = h.slack_ns,
		.misfire = (enum delay_misfire)h.misfire,
		.name = name,
		.name_size = h.name_size,
		.by_alias = h.flags & DELAY_BY_ALIAS,
		.ttl_ns = h.ttl_ns,
		.urgent = h.flags & DELAY_URGENT,
		.schedule = h.flags & DELAY_SCHEDULE,
		.has_uid = h.uid != DELAY_NO_UID,
		.uid = h.uid,
		.stored = true,
		.restored = true,
	};
	return calendar_get(s, calendar, zone, init);
}
