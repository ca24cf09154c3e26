/* Session files: what they mean, and what is said about wrong ones. */
#include "config_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/calendar.h"
#include "config_files.h"
#include "kernel/claim.h"
#include "kernel/delays.h"
#include "kernel/spec.h"
#include "kernel/stall.h"

struct fixture {
	struct files files;
	struct config_aliases aliases;
	struct config_errors errors;
	struct config_session session;
};

static int
setup(void **state)
{
	struct fixture *t = calloc(1, sizeof(*t));

	files_make(&t->files);
	t->session.aliases = &t->aliases;
	t->session.n_loops = 2;
	files_put(&t->files, "s.lua", "return {}\n");
	*state = t;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *t = *state;

	spec_unref(t->session.spec);
	config_aliases_deinit(&t->aliases);
	config_errors_deinit(&t->errors);
	files_remove(&t->files);
	free(t);
	return 0;
}

static struct session_spec *
read_named(struct fixture *t, const char *name, const char *path)
{
	t->session.spec = spec_unref(t->session.spec);
	assert_int_equal(
		config_session_read(path, name, &t->session, &t->errors), 0);
	return t->session.spec;
}

static struct session_spec *
read_text(struct fixture *t, const char *text)
{
	return read_named(t, "s", files_put(&t->files, "s.conf", text));
}

/* The only error is "FILE:@place: ...", with @part in it. */
static void
one_error(struct fixture *t, const char *place, const char *part)
{
	char start[600];

	snprintf(start, sizeof(start),
		"%s:%s: ", files_path(&t->files, "s.conf"), place);
	if (t->errors.n != 1)
		for (size_t i = 0; i < t->errors.n; i++)
			print_error("%s\n", t->errors.lines[i]);
	assert_int_equal(t->errors.n, 1);
	if (strncmp(t->errors.lines[0], start, strlen(start)) != 0 ||
		!strstr(t->errors.lines[0], part))
		fail_msg("not '%s...%s' but '%s'", start, part,
			t->errors.lines[0]);
	config_errors_deinit(&t->errors);
}

static void
no_errors(struct fixture *t)
{
	for (size_t i = 0; i < t->errors.n; i++)
		print_error("%s\n", t->errors.lines[i]);
	assert_int_equal(t->errors.n, 0);
}

static void
wrong(struct fixture *t, const char *text, const char *place, const char *part)
{
	read_text(t, text);
	one_error(t, place, part);
}

#define GOOD "[Session]\nKind=lua\nScript=s.lua\n"

