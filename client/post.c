/* Post: sending one way, inside the window that the daemon grants, and what
 * becomes of it. Belongs to the thread that uses the handle. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "headers.h"
#include "internal.h"
#include "memfd.h"
#include "parts.h"
#include "sequence.h"
#include "status.h"
#include "wire.h"

/* An entry of the ring: payload bytes, and what is known of the post. */
enum {
	POST_SIZE = (1 << 28) - 1,
	POST_NOTIFY = 1 << 28,
	POST_FAILED = 1 << 29,
	POST_DONE = 1 << 30,
};

/* What an envelope can take beside its payload. */
enum {
	MESSAGE_ROOM = ENVELOPE_ROOM + EVD_HEADERS_MAX + EVD_ALIAS_MAX +
		       EVD_EVENT_MAX + EVD_KEY_MAX + 64
};

enum { POST_SHORT_MAX = 4096 }; /* bytes of a payload */

/* Not kept in the ring: a blocking call waits for this post. */
#define POST_SYNC (UINT32_C(1) << 31)

/* ---- the window ---- */

static uint32_t *
window_entry(struct window *w, uint64_t seq)
{
	return &w->ring[seq & w->mask];
}

static bool
window_has(const struct window *w, uint64_t seq)
{
	return seq > w->acked && seq < w->next;
}

static void
note_failure(
	struct evd *c, uint64_t seq, int status, const char *text, size_t size)
{
	c->n_failed++;
	if (!c->drain_status) {
		c->drain_status = status;
		evd__text_copy(
			c->drain_text, sizeof(c->drain_text), text, size);
	}
	if (c->sync.post != seq || !seq)
		return;
	c->sync.status = status;
	evd__fail_text(c, status, text, size);
}

/* All that is in flight has an unknown outcome. */
void
evd__window_lost(struct evd *c)
{
	struct window *w = &c->win;
	static const char text[] = "the connection was lost before the post "
				   "was acknowledged";

	for (uint64_t seq = w->acked + 1; seq < w->next; seq++) {
		if (*window_entry(w, seq) & (POST_DONE | POST_FAILED))
			continue;
		if (c->sequence && evd__sequence_lost(c, seq))
			continue;
		c->n_lost++;
		note_failure(c, seq, EVD_STATUS_LOST, text, sizeof(text) - 1);
		if (c->sync.post != seq)
			evd__event_queue_post(c, EVD_POST_FAILED, w->base + seq,
				EVD_STATUS_LOST);
	}
	if (c->sync.post && c->sync.post != SEQUENCE_WAITS) {
		c->sync.status = EVD_STATUS_LOST;
		c->sync.done = true;
	}
	if (w->next)
		w->base += w->next - 1;
	w->next = 1;
	w->acked = w->n = w->bytes = w->max_posts = w->max_bytes = 0;
	w->granted_posts = w->granted_bytes = 0;
}

/* As the program knows the post: from another connection, if it was kept. */
static uint64_t
number_of(struct evd *c, uint64_t seq, bool settled)
{
	uint64_t number =
		c->sequence ? evd__sequence_number(c, seq, settled) : 0;

	return number ? number : c->win.base + seq;
}

static void
settle_one(struct evd *c, uint64_t seq)
{
	struct window *w = &c->win;
	uint32_t *entry = window_entry(w, seq);
	uint64_t number = w->base + seq;

	if (*entry & POST_DONE)
		return;
	if (UNLIKELY(c->sequence))
		number = number_of(c, seq, true);
	w->n--;
	w->bytes -= *entry & POST_SIZE;
	if (UNLIKELY((*entry & (POST_NOTIFY | POST_FAILED)) == POST_NOTIFY))
		evd__event_queue_post(c, EVD_POST_SETTLED, number, 0);
	if (c->sync.post == seq)
		c->sync.done = true;
	*entry |= POST_DONE;
}

