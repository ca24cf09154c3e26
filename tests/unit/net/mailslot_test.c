/* Mailslots: two loops; the session lives on the first, its consumer on either
 * of them. */
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "kernel/dead.h"
#include "kernel/spec.h"
#include "net/mailslot.h"

enum { NEAR, FAR };

static struct session_spec *
spec_of(const char *alias)
{
	struct session_spec *spec = spec_new();

	assert_non_null(spec);
	spec->kind = strdup("client");
	spec->name = strdup("jobs");
	assert_int_equal(spec_add_alias(spec, alias), 0);
	return spec;
}

static struct session *
slot_start(struct rig *rig, const char *alias)
{
	struct session_spec *spec = spec_of(alias);
	struct session *s =
		session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL);

	spec_unref(spec);
	assert_non_null(s);
	return s;
}

static struct session *
slot_new(struct rig *rig)
{
	struct session *s = slot_start(rig, "jobs");

	rig_run(rig);
	assert_string_equal(session_state_word(s), "up");
	return s;
}

static uint64_t
ask_bind(struct client *c, const char *alias, uint64_t binding)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;

	bind.alias = (char *)alias;
	bind.binding = binding;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	return client_ask(c, &r);
}

static const char *
refused_bind(struct client *c, const char *alias, int status)
{
	return client_expect_response(c, ask_bind(c, alias, 9), status)->text;
}

static uint64_t
ask_unbind(struct client *c, uint64_t binding)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Unbind unbind = EVENTD__V1__UNBIND__INIT;

	unbind.binding = binding;
	r.verb_case = EVENTD__V1__REQUEST__VERB_UNBIND;
	r.unbind = &unbind;
	return client_ask(c, &r);
}

static void
unbind(struct client *c, uint64_t binding)
{
	client_expect_response(c, ask_unbind(c, binding), EVD_STATUS_OK);
}

static void
expect(struct client *c, const char *event, unsigned attempt)
{
	assert_int_equal(client_expect_delivery(c, 1, event)->attempt, attempt);
}

static void
expect_unbound(struct client *c, uint64_t binding, int status)
{
	assert_non_null(client_next(c));
	assert_non_null(c->frame->notice);
	assert_non_null(c->frame->notice->unbound);
	assert_int_equal(c->frame->notice->unbound->binding, binding);
	assert_int_equal(c->frame->notice->unbound->status, status);
	assert_true(c->frame->notice->unbound->text[0] != '\0');
}

/* Three events are in the mailbox. */
static struct client *
post_three(struct rig *rig)
{
	struct client *poster = client_hello(rig, 1);

	client_post(poster, "jobs", "one");
	client_post(poster, "jobs", "two");
	client_post(poster, "jobs", "three");
	client_expect_ack(poster, 3);
	return poster;
}

/* Each test, with the consumer on the mailslot's loop and on the other. */
#define NEAR_AND_FAR(test)                    \
	static void test##_near(void **state) \
	{                                     \
		test(*state, NEAR);           \
	}                                     \
	static void test##_far(void **state)  \
	{                                     \
		test(*state, FAR);            \
	}

/* ---- delivery ---------------------------------------------------------- */

static void
test_what_waited_comes_in_order(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);

	assert_int_equal(slot->box.n, 3);
	client_bind(c, "jobs", 1, 2);
	expect(c, "one", 0);
	expect(c, "two", 0);
	client_expect_silence(c); /* its window is full */
	assert_int_equal(session_counters(slot).leased, 2);
	assert_int_equal(rig->loops[0].sched.counters.leased, 2);
	assert_int_equal(rig->loops[1].sched.counters.leased, 0);
	client_settle(c, 1, 1);
	expect(c, "three", 0);
	assert_int_equal(session_counters(slot).handled, 1);
	client_settle(c, 1, 3);
	rig_run(rig);
	assert_int_equal(session_counters(slot).handled, 3);
	assert_int_equal(session_counters(slot).leased, 0);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_what_waited_comes_in_order)

