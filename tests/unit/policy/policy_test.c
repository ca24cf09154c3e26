/* Rules: words, order, sets, defaults, and what each peer may by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "policy/rights.h"

enum { OWNER = 900, ALICE = 1000, BOB = 1001, STAFF = 50, WEB = 33 };

static int
setup(void **state)
{
	*state = policy_new(OWNER, false);
	assert_non_null(*state);
	return 0;
}

static int
teardown(void **state)
{
	policy_unref(*state);
	return 0;
}

static unsigned line_now;

/* "post thumbs.* refresh" or "post thumbs" */
static int
add_at(struct policy *p, uint32_t layer, const char *what, const char *words)
{
	char copy[600], text[512] = "", *rest = copy, *right;
	struct policy_line line = {
		.words = words, .layer = layer, .line = ++line_now};
	char file[32];
	int r;

	snprintf(copy, sizeof(copy), "%s", what);
	snprintf(file, sizeof(file), "f%u", layer);
	line.file = file;
	right = strsep(&rest, " ");
	line.right = right_of(right);
	line.alias = strsep(&rest, " ");
	line.event = rest;
	r = policy_add(p, &line, text, sizeof(text));
	if (r)
		assert_true(strlen(text) > 10 || r < 0 || r == POLICY_E_MANY);
	return r;
}

static void
add(struct policy *p, const char *what, const char *words)
{
	assert_int_equal(add_at(p, POLICY_DAEMON, what, words), 0);
}

static struct rights *
rights_for(struct policy *p, uid_t uid, gid_t gid)
{
	struct creds creds = {.uid = uid, .gid = gid};
	struct rights *r = rights_new(p, &creds);

	assert_non_null(r);
	return r;
}

static bool
may(struct policy *p, uid_t uid, const char *right, const char *alias,
	const char *event)
{
	struct rights *r = rights_for(p, uid, uid);
	bool yes = rights_may(r, right_of(right), alias, event);

	/* What may be kept is what is always so. */
	if (rights_cover(r, right_of(right), alias))
		assert_true(yes);
	rights_unref(r);
	return yes;
}

static void
test_defaults_of_a_system_daemon(void **state)
{
	struct policy *p = *state;

	assert_int_equal(policy_finish(p), 0);
	for (unsigned i = 0; i < RIGHTS; i++) {
		assert_int_equal(may(p, ALICE, right_words[i], "a", NULL),
			i != RIGHT_MANAGE);
		assert_true(may(p, 0, right_words[i], "a", NULL));
		assert_true(may(p, OWNER, right_words[i], "a", NULL));
	}
	assert_false(may(p, (uid_t)-1, "manage", "", NULL));
}

static void
test_a_users_own_daemon_is_closed_to_others(void **state)
{
	struct policy *p = policy_new(ALICE, true);

	(void)state;
	assert_int_equal(policy_finish(p), 0);
	for (unsigned i = 0; i < RIGHTS; i++) {
		assert_false(may(p, BOB, right_words[i], "a", NULL));
		assert_true(may(p, ALICE, right_words[i], "a", NULL));
		assert_true(may(p, 0, right_words[i], "a", NULL));
	}
	policy_unref(p);
}

/* B73: exact is exact. */
static void
test_an_exact_name_is_no_prefix(void **state)
{
	static const char *const others[] = {
		"a.b.c", "a.bc", "A.B", "a.", "a", "xa.b", "a.b.", "a-b"};
	struct policy *p = *state;

	add(p, "bind *", "none");
	add(p, "bind a.b", "uid:1000");
	assert_int_equal(policy_finish(p), 0);
	assert_true(may(p, ALICE, "bind", "a.b", NULL));
	assert_false(may(p, BOB, "bind", "a.b", NULL));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(may(p, ALICE, "bind", others[i], NULL));
}

static void
test_the_most_specific_set_decides(void **state)
{
	struct policy *p = *state;

	add(p, "post *", "any");
	add(p, "post a.*", "none");
	add(p, "post a.b.*", "uid:1000");
	add(p, "post a.b.c", "uid:1001");
	add(p, "post a.b.c reset", "none");
	add(p, "post a.b.c re*", "uid:1000");
	assert_int_equal(policy_finish(p), 0);
	assert_true(may(p, BOB, "post", "b", "e"));
	assert_false(may(p, ALICE, "post", "a.x", "e"));
	assert_true(may(p, ALICE, "post", "a.b.x", "e"));
	assert_false(may(p, BOB, "post", "a.b.x", "e"));
	assert_true(may(p, BOB, "post", "a.b.c", "e"));
	assert_false(may(p, ALICE, "post", "a.b.c", "e"));
	assert_false(may(p, BOB, "post", "a.b.c", "reset"));
	assert_true(may(p, ALICE, "post", "a.b.c", "reload"));
	assert_false(may(p, 0, "post", "a.b.c", "reset"));
	/* other rights are not touched */
	assert_true(may(p, BOB, "call", "a.b.c", "reset"));
}

