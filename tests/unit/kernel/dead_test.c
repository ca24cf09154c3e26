/* daemon/kernel/dead.c: what leaves a letter, with which reason; bounds. */
#include "kernel/dead.h"

#include <string.h>

#include "fixture.h"

static const struct dead *
only_letter(struct sched *s)
{
	assert_int_equal(s->dead.n, 1);
	return dead_next(s, 0, DEAD_NONE);
}

static void
letter_is(const struct dead *d, enum dead_reason reason, int status,
	const char *alias, const char *event)
{
	assert_non_null(d);
	assert_string_equal(dead_word(d->reason), dead_word(reason));
	assert_string_equal(fixture_word(d->status), fixture_word(status));
	assert_string_equal(d->alias, alias);
	assert_string_equal(d->msg->event, event);
	assert_true(d->msg->id > 0);
}

static struct session_spec *
small_spec(const char *name, enum overflow overflow)
{
	struct session_spec *spec = fixture_spec(name, RESTART_NO);

	spec->max_events = 2;
	spec->overflow = overflow;
	return spec;
}

static enum session_result
unhandled(struct fake *fake, struct msg *m)
{
	(void)fake, (void)m;
	return SESSION_UNHANDLED;
}

/* B16: overflow, no such alias, died with mail, expired, each its own. */
static void
test_each_bad_end_has_its_reason(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	struct fake *poster = fake_new(f, 0, "poster");
	struct fake *box =
		fake_hosted(f, 0, small_spec("box", OVERFLOW_DROP_NEWEST));
	struct msg *m;

	clock_fake_advance(&f->clock, 5000ull * NS_PER_MS);
	for (unsigned i = 0; i < 3; i++)
		fixture_post(poster, box, "flood");
	letter_is(only_letter(s), DEAD_OVERFLOW, EVD_STATUS_DROPPED, "box",
		"flood");
	assert_int_equal(only_letter(s)->msg->from, poster->id);
	assert_int_equal(only_letter(s)->session, box->id);
	assert_int_equal(only_letter(s)->time_ns, f->clock.wall_ns);
	dead_drop(s, dead_next(s, 0, DEAD_NONE));

	session_stop(box->session);
	assert_int_equal(s->dead.n, 2);
	letter_is(dead_next(s, 0, DEAD_DIED), DEAD_DIED, EVD_STATUS_DIED, "box",
		"flood");
	while (s->dead.n)
		dead_drop(s, dead_next(s, 0, DEAD_NONE));

	m = fixture_msg(s, poster, "lost");
	dead_no_alias(s, m, "nobody");
	letter_is(only_letter(s), DEAD_NO_ALIAS, EVD_STATUS_NO_ALIAS, "nobody",
		"lost");
	dead_drop(s, dead_next(s, 0, DEAD_NONE));

	m = fixture_msg(s, poster, "late");
	m->id = 7;
	s->counters.accepted++;
	msg_end(s, NULL, m, MSG_END_EXPIRED, EVD_STATUS_EXPIRED, NULL);
	letter_is(only_letter(s), DEAD_EXPIRED, EVD_STATUS_EXPIRED, "", "late");
	dead_drop(s, dead_next(s, 0, DEAD_NONE));

	poster->on_run = unhandled;
	fixture_post(NULL, poster, "what");
	fixture_run(f);
	letter_is(only_letter(s), DEAD_UNHANDLED, EVD_STATUS_HANDLER, "poster",
		"what");
}

static void
test_a_refused_post_leaves_one_if_it_is_not_handed_back(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	struct fake *poster = fake_new(f, 0, "poster");
	struct fake *box =
		fake_hosted(f, 0, small_spec("box", OVERFLOW_REFUSE));
	struct msg *m;

	fixture_post(NULL, box, "a");
	fixture_post(NULL, box, "b");
	m = fixture_msg(s, box, "mine");
	assert_int_equal(sched_post(s, m), SCHED_E_FULL);
	msg_free(&s->pool, m);
	assert_int_equal(s->dead.n, 0);
	fixture_post_ack(poster, box, "c", 1, MSG_LEVEL_ACCEPTED, 0);
	letter_is(only_letter(s), DEAD_OVERFLOW, EVD_STATUS_FULL, "box", "c");
	assert_non_null(strstr(dead_text(only_letter(s)), "MaxEvents="));
}

