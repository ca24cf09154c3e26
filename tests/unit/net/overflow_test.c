/* The mailbox that a client asks for when it binds: bounds, overflow, and what
 * is told of the events that were dropped; own aliases and mailslots. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "kernel/spec.h"
#include "net/binding.h"
#include "net/mailslot.h"

static uint64_t
ask_box(struct client *c, const char *alias, uint64_t binding, uint32_t window,
	Eventd__V1__Mailbox box)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;

	bind.alias = (char *)alias;
	bind.binding = binding;
	bind.window_events = window;
	bind.mailbox = &box;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	return client_ask(c, &r);
}

static Eventd__V1__Mailbox
box_of(const char *overflow, uint32_t events)
{
	Eventd__V1__Mailbox box = EVENTD__V1__MAILBOX__INIT;

	box.overflow = (char *)overflow;
	box.max_events = events;
	return box;
}

static void
bind_box(struct client *c, uint64_t binding, const char *alias,
	const char *overflow, uint32_t events)
{
	uint64_t id = ask_box(c, alias, binding, 1, box_of(overflow, events));

	client_expect_response(c, id, EVD_STATUS_OK);
}

static void
expect_gap(struct client *c, uint64_t binding, uint64_t count)
{
	const Eventd__V1__Gap *gap;

	assert_non_null(client_next(c));
	assert_non_null(c->frame->notice);
	gap = c->frame->notice->gap;
	assert_non_null(gap);
	assert_int_equal(gap->binding, binding);
	assert_int_equal(gap->count, count);
	assert_true(gap->from && gap->from <= gap->to);
}

static void
post_many(struct client *c, const char *alias, unsigned first, unsigned last)
{
	char event[16];

	for (unsigned i = first; i <= last; i++) {
		snprintf(event, sizeof(event), "e%u", i);
		client_post(c, alias, event);
	}
	do /* those that are dropped have failed */
		assert_non_null(client_next(c));
	while (!c->frame->ack || c->frame->ack->upto != c->seq);
}

/* B2: each by its own policy, and told; the others get all. */
static void
test_each_drops_by_its_own_policy(void **state)
{
	struct rig *rig = *state;
	struct client *slow = client_hello(rig, 0), *p = client_hello(rig, 0);
	uint64_t first;

	bind_box(slow, 1, "old", "drop-oldest", 2);
	bind_box(slow, 2, "new", "drop-newest", 2);
	client_bind(slow, "all", 3, 1);
	post_many(p, "old", 1, 1);
	first = client_expect_delivery(slow, 1, "e1")->id;
	post_many(p, "old", 2, 6);
	post_many(p, "new", 1, 1);
	client_expect_delivery(slow, 2, "e1");
	post_many(p, "new", 2, 6);
	post_many(p, "all", 1, 3);
	client_expect_delivery(slow, 3, "e1");
	client_expect_silence(slow);
	client_settle(slow, 1, 1);
	expect_gap(slow, 1, 3);
	assert_true(slow->frame->notice->gap->from > first);
	client_expect_delivery(slow, 1, "e5");
	client_settle(slow, 1, 2);
	client_expect_delivery(slow, 1, "e6");
	client_settle(slow, 2, 1);
	expect_gap(slow, 2, 3);
	client_expect_delivery(slow, 2, "e2");
	client_settle(slow, 2, 2);
	client_expect_delivery(slow, 2, "e3");
	client_settle(slow, 3, 1);
	client_expect_delivery(slow, 3, "e2");
	client_expect_silence(slow);
	rig_check(rig);
	assert_int_equal(rig->loops[0].sched.counters.dropped, 6);
	client_free(slow);
	client_free(p);
}

/* Its socket is full: it is told once, of all, before what comes next. */
static void
test_one_that_does_not_read_is_told_when_it_does(void **state)
{
	enum { N = 100, SIZE = 8000, KEPT = 4 };
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *p = client_hello(rig, 0);
	uint64_t id = ask_box(c, "box", 1, N, box_of("drop-oldest", KEPT));
	uint64_t n = 0, last = 0, gaps = 0, dropped = 0;

	client_expect_response(c, id, EVD_STATUS_OK);
	for (int i = 0; i < N; i++) {
		client_post_size(p, "box", "e", SIZE);
		client_expect_ack(p, p->seq);
	}
	while (n + dropped < N) {
		assert_non_null(client_next(c));
		if (c->frame->notice) {
			assert_non_null(c->frame->notice->gap);
			dropped += c->frame->notice->gap->count;
			assert_true(c->frame->notice->gap->from > last);
			last = c->frame->notice->gap->to;
			gaps++;
			continue;
		}
		assert_int_equal(c->frame->n_envelopes, 1);
		assert_true(c->frame->envelopes[0]->id > last);
		last = c->frame->envelopes[0]->id;
		n++;
	}
	assert_true(dropped > 0);
	assert_int_equal(gaps, 1);
	assert_int_equal(rig->loops[0].sched.counters.dropped, dropped);
	client_free(c);
	client_free(p);
}

static void
test_refuse_and_bounds(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *p = client_hello(rig, 0);
	Eventd__V1__Mailbox box = box_of("", 0);

	bind_box(c, 1, "full", "refuse tick:drop-oldest", 1);
	post_many(p, "full", 1, 1);
	client_expect_delivery(c, 1, "e1");
	post_many(p, "full", 2, 2);
	client_post(p, "full", "e3");
	client_expect_failure(p, 3, EVD_STATUS_FULL);
	client_expect_ack(p, 3);
	client_post(p, "full", "tick"); /* there is no older one */
	client_expect_ack(p, 4);
	client_settle(c, 1, 1);
	expect_gap(c, 1, 1);
	client_expect_delivery(c, 1, "e2");
	box.max_bytes = 10;
	client_expect_response(
		c, ask_box(c, "bytes", 2, 1, box), EVD_STATUS_OK);
	client_post_size(p, "bytes", "e1", 9);
	client_expect_delivery(c, 2, "e1");
	client_post_size(p, "bytes", "e2", 9);
	client_post_size(p, "bytes", "e3", 9);
	client_expect_ack(p, 6); /* it waits in its poster's window */
	client_expect_silence(p);
	client_settle(c, 2, 1);
	client_expect_delivery(c, 2, "e2");
	client_expect_ack(p, 7);
	client_free(c);
	client_free(p);
}

