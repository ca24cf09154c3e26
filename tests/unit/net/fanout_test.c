/* Binds in mode fanout: every subscriber gets every event, from a mailbox of
 * its own; the bytes are stored once. Two loops: the alias is on the first, its
 * subscribers on either. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "kernel/dead.h"
#include "kernel/spec.h"
#include "net/mailslot.h"

#define FANOUT EVENTD__V1__BIND_MODE__BIND_FANOUT
#define SHARED EVENTD__V1__BIND_MODE__BIND_SHARED

enum { NEAR, FAR };

struct sub {
	uint64_t binding;
	uint32_t window;
	const char *overflow; /* NULL: no mailbox is asked for */
	uint32_t max_events;
	Eventd__V1__BindMode mode;
};

static Eventd__V1__Response *
subscribe(struct client *c, const struct sub *sub, int status)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;
	Eventd__V1__Mailbox box = EVENTD__V1__MAILBOX__INIT;

	bind.alias = (char *)"news";
	bind.binding = sub->binding;
	bind.window_events = sub->window;
	bind.mode = sub->mode;
	if (sub->overflow) {
		box.overflow = (char *)sub->overflow;
		box.max_events = sub->max_events;
		bind.mailbox = &box;
	}
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	return client_request(c, &r, status);
}

static struct client *
subscriber(struct rig *rig, unsigned loop, uint32_t window,
	const char *overflow, uint32_t max_events)
{
	struct client *c = client_hello(rig, loop);
	const struct sub sub = {1, window, overflow, max_events, FANOUT};

	subscribe(c, &sub, EVD_STATUS_OK);
	return c;
}

static void
unbind(struct client *c, uint64_t binding)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;

	unbind.binding = binding;
	r.verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	r.unbind = &unbind;
	client_request(c, &r, EVD_STATUS_OK);
}

static void
post_n(struct rig *rig, struct client *poster, int from, int n)
{
	char event[16];

	for (int i = from; i < from + n; i++) {
		snprintf(event, sizeof(event), "e%d", i);
		client_post_size(poster, "news", event, 20);
	}
	rig_run(rig);
}

/* The events e@from ...; their ids go to @ids. */
static void
expect_n(struct client *c, int from, int n, uint64_t *ids)
{
	char event[16];

	for (int i = from; i < from + n; i++) {
		Eventd__V1__Envelope *e;

		snprintf(event, sizeof(event), "e%d", i);
		e = client_expect_delivery(c, 1, event);
		assert_int_equal(e->payload.len, 20);
		assert_int_equal(e->attempt, 0);
		if (ids)
			ids[i] = e->id;
	}
}

static void
expect_gap(struct client *c, uint64_t from, uint64_t to, uint64_t count)
{
	const Eventd__V1__Gap *gap;

	assert_non_null(client_next(c));
	assert_non_null(c->frame->notice);
	gap = c->frame->notice->gap;
	assert_non_null(gap);
	assert_int_equal(gap->binding, 1);
	assert_int_equal(gap->from, from);
	assert_int_equal(gap->to, to);
	assert_int_equal(gap->count, count);
}

static struct session *
holder(struct rig *rig)
{
	uint64_t id = alias_holder(&rig->kernel.aliases, "news", 4);

	return session_find(&rig->kernel, id);
}

static struct counters
counters_of(struct rig *rig)
{
	struct counters sum = {0};

	for (unsigned i = 0; i < rig->n_loops; i++) {
		const struct counters *c = &rig->loops[i].sched.counters;

		sum.accepted += c->accepted;
		sum.handled += c->handled;
		sum.dropped += c->dropped;
		sum.refused += c->refused;
		sum.dead += c->dead;
		sum.expired += c->expired;
	}
	return sum;
}

/* Each test, with the subscriber that matters on either loop. */
#define NEAR_AND_FAR(test)                    \
	static void test##_near(void **state) \
	{                                     \
		test(*state, NEAR);           \
	}                                     \
	static void test##_far(void **state)  \
	{                                     \
		test(*state, FAR);            \
	}

/* ---- copies -------------------------------------------------------------- */