static void
test_all_keys_are_read(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s =
		read_text(t, "# a comment\n"
			     "[Session]\n"
			     "Alias=a b/c\n"
			     "Alias = d\n"
			     "Kind=lua\n"
			     "Script=s.lua\n"
			     "AllowReplace=yes\n"
			     "ManageOthers=yes\n"
			     "Restart=always\n"
			     "RestartSec=2s\n"
			     "RestartMaxSec=1min\n"
			     "RestartBurst=3\n"
			     "RestartWindowSec=5min\n"
			     "MemoryMax=1M\n"
			     "HandlerTimeout=250ms\n"
			     "Concurrency=7\n"
			     "Loop=1\n"
			     "; another\n"
			     "\n"
			     "[Mailbox]\n"
			     "MaxEvents=10\n"
			     "MaxBytes=4K\n"
			     "Overflow=refuse tick:drop-oldest  "
			     "log.*:drop-newest\n"
			     "HighWater=80%\n"
			     "LowWater=10%\n"
			     "WaterAlias=ops\n"
			     "DeadLetter=grave\n"
			     "[Params]\n"
			     "greeting=Hello ; world # all\n"
			     "  indented =  yes  \n"
			     "empty=\n");

	no_errors(t);
	assert_int_equal(s->n_aliases, 3);
	assert_string_equal(s->aliases[1], "b/c");
	assert_string_equal(s->aliases[2], "d");
	assert_string_equal(s->kind, "lua");
	assert_string_equal(s->path, files_path(&t->files, "s.lua"));
	assert_string_equal(s->name, "s");
	assert_string_equal(s->origin, files_path(&t->files, "s.conf"));
	assert_true(s->allow_replace);
	assert_true(s->manage_others);
	assert_int_equal(s->restart, RESTART_ALWAYS);
	assert_int_equal(s->restart_ms, 2000);
	assert_int_equal(s->restart_max_ms, 60000);
	assert_int_equal(s->restart_burst, 3);
	assert_int_equal(s->restart_window_ms, 300000);
	assert_int_equal(s->memory_max, 1 << 20);
	assert_int_equal(s->handler_ms, 250);
	assert_int_equal(s->concurrency, 7);
	assert_int_equal(s->loop, 1);
	assert_int_equal(s->max_events, 10);
	assert_int_equal(s->max_bytes, 4096);
	assert_int_equal(s->overflow, OVERFLOW_REFUSE);
	assert_int_equal(s->n_rules, 2);
	assert_int_equal(spec_overflow(s, "tick"), OVERFLOW_DROP_OLDEST);
	assert_int_equal(spec_overflow(s, "log.x"), OVERFLOW_DROP_NEWEST);
	assert_int_equal(spec_overflow(s, "other"), OVERFLOW_REFUSE);
	assert_int_equal(s->high.percent, 80);
	assert_int_equal(s->low.percent, 10);
	assert_string_equal(s->water_alias, "ops");
	assert_string_equal(s->dead_letter, "grave");
	assert_string_equal(spec_param(s, "greeting"), "Hello ; world # all");
	assert_string_equal(spec_param(s, "indented"), "yes");
	assert_string_equal(spec_param(s, "empty"), "");
}

static void
test_defaults_hold_for_what_is_left_out(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s = read_text(t, GOOD);

	no_errors(t);
	assert_int_equal(s->n_aliases, 1);
	assert_string_equal(s->aliases[0], "s"); /* the file's name */
	assert_int_equal(s->restart, RESTART_ON_FAILURE);
	assert_int_equal(s->max_events, SPEC_MAX_EVENTS);
	assert_int_equal(s->loop, -1);
	assert_int_equal(s->overflow, OVERFLOW_BLOCK);
	assert_int_equal(s->high.events + s->high.percent, 0);
	assert_null(s->dead_letter);
}

static void
test_a_client_kind_needs_no_program(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s =
		read_text(t, "[Session]\nKind=client\nAlias=jobs\n");

	no_errors(t);
	assert_string_equal(s->kind, "client");
	assert_null(s->path);
}

static void
test_a_mode_is_that_of_a_client_kind(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s = read_text(
		t, "[Session]\nKind=client\nAlias=jobs\nMode=shared\n");

	no_errors(t);
	assert_int_equal(s->mode, BIND_SHARED);
	wrong(t, GOOD "Mode=fanout\n", "4:6", "Kind=client");
	wrong(t, "[Session]\nKind=client\nMode=fannout\n", "3:6", "fanout");
	wrong(t, GOOD "[Mailbox]\nOverflow=disconnect\n", "5:10",
		"not 'disconnect'");
}

