/* client/ctl/ctl.c, error.c, hint.c, help.c: eventctl without a daemon. */
#include "ctl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hint.h"

enum { MAX_WORDS = 16 };

/* A run of eventctl: its output, and a directory for sockets. */
struct fixture {
	FILE *out, *err;
	char *out_text, *err_text;
	size_t out_size, err_size;
	char dir[64], path[96];
	int fd;
};

static int
setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	x->out = open_memstream(&x->out_text, &x->out_size);
	x->err = open_memstream(&x->err_text, &x->err_size);
	strcpy(x->dir, "/tmp/ctl_test.XXXXXX");
	if (!mkdtemp(x->dir))
		return -1;
	snprintf(x->path, sizeof(x->path), "%s/sock", x->dir);
	x->fd = -1;
	unsetenv("XDG_RUNTIME_DIR");
	setenv("EVENTD_SOCKET", x->path, 1);
	*state = x;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *x = *state;

	fclose(x->out);
	fclose(x->err);
	free(x->out_text);
	free(x->err_text);
	if (x->fd >= 0)
		close(x->fd);
	unlink(x->path);
	rmdir(x->dir);
	free(x);
	return 0;
}

/* Run "eventctl LINE", words between spaces; the exit code. */
static int
run(struct fixture *x, const char *line)
{
	char copy[512], *rest = copy, *argv[MAX_WORDS], *word;
	int argc = 0, code;

	snprintf(copy, sizeof(copy), "eventctl %s", line);
	while ((word = strsep(&rest, " ")))
		argv[argc++] = word;
	argv[argc] = NULL;
	code = ctl_main(argc, argv, x->out, x->err);
	fflush(x->out);
	fflush(x->err);
	return code;
}

static void
assert_said(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("'%s' does not say '%s'", text, what);
}

static void
listen_at(struct fixture *x, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, x->path);
	x->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
		bind(x->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (backlog >= 0)
		assert_int_equal(listen(x->fd, backlog), 0);
}

static void
test_version_and_help_need_no_daemon(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(run(x, "--version"), 0);
	assert_string_equal(x->out_text, "eventctl " EVD_VERSION "\n");
	assert_int_equal(run(x, "help"), 0);
	assert_said(x->out_text, "call");
	assert_said(x->out_text, "124  timeout");
	assert_int_equal(run(x, "help post"), 0);
	assert_said(x->out_text, "--wait LEVEL");
	assert_int_equal(run(x, "bind --help"), 0);
	assert_said(x->out_text, "--exec COMMAND");
	assert_string_equal(x->err_text, "");
}

static void
test_usage_errors_end_with_64(void **state)
{
	static const char *const lines[] = {"", "nonsense", "help nonsense",
		"post", "post a", "post a/b! e", "post a e x y", "call a e -z",
		"cancel x", "cancel 0", "status a b", "status a!",
		"ping --count 0", "ping --count x", "bind a --count -1",
		"bind a --null", "bind a --raw --exec true",
		"bind a --exec x --reply-with y", "bind a --name=", "delay a e",
		"delay a e --in 1s --at @1", "delay a e --in x",
		"delay a e --at x", "delay a e --in 1s --every 0",
		"post a e --in 1s --lines", "post a e --in 1s --wait durable",
		"post a e --header x", "post a e --header a!=x",
		"post a e --wait now", "list --timeout 0",
		"list --timeout 100y", "list --timeout x",
		"list --user --system", "list --user", "list --color pink",
		"completion tcsh", "completion bash x", "restart a!"};
	struct fixture *x = *state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (run(x, lines[i]) != 64)
			fail_msg("eventctl %s: not 64", lines[i]);
	assert_string_equal(x->out_text, "");
}

static void
test_no_socket_is_69_and_says_what_to_do(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(run(x, "post thumbs resize"), 69);
	assert_said(x->err_text, "eventctl: post thumbs: ");
	assert_said(x->err_text, x->path);
	assert_int_equal(run(x, "--system list"), 69);
	assert_said(x->err_text, "systemctl start eventd.socket");
	assert_string_equal(x->out_text, "");
}

static void
test_nobody_listening_is_69(void **state)
{
	struct fixture *x = *state;

	listen_at(x, -1);
	assert_int_equal(run(x, "list"), 69);
	assert_said(x->err_text, x->path);
}

static void
test_a_mute_daemon_is_124(void **state)
{
	struct fixture *x = *state;

	listen_at(x, 5);
	assert_int_equal(run(x, "list --timeout 50ms"), 124);
	assert_said(x->err_text, x->path);
	assert_said(x->err_text, "--timeout SPAN");
}