static void
test_denials_win_and_alone_leave_others_to_the_next(void **state)
{
	struct policy *p = *state;

	add(p, "post a", "any !uid:1001");
	add(p, "post b", "!uid:1001");
	add(p, "post c", "!uid:1001");
	add(p, "post *", "none");
	add(p, "post b*", "uid:1000 uid:1001");
	assert_int_equal(policy_finish(p), 0);
	assert_true(may(p, ALICE, "post", "a", "e"));
	assert_false(may(p, BOB, "post", "a", "e"));
	assert_true(may(p, ALICE, "post", "b", "e"));
	assert_false(may(p, BOB, "post", "b", "e"));
	assert_false(may(p, ALICE, "post", "c", "e"));
}

static void
test_lines_of_one_file_add_up_and_a_later_file_replaces(void **state)
{
	struct policy *p = *state;

	assert_int_equal(add_at(p, 3, "post a", "uid:7"), 0);
	assert_int_equal(add_at(p, 2, "post a", "uid:1000"), 0);
	assert_int_equal(add_at(p, 3, "post a", "uid:1001"), 0);
	assert_int_equal(add_at(p, POLICY_SESSION, "post a", "any"), 0);
	assert_int_equal(add_at(p, POLICY_SESSION, "post b", "uid:7"), 0);
	assert_int_equal(policy_finish(p), 0);
	assert_int_equal(p->n_rules, 3);
	assert_true(may(p, 7, "post", "a", "e"));
	assert_true(may(p, BOB, "post", "a", "e"));
	assert_false(may(p, ALICE, "post", "a", "e"));
	assert_false(may(p, ALICE, "post", "b", "e"));
}

/* B73: it must not become a rule for all. */
static void
test_an_unknown_user_or_group_never_matches(void **state)
{
	struct policy *p = *state;

	assert_int_equal(
		add_at(p, POLICY_DAEMON, "post a", "user:no-such-user-here"),
		POLICY_E_UNKNOWN);
	assert_int_equal(add_at(p, POLICY_DAEMON, "post b",
				 "any !group:no-such-group-here"),
		POLICY_E_UNKNOWN);
	assert_int_equal(policy_finish(p), 0);
	assert_false(may(p, ALICE, "post", "a", "e"));
	assert_false(may(p, (uid_t)-1, "post", "a", "e"));
	assert_true(may(p, ALICE, "post", "b", "e"));
}

static void
test_wrong_words_are_told(void **state)
{
	static const char *const wrong[] = {"alice", "user:", "uid:", "uid:x",
		"uid:4294967295", "uid:-1", "uid:99999999999", "gid:1a",
		"unit:", "!none", "!", ":", "every", "Any", "uid:1000,"};
	struct policy *p = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(add_at(p, POLICY_DAEMON, "post a", wrong[i]),
			POLICY_E_WORD);
	assert_int_equal(p->n_rules, 0);
	assert_int_equal(policy_finish(p), 0);
}

static void
test_groups_units_root_and_owner(void **state)
{
	struct policy *p = *state;
	gid_t groups[] = {STAFF, 7, 1};
	struct creds creds = {.uid = ALICE,
		.gid = WEB,
		.groups = groups,
		.n_groups = 3,
		.unit = (char *)"cron.service"};
	struct rights *r;

	add(p, "post gid", "gid:33");
	add(p, "post more", "gid:50");
	add(p, "post unit", "unit:cron");
	add(p, "post other", "unit:cron.scope");
	add(p, "post root", "root");
	add(p, "post owner", "owner");
	assert_int_equal(policy_finish(p), 0);
	assert_int_equal(p->asks, CREDS_UNIT | CREDS_GROUPS);
	creds_sort(&creds);
	r = rights_new(p, &creds);
	assert_true(rights_may(r, RIGHT_POST, "gid", "e"));
	assert_true(rights_may(r, RIGHT_POST, "more", "e"));
	assert_true(rights_may(r, RIGHT_POST, "unit", "e"));
	assert_false(rights_may(r, RIGHT_POST, "other", "e"));
	assert_false(rights_may(r, RIGHT_POST, "root", "e"));
	rights_unref(r);
	assert_true(may(p, 0, "post", "root", "e"));
	assert_false(may(p, OWNER, "post", "root", "e"));
	assert_true(may(p, OWNER, "post", "owner", "e"));
	assert_false(may(p, BOB, "post", "more", "e"));
}

