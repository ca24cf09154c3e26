/* daemon/kernel/{delays,delay_names,schedule}.c: names, slack, the three
 * clocks, changes, calendars and what becomes of those that were missed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "base/fault.h"
#include "fixture.h"

#define SECONDS(n) ((uint64_t)(n)*NS_PER_S)
#define HOUR SECONDS(3600)

/* @init to @to itself as "e", by default in a second. */
static uint64_t
set_by(struct fake *to, struct delay_init init, uint64_t *replaced)
{
	uint64_t id = 0;

	if (!init.event)
		init.event = "e";
	init.event_size = (uint8_t)strlen(init.event);
	if (init.alias)
		init.alias_size = (uint32_t)strlen(init.alias);
	else
		init.to = to->id;
	if (init.name)
		init.name_size = (uint8_t)strlen(init.name);
	if (!init.due_ns)
		init.due_ns = delay_now(to->sched, init.clock) + SECONDS(1);
	assert_int_equal(
		delay_set(to->sched, to->session, &init, &id, replaced), 0);
	return id;
}

static uint64_t
set(struct fake *to, struct delay_init init)
{
	return set_by(to, init, NULL);
}

static uint64_t
calendar_on(struct fake *to, const char *text, enum delay_misfire misfire)
{
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *c = NULL;
	uint64_t id;

	assert_int_equal(calendar_new(text, "UTC", NULL, &c, error), 0);
	id = set(to, (struct delay_init){.calendar = c, .misfire = misfire});
	calendar_unref(c);
	return id;
}

/* ---- names -------------------------------------------------------------- */

static void
test_a_name_is_replaced_by_its_next_bearer(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t first, second, replaced = 7;

	first = set_by(
		s, (struct delay_init){.name = "n", .event = "old"}, &replaced);
	assert_int_equal(replaced, 0);
	second = set_by(
		s, (struct delay_init){.name = "n", .event = "new"}, &replaced);
	assert_int_equal(replaced, first);
	assert_int_equal(f->scheds[0].counters.cancelled, 1);
	assert_int_equal(delay_named(s->sched, s->id, NULL, "n", 1), second);
	fixture_advance(f, 2000);
	assert_string_equal(fake_trace(s), "new");
	assert_int_equal(delay_named(s->sched, s->id, NULL, "n", 1), 0);
	set_by(s, (struct delay_init){.name = "n"}, &replaced);
	assert_int_equal(replaced, 0); /* the second has fired */
}

static void
test_a_full_scheduler_still_replaces(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t replaced;

	f->kernel.limits.max_timers = 1;
	set(s, (struct delay_init){.name = "n"});
	set_by(s, (struct delay_init){.name = "n"}, &replaced);
	assert_int_not_equal(replaced, 0);
}

/* The same name of another session, or for another alias, is another. */
static void
test_names_have_scopes(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, "a"), *b = fake_new(f, 0, "b");
	struct delay_init to_a = {.name = "n", .alias = "a", .by_alias = true};
	struct delay_init to_b = {.name = "n", .alias = "b", .by_alias = true};
	struct alias *alias;
	uint64_t id, replaced;

	set(a, (struct delay_init){.name = "n"});
	set_by(b, (struct delay_init){.name = "n"}, &replaced);
	assert_int_equal(replaced, 0);
	id = set_by(a, to_a, &replaced);
	assert_int_equal(replaced, 0);
	set_by(a, to_b, &replaced);
	assert_int_equal(replaced, 0);
	set_by(b, to_a, &replaced); /* whoever sets it */
	assert_int_equal(replaced, id);
	assert_int_equal(f->scheds[0].delays.n, 4);
	alias = alias_find(&f->kernel.aliases, "a", 1);
	id = delay_named(&f->scheds[0], 0, alias, "n", 1);
	assert_int_equal(delay_cancel(&f->scheds[0], id), 0);
	assert_int_equal(delay_named(&f->scheds[0], 0, alias, "n", 1), 0);
}