bool
evd__on_ack(struct evd *c, const uint8_t *data, size_t size)
{
	struct window *w = &c->win;
	struct ack ack;
	uint64_t seq;

	if (ack_decode(&ack, data, size) || ack.upto >= w->next)
		return false;
	for (; w->acked < ack.upto; w->acked++)
		settle_one(c, w->acked + 1);
	while (!ack_also(&ack, &seq))
		if (window_has(w, seq))
			settle_one(c, seq);
	if (UNLIKELY(evd__sequence_unsent(c)))
		evd__sequence_resend(c);
	if (UNLIKELY(c->room_wanted))
		evd__room_tell(c);
	return true;
}

int
evd__on_failure(
	struct evd *c, const uint8_t *data, size_t size, struct evd_event *ev)
{
	struct failure f;
	uint32_t *entry;
	uint64_t number;

	if (failure_decode(&f, data, size) || !window_has(&c->win, f.seq))
		return -1;
	entry = window_entry(&c->win, f.seq);
	if (*entry & (POST_DONE | POST_FAILED))
		return 0;
	*entry |= POST_FAILED;
	if (!f.status || f.status > INT32_MAX)
		f.status = EVD_STATUS_INTERNAL;
	if (!f.text_size) {
		f.text = status_text((int)f.status);
		f.text_size = strlen(f.text);
	}
	note_failure(c, f.seq, (int)f.status, f.text, f.text_size);
	number = number_of(c, f.seq, true);
	if (c->sync.post == f.seq)
		return 0;
	evd__event_init(c, ev, EVD_POST_FAILED);
	ev->number = number;
	ev->status = (int)f.status;
	ev->text = f.text;
	ev->text_size = f.text_size;
	return 1;
}

/* ---- checking ---- */

static int
name_failed(struct evd *c, const char *what, const char *name, size_t max)
{
	char shown[80];

	if (!name)
		return evd__fail(c, EVD_STATUS_INVALID, "no %s given", what);
	evd__text_copy(shown, sizeof(shown), name, strlen(name));
	return evd__fail(c, EVD_STATUS_INVALID,
		"%s \"%s\" is not valid: use 1 to %zu of A-Z a-z 0-9 _ . / -",
		what, shown, max);
}

int
evd__alias_check(struct evd *c, const char *alias)
{
	if (!alias || !name_is_valid(alias, strlen(alias), EVD_ALIAS_MAX))
		return name_failed(c, "alias", alias, EVD_ALIAS_MAX);
	return 0;
}

int
evd__event_check(struct evd *c, const char *event)
{
	if (!event || !name_is_valid(event, strlen(event), EVD_EVENT_MAX))
		return name_failed(c, "event", event, EVD_EVENT_MAX);
	return 0;
}

int
evd__size_failed(struct evd *c, size_t size)
{
	if (size > c->max_payload)
		return evd__fail(c, EVD_STATUS_TOO_LARGE,
			"payload of %zu bytes is over the daemon's limit of "
			"%" PRIu64,
			size, c->max_payload);
	return evd__fail(c, EVD_STATUS_TOO_LARGE,
		"payload of %zu bytes does not fit this program's "
		"evd_set_max_queued() of %zu",
		size, c->max_queued);
}

/* By the reference that this connection got, else by the alias. */
static int
target_by_id(struct evd *c, uint64_t id, struct envelope *e)
{
	const struct ref *ref;

	if (UNLIKELY(id - 1 >= c->n_refs || !c->refs[id - 1].alias))
		return evd__fail(c, EVD_STATUS_NOT_FOUND,
			"no id %" PRIu64 ": evd_resolve() gives them", id);
	ref = &c->refs[id - 1];
	e->to = ref->wire;
	if (LIKELY(e->to))
		return 0;
	e->alias = ref->alias;
	e->alias_size = (uint16_t)strlen(ref->alias);
	return 0;
}

