/* daemon/kernel/crowd.c and msg_lend(): sessions that join an alias, near and
 * far, leave and die in every order, and what was lent to them goes back. The
 * other side is a fake that writes down what it is asked. */
#include "kernel/crowd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "fixture.h"
#include "kernel/notice.h"
#include "kernel/ties.h"
#include "kernel/users.h"

enum { SLOT = 4711 };

/* The other side. */
static struct {
	unsigned n_joined, n_left;
	int status;       /* of the next joins */
	unsigned n_taken; /* so many of them find it taken meanwhile */
	struct sched *at;
	uint64_t holder; /* session; 0: it seemed free */
	struct crowd_member who;
	uint64_t left, left_token, left_slot; /* of the last that left */
} other;

static int
other_join(struct sched *s, struct session *holder,
	const struct crowd_member *who, uint64_t *slot, char *text, size_t size)
{
	other.n_joined++;
	other.at = s;
	other.holder = holder ? session_id(holder) : 0;
	other.who = *who;
	if (other.n_taken) {
		other.n_taken--;
		return EVD_STATUS_TAKEN;
	}
	snprintf(text, size, "%s", other.status ? "not now" : "");
	if (!other.status)
		*slot = holder ? session_id(holder) : SLOT;
	return other.status;
}

static void
other_leave(struct sched *s, struct msg *note)
{
	other.n_left++;
	other.left = note->from;
	other.left_token = msg_seq(note);
	other.left_slot = note->to;
	msg_free(&s->pool, note);
}

static const struct crowd_ops other_ops = {
	.join = other_join,
	.leave = other_leave,
};

/* What `_alias` said last, and how often it came. */
static struct {
	unsigned n;
	bool up;
	char alias[32], reason[32], text[64];
} told;

static enum session_result
note_alias(struct fake *fake, struct msg *m)
{
	struct notice n;

	(void)fake;
	if (!notice_is(m))
		return SESSION_DONE;
	notice_read(m, &n);
	told.n++;
	told.up = n.up;
	snprintf(told.alias, sizeof(told.alias), "%s", n.alias);
	snprintf(told.reason, sizeof(told.reason), "%s", n.reason);
	snprintf(told.text, sizeof(told.text), "%s", n.text);
	return SESSION_DONE;
}

static int
setup(void **state)
{
	int r = fixture_setup_two(state);
	struct fixture *f = *state;

	memset(&other, 0, sizeof(other));
	memset(&told, 0, sizeof(told));
	f->kernel.crowds = &other_ops;
	return r;
}

static struct fake *
member(struct fixture *f, unsigned i)
{
	struct fake *m = fake_hosted(f, i, fixture_spec("member", RESTART_NO));

	m->on_run = note_alias;
	fixture_run(f);
	return m;
}

static int
join_mode(struct fake *m, const char *alias, uint32_t mode, uint32_t window)
{
	char text[256];

	return crowd_join(m->session,
		&(struct crowd_wish){alias, strlen(alias), mode, window}, text,
		sizeof(text));
}

static int
join(struct fake *m, const char *alias)
{
	return join_mode(m, alias, BIND_SHARED, 0);
}

static void
expect_left(const struct fake *m, uint64_t slot)
{
	assert_int_equal(other.n_left, 1);
	assert_int_equal(other.left, m->id);
	assert_int_equal(other.left_token, other.who.token);
	assert_int_equal(other.left_slot, slot);
}

/* ---- joining ------------------------------------------------------------- */

static void
test_it_joins_and_leaves_at_once_where_it_lives(void **state)
{
	struct fake *m = member(*state, 0);

	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK);
	assert_int_equal(other.holder, 0);
	assert_int_equal(other.who.session, m->id);
	assert_int_equal(other.who.window, CROWD_WINDOW);
	assert_int_equal(other.who.mode, BIND_SHARED);
	assert_true(other.who.blocks);
	assert_string_equal(other.who.alias, "jobs");
	assert_string_equal(other.who.name, "member");
	assert_int_equal(m->session->ties->n_crowds, 1);
	assert_true(crowds_memory(m->session) > 0);
	assert_true(crowd_leave(m->session, "jobs", 4));
	expect_left(m, SLOT);
	assert_false(crowd_leave(m->session, "jobs", 4));
	assert_int_equal(m->session->ties->n_crowds, 0);
	assert_int_equal(m->session->ties->n, 0);
	assert_int_equal(crowds_memory(m->session), 0);
	fixture_run(*state);
	assert_int_equal(told.n, 0);
}