static void
test_many_names(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	char name[16];

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		set(s, (struct delay_init){.name = name, .due_ns = i + 1});
	}
	for (unsigned i = 0; i < 1000; i += 2) {
		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(delay_cancel(s->sched,
					 delay_named(s->sched, s->id, NULL,
						 name, strlen(name))),
			0);
	}
	assert_int_equal(s->sched->delays.n_names, 500);
	assert_int_equal(delay_named(s->sched, s->id, NULL, "n500", 4), 0);
	assert_int_not_equal(delay_named(s->sched, s->id, NULL, "n501", 4), 0);
}

static void
test_all_of_a_session_or_of_an_alias(void **state)
{
	struct fixture *f = *state;
	struct fake *a = fake_new(f, 0, "a"), *b = fake_new(f, 0, "b");

	set(a, (struct delay_init){.event = "self"});
	set(a, (struct delay_init){.alias = "b"});
	set(b, (struct delay_init){.alias = "a"});
	set(b, (struct delay_init){.event = "stays"});
	assert_int_equal(delays_cancel_all(a->sched, a->session), 2);
	assert_int_equal(f->scheds[0].delays.n, 2);
	set(a, (struct delay_init){.event = "self"});
	assert_int_equal(
		delays_cancel_alias(a->sched, "a", 1, DELAY_NO_UID), 2);
	assert_int_equal(
		delays_cancel_alias(a->sched, "none", 4, DELAY_NO_UID), 0);
	assert_int_equal(f->scheds[0].counters.cancelled, 4);
	fixture_advance(f, 2000);
	assert_string_equal(fake_trace(a), "");
	assert_string_equal(fake_trace(b), "stays");
}

/* Others may still be pending when whoever set them has gone. */
static void
test_the_list_of_an_owner_outlives_it(void **state)
{
	struct fixture *f = *state;
	struct fake *gone = fake_new(f, 0, NULL), *to = fake_new(f, 0, "to");
	uint64_t ids[4];

	for (int i = 0; i < 4; i++)
		ids[i] = set(gone, (struct delay_init){.alias = "to"});
	set(gone, (struct delay_init){.event = "self"});
	session_stop(gone->session);
	assert_int_equal(f->scheds[0].delays.n, 4);
	fake_new(f, 0, NULL); /* in its slot */
	assert_int_equal(delay_cancel(to->sched, ids[3]), 0);
	assert_int_equal(delay_cancel(to->sched, ids[0]), 0);
	assert_int_equal(delay_cancel(to->sched, ids[1]), 0);
	fixture_advance(f, 2000);
	assert_string_equal(fake_trace(to), "e");
}

/* ---- change ------------------------------------------------------------- */

static void
test_adjust(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	struct delay_change later = {.due = true, .due_ns = SECONDS(5)};
	struct delay_change again = {.repeat = true, .repeat_ns = SECONDS(2)};
	struct delay_change at = {.due = true, .wall = true};
	uint64_t id = set(s, (struct delay_init){.event = "e"});

	assert_int_equal(delay_adjust(s->sched, id, &later), 0);
	fixture_advance(f, 4900);
	assert_int_equal(s->n_run, 0);
	fixture_advance(f, 101);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(delay_adjust(s->sched, id, &later), DELAY_E_FIRED);
	id = set(s, (struct delay_init){.event = "e"});
	assert_int_equal(delay_adjust(s->sched, id, &again), 0);
	fixture_advance(f, 1001);
	fixture_advance(f, 2000);
	fixture_advance(f, 2000);
	assert_int_equal(s->n_run, 4);
	again.repeat_ns = 0;
	assert_int_equal(delay_adjust(s->sched, id, &again), 0);
	fixture_advance(f, 2000);
	fixture_advance(f, 2000);
	assert_int_equal(s->n_run, 5);
	id = set(s, (struct delay_init){.event = "e"});
	at.due_ns = f->clock.wall_ns + SECONDS(10);
	assert_int_equal(delay_adjust(s->sched, id, &at), 0);
	f->clock.wall_ns += SECONDS(11); /* it is of the wall clock now */
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 6);
}