/* Once at the alias, and once at each subscriber. */
static void
test_all_get_all_in_order(void **state)
{
	struct rig *rig = *state;
	struct client *c[4], *poster = client_hello(rig, 1);

	for (unsigned i = 0; i < 4; i++)
		c[i] = subscriber(rig, i & 1, 0, NULL, 0);
	post_n(rig, poster, 0, 10);
	client_expect_ack(poster, 10);
	for (unsigned i = 0; i < 4; i++)
		expect_n(c[i], 0, 10, NULL);
	assert_int_equal(session_counters(holder(rig)).accepted, 10);
	assert_int_equal(session_counters(holder(rig)).handled, 10);
	for (unsigned i = 0; i < 4; i++)
		client_settle(c[i], 1, 10);
	rig_run(rig);
	assert_int_equal(counters_of(rig).accepted, 50);
	assert_int_equal(counters_of(rig).handled, 50);
	for (unsigned i = 0; i < 4; i++)
		client_free(c[i]);
	client_free(poster);
}

static struct msg_body *
first_body(struct rig *rig, unsigned loop, uint32_t i)
{
	const struct conn *conn = rig_conn(rig, loop);
	const struct msg *m = lease_first(&conn->bindings[i]->lease);

	assert_non_null(m);
	assert_true(m->flags & MSG_SHARED);
	assert_int_equal(m->size, 65536);
	return msg_body(m);
}

/* B14: a large event that all are slow to take is there once. */
static void
test_the_bytes_are_stored_once(void **state)
{
	enum { N = 50 };
	struct rig *rig = *state;
	struct client *poster = client_hello(rig, 0), *c[2];
	struct msg_body *body;

	for (unsigned loop = 0; loop < 2; loop++) {
		c[loop] = client_hello(rig, loop);
		for (unsigned i = 1; i <= N; i++)
			subscribe(c[loop], &(struct sub){i, 1, NULL, 0, FANOUT},
				EVD_STATUS_OK);
	}
	client_post_size(poster, "news", "large", 65536);
	client_expect_ack(poster, 1);
	for (unsigned loop = 0; loop < 2; loop++)
		for (unsigned i = 0; i < N; i++)
			assert_int_equal(
				client_next(c[loop])->envelopes[0]->payload.len,
				65536);
	body = first_body(rig, 0, 0);
	assert_int_equal(atomic_load(&body->refs), 2 * N);
	for (unsigned loop = 0; loop < 2; loop++)
		for (unsigned i = 0; i < N; i++)
			assert_ptr_equal(first_body(rig, loop, i), body);
	client_settle(c[0], 7, 1);
	rig_run(rig);
	assert_int_equal(atomic_load(&body->refs), 2 * N - 1);
	client_free(c[0]);
	client_free(c[1]);
	client_free(poster);
}

/* B14: who does not read holds no copies but for the rest of one. */
static void
test_who_does_not_read_holds_no_large_copies(struct rig *rig, unsigned loop)
{
	enum { N = 20, SIZE = 65536 };
	struct client *c = subscriber(rig, loop, 100, "drop-newest", 100);
	const struct conn *conn = rig_conn(rig, loop);
	struct client *poster = client_hello(rig, 0);

	for (int i = 0; i < N; i++)
		client_post_size(poster, "news", "large", SIZE);
	client_expect_ack(poster, N);
	rig_run(rig);
	assert_true(outbuf_size(&conn->out) <= SIZE + 1024);
	for (int i = 0; i < N; i++) {
		assert_int_equal(
			client_expect_delivery(c, 1, "large")->payload.len,
			SIZE);
		client_settle(c, 1, (uint64_t)i + 1);
	}
	assert_int_equal(outbuf_size(&conn->out), 0);
	rig_run(rig);
	rig_check(rig);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_who_does_not_read_holds_no_large_copies)

static void
test_headers_and_priority_come_along(struct rig *rig, unsigned loop)
{
	struct client *c = subscriber(rig, loop, 1, NULL, 0);
	struct client *poster = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT, *got;
	Eventd__V1__Header header = EVENTD__V1__HEADER__INIT;
	Eventd__V1__Header *headers[] = {&header};

	post_n(rig, poster, 0, 2);
	expect_n(c, 0, 1, NULL);
	header.name = (char *)"h";
	header.value.data = (uint8_t *)"v";
	header.value.len = 1;
	e.alias = (char *)"news";
	e.event = (char *)"now";
	e.seq = 3;
	e.headers = headers;
	e.n_headers = 1;
	e.priority = EVENTD__V1__PRIORITY__URGENT;
	client_envelope(poster, &e);
	client_expect_ack(poster, 3);
	client_settle(c, 1, 1);
	got = client_expect_delivery(c, 1, "now");
	assert_int_equal(got->n_headers, 1);
	assert_string_equal(got->headers[0]->name, "h");
	assert_int_equal(got->priority, EVENTD__V1__PRIORITY__URGENT);
	assert_true(got->id && got->from);
	client_settle(c, 1, 2);
	expect_n(c, 1, 1, NULL);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_headers_and_priority_come_along)

