/* daemon/kernel/calls.c and what session.c and sched.c make of it: every call
 * is answered once, by a reply, an error or its deadline; never by the reply
 * to another. */
#include "kernel/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"

/* ---- the table ------------------------------------------------------- */

static void
test_ids_find_their_call_and_no_later_one(void **state)
{
	struct calls c;
	struct call *first, *again;
	uint32_t chain = 0;
	uint64_t id;

	(void)state;
	calls_init(&c, 5);
	first = calls_add(&c, &chain);
	assert_non_null(first);
	id = first->id;
	assert_int_equal(call_sched(id), 5);
	assert_ptr_equal(calls_find(&c, id), first);
	calls_remove(&c, first, &chain);
	assert_null(calls_find(&c, id));
	again = calls_add(&c, &chain);
	assert_ptr_equal(again, first); /* the slot is used again */
	assert_int_not_equal(again->id, id);
	assert_null(calls_find(&c, id));
	assert_null(calls_find(&c, 0));
	assert_null(calls_find(&c, UINT64_MAX));
	calls_deinit(&c);
}

static void
test_calls_do_not_move_when_the_table_grows(void **state)
{
	enum { N = 5 * CALLS_BLOCK };
	static struct call *all[N];
	static uint64_t ids[N];
	uint32_t chain = 0;
	struct calls c;

	(void)state;
	calls_init(&c, 0);
	for (unsigned i = 0; i < N; i++) {
		all[i] = calls_add(&c, &chain);
		assert_non_null(all[i]);
		ids[i] = all[i]->id;
	}
	for (unsigned i = 0; i < N; i++)
		assert_ptr_equal(calls_find(&c, ids[i]), all[i]);
	assert_int_equal(c.n, N);
	for (unsigned i = 0; i < N; i++)
		calls_remove(&c, all[i], &chain);
	assert_int_equal(c.n, 0);
	calls_deinit(&c);
}

static void
test_a_chain_has_the_calls_of_one_caller(void **state)
{
	struct call *mine[3], *other;
	uint32_t chain = 0, others = 0;
	struct calls c;

	(void)state;
	calls_init(&c, 0);
	assert_null(calls_first(&c, chain));
	for (unsigned i = 0; i < 3; i++) {
		mine[i] = calls_add(&c, &chain);
		other = calls_add(&c, &others);
	}
	assert_ptr_equal(calls_first(&c, chain), mine[2]);
	calls_remove(&c, mine[1], &chain); /* in the middle */
	calls_remove(&c, mine[2], &chain); /* the head */
	assert_ptr_equal(calls_first(&c, chain), mine[0]);
	calls_remove(&c, mine[0], &chain);
	assert_null(calls_first(&c, chain));
	assert_ptr_equal(calls_first(&c, others), other);
	assert_int_equal(c.n, 3);
	calls_deinit(&c);
}

/* ---- answers --------------------------------------------------------- */

static enum session_result
echo(struct fake *fake, struct msg *m)
{
	assert_int_equal(
		sched_reply(fake->sched, msg_call(m), 0, "hello", 5), 0);
	m->flags |= MSG_REPLIED;
	return SESSION_DONE;
}

static enum session_result
answer_error(struct fake *fake, struct msg *m)
{
	assert_int_equal(sched_reply(fake->sched, msg_call(m),
				 EVD_STATUS_HANDLER, "no such disk", 12),
		0);
	m->flags |= MSG_REPLIED;
	return SESSION_DONE;
}

static void
answers(struct fixture *f, unsigned home)
{
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, home, NULL);

	b->on_run = echo;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	assert_int_equal(a->session->n_calls, 1);
	fixture_run(f);
	b->on_run = answer_error;
	assert_int_equal(fixture_call(a, b, "x", 2, 0), 0);
	fixture_run(f);
	b->on_run = NULL; /* returns without an answer */
	assert_int_equal(fixture_call(a, b, "x", 3, 0), 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a),
		"reply1=ok:hello reply2=handler-error:no such disk reply3=ok:");
	assert_int_equal(a->session->n_calls, 0);
	assert_int_equal(a->sched->calls.n, 0);
	assert_int_equal(a->sched->timers.n, 0);
	assert_int_equal(f->kernel.late_replies, 0);
}

static void
test_a_call_is_answered(void **state)
{
	answers(*state, 0);
}

static void
test_a_call_to_another_scheduler_is_answered(void **state)
{
	answers(*state, 1);
}

static void
test_a_reply_later_than_the_handler_is_taken(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "");
	echo(b, b->held[0]);
	fake_done(b, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "reply1=ok:hello");
	assert_int_equal(f->kernel.late_replies, 0);
}

static void
test_the_first_of_two_answers_counts(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	echo(b, b->held[0]);
	answer_error(b, b->held[0]);
	fake_done(b, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "reply1=ok:hello");
	assert_int_equal(f->kernel.late_replies, 1);
}