static void
test_a_calendar_is_moved_but_not_repeated(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	struct delay_change soon = {.due = true, .due_ns = SECONDS(1)};
	struct delay_change again = {.repeat = true, .repeat_ns = SECONDS(2)};
	uint64_t id = calendar_on(s, "hourly", DELAY_ONCE);

	assert_int_equal(delay_adjust(s->sched, id, &again), DELAY_E_CALENDAR);
	assert_int_equal(delay_adjust(s->sched, id, &soon), 0);
	fixture_advance(f, 1001);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(
		delay_due_ns(delay_find(&s->sched->delays, id)) % HOUR, 0);
}

/* ---- clocks ------------------------------------------------------------- */

static void
test_boottime_goes_on_while_suspended(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	assert_null(s->sched->boot_timers); /* made when it is needed */
	set(s, (struct delay_init){.clock = DELAY_BOOTTIME, .event = "boot"});
	set(s, (struct delay_init){.event = "mono"});
	clock_fake_suspend(&f->clock, SECONDS(100));
	assert_true(sched_next_ns(s->sched) <= f->clock.monotonic_ns);
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "boot");
	fixture_advance(f, 1001);
	assert_string_equal(fake_trace(s), "mono");
}

static enum session_result
note_due(struct fake *fake, struct msg *m)
{
	fake->number = msg_due_ns(m);
	fake->call = msg_late_ns(m);
	return SESSION_DONE;
}

static void
test_an_event_says_when_it_was_due(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t due = f->clock.wall_ns + SECONDS(1);

	s->on_run = note_due;
	for (int clock = 0; clock < DELAY_CLOCKS; clock++) {
		set(s, (struct delay_init){.clock = (enum delay_clock)clock});
		fixture_advance(f, 1250);
		assert_int_equal(s->number, due);
		assert_int_equal(s->call, 250 * NS_PER_MS);
		due += 1250 * NS_PER_MS;
	}
	fixture_post(NULL, s, "e");
	fixture_run(f);
	assert_int_equal(s->number, 0);
}

static void
test_slack_brings_timers_together(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t now = f->clock.monotonic_ns, due = now + SECONDS(10);
	unsigned turns = 0;

	s->on_run = note_due;
	for (unsigned i = 0; i < 100; i++)
		set(s, (struct delay_init){.due_ns = due + i * NS_PER_MS,
			       .slack_ns = SECONDS(2)});
	while (s->n_run < 100 && turns < 1000) {
		uint64_t before = s->n_run;

		fixture_advance(f, 100);
		turns += s->n_run > before;
		if (s->n_run > before) {
			assert_true(f->clock.monotonic_ns >= due);
			assert_true(
				f->clock.monotonic_ns <= due + SECONDS(2.3));
			assert_true(s->call <= SECONDS(2.2));
		}
	}
	assert_int_equal(s->n_run, 100);
	assert_in_range(turns, 1, 2);
}

/* ---- calendars ----------------------------------------------------------- */

/* The fake wall clock starts at 2027-01-15 08:00:00 UTC. */
static void
test_a_calendar_comes_again_and_again(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t id = calendar_on(s, "*:0/20", DELAY_ONCE);

	s->on_run = note_due;
	assert_int_equal(f->clock.wall_ns % HOUR, 0);
	fixture_advance(f, 1000 * 1000);
	assert_int_equal(s->n_run, 0);
	for (unsigned i = 1; i <= 6; i++) {
		fixture_advance(f, i == 1 ? 200100 : 1200 * 1000);
		assert_int_equal(s->n_run, i);
		assert_int_equal(s->number % SECONDS(1200), 0);
		assert_int_equal(s->call, 100 * NS_PER_MS);
	}
	assert_int_equal(delay_cancel(s->sched, id), 0);
	assert_int_equal(s->sched->delays.n_calendars, 0);
}

static void
test_the_last_time_of_a_calendar_ends_it(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *past = NULL;
	struct delay_init init = {.to = s->id, .event = "e", .event_size = 1};

	calendar_on(s, "2027-01-15 08:00:30", DELAY_ONCE);
	fixture_advance(f, 30001);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->sched->delays.n, 0);
	assert_int_equal(
		calendar_new("2020-01-01", "UTC", NULL, &past, error), 0);
	init.calendar = past;
	assert_int_equal(delay_set(s->sched, s->session, &init, NULL, NULL),
		DELAY_E_NEVER);
	calendar_unref(past);
}