static void
test_once_more_changes_the_window_alone(void **state)
{
	struct fake *m = member(*state, 0);
	char text[64];
	uint64_t token;

	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK);
	token = other.who.token;
	assert_int_equal(join_mode(m, "jobs", BIND_SHARED, 3), EVD_STATUS_OK);
	assert_int_equal(other.who.token, token);
	assert_int_equal(other.who.window, 3);
	assert_int_equal(join_mode(m, "news", BIND_FANOUT, 0), EVD_STATUS_OK);
	assert_int_equal(m->session->ties->n_crowds, 2);
	crowds_text(m->session, text, sizeof(text));
	assert_string_equal(text, "jobs:shared:3 news:fanout");
	crowds_text(m->session, text, 46); /* what there is room for */
	assert_string_equal(text, "jobs:shared:3");
	session_stop(m->session);
	fixture_run(*state);
	assert_int_equal(other.n_left, 2);
}

/* Asked where the alias lives; told by `_alias`. */
static void
test_far_it_is_told_later(void **state)
{
	struct fixture *f = *state;
	struct fake *holder = fake_new(f, 1, "jobs"), *m = member(f, 0);

	assert_int_equal(join(m, "jobs"), CROWD_E_QUEUED);
	assert_int_equal(other.n_joined, 0);
	fixture_run(f);
	assert_int_equal(other.n_joined, 1);
	assert_ptr_equal(other.at, holder->sched);
	assert_int_equal(other.holder, holder->id);
	assert_int_equal(told.n, 1);
	assert_true(told.up);
	assert_string_equal(told.alias, "jobs");
	session_stop(m->session);
	fixture_run(f);
	expect_left(m, holder->id);
}

static void
test_far_refusals_are_told_and_leave_nothing(void **state)
{
	struct fixture *f = *state;
	struct fake *m;

	fake_new(f, 1, "jobs");
	m = member(f, 0);
	other.status = EVD_STATUS_LIMIT;
	assert_int_equal(join(m, "jobs"), CROWD_E_QUEUED);
	fixture_run(f);
	assert_int_equal(told.n, 1);
	assert_false(told.up);
	assert_string_equal(told.reason, fixture_word(EVD_STATUS_LIMIT));
	assert_string_equal(told.text, "not now");
	assert_false(crowd_leave(m->session, "jobs", 4));
	assert_int_equal(m->session->ties->n, 0);
	session_stop(m->session);
	fixture_run(f);
	assert_int_equal(other.n_left, 0);
}

/* It left, or died, while it was asked for: the other side hears of that. */
static void
test_who_left_meanwhile_is_taken_off_again(void **state)
{
	struct fixture *f = *state;

	fake_new(f, 1, "jobs");
	for (int dies = 0; dies < 2; dies++) {
		struct fake *m = member(f, 0);

		other.n_left = 0;
		assert_int_equal(join(m, "jobs"), CROWD_E_QUEUED);
		if (dies)
			session_stop(m->session);
		else
			assert_true(crowd_leave(m->session, "jobs", 4));
		assert_int_equal(other.n_left, 0);
		fixture_run(f);
		assert_int_equal(other.n_left, 1);
		assert_int_equal(other.left, m->id);
		assert_int_equal(told.n, 0);
		if (!dies) {
			session_stop(m->session);
			fixture_run(f);
		}
	}
	assert_int_equal(other.n_left, 1);
}

/* It asks again, but not for ever. */
static void
test_an_alias_that_is_taken_meanwhile_is_asked_for_again(void **state)
{
	struct fake *m = member(*state, 0);

	other.n_taken = 3;
	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK);
	assert_int_equal(other.n_joined, 4);
	other.n_taken = 1000;
	assert_int_equal(join(m, "more"), EVD_STATUS_TAKEN);
	assert_true(other.n_joined < 40);
	assert_int_equal(m->session->ties->n_crowds, 1);
	other.n_taken = 0;
}

