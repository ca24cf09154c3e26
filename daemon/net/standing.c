/* Standing mailboxes, see standing.h. The thread of their home. */
#include "net/standing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "kernel/journal.h"
#include "net/binding.h"
#include "net/mailslot.h"

/* From the lowest bit: mode, overflow, events, kilobytes. */
enum {
	MODE_BITS = 2,
	OVERFLOW_BITS = 3,
	EVENTS_BITS = 24,
	SIZE_BITS = 24,
	OVERFLOW_AT = MODE_BITS,
	EVENTS_AT = OVERFLOW_AT + OVERFLOW_BITS,
	SIZE_AT = EVENTS_AT + EVENTS_BITS,
};

static uint64_t
put_bits(uint64_t value, unsigned bits, unsigned at)
{
	uint64_t most = (UINT64_C(1) << bits) - 1;

	return (value < most ? value : most) << at;
}

static uint64_t
take_bits(uint64_t traits, unsigned bits, unsigned at)
{
	return traits >> at & ((UINT64_C(1) << bits) - 1);
}

static uint64_t
standing_traits(const struct session_spec *spec)
{
	return put_bits(spec->mode, MODE_BITS, 0) |
	       put_bits(spec->overflow, OVERFLOW_BITS, OVERFLOW_AT) |
	       put_bits(spec->max_events, EVENTS_BITS, EVENTS_AT) |
	       put_bits((spec->max_bytes + 1023) / 1024, SIZE_BITS, SIZE_AT);
}

int
standing_spec(struct session_spec *spec, const char *alias)
{
	if (spec->n_rules)
		return err_raise(-EINVAL);
	spec->of_client = false; /* it is the daemon's from now on */
	spec->durable = 1;
	spec->name = strdup(alias);
	spec->kind = strdup("client");
	if (!spec->name || !spec->kind)
		return err_raise(-ENOMEM);
	return spec_add_alias(spec, alias);
}

/* The client is told that it is bound. */
static void
stored(struct sched *s, void *arg, int status)
{
	if (status)
		log_err("store.failed", "what=standing errno=%d", -status);
	sched_note(s, arg);
}

int
standing_store(struct session *t, const struct consumer_init *who)
{
	struct sched *s = atomic_load(&t->home);
	struct msg *note = msg_new(&s->pool,
		&(struct msg_init){.event = "", .event_static = true});
	int r;

	if (!note)
		return err_raise(-ENOMEM);
	note->to = who->conn;
	msg_wide(note)->seq = who->token;
	note->handler = MAIL_ATTACHED;
	r = journal_stand(t, standing_traits(t->spec), stored, note);
	if (r)
		msg_free(&s->pool, note);
	return r;
}

/* As it was; what an unknown version has written is made to fit. */
static struct session_spec *
spec_of(const struct store_box *box)
{
	struct session_spec *spec = spec_new();
	uint64_t mode = take_bits(box->traits, MODE_BITS, 0);
	uint64_t overflow = take_bits(box->traits, OVERFLOW_BITS, OVERFLOW_AT);

	if (!spec)
		return NULL;
	spec->mode = mode < BIND_MONITOR ? (uint32_t)mode : BIND_EXCLUSIVE;
	spec->overflow = overflow < OVERFLOW_DISCONNECT
				 ? (enum overflow)overflow
				 : OVERFLOW_BLOCK;
	spec->max_events =
		(uint32_t)take_bits(box->traits, EVENTS_BITS, EVENTS_AT);
	spec->max_bytes =
		take_bits(box->traits, SIZE_BITS, SIZE_AT) * UINT64_C(1024);
	if (!spec->max_events)
		spec->max_events = BINDING_MAILBOX_EVENTS;
	if (!spec->max_bytes)
		spec->max_bytes = BINDING_MAILBOX_BYTES;
	return spec;
}

static void
begin_one(struct sched *s, const struct store_box *box)
{
	struct session_spec *spec = spec_of(box);
	struct consumer_init wish = {.max_events = 0};
	struct session *t;
	int r;

	if (!spec)
		return;
	_Static_assert(sizeof(wish.alias) > UINT8_MAX, "a name of a box fits");
	memcpy(wish.alias, box->name, box->name_size);
	wish.mode = (enum bind_mode)spec->mode;
	r = standing_spec(spec, wish.alias);
	if (!r)
		r = mailslot_open(s, &wish, spec, &t);
	if (r)
		log_warn("mailslot.not-standing",
			"alias=\"%s\" events=%" PRIu64
			" reason=\"a file's session has its alias or its "
			"mailbox, or there is no memory\"",
			wish.alias, atomic_load(&box->n));
	spec_unref(spec);
}

void
standing_begin(struct sched *s, struct store_box *boxes)
{
	for (struct store_box *box = boxes; box; box = box->next)
		if (box->standing && !box->held)
			begin_one(s, box);
}