static void
refused(struct client *c, Eventd__V1__Mailbox box, int status, const char *text)
{
	client_expect_response(c, ask_box(c, "x", 5, 1, box), status);
	assert_non_null(strstr(c->frame->response->text, text));
}

static void
test_wishes_that_cannot_be_are_refused(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Mailbox box = box_of("", BINDING_MAILBOX_EVENTS_MAX + 1);
	char *huge = malloc(65537);

	assert_non_null(huge);
	memset(huge, 'a', 65536);
	huge[65536] = '\0';
	refused(c, box, EVD_STATUS_LIMIT, "65536 events");
	box = box_of("", 0);
	box.max_bytes = BINDING_MAILBOX_BYTES_MAX + 1;
	refused(c, box, EVD_STATUS_LIMIT, "67108864 bytes");
	refused(c, box_of(huge, 0), EVD_STATUS_LIMIT, "1000 bytes");
	refused(c, box_of("drop", 0), EVD_STATUS_INVALID, "drop-oldest");
	refused(c, box_of("a b:refuse", 0), EVD_STATUS_INVALID, "drop-oldest");
	refused(c, box_of("a\n:refuse", 0), EVD_STATUS_INVALID, "drop-oldest");
	free(huge);
	client_expect_response(c,
		ask_box(c, "x", 5, 1, box_of(" drop-oldest  ", 0)),
		EVD_STATUS_OK);
	client_free(c);
}

/* It has a spec for its mailbox, and is a client's none the less. */
static void
test_it_is_neither_restarted_nor_stopped(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Restart restart = EVENTD__V1__RESTART__INIT;
	Eventd__V1__Stop stop = EVENTD__V1__STOP__INIT;

	bind_box(c, 1, "box", "drop-oldest", 5);
	restart.alias = stop.alias = (char *)"box";
	r.verb_case = EVENTD__V1__REQUEST__VERB_RESTART;
	r.restart = &restart;
	client_request(c, &r, EVD_STATUS_UNSUPPORTED);
	r.verb_case = EVENTD__V1__REQUEST__VERB_STOP;
	r.stop = &stop;
	client_request(c, &r, EVD_STATUS_UNSUPPORTED);
	session_fail(session_find(&rig->kernel,
			     alias_holder(&rig->kernel.aliases, "box", 3)),
		"one that it is linked with has failed");
	assert_non_null(client_next(c));
	assert_non_null(c->frame->notice);
	assert_non_null(c->frame->notice->unbound);
	rig_run(rig);
	assert_int_equal(alias_holder(&rig->kernel.aliases, "box", 3), 0);
	bind_box(c, 1, "box", "drop-oldest", 5);
	client_free(c);
}

/* ---- mailslots --------------------------------------------------------- */

static struct session *
slot_new(struct rig *rig)
{
	struct session_spec *spec = spec_new();
	struct session *s;

	assert_non_null(spec);
	spec->kind = strdup("client");
	spec->name = strdup("jobs");
	spec->origin = strdup("/etc/jobs.conf");
	spec->max_events = 2;
	assert_int_equal(spec_add_alias(spec, "jobs"), 0);
	assert_int_equal(spec_set_overflow(spec, "drop-oldest"), 0);
	s = session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL);
	spec_unref(spec);
	rig_run(rig);
	return s;
}

static void
slot_tells_of_drops(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *p = client_hello(rig, 0), *c;
	uint64_t id;

	post_many(p, "jobs", 1, 5); /* nobody consumes yet */
	assert_int_equal(session_counters(slot).dropped, 3);
	c = client_hello(rig, loop);
	client_bind(c, "jobs", 1, 1);
	expect_gap(c, 1, 3);
	client_expect_delivery(c, 1, "e4");
	post_many(p, "jobs", 6, 8);
	client_expect_silence(c);
	client_settle(c, 1, 1);
	expect_gap(c, 1, 2);
	client_expect_delivery(c, 1, "e7");
	client_settle(c, 1, 2);
	client_expect_delivery(c, 1, "e8");
	client_settle(c, 1, 3);
	client_expect_silence(c);
	assert_int_equal(session_counters(slot).handled, 3 + 2 /* gaps */);
	id = ask_box(c, "jobs", 2, 1, box_of("drop-oldest", 5));
	client_expect_response(c, id, EVD_STATUS_INVALID);
	assert_non_null(strstr(c->frame->response->text, "/etc/jobs.conf"));
	client_free(c);
	client_free(p);
}

static void
test_a_mailslot_tells_its_consumer(void **state)
{
	slot_tells_of_drops(*state, 0);
}

static void
test_a_mailslot_tells_one_on_another_loop(void **state)
{
	slot_tells_of_drops(*state, 1);
}

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)
#define TWO(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup_two, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_drops_by_its_own_policy),
		TEST(test_one_that_does_not_read_is_told_when_it_does),
		TEST(test_refuse_and_bounds),
		TEST(test_wishes_that_cannot_be_are_refused),
		TEST(test_it_is_neither_restarted_nor_stopped),
		TWO(test_a_mailslot_tells_its_consumer),
		TWO(test_a_mailslot_tells_one_on_another_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
