/* Subscribers of a fanout whose user may have no more in the daemon: each meets
 * its own overflow, and nobody is cut off who did not ask for it (B1, B2). The
 * alias is on the first of two loops, the slow subscriber on either. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "kernel/spec.h"
#include "net/mailslot.h"

enum { MAY = 40, FREE = 1024, MORE = 300, STEP = 50 };

struct scene {
	struct rig *rig;
	struct client *slow, *fast, *poster;
	struct user *user; /* of the slow one */
	unsigned n, n_fast;
};

static void
subscribe(struct client *c, const char *overflow)
{
	Eventd__V1__Request r = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Bind bind = EVENTD__V1__BIND__INIT;
	Eventd__V1__Mailbox box = EVENTD__V1__MAILBOX__INIT;

	bind.alias = (char *)"news";
	bind.binding = 1;
	bind.window_events = 1;
	bind.mode = EVENTD__V1__BIND_MODE__BIND_FANOUT;
	box.overflow = (char *)overflow;
	box.max_events = 4000;
	bind.mailbox = &box;
	r.verb_case = EVENTD__V1__REQUEST__VERB_BIND;
	r.bind = &bind;
	client_request(c, &r, EVD_STATUS_OK);
}

/* A user who may have MAY events, and all that a fanout does not count. */
static struct user *
user_with_limit(struct rig *rig, uid_t uid)
{
	struct limits *l = limits_new(0, true);
	struct user *user;
	char text[256];

	assert_non_null(l);
	assert_int_equal(limits_set(l, &uid, CHARGE_EVENTS, MAY, "f:1"), 0);
	limits_finish(l, UINT64_MAX, 10000);
	users_set_limits(&rig->kernel.users, l);
	assert_int_equal(users_admit(&rig->kernel.users, uid, 1, &user, text,
				 sizeof(text)),
		0);
	return user;
}

static void
begin(struct scene *sc, struct rig *rig, unsigned loop, const char *overflow)
{
	uid_t uid = getuid() + 1;

	*sc = (struct scene){.rig = rig};
	sc->fast = client_hello(rig, 0);
	sc->slow = client_hello(rig, loop);
	sc->user = user_with_limit(rig, uid);
	subscribe(sc->fast, "drop-oldest");
	rig_become(rig, loop, uid, uid);
	subscribe(sc->slow, overflow);
	sc->poster = client_hello(rig, 0);
}

static void
end(struct scene *sc)
{
	struct user *user = sc->user;

	if (sc->slow)
		client_free(sc->slow);
	RIG_UNTIL(sc->rig, !user->used[CHARGE_EVENTS]);
	assert_int_equal(user->used[CHARGE_BYTES], 0);
	rig_check(sc->rig);
	client_free(sc->fast);
	client_free(sc->poster);
}

/* What the fast one gets, at once and in order. */
static void
take_fast(struct scene *sc)
{
	char event[16];

	while (client_poll(sc->fast)) {
		for (size_t i = 0; i < sc->fast->frame->n_envelopes; i++) {
			snprintf(event, sizeof(event), "e%u", sc->n_fast++);
			assert_string_equal(
				sc->fast->frame->envelopes[i]->event, event);
		}
		client_settle(sc->fast, 1, sc->n_fast);
		rig_run(sc->rig);
	}
}

static void
post(struct scene *sc, unsigned n)
{
	char event[16];

	while (n--) {
		snprintf(event, sizeof(event), "e%u", sc->n++);
		client_post_size(sc->poster, "news", event, 20);
	}
	rig_run(sc->rig);
}

/* Until he has all that he may, and then some more, if @goes_on of it that
 * others get. */
static void
flood(struct scene *sc, bool goes_on)
{
	while (!sc->user->refused[CHARGE_EVENTS]) {
		assert_true(sc->n <= FREE + 2 * MAY + STEP);
		post(sc, 5);
		take_fast(sc);
	}
	for (unsigned i = 0; i < MORE; i += STEP) {
		post(sc, STEP);
		take_fast(sc);
	}
	if (goes_on) { /* and other clients of his do, too */
		assert_int_equal(sc->n_fast, sc->n);
		assert_true(user_has_room(sc->user, CHARGE_EVENTS, 0, 9));
	} else {
		assert_true(sc->n_fast < sc->n);
	}
	assert_true(sc->user->used[CHARGE_EVENTS] <= MAY + 64 + 1);
	rig_check(sc->rig);
}

/* What the slow one gets when it reads: the numbers of events, in order, and
 * how many it is told of that are lost; both are all. */
struct heard {
	unsigned n, first_lost, lost, last;
};