static void
test_root_and_owner_cannot_be_locked_out(void **state)
{
	struct policy *p = *state;

	add(p, "manage *", "none");
	add(p, "see *", "!any");
	assert_int_equal(policy_finish(p), 0);
	assert_true(may(p, 0, "manage", "", NULL));
	assert_true(may(p, OWNER, "see", "a", NULL));
	assert_false(may(p, ALICE, "see", "a", NULL));
}

/* The one test of a post: the bit says so only if nothing can refuse it. */
static void
test_open_is_what_no_rule_refuses(void **state)
{
	struct policy *p = *state;
	struct rights *r;

	add(p, "post a", "uid:1000");
	add(p, "call b x", "!uid:1000");
	add(p, "watch *", "uid:1000");
	assert_int_equal(policy_finish(p), 0);
	r = rights_for(p, ALICE, ALICE);
	assert_true(r->open & 1 << RIGHT_POST);
	assert_false(r->open & 1 << RIGHT_CALL);
	assert_true(r->open & 1 << RIGHT_WATCH);
	assert_true(rights_cover(r, RIGHT_CALL, "a"));
	assert_false(rights_cover(r, RIGHT_CALL, "b"));
	assert_true(rights_some(r, RIGHT_CALL, "b"));
	rights_unref(r);
	r = rights_for(p, BOB, BOB);
	assert_false(r->open & 1 << RIGHT_POST);
	assert_true(r->open & 1 << RIGHT_CALL);
	assert_false(r->open & 1 << RIGHT_WATCH);
	assert_false(rights_some(r, RIGHT_POST, "a"));
	rights_unref(r);
}

/* B77: who, which right, and the line. */
static void
test_an_explanation_names_the_line(void **state)
{
	struct policy *p = *state;
	struct rights *r;
	struct verdict v;
	char text[512];

	line_now = 11;
	add(p, "post a", "uid:1000");
	assert_int_equal(policy_finish(p), 0);
	r = rights_for(p, BOB, BOB);
	v = rights_ask(r, RIGHT_POST, "a", "e");
	assert_false(v.allowed || v.named);
	rights_explain(r, &v, text, sizeof(text));
	assert_string_equal(text,
		"uid 1001 lacks the right 'post' for 'a' with event 'e': "
		"f2:12: Post=uid:1000");
	v = rights_ask(r, RIGHT_MANAGE, "", NULL);
	rights_explain(r, &v, text, sizeof(text));
	assert_non_null(strstr(text, "for the daemon: by default"));
	rights_explain(r, &v, text, 10); /* cut, not written behind */
	assert_int_equal(strlen(text), 9);
	rights_unref(r);
}

static void
test_equal_credentials_share_rights(void **state)
{
	struct policy *p = *state, *q = policy_new(OWNER, false);
	struct rights_cache cache = {0};
	struct creds alice = {.uid = ALICE, .gid = WEB}, cron = alice;
	struct rights *a, *b, *c;

	cron.unit = (char *)"cron.service";
	a = rights_cached(&cache, p, &alice);
	b = rights_cached(&cache, p, &alice);
	c = rights_cached(&cache, p, &cron);
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, c);
	rights_unref(b);
	b = rights_cached(&cache, q, &alice);
	assert_ptr_not_equal(a, b);
	assert_int_equal(cache.n, 3);
	rights_unref(b);
	rights_cache_prune(&cache);
	assert_int_equal(cache.n, 2);
	rights_unref(a);
	rights_cache_clear(&cache);
	assert_int_equal(c->creds.uid, ALICE); /* it is held yet */
	rights_unref(c);
	policy_unref(q);
}

static void
unit_for(uid_t own, const char *text, const char *unit)
{
	char out[CREDS_UNIT_MAX + 1];

	creds_unit_of(text, own, out, sizeof(out));
	assert_string_equal(out, unit);
}

static void
unit_is(const char *text, const char *unit)
{
	unit_for(0, text, unit);
}