static void
test_a_file_says_what_its_session_binds(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *s = read_text(
		t, GOOD "Bind=jobs:shared:4  news:fanout\nBind=more:shared\n");
	char many[512] = GOOD "Bind=";
	uint64_t digest;

	no_errors(t);
	digest = s->digest;
	assert_int_equal(s->n_binds, 3);
	assert_string_equal(s->binds[0].alias, "jobs");
	assert_int_equal(s->binds[0].mode, BIND_SHARED);
	assert_int_equal(s->binds[0].window, 4);
	assert_int_equal(s->binds[1].mode, BIND_FANOUT);
	assert_string_equal(s->binds[2].alias, "more");
	assert_int_equal(s->binds[2].window, 0);
	s = read_text(
		t, GOOD "Bind=jobs:shared:5 news:fanout\nBind=more:shared\n");
	assert_true(s->digest != digest);
	wrong(t, GOOD "Bind=ok:shared jobs\n", "4:16", "jobs:shared:4");
	wrong(t, GOOD "Bind=jobs:exclusive\n", "4:6", "jobs:shared:4");
	wrong(t, GOOD "Bind=jobs:shared:\n", "4:6", "jobs:shared:4");
	wrong(t, GOOD "Bind=jobs:shared:0\n", "4:6", "1 to 65535");
	wrong(t, GOOD "Bind=jobs:shared:65536\n", "4:6", "1 to 65535");
	wrong(t, GOOD "Bind=jobs:shared:-1\n", "4:6", "1 to 65535");
	wrong(t, GOOD "Bind=news:fanout:3\n", "4:6", "news:fanout");
	wrong(t, GOOD "Bind=:fanout\n", "4:6", "news:fanout");
	wrong(t, GOOD "Bind=a:fanout a:shared\n", "4:15", "'a' twice");
	wrong(t, GOOD "Alias=a\nBind=a:fanout\n", "5:6", "alone");
	wrong(t, "[Session]\nKind=client\nBind=a:fanout\n", "3:6",
		"Kind=client");
	for (int i = 0; i <= SPEC_BINDS_MAX; i++)
		sprintf(many + strlen(many), "a%d:fanout ", i);
	strcat(many, "\n");
	wrong(t, many, "4:172", "at most 16");
}

static void
test_state_goes_with_one_handler_at_a_time(void **state)
{
	struct fixture *t = *state;

	read_text(t, GOOD "Concurrency=1\n[Mailbox]\nDurableState=1M\n");
	no_errors(t);
	read_text(t, GOOD "Concurrency=2\n[Mailbox]\nDurable=yes\n");
	no_errors(t);
	wrong(t, GOOD "Concurrency=2\n[Mailbox]\nDurableState=1M\n", "6:14",
		"one handler at a time");
}

static void
test_only_scripts_can_be_stopped(void **state)
{
	struct fixture *t = *state;

	assert_int_equal(
		read_text(t, GOOD "OnStall=stop\n")->on_stall, STALL_STOP);
	no_errors(t);
	assert_int_equal(
		read_text(t, GOOD "OnStall=move\n")->on_stall, STALL_MOVE);
	no_errors(t);
	wrong(t, "[Session]\nKind=client\nOnStall=stop\n", "3:9",
		"OnStall=stop is for Kind=lua");
	wrong(t, GOOD "OnStall=kill\n", "4:9", "kill");
}

static void
test_crlf_and_bom_are_taken(void **state)
{
	struct fixture *t = *state;

	read_text(t, "\xef\xbb\xbf[Session]\r\nKind=lua\r\nScript=s.lua\r\n");
	no_errors(t);
}

static void
test_wrong_keys_are_told_with_a_hint(void **state)
{
	struct fixture *t = *state;

	wrong(t, GOOD "Scirpt=s.lua\n", "4:1",
		"unknown key Scirpt= in [Session]; did you mean Script=?");
	wrong(t, GOOD "Wetter=s.lua\n", "4:1", "unknown key Wetter=");
	wrong(t, GOOD "MaxEvents=1\n", "4:1", "it belongs in [Mailbox]");
	wrong(t, GOOD "Loops=1\n", "4:1", "belongs in eventd.conf");
	wrong(t, GOOD "Kind=lua\n", "4:1", "on line 2 already");
	wrong(t, GOOD "[Params]\na=1\na=2\n", "6:1", "already");
}