static void
test_a_call_is_answered_that_nobody_answers(void **state)
{
	struct rig *rig = *state;
	struct client *c = subscriber(rig, 1, 1, NULL, 0);
	struct client *caller = client_hello(rig, 0);

	client_call(caller, "news", "sum", 7, "2");
	client_expect_reply(caller, 7, EVD_STATUS_UNSUPPORTED, NULL);
	client_expect_silence(c);
	client_free(c);
	client_free(caller);
}

/* ---- who is slow --------------------------------------------------------- */

/* B2: it has two and settles none, and holds three; the fast one on the same
 * alias gets all ten. */
static struct client *
flood(struct rig *rig, unsigned loop, const char *overflow, uint64_t *ids,
	struct client **fast)
{
	struct client *slow = subscriber(rig, loop, 2, overflow, 3);
	struct client *poster = client_hello(rig, 0);

	*fast = subscriber(rig, !loop, 0, NULL, 0);
	post_n(rig, poster, 0, 2);
	post_n(rig, poster, 2, 8);
	client_expect_ack(poster, 10);
	expect_n(*fast, 0, 10, ids);
	client_free(poster);
	return slow;
}

/* B1: what waits for one that stopped reading is its user's, and seen as such;
 * none of it is left when it goes. */
static void
test_what_waits_is_charged_to_the_subscriber(struct rig *rig, unsigned loop)
{
	struct client *fast = subscriber(rig, 0, 0, NULL, 0),
		      *slow = subscriber(rig, loop, 1, "drop-oldest", 2000),
		      *poster = client_hello(rig, 0);
	struct user *user = users_find(&rig->kernel.users, getuid());

	for (int i = 0; i < 1200; i += 10) {
		post_n(rig, poster, i, 10);
		client_expect_ack(poster, (uint64_t)i + 10);
		expect_n(fast, i, 10, NULL);
		client_settle(fast, 1, (uint64_t)i + 10);
		rig_run(rig);
		if (loop == 0 && i < 1000)
			assert_int_equal(user->used[CHARGE_EVENTS], 0);
	}
	if (loop)
		assert_int_equal(user->used[CHARGE_EVENTS], 1200);
	else /* one is with the client, and 1,024 cost nothing */
		assert_int_equal(user->used[CHARGE_EVENTS], 1200 - 1 - 1024);
	assert_int_equal(
		user->used[CHARGE_BYTES], 20 * user->used[CHARGE_EVENTS]);
	rig_check(rig);
	client_free(slow);
	RIG_UNTIL(rig, !user->used[CHARGE_EVENTS]);
	assert_int_equal(user->used[CHARGE_BYTES], 0);
	client_free(fast);
	client_free(poster);
}
NEAR_AND_FAR(test_what_waits_is_charged_to_the_subscriber)

static void
test_the_slow_lose_the_oldest(struct rig *rig, unsigned loop)
{
	uint64_t ids[10];
	struct client *fast, *slow;

	slow = flood(rig, loop, "drop-oldest", ids, &fast);
	expect_n(slow, 0, 2, NULL);
	client_expect_silence(slow);
	client_settle(slow, 1, 1);
	expect_gap(slow, ids[2], ids[6], 5);
	expect_n(slow, 7, 1, NULL);
	client_settle(slow, 1, 3);
	expect_n(slow, 8, 2, NULL);
	assert_int_equal(counters_of(rig).dropped, 5);
	assert_int_equal(counters_of(rig).dead, 0);
	assert_null(dead_next(&rig->loops[loop].sched, 0, DEAD_NONE));
	rig_check(rig);
	client_free(slow);
	client_free(fast);
}
NEAR_AND_FAR(test_the_slow_lose_the_oldest)

static void
test_the_slow_lose_the_newest(struct rig *rig, unsigned loop)
{
	uint64_t ids[10];
	struct client *fast, *slow;

	slow = flood(rig, loop, "drop-newest", ids, &fast);
	expect_n(slow, 0, 2, NULL);
	client_settle(slow, 1, 2);
	expect_gap(slow, ids[5], ids[9], 5);
	expect_n(slow, 2, 2, NULL);
	assert_int_equal(counters_of(rig).dropped, 5);
	rig_check(rig);
	client_free(slow);
	client_free(fast);
}
NEAR_AND_FAR(test_the_slow_lose_the_newest)