static void
test_wrong_wishes_are_refused_before_anybody_is_asked(void **state)
{
	struct fixture *f = *state;
	struct fake *m = member(f, 0);

	assert_int_equal(join(m, "a b"), EVD_STATUS_INVALID);
	assert_int_equal(join(m, ""), EVD_STATUS_INVALID);
	assert_int_equal(
		join_mode(m, "jobs", BIND_SHARED, CROWD_WINDOW_MAX + 1),
		EVD_STATUS_INVALID);
	f->kernel.crowds = NULL;
	assert_int_equal(join(m, "jobs"), EVD_STATUS_UNSUPPORTED);
	f->kernel.crowds = &other_ops;
	f->kernel.limits.max_watches = 1;
	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK);
	assert_int_equal(join(m, "more"), EVD_STATUS_LIMIT);
	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK); /* it has that */
	assert_int_equal(other.n_joined, 2);
	session_stop(m->session);
	fixture_run(f);
	assert_int_equal(other.n_left, 1);
}

static void
test_without_memory_it_has_not_joined(void **state)
{
	struct fixture *f = *state;
	struct fake *m = member(f, 0);

	fault_arm("crowd_tie", 1);
	assert_int_equal(join(m, "jobs"), EVD_STATUS_NO_MEMORY);
	fault_arm("crowd_ask", 1);
	assert_int_equal(join(m, "jobs"), EVD_STATUS_NO_MEMORY);
	assert_int_equal(m->session->ties->n, 0);
	assert_int_equal(other.n_joined, 0);
	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK);
	fault_arm("crowd_ask", 1); /* what it has it keeps */
	assert_int_equal(join(m, "jobs"), EVD_STATUS_NO_MEMORY);
	assert_int_equal(m->session->ties->n_crowds, 1);
}

/* ---- of its file --------------------------------------------------------- */

static struct fake *
of_file(struct fixture *f, unsigned i, const char *alias)
{
	struct session_spec *spec = fixture_spec("member", RESTART_NO);
	struct fake *m;

	assert_int_equal(spec_add_bind(spec, "news", BIND_FANOUT, 0), 0);
	assert_int_equal(spec_add_bind(spec, alias, BIND_SHARED, 2), 0);
	m = fake_hosted(f, i, spec);
	m->on_run = note_alias;
	fixture_run(f);
	return m;
}

static void
test_what_its_file_binds_is_joined_at_each_start(void **state)
{
	struct fixture *f = *state;
	struct fake *m = of_file(f, 0, "jobs");
	char text[64];

	assert_int_equal(m->session->life, SESSION_UP);
	crowds_text(m->session, text, sizeof(text));
	assert_string_equal(text, "news:fanout jobs:shared:2");
	session_restart(m->session, NULL);
	fixture_run(f);
	assert_int_equal(other.n_joined, 4);
	assert_int_equal(other.n_left, 2);
	session_stop(m->session);
	fixture_run(f);
	assert_int_equal(other.n_left, 4);
}

static void
test_what_its_file_cannot_bind_is_its_failure(void **state)
{
	struct fixture *f = *state;
	struct fake *m;

	other.status = EVD_STATUS_TAKEN;
	fake_new(f, 0, "news");
	m = of_file(f, 0, "jobs");
	assert_int_equal(m->session->life, SESSION_FAILED);
	assert_string_equal(
		m->session->health->reason, "Bind=news in its file: not now");
	assert_int_equal(other.n_joined, 1);
	assert_int_equal(other.n_left, 0);
}

static void
test_the_same_of_an_alias_that_lives_elsewhere(void **state)
{
	struct fixture *f = *state;
	struct fake *m;

	other.status = EVD_STATUS_TAKEN;
	fake_new(f, 1, "news");
	fake_new(f, 1, "jobs");
	m = of_file(f, 0, "jobs");
	assert_int_equal(m->session->life, SESSION_FAILED);
	assert_string_equal(
		m->session->health->reason, "Bind=news in its file: not now");
	assert_int_equal(told.n, 0);
	assert_int_equal(other.n_left, 0);
}

/* ---- what is lent -------------------------------------------------------- */

static enum session_result
lend_run(struct fake *fake, struct msg *m)
{
	return notice_is(m) ? SESSION_DONE : fake_lease(fake, m);
}

static void
end_held(struct fake *fake)
{
	while (fake->n_held)
		fake_done(fake, EVD_STATUS_DIED);
}

static void
lend(struct fake *owner, const struct fake *to, const char *event, uint64_t seq)
{
	struct msg *m = fixture_msg(owner->sched, to, event);
	struct msg *copy = msg_lend(&owner->sched->pool, m, owner->id, seq);

	assert_non_null(copy);
	msg_free(&owner->sched->pool, m);
	copy->to = to->id;
	assert_int_equal(sched_post(owner->sched, copy), 0);
}

/* A member that holds one of @owner's and has two more, one of them parked, a
 * third of another's, and one that is nobody's, between them. */