static void
test_inline_replies_come_at_once(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new_ops(f, 0, NULL, &fake_inline_ops);
	struct fake *b = fake_new(f, 0, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	echo(b, b->held[0]);
	assert_string_equal(fake_trace(a), "reply1=ok:hello");
	fake_done(b, 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 1);
}

static void
test_replies_to_nonsense_are_harmless(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];

	assert_int_equal(sched_reply(s, 0, 0, NULL, 0), 0);
	assert_int_equal(sched_reply(s, UINT64_MAX, 0, NULL, 0), -EINVAL);
	assert_int_equal(sched_reply(s, 1ull << 40, 0, NULL, 0), 0);
	assert_int_equal(f->kernel.late_replies, 2);
	assert_int_equal(sched_reply(s, 1, 0, NULL, 0), 0); /* elsewhere */
	fixture_run(f);
	assert_int_equal(f->kernel.late_replies, 3);
}

/* ---- deadlines ------------------------------------------------------- */

static void
test_no_reply_in_time_is_a_timeout(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 100), 0);
	fixture_run(f);
	fixture_advance(f, 99);
	assert_string_equal(fake_trace(a), "");
	fixture_advance(f, 2);
	assert_string_equal(
		fake_trace(a), "reply1=timeout:no reply before the deadline");
	fake_done(b, 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 1);
	assert_int_equal(f->kernel.late_replies, 1);
}

static void
test_calls_have_a_deadline_by_default(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	fixture_advance(f, 29999);
	assert_int_equal(a->n_replies, 0);
	fixture_advance(f, 2);
	assert_int_equal(a->n_replies, 1);
	fake_done(b, 0);
	fixture_run(f);
}

static void
test_the_longest_deadline_is_no_short_one(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, UINT32_MAX), 0);
	assert_int_equal(session_sleep(a->session, 2, UINT64_MAX, NULL), 0);
	assert_int_equal(session_sleep(a->session, 3, 1ull << 45, NULL), 0);
	fixture_run(f);
	fixture_advance(f, 1000000000);
	assert_int_equal(a->n_replies, 0);
	fake_done(b, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "reply1=ok:");
}

static void
call_again(struct fake *fake, uint64_t token, struct msg *reply)
{
	(void)reply;
	if (token == 1)
		assert_int_equal(fixture_call(fake, fake->other, "y", 2, 0), 0);
}

static void
test_a_late_reply_is_not_given_to_the_next_call(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);
	uint64_t first;

	b->on_run = fake_lease;
	a->other = b;
	a->on_reply = call_again;
	assert_int_equal(fixture_call(a, b, "x", 1, 100), 0);
	first = a->call;
	fixture_run(f);
	fixture_advance(f, 101); /* times out, and calls again: same slot */
	assert_int_not_equal(a->call, first);
	assert_ptr_equal(calls_find(&a->sched->calls, first), NULL);
	fake_trace(a);
	echo(b, b->held[0]); /* to x */
	fixture_run(f);
	assert_string_equal(fake_trace(a), "");
	assert_int_equal(f->kernel.late_replies, 1);
	answer_error(b, b->held[1]);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "reply2=handler-error:no such disk");
	fake_done(b, 0);
	fake_done(b, 0);
	fixture_run(f);
}

/* ---- callers and callees that go ------------------------------------- */

static void
test_a_callee_that_dies_answers_so(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 1, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	assert_int_equal(fixture_call(a, b, "y", 2, 0), 0);
	fixture_run(f);
	session_stop(b->session);
	b->n_held = 0;
	assert_int_equal(fixture_call(a, b, "z", 3, 0), SCHED_E_NO_SESSION);
	fixture_run(f);
	assert_string_equal(fake_trace(a),
		"reply1=died:the session died before it handled the event "
		"reply2=died:the session died before it handled the event");
	assert_int_equal(a->session->n_calls, 0);
}

static void
test_a_callee_that_died_on_the_way_answers_so(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 1, NULL);

	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	session_stop(b->session); /* the call is in a's outbox */
	fixture_run(f);
	assert_string_equal(
		fake_trace(a), "reply1=no-alias:no session holds the alias");
}

static void
test_a_reply_to_a_former_life_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_hosted(f, 0, fixture_spec("a", RESTART_ALWAYS));
	struct fake *b = fake_new(f, 0, NULL);

	fixture_run(f);
	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	assert_int_equal(session_sleep(a->session, 2, 1u << 30, NULL), 0);
	session_restart(a->session, a->session->spec);
	assert_int_equal(a->sched->calls.n, 0); /* nor do they wait for it */
	assert_int_equal(a->sched->timers.n, 0);
	fixture_run(f);
	assert_int_equal(a->session->n_calls, 0);
	echo(b, b->held[0]);
	fake_done(b, 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "start stop start");
	assert_int_equal(f->kernel.late_replies, 1);
	assert_int_equal(a->session->n_calls, 0);
	assert_int_equal(a->sched->calls.n, 0);
}

static void
test_a_reply_to_a_dead_caller_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 1, NULL);

	b->on_run = fake_wait;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	session_stop(a->session);
	assert_int_equal(a->sched->calls.n, 0);
	assert_int_equal(a->sched->timers.n, 0);
	fake_new(f, 0, NULL); /* in the same slot */
	fake_done(b, 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 0);
	assert_int_equal(f->kernel.late_replies, 1);
}