/* The clock is set three hours and ten minutes ahead. */
static void
miss(struct fixture *f, struct fake *s)
{
	s->on_run = note_due;
	f->clock.wall_ns += SECONDS(3 * 3600 + 600);
	for (unsigned i = 0; i < f->n_scheds; i++)
		sched_clock_set(&f->scheds[i]);
	fixture_run(f);
}

static void
test_missed_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t first = f->clock.wall_ns + HOUR;

	calendar_on(s, "hourly", DELAY_ONCE);
	miss(f, s);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(s->number, first);
	assert_int_equal(s->call, SECONDS(2 * 3600 + 600));
	fixture_advance(f, 3000 * 1000 + 1);
	assert_int_equal(s->n_run, 2);
	assert_int_equal(s->number, first + 3 * HOUR);
}

static void
test_missed_skip(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	calendar_on(s, "hourly", DELAY_SKIP);
	miss(f, s);
	assert_int_equal(s->n_run, 0);
	fixture_advance(f, 3000 * 1000 + 500); /* merely late: not missed */
	assert_int_equal(s->n_run, 1);
}

static void
test_missed_all(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	uint64_t first = f->clock.wall_ns + HOUR;

	calendar_on(s, "hourly", DELAY_ALL);
	miss(f, s);
	assert_int_equal(s->n_run, 3);
	assert_int_equal(s->number, first + 2 * HOUR);
	fixture_advance(f, 3000 * 1000 + 1);
	assert_int_equal(s->n_run, 4);
}

static void
test_all_has_an_end(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	calendar_on(s, "*:*:*", DELAY_ALL);
	miss(f, s);
	assert_int_equal(s->n_run, DELAYS_MISSED_MAX);
	fixture_advance(f, 2000);
	assert_in_range(s->n_run, DELAYS_MISSED_MAX + 1, DELAYS_MISSED_MAX + 2);
}

/* B28: suspended over it, once; never twice. */
static void
test_a_calendar_over_a_suspend(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	calendar_on(s, "hourly", DELAY_ONCE);
	clock_fake_suspend(&f->clock, SECONDS(5000));
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 1);
	sched_clock_set(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 1);
}

static void
test_a_clock_set_back_a_little_repeats_nothing(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	calendar_on(s, "hourly", DELAY_ONCE);
	fixture_advance(f, 3600 * 1000 + 1);
	assert_int_equal(s->n_run, 1);
	f->clock.wall_ns -= SECONDS(60);
	sched_clock_set(s->sched);
	fixture_advance(f, 120 * 1000);
	assert_int_equal(s->n_run, 1);
	fixture_advance(f, 3600 * 1000);
	assert_int_equal(s->n_run, 2);
}

/* By a day: it does not wait for the day to come again. */
static void
test_a_clock_set_back_far_begins_anew(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	calendar_on(s, "hourly", DELAY_ONCE);
	fixture_advance(f, 3600 * 1000 + 1);
	f->clock.wall_ns -= SECONDS(86400);
	sched_clock_set(s->sched);
	fixture_advance(f, 3600 * 1000);
	assert_int_equal(s->n_run, 2);
}

/* ---- the schedule of a session ------------------------------------------- */

static void
add(struct session_spec *spec, const char *event, const char *text)
{
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *c = NULL;

	assert_int_equal(calendar_new(text, "UTC", NULL, &c, error), 0);
	assert_int_equal(spec_add_schedule(spec, event, c), 0);
}

static void
test_a_schedule_survives_crashes_and_ends_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("s", RESTART_ALWAYS);
	struct fake *s;

	add(spec, "tick", "*:0/10");
	add(spec, "tick", "*:5");
	s = fake_hosted(f, 0, spec);
	fixture_run(f);
	assert_int_equal(s->sched->delays.n, 2);
	assert_int_not_equal(
		delay_named(s->sched, s->id, NULL, "tick.2", 6), 0);
	s->on_run = fake_crash;
	fixture_post(NULL, s, "crash");
	fixture_run(f);
	s->on_run = NULL;
	assert_int_equal(s->sched->delays.n, 2);
	fixture_advance(f, 300 * 1000 + 1);
	fixture_advance(f, 300 * 1000);
	assert_string_equal(fake_trace(s), "start crash crash start tick tick");
	assert_int_equal(delays_cancel_all(s->sched, s->session), 0);
	session_stop(s->session);
	fixture_run(f);
	assert_int_equal(f->scheds[0].delays.n, 0);
}