static struct fake *
borrower(struct fixture *f, unsigned i, struct fake *owner, struct fake *second)
{
	struct fake *m = fake_hosted(f, i, fixture_spec("m", RESTART_NO));

	m->on_run = lend_run;
	m->on_stop = end_held;
	fixture_run(f);
	assert_int_equal(join(m, "jobs"), EVD_STATUS_OK);
	lend(owner, m, "a", 1);
	fixture_run(f);
	m->on_run = fake_hold;
	lend(owner, m, "b", 2);
	fixture_run(f);
	fixture_post(NULL, m, "own");
	fixture_run(f);
	lend(second, m, "c", 3);
	fixture_run(f);
	mailbox_limit(&m->session->box, 3, 1000);
	lend(owner, m, "d", 4);
	fixture_run(f);
	assert_int_equal(m->session->box.n_parked, 1);
	fake_trace(owner);
	fake_trace(second);
	return m;
}

static void
test_what_it_had_not_begun_goes_back_the_newest_first(
	struct fixture *f, unsigned far)
{
	struct fake *owner = fake_new(f, 0, "jobs-holder");
	struct fake *second = fake_new(f, 0, "other-holder");
	struct fake *m = borrower(f, far, owner, second);

	session_stop(m->session);
	fixture_run(f);
	/* what it had begun with ends with it, behind those */
	assert_string_equal(fake_trace(owner),
		"settled4=unavailable settled2=unavailable settled1=died");
	assert_string_equal(fake_trace(second), "settled3=unavailable");
	fixture_check(f);
}

static void
test_what_it_had_not_begun_near(void **state)
{
	test_what_it_had_not_begun_goes_back_the_newest_first(*state, 0);
}

static void
test_what_it_had_not_begun_far(void **state)
{
	test_what_it_had_not_begun_goes_back_the_newest_first(*state, 1);
}

/* Who leaves one alias keeps what others have lent, and its own. */
static void
test_leaving_gives_back_that_aliases_alone(void **state)
{
	struct fixture *f = *state;
	struct fake *owner = fake_new(f, 0, "jobs");
	struct fake *second = fake_new(f, 0, "other-holder");
	struct fake *m = borrower(f, 0, owner, second);

	assert_true(crowd_leave(m->session, "jobs", 4));
	expect_left(m, owner->id);
	assert_string_equal(
		fake_trace(owner), "settled4=unavailable settled2=unavailable");
	assert_string_equal(fake_trace(second), "");
	assert_int_equal(m->session->box.n, 2);
	assert_int_equal(m->session->box.n_parked, 0);
	fake_done(m, EVD_STATUS_OK);
	fixture_run(f);
	assert_string_equal(fake_trace(owner), "settled1=ok");
	m->on_run = NULL;
	session_wake(m->session);
	fixture_run(f);
	assert_string_equal(fake_trace(second), "settled3=ok");
	fixture_check(f);
}

/* ---- msg_lend() ---------------------------------------------------------- */

static void
test_a_loan_is_its_event_but_for_whose_it_is(void **state)
{
	struct fixture *f = *state;
	struct fake *to = fake_new(f, 0, "to");
	struct msg_pool *p = &f->scheds[0].pool;
	struct msg *m = fixture_rich(&f->scheds[0], to, "event"), *copy, *next;

	m->id = 7;
	m->from = 8;
	m->attempt = 2;
	m->flags |= MSG_URGENT | MSG_ADMITTED | MSG_ACK;
	msg_wide(m)->seq = 99;
	msg_wide(m)->call = 5;
	msg_wide(m)->deadline_ns = 123;
	msg_live(m, 1000, 500);
	msg_set_key(m, "key");
	copy = msg_lend(p, m, 77, 3);
	assert_int_equal(copy->id, 7);
	assert_int_equal(copy->from, 77);
	assert_int_equal(msg_sender(copy), 8);
	assert_int_equal(msg_seq(copy), 3);
	assert_int_equal(msg_level(copy), MSG_LEVEL_HANDLED);
	assert_int_equal(msg_call(copy), 5);
	assert_int_equal(msg_deadline_ns(copy), 123);
	assert_int_equal(copy->attempt, 2);
	assert_int_equal(msg_extra(copy)->expires_ns, 1500);
	assert_int_equal(msg_extra(copy)->key_size, 0); /* it was looked at */
	assert_string_equal(copy->event, "event");
	assert_int_equal(
		copy->flags & (MSG_LENT | MSG_ACK | MSG_MAY_PARK | MSG_URGENT |
				      MSG_ADMITTED | MSG_CHARGED),
		MSG_LENT | MSG_ACK | MSG_MAY_PARK | MSG_URGENT);
	next = msg_lend(p, copy, 78, 4); /* and so on */
	assert_int_equal(msg_sender(next), 8);
	fault_arm("msg_new", 1);
	assert_null(msg_lend(p, m, 77, 3));
	msg_free(p, next);
	msg_free(p, copy);
	msg_free(p, m);
}