static void
test_settling_too_much_ends_the_connection(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);

	client_bind(c, "jobs", 1, 2);
	expect(c, "one", 0);
	expect(c, "two", 0);
	client_settle(c, 1, 3);
	client_expect_error(c, EVD_STATUS_PROTOCOL);
	rig_run(rig);
	assert_int_equal(slot->box.n, 3);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_settling_too_much_ends_the_connection)

/* It does not read: copies wait for room in its output, then all come. */
static void
test_a_slow_consumer_misses_nothing(struct rig *rig, unsigned loop)
{
	enum { N = 100, SIZE = 8000 };
	struct session *slot = slot_new(rig);
	struct client *poster = client_hello(rig, 0);
	struct client *c = client_hello(rig, loop);
	char event[16];

	client_bind(c, "jobs", 1, N);
	for (int i = 0; i < N; i++) {
		snprintf(event, sizeof(event), "e%d", i);
		client_post_size(poster, "jobs", event, SIZE);
	}
	client_expect_ack(poster, N);
	rig_run(rig);
	assert_true(outbuf_size(&rig_conn(rig, loop)->out) > CONN_OUT_HIGH);
	assert_true(outbuf_size(&rig_conn(rig, loop)->out) <
		    CONN_OUT_HIGH + 2 * SIZE);
	for (int i = 0; i < N; i++) {
		snprintf(event, sizeof(event), "e%d", i);
		expect(c, event, 0);
	}
	client_settle(c, 1, N);
	rig_run(rig);
	assert_int_equal(session_counters(slot).handled, N);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_a_slow_consumer_misses_nothing)

/* While nobody consumes, it holds what it may hold, no more. */
static void
test_posts_park_until_there_is_a_consumer(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = client_hello(rig, 0);
	struct client *c = client_hello(rig, loop);
	static const char *const events[] = {"a", "b", "c", "d", "e"};

	mailbox_limit(&slot->box, 2, 1 << 20);
	for (int i = 0; i < 5; i++) {
		client_post(poster, "jobs", events[i]);
		rig_run(rig);
	}
	client_expect_ack(poster, 2);
	client_expect_silence(poster);
	assert_int_equal(slot->box.n, 2);
	assert_int_equal(slot->box.n_parked, 3);
	client_bind(c, "jobs", 1, 0);
	for (int i = 0; i < 5; i++)
		expect(c, events[i], 0);
	client_expect_ack(poster, 5);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_posts_park_until_there_is_a_consumer)

/* ---- the end of a consumer --------------------------------------------- */

static void
test_the_next_gets_first_what_the_dead_held(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);

	client_bind(c, "jobs", 1, 0);
	expect(c, "one", 0);
	expect(c, "two", 0);
	expect(c, "three", 0);
	client_settle(c, 1, 1);
	client_free(c);
	RIG_UNTIL(rig, !mailslot_consumer(slot));
	client_post(poster, "jobs", "four");
	RIG_UNTIL(rig, slot->box.n == 3);
	c = client_hello(rig, !loop);
	client_bind(c, "jobs", 1, 0);
	expect(c, "two", 1);
	expect(c, "three", 1);
	expect(c, "four", 0);
	client_settle(c, 1, 3);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_the_next_gets_first_what_the_dead_held)

/* What it held when it died is tried again one by one, so that the one that
 * kills its consumers is found, and ends; the others are handled. */
static void
test_poison_is_found_and_parked(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig), *c = client_hello(rig, loop);
	const struct dead *d;

	slot->spec->max_attempts = 2;
	client_bind(c, "jobs", 1, 0);
	expect(c, "one", 0);
	expect(c, "two", 0);
	expect(c, "three", 0);
	client_free(c);
	c = client_hello(rig, loop);
	client_bind(c, "jobs", 1, 0);
	expect(c, "one", 1);
	client_expect_silence(c); /* it is alone */
	assert_int_equal(session_counters(slot).leased, 1);
	client_free(c);
	RIG_UNTIL(rig, session_counters(slot).dead);
	d = dead_next(&rig->loops[0].sched, 0, DEAD_NONE);
	assert_int_equal(d->reason, DEAD_ATTEMPTS);
	assert_string_equal(d->msg->event, "one");
	c = client_hello(rig, loop);
	client_bind(c, "jobs", 1, 0);
	expect(c, "two", 1);
	unbind(c, 1); /* by will: it is no attempt that counts */
	assert_int_equal(session_counters(slot).dead, 1);
	client_bind(c, "jobs", 1, 0);
	expect(c, "two", 2);
	client_expect_silence(c);
	client_settle(c, 1, 1);
	expect(c, "three", 1);
	client_settle(c, 1, 2);
	client_post(poster, "jobs", "four");
	client_post(poster, "jobs", "five");
	expect(c, "four", 0);
	expect(c, "five", 0);
	client_settle(c, 1, 4);
	rig_run(rig);
	assert_int_equal(session_counters(slot).handled, 4);
	rig_check(rig);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_poison_is_found_and_parked)

