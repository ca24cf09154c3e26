/* daemon/base/log.c */
#include "base/log.h"

#define SD_JOURNAL_SUPPRESS_LOCATION

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a journal of our own, and a stderr to read ------------------------ */

static struct {
	char text[16384]; /* fields, each with a newline */
	int result;
} journal;

/* Stands for libsystemd's. */
int
sd_journal_sendv(const struct iovec *iov, int n)
{
	size_t used = 0;

	for (int i = 0; i < n; i++) {
		memcpy(journal.text + used, iov[i].iov_base, iov[i].iov_len);
		used += iov[i].iov_len;
		journal.text[used++] = '\n';
	}
	journal.text[used] = '\0';
	return journal.result;
}

static struct {
	struct clock_fake clock;
	FILE *file;
	int saved_stderr;
	char text[65536];
} world;

static int
setup(void **state)
{
	(void)state;
	memset(&journal, 0, sizeof(journal));
	unsetenv("JOURNAL_STREAM");
	clock_fake_init(&world.clock);
	log_use_clock(&world.clock.source);
	world.file = tmpfile();
	world.saved_stderr = dup(STDERR_FILENO);
	dup2(fileno(world.file), STDERR_FILENO);
	log_init(LOG_L_INFO);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	dup2(world.saved_stderr, STDERR_FILENO);
	close(world.saved_stderr);
	fclose(world.file);
	log_use_clock(&clock_system);
	return 0;
}

/* Say that stderr is the journal's stream; @off: it was another one. */
static void
be_in_journal(unsigned off)
{
	struct stat st;
	char text[64];

	fstat(STDERR_FILENO, &st);
	snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)st.st_dev,
		(uintmax_t)st.st_ino + off);
	setenv("JOURNAL_STREAM", text, 1);
	log_init(LOG_L_INFO);
}

static const char *
logged(void)
{
	ssize_t n = pread(STDERR_FILENO, world.text, sizeof(world.text) - 1, 0);

	world.text[n > 0 ? n : 0] = '\0';
	return world.text;
}

static int
n_lines(void)
{
	int n = 0;

	for (const char *p = logged(); (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

static void
assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no \"%s\" in:\n%s", part, text);
}

/* One place in the code. */
static void
log_here(int i)
{
	log_warn("test.here", "i=%d", i);
}

/* ---- text -------------------------------------------------------------- */

static void
test_text_has_time_level_event_and_fields(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	clock_fake_advance(&world.clock, 45 * (uint64_t)NS_PER_MS);
	log_warn("conn.closed", "conn=%d reason=\"%s\"", 7, "went away");
	assert_string_equal(logged(), "08:00:00.045 warning conn.closed conn=7 "
				      "reason=\"went away\"\n");
	assert_string_equal(journal.text, "");
}

static void
test_below_the_level_nothing_is_told(void **state)
{
	(void)state;
	log_debug("test.detail", "i=%d", 1);
	assert_string_equal(logged(), "");
	log_init(LOG_L_DEBUG);
	log_debug("test.detail", "i=%d", 1);
	assert_has(logged(), "debug test.detail i=1\n");
	log_init(LOG_L_ERR);
	log_warn("test.warning", "i=%d", 2);
	assert_int_equal(n_lines(), 1);
	log_err("test.error", "i=%d", 3);
	assert_has(logged(), "error test.error i=3\n");
}

static void
test_an_event_without_fields_ends_at_its_name(void **state)
{
	(void)state;
	log_info("eventd.ready", "%s", "");
	assert_has(logged(), "info eventd.ready\n");
}

static void
test_a_long_line_is_cut_and_says_so(void **state)
{
	static char value[10000];

	(void)state;
	memset(value, 'x', sizeof(value) - 1);
	log_info("test.long", "value=%s after=%d", value, 1);
	assert_int_equal(n_lines(), 1);
	assert_true(strlen(logged()) < 2200);
	assert_has(logged(), "xxx...\n");
}

static void
test_a_value_cannot_forge_a_line(void **state)
{
	(void)state;
	log_info("test.forged", "name=\"%s\"", "x\n00:00:00 error all.lost");
	assert_int_equal(n_lines(), 1);
}

static void
test_errno_survives(void **state)
{
	(void)state;
	errno = ENOTTY;
	for (int i = 0; i < 2 * LOG_BURST; i++)
		log_here(i);
	assert_int_equal(errno, ENOTTY);
}

/* ---- limits ------------------------------------------------------------ */

static void
test_a_site_is_limited_and_says_what_was_left_out(void **state)
{
	(void)state;
	clock_fake_advance(&world.clock, NS_PER_S);
	for (int i = 0; i < LOG_BURST + 17; i++)
		log_here(i);
	assert_int_equal(n_lines(), LOG_BURST);
	clock_fake_advance(&world.clock, NS_PER_S);
	log_here(1000);
	assert_has(logged(), "test.here i=1000 suppressed=17\n");
	log_here(1001);
	assert_has(logged(), "test.here i=1001\n");
}

static void
test_sites_are_limited_apart(void **state)
{
	(void)state;
	clock_fake_advance(&world.clock, 10 * (uint64_t)NS_PER_S);
	for (int i = 0; i < 100; i++)
		log_here(i);
	log_warn("test.there", "i=%d", 1);
	assert_has(logged(), "test.there i=1\n");
}

static void *
flood(void *arg)
{
	struct log_site *site = arg;

	for (int i = 0; i < 1000; i++)
		log_at(site, LOG_L_WARN, "test.flood", "i=%d", i);
	return NULL;
}

static void
test_threads_share_a_sites_limit_and_count(void **state)
{
	struct log_site site = {0};
	pthread_t threads[4];
	char expected[64];

	(void)state;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, flood, &site);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	clock_fake_advance(&world.clock, NS_PER_S);
	log_at(&site, LOG_L_WARN, "test.flood", "i=%d", -1);
	snprintf(expected, sizeof(expected), "i=-1 suppressed=%d\n",
		4000 - LOG_BURST);
	assert_has(logged(), expected);
	assert_int_equal(n_lines(), LOG_BURST + 1);
}

