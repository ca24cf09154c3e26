/* How events are sent and received beside the plain way: deadlines handed on,
 * cancelled and forwarded calls, time to live, keys, priority, the stash. The
 * sender is on the first scheduler, the receiver on the second if there are
 * two. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "kernel/aside.h"

static struct fake *
receiver(struct fixture *f, const char *name)
{
	return fake_new(f, f->n_scheds - 1, name);
}

/* What came to @fake until now, having run. */
static const char *
after(struct fixture *f, struct fake *fake)
{
	fixture_run(f);
	return fake_trace(fake);
}

static uint64_t
total(const struct fixture *f, size_t counter)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < f->n_scheds; i++)
		n += *(const uint64_t *)((const char *)&f->scheds[i].counters +
					 counter);
	return n;
}

#define TOTAL(f, name) total(f, offsetof(struct counters, name))

/* ---- deadlines ------------------------------------------------------- */

/* It asks another on behalf of its caller, and would wait for long. */
static enum session_result
ask_other(struct fake *fake, struct msg *m)
{
	struct msg *ask = fixture_msg(fake->sched, fake->other, "ask");

	msg_wide(ask)->deadline_ns = msg_deadline_ns(m);
	fake->held[fake->n_held++] = m;
	assert_int_equal(session_call(fake->session, ask, 7, 60000, NULL), 0);
	return SESSION_WAIT;
}

static void
on_other_replied(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)token, (void)reply;
	fake_done(fake, EVD_STATUS_HANDLER);
}

/* B26: A calls B with a second, B calls C, C never answers. */
static void
test_a_nested_call_has_what_is_left_of_the_deadline(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, "a"), *b = receiver(f, "b");
	struct fake *c = fake_new(f, 0, "c");

	b->other = c;
	b->on_run = ask_other;
	b->on_reply = on_other_replied;
	c->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "go", 1, 1000), 0);
	fixture_advance(f, 900);
	assert_string_equal(fake_trace(b), "go");
	fixture_advance(f, 110);
	assert_string_equal(
		fake_trace(a), "reply1=timeout:no reply before the deadline");
	assert_string_equal(
		fake_trace(b), "reply7=timeout:no reply before the deadline");
	b->on_reply = NULL;
	/* C answers at last: nobody takes it for another call's reply */
	assert_int_equal(fixture_call(b, c, "next", 8, 1000), 0);
	fixture_run(f);
	sched_reply(c->sched, msg_call(c->held[0]), 0, "late", 4);
	c->held[0]->flags |= MSG_REPLIED;
	c->on_run = NULL;
	fake_done(c, 0);
	assert_string_equal(after(f, b), "reply8=ok:");
	assert_int_equal(f->kernel.late_replies, 2);
}

static void
test_without_time_left_nothing_is_asked(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct msg *m = fixture_msg(a->sched, b, "x");

	msg_wide(m)->deadline_ns = a->sched->now_ns;
	assert_int_equal(session_call(a->session, m, 1, 60000, NULL), 0);
	fixture_advance(f, 1);
	assert_string_equal(
		fake_trace(a), "reply1=timeout:no reply before the deadline");
	assert_string_equal(fake_trace(b), "");
}

static void
test_a_longer_deadline_above_does_not_lengthen_one(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct msg *m = fixture_msg(a->sched, b, "x");

	b->on_run = fake_wait;
	msg_wide(m)->deadline_ns = a->sched->now_ns + 60ull * NS_PER_S;
	assert_int_equal(session_call(a->session, m, 1, 100, NULL), 0);
	fixture_advance(f, 110);
	assert_string_equal(
		fake_trace(a), "reply1=timeout:no reply before the deadline");
	fake_done(b, 0);
}

/* ---- cancel ---------------------------------------------------------- */

static void
test_a_cancelled_call_is_not_handled(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	uint64_t first;

	b->on_run = fake_hold;
	fixture_post(a, b, "before");
	assert_int_equal(fixture_call(a, b, "one", 1, 0), 0);
	first = a->call;
	assert_int_equal(fixture_call(a, b, "two", 2, 0), 0);
	fixture_run(f);
	assert_int_equal(session_cancel_call(a->session, first), 0);
	assert_int_equal(
		session_cancel_call(a->session, first), SESSION_E_NO_CALL);
	fixture_run(f);
	fake_trace(b);
	b->on_run = NULL;
	session_wake(b->session);
	assert_string_equal(after(f, b), "before two");
	assert_string_equal(fake_trace(a), "reply2=ok:");
	assert_int_equal(TOTAL(f, cancelled), 1);
	assert_int_equal(f->kernel.late_replies, 0);
}