static void
test_what_was_cancelled_leaves_none(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	struct msg *m = fixture_msg(s, fake_new(f, 0, "s"), "e");

	s->counters.accepted++;
	msg_end(s, NULL, m, MSG_END_CANCELLED, EVD_STATUS_CANCELLED, NULL);
	assert_int_equal(s->dead.n, 0);
}

static void
lose(struct sched *s, const char *event, const char *alias, uint32_t size)
{
	struct msg *m =
		msg_new(&s->pool, &(struct msg_init){.event = event,
					  .event_size = (uint8_t)strlen(event),
					  .size = size});

	assert_non_null(m);
	memset(m->data, 'x', size);
	dead_no_alias(s, m, alias);
}

/* One reason's flood forgets its own oldest. */
static void
test_the_ring_is_bounded_and_a_flood_spares_others(void **state)
{
	struct kernel_limits limits = kernel_limits_default;
	struct fixture *f;
	struct sched *s;

	(void)state;
	limits.dead_letters = 10;
	f = fixture_new(1, &limits);
	s = &f->scheds[0];
	fake_new(f, 0, "s")->on_run = unhandled;
	fixture_post(NULL, f->fakes[0], "what");
	fixture_run(f);
	for (unsigned i = 0; i < 100; i++)
		lose(s, "lost", "nobody", 0);
	assert_int_equal(s->dead.n, 10);
	assert_int_equal(s->dead.total, 101);
	assert_int_equal(s->dead.forgotten, 91);
	assert_non_null(dead_next(s, 0, DEAD_UNHANDLED));
	fixture_free(f);
}

static void
test_the_ring_is_bounded_in_bytes(void **state)
{
	struct kernel_limits limits = kernel_limits_default;
	struct fixture *f;
	struct sched *s;

	(void)state;
	limits.dead_bytes = 10000;
	f = fixture_new(1, &limits);
	s = &f->scheds[0];
	for (unsigned i = 0; i < 100; i++)
		lose(s, "lost", "nobody", 1000);
	assert_in_range(s->dead.n, 7, 9);
	assert_true(s->dead.size <= 10000);
	lose(s, "lost", "nobody", 20000); /* more than all */
	assert_true(s->dead.size <= 10000);
	while (s->dead.n)
		dead_drop(s, dead_next(s, 0, DEAD_NONE));
	assert_int_equal(s->dead.size, 0);
	fixture_free(f);
}

static void
test_no_letters_are_kept_when_switched_off(void **state)
{
	struct kernel_limits limits = kernel_limits_default;
	struct fixture *f;

	(void)state;
	limits.dead_letters = 0;
	f = fixture_new(1, &limits);
	lose(&f->scheds[0], "lost", "nobody", 10);
	assert_int_equal(f->scheds[0].dead.total, 0);
	fixture_free(f);
}

static void
test_letters_come_in_order_of_their_ids(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	struct fake *t = fake_new(f, 0, "t");
	const struct dead *d = NULL;
	unsigned n = 0;

	t->on_run = unhandled;
	for (unsigned i = 0; i < 5; i++) {
		lose(s, "lost", "nobody", 0);
		fixture_post(NULL, t, "what");
		fixture_run(f);
	}
	while ((d = dead_next(s, d ? d->id : 0, DEAD_NONE))) {
		assert_string_equal(d->msg->event, n % 2 ? "what" : "lost");
		assert_ptr_equal(dead_find(s, d->id), d);
		n++;
	}
	assert_int_equal(n, 10);
	assert_null(dead_find(s, 0));
	assert_null(dead_find(s, 12345678));
}

static void
test_a_requeued_letter_is_a_post_of_the_same_event(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	struct fake *t = fake_new(f, 0, "t");
	struct dead *d;
	uint64_t id;

	lose(s, "one", "nobody", 5);
	lose(s, "two", "nobody", 5);
	d = dead_next(s, 0, DEAD_NONE);
	id = d->msg->id;
	mailbox_limit(&t->session->box, 1, 1000);
	assert_int_equal(dead_requeue(s, d, t->id), 0);
	assert_int_equal(t->session->box.admitted.head->id, id);
	d = dead_next(s, 0, DEAD_NONE);
	assert_int_equal(dead_requeue(s, d, t->id), SCHED_E_FULL);
	letter_is(only_letter(s), DEAD_NO_ALIAS, EVD_STATUS_NO_ALIAS, "nobody",
		"two");
	fixture_run(f);
	assert_string_equal(fake_trace(t), "one");
	assert_int_equal(session_counters(t->session).accepted, 1);
	assert_int_equal(dead_requeue(s, dead_next(s, 0, 0), t->id), 0);
	fixture_run(f);
	assert_int_equal(s->dead.n, 0);
	assert_int_equal(s->dead.size, 0);
}