static void
test_wrong_sections_are_told_with_a_hint(void **state)
{
	struct fixture *t = *state;

	wrong(t, GOOD "[Mialbox]\nMaxEvents=1\n", "4:1",
		"unknown section [Mialbox]; did you mean [Mailbox]?");
	wrong(t, GOOD "[Weather]\n", "4:1",
		"there are Session, Mailbox, Schedule, Params or Access");
	wrong(t, GOOD "[Daemon]\n", "4:1", "belongs in eventd.conf");
	wrong(t, GOOD "[Params] x\n", "4:1", "alone on its line");
	wrong(t, GOOD "[Params\n", "4:1", "alone on its line");
	wrong(t, GOOD "[]\n", "4:1", "unknown section []");
}

static void
test_wrong_lines_are_told(void **state)
{
	struct fixture *t = *state;

	wrong(t, "Kind=lua\n" GOOD, "1:1", "outside a section");
	wrong(t, GOOD "what\n", "4:5", "expected KEY=VALUE");
	wrong(t, GOOD "=x\n", "4:1", "expected KEY=VALUE");
	wrong(t, GOOD "Loop: 1\n", "4:5", "expected KEY=VALUE");
	wrong(t, GOOD "Alias=a \\\n", "4:9", "not continued");
	wrong(t, GOOD "Loop=\n", "4:6", "has no value");
}

static void
test_wrong_values_say_what_is_allowed(void **state)
{
	struct fixture *t = *state;

	wrong(t, GOOD "Restart=maybe\n", "4:9",
		"may be no, on-failure or always, not 'maybe'");
	wrong(t, GOOD "RestartSec=soon\n", "4:12", "a time span such as");
	wrong(t, GOOD "RestartSec=0\n", "4:12", "it may be 1ms to 1d");
	wrong(t, GOOD "MemoryMax=much\n", "4:11", "a size such as");
	wrong(t, GOOD "MemoryMax=9T\n", "4:11", "0 to 1T");
	wrong(t, GOOD "Loop=2\n", "4:6", "0 to 1");
	wrong(t, GOOD "Alias=ok n\xc3\xb6\n", "4:10", "not a valid alias");
	wrong(t, GOOD "[Mailbox]\nOverflow = drop\n", "5:12", "not 'drop'");
	wrong(t, GOOD "[Mailbox]\nOverflow=drop-oldst\n", "5:10",
		"did you mean drop-oldest?");
	wrong(t, GOOD "[Mailbox]\nOverflow=block a:b\n", "5:16", "not 'a:b'");
	wrong(t, GOOD "[Mailbox]\nOverflow=block refuse\n", "5:16",
		"EVENT: before 'refuse'");
	wrong(t, GOOD "[Mailbox]\nOverflow=a?:refuse\n", "5:10",
		"'a?' cannot be an event's name");
	wrong(t, GOOD "[Mailbox]\nHighWater=much\n", "5:11",
		"a number of events");
	wrong(t, GOOD "[Mailbox]\nHighWater=101%\n", "5:11", "1% to 100%");
	wrong(t, GOOD "[Mailbox]\nHighWater=0\n", "5:11", "1 to 100000000");
	wrong(t, GOOD "[Mailbox]\nLowWater=1\n", "5:10", "needs HighWater=");
	wrong(t, GOOD "[Mailbox]\nHighWater=5\nLowWater=5\n", "6:10",
		"below HighWater=");
	wrong(t, GOOD "[Mailbox]\nHighWater=50%\nLowWater=5\n", "6:10", "both");
	wrong(t, GOOD "[Mailbox]\nMaxEvents=4\nHighWater=5\n", "6:11",
		"never reach");
	wrong(t, GOOD "[Mailbox]\nDeadLetter=a b\n", "5:12",
		"not a valid alias");
	wrong(t, GOOD "[Mailbox]\nMaxEvents=0\n", "5:11", "1 to 100000000");
	wrong(t, GOOD "RestartSec=1min\nRestartMaxSec=1s\n", "5:15",
		"below RestartSec=");
	wrong(t, "[Session]\nKind=perl\n", "2:6",
		"there is no kind 'perl'; there are");
}