/* ---- the journal ------------------------------------------------------- */

static void
test_the_journal_gets_fields(void **state)
{
	(void)state;
	be_in_journal(0);
	log_warn("conn.closed", "conn=%d peer_uid=%d reason=\"%s\"", 7, 1000,
		"it said \\\"bye\\\"");
	assert_string_equal(logged(), "");
	assert_has(journal.text, "MESSAGE=conn.closed conn=7 peer_uid=1000 "
				 "reason=\"it said \\\"bye\\\"\"\n");
	assert_has(journal.text, "\nPRIORITY=4\n");
	assert_has(journal.text, "\nMESSAGE_ID=");
	assert_has(journal.text, "\nSYSLOG_IDENTIFIER=eventd\n");
	assert_has(journal.text, "\nTID=");
	assert_has(journal.text, "\nEVENTD_LOG=conn.closed\n");
	assert_has(journal.text, "\nEVENTD_CONN=7\n");
	assert_has(journal.text, "\nEVENTD_PEER_UID=1000\n");
	assert_has(journal.text, "\nEVENTD_REASON=it said \"bye\"\n");
	assert_has(journal.text, "log_test.c\n"); /* CODE_FILE */
	assert_has(journal.text, "CODE_LINE=");
}

static void
test_the_journal_is_told_what_was_suppressed(void **state)
{
	(void)state;
	be_in_journal(0);
	clock_fake_advance(&world.clock, 20 * (uint64_t)NS_PER_S);
	for (int i = 0; i < LOG_BURST + 3; i++)
		log_here(i);
	clock_fake_advance(&world.clock, NS_PER_S);
	log_here(77);
	assert_has(journal.text, "MESSAGE=test.here i=77 suppressed=3\n");
	assert_has(journal.text, "\nEVENTD_I=77\n");
	assert_has(journal.text, "\nEVENTD_SUPPRESSED=3\n");
}

static void
test_a_long_line_reaches_the_journal_cut(void **state)
{
	static char value[10000];

	(void)state;
	memset(value, 'x', sizeof(value) - 1);
	be_in_journal(0);
	log_info("test.long", "first=%d value=%s", 1, value);
	assert_has(journal.text, "\nEVENTD_FIRST=1\n");
	assert_has(journal.text, "xxx...\n");
}

static void
test_without_journald_the_line_carries_its_priority(void **state)
{
	(void)state;
	be_in_journal(0);
	journal.result = -ENOENT;
	log_err("test.lost", "i=%d", 1);
	assert_string_equal(logged(), "<3>test.lost i=1\n");
}

static void
test_another_ones_stream_is_not_the_journal(void **state)
{
	static const char *const bad[] = {"", "1", "1:", ":2", "x:y", "-1:-1"};

	(void)state;
	be_in_journal(1);
	log_warn("test.text", "i=%d", 1);
	assert_int_equal(n_lines(), 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("JOURNAL_STREAM", bad[i], 1);
		log_init(LOG_L_INFO);
		log_warn("test.text", "i=%d", 1);
	}
	assert_int_equal(n_lines(), 7);
	assert_string_equal(journal.text, "");
}

/* A reader that does not read. */
static void
test_a_full_pipe_makes_nobody_wait(void **state)
{
	char bytes[4096] = {0};
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	while (write(fds[1], bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0); /* it would block */
	dup2(fds[1], STDERR_FILENO);
	for (int i = 0; i < 3; i++)
		log_here(i);
	while (read(fds[0], bytes, sizeof(bytes)) > 0)
		;
	log_here(3);
	memset(bytes, 0, sizeof(bytes));
	assert_true(read(fds[0], bytes, sizeof(bytes) - 1) > 0);
	assert_has(bytes, "test.here i=3 suppressed=3\n");
	close(fds[0]);
	close(fds[1]);
}

static void
test_level_words(void **state)
{
	enum log_level level = LOG_L_ERR;

	(void)state;
	assert_true(log_level_from("debug", &level));
	assert_int_equal(level, LOG_L_DEBUG);
	assert_true(log_level_from("warning", &level));
	assert_int_equal(level, LOG_L_WARN);
	assert_true(log_level_from("info", &level));
	assert_int_equal(level, LOG_L_INFO);
	assert_true(log_level_from("error", &level));
	assert_int_equal(level, LOG_L_ERR);
	assert_false(log_level_from("loud", &level));
	assert_false(log_level_from("", &level));
	assert_int_equal(level, LOG_L_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_text_has_time_level_event_and_fields),
		TEST(test_below_the_level_nothing_is_told),
		TEST(test_an_event_without_fields_ends_at_its_name),
		TEST(test_a_long_line_is_cut_and_says_so),
		TEST(test_a_value_cannot_forge_a_line),
		TEST(test_errno_survives),
		TEST(test_a_site_is_limited_and_says_what_was_left_out),
		TEST(test_sites_are_limited_apart),
		TEST(test_threads_share_a_sites_limit_and_count),
		TEST(test_the_journal_gets_fields),
		TEST(test_the_journal_is_told_what_was_suppressed),
		TEST(test_a_long_line_reaches_the_journal_cut),
		TEST(test_without_journald_the_line_carries_its_priority),
		TEST(test_another_ones_stream_is_not_the_journal),
		TEST(test_a_full_pipe_makes_nobody_wait),
		TEST(test_level_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