/* As drop-newest, but that they were never accepted. */
static void
test_the_slow_refuse(struct rig *rig, unsigned loop)
{
	uint64_t ids[10];
	struct client *fast, *slow;

	slow = flood(rig, loop, "refuse", ids, &fast);
	expect_n(slow, 0, 2, NULL);
	client_settle(slow, 1, 2);
	expect_gap(slow, ids[5], ids[9], 5);
	expect_n(slow, 2, 2, NULL);
	assert_int_equal(counters_of(rig).refused, 5);
	assert_int_equal(counters_of(rig).dropped, 0);
	rig_check(rig);
	client_free(slow);
	client_free(fast);
}
NEAR_AND_FAR(test_the_slow_refuse)

static void
test_the_slow_are_cut_off_if_they_want_that(struct rig *rig, unsigned loop)
{
	uint64_t ids[10];
	struct client *fast, *slow;

	slow = flood(rig, loop, "disconnect", ids, &fast);
	expect_n(slow, 0, 2, NULL);
	assert_non_null(client_next(slow));
	assert_non_null(slow->frame->notice);
	assert_non_null(slow->frame->notice->unbound);
	assert_int_equal(slow->frame->notice->unbound->status, EVD_STATUS_FULL);
	client_expect_alive(slow);
	rig_run(rig);
	assert_int_equal(
		((struct mailslot *)holder(rig)->state)->n_consumers, 1);
	rig_check(rig);
	client_free(slow);
	client_free(fast);
}
NEAR_AND_FAR(test_the_slow_are_cut_off_if_they_want_that)

/* The alias waits for it, and so do the posters once that is full; nothing is
 * lost. */
static void
test_the_slow_hold_all_up_if_they_want_that(struct rig *rig, unsigned loop)
{
	enum { N = 200 };
	struct client *slow = subscriber(rig, loop, 2, "block", 3);
	struct client *fast = subscriber(rig, !loop, 0, NULL, 0);
	struct client *poster = client_hello(rig, 0);
	struct session *t = holder(rig);
	unsigned before;

	mailbox_limit(&t->box, 10, 1 << 20);
	post_n(rig, poster, 0, N);
	before = (unsigned)session_counters(t).handled;
	assert_true(before < 2 + 3 + 64 + 1 && before >= 2 + 3);
	assert_int_equal(t->box.n, 10);
	expect_n(fast, 0, (int)before, NULL);
	client_expect_silence(fast);
	for (int i = 0; i < N; i++) {
		expect_n(slow, i, 1, NULL);
		client_settle(slow, 1, (uint64_t)i + 1);
	}
	expect_n(fast, (int)before, N - (int)before, NULL);
	rig_run(rig);
	assert_int_equal(session_counters(t).handled, N);
	rig_check(rig);
	client_free(slow);
	client_free(fast);
	client_free(poster);
}
NEAR_AND_FAR(test_the_slow_hold_all_up_if_they_want_that)

static void
test_one_that_holds_all_up_and_goes_does_so_no_more(
	struct rig *rig, unsigned loop)
{
	enum { N = 200 };
	struct client *slow = subscriber(rig, loop, 2, "block", 3);
	struct client *fast = subscriber(rig, !loop, 0, NULL, 0);
	struct client *poster = client_hello(rig, 0);

	post_n(rig, poster, 0, N);
	assert_true(session_counters(holder(rig)).handled < N);
	client_free(slow);
	expect_n(fast, 0, N, NULL);
	rig_run(rig);
	rig_check(rig);
	client_free(fast);
	client_free(poster);
}
NEAR_AND_FAR(test_one_that_holds_all_up_and_goes_does_so_no_more)

/* ---- time and ends ------------------------------------------------------- */

/* What it has not had when it goes is dropped: others have it. */
static void
test_the_copies_of_one_that_goes_are_no_dead_letters(
	struct rig *rig, unsigned loop)
{
	struct client *c = subscriber(rig, loop, 2, NULL, 0);
	struct client *poster = client_hello(rig, 0);

	post_n(rig, poster, 0, 5);
	client_expect_ack(poster, 5);
	expect_n(c, 0, 2, NULL);
	unbind(c, 1);
	rig_run(rig);
	assert_null(holder(rig)); /* it was the last */
	assert_int_equal(counters_of(rig).dropped, 5);
	assert_int_equal(counters_of(rig).dead, 0);
	rig_check(rig);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_the_copies_of_one_that_goes_are_no_dead_letters)