static void
test_unbinding_gives_back_and_lets_another_bind(struct rig *rig, unsigned loop)
{
	struct client *c, *other = client_hello(rig, 0), *poster;

	slot_new(rig);
	poster = post_three(rig);
	c = client_hello(rig, loop);
	client_bind(c, "jobs", 1, 0);
	expect(c, "one", 0);
	expect(c, "two", 0);
	expect(c, "three", 0);
	unbind(c, 1);
	client_bind(other, "jobs", 1, 1);
	expect(other, "one", 1);
	unbind(other, 1);
	client_bind(c, "jobs", 1, 1);
	expect(c, "one", 2);
	client_free(other);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_unbinding_gives_back_and_lets_another_bind)

/* All that it has not settled when it unbinds; what it has, it may answer. */
static void
test_callers_are_told_when_their_call_goes_back(struct rig *rig, unsigned loop)
{
	struct client *caller = client_hello(rig, 1);
	struct client *c = client_hello(rig, loop);
	uint64_t first;

	slot_new(rig);
	client_bind(c, "jobs", 1, 0);
	client_call(caller, "jobs", "first", 5, "");
	client_call(caller, "jobs", "second", 6, "");
	first = client_expect_delivery(c, 1, "first")->call;
	expect(c, "second", 0);
	client_settle(c, 1, 1);
	unbind(c, 1);
	client_expect_reply(caller, 6, EVD_STATUS_DIED, NULL);
	client_reply(c, first, 0, "late but good");
	client_expect_reply(caller, 5, EVD_STATUS_OK, "late but good");
	client_bind(c, "jobs", 1, 0);
	assert_int_equal(client_expect_delivery(c, 1, "second")->call, 0);
	client_free(c);
	client_free(caller);
}
NEAR_AND_FAR(test_callers_are_told_when_their_call_goes_back)

static void
test_callers_are_told_when_the_consumer_dies(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *caller = client_hello(rig, 1);
	struct client *c = client_hello(rig, loop);

	client_bind(c, "jobs", 1, 0);
	client_call(caller, "jobs", "first", 5, "");
	expect(c, "first", 0);
	client_free(c);
	client_expect_reply(caller, 5, EVD_STATUS_DIED, NULL);
	RIG_UNTIL(rig, slot->box.n == 1);
	client_free(caller);
}
NEAR_AND_FAR(test_callers_are_told_when_the_consumer_dies)

/* Calls among copies that wait for room are answered too. */
static void
test_callers_are_told_whose_copy_was_not_written(struct rig *rig, unsigned loop)
{
	enum { N = 60 };
	struct session *slot = slot_new(rig);
	struct client *caller = client_hello(rig, 0);
	struct client *c = client_hello(rig, loop);

	client_bind(c, "jobs", 1, 0);
	for (int i = 0; i < N; i++)
		client_post_size(caller, "jobs", "fill", 16000);
	client_expect_ack(caller, N);
	client_call(caller, "jobs", "ask", 5, "");
	client_expect_silence(caller);
	client_free(c);
	if (loop == FAR)
		client_expect_reply(caller, 5, EVD_STATUS_DIED, NULL);
	RIG_UNTIL(rig, slot->box.n == N + 1);
	if (loop == NEAR) /* it was not handed out: the next answers it */
		client_expect_silence(caller);
	client_free(caller);
}
NEAR_AND_FAR(test_callers_are_told_whose_copy_was_not_written)

