/* Parse: from the read buffer to events, one part of a frame at a time.
 * All bytes are hostile. Belongs to the thread that uses the handle. */
#include <string.h>

#include "frame.h"
#include "internal.h"
#include "memfd.h"
#include "parts.h"
#include "status.h"

enum { HELLO_FRAME_MAX = 65536 };

enum outcome {
	PARSED_NONE,   /* went on */
	PARSED_EVENT,  /* an event is in place */
	PARSED_BROKEN, /* the connection must go */
};

static const char broken_text[] = "the daemon sent a malformed frame";

static enum outcome
on_envelope(struct evd *c, struct evd_event *ev, const struct part *part)
{
	bool told;

	/* the fields that copies look at; the rest stays as it was */
	ev->text_size = 0;
	ev->map = NULL;
	if (envelope_decode(&ev->e, part->data, part->size))
		return PARSED_BROKEN;
	if (UNLIKELY(ev->e.memfd_size) && !evd__memfd_take(c, ev))
		return PARSED_BROKEN;
	told = ev->e.re ? evd__on_reply(c, ev) : evd__on_delivery(c, ev);
	if (UNLIKELY(!told && ev->map))
		ev->map = evd__map_unref(ev->map);
	return told ? PARSED_EVENT : PARSED_NONE;
}

/* The last words of the daemon, told when the connection ends. */
static enum outcome
on_error(struct evd *c, const struct part *part)
{
	Eventd__V1__Error *error =
		eventd__v1__error__unpack(NULL, part->size, part->data);

	if (!error)
		return PARSED_BROKEN;
	c->close_status = error->status && error->status <= INT32_MAX
				  ? (int)error->status
				  : EVD_STATUS_LOST;
	evd__text_copy(c->close_text, sizeof(c->close_text), error->text,
		strlen(error->text));
	eventd__v1__error__free_unpacked(error, NULL);
	return PARSED_NONE;
}

static enum outcome
on_notice(struct evd *c, struct evd_event *ev, const struct part *part)
{
	Eventd__V1__Notice *notice =
		eventd__v1__notice__unpack(NULL, part->size, part->data);
	bool told = false;

	if (!notice)
		return PARSED_BROKEN;
	if (notice->what_case == EVENTD__V1__NOTICE__WHAT_UNBOUND) {
		told = evd__on_unbound(c, ev, notice->unbound);
	} else if (notice->what_case ==
		   EVENTD__V1__NOTICE__WHAT_CALL_CANCELLED) {
		told = evd__on_cancelled(c, ev, notice->call_cancelled->call);
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_CLOSING) {
		evd__event_init(c, ev, EVD_CLOSING);
		evd__event_set_text(c, ev, notice->closing->text,
			strlen(notice->closing->text));
		told = true;
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_DOWN) {
		told = evd__on_down(c, ev, notice->down);
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_NAME) {
		told = evd__on_name(c, ev, notice->name);
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_CHILD) {
		told = evd__on_child(c, ev, notice->child);
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_GAP) {
		told = evd__on_gap(c, ev, notice->gap);
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_TRACED) {
		told = evd__on_traced(c, ev, notice->traced);
	} else if (notice->what_case == EVENTD__V1__NOTICE__WHAT_WINDOW) {
		evd__window_grant(
			c, notice->window->posts, notice->window->bytes);
	}
	eventd__v1__notice__free_unpacked(notice, NULL);
	return told ? PARSED_EVENT : PARSED_NONE;
}

/* What a handler that returns -1, 0 or 1 found. */
static enum outcome
outcome_of(int r)
{
	if (r < 0)
		return PARSED_BROKEN;
	return r ? PARSED_EVENT : PARSED_NONE;
}

static enum outcome
on_part(struct evd *c, struct evd_event *ev, const struct part *part)
{
	switch (part->field) {
	case FRAME_ENVELOPE:
		return on_envelope(c, ev, part);
	case FRAME_ACK:
		return evd__on_ack(c, part->data, part->size) ? PARSED_NONE
							      : PARSED_BROKEN;
	case FRAME_FAILURE:
		return outcome_of(
			evd__on_failure(c, part->data, part->size, ev));
	case FRAME_WELCOME:
		evd__on_welcome(c, part->data, part->size);
		return PARSED_NONE;
	case FRAME_RESPONSE:
		return outcome_of(
			evd__on_response(c, part->data, part->size, ev));
	case FRAME_ERROR:
		return on_error(c, part);
	case FRAME_NOTICE:
		return on_notice(c, ev, part);
	default: /* of a later version: not for us */
		return PARSED_NONE;
	}
}