static void
listen_slow(struct scene *sc, struct heard *h)
{
	const Eventd__V1__Frame *f;
	unsigned number;

	while (h->n + h->lost < sc->n) {
		f = client_next(sc->slow);
		assert_non_null(f);
		if (f->notice) {
			assert_non_null(f->notice->gap);
			if (!h->lost)
				h->first_lost = h->n;
			h->lost += (unsigned)f->notice->gap->count;
			continue;
		}
		assert_int_equal(f->n_envelopes, 1);
		assert_int_equal(
			sscanf(f->envelopes[0]->event, "e%u", &number), 1);
		assert_true(!h->n || number > h->last);
		h->last = number;
		client_settle(sc->slow, 1, ++h->n);
		rig_run(sc->rig);
		take_fast(sc);
	}
	client_expect_silence(sc->slow);
}

static void
test_drop_oldest_has_the_newest(struct rig *rig, unsigned loop)
{
	struct scene sc;
	struct heard h = {0};

	begin(&sc, rig, loop, "drop-oldest");
	flood(&sc, true);
	listen_slow(&sc, &h);
	assert_int_equal(h.first_lost, 1); /* behind the one that it had */
	assert_int_equal(h.last, sc.n - 1);
	assert_true(h.lost >= MORE);
	end(&sc);
}

static void
test_drop_newest_has_the_oldest(struct rig *rig, unsigned loop)
{
	struct scene sc;
	struct heard h = {0};

	begin(&sc, rig, loop, "drop-newest");
	flood(&sc, true);
	listen_slow(&sc, &h);
	assert_true(h.lost >= MORE);
	assert_int_equal(h.last, h.n - 1); /* none of them is missing */
	/* and it has room again, for as many as ever */
	post(&sc, 10);
	listen_slow(&sc, &h);
	assert_int_equal(h.last, sc.n - 1);
	end(&sc);
}

static void
test_block_holds_the_posters_up(struct rig *rig, unsigned loop)
{
	struct scene sc;
	struct heard h = {0};
	struct session *t;

	begin(&sc, rig, loop, "block");
	flood(&sc, false);
	t = session_find(
		&rig->kernel, alias_holder(&rig->kernel.aliases, "news", 4));
	assert_true(t->box.n >= MORE - 2 * STEP - 64); /* they wait there */
	listen_slow(&sc, &h);
	assert_int_equal(h.lost, 0);
	assert_int_equal(h.n, sc.n);
	RIG_UNTIL(rig, t->box.n == 0);
	take_fast(&sc);
	assert_int_equal(sc.n_fast, sc.n);
	end(&sc);
}

/* Who dies while it holds others up does so no more. */
static void
test_block_ends_with_its_client(struct rig *rig, unsigned loop)
{
	struct scene sc;

	begin(&sc, rig, loop, "block");
	flood(&sc, false);
	client_free(sc.slow);
	sc.slow = NULL;
	while (sc.n_fast < sc.n) {
		rig_run(rig);
		take_fast(&sc);
	}
	end(&sc);
}

static void
test_disconnect_is_cut_off(struct rig *rig, unsigned loop)
{
	struct scene sc;

	begin(&sc, rig, loop, "disconnect");
	flood(&sc, true);
	client_expect_delivery(sc.slow, 1, "e0");
	assert_non_null(client_next(sc.slow));
	assert_non_null(sc.slow->frame->notice);
	assert_non_null(sc.slow->frame->notice->unbound);
	assert_int_equal(
		sc.slow->frame->notice->unbound->status, EVD_STATUS_FULL);
	client_expect_alive(sc.slow);
	end(&sc);
}

#define NEAR_AND_FAR(test)                    \
	static void test##_near(void **state) \
	{                                     \
		test(*state, 0);              \
	}                                     \
	static void test##_far(void **state)  \
	{                                     \
		test(*state, 1);              \
	}
NEAR_AND_FAR(test_drop_oldest_has_the_newest)
NEAR_AND_FAR(test_drop_newest_has_the_oldest)
NEAR_AND_FAR(test_block_holds_the_posters_up)
NEAR_AND_FAR(test_block_ends_with_its_client)
NEAR_AND_FAR(test_disconnect_is_cut_off)

int
main(void)
{
#define TEST(test) \
	cmocka_unit_test_setup_teardown(test, rig_setup_two, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_drop_oldest_has_the_newest_near),
		TEST(test_drop_oldest_has_the_newest_far),
		TEST(test_drop_newest_has_the_oldest_near),
		TEST(test_drop_newest_has_the_oldest_far),
		TEST(test_block_holds_the_posters_up_near),
		TEST(test_block_holds_the_posters_up_far),
		TEST(test_block_ends_with_its_client_near),
		TEST(test_block_ends_with_its_client_far),
		TEST(test_disconnect_is_cut_off_near),
		TEST(test_disconnect_is_cut_off_far),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