int
evd__message_check(struct evd *c, const struct message *m, struct envelope *e)
{
	size_t n = m->event ? strlen(m->event) : 0;
	int r;

	envelope_init(e);
	if (UNLIKELY(!name_is_valid(m->event, n, EVD_EVENT_MAX)))
		return name_failed(c, "event", m->event, EVD_EVENT_MAX);
	if (m->alias) {
		r = evd__alias_check(c, m->alias);
		e->alias = m->alias;
		e->alias_size = (uint16_t)strlen(m->alias);
	} else {
		r = target_by_id(c, m->id, e);
	}
	if (UNLIKELY(r))
		return r;
	e->event = m->event;
	e->event_size = (uint8_t)n;
	if (UNLIKELY(m->size > MEMFD_MIN) && evd__memfd_wants(c, m)) {
		e->memfd_size = (uint32_t)m->size;
		return 0;
	}
	if (UNLIKELY(m->size > c->max_payload ||
		     m->size + MESSAGE_ROOM > c->max_queued))
		return evd__size_failed(c, m->size);
	if (UNLIKELY(!m->data && m->size))
		return evd__fail(c, EVD_STATUS_INVALID,
			"a payload of %zu bytes, but no data", m->size);
	e->payload = m->data;
	e->payload_size = (uint32_t)m->size;
	return 0;
}

/* ---- headers ---- */

static struct header
header_of(const struct evd_header *h)
{
	return (struct header){
		.name = h->name,
		.name_size = strlen(h->name),
		.value = h->value,
		.size = h->size,
	};
}

static int
headers_check(struct evd *c, const struct evd_header *h, size_t n, size_t *size)
{
	*size = 0;
	for (size_t i = 0; i < n; i++) {
		struct header header;

		if (!h[i].name || !name_is_valid(h[i].name, strlen(h[i].name),
					  EVD_EVENT_MAX))
			return name_failed(
				c, "header", h[i].name, EVD_EVENT_MAX);
		if (!h[i].value && h[i].size)
			return evd__fail(c, EVD_STATUS_INVALID,
				"header %s has a size, but no value",
				h[i].name);
		header = header_of(&h[i]);
		*size += header.size > EVD_HEADERS_MAX ? header.size
						       : headers_room(&header);
		if (*size > EVD_HEADERS_MAX)
			return evd__fail_errno(c, E2BIG,
				"headers take over %d bytes, this library's "
				"limit",
				EVD_HEADERS_MAX);
	}
	return 0;
}

int
evd__headers_encode(struct evd *c, const struct evd_header *headers, size_t n,
	struct envelope *e)
{
	size_t size;
	uint8_t *out, *p;
	int r;

	e->headers = NULL;
	e->headers_size = 0;
	if (!n)
		return 0;
	r = headers_check(c, headers, n, &size);
	if (r)
		return r;
	assert(size > 0); /* a header has a name at least */
	out = p = malloc(size);
	if (!p)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct header header = header_of(&headers[i]);

		p = headers_put(p, &header);
	}
	e->headers = out;
	e->headers_size = (uint32_t)(p - out);
	return 0;
}

/* ---- posting ---- */

static int
window_failed(struct evd *c, int status)
{
	const struct window *w = &c->win;

	return evd__fail(c, status,
		"%" PRIu64 " posts of %" PRIu64 " bytes wait for the daemon: "
		"%s window is %" PRIu64 " posts, %" PRIu64 " bytes",
		w->n, w->bytes,
		w->max_posts < w->granted_posts ||
				w->max_bytes < w->granted_bytes
			? "this program's evd_set_window():"
			: "its",
		w->max_posts, w->max_bytes);
}

/* Wait for a connection, the window, and room in the buffer. */
static int
post_wait(struct evd *c, size_t size, bool by_bytes)
{
	int64_t deadline = evd__deadline(c, 0);
	uint32_t epoch = c->epoch;
	int r = evd__ready(c, deadline);

	if (r)
		return r;
	if (by_bytes && size > c->max_payload)
		return evd__size_failed(c, size);
	evd__window_grow(c);
	while (!evd__window_has_room(&c->win, size)) {
		evd__pump(c); /* the answer may have been read already */
		if (c->state == CONN_READY &&
			evd__window_has_room(&c->win, size))
			break;
		if (c->state == CONN_IDLE)
			return evd__fail(
				c, EVD_STATUS_LOST, "the connection was lost");
		if (!c->blocking) {
			evd__write(c);
			return window_failed(c, EVD_STATUS_FULL);
		}
		r = evd__block(c, deadline);
		if (r == -ETIMEDOUT)
			return window_failed(c, EVD_STATUS_TIMEOUT);
	}
	if (c->epoch != epoch && c->state != CONN_READY)
		return evd__fail(c, EVD_STATUS_LOST, "the connection was lost");
	return evd__room_wait(
		c, (by_bytes ? size : 0) + MESSAGE_ROOM, deadline);
}

