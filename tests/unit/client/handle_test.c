/* Handles: settings, the choice of the socket, errors, words. */
#include "client/fake.h"

static int
setup(void **state)
{
	unsetenv("EVENTD_SOCKET");
	unsetenv("XDG_RUNTIME_DIR");
	*state = evd_new();
	return *state ? 0 : -1;
}

static int
teardown(void **state)
{
	evd_free(*state);
	return 0;
}

static char *
path_of(char *out, size_t size)
{
	memset(out, 'p', size);
	out[0] = '/';
	out[size] = '\0';
	return out;
}

static void
test_socket_choice(void **state)
{
	struct evd *c = *state;

	assert_string_equal(evd_socket(c), "/run/eventd/eventd.sock");
	setenv("EVENTD_SOCKET", "/tmp/env.sock", 1);
	assert_string_equal(evd_socket(c), "/tmp/env.sock");
	assert_int_equal(evd_set_socket(c, "/tmp/explicit.sock"), 0);
	assert_string_equal(evd_socket(c), "/tmp/explicit.sock");
	assert_int_equal(evd_set_socket(c, NULL), 0);
	assert_string_equal(evd_socket(c), "/tmp/env.sock");
	assert_int_equal(evd_set_user_socket(c, false), 0);
	assert_string_equal(evd_socket(c), "/run/eventd/eventd.sock");
	assert_int_equal(evd_set_user_socket(c, true), -ENOENT);
	assert_non_null(strstr(evd_last_error(c), "XDG_RUNTIME_DIR"));
	setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
	assert_int_equal(evd_set_user_socket(c, true), 0);
	assert_string_equal(evd_socket(c), "/run/user/1/eventd/eventd.sock");
	assert_int_equal(evd_set_socket(c, ""), -EINVAL);
}

/* B67: the longest path that the system takes is taken, none is cut. */
static void
test_socket_path_too_long(void **state)
{
	struct evd *c = *state;
	char path[256];

	assert_int_equal(evd_set_socket(c, path_of(path, 107)), 0);
	assert_string_equal(evd_socket(c), path);
	assert_int_equal(evd_set_socket(c, path_of(path, 108)), -ENAMETOOLONG);
	assert_non_null(strstr(evd_last_error(c), "108 bytes"));
	assert_non_null(strstr(evd_last_error(c), "107"));
	assert_int_equal(evd_last_status(c), EVD_STATUS_INVALID);
	assert_int_equal(evd_set_socket(c, path_of(path, 200)), -ENAMETOOLONG);
	assert_int_equal(evd_set_socket(c, NULL), 0);
	setenv("EVENTD_SOCKET", path, 1);
	assert_int_equal(evd_connect(c, 0), -ENAMETOOLONG);
	assert_non_null(strstr(evd_last_error(c), "EVENTD_SOCKET"));
	assert_null(evd_socket(c));
	setenv("XDG_RUNTIME_DIR", path, 1);
	assert_int_equal(evd_set_user_socket(c, true), -ENAMETOOLONG);
}

static void
test_settings_are_checked(void **state)
{
	struct evd *c = *state;
	char name[200];

	memset(name, 'n', sizeof(name));
	name[128] = '\0';
	assert_int_equal(evd_set_name(c, name), -EINVAL);
	name[127] = '\0';
	assert_int_equal(evd_set_name(c, name), 0);
	assert_int_equal(evd_set_name(c, ""), -EINVAL);
	assert_int_equal(evd_set_name(c, NULL), -EINVAL);
	assert_int_equal(evd_set_name(c, "a\nb"), -EINVAL);
	assert_int_equal(evd_set_reconnect(c, 0, 5), -EINVAL);
	assert_int_equal(evd_set_reconnect(c, 5, 4), -EINVAL);
	assert_int_equal(evd_set_reconnect(c, -1, 4), -EINVAL);
	assert_int_equal(evd_set_reconnect(c, 5, 5), 0);
	assert_int_equal(evd_set_reconnect(c, 0, 0), 0);
	assert_int_equal(evd_set_timeout(c, 0), -EINVAL);
	assert_int_equal(evd_set_timeout(c, -2), -EINVAL);
	assert_int_equal(evd_set_timeout(c, -1), 0);
	assert_int_equal(evd_set_max_queued(c, 65535), -EINVAL);
	assert_int_equal(evd_set_max_queued(c, 65536), 0);
}

