/* The configuration as a whole: which files are read, in which order, and
 * which one wins. */
#include "config.h"

#include <errno.h>
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
	char etc[128], vendor[128];
};

static int
setup(void **state)
{
	struct fixture *t = calloc(1, sizeof(*t));

	files_make(&t->files);
	snprintf(t->etc, sizeof(t->etc), "%s/etc", t->files.root);
	snprintf(t->vendor, sizeof(t->vendor), "%s/lib", t->files.root);
	t->source.etc = t->etc;
	t->source.vendor = t->vendor;
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

static const struct config *
load(struct fixture *t)
{
	int r;

	t->config = config_free(t->config);
	r = config_load(&t->source, &t->config, &t->errors);
	for (size_t i = 0; i < t->errors.n; i++)
		print_error("%s\n", t->errors.lines[i]);
	assert_int_equal(r, 0);
	assert_non_null(t->config);
	return t->config;
}

/* Loading fails with one error that holds @part. */
static void
refused(struct fixture *t, const char *part)
{
	t->config = config_free(t->config);
	assert_true(config_load(&t->source, &t->config, &t->errors) < 0);
	assert_null(t->config);
	if (t->errors.n != 1 || !strstr(t->errors.lines[0], part))
		for (size_t i = 0; i < t->errors.n; i++)
			print_error("%s\n", t->errors.lines[i]);
	assert_int_equal(t->errors.n, 1);
	assert_non_null(strstr(t->errors.lines[0], part));
	config_errors_deinit(&t->errors);
}

static void
put(struct fixture *t, const char *name, const char *text)
{
	files_put(&t->files, name, text);
}

static void
test_no_files_mean_defaults(void **state)
{
	struct fixture *t = *state;
	const struct config *c = load(t);

	assert_null(c->file);
	assert_string_equal(c->socket, "/run/eventd/eventd.sock");
	assert_int_equal(c->loops, 1);
	assert_int_equal(c->socket_mode, 0660);
	assert_int_equal(config_log_level(c), LOG_L_INFO);
	assert_int_equal(c->n_specs, 0);
	assert_memory_equal(
		&c->limits, &kernel_limits_default, sizeof(c->limits));
}

static void
test_all_daemon_keys_are_read(void **state)
{
	struct fixture *t = *state;
	const struct config *c;

	put(t, "etc/eventd.conf",
		"[Daemon]\nLoops=3\nSocket=/run/x.sock\nSocketMode=0600\n"
		"LogLevel=debug\nMaxConnections=5\nMaxSessions=6\n"
		"MaxTimers=7\nMaxCalls=8\nMaxPayload=2K\nBudget=9\n"
		"TurnBudget=10\nCallTimeout=2min\nHelloTimeout=1s\n"
		"DedupWindow=5min\nMaxKeys=12\n"
		"WindowPosts=11\nWindowBytes=4M\nStopTimeout=0\n"
		"CoroutineStack=128K\nCoroutineStacks=13\n");
	c = load(t);
	assert_int_equal(c->loops, 3);
	assert_string_equal(c->socket, "/run/x.sock");
	assert_int_equal(c->socket_mode, 0600);
	assert_int_equal(config_log_level(c), LOG_L_DEBUG);
	assert_int_equal(c->max_connections, 5);
	assert_int_equal(c->limits.max_sessions, 6);
	assert_int_equal(c->limits.max_timers, 7);
	assert_int_equal(c->limits.max_calls, 8);
	assert_int_equal(c->limits.max_payload, 2048);
	assert_int_equal(c->limits.budget, 9);
	assert_int_equal(c->limits.turn_budget, 10);
	assert_int_equal(c->limits.call_timeout_ms, 120000);
	assert_int_equal(c->limits.dedup_ms, 300000);
	assert_int_equal(c->limits.max_keys, 12);
	assert_int_equal(c->hello_timeout_ms, 1000);
	assert_int_equal(c->window_posts, 11);
	assert_int_equal(c->window_bytes, 4 << 20);
	assert_int_equal(c->stop_timeout_ms, 0);
	assert_int_equal(c->coroutine_stack, 128 << 10);
	assert_int_equal(c->coroutine_stacks, 13);
}

static void
test_ours_masks_the_vendors_of_the_same_name(void **state)
{
	struct fixture *t = *state;

	put(t, "lib/eventd.conf", "[Daemon]\nBudget=1\nMaxCalls=1\n");
	assert_int_equal(load(t)->limits.budget, 1);
	put(t, "etc/eventd.conf", "[Daemon]\nMaxCalls=2\n");
	assert_int_equal(load(t)->limits.budget, 50);
	assert_int_equal(load(t)->limits.max_calls, 2);
}

static void
test_drop_ins_come_after_by_name(void **state)
{
	struct fixture *t = *state;
	const struct config *c;

	put(t, "etc/eventd.conf", "[Daemon]\nBudget=1\nMaxCalls=1\n");
	put(t, "lib/eventd.conf.d/20-b.conf", "[Daemon]\nBudget=2\n");
	put(t, "etc/eventd.conf.d/10-a.conf",
		"[Daemon]\nBudget=3\nMaxTimers=3\n");
	put(t, "etc/eventd.conf.d/notes.txt", "not read");
	put(t, "etc/eventd.conf.d/.20-hidden.conf", "not read");
	c = load(t);
	assert_int_equal(c->limits.budget, 2);
	assert_int_equal(c->limits.max_timers, 3);
	assert_int_equal(c->limits.max_calls, 1);
	put(t, "etc/eventd.conf.d/20-b.conf", "[Daemon]\nMaxCalls=4\n");
	c = load(t);
	assert_int_equal(c->limits.budget, 3);
	assert_int_equal(c->limits.max_calls, 4);
}

static void
test_an_empty_file_or_dev_null_masks(void **state)
{
	struct fixture *t = *state;

	put(t, "lib/sessions.d/a.conf", "[Session]\nKind=client\n");
	put(t, "lib/sessions.d/b.conf", "[Session]\nKind=client\n");
	assert_int_equal(load(t)->n_specs, 2);
	put(t, "etc/sessions.d/a.conf", "");
	assert_int_equal(load(t)->n_specs, 1);
	assert_int_equal(symlink("/dev/null", files_path(&t->files,
						      "etc/sessions.d/b.conf")),
		0);
	assert_int_equal(load(t)->n_specs, 0);
}

static void
test_sessions_are_in_order_of_names(void **state)
{
	struct fixture *t = *state;
	const struct config *c;

	put(t, "etc/sessions.d/a-b.conf", "[Session]\nKind=client\n");
	put(t, "lib/sessions.d/b.conf", "[Session]\nKind=client\n");
	put(t, "etc/sessions.d/a.conf", "[Session]\nKind=client\n");
	c = load(t);
	assert_int_equal(c->n_specs, 3);
	assert_string_equal(c->specs[0]->name, "a");
	assert_string_equal(c->specs[1]->name, "a-b");
	assert_string_equal(c->specs[2]->name, "b");
}

static void
test_a_given_file_has_its_sessions_beside_it(void **state)
{
	struct fixture *t = *state;
	char path[256];

	put(t, "lib/sessions.d/vendor.conf", "[Session]\nKind=client\n");
	put(t, "here/my.conf", "[Daemon]\nBudget=5\n");
	put(t, "here/eventd.conf.d/a.conf", "[Daemon]\nMaxCalls=6\n");
	put(t, "here/sessions.d/a.conf", "[Session]\nKind=client\n");
	snprintf(path, sizeof(path), "%s/here/my.conf", t->files.root);
	t->source.file = path;
	load(t);
	assert_string_equal(t->config->file, path);
	assert_int_equal(t->config->limits.budget, 5);
	assert_int_equal(t->config->limits.max_calls, 6);
	assert_int_equal(t->config->n_specs, 1);
	strcat(path, "x");
	refused(t, "No such file or directory");
}

static void
test_sessions_directory_can_be_elsewhere(void **state)
{
	struct fixture *t = *state;
	char text[256];

	put(t, "etc/sessions.d/a.conf", "[Session]\nKind=client\n");
	put(t, "other/b.conf", "[Session]\nKind=client\n");
	snprintf(text, sizeof(text), "[Daemon]\nSessionsDirectory=%s/other\n",
		t->files.root);
	put(t, "etc/eventd.conf", text);
	load(t);
	assert_int_equal(t->config->n_specs, 1);
	assert_string_equal(t->config->specs[0]->name, "b");
	put(t, "etc/eventd.conf", "[Daemon]\nSessionsDirectory=/nowhere/x\n");
	refused(t, "SessionsDirectory=/nowhere/x cannot be read");
}

static void
test_options_win(void **state)
{
	struct fixture *t = *state;

	put(t, "etc/eventd.conf",
		"[Daemon]\nLoops=3\nSocket=/run/x.sock\nLogLevel=debug\n");
	t->source.loops = 2;
	t->source.socket = "/run/y.sock";
	t->source.log_level = "error";
	load(t);
	assert_int_equal(t->config->loops, 2);
	assert_string_equal(t->config->socket, "/run/y.sock");
	assert_int_equal(config_log_level(t->config), LOG_L_ERR);
	t->source.log_level = "loud";
	refused(t, "--log-level may be error, warning, info or debug");
}

static void
test_loops_auto_counts_cpus(void **state)
{
	struct fixture *t = *state;

	put(t, "etc/eventd.conf", "[Daemon]\nLoops=auto\n");
	assert_in_range(load(t)->loops, 1, KERNEL_LOOPS_MAX);
}

static void
test_socket_paths_have_a_limit(void **state)
{
	struct fixture *t = *state;
	char path[256], text[512];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	t->source.socket = path;
	assert_int_equal(strlen(load(t)->socket), 107);
	path[107] = 'x';
	path[108] = '\0';
	refused(t, "108 bytes, of at most 107");
	t->source.socket = NULL;
	snprintf(text, sizeof(text), "[Daemon]\nSocket=%s\n", path);
	put(t, "etc/eventd.conf", text);
	refused(t, "/eventd.conf:2:8: Socket= is too long");
	put(t, "etc/eventd.conf", "[Daemon]\nSocket=eventd.sock\n");
	refused(t, "absolute path");
}

static void
test_values_that_contradict_are_told(void **state)
{
	struct fixture *t = *state;

	put(t, "etc/eventd.conf", "[Daemon]\nMaxPayload=2M\nWindowBytes=1M\n");
	refused(t, "WindowBytes= (1048576) is below MaxPayload= (2097152)");
	put(t, "etc/eventd.conf", "[Daemon]\nMaxSessions=1\n");
	put(t, "etc/sessions.d/a.conf", "[Session]\nKind=client\n");
	put(t, "etc/sessions.d/b.conf", "[Session]\nKind=client\n");
	refused(t, "there are 2 session files and MaxSessions=1");
}

static void
test_an_alias_in_two_files_is_told(void **state)
{
	struct fixture *t = *state;

	put(t, "etc/sessions.d/a.conf", "[Session]\nKind=client\n");
	put(t, "etc/sessions.d/b.conf", "[Session]\nKind=client\nAlias=a\n");
	refused(t, "/b.conf:3:7: the alias 'a' is taken already by");
}

static void
test_file_names_that_cannot_be_sessions_are_told(void **state)
{
	struct fixture *t = *state;

	put(t, "etc/sessions.d/a b.conf", "[Session]\nKind=client\n");
	refused(t, "cannot name a session");
}

static void
test_loop_of_a_session_is_one_that_runs(void **state)
{
	struct fixture *t = *state;

	put(t, "etc/sessions.d/a.conf", "[Session]\nKind=client\nLoop=2\n");
	t->source.loops = 3;
	assert_int_equal(load(t)->specs[0]->loop, 2);
	t->source.running_loops = 2;
	refused(t, "Loop= is out of range: it may be 0 to 1");
}

static void
test_user_instance_is_in_xdg_places(void **state)
{
	struct fixture *t = *state;

	put(t, "home/eventd/eventd.conf", "[Daemon]\nBudget=5\n");
	t->source = (struct config_source){.user = true};
	setenv("XDG_CONFIG_HOME", files_path(&t->files, "home"), 1);
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	load(t);
	assert_int_equal(t->config->limits.budget, 5);
	assert_string_equal(
		t->config->socket, "/run/user/7/eventd/eventd.sock");
	unsetenv("XDG_RUNTIME_DIR");
	refused(t, "XDG_RUNTIME_DIR is not set");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("HOME");
	refused(t, "neither XDG_CONFIG_HOME nor HOME");
}

static void
test_fixed_keys_that_differ_are_named(void **state)
{
	struct fixture *t = *state;
	struct config *first;
	char text[128];

	load(t);
	first = t->config;
	t->config = NULL;
	put(t, "etc/eventd.conf",
		"[Daemon]\nLoops=2\nSocket=/run/z\nLogLevel=debug\n"
		"StopTimeout=1s\n");
	load(t);
	config_fixed_diff(first, t->config, text, sizeof(text));
	assert_string_equal(text, "Loops=, Socket=, LogLevel=");
	config_fixed_diff(first, first, text, sizeof(text));
	assert_string_equal(text, "");
	config_free(first);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_no_files_mean_defaults),
		T(test_all_daemon_keys_are_read),
		T(test_ours_masks_the_vendors_of_the_same_name),
		T(test_drop_ins_come_after_by_name),
		T(test_an_empty_file_or_dev_null_masks),
		T(test_sessions_are_in_order_of_names),
		T(test_a_given_file_has_its_sessions_beside_it),
		T(test_sessions_directory_can_be_elsewhere),
		T(test_options_win),
		T(test_loops_auto_counts_cpus),
		T(test_socket_paths_have_a_limit),
		T(test_values_that_contradict_are_told),
		T(test_an_alias_in_two_files_is_told),
		T(test_file_names_that_cannot_be_sessions_are_told),
		T(test_loop_of_a_session_is_one_that_runs),
		T(test_user_instance_is_in_xdg_places),
		T(test_fixed_keys_that_differ_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