/* B31: an edited schedule waits for its next time. */
static void
test_a_changed_schedule_does_not_fire_at_once(void **state)
{
	struct fixture *f = *state;
	struct session_spec *spec = fixture_spec("s", RESTART_ALWAYS);
	struct fake *s;
	uint64_t kept;

	add(spec, "kept", "*:30");
	add(spec, "moved", "*:50");
	add(spec, "gone", "*:55");
	s = fake_hosted(f, 0, spec);
	fixture_advance(f, 1200 * 1000);
	fake_trace(s);
	kept = delay_named(s->sched, s->id, NULL, "kept", 4);
	spec = fixture_spec("s", RESTART_ALWAYS);
	add(spec, "moved", "*:10"); /* ten minutes ago */
	add(spec, "kept", "*:30");
	session_restart(s->session, spec);
	spec_unref(spec);
	fixture_run(f);
	assert_string_equal(fake_trace(s), "stop start");
	assert_int_equal(delay_named(s->sched, s->id, NULL, "kept", 4), kept);
	assert_int_equal(s->sched->delays.n, 2);
	fixture_advance(f, 2399 * 1000);
	assert_string_equal(fake_trace(s), "kept");
	fixture_advance(f, 601 * 1000 + 1);
	assert_string_equal(fake_trace(s), "moved");
}

/* ---- leases -------------------------------------------------------------- */

static enum session_result
hold(struct fake *s, struct msg *m)
{
	s->held[s->n_held++] = m;
	return SESSION_LEASED;
}

/* B34: a delay longer than any time to settle is delivered once; the time that
 * it is held begins then. */
static void
test_a_long_delay_is_delivered_once(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);

	s->on_run = hold;
	set(s, (struct delay_init){.due_ns = f->clock.monotonic_ns + 2 * HOUR});
	fixture_advance(f, 7199 * 1000);
	assert_int_equal(s->n_run, 0);
	assert_int_equal(session_counters(s->session).leased, 0);
	fixture_advance(f, 2 * 1000);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(session_counters(s->session).leased, 1);
	fixture_advance(f, 4 * 3600 * 1000);
	assert_int_equal(s->n_run, 1);
	session_done(s->session, s->held[0], 0);
	fixture_advance(f, 4 * 3600 * 1000);
	assert_int_equal(s->n_run, 1);
	assert_int_equal(session_counters(s->session).handled, 1);
	assert_int_equal(f->scheds[0].counters.accepted, 1);
}

/* ---- a zone whose rules change ---------------------------------------- */

static char zone_directory[64];

/* The zone "Test/Land" becomes a copy of @name. */
static void
write_zone(const char *name)
{
	char command[256];

	snprintf(command, sizeof(command),
		"mkdir -p %s/Test && cp -L /usr/share/zoneinfo/%s %s/Test/Land",
		zone_directory, name, zone_directory);
	assert_int_equal(system(command), 0);
}

static uint64_t
calendar_in_land(struct fake *s, const char *text)
{
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *c = NULL;
	uint64_t id;

	assert_int_equal(calendar_new(text, "Test/Land",
				 &s->sched->kernel->zones, &c, error),
		0);
	id = set(s, (struct delay_init){.calendar = c});
	calendar_unref(c);
	return id;
}