/* A copy that crosses the unbind. */
static void
test_a_call_in_flight_to_one_that_unbinds(void **state)
{
	struct rig *rig = *state;
	struct client *caller = client_hello(rig, 0);
	struct client *c = client_hello(rig, FAR);
	uint64_t id;

	slot_new(rig);
	client_bind(c, "jobs", 1, 0);
	client_call(caller, "jobs", "ask", 5, "");
	loop_once(&rig->loops[0], false); /* it is on its way */
	id = ask_unbind(c, 1);
	client_expect_response(c, id, EVD_STATUS_OK);
	client_expect_reply(caller, 5, EVD_STATUS_DIED, NULL);
	client_expect_silence(c);
	client_bind(c, "jobs", 1, 0);
	expect(c, "ask", 1);
	client_free(c);
	client_free(caller);
}

/* A copy for a connection that has gone. */
static void
test_a_note_to_nobody_answers_its_call(void **state)
{
	struct rig *rig = *state;
	struct client *caller = client_hello(rig, FAR);
	struct sched *s = &rig->loops[0].sched;
	struct msg *m = msg_new(&s->pool,
		&(struct msg_init){.event = "", .event_static = true});

	assert_non_null(m);
	m->to = SESSION_SLOT_MASK;
	assert_int_equal(session_call(rig_conn(rig, FAR)->session, NULL, 5, 0,
				 &msg_wide(m)->call),
		0);
	sched_note(s, m);
	client_expect_reply(caller, 5, EVD_STATUS_DIED, NULL);
	client_free(caller);
}

/* ---- bind -------------------------------------------------------------- */

/* The one before has gone, as its own loop knows; the slot's does not yet. */
static void
test_a_bind_waits_for_who_is_leaving(void **state)
{
	struct rig *rig = *state;
	struct client *c, *next = client_hello(rig, NEAR);
	uint64_t asked;

	slot_new(rig);
	c = client_hello(rig, FAR);
	client_bind(c, "jobs", 1, 0);
	client_post(next, "jobs", "one");
	client_expect_ack(next, 1);
	expect(c, "one", 0);
	client_free(c);
	while (rig->nets[FAR].n_conns)
		loop_once(&rig->loops[FAR], false);
	asked = ask_bind(next, "jobs", 1);
	client_expect_response(next, asked, EVD_STATUS_OK);
	expect(next, "one", 1);
	client_free(next);
}

static void
test_a_second_bind_is_told_who_is_there(struct rig *rig, unsigned loop)
{
	struct client *c = client_hello(rig, loop);
	struct client *other = client_hello(rig, 1);
	char who[64];

	slot_new(rig);
	client_bind(c, "jobs", 1, 0);
	snprintf(who, sizeof(who), "uid %u pid %d (a test)", (unsigned)getuid(),
		(int)getpid());
	assert_non_null(
		strstr(refused_bind(other, "jobs", EVD_STATUS_TAKEN), who));
	assert_non_null(
		strstr(refused_bind(c, "jobs", EVD_STATUS_TAKEN), "'jobs'"));
	client_free(c);
	client_free(other);
}
NEAR_AND_FAR(test_a_second_bind_is_told_who_is_there)

static void
test_a_session_of_another_kind_is_not_consumed(struct rig *rig, unsigned loop)
{
	struct client *c = client_hello(rig, loop);
	const char *text;

	fake_hosted(rig, 0, "worker");
	text = refused_bind(c, "worker", EVD_STATUS_TAKEN);
	assert_non_null(strstr(text, "kind fake"));
	assert_non_null(strstr(text, "/etc/eventd/sessions.d/fake.conf"));
	client_free(c);
}
NEAR_AND_FAR(test_a_session_of_another_kind_is_not_consumed)