static void
test_kind_and_program_must_match(void **state)
{
	struct fixture *t = *state;

	wrong(t, "[Session]\nAlias=a\n", "1:1", "needs Kind=");
	wrong(t, "", "1:1", "needs Kind=");
	wrong(t, "[Session]\nKind=lua\n", "2:6", "needs Script=");
	wrong(t, "[Session]\nKind=native\n", "2:6", "needs Plugin=");
	wrong(t, GOOD "Plugin=x.so\n", "4:8", "no meaning with Kind=lua");
	wrong(t, "[Session]\nKind=client\nScript=s.lua\n", "3:8",
		"no meaning with Kind=client");
}

static void
test_all_errors_are_told_at_once(void **state)
{
	struct fixture *t = *state;

	read_text(t, "[Session]\nKynd=lua\nLoop=x\nwhat\n[Mailbox]\nLoop=1\n");
	assert_int_equal(t->errors.n, 5); /* and Kind= is missing */
}

static void
test_scripts_that_cannot_be_used_are_told(void **state)
{
	struct fixture *t = *state;

	wrong(t, "[Session]\nKind=lua\nScript=none.lua\n", "3:8",
		"No such file or directory");
	wrong(t, "[Session]\nKind=lua\nScript=/\n", "3:8", "Is a directory");
	wrong(t, "[Session]\nKind=lua\nScript=/dev/null\n", "3:8",
		"not a regular file");
	assert_int_equal(chmod(files_path(&t->files, "s.lua"), 0666), 0);
	wrong(t, GOOD, "3:8", "anyone may write to it");
}

static void
test_files_open_to_anyone_are_refused(void **state)
{
	struct fixture *t = *state;
	const char *path = files_put(&t->files, "s.conf", GOOD);

	assert_int_equal(chmod(path, 0646), 0);
	read_named(t, "s", path);
	one_error(t, "1:1", "anyone may write");
}

static void
test_bytes_that_are_no_text_are_told(void **state)
{
	static const char nul[] = GOOD "Alias=a\0b\n";
	struct fixture *t = *state;

	read_named(t, "s",
		files_put_bytes(&t->files, "s.conf", nul, sizeof(nul) - 1));
	one_error(t, "4:8", "byte 0x00");
	wrong(t, GOOD "[Params]\nx=\xff\n", "5:3", "byte 0xff");
	wrong(t, GOOD "[Params]\nx=\x1b[0m\n", "5:3", "byte 0x1b");
}

static void
test_long_lines_are_taken_up_to_the_limit(void **state)
{
	struct fixture *t = *state;
	char *text = malloc(8192), *end = stpcpy(text, GOOD "[Params]\nx=");
	const struct session_spec *s;

	memset(end, 'y', CONFIG_LINE_MAX - 2);
	strcpy(end + CONFIG_LINE_MAX - 2, "\n");
	s = read_text(t, text);
	no_errors(t);
	assert_int_equal(strlen(spec_param(s, "x")), CONFIG_LINE_MAX - 2);
	strcpy(end + CONFIG_LINE_MAX - 2, "y\n");
	wrong(t, text, "5:1", "at most 4096 are read");
	free(text);
}

static void
test_huge_files_are_refused(void **state)
{
	struct fixture *t = *state;
	char *text = malloc(CONFIG_FILE_MAX + 1);

	memset(text, '\n', CONFIG_FILE_MAX + 1);
	memcpy(text, GOOD, strlen(GOOD));
	read_named(t, "s",
		files_put_bytes(&t->files, "s.conf", text, CONFIG_FILE_MAX));
	no_errors(t);
	read_named(t, "s",
		files_put_bytes(
			&t->files, "s.conf", text, CONFIG_FILE_MAX + 1));
	one_error(t, "1:1", "over its limit");
	free(text);
}