/* B31, B32: its next time is by the new rules; nothing fires for that. */
static void
test_a_pending_calendar_follows_changed_rules(void **state)
{
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, NULL);
	struct zones *zones = &f->kernel.zones;
	uint64_t id, same, due, hourly;

	strcpy(zone_directory, "/tmp/evd-zones-XXXXXX");
	assert_non_null(mkdtemp(zone_directory));
	setenv("TZDIR", zone_directory, 1);
	write_zone("Asia/Tokyo"); /* UTC+9 */
	id = calendar_in_land(s, "*-*-* 12:00");
	hourly = calendar_in_land(s, "hourly");
	same = set(s, (struct delay_init){0});
	due = delay_due_ns(delay_find(&s->sched->delays, id));

	delays_zones_changed(s->sched); /* still in memory */
	assert_int_equal(delay_due_ns(delay_find(&s->sched->delays, id)), due);
	write_zone("Asia/Kolkata"); /* UTC+5:30 */
	zones_flush(zones);
	delays_zones_changed(s->sched);
	fixture_run(f);
	assert_int_equal(s->n_run, 0);
	due += HOUR * 7 / 2;
	if (due - f->clock.wall_ns > 24 * HOUR)
		due -= 24 * HOUR;
	assert_int_equal(delay_due_ns(delay_find(&s->sched->delays, id)), due);
	assert_non_null(delay_find(&s->sched->delays, hourly));
	assert_non_null(delay_find(&s->sched->delays, same));

	write_zone("Etc/UTC");
	assert_int_equal(unsetenv("TZDIR"), 0); /* then there is none */
	zones_flush(zones);
	delays_zones_changed(s->sched);
	assert_int_equal(delay_due_ns(delay_find(&s->sched->delays, id)), due);
	delay_cancel(s->sched, id);
	delay_cancel(s->sched, hourly);
}

static int
teardown_zones(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", zone_directory);
	assert_int_equal(system(command), 0);
	return fixture_teardown(state);
}

/* ---- memory -------------------------------------------------------------- */

static void
test_without_memory_nothing_is_set(void **state)
{
	static const char *const points[] = {"delay_chunk", "delay_more",
		"delay_bytes", "delay_wheel", "delay_names"};
	struct fixture *f = *state;
	struct fake *s = fake_new(f, 0, "s");
	struct delay_init init = {.alias = "s",
		.alias_size = 1,
		.event = "an.event.of.some.length",
		.event_size = 23,
		.name = "n",
		.name_size = 1,
		.clock = DELAY_BOOTTIME};

#ifdef NDEBUG
	skip(); /* fault points are compiled out */
#endif
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		fault_arm(points[i], 1);
		assert_int_equal(
			delay_set(s->sched, s->session, &init, NULL, NULL),
			-ENOMEM);
		fault_arm(points[i], 0);
		assert_int_equal(s->sched->delays.n, 0);
		assert_int_equal(s->sched->delays.size, 0);
		assert_int_equal(s->session->delays, 0);
	}
	assert_int_equal(delay_set(s->sched, s->session, &init, NULL, NULL), 0);
	fixture_advance(f, 1);
	assert_string_equal(fake_trace(s), "an.event.of.some.length");
}

int
main(void)
{
#define ONE(test) \
	cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		ONE(test_a_name_is_replaced_by_its_next_bearer),
		ONE(test_a_full_scheduler_still_replaces),
		ONE(test_names_have_scopes),
		ONE(test_many_names),
		ONE(test_all_of_a_session_or_of_an_alias),
		ONE(test_the_list_of_an_owner_outlives_it),
		ONE(test_adjust),
		ONE(test_a_calendar_is_moved_but_not_repeated),
		ONE(test_boottime_goes_on_while_suspended),
		ONE(test_an_event_says_when_it_was_due),
		ONE(test_slack_brings_timers_together),
		ONE(test_a_calendar_comes_again_and_again),
		ONE(test_the_last_time_of_a_calendar_ends_it),
		ONE(test_missed_once),
		ONE(test_missed_skip),
		ONE(test_missed_all),
		ONE(test_all_has_an_end),
		ONE(test_a_calendar_over_a_suspend),
		ONE(test_a_clock_set_back_a_little_repeats_nothing),
		ONE(test_a_clock_set_back_far_begins_anew),
		ONE(test_a_schedule_survives_crashes_and_ends_with_its_session),
		ONE(test_a_changed_schedule_does_not_fire_at_once),
		ONE(test_a_long_delay_is_delivered_once),
		cmocka_unit_test_setup_teardown(
			test_a_pending_calendar_follows_changed_rules,
			fixture_setup, teardown_zones),
		ONE(test_without_memory_nothing_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