/* Also if it has come, but not been given. */
static void
test_after_a_cancel_no_reply_comes(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	uint64_t call;

	assert_int_equal(fixture_call(a, b, "one", 1, 0), 0);
	call = a->call;
	assert_int_equal(fixture_call(a, b, "two", 2, 0), 0);
	sched_reply(a->sched, call, 0, "early", 5);
	assert_int_equal(session_cancel_call(a->session, call), 0);
	assert_string_equal(after(f, a), "reply2=ok:");
	assert_int_equal(
		session_cancel_call(a->session, call), SESSION_E_NO_CALL);
}

static bool
on_cancelled(struct fake *fake, uint64_t call)
{
	return fake->n_held && msg_call(fake->held[0]) == call;
}

static void
test_who_handles_a_cancelled_call_is_told(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_wait;
	b->on_cancelled = on_cancelled;
	assert_int_equal(fixture_call(a, b, "one", 1, 0), 0);
	fixture_run(f);
	assert_int_equal(session_cancel_call(a->session, a->call), 0);
	assert_string_equal(after(f, b), "one cancelled");
	fake_done(b, 0);
	assert_string_equal(after(f, a), "");
	assert_int_equal(f->kernel.late_replies, 1);
	assert_int_equal(TOTAL(f, handled), 1);
}

static enum session_result
lease_calls(struct fake *fake, struct msg *m)
{
	return msg_call(m) ? fake_lease(fake, m) : SESSION_HELD;
}

/* Marks of calls that had been handled are not kept. */
static void
test_cancelling_too_late_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = lease_calls;
	fixture_post(a, b, "stays");
	for (unsigned i = 0; i < 100; i++) {
		struct msg *m = fixture_msg(a->sched, b, "call");
		uint64_t call;

		m->flags |= MSG_URGENT;
		assert_int_equal(session_call(a->session, m, 1, 0, &call), 0);
		fixture_run(f);
		session_wake(b->session);
		fixture_run(f);
		assert_int_equal(b->n_held, 1);
		assert_int_equal(session_cancel_call(a->session, call), 0);
		fixture_run(f);
		assert_in_range(aside_get(b->session)->cancelled.n, 0, 1);
		fake_done(b, 0);
	}
	assert_int_equal(b->session->box.n, 1);
}

static void
test_a_parked_call_can_be_cancelled(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct msg *m = fixture_msg(a->sched, b, "parked");
	uint64_t call;

	mailbox_limit(&b->session->box, 1, 1000);
	b->on_run = fake_hold;
	fixture_post(a, b, "one");
	m->flags |= MSG_MAY_PARK;
	assert_int_equal(session_call(a->session, m, 1, 0, &call), 0);
	fixture_run(f);
	assert_int_equal(b->session->box.n_parked, 1);
	assert_int_equal(session_cancel_call(a->session, call), 0);
	fixture_run(f);
	fake_trace(b);
	b->on_run = NULL;
	session_wake(b->session);
	assert_string_equal(after(f, b), "one");
	assert_int_equal(TOTAL(f, refused), 1);
	assert_int_equal(TOTAL(f, cancelled), 0);
}

/* ---- forward --------------------------------------------------------- */

static enum session_result
forward(struct fake *fake, struct msg *m)
{
	struct msg *on = fixture_msg(fake->sched, fake->other, "forwarded");

	on->from = m->from;
	assert_int_equal(session_forward(fake->session, msg_call(m),
				 msg_deadline_ns(m), on),
		0);
	msg_uncall(m);
	return SESSION_DONE;
}

static enum session_result
answer_late(struct fake *fake, struct msg *m)
{
	fake->number = msg_deadline_ns(m);
	return fake_wait(fake, m);
}