static void
test_not_connected_is_told(void **state)
{
	struct evd *c = *state;
	struct evd_event *reply;
	const struct evd_event *ev;
	uint64_t id;

	assert_int_equal(evd_post(c, "a", "e", "x", 1), -ENOTCONN);
	assert_non_null(strstr(evd_last_error(c), "evd_connect()"));
	assert_int_equal(evd_last_status(c), EVD_STATUS_UNAVAILABLE);
	assert_int_equal(evd_post_wait(c, "a", "e", "x", 1, NULL), -ENOTCONN);
	assert_int_equal(evd_call(c, "a", "e", "x", 1, 0, &reply), -ENOTCONN);
	assert_int_equal(evd_call_start(c, "a", "e", "x", 1, 0), -ENOTCONN);
	assert_int_equal(evd_bind(c, "a", 0, 0), -ENOTCONN);
	assert_int_equal(evd_bind_start(c, "a", 0, 0), -ENOTCONN);
	assert_int_equal(evd_resolve(c, "a", &id), -ENOTCONN);
	assert_int_equal(evd_delay(c, "a", "e", "x", 1, 1), -ENOTCONN);
	assert_int_equal(evd_cancel(c, 1), -ENOTCONN);
	assert_int_equal(evd_flush(c), -ENOTCONN);
	assert_int_equal(evd_drain(c, 0), -ENOTCONN);
	assert_int_equal(evd_wait(c, -1), -ENOTCONN);
	assert_int_equal(evd_process(c), -ENOTCONN);
	assert_int_equal(evd_next(c, &ev), 0);
	assert_int_equal(evd_events(c), 0);
	assert_int_equal(evd_timeout_ms(c), -1);
	assert_int_equal(evd_close(c), 0);
}

static void
test_words(void **state)
{
	(void)state;
	assert_string_equal(evd_version(), EVD_VERSION);
	assert_string_equal(evd_status_word(EVD_STATUS_NO_ALIAS), "no-alias");
	assert_string_equal(evd_status_word(-5), "unknown");
	assert_int_equal(evd_status_errno(EVD_STATUS_TAKEN), EADDRINUSE);
	assert_int_equal(evd_status_errno(12345), EIO);
	assert_int_equal(evd_status_exit(EVD_STATUS_TIMEOUT), 124);
	assert_int_equal(evd_status_from_errno(-ENOENT), EVD_STATUS_NO_ALIAS);
	assert_int_equal(evd_status_from_errno(9999), EVD_STATUS_INTERNAL);
	assert_string_equal(
		evd_event_type_name(EVD_POST_SETTLED), "post-settled");
	assert_string_equal(evd_event_type_name(0), "unknown");
	assert_string_equal(evd_event_type_name(12), "unknown");
	assert_string_equal(
		evd_counter_name(EVD_COUNTER_DEAD_LETTERED), "dead_lettered");
	assert_null(evd_counter_name(EVD_N_COUNTERS));
	assert_null(evd_counter_name(-1));
	assert_string_equal(evd_last_error(NULL), "out of memory");
	assert_int_equal(evd_last_status(NULL), EVD_STATUS_NO_MEMORY);
	assert_null(evd_free(NULL));
}

int
main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		FRESH(test_socket_choice),
		FRESH(test_socket_path_too_long),
		FRESH(test_settings_are_checked),
		FRESH(test_not_connected_is_told),
		FRESH(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