static void
test_something_else_is_76(void **state)
{
	struct fixture *x = *state;
	int client;

	listen_at(x, 5);
	if (fork() == 0) {
		client = accept(x->fd, NULL, NULL);
		if (write(client, "\x03\xff\xff\xff", 4) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(run(x, "list --timeout 5s"), 76);
	assert_true(wait(NULL) > 0);
}

static void
test_a_long_path_is_64(void **state)
{
	struct fixture *x = *state;
	char line[256];

	snprintf(line, sizeof(line), "list --socket /%0150d", 7);
	assert_int_equal(run(x, line), 64);
}

static void
test_json_errors_are_objects(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(run(x, "--json post thumbs resize"), 69);
	assert_said(x->out_text, "{\"error\":{\"status\":\"unavailable\","
				 "\"code\":6,\"exit\":69,\"text\":");
	assert_true(json_check(x->out_text, NULL));
	assert_said(x->err_text, "eventctl: post thumbs: ");
}

static void
test_input_is_looked_at_before_the_daemon(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(run(x, "post a e --file /nonexistent"), 66);
	assert_int_equal(run(x, "post a e x:={"), 65);
}

static void
test_text_of_others_cannot_command_the_terminal(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(run(x, "post \033[2J e"), 64);
	assert_null(strchr(x->err_text, '\033'));
	assert_said(x->err_text, "\\x1b[2J");
}

static void
test_completions_need_no_daemon(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(run(x, "completion bash"), 0);
	assert_said(x->out_text, "complete -F _eventctl eventctl");
	assert_int_equal(run(x, "completion zsh"), 0);
	assert_said(x->out_text, "#compdef eventctl");
	assert_int_equal(run(x, "completion fish"), 0);
	assert_said(x->out_text, "complete -c eventctl");
	assert_int_equal(run(x, "completion aliases"), 0);
	assert_string_equal(x->err_text, "");
}

static void
test_completions_know_every_verb_and_option(void **state)
{
	struct fixture *x = *state;
	char word[64];

	assert_int_equal(run(x, "completion bash"), 0);
	for (const struct verb *v = verbs; v->name; v++)
		assert_said(x->out_text, v->name);
	for (int id = OPT_END + 1; id < N_OPTIONS; id++) {
		snprintf(word, sizeof(word), "--%s", option_specs[id].name);
		assert_said(x->out_text, word);
	}
}

static void
test_output_that_cannot_be_written_is_74(void **state)
{
	struct fixture *x = *state;
	char *argv[] = {(char *)"eventctl", (char *)"help", NULL};
	FILE *full = fopen("/dev/full", "w");

	assert_int_equal(ctl_main(2, argv, full, x->err), 74);
	fflush(x->err);
	assert_said(x->err_text, "No space left on device");
	fclose(full);
}

static void
test_hints_say_what_to_do(void **state)
{
	char hint[HINT_SIZE];
	struct fixture *x = *state;

	hint_for_status(EVD_STATUS_NO_ALIAS, "a", hint);
	assert_said(hint, "eventctl list");
	hint_for_status(EVD_STATUS_FAILED, "a", hint);
	assert_said(hint, "eventctl restart a");
	hint_for_status(EVD_STATUS_HANDLER, "a", hint);
	assert_string_equal(hint, "");
	hint_for_connect(EACCES, "/nonexistent/x", false, hint);
	assert_said(hint, "directory");
	hint_for_connect(ENOENT, "/x", true, hint);
	assert_said(hint, "systemctl --user start");
	listen_at(x, -1);
	assert_int_equal(chmod(x->path, 0600), 0);
	hint_for_connect(EACCES, x->path, false, hint);
	assert_said(hint, "only its owner");
	assert_int_equal(chmod(x->path, 0660), 0);
	if (geteuid() == 0 && chown(x->path, 0, 1) == 0) {
		hint_for_connect(EACCES, x->path, false, hint);
		assert_said(hint, "group daemon");
	}
}

static void
test_numbers_are_whole(void **state)
{
	uint64_t n;

	(void)state;
	assert_true(number_parse("18446744073709551615", &n));
	assert_true(n == UINT64_MAX);
	assert_false(number_parse("18446744073709551616", &n));
	assert_false(number_parse("", &n));
	assert_false(number_parse("1x", &n));
	assert_false(number_parse("-1", &n));
}

#define WITH_FIXTURE(test) \
	cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(test_version_and_help_need_no_daemon),
		WITH_FIXTURE(test_usage_errors_end_with_64),
		WITH_FIXTURE(test_no_socket_is_69_and_says_what_to_do),
		WITH_FIXTURE(test_nobody_listening_is_69),
		WITH_FIXTURE(test_a_mute_daemon_is_124),
		WITH_FIXTURE(test_something_else_is_76),
		WITH_FIXTURE(test_a_long_path_is_64),
		WITH_FIXTURE(test_json_errors_are_objects),
		WITH_FIXTURE(test_input_is_looked_at_before_the_daemon),
		WITH_FIXTURE(test_text_of_others_cannot_command_the_terminal),
		WITH_FIXTURE(test_completions_need_no_daemon),
		WITH_FIXTURE(test_completions_know_every_verb_and_option),
		WITH_FIXTURE(test_output_that_cannot_be_written_is_74),
		WITH_FIXTURE(test_hints_say_what_to_do),
		cmocka_unit_test(test_numbers_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