static void
test_the_reply_to_a_forwarded_call_finds_its_caller(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct fake *c = fake_new(f, 0, NULL);
	uint64_t deadline = f->scheds[0].now_ns + NS_PER_S;

	b->on_run = forward;
	b->other = c;
	c->on_run = answer_late;
	assert_int_equal(fixture_call(a, b, "x", 1, 1000), 0);
	assert_string_equal(after(f, c), "forwarded");
	assert_string_equal(fake_trace(a), "");
	assert_int_equal(c->number, deadline); /* B26 */
	sched_reply(c->sched, msg_call(c->held[0]), 0, "hello", 5);
	c->held[0]->flags |= MSG_REPLIED;
	fake_done(c, 0);
	assert_string_equal(after(f, a), "reply1=ok:hello");
	assert_int_equal(f->kernel.late_replies, 0);
}

static void
test_a_forwarded_call_is_cancelled_where_it_is(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct fake *c = fake_new(f, 0, NULL);

	b->on_run = forward;
	b->other = c;
	c->on_run = fake_wait;
	c->on_cancelled = on_cancelled;
	assert_int_equal(fixture_call(a, b, "x", 1, 1000), 0);
	fixture_run(f);
	assert_int_equal(session_cancel_call(a->session, a->call), 0);
	assert_string_equal(after(f, c), "forwarded cancelled");
	fake_done(c, 0);
}

/* The cancel overtakes the word of the forwarding. */
static void
test_a_cancel_overtaking_a_forward_catches_up(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct fake *c = receiver(f, NULL);

	b->on_run = forward;
	b->other = c;
	c->on_run = fake_wait;
	c->on_cancelled = on_cancelled;
	assert_int_equal(fixture_call(a, b, "x", 1, 1000), 0);
	sched_turn(&f->scheds[0]);
	sched_turn(&f->scheds[f->n_scheds - 1]); /* forwards */
	assert_int_equal(session_cancel_call(a->session, a->call), 0);
	assert_string_equal(after(f, c), "forwarded cancelled");
	fake_done(c, 0);
}

static void
test_a_call_forwarded_to_nobody_stays(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct msg *on;

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 1000), 0);
	fixture_run(f);
	on = fixture_msg(b->sched, b, "y");
	on->to = UINT64_MAX;
	assert_int_equal(
		session_forward(b->session, msg_call(b->held[0]), 0, on),
		SCHED_E_NO_SESSION);
	msg_free(&b->sched->pool, on);
	fake_done(b, 0);
	assert_string_equal(after(f, a), "reply1=ok:");
}

/* ---- time to live ---------------------------------------------------- */

static struct msg *
mortal(struct fake *from, struct fake *to, const char *event, uint64_t ms)
{
	struct msg *m = fixture_rich(from->sched, to, event);

	msg_live(m, from->sched->now_ns, ms * NS_PER_MS);
	return m;
}