/* Set the cursor to the next whole frame; false if there is none. */
static bool
next_frame_any(struct evd *c)
{
	struct inbuf *in = &c->in;
	size_t head, body, max = HELLO_FRAME_MAX;
	int r;

	in->head = in->frame_end;
	if (in->head == in->tail) {
		in->want = 0;
		if (UNLIKELY(c->mem && c->mem->in.n))
			evd__lost(c, EVD_STATUS_PROTOCOL,
				"the daemon sent a descriptor and no event "
				"that tells of it");
		return false;
	}
	if (c->state != CONN_HELLO)
		max = FRAME_MAX;
	r = frame_take(
		in->data + in->head, in->tail - in->head, max, &head, &body);
	in->want = head + body;
	if (r == FRAME_E_SHORT) {
		in->cursor = in->frame_end = in->head;
		return false;
	}
	if (r) {
		evd__lost(c, EVD_STATUS_PROTOCOL,
			r == FRAME_E_TOO_LARGE
				? "the daemon sent a frame over the limit"
				: broken_text);
		return false;
	}
	in->cursor = in->head + head;
	in->frame_end = in->cursor + body;
	in->want = 0;
	return true;
}

static inline bool
next_frame(struct evd *c)
{
	struct inbuf *in = &c->in;
	const uint8_t *p = in->data + in->frame_end;
	size_t left = in->tail - in->frame_end;

	/* mostly a short one that is whole */
	if (UNLIKELY(left < 2 || *p >= 0x80 || *p >= left))
		return next_frame_any(c);
	in->head = in->frame_end;
	in->cursor = in->head + 1;
	in->frame_end = in->cursor + *p;
	in->want = 0;
	return true;
}

/* One part of the frame at the cursor. */
static enum outcome
next_part(struct evd *c, struct evd_event *ev)
{
	struct inbuf *in = &c->in;
	const uint8_t *p = in->data + in->cursor;
	struct part part;
	int r = part_next(&p, in->data + in->frame_end, &part);

	in->cursor = (size_t)(p - in->data);
	if (r == PART_E_END)
		return PARSED_NONE;
	if (r)
		return PARSED_BROKEN;
	/* nothing but the greeting counts before it has been given */
	if (c->state == CONN_HELLO && part.field != FRAME_WELCOME &&
		part.field != FRAME_ERROR)
		return PARSED_BROKEN;
	return on_part(c, ev, &part);
}

bool
evd__parse(struct evd *c, struct evd_event *ev)
{
	struct inbuf *in = &c->in;
	const struct evd_event *first = c->first;

	while (c->fd >= 0 && c->first == first && !c->sync.done) {
		if (in->cursor == in->frame_end && !next_frame(c))
			return false;
		if (in->cursor == in->frame_end) /* an empty frame */
			continue;
		switch (next_part(c, ev)) {
		case PARSED_NONE:
			break;
		case PARSED_EVENT:
			return true;
		case PARSED_BROKEN:
			evd__lost(c, EVD_STATUS_PROTOCOL, broken_text);
			return false;
		}
	}
	return false;
}

/* Keep an event for evd_next(). What tells of posts can be dropped, as
 * evd_posts_failed() counts them; a delivery cannot. */
static void
queue(struct evd *c, const struct evd_event *ev)
{
	bool force = ev->type != EVD_DELIVERY && ev->type != EVD_POST_FAILED;

	if (evd__event_queue(c, ev, force) || ev->type == EVD_POST_FAILED)
		return;
	evd__lost(c, EVD_STATUS_LIMIT,
		"this program has more unread events than "
		"evd_set_max_queued() lets it hold");
}

void
evd__pump(struct evd *c)
{
	struct evd_event ev;

	while (c->fd >= 0 && !c->sync.done) {
		const struct evd_event *first = c->first;

		if (evd__parse(c, &ev)) {
			queue(c, &ev);
			evd__map_unref(ev.map);
			continue;
		}
		if (c->first == first)
			return; /* nothing whole is left */
	}
}