static void
test_a_letter_goes_back_to_its_place(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	uint64_t last = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < 5; i++)
		lose(s, "lost", "nobody", 0);
	for (unsigned i = 0; i < 5; i++) {
		struct dead *d = dead_next(s, last, DEAD_NONE);

		last = d->id;
		assert_int_equal(dead_requeue(s, d, 999), SCHED_E_NO_SESSION);
	}
	last = 0;
	for (struct dead *d; (d = dead_next(s, last, DEAD_NO_ALIAS)); n++) {
		assert_true(d->id > last);
		last = d->id;
	}
	assert_int_equal(n, 5);
	lose(s, "lost", "nobody", 0); /* the end of the chain is right */
	assert_int_equal(dead_next(s, last, DEAD_NONE)->id > last, 1);
}

static enum session_result
note_headers(struct fake *fake, struct msg *m)
{
	assert_string_equal(m->event, "dead");
	assert_memory_equal(m->data, "", 0);
	assert_non_null(
		memmem(msg_headers(m), m->headers_size, "dead-event", 10));
	assert_non_null(
		memmem(msg_headers(m), m->headers_size, "unhandled", 9));
	fake->number++;
	return SESSION_DONE;
}

static void
test_a_session_names_who_gets_its_dead_letters(void **state)
{
	struct fixture *f = *state;
	struct fake *grave = fake_new(f, 1, "grave");
	struct session_spec *spec = fixture_spec("s", RESTART_NO);
	struct fake *s;

	spec->dead_letter = strdup("grave");
	s = fake_hosted(f, 0, spec);
	s->on_run = unhandled;
	grave->on_run = note_headers;
	fixture_run(f);
	fixture_post(NULL, s, "what");
	fixture_run(f);
	assert_int_equal(grave->number, 1);
	assert_int_equal(f->scheds[0].dead.n, 1);
}

/* A copy that dies makes no copy. */
static void
test_a_session_that_is_its_own_grave_does_not_spin(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("s", RESTART_NO);
	struct fake *s;

	spec->dead_letter = strdup("s");
	s = fake_hosted(f, 0, spec);
	s->on_run = unhandled;
	fixture_run(f);
	fixture_post(NULL, s, "what");
	fixture_run(f);
	assert_string_equal(fake_trace(s), "start what dead");
	assert_int_equal(f->scheds[0].dead.n, 2);
}

static void
test_words_and_reasons_go_both_ways(void **state)
{
	(void)state;
	for (enum dead_reason r = DEAD_NONE + 1; r < DEAD_REASONS; r++)
		assert_int_equal(dead_reason_of(dead_word(r)), r);
	assert_int_equal(dead_reason_of("nonsense"), DEAD_NONE);
}

int
main(void)
{
#define ONE(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		ONE(test_each_bad_end_has_its_reason),
		ONE(test_a_refused_post_leaves_one_if_it_is_not_handed_back),
		ONE(test_what_was_cancelled_leaves_none),
		cmocka_unit_test(
			test_the_ring_is_bounded_and_a_flood_spares_others),
		cmocka_unit_test(test_the_ring_is_bounded_in_bytes),
		cmocka_unit_test(test_no_letters_are_kept_when_switched_off),
		ONE(test_letters_come_in_order_of_their_ids),
		ONE(test_a_requeued_letter_is_a_post_of_the_same_event),
		ONE(test_a_letter_goes_back_to_its_place),
		cmocka_unit_test_setup_teardown(
			test_a_session_names_who_gets_its_dead_letters,
			fixture_setup_two, fixture_teardown),
		ONE(test_a_session_that_is_its_own_grave_does_not_spin),
		cmocka_unit_test(test_words_and_reasons_go_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