/* It lives as long as its event does, wherever it waits. */
static void
test_copies_expire_as_their_event_does(struct rig *rig, unsigned loop)
{
	struct client *c = subscriber(rig, loop, 1, NULL, 0);
	struct client *poster = client_hello(rig, 0);
	Eventd__V1__Envelope e = EVENTD__V1__ENVELOPE__INIT;
	uint64_t end;

	post_n(rig, poster, 0, 1);
	expect_n(c, 0, 1, NULL); /* not settled: it gets no more yet */
	e.alias = (char *)"news";
	e.event = (char *)"brief";
	e.seq = 2;
	e.ttl_ms = 50;
	client_envelope(poster, &e);
	poster->seq = 2;
	post_n(rig, poster, 2, 1);
	client_expect_ack(poster, 3);
	end = rig_now() + 60 * NS_PER_MS;
	RIG_UNTIL(rig, rig_now() > end);
	client_settle(c, 1, 1);
	expect_n(c, 2, 1, NULL);
	assert_int_equal(counters_of(rig).expired, 1);
	rig_check(rig);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_copies_expire_as_their_event_does)

static void
test_a_files_alias_needs_no_subscriber(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = spec_new();
	struct client *poster = client_hello(rig, 0), *c;
	struct session *t;

	spec->kind = strdup("client");
	spec->name = strdup("news");
	spec->origin = strdup("/etc/news.conf");
	spec->mode = BIND_FANOUT;
	assert_int_equal(spec_add_alias(spec, "news"), 0);
	t = session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL);
	spec_unref(spec);
	rig_run(rig);
	post_n(rig, poster, 0, 2);
	client_expect_ack(poster, 2);
	assert_int_equal(session_counters(t).handled, 2);
	c = subscriber(rig, 1, 0, "drop-newest", 5);
	post_n(rig, poster, 2, 2);
	expect_n(c, 2, 2, NULL);
	unbind(c, 1);
	assert_ptr_equal(holder(rig), t);
	client_free(c);
	client_free(poster);
}

/* The alias's own mailbox has dropped some: every subscriber is told. */
static void
test_all_are_told_what_the_alias_dropped(void **state)
{
	struct rig *rig = *state;
	struct session_spec *spec = spec_new();
	struct client *poster = client_hello(rig, 0), *c[2];
	struct session *t;

	spec->kind = strdup("client");
	spec->name = strdup("news");
	spec->mode = BIND_FANOUT;
	spec->max_events = 2;
	spec->overflow = OVERFLOW_DROP_OLDEST;
	assert_int_equal(spec_add_alias(spec, "news"), 0);
	t = session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL);
	spec_unref(spec);
	rig_run(rig);
	for (unsigned i = 0; i < 2; i++)
		c[i] = subscriber(rig, i, 0, NULL, 0);
	for (int i = 0; i < 5; i++) {
		struct msg *m = msg_new(&rig->loops[0].sched.pool,
			&(struct msg_init){.event = "e",
				.event_size = 1,
				.event_static = true});

		m->to = session_id(t);
		assert_int_equal(sched_post(&rig->loops[0].sched, m), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_non_null(client_next(c[i]));
		assert_non_null(c[i]->frame->notice);
		assert_int_equal(c[i]->frame->notice->gap->count, 3);
		client_expect_delivery(c[i], 1, "e");
		client_expect_delivery(c[i], 1, "e");
		client_free(c[i]);
	}
	client_free(poster);
}

/* ---- monitors ------------------------------------------------------------ */

#define MONITOR EVENTD__V1__BIND_MODE__BIND_MONITOR

/* It sees what the holder has handled, whatever kind that is, and the holder
 * has nothing of it. */
static void
test_a_monitor_sees_what_the_holder_handles(struct rig *rig, unsigned loop)
{
	struct fake *fake = fake_new(rig, 0, "news");
	struct client *c = client_hello(rig, loop);
	struct client *poster = client_hello(rig, 1);

	post_n(rig, poster, 0, 1);
	subscribe(c, &(struct sub){1, 0, NULL, 0, MONITOR}, EVD_STATUS_OK);
	post_n(rig, poster, 1, 3);
	client_expect_ack(poster, 4);
	expect_n(c, 1, 3, NULL);
	assert_int_equal(fake->n_run, 4);
	assert_non_null(rig->loops[0].sched.profile.ops);
	unbind(c, 1);
	post_n(rig, poster, 4, 1);
	client_expect_ack(poster, 5);
	client_expect_silence(c);
	assert_int_equal(fake->n_run, 5);
	assert_null(rig->loops[0].sched.profile.ops); /* costs no more */
	rig_check(rig);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_a_monitor_sees_what_the_holder_handles)