/* Enough is gathered: write it, and do not gather without end. */
static void
post_written(struct evd *c)
{
	int64_t deadline;

	evd__write(c);
	if (c->n_bindings == 0 && c->win.n > c->win.max_posts / 2) {
		evd__pump(c); /* nobody else reads the acks of a producer */
		evd__read(c);
		evd__pump(c);
	}
	if (!c->blocking || evd__out_pending(c) < OUT_WRITE)
		return;
	deadline = evd__deadline(c, 0);
	do
		evd__pump(c);
	while (evd__out_pending(c) >= OUT_WRITE &&
		evd__block_write(c, deadline) != -ETIMEDOUT);
}

/* Post what was checked; @m tells it again if that took waiting. */
static inline int64_t
post_now(struct evd *c, const struct message *m, struct envelope *e,
	uint32_t notify, bool kept)
{
	struct window *w = &c->win;
	uint64_t number;

	if (UNLIKELY(c->state != CONN_READY ||
		     !evd__window_has_room(w, m->size) ||
		     evd__out_pending(c) + m->size > c->max_queued / 2)) {
		int r = post_wait(c, m->size, !e->memfd_size);

		if (r)
			return r;
		if (!m->alias) { /* the reference may be another one now */
			e->alias_size = 0;
			target_by_id(c, m->id, e);
		}
	}
	if (UNLIKELY(e->memfd_size)) {
		int r = evd__memfd_stage(c, m, evd__deadline(c, 0));

		if (r)
			return r;
	}
	e->seq = w->next;
	if (UNLIKELY(evd__out_envelope(c, e, false)))
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	*window_entry(w, e->seq) = (uint32_t)m->size | (notify & ~POST_SYNC);
	if (UNLIKELY(notify & POST_SYNC))
		c->sync.post = e->seq;
	w->next++;
	w->n++;
	w->bytes += m->size;
	number = w->base + e->seq;
	if (UNLIKELY(c->sequence) && kept)
		evd__sequence_sent(c, e->seq, number, *window_entry(w, e->seq),
			notify & POST_SYNC);
	if (UNLIKELY(evd__out_pending(c) >= c->out.mark))
		post_written(c);
	return (int64_t)number;
}

/* The same, and it is sent again if the connection is lost. */
static int64_t
post_kept(struct evd *c, const struct message *m, struct envelope *e,
	uint32_t notify)
{
	const char *alias = m->alias ? m->alias : c->refs[m->id - 1].alias;
	int64_t r;

	/* NOLINTNEXTLINE(clang-analyzer-core.*): envelope_init() in pieces */
	if (e->forward || e->memfd_size)
		return post_now(c, m, e, notify, false);
	r = evd__sequence_begin(c, alias, e);
	if (r)
		return r;
	r = post_now(c, m, e, notify, true);
	if (r < 0)
		evd__sequence_undo(c);
	return r;
}

static inline int64_t
post(struct evd *c, const struct message *m, struct envelope *e,
	uint32_t notify)
{
	return UNLIKELY(c->sequence) ? post_kept(c, m, e, notify)
				     : post_now(c, m, e, notify, false);
}

/* Where the size limit is not known yet, it is looked at after the greeting. */
static int
post_check(struct evd *c, const struct message *m, struct envelope *e)
{
	EVD_CHECK(c);
	if (UNLIKELY(c->state != CONN_READY)) {
		int r = evd__ready(c, evd__deadline(c, 0));

		if (r)
			return r;
	}
	return evd__message_check(c, m, e);
}

int
evd_post(struct evd *c, const char *alias, const char *event, const void *data,
	size_t size)
{
	struct message m = {alias, 0, event, data, size, 0};
	struct envelope e;
	int64_t r;

	EVD_CHECK(c);
	if (!alias)
		return evd__alias_check(c, alias);
	r = post_check(c, &m, &e);
	if (!r)
		r = post(c, &m, &e, 0);
	return r < 0 ? (int)r : 0;
}