static void
test_what_has_expired_is_not_handled(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_hold;
	fixture_send(a, mortal(a, b, "short", 100), 1, MSG_LEVEL_HANDLED, 0);
	fixture_send(a, mortal(a, b, "long", 500), 2, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	fake_trace(b);
	b->on_run = NULL;
	clock_fake_advance(&f->clock, 200 * NS_PER_MS);
	session_wake(b->session);
	assert_string_equal(after(f, b), "long");
	assert_string_equal(fake_trace(a), "settled1=expired settled2=ok");
	assert_int_equal(TOTAL(f, expired), 1);
	assert_int_equal(TOTAL(f, handled), 1);
}

static void
test_the_caller_of_an_expired_call_is_told(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_hold;
	assert_int_equal(
		session_call(a->session, mortal(a, b, "x", 100), 1, 1000, NULL),
		0);
	fixture_run(f);
	clock_fake_advance(&f->clock, 200 * NS_PER_MS);
	session_wake(b->session);
	assert_string_equal(after(f, a),
		"reply1=expired:the event expired before it was handled");
}

static void
test_the_expired_make_room(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	mailbox_limit(&b->session->box, 2, 1000);
	b->on_run = fake_hold;
	fixture_send(a, mortal(a, b, "x", 100), 1, MSG_LEVEL_HANDLED, 0);
	fixture_send(a, mortal(a, b, "y", 100), 2, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	fixture_send(a, mortal(a, b, "z", 100), 3, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "settled3=full");
	clock_fake_advance(&f->clock, 200 * NS_PER_MS);
	fixture_run(f);
	fixture_send(a, mortal(a, b, "z", 100), 4, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(
		after(f, a), "settled1=expired settled2=expired settled4=ok");
}

static void
test_what_expires_while_parked_was_never_accepted(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	mailbox_limit(&b->session->box, 1, 1000);
	b->on_run = fake_hold;
	fixture_post(a, b, "one");
	fixture_send(a, mortal(a, b, "two", 100), 2, MSG_LEVEL_ACCEPTED,
		MSG_MAY_PARK);
	fixture_post_ack(a, b, "three", 3, MSG_LEVEL_HANDLED, MSG_MAY_PARK);
	fixture_run(f);
	fake_trace(b);
	b->on_run = NULL;
	clock_fake_advance(&f->clock, 200 * NS_PER_MS);
	session_wake(b->session);
	assert_string_equal(after(f, b), "one three");
	assert_string_equal(fake_trace(a), "settled2=expired settled3=ok");
	assert_int_equal(TOTAL(f, refused), 1);
	assert_int_equal(TOTAL(f, expired), 0);
}

/* ---- keys ------------------------------------------------------------ */

static void
send_key(struct fake *from, const struct fake *to, const char *key,
	uint64_t seq, enum msg_level level, uint8_t flags)
{
	struct msg *m = fixture_rich(from->sched, to, key);

	msg_set_key(m, key);
	fixture_send(from, m, seq, level, flags);
}

static void
test_a_repeated_post_is_acked_and_handled_once(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	send_key(a, b, "k1", 1, MSG_LEVEL_ACCEPTED, 0);
	send_key(a, b, "k1", 2, MSG_LEVEL_ACCEPTED, 0);
	send_key(a, b, "k2", 3, MSG_LEVEL_ACCEPTED, 0);
	fixture_run(f);
	send_key(a, b, "k1", 4, MSG_LEVEL_HANDLED, 0);
	assert_string_equal(after(f, b), "k1 k2");
	assert_string_equal(fake_trace(a),
		"settled1=ok settled2=ok settled3=ok settled4=ok");
	assert_int_equal(aside_get(b->session)->n_repeated, 2);
	assert_int_equal(session_counters(b->session).accepted, 2);
}

static void
test_a_repeated_post_waits_for_the_first_one(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_wait;
	send_key(a, b, "k", 1, MSG_LEVEL_ACCEPTED, 0);
	send_key(a, b, "k", 2, MSG_LEVEL_HANDLED, 0);
	send_key(a, b, "k", 3, MSG_LEVEL_DELIVERED, 0);
	assert_string_equal(after(f, a), "settled1=ok");
	fake_done(b, 0);
	assert_string_equal(after(f, a), "settled2=ok settled3=ok");
	assert_int_equal(b->n_run, 1);
}

static void
test_a_post_that_failed_may_be_repeated(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_wait;
	send_key(a, b, "k", 1, MSG_LEVEL_HANDLED, 0);
	send_key(a, b, "k", 2, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	fake_done(b, EVD_STATUS_HANDLER);
	assert_string_equal(
		after(f, a), "settled1=handler-error settled2=handler-error");
	b->on_run = NULL;
	send_key(a, b, "k", 3, MSG_LEVEL_HANDLED, 0);
	assert_string_equal(after(f, a), "settled3=ok");
	assert_int_equal(b->n_run, 2);
}

/* A client sends it again because it lost its connection. */
static void
test_a_numbered_post_is_accepted_once_however_it_ended(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_wait;
	send_key(a, b, "\1c:1", 1, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	fake_done(b, EVD_STATUS_HANDLER);
	assert_string_equal(after(f, a), "settled1=handler-error");
	b->on_run = NULL;
	send_key(a, b, "\1c:1", 2, MSG_LEVEL_HANDLED, 0);
	send_key(a, b, "\1c:1", 3, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(after(f, a), "settled2=handler-error settled3=ok");
	assert_int_equal(b->n_run, 1);
}

static void
test_a_refused_post_may_be_repeated(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	mailbox_limit(&b->session->box, 1, 1000);
	b->on_run = fake_hold;
	fixture_post(a, b, "full");
	send_key(a, b, "k", 1, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(after(f, a), "settled1=full");
	b->on_run = NULL;
	session_wake(b->session);
	fixture_run(f);
	send_key(a, b, "k", 2, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(after(f, a), "settled2=ok");
	assert_string_equal(fake_trace(b), "full full k");
}

static void
test_repeated_posts_that_wait_for_room_come_in_once(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	mailbox_limit(&b->session->box, 1, 1000);
	b->on_run = fake_hold;
	fixture_post(a, b, "full");
	send_key(a, b, "k", 1, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	send_key(a, b, "k", 2, MSG_LEVEL_ACCEPTED, MSG_MAY_PARK);
	send_key(a, b, "k", 3, MSG_LEVEL_HANDLED, MSG_MAY_PARK);
	assert_string_equal(after(f, a), "");
	b->on_run = NULL;
	fake_trace(b);
	session_wake(b->session);
	assert_string_equal(after(f, b), "full k");
	assert_string_equal(
		fake_trace(a), "settled1=ok settled2=ok settled3=ok");
}

static void
test_keys_are_forgotten_after_the_window(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	send_key(a, b, "k", 1, MSG_LEVEL_ACCEPTED, 0);
	fixture_run(f);
	fixture_advance(f, 119000);
	send_key(a, b, "k", 2, MSG_LEVEL_ACCEPTED, 0);
	fixture_run(f);
	assert_int_equal(b->n_run, 1);
	fixture_advance(f, 2000);
	send_key(a, b, "k", 3, MSG_LEVEL_ACCEPTED, 0);
	fixture_run(f);
	assert_int_equal(b->n_run, 2);
}

static void
test_keys_are_bounded(void **state)
{
	struct kernel_limits limits = kernel_limits_default;
	struct fixture *f;
	struct fake *a, *b;
	char key[16];

	(void)state;
	limits.max_keys = 100;
	f = fixture_new(2, &limits);
	a = fake_new(f, 0, NULL);
	b = receiver(f, NULL);
	b->on_run = fake_wait;
	send_key(a, b, "k0", 1, MSG_LEVEL_ACCEPTED, 0);
	send_key(a, b, "k0", 2, MSG_LEVEL_HANDLED, 0);
	for (unsigned i = 1; i <= 1000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		send_key(a, b, key, 2 + i, MSG_LEVEL_HANDLED, 0);
	}
	fixture_run(f);
	assert_string_equal(fake_trace(a), "settled1=ok settled2=limit");
	assert_int_equal(aside_get(b->session)->keys.n, 100);
	fixture_free(f); /* all that wait are told */
}

static void
test_who_waits_for_a_repeated_post_is_told_of_the_end(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = fake_hold;
	send_key(a, b, "k", 1, MSG_LEVEL_HANDLED, 0);
	send_key(a, b, "k", 2, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	session_stop(b->session);
	fixture_run(f);
	assert_int_equal(a->n_settled, 2);
}

/* ---- priority -------------------------------------------------------- */

static void
test_urgent_events_are_handled_first(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	fixture_post(a, b, "one");
	fixture_post_ack(a, b, "now", 1, MSG_LEVEL_HANDLED, MSG_URGENT);
	fixture_post(a, b, "two");
	fixture_post_ack(a, b, "then", 2, MSG_LEVEL_HANDLED, MSG_URGENT);
	assert_string_equal(after(f, b), "now then one two");
}

/* ---- stash ----------------------------------------------------------- */

static enum session_result
stash_others(struct fake *fake, struct msg *m)
{
	if (strcmp(m->event, "open") == 0) {
		fake->number = 1;
		session_unstash(fake->session);
		return SESSION_DONE;
	}
	if (fake->number)
		return SESSION_DONE;
	assert_int_equal(session_may_stash(fake->session, m), 0);
	return SESSION_STASHED;
}

static void
test_the_stash_comes_back_in_order(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = stash_others;
	fixture_post_ack(a, b, "one", 1, MSG_LEVEL_HANDLED, 0);
	fixture_post(a, b, "two");
	fixture_run(f);
	assert_int_equal(b->session->box.n, 2);
	assert_string_equal(fake_trace(b), "one two");
	fixture_post(a, b, "open");
	fixture_post(a, b, "three");
	assert_string_equal(after(f, b), "open one two three");
	assert_string_equal(fake_trace(a), "settled1=ok");
}

static void
test_the_stash_counts_against_the_bounds(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	mailbox_limit(&b->session->box, 2, 1000);
	b->on_run = stash_others;
	fixture_post(a, b, "one");
	fixture_post(a, b, "two");
	fixture_run(f);
	fixture_post_ack(a, b, "three", 3, MSG_LEVEL_ACCEPTED, 0);
	assert_string_equal(after(f, a), "settled3=full");
}

static enum session_result
stash_or_crash(struct fake *fake, struct msg *m)
{
	if (strcmp(m->event, "crash") == 0)
		return fake_crash(fake, m);
	return fake->n_started > 1 ? SESSION_DONE : stash_others(fake, m);
}

static void
test_the_stash_outlives_a_failure(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL);
	struct session_spec *spec = fixture_spec("b", RESTART_ON_FAILURE);
	struct fake *b = fake_hosted(f, f->n_scheds - 1, spec);

	b->on_run = stash_or_crash;
	fixture_run(f);
	fixture_post(a, b, "one");
	fixture_post(a, b, "two");
	fixture_post(a, b, "crash");
	fixture_post(a, b, "three");
	fixture_run(f);
	fixture_advance(f, 10000);
	assert_string_equal(
		fake_trace(b), "start one two crash crash start one two three");
}

static void
test_the_stash_of_one_that_stops_is_dead(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);

	b->on_run = stash_others;
	fixture_post_ack(a, b, "one", 1, MSG_LEVEL_HANDLED, 0);
	fixture_run(f);
	session_stop(b->session);
	assert_string_equal(after(f, a), "settled1=died");
	assert_int_equal(TOTAL(f, dead), 1);
}

static void
test_an_event_can_be_stashed_after_a_wait(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = receiver(f, NULL);
	struct msg *m;

	b->on_run = fake_wait;
	fixture_post(a, b, "one");
	fixture_post(a, b, "two");
	fixture_run(f);
	m = b->held[--b->n_held];
	assert_int_equal(session_may_stash(b->session, m), 0);
	session_stash(b->session, m);
	b->on_run = NULL;
	assert_string_equal(after(f, b), "one two");
	assert_int_equal(session_unstash(b->session), 1);
	assert_string_equal(after(f, b), "one");
}

#define BOTH(name)                                      \
	cmocka_unit_test_setup_teardown(                \
		name, fixture_setup, fixture_teardown), \
		cmocka_unit_test_setup_teardown(        \
			name, fixture_setup_two, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_a_nested_call_has_what_is_left_of_the_deadline),
		BOTH(test_without_time_left_nothing_is_asked),
		BOTH(test_a_longer_deadline_above_does_not_lengthen_one),
		BOTH(test_a_cancelled_call_is_not_handled),
		BOTH(test_after_a_cancel_no_reply_comes),
		BOTH(test_who_handles_a_cancelled_call_is_told),
		BOTH(test_cancelling_too_late_leaves_nothing_behind),
		BOTH(test_a_parked_call_can_be_cancelled),
		BOTH(test_the_reply_to_a_forwarded_call_finds_its_caller),
		BOTH(test_a_forwarded_call_is_cancelled_where_it_is),
		BOTH(test_a_cancel_overtaking_a_forward_catches_up),
		BOTH(test_a_call_forwarded_to_nobody_stays),
		BOTH(test_what_has_expired_is_not_handled),
		BOTH(test_the_caller_of_an_expired_call_is_told),
		BOTH(test_the_expired_make_room),
		BOTH(test_what_expires_while_parked_was_never_accepted),
		BOTH(test_a_repeated_post_is_acked_and_handled_once),
		BOTH(test_a_repeated_post_waits_for_the_first_one),
		BOTH(test_a_post_that_failed_may_be_repeated),
		BOTH(test_a_numbered_post_is_accepted_once_however_it_ended),
		BOTH(test_a_refused_post_may_be_repeated),
		BOTH(test_repeated_posts_that_wait_for_room_come_in_once),
		BOTH(test_keys_are_forgotten_after_the_window),
		cmocka_unit_test(test_keys_are_bounded),
		BOTH(test_who_waits_for_a_repeated_post_is_told_of_the_end),
		BOTH(test_urgent_events_are_handled_first),
		BOTH(test_the_stash_comes_back_in_order),
		BOTH(test_the_stash_counts_against_the_bounds),
		BOTH(test_the_stash_outlives_a_failure),
		BOTH(test_the_stash_of_one_that_stops_is_dead),
		BOTH(test_an_event_can_be_stashed_after_a_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