/* It takes nothing in: it loses the oldest, and is told. */
static void
test_a_slow_monitor_slows_nobody(struct rig *rig, unsigned loop)
{
	struct fake *fake = fake_new(rig, 0, "news");
	struct client *c = client_hello(rig, loop);
	struct client *poster = client_hello(rig, 0);

	subscribe(c, &(struct sub){1, 1, "drop-oldest", 3, MONITOR},
		EVD_STATUS_OK);
	post_n(rig, poster, 0, 1);
	post_n(rig, poster, 1, 20);
	client_expect_ack(poster, 21);
	assert_int_equal(fake->n_run, 21);
	expect_n(c, 0, 1, NULL);
	client_settle(c, 1, 1);
	assert_non_null(client_next(c));
	assert_int_equal(c->frame->notice->gap->count, 17);
	expect_n(c, 18, 1, NULL);
	rig_check(rig);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_a_slow_monitor_slows_nobody)

/* Who may see the alias but not manage it sees no payloads. */
static void
test_a_monitor_without_rights_sees_no_payload(void **state)
{
	struct rig *rig = *state;
	struct client *c, *poster = client_hello(rig, 1);

	fake_new(rig, 0, "news");
	c = client_hello(rig, 0);
	rig_become(rig, 0, 12345, 12345);
	subscribe(c, &(struct sub){1, 0, NULL, 0, MONITOR}, EVD_STATUS_OK);
	client_post_size(poster, "news", "large", 10000);
	assert_int_equal(
		client_expect_delivery(c, 1, "large")->payload.len, 4096);
	rig_become(rig, 0, 12345, 0);
	unbind(c, 1);
	subscribe(c, &(struct sub){2, 0, NULL, 0, MONITOR}, EVD_STATUS_OK);
	client_post_size(poster, "news", "large", 10000);
	assert_int_equal(client_expect_delivery(c, 2, "large")->payload.len, 0);
	client_free(c);
	client_free(poster);
}

static void
test_what_nobody_holds_cannot_be_monitored(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	subscribe(
		c, &(struct sub){1, 0, NULL, 0, MONITOR}, EVD_STATUS_NO_ALIAS);
	fake_new(rig, 1, "news");
	subscribe(c, &(struct sub){1, 0, "block", 5, MONITOR},
		EVD_STATUS_INVALID);
	client_free(c);
}

static void
test_modes_do_not_mix(void **state)
{
	struct rig *rig = *state;
	struct client *a = subscriber(rig, 0, 0, NULL, 0);
	struct client *b = client_hello(rig, 1);
	const char *text = subscribe(
		b, &(struct sub){1, 0, NULL, 0, SHARED}, EVD_STATUS_TAKEN)
				   ->text;

	assert_non_null(strstr(text, "in mode fanout, not shared"));
	client_free(a);
	client_free(b);
}

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup_two, rig_teardown)
#define TESTS(test) TEST(test##_near), TEST(test##_far)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_all_get_all_in_order),
		TEST(test_the_bytes_are_stored_once),
		TESTS(test_who_does_not_read_holds_no_large_copies),
		TESTS(test_headers_and_priority_come_along),
		TEST(test_a_call_is_answered_that_nobody_answers),
		TESTS(test_what_waits_is_charged_to_the_subscriber),
		TESTS(test_the_slow_lose_the_oldest),
		TESTS(test_the_slow_lose_the_newest),
		TESTS(test_the_slow_refuse),
		TESTS(test_the_slow_are_cut_off_if_they_want_that),
		TESTS(test_the_slow_hold_all_up_if_they_want_that),
		TESTS(test_one_that_holds_all_up_and_goes_does_so_no_more),
		TESTS(test_the_copies_of_one_that_goes_are_no_dead_letters),
		TESTS(test_copies_expire_as_their_event_does),
		TEST(test_a_files_alias_needs_no_subscriber),
		TEST(test_all_are_told_what_the_alias_dropped),
		TESTS(test_a_monitor_sees_what_the_holder_handles),
		TESTS(test_a_slow_monitor_slows_nobody),
		TEST(test_a_monitor_without_rights_sees_no_payload),
		TEST(test_what_nobody_holds_cannot_be_monitored),
		TEST(test_modes_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