/* B73: whoever runs in a unit may make cgroups below it, of any name. */
static void
test_the_unit_is_the_outermost_of_the_cgroup(void **state)
{
	static const char app[] = "0::/user.slice/user-1000.slice/"
				  "user@1000.service/app.slice/x.service\n";
	char long_line[700] = "0::/";

	(void)state;
	unit_is("0::/system.slice/cron.service\n", "cron.service");
	unit_is("0::/user.slice/user-1000.slice/session-2.scope\n",
		"session-2.scope");
	unit_is("0::/system.slice/a.service/payload/sub\n", "a.service");
	unit_is("0::/system.slice/a.service/cron.service\n", "a.service");
	unit_is(app, "user@1000.service");
	unit_for(1000, app, "x.service"); /* a daemon of that user's own */
	unit_for(1001, app, "user@1000.service");
	unit_for(1000,
		"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n",
		"init.scope");
	unit_for(1000, "0::/user.slice/user-1000.slice/user@1000.service\n",
		"user@1000.service");
	unit_for(1000,
		"0::/user.slice/user@1001.service/user@1000.service/"
		"cron.service\n",
		"user@1001.service");
	unit_is("0::/system.slice/_cpu.service\n", "cpu.service");
	unit_is("0::/system.slice/__x.service\n", "_x.service");
	unit_is("0::/system.slice/a\\x2db@c.service\n", "a\\x2db@c.service");
	unit_is("0::/system.slice/Cron.service\n", "Cron.service");
	unit_is("0::/\n", "");
	unit_is("0::", "");
	unit_is("", "");
	unit_is("/b.service", "");
	unit_is("0::/.service", "");
	unit_is("0::/_.service", "");
	unit_is("0::/_", "");
	unit_is("0::/x.services\n1:y:/b.service\n", "");
	unit_is("12:pids:/b.service\n0::/system.slice/c.service\n",
		"c.service");
	memset(long_line + 4, 'a', sizeof(long_line) - 4);
	strcpy(long_line + 600, ".service/cron.service\n");
	unit_is(long_line, "");
}

static void
test_lack_of_memory_is_told(void **state)
{
	struct policy *p = *state;
	struct creds creds = {.uid = ALICE};

	add(p, "post a", "any");
	fault_arm("policy_rule", 1);
	assert_true(add_at(p, POLICY_DAEMON, "post b", "any") < 0);
	fault_arm("policy_nodes", 1);
	assert_true(policy_finish(p) < 0);
	fault_arm("rights_new", 1);
	assert_null(rights_new(p, &creds));
	fault_arm("policy_new", 1);
	assert_null(policy_new(0, false));
	fault_arm("", 0);
}

/* As the rules say, slowly: for all kinds of sets at random. */
static bool
model_may(struct policy *p, uid_t uid, const char *alias)
{
	static const char *const patterns[] = {"a.b.c", "a.b.*", "a.*", "*"};
	struct creds creds = {.uid = uid, .gid = uid};

	for (size_t k = 0; k < 4; k++) {
		bool named = false, closes = false;

		for (size_t i = 0; i < p->n_rules; i++) {
			const struct policy_rule *rule = p->rules[i];

			if (strcmp(rule->alias, patterns[k]) != 0)
				continue;
			for (size_t w = 0; w < rule->n_who; w++) {
				bool is = who_is(p, &rule->who[w], &creds);

				if (is && rule->who[w].deny)
					return false;
				named |= is;
				closes |= !rule->who[w].deny;
			}
		}
		if (k == 0 && strcmp(alias, "a.b.c") != 0)
			continue;
		if (named || closes)
			return named;
	}
	return true;
}

static void
test_random_rules_decide_as_they_read(void **state)
{
	static const char *const words[] = {"any", "none", "uid:1000",
		"uid:1001", "!uid:1000", "!uid:1001", "!any", "gid:1000"};
	static const char *const whats[] = {
		"post a.b.c", "post a.b.*", "post a.*", "post *"};
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct policy *p = policy_new(OWNER, false);

		for (int i = rand_r(&seed) % 6; i > 0; i--)
			add(p, whats[rand_r(&seed) % 4],
				words[rand_r(&seed) % 8]);
		assert_int_equal(policy_finish(p), 0);
		for (uid_t uid = ALICE; uid <= BOB + 1; uid++)
			assert_int_equal(may(p, uid, "post", "a.b.c", "e"),
				model_may(p, uid, "a.b.c"));
		policy_unref(p);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_defaults_of_a_system_daemon),
		TEST(test_a_users_own_daemon_is_closed_to_others),
		TEST(test_an_exact_name_is_no_prefix),
		TEST(test_the_most_specific_set_decides),
		TEST(test_denials_win_and_alone_leave_others_to_the_next),
		TEST(test_lines_of_one_file_add_up_and_a_later_file_replaces),
		TEST(test_an_unknown_user_or_group_never_matches),
		TEST(test_wrong_words_are_told),
		TEST(test_groups_units_root_and_owner),
		TEST(test_root_and_owner_cannot_be_locked_out),
		TEST(test_open_is_what_no_rule_refuses),
		TEST(test_an_explanation_names_the_line),
		TEST(test_equal_credentials_share_rights),
		TEST(test_the_unit_is_the_outermost_of_the_cgroup),
		TEST(test_lack_of_memory_is_told),
		TEST(test_random_rules_decide_as_they_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