static void
test_many_errors_are_counted_not_kept(void **state)
{
	struct fixture *t = *state;
	char *text = malloc(100000), *end = stpcpy(text, GOOD);
	char *all;

	for (unsigned i = 0; i < CONFIG_ERRORS_MAX + 23; i++)
		end = stpcpy(end, "nonsense\n");
	read_text(t, text);
	assert_int_equal(t->errors.n, CONFIG_ERRORS_MAX);
	assert_int_equal(t->errors.n_left_out, 23);
	all = config_errors_text(&t->errors);
	assert_non_null(strstr(all, "\nand 23 more"));
	free(all);
	free(text);
}

static void
test_an_alias_given_twice_is_told_with_both_places(void **state)
{
	struct fixture *t = *state;
	char want[2048];

	read_text(t, GOOD "Alias=x jobs\n");
	read_named(t, "t",
		files_put(&t->files, "t.conf", GOOD "Alias=y\nAlias=jobs\n"));
	no_errors(t);
	config_aliases_check(&t->aliases, &t->errors);
	assert_int_equal(t->errors.n, 1);
	snprintf(want, sizeof(want),
		"%s:5:7: the alias 'jobs' is taken already by %s:4:9; an alias "
		"names one session, others can wait for it (IfTaken=queue)",
		files_path(&t->files, "t.conf"),
		files_path(&t->files, "s.conf"));
	assert_string_equal(t->errors.lines[0], want);
}

/* Others may wait for it, whichever is read first. */
static void
test_an_alias_may_be_waited_for(void **state)
{
	struct fixture *t = *state;

	read_named(t, "a",
		files_put(&t->files, "a.conf",
			GOOD "IfTaken=queue\nAlias=jobs x\n"));
	assert_int_equal(t->session.spec->if_taken, CLAIM_QUEUE);
	read_text(t, GOOD "Alias=jobs\n");
	assert_int_equal(t->session.spec->if_taken, CLAIM_REFUSE);
	read_named(t, "t",
		files_put(&t->files, "t.conf",
			GOOD "Alias=jobs\nIfTaken=replace\n"));
	config_aliases_check(&t->aliases, &t->errors);
	no_errors(t);
	read_named(t, "u", files_put(&t->files, "u.conf", GOOD "Alias=jobs\n"));
	config_aliases_check(&t->aliases, &t->errors);
	assert_int_equal(t->errors.n, 1);
	assert_non_null(strstr(t->errors.lines[0], "u.conf"));
	assert_non_null(strstr(t->errors.lines[0], "s.conf"));
	config_errors_deinit(&t->errors);
	wrong(t, GOOD "IfTaken=maybe\n", "4:9", "refuse, queue or replace");
}

static uint64_t
digest_of(struct fixture *t, const char *text)
{
	const struct session_spec *s = read_text(t, text);

	no_errors(t);
	return s->digest;
}