/* The hot path: nothing is in the way of a small post. False: it goes the long
 * way, which also says why it cannot. */
static inline bool
post_shortly(struct evd *c, uint64_t id, const char *event, const void *data,
	size_t size)
{
	struct window *w = &c->win;
	size_t n = event ? strlen(event) : 0, pending = evd__out_pending(c);
	const struct ref *ref;
	uint8_t *p;

	if (c->state != CONN_READY || id - 1 >= c->n_refs || c->sequence ||
		size > POST_SHORT_MAX || size > c->max_payload ||
		(!data && size) || !evd__window_has_room(w, size) ||
		pending + MESSAGE_ROOM + size > c->max_queued / 2 ||
		!name_is_valid(event, n, EVD_EVENT_MAX))
		return false;
	ref = &c->refs[id - 1];
	p = ref->alias && ref->wire
		    ? evd__out_gather(c, PLAIN_ROOM + n + size, false)
		    : NULL;
	if (UNLIKELY(!p))
		return false;
	c->out.tail += plain_encode_part(
		&(struct plain_envelope){
			.to = ref->wire,
			.seq = w->next,
			.event = event,
			.event_size = (uint8_t)n,
			.payload = data,
			.payload_size = (uint32_t)size,
		},
		p);
	*window_entry(w, w->next++) = (uint32_t)size;
	w->n++;
	w->bytes += size;
	if (UNLIKELY(evd__out_pending(c) >= c->out.mark))
		post_written(c);
	return true;
}

int
evd_post_id(struct evd *c, uint64_t id, const char *event, const void *data,
	size_t size)
{
	struct message m = {NULL, id, event, data, size, 0};
	struct envelope e;
	int64_t r;

	EVD_CHECK(c);
	if (LIKELY(post_shortly(c, id, event, data, size)))
		return 0;
	r = post_check(c, &m, &e);
	if (!r)
		r = post(c, &m, &e, 0);
	return r < 0 ? (int)r : 0;
}

/* The options as far as the caller knew them; the rest is 0. */
static int
options_take(struct evd *c, const struct evd_post_options *opt,
	struct evd_post_options *out)
{
	memset(out, 0, sizeof(*out));
	if (!opt)
		return 0;
	if (opt->size < offsetof(struct evd_post_options, headers))
		return evd__fail(c, EVD_STATUS_INVALID,
			"options: size is %zu, set it to sizeof", opt->size);
	memcpy(out, opt, opt->size < sizeof(*out) ? opt->size : sizeof(*out));
	if (out->level > EVD_HANDLED)
		return evd__fail(c, EVD_STATUS_INVALID,
			"level %" PRIu32 " is not one of evd_level",
			out->level);
	if (out->flags &
		~(uint32_t)(EVD_POST_NO_WAIT | EVD_POST_NOTIFY | EVD_POST_TRY |
			    EVD_POST_TRACE | EVD_POST_STORED))
		return evd__fail(c, EVD_STATUS_INVALID,
			"flags 0x%" PRIx32 " has one that is not known",
			out->flags);
	if (out->priority > EVD_URGENT)
		return evd__fail(c, EVD_STATUS_INVALID,
			"priority %" PRIu32 " is not one of evd_priority",
			out->priority);
	if (out->key && (!*out->key || strlen(out->key) > EVD_KEY_MAX))
		return evd__fail(c, EVD_STATUS_INVALID,
			"a key of %zu bytes: use 1 to %d", strlen(out->key),
			EVD_KEY_MAX);
	return 0;
}