static unsigned n_released;

static void
on_release(struct msg_region *region)
{
	(void)region;
	n_released++;
}

/* However many have it. */
static void
test_a_large_payload_is_lent_from_where_it_lies(void **state)
{
	static const uint8_t bytes[100001];
	struct fixture *f = *state;
	struct msg_pool *p = &f->scheds[0].pool;
	struct msg_region region = {bytes, sizeof(bytes) - 1, on_release};
	struct msg *m = msg_new_region(p,
		&(struct msg_init){.event = "e",
			.event_size = 1,
			.headers = "\x01h",
			.headers_size = 2},
		&region);
	struct msg *copy = msg_lend(p, m, 77, 3);

	n_released = 0;
	assert_ptr_equal(msg_payload(copy), bytes);
	assert_int_equal(copy->size, region.size);
	assert_memory_equal(msg_headers(copy), "\x01h", 2);
	msg_free(p, m);
	assert_int_equal(n_released, 0);
	msg_free(p, copy);
	assert_int_equal(n_released, 1);
}

/* B11: a loan costs nothing; its event does until it has ended, once. */
static void
test_a_loan_is_charged_to_nobody_twice(void **state)
{
	struct fixture *f = *state;
	struct sched *s = &f->scheds[0];
	struct users *users = &f->kernel.users;
	struct fake *to = fake_new(f, 0, "to");
	struct msg *m = fixture_msg(s, to, "event"), *copy;
	struct user *user;
	char text[64];

	assert_int_equal(
		users_admit(users, 5, 1, &user, text, sizeof(text)), 0);
	assert_int_equal(
		charge_take(&s->charges, user->index, msg_charge(m)), CHARGES);
	msg_wide(m)->user = user->index;
	m->flags |= MSG_CHARGED;
	charges_flush(&s->charges, 1);
	assert_int_equal(user->used[CHARGE_EVENTS], 1);
	assert_int_equal(user->used[CHARGE_BYTES], msg_charge(m));
	copy = msg_lend(&s->pool, m, to->id, 3);
	msg_free(&s->pool, copy);
	charges_flush(&s->charges, 1);
	assert_int_equal(user->used[CHARGE_EVENTS], 1);
	copy = msg_lend(&s->pool, m, to->id, 3);
	msg_free(&s->pool, m);
	charges_flush(&s->charges, 1);
	assert_int_equal(user->used[CHARGE_EVENTS], 0);
	assert_int_equal(user->used[CHARGE_BYTES], 0);
	msg_free(&s->pool, copy);
	charges_flush(&s->charges, 1);
	assert_int_equal(user->used[CHARGE_EVENTS], 0);
	user_charge(users, user, CHARGE_CONNECTIONS, -1, 1);
	user_charge(users, user, CHARGE_GREETING, -1, 1);
}

int
main(void)
{
#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_it_joins_and_leaves_at_once_where_it_lives),
		TEST(test_once_more_changes_the_window_alone),
		TEST(test_far_it_is_told_later),
		TEST(test_far_refusals_are_told_and_leave_nothing),
		TEST(test_who_left_meanwhile_is_taken_off_again),
		TEST(test_an_alias_that_is_taken_meanwhile_is_asked_for_again),
		TEST(test_wrong_wishes_are_refused_before_anybody_is_asked),
		TEST(test_without_memory_it_has_not_joined),
		TEST(test_what_its_file_binds_is_joined_at_each_start),
		TEST(test_what_its_file_cannot_bind_is_its_failure),
		TEST(test_the_same_of_an_alias_that_lives_elsewhere),
		TEST(test_what_it_had_not_begun_near),
		TEST(test_what_it_had_not_begun_far),
		TEST(test_leaving_gives_back_that_aliases_alone),
		TEST(test_a_loan_is_its_event_but_for_whose_it_is),
		TEST(test_a_large_payload_is_lent_from_where_it_lies),
		TEST(test_a_loan_is_charged_to_nobody_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
