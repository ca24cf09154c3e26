/* Keys of lives and groups: what they mean, what is said about wrong ones, and
 * the groups that are made for those who name them. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "config_files.h"

struct fixture {
	struct files files;
	struct config_errors errors;
	struct config *config;
	struct config_source source;
	char etc[128];
};

static int
setup(void **state)
{
	struct fixture *t = calloc(1, sizeof(*t));

	files_make(&t->files);
	snprintf(t->etc, sizeof(t->etc), "%s/etc", t->files.root);
	t->source.etc = t->etc;
	t->source.vendor = t->etc;
	files_put(&t->files, "etc/s.lua", "return {}\n");
	*state = t;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *t = *state;

	config_free(t->config);
	config_errors_deinit(&t->errors);
	files_remove(&t->files);
	free(t);
	return 0;
}

#define LUA "[Session]\nKind=lua\nScript=../s.lua\n"

static void
put(struct fixture *t, const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "etc/sessions.d/%s.conf", name);
	files_put(&t->files, path, text);
}

static const struct session_spec *
load(struct fixture *t, const char *name)
{
	int r;

	t->config = config_free(t->config);
	r = config_load(&t->source, &t->config, &t->errors);
	for (size_t i = 0; i < t->errors.n; i++)
		print_error("%s\n", t->errors.lines[i]);
	assert_int_equal(r, 0);
	for (size_t i = 0; i < t->config->n_specs; i++)
		if (!strcmp(t->config->specs[i]->name, name))
			return t->config->specs[i];
	return NULL;
}

static void
wrong(struct fixture *t, const char *text, const char *part)
{
	put(t, "s", text);
	t->config = config_free(t->config);
	assert_true(config_load(&t->source, &t->config, &t->errors) < 0);
	if (t->errors.n != 1 || !strstr(t->errors.lines[0], part))
		for (size_t i = 0; i < t->errors.n; i++)
			print_error("%s\n", t->errors.lines[i]);
	assert_int_equal(t->errors.n, 1);
	assert_non_null(strstr(t->errors.lines[0], part));
	config_errors_deinit(&t->errors);
}

static void
test_all_keys_are_read(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s;

	put(t, "s",
		LUA "Start=on-demand\nIdleStop=5min\nCollect=yes\n"
		    "Group=site/db\nOrder=-3\nStrategy=rest\n"
		    "[Mailbox]\nMaxAttempts=4\n");
	s = load(t, "s");
	assert_true(s->on_demand && s->collect);
	assert_int_equal(s->idle_ms, 300000);
	assert_string_equal(s->group, "site/db");
	assert_int_equal(s->order, -3);
	assert_int_equal(s->strategy, STRATEGY_REST);
	assert_int_equal(s->max_attempts, 4);
}

static void
test_defaults_are_as_ever(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s;

	put(t, "s", LUA);
	s = load(t, "s");
	assert_false(s->on_demand || s->collect);
	assert_int_equal(s->idle_ms, 0);
	assert_null(s->group);
	assert_int_equal(s->strategy, STRATEGY_ONE);
	assert_int_equal(s->max_attempts, 0);
	assert_int_equal(t->config->n_specs, 1);
}

static void
test_wrong_values_are_told(void **state)
{
	struct fixture *t = *state;

	wrong(t, LUA "Group=a//b\n", "'a//b' cannot name a group");
	wrong(t, LUA "Group=/a\n", "cannot name a group");
	wrong(t, LUA "Group=a b\n", "cannot name a group");
	wrong(t, LUA "Order=1x\n", "Order= is a whole number");
	wrong(t, LUA "Order=9999999\n", "Order= is a whole number");
	wrong(t, LUA "Strategy=some\n", "Strategy=");
	wrong(t, LUA "Start=never\n", "Start=");
	wrong(t, LUA "[Mailbox]\nMaxAttempts=0\n", "it may be 1 to 255");
	wrong(t, LUA "[Mailbox]\nMaxAttempts=256\n", "it may be 1 to 255");
	wrong(t, LUA "Alias=group/x\n", "'group/x' begins with group/");
	wrong(t, "[Session]\nKind=client\nIdleStop=1s\n",
		"IdleStop= has no meaning with Kind=client");
	wrong(t, "[Session]\nKind=group\nStart=on-demand\n",
		"Start= has no meaning with Kind=group");
	wrong(t, "[Session]\nKind=group\nScript=../s.lua\n",
		"Script= has no meaning with Kind=group");
}

static void
test_groups_are_made_for_those_who_name_them(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s;

	put(t, "a", LUA "Group=site/db/main\n");
	put(t, "b", LUA "Group=site/db\n");
	assert_non_null(load(t, "a"));
	assert_int_equal(t->config->n_specs, 5);
	s = load(t, "group/site/db/main");
	assert_non_null(s);
	assert_string_equal(s->kind, "group");
	assert_string_equal(s->group, "site/db/main");
	assert_string_equal(s->aliases[0], "group/site/db/main");
	assert_non_null(load(t, "group/site/db"));
	assert_non_null(load(t, "group/site"));
}

static void
test_a_file_may_describe_a_group(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s;

	put(t, "a", LUA "Group=site/db\n");
	put(t, "db",
		"[Session]\nKind=group\nGroup=site/db\nStrategy=all\n"
		"RestartBurst=3\nAlias=databases\n");
	put(t, "site", "[Session]\nKind=group\nStrategy=rest\n");
	s = load(t, "db");
	assert_int_equal(t->config->n_specs, 3);
	assert_int_equal(s->strategy, STRATEGY_ALL);
	assert_int_equal(s->n_aliases, 2);
	assert_string_equal(s->aliases[0], "databases");
	assert_string_equal(s->aliases[1], "group/site/db");
	s = load(t, "site");
	assert_string_equal(s->group, "site");
	assert_int_equal(s->n_aliases, 1);
	assert_string_equal(s->aliases[0], "group/site");
}

static void
test_digests_change_with_every_key(void **state)
{
	static const char *const others[] = {LUA, LUA "Start=on-demand\n",
		LUA "IdleStop=1\n", LUA "Collect=yes\n", LUA "Group=a\n",
		LUA "Order=1\n", LUA "Strategy=all\n",
		LUA "[Mailbox]\nMaxAttempts=2\n"};
	enum { N = sizeof(others) / sizeof(*others) };
	struct fixture *t = *state;
	uint64_t digests[N];

	for (size_t i = 0; i < N; i++) {
		put(t, "s", others[i]);
		digests[i] = load(t, "s")->digest;
		for (size_t j = 0; j < i; j++)
			assert_true(digests[i] != digests[j]);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_all_keys_are_read),
		T(test_defaults_are_as_ever),
		T(test_wrong_values_are_told),
		T(test_groups_are_made_for_those_who_name_them),
		T(test_a_file_may_describe_a_group),
		T(test_digests_change_with_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