static void
test_a_forgotten_call_is_not_answered(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	session_forget(b->session, a->call); /* not its own */
	assert_int_equal(a->session->n_calls, 1);
	session_forget(a->session, a->call);
	session_forget(a->session, a->call);
	assert_int_equal(a->session->n_calls, 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 0);
	assert_int_equal(b->n_run, 1);
}

/* ---- limits ---------------------------------------------------------- */

static void
test_outstanding_calls_have_a_limit(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);
	char text[128];

	f->kernel.limits.max_calls = 2;
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	assert_int_equal(session_sleep(a->session, 2, 50, NULL), 0);
	assert_int_equal(fixture_call(a, b, "x", 3, 0), SCHED_E_LIMIT);
	assert_int_equal(session_sleep(a->session, 4, 50, NULL), SCHED_E_LIMIT);
	sched_explain(a->sched, SCHED_E_LIMIT, b->id, text, sizeof(text));
	assert_string_equal(
		text, "2 calls are outstanding (MaxCalls= in eventd.conf)");
	assert_int_equal(sched_status(SCHED_E_LIMIT), EVD_STATUS_LIMIT);
	fixture_run(f);
	assert_int_equal(fixture_call(a, b, "x", 5, 0), 0);
	fixture_run(f);
	assert_int_equal(a->n_replies, 2);
}

static void
test_a_refused_call_is_not_outstanding(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

	session_stop(b->session);
	assert_int_equal(fixture_call(a, b, "x", 1, 0), SCHED_E_NO_SESSION);
	assert_int_equal(a->session->n_calls, 0);
	assert_int_equal(a->sched->calls.n, 0);
	assert_int_equal(a->sched->timers.n, 0);
}

static void
test_a_call_without_memory_is_refused(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	fault_arm("calls_grow", 1);
	assert_int_equal(fixture_call(a, b, "x", 1, 0), -ENOMEM);
	fault_arm("calls_grow", 0);
	assert_int_equal(a->session->n_calls, 0);
	assert_int_equal(fixture_call(a, b, "x", 1, 0), 0);
	fixture_run(f);
	assert_string_equal(fake_trace(a), "reply1=ok:");
}

static void
test_a_reply_without_memory_becomes_a_timeout(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL), *b = fake_new(f, 0, NULL);

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	assert_int_equal(fixture_call(a, b, "x", 1, 100), 0);
	fault_arm("msg_new", 1);
	fixture_run(f);
	fault_arm("msg_new", 0);
	assert_int_equal(a->n_replies, 0);
	fixture_advance(f, 101);
	assert_int_equal(a->n_replies, 1);
}

/* ---- sleeps ---------------------------------------------------------- */

static void
test_sleeps_end_in_order_of_their_ends(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, NULL);

	assert_int_equal(session_sleep(a->session, 30, 30, NULL), 0);
	assert_int_equal(session_sleep(a->session, 10, 10, &a->call), 0);
	assert_int_equal(session_sleep(a->session, 20, 20, NULL), 0);
	session_forget(a->session, a->call);
	fixture_advance(f, 19);
	assert_int_equal(a->n_replies, 0);
	fixture_advance(f, 2);
	assert_int_equal(a->n_replies, 1);
	fixture_advance(f, 10);
	assert_string_equal(fake_trace(a),
		"reply20=timeout:no reply before the deadline "
		"reply30=timeout:no reply before the deadline");
}

int
main(void)
{
#define ONE(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
#define TWO(test)                        \
	cmocka_unit_test_setup_teardown( \
		test, fixture_setup_two, fixture_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_find_their_call_and_no_later_one),
		cmocka_unit_test(test_calls_do_not_move_when_the_table_grows),
		cmocka_unit_test(test_a_chain_has_the_calls_of_one_caller),
		ONE(test_a_call_is_answered),
		TWO(test_a_call_to_another_scheduler_is_answered),
		ONE(test_a_reply_later_than_the_handler_is_taken),
		ONE(test_the_first_of_two_answers_counts),
		ONE(test_inline_replies_come_at_once),
		TWO(test_replies_to_nonsense_are_harmless),
		ONE(test_no_reply_in_time_is_a_timeout),
		ONE(test_calls_have_a_deadline_by_default),
		ONE(test_the_longest_deadline_is_no_short_one),
		ONE(test_a_late_reply_is_not_given_to_the_next_call),
		TWO(test_a_callee_that_dies_answers_so),
		TWO(test_a_callee_that_died_on_the_way_answers_so),
		ONE(test_a_reply_to_a_former_life_is_dropped),
		TWO(test_a_reply_to_a_dead_caller_is_dropped),
		ONE(test_a_forgotten_call_is_not_answered),
		ONE(test_outstanding_calls_have_a_limit),
		ONE(test_a_refused_call_is_not_outstanding),
		ONE(test_a_call_without_memory_is_refused),
		ONE(test_a_reply_without_memory_becomes_a_timeout),
		ONE(test_sleeps_end_in_order_of_their_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