static void
test_digest_changes_with_every_field_and_the_script(void **state)
{
	static const char *const others[] = {GOOD "Alias=a\n",
		GOOD "Alias=a b\n", GOOD "Restart=no\n", GOOD "RestartSec=2\n",
		GOOD "RestartMaxSec=2\n", GOOD "RestartBurst=2\n",
		GOOD "RestartWindowSec=2\n", GOOD "MemoryMax=2\n",
		GOOD "HandlerTimeout=2\n", GOOD "Concurrency=2\n",
		GOOD "Loop=0\n", GOOD "Loop=1\n",
		GOOD "[Mailbox]\nMaxEvents=2\n", GOOD "[Mailbox]\nMaxBytes=2\n",
		GOOD "[Mailbox]\nOverflow=refuse\n",
		GOOD "[Mailbox]\nOverflow=a:refuse\n",
		GOOD "[Mailbox]\nOverflow=b:refuse\n",
		GOOD "[Mailbox]\nHighWater=9\n",
		GOOD "[Mailbox]\nHighWater=9%\n",
		GOOD "[Mailbox]\nHighWater=9%\nLowWater=2%\n",
		GOOD "[Mailbox]\nWaterAlias=a\n",
		GOOD "[Mailbox]\nDeadLetter=a\n", GOOD "[Params]\na=1\n",
		GOOD "[Params]\na=2\n", GOOD "[Params]\na1=\n",
		GOOD "[Schedule]\na=daily\n", GOOD "[Schedule]\na=hourly\n",
		GOOD "[Schedule]\na=daily\nZone=UTC\n",
		GOOD "[Schedule]\na=daily\nMisfire=skip\nZone=UTC\n"};
	enum { N = sizeof(others) / sizeof(*others) };
	struct fixture *t = *state;
	uint64_t digests[N + 1];

	digests[N] = digest_of(t, GOOD);
	for (size_t i = 0; i < N; i++)
		digests[i] = digest_of(t, others[i]);
	for (size_t i = 0; i <= N; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(digests[i] != digests[j]);
	assert_true(digests[N] == digest_of(t, "# same\n" GOOD));
	files_put(&t->files, "s.lua", "return {} \n");
	assert_true(digests[N] != digest_of(t, GOOD));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- [Schedule] --------------------------------------------------------- */

static void
test_a_schedule(void **state)
{
	struct fixture *t = *state;
	const struct session_spec *spec;

	spec = read_text(t, GOOD "[Schedule]\nMisfire=skip\n"
				 "refresh=hourly\nrefresh=Mon 9:00\n"
				 "clean.up=*/5 * * * *\n"
				 "Zone=Europe/Berlin\n");
	assert_int_equal(t->errors.n, 0);
	assert_int_equal(spec->n_schedules, 3);
	assert_int_equal(spec->misfire, DELAY_SKIP);
	assert_string_equal(spec->schedules[1].event, "refresh");
	assert_string_equal(spec->schedules[1].calendar->text, "Mon 9:00");
	assert_string_equal(
		calendar_zone(spec->schedules[2].calendar), "Europe/Berlin");
	spec = read_text(t, GOOD);
	assert_int_equal(spec->n_schedules, 0);
	assert_int_equal(spec->misfire, DELAY_ONCE);
}

static void
test_a_wrong_schedule(void **state)
{
	struct fixture *t = *state;

	wrong(t, GOOD "[Schedule]\na=25:00\n", "5:3", "hour is from 0 to 23");
	wrong(t, GOOD "[Schedule]\na=\n", "5:3", "it is empty");
	wrong(t, GOOD "[Schedule]\nZone=No/Where\na=daily\n", "5:6",
		"No/Where");
	wrong(t, GOOD "[Schedule]\nMisfire=never\n", "5:9",
		"once, skip or all");
	wrong(t, GOOD "[Schedule]\nZone=UTC\nZone=UTC\n", "6:1",
		"on line 5 already");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_all_keys_are_read),
		T(test_defaults_hold_for_what_is_left_out),
		T(test_a_client_kind_needs_no_program),
		T(test_a_mode_is_that_of_a_client_kind),
		T(test_a_file_says_what_its_session_binds),
		T(test_state_goes_with_one_handler_at_a_time),
		T(test_only_scripts_can_be_stopped),
		T(test_crlf_and_bom_are_taken),
		T(test_wrong_keys_are_told_with_a_hint),
		T(test_wrong_sections_are_told_with_a_hint),
		T(test_wrong_lines_are_told),
		T(test_wrong_values_say_what_is_allowed),
		T(test_kind_and_program_must_match),
		T(test_all_errors_are_told_at_once),
		T(test_scripts_that_cannot_be_used_are_told),
		T(test_files_open_to_anyone_are_refused),
		T(test_bytes_that_are_no_text_are_told),
		T(test_long_lines_are_taken_up_to_the_limit),
		T(test_huge_files_are_refused),
		T(test_many_errors_are_counted_not_kept),
		T(test_an_alias_given_twice_is_told_with_both_places),
		T(test_an_alias_may_be_waited_for),
		T(test_digest_changes_with_every_field_and_the_script),
		T(test_a_schedule),
		T(test_a_wrong_schedule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