static void
test_one_that_is_not_up_is_not_consumed(struct rig *rig, unsigned loop)
{
	struct client *c = client_hello(rig, loop);
	struct session_spec *spec = spec_of("free");
	struct session *slot;

	fake_new(rig, 0, "taken");
	assert_int_equal(spec_add_alias(spec, "taken"), 0);
	slot = session_new(&rig->loops[0].sched, &mailslot_ops, spec, NULL);
	spec_unref(spec);
	assert_string_equal(session_state_word(slot), "failed");
	assert_non_null(strstr(refused_bind(c, "free", EVD_STATUS_FAILED),
		"'taken' is held by another session"));
	client_free(c);
}
NEAR_AND_FAR(test_one_that_is_not_up_is_not_consumed)

static void
test_one_that_starts_is_not_consumed_yet(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	slot_start(rig, "jobs");
	refused_bind(c, "jobs", EVD_STATUS_UNAVAILABLE);
	client_bind(c, "jobs", 1, 0);
	client_free(c);
}

/* The mailslot ends while the question is on its way to it. */
static void
test_an_alias_that_got_free_meanwhile_is_bound(void **state)
{
	struct rig *rig = *state;
	struct session *slot = slot_new(rig);
	struct client *c = client_hello(rig, FAR);
	uint64_t id = ask_bind(c, "jobs", 1), gone = slot->id;

	loop_once(&rig->loops[1], false);
	session_stop(slot);
	assert_int_not_equal(
		client_expect_response(c, id, EVD_STATUS_OK)->bound->session,
		gone);
	client_post(c, "jobs", "one");
	expect(c, "one", 0);
	client_free(c);
}

static void
test_one_that_dies_while_it_binds_is_no_consumer(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);

	ask_bind(c, "jobs", 1);
	client_free(c);
	rig_run(rig);
	assert_null(mailslot_consumer(slot));
	assert_int_equal(slot->box.n, 3);
	client_free(poster);
}
NEAR_AND_FAR(test_one_that_dies_while_it_binds_is_no_consumer)

static void
test_bind_and_unbind_without_waiting(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);
	uint64_t one = ask_bind(c, "jobs", 1), two = ask_unbind(c, 1);
	uint64_t three = ask_bind(c, "jobs", 1);

	client_expect_response(c, one, EVD_STATUS_OK);
	client_expect_response(c, two, EVD_STATUS_OK);
	client_expect_response(c, three, EVD_STATUS_OK);
	expect(c, "one", 0);
	expect(c, "two", 0);
	expect(c, "three", 0);
	client_settle(c, 1, 3);
	rig_run(rig);
	assert_int_equal(session_counters(slot).handled, 3);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_bind_and_unbind_without_waiting)

/* ---- the session changes ----------------------------------------------- */

static void
test_a_restart_keeps_the_consumer(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);
	struct session_spec *spec = spec_of("jobs");

	spec->max_events = 7;
	client_bind(c, "jobs", 1, 1);
	expect(c, "one", 0);
	session_restart(slot, spec);
	spec_unref(spec);
	rig_run(rig);
	assert_int_equal(slot->box.max_n, 7);
	assert_int_equal(session_counters(slot).leased, 1);
	client_settle(c, 1, 1);
	expect(c, "two", 0);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_a_restart_keeps_the_consumer)

static void
test_a_lost_alias_unbinds(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);
	struct session_spec *spec = spec_of("other");

	client_bind(c, "jobs", 1, 2);
	expect(c, "one", 0);
	expect(c, "two", 0);
	session_restart(slot, spec);
	spec_unref(spec);
	expect_unbound(c, 1, EVD_STATUS_NO_ALIAS);
	assert_int_equal(slot->box.n, 3);
	client_settle(c, 1, 2); /* it crossed the notice */
	client_bind(c, "other", 1, 0);
	expect(c, "one", 1);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_a_lost_alias_unbinds)