static int64_t
post_with(struct evd *c, const struct message *m,
	const struct evd_post_options *opt, uint32_t notify)
{
	struct envelope e;
	int64_t r = post_check(c, m, &e);

	if (r)
		return r;
	r = evd__headers_encode(c, opt->headers, opt->n_headers, &e);
	if (r)
		return r;
	e.level = (uint8_t)opt->level;
	e.flags = opt->flags &
		  (EVD_POST_NO_WAIT | EVD_POST_TRACE | EVD_POST_STORED);
	e.priority = (uint8_t)opt->priority;
	e.ttl_ms = opt->ttl_ms;
	e.key = (const uint8_t *)opt->key;
	e.key_size = opt->key ? (uint32_t)strlen(opt->key) : 0;
	r = opt->forward ? evd__forward_begin(c, opt->forward, &e) : 0;
	if (!r)
		r = post(c, m, &e, notify);
	free((void *)(uintptr_t)e.headers);
	if (r > 0 && opt->forward)
		evd__forward_end(c, opt->forward);
	return r;
}

/* As its options want it, whatever the handle's own ways are. */
static int64_t
post_so(struct evd *c, const struct message *m,
	const struct evd_post_options *opt, uint32_t notify)
{
	bool blocking = c->blocking;
	int timeout_ms = c->timeout_ms;
	int64_t r;

	if (opt->flags & EVD_POST_TRY)
		c->blocking = false;
	if (opt->timeout_ms)
		c->timeout_ms = opt->timeout_ms;
	r = post_with(c, m, opt, notify);
	c->blocking = blocking;
	c->timeout_ms = timeout_ms;
	return r;
}

int64_t
evd__post_message(struct evd *c, const struct message *what,
	const struct evd_post_options *opt)
{
	struct evd_post_options o;
	struct message m = *what;
	int r = options_take(c, opt, &o);

	if (r)
		return r;
	m.id = o.id;
	return post_so(c, &m, &o, o.flags & EVD_POST_NOTIFY ? POST_NOTIFY : 0);
}

int64_t
evd_post_opt(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_post_options *opt)
{
	EVD_CHECK(c);
	return evd__post_message(
		c, &(struct message){alias, 0, event, data, size, 0}, opt);
}

int64_t
evd_forward(struct evd *c, uint64_t call, const char *alias, const char *event,
	const void *data, size_t size)
{
	struct evd_post_options o = {.size = sizeof(o), .forward = call};

	EVD_CHECK(c);
	if (!call)
		return evd__fail(c, EVD_STATUS_INVALID,
			"this event is not a call: there is nothing to "
			"forward");
	return evd_post_opt(c, alias, event, data, size, &o);
}

int
evd_post_wait(struct evd *c, const char *alias, const char *event,
	const void *data, size_t size, const struct evd_post_options *opt)
{
	struct evd_post_options o;
	struct message m = {alias, 0, event, data, size, 0};
	int64_t deadline, r;

	EVD_CHECK(c);
	r = options_take(c, opt, &o);
	if (r)
		return (int)r;
	m.id = o.id;
	deadline = evd__deadline(c, o.timeout_ms);
	memset(&c->sync, 0, sizeof(c->sync));
	r = post_so(c, &m, &o, POST_SYNC);
	if (r > 0)
		r = evd__sync_wait(c, deadline, "acknowledge the post");
	memset(&c->sync, 0, sizeof(c->sync));
	return (int)r;
}

int
evd_drain(struct evd *c, int timeout_ms)
{
	int64_t deadline;
	int r = 0, status;

	EVD_CHECK(c);
	if (c->state == CONN_IDLE && !c->drain_status)
		return evd__fail_errno(
			c, ENOTCONN, "not connected: evd_connect() first");
	deadline = evd__deadline(c, timeout_ms);
	while (evd_posts_pending(c) || evd__out_pending(c)) {
		evd__pump(c);
		if (!evd_posts_pending(c) && !evd__out_pending(c))
			break;
		r = evd_posts_pending(c) ? evd__block(c, deadline)
					 : evd__block_write(c, deadline);
		if (r == -ETIMEDOUT)
			return window_failed(c, EVD_STATUS_TIMEOUT);
	}
	status = c->drain_status;
	c->drain_status = 0;
	if (!status)
		return 0;
	return evd__fail_text(c, status, c->drain_text, strlen(c->drain_text));
}

uint64_t
evd_posts_pending(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->win.n + evd__sequence_unsent(c);
}

uint64_t
evd_posts_failed(const struct evd *c)
{
	return evd__is_foreign(c) ? 0 : c->n_failed;
}