/* It wants a name that another holds: it fails, its events wait. */
static void
test_a_restart_that_fails_unbinds(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *c = client_hello(rig, loop);
	struct session_spec *spec = spec_of("jobs");

	fake_new(rig, 0, "taken");
	assert_int_equal(spec_add_alias(spec, "taken"), 0);
	client_bind(c, "jobs", 1, 2);
	expect(c, "one", 0);
	expect(c, "two", 0);
	session_restart(slot, spec);
	spec_unref(spec);
	expect_unbound(c, 1, EVD_STATUS_DIED);
	assert_string_equal(session_state_word(slot), "failed");
	assert_int_equal(slot->box.n, 3);
	refused_bind(c, "jobs", EVD_STATUS_FAILED);
	spec = spec_of("jobs");
	session_restart(slot, spec);
	spec_unref(spec);
	rig_run(rig);
	client_bind(c, "jobs", 1, 0);
	expect(c, "one", 1);
	client_free(c);
	client_free(poster);
}
NEAR_AND_FAR(test_a_restart_that_fails_unbinds)

static void
test_the_end_of_the_session_unbinds(struct rig *rig, unsigned loop)
{
	struct session *slot = slot_new(rig);
	struct client *poster = post_three(rig);
	struct client *caller = client_hello(rig, 1);
	struct client *c = client_hello(rig, loop);
	struct sched *home = &rig->loops[0].sched;

	client_bind(c, "jobs", 1, 2);
	client_call(caller, "jobs", "ask", 5, "");
	expect(c, "one", 0);
	expect(c, "two", 0);
	RIG_UNTIL(rig, slot->box.n == 2);
	session_stop(slot);
	expect_unbound(c, 1, EVD_STATUS_DIED);
	client_expect_reply(caller, 5, EVD_STATUS_DIED, NULL);
	assert_int_equal(home->counters.dead, 4);
	assert_int_equal(home->counters.leased, 0);
	client_settle(c, 1, 2);
	client_expect_alive(c);
	client_free(c);
	client_free(caller);
	client_free(poster);
}
NEAR_AND_FAR(test_the_end_of_the_session_unbinds)

#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup_two, rig_teardown)
#define TESTS(test) TEST(test##_near), TEST(test##_far)

/* Two bindings of one client, the second in line behind the first: what the end
 * of the one makes happen to the other finds nobody. */
static void
test_who_waits_behind_itself_may_go(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;
	char alias[] = "jobs";

	slot_new(rig);
	client_bind(c, "jobs", 1, 2);
	bind.alias = alias;
	bind.binding = 2;
	bind.if_taken = EVENTD__V1__IF_TAKEN__TAKEN_QUEUE;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	client_ask(c, &r);
	rig_run(rig);
	client_free(c);
	rig_run(rig);
	c = client_hello(rig, 0);
	client_bind(c, "jobs", 1, 2);
	client_free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TESTS(test_what_waited_comes_in_order),
		TESTS(test_settling_too_much_ends_the_connection),
		TESTS(test_a_slow_consumer_misses_nothing),
		TESTS(test_posts_park_until_there_is_a_consumer),
		TESTS(test_the_next_gets_first_what_the_dead_held),
		TESTS(test_poison_is_found_and_parked),
		TESTS(test_unbinding_gives_back_and_lets_another_bind),
		TESTS(test_callers_are_told_when_their_call_goes_back),
		TESTS(test_callers_are_told_when_the_consumer_dies),
		TESTS(test_callers_are_told_whose_copy_was_not_written),
		TEST(test_a_call_in_flight_to_one_that_unbinds),
		TEST(test_a_note_to_nobody_answers_its_call),
		TEST(test_a_bind_waits_for_who_is_leaving),
		TESTS(test_a_second_bind_is_told_who_is_there),
		TESTS(test_a_session_of_another_kind_is_not_consumed),
		TESTS(test_one_that_is_not_up_is_not_consumed),
		TEST(test_one_that_starts_is_not_consumed_yet),
		TEST(test_an_alias_that_got_free_meanwhile_is_bound),
		TESTS(test_one_that_dies_while_it_binds_is_no_consumer),
		TESTS(test_bind_and_unbind_without_waiting),
		TESTS(test_a_restart_keeps_the_consumer),
		TESTS(test_a_lost_alias_unbinds),
		TESTS(test_a_restart_that_fails_unbinds),
		TESTS(test_the_end_of_the_session_unbinds),
		cmocka_unit_test_setup_teardown(
			test_who_waits_behind_itself_may_go, rig_setup,
			rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
