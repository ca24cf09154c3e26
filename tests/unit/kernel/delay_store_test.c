/* Delays that are in the store, on a store in memory. */
#include "kernel/delay_store.h"

#include "fake_store.h"

#include <errno.h>
#include <stdio.h>

#include "base/calendar.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "kernel/dead.h"
#include "kernel/queue.h"
#include "kernel/schedule.h"

struct world {
	struct fixture *f;
	struct fake_store *store;
	struct fake *box;
	enum session_result (*first)(struct fake *fake, struct msg *m);
	uint64_t wall_ns, mono_ns; /* when it ended */
	const char *schedule;      /* of the spec, for the event "tick" */
	bool persistent;
	uint8_t misfire;
};

struct told {
	struct delay_told told;
	unsigned n;
	int r;
};

static void
on_told(struct delay_told *told, struct sched *s, int r)
{
	struct told *t = container_of(told, struct told, told);

	(void)s;
	t->n++;
	t->r = r;
}

static void
add_schedule(struct session_spec *spec, const char *text)
{
	char error[CALENDAR_ERROR_SIZE];
	struct calendar *c;

	assert_int_equal(calendar_new(text, "UTC", NULL, &c, error), 0);
	assert_int_equal(spec_add_schedule(spec, "tick", c), 0);
}

static void
world_open(struct world *w)
{
	struct session_spec *spec = fixture_spec("box", RESTART_NO);

	spec->durable = 1;
	spec->persistent = w->persistent;
	spec->misfire = w->misfire;
	if (w->schedule)
		add_schedule(spec, w->schedule);
	w->f = fixture_new(1, NULL);
	w->f->kernel.store = &w->store->store;
	if (w->wall_ns) {
		w->f->clock.wall_ns = w->wall_ns;
		w->f->clock.monotonic_ns = w->mono_ns;
	}
	w->box = fake_hosted(w->f, 0, spec);
	w->box->on_run = w->first;
	fake_store_run(w->f, w->store);
}

static int
setup(void **state)
{
	static struct world world;

	world = (struct world){.store = fake_store_new()};
	world_open(&world);
	*state = &world;
	return 0;
}

static void
world_close(struct world *w)
{
	session_stop(w->box->session);
	fake_store_run(w->f, w->store);
	w->wall_ns = w->f->clock.wall_ns;
	w->mono_ns = w->f->clock.monotonic_ns;
	assert_int_equal(w->f->scheds[0].delays.n, 0);
	fixture_free(w->f);
}

static int
teardown(void **state)
{
	struct world *w = *state;

	world_close(w);
	fake_store_free(w->store);
	return 0;
}

/* The daemon ends, @ms pass, and it starts again. */
static void
restart(struct world *w, uint64_t ms)
{
	world_close(w);
	fake_store_restart(w->store);
	w->wall_ns += ms * NS_PER_MS;
	w->mono_ns += ms * NS_PER_MS;
	world_open(w);
}

static struct delay_init
plain(struct world *w, const char *event, uint64_t ms)
{
	return (struct delay_init){.alias = "box",
		.alias_size = 3,
		.by_alias = true,
		.event = event,
		.event_size = (uint8_t)strlen(event),
		.data = "data",
		.size = 4,
		.due_ns = clock_now(&w->f->clock.source) + ms * NS_PER_MS};
}

static int
set(struct world *w, const struct delay_init *init, struct told *told)
{
	*told = (struct told){.told.told = on_told};
	return delay_set_stored(
		&w->f->scheds[0], NULL, w->box->session, init, &told->told);
}

/* Its id, when it is safe. */
static uint64_t
set_safe(struct world *w, const struct delay_init *init)
{
	struct told told;

	assert_int_equal(set(w, init, &told), 0);
	fake_store_run(w->f, w->store);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.r, 0);
	assert_true(delay_id_is_stored(told.told.id));
	return told.told.id;
}

static uint64_t
after(struct world *w, const char *event, uint64_t ms)
{
	struct delay_init init = plain(w, event, ms);

	return set_safe(w, &init);
}

static void
advance(struct world *w, uint64_t ms)
{
	fixture_advance(w->f, ms);
	fake_store_run(w->f, w->store);
}

static size_t
rows(const struct world *w)
{
	return fake_store_count(w->store, STORE_TIMERS);
}

static enum session_result
note_late(struct fake *fake, struct msg *m)
{
	fake->number = msg_late_ns(m);
	fake->call = msg_due_ns(m);
	return SESSION_DONE;
}

/* ---- once ------------------------------------------------------------ */

static void
test_it_is_told_when_its_row_is_safe(void **state)
{
	struct world *w = *state;
	struct delay_init init = plain(w, "a", 100);
	struct told told;

	fake_trace(w->box);
	assert_int_equal(set(w, &init, &told), 0);
	fixture_run(w->f);
	assert_int_equal(told.n, 0);
	fixture_advance(w->f, 200); /* not before its row is safe */
	assert_string_equal(fake_trace(w->box), "");
	fake_store_step(w->store);
	assert_int_equal(told.n, 1);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "a");
	assert_int_equal(rows(w), 0);
}

static void
test_its_event_and_its_end_are_written_together(void **state)
{
	struct world *w = *state;

	after(w, "a", 100);
	queue_pause(w->box->session);
	fixture_advance(w->f, 101);
	assert_int_equal(rows(w), 1);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 0);
	assert_int_equal(w->f->scheds[0].delays.n, 1); /* it counts */
	fake_store_step(w->store);
	assert_int_equal(rows(w), 0);
	assert_int_equal(fake_store_count(w->store, STORE_EVENTS), 1);
	assert_int_equal(w->f->scheds[0].delays.n, 0);
	fixture_run(w->f);
	assert_int_equal(w->box->session->box.n, 1);
}

static void
test_it_survives_with_its_id_and_name(void **state)
{
	struct world *w = *state;
	struct delay_init init = plain(w, "a", 1000);
	const struct alias *alias;
	uint64_t id;

	init.name = "mine";
	init.name_size = 4;
	id = set_safe(w, &init);
	fake_trace(w->box);
	restart(w, 300);
	assert_string_equal(fake_trace(w->box), "start");
	alias = alias_find(&w->f->kernel.aliases, "box", 3);
	assert_int_equal(
		delay_named(&w->f->scheds[0], 0, alias, "mine", 4), id);
	assert_int_equal(delay_fate(&w->f->scheds[0].delays, id), 0);
	advance(w, 699);
	assert_string_equal(fake_trace(w->box), "");
	advance(w, 2);
	assert_string_equal(fake_trace(w->box), "a");
	restart(w, 0);
	advance(w, 100000);
	assert_string_equal(fake_trace(w->box), "start");
}

/* B28 */
static void
test_what_came_due_meanwhile_fires_once_and_says_how_late(void **state)
{
	struct world *w = *state;
	uint64_t due = w->f->clock.wall_ns + 1000 * (uint64_t)NS_PER_MS;

	after(w, "a", 1000);
	w->first = note_late;
	restart(w, 5000);
	assert_string_equal(fake_trace(w->box), "start a");
	assert_int_equal(w->box->number, 4000 * (uint64_t)NS_PER_MS);
	assert_int_equal(w->box->call, due);
	restart(w, 0);
	assert_string_equal(fake_trace(w->box), "start");
}

/* The monotonic clock of another start of the machine says nothing. */
static void
test_time_passes_while_the_machine_is_down(void **state)
{
	struct world *w = *state;

	after(w, "a", 10000);
	world_close(w);
	fake_store_restart(w->store);
	w->store->store.boot[0]++;
	w->wall_ns += 4000 * (uint64_t)NS_PER_MS;
	w->mono_ns += 77777 * (uint64_t)NS_PER_S;
	world_open(w);
	fake_trace(w->box);
	advance(w, 5999);
	assert_string_equal(fake_trace(w->box), "");
	advance(w, 2);
	assert_string_equal(fake_trace(w->box), "a");
}

static void
test_it_may_be_late_by_more_than_the_machine_is_up(void **state)
{
	struct world *w = *state;

	after(w, "a", 1000);
	world_close(w);
	fake_store_restart(w->store);
	w->store->store.boot[0]++;
	w->wall_ns += 7201000 * (uint64_t)NS_PER_MS;
	assert_true(w->mono_ns < 7200 * (uint64_t)NS_PER_S);
	w->first = note_late;
	world_open(w);
	assert_string_equal(fake_trace(w->box), "start a");
	assert_int_equal(w->box->number, 7200000 * (uint64_t)NS_PER_MS);
	assert_int_equal(rows(w), 0);
}

/* B29 */
static void
test_a_set_clock_moves_no_elapsed_time(void **state)
{
	struct world *w = *state;

	after(w, "a", 60000);
	w->f->clock.wall_ns += 86400 * (uint64_t)NS_PER_S;
	sched_clock_set(&w->f->scheds[0]);
	restart(w, 30000);
	fake_trace(w->box);
	advance(w, 29999);
	assert_string_equal(fake_trace(w->box), "");
	advance(w, 2);
	assert_string_equal(fake_trace(w->box), "a");
}

static void
test_a_failed_write_refuses_it(void **state)
{
	struct world *w = *state;
	struct delay_init init = plain(w, "a", 100);
	struct told told;

	w->store->status = -ENOSPC;
	assert_int_equal(set(w, &init, &told), 0);
	fake_store_run(w->f, w->store);
	assert_int_equal(told.r, DELAY_E_STORE);
	assert_int_equal(w->f->scheds[0].delays.n, 0);
	w->store->status = 0;
	advance(w, 1000);
	assert_int_equal(rows(w), 0);
	after(w, "b", 10);
	advance(w, 11);
	assert_string_equal(fake_trace(w->box), "start b");
}

static void
test_an_event_that_cannot_be_written_fires_later(void **state)
{
	struct world *w = *state;

	after(w, "a", 100);
	w->store->status = -EIO;
	advance(w, 150);
	advance(w, 300);
	assert_int_equal(w->f->scheds[0].delays.n, 1);
	w->store->status = 0;
	advance(w, 300);
	assert_string_equal(fake_trace(w->box), "start a");
	assert_int_equal(rows(w), 0);
	assert_int_equal(w->f->scheds[0].delays.n, 0);
}

/* ---- taking back and changing ---------------------------------------- */

/* B40 */
static void
test_one_of_another_run_is_cancelled_by_its_id(void **state)
{
	struct world *w = *state;
	uint64_t id = after(w, "a", 1000);
	struct told told = {.told.told = on_told};

	restart(w, 0);
	assert_int_equal(
		delay_cancel_told(&w->f->scheds[0], id, &told.told), 0);
	assert_int_equal(delay_cancel(&w->f->scheds[0], id), DELAY_E_FIRED);
	assert_int_equal(told.n, 0);
	fake_store_run(w->f, w->store);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.r, 0);
	assert_int_equal(rows(w), 0);
	restart(w, 2000);
	assert_string_equal(fake_trace(w->box), "start");
}

static void
test_adjusting_is_stored(void **state)
{
	struct world *w = *state;
	uint64_t id = after(w, "a", 1000);
	struct told told = {.told.told = on_told};

	assert_int_equal(delay_adjust_told(&w->f->scheds[0], id,
				 &(struct delay_change){.due = true,
					 .due_ns = 5000 * (uint64_t)NS_PER_MS},
				 &told.told),
		0);
	fake_store_run(w->f, w->store);
	assert_int_equal(told.n, 1);
	restart(w, 0);
	fake_trace(w->box);
	advance(w, 4999);
	assert_string_equal(fake_trace(w->box), "");
	advance(w, 2);
	assert_string_equal(fake_trace(w->box), "a");
}

static void
test_one_being_set_may_be_cancelled_by_its_name(void **state)
{
	struct world *w = *state;
	struct delay_init init = plain(w, "a", 1000);
	struct sched *s = &w->f->scheds[0];
	const struct alias *alias = alias_find(&w->f->kernel.aliases, "box", 3);
	struct told told, end = {.told.told = on_told};
	uint64_t id;

	init.name = "mine";
	init.name_size = 4;
	assert_int_equal(set(w, &init, &told), 0);
	id = delay_named(s, 0, alias, "mine", 4);
	assert_int_equal(delay_cancel_told(s, id, &end.told), 0);
	fake_store_run(w->f, w->store);
	assert_int_equal(told.r, 0);
	assert_int_equal(end.r, 0);
	assert_int_equal(end.n, 1);
	assert_int_equal(rows(w), 0);
	assert_int_equal(s->delays.n, 0);
}

static void
test_a_name_replaces_the_one_before_in_one_job(void **state)
{
	struct world *w = *state;
	struct delay_init init = plain(w, "a", 1000);
	uint64_t first;
	struct told told;

	init.name = "mine";
	init.name_size = 4;
	first = set_safe(w, &init);
	restart(w, 0);
	init = plain(w, "b", 2000);
	init.name = "mine";
	init.name_size = 4;
	w->store->status = -ENOSPC; /* then the first one stays */
	assert_int_equal(set(w, &init, &told), 0);
	fake_store_run(w->f, w->store);
	assert_int_equal(told.r, DELAY_E_STORE);
	assert_int_equal(rows(w), 1);
	w->store->status = 0;
	assert_int_equal(set(w, &init, &told), 0);
	assert_int_equal(rows(w), 1);
	fixture_run(w->f);
	fake_store_step(w->store);
	assert_int_equal(rows(w), 1);
	assert_int_equal(told.told.replaced, first);
	fake_store_run(w->f, w->store);
	fake_trace(w->box);
	advance(w, 5000);
	assert_string_equal(fake_trace(w->box), "b");
	assert_int_equal(rows(w), 0);
}

/* ---- again and again ------------------------------------------------- */

static void
every(struct world *w, uint64_t ms, enum delay_misfire misfire)
{
	struct delay_init init = plain(w, "tick", ms);

	init.repeat_ns = ms * NS_PER_MS;
	init.misfire = misfire;
	set_safe(w, &init);
	fake_trace(w->box);
}

static void
test_a_repetition_keeps_its_grid(void **state)
{
	struct world *w = *state;

	every(w, 10000, DELAY_ONCE);
	advance(w, 10001);
	assert_string_equal(fake_trace(w->box), "tick");
	restart(w, 25000); /* 20000 and 30000 have passed */
	assert_string_equal(fake_trace(w->box), "start tick");
	advance(w, 4997);
	assert_string_equal(fake_trace(w->box), "");
	advance(w, 4);
	assert_string_equal(fake_trace(w->box), "tick");
	assert_int_equal(rows(w), 1);
}

static void
test_misfire_says_what_becomes_of_missed_times(void **state)
{
	struct world *w = *state;

	every(w, 10000, DELAY_ALL);
	restart(w, 35000);
	assert_string_equal(fake_trace(w->box), "start tick tick tick");
	advance(w, 5001);
	assert_string_equal(fake_trace(w->box), "tick");
	delays_cancel_alias(&w->f->scheds[0], "box", 3, DELAY_NO_UID);
	every(w, 10000, DELAY_SKIP);
	restart(w, 35000);
	assert_string_equal(fake_trace(w->box), "start");
	advance(w, 5001);
	assert_string_equal(fake_trace(w->box), "tick");
}

static void
test_a_full_mailbox_takes_no_repetition(void **state)
{
	struct world *w = *state;

	w->box->session->box.max_n = 2;
	queue_pause(w->box->session);
	every(w, 1000, DELAY_ONCE);
	for (unsigned i = 0; i < 5; i++)
		advance(w, 1000);
	assert_int_equal(w->box->session->box.n, 2);
	assert_int_equal(rows(w), 1);
	queue_resume(w->box->session);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "tick tick");
}

static void
test_a_repetition_ends_when_cancelled_while_it_fires(void **state)
{
	struct world *w = *state;

	every(w, 1000, DELAY_ONCE);
	fixture_advance(w->f, 1001);
	assert_int_equal(
		delays_cancel_alias(&w->f->scheds[0], "box", 3, DELAY_NO_UID),
		1);
	fake_store_run(w->f, w->store);
	assert_string_equal(fake_trace(w->box), "tick");
	assert_int_equal(rows(w), 0);
	advance(w, 5000);
	assert_string_equal(fake_trace(w->box), "");
}

/* ---- schedules ------------------------------------------------------- */

enum { HOUR_MS = 3600000 };

static void
test_a_persistent_schedule_knows_what_it_missed(void **state)
{
	struct world *w = *state;

	w->schedule = "hourly";
	w->persistent = true;
	restart(w, 60000);
	assert_int_equal(rows(w), 1);
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start tick");
	assert_int_equal(rows(w), 1);
	w->misfire = DELAY_ALL; /* another schedule: nothing was missed */
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start");
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start tick tick tick");
	w->misfire = DELAY_SKIP;
	restart(w, 0);
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start");
	advance(w, HOUR_MS - 60000 + 1);
	assert_string_equal(fake_trace(w->box), "tick");
}

/* B31 */
static void
test_an_edited_schedule_does_not_fire_at_once(void **state)
{
	struct world *w = *state;

	w->schedule = "hourly";
	w->persistent = true;
	restart(w, 60000);
	w->schedule = "*:0/15";
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start");
	assert_int_equal(rows(w), 1);
	w->schedule = NULL;
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start");
	assert_int_equal(rows(w), 0);
}

static void
test_a_schedule_that_is_not_persistent_forgets(void **state)
{
	struct world *w = *state;

	w->schedule = "hourly";
	w->persistent = true;
	restart(w, 60000);
	w->persistent = false;
	restart(w, 3 * HOUR_MS);
	assert_string_equal(fake_trace(w->box), "start");
	assert_int_equal(rows(w), 0);
	assert_int_equal(w->f->scheds[0].delays.n, 1);
}

/* ---- damage ---------------------------------------------------------- */

static void
test_a_damaged_row_is_told_and_others_fire(void **state)
{
	struct world *w = *state;

	after(w, "a", 1000);
	after(w, "b", 1000);
	world_close(w);
	fake_store_restart(w->store);
	for (size_t i = 0; i < w->store->n; i++)
		if (w->store->rows[i].table == STORE_TIMERS) {
			w->store->rows[i].data[20] ^= 1;
			break;
		}
	world_open(w);
	advance(w, 2000);
	assert_string_equal(fake_trace(w->box), "start b");
	assert_int_equal(w->store->store.n_damaged, 1);
}

static void
test_rows_of_any_size_are_read_or_refused(void **state)
{
	struct world *w = *state;
	struct store_row row = {.key_size = 16};
	uint8_t key[16] = {1}, data[4096];

	after(w, "a", 1000);
	for (size_t i = 0; i < w->store->n; i++)
		if (w->store->rows[i].table == STORE_TIMERS)
			memcpy(data, w->store->rows[i].data,
				w->store->rows[i].size);
	row.key = key;
	row.data = data;
	for (row.size = 0; row.size < 400; row.size++) {
		key[15] = (uint8_t)row.size;
		if (row.size != w->store->rows[0].size)
			delay_restore(&w->f->scheds[0], w->box->session, &row);
	}
	assert_true(w->f->scheds[0].delays.n <= 2);
}

/* Whatever is in a row whose checksum is right: it is taken or refused, and
 * what is taken can fire. */
static void
test_no_row_does_harm(void **state)
{
	struct world *w = *state;
	struct delay_init init = plain(w, "a", 1000);
	uint8_t key[16] = {1}, data[1024];
	struct store_row row = {.key = key, .key_size = 16, .data = data};
	uint32_t dice = 1, crc, no = 0;
	size_t size = 0;

	init.name = "name";
	init.name_size = 4;
	set_safe(w, &init);
	for (size_t i = 0; i < w->store->n; i++)
		if (w->store->rows[i].table == STORE_TIMERS)
			size = w->store->rows[i].size;
	row.size = (uint32_t)size;
	for (unsigned round = 0; round < 3000; round++) {
		for (size_t i = 0; i < w->store->n; i++)
			if (w->store->rows[i].table == STORE_TIMERS &&
				w->store->rows[i].size == size)
				memcpy(data, w->store->rows[i].data, size);
		for (unsigned n = 0; n < 1 + round % 3; n++) {
			dice = dice * 1664525 + 1013904223;
			data[4 + (dice >> 8) % (size - 4)] =
				(uint8_t)(dice >> 24);
		}
		crc = crc32c(0, data + 4, size - 4);
		memcpy(data, &crc, sizeof(crc));
		no++;
		memcpy(key + 8, &no, sizeof(no));
		delay_restore(&w->f->scheds[0], w->box->session, &row);
	}
	delays_cancel_alias(&w->f->scheds[0], "box", 3, DELAY_NO_UID);
	fake_store_run(w->f, w->store);
}

/* Without memory at any place: refused, or as it should be. */
static void
test_without_memory_it_is_refused_or_whole(void **state)
{
	struct world *w = *state;
	static const char *const points[] = {"delay_more", "delay_bytes",
		"delay_store_grow", "delay_store_new", "delay_row", "side_add"};

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		struct delay_init init = plain(w, "a-long-one", 100);
		struct told told;

		fault_arm(points[i], 1);
		if (set(w, &init, &told))
			assert_int_equal(w->f->scheds[0].delays.n, 0);
		fault_arm("", 0);
		fake_store_run(w->f, w->store);
		advance(w, 1000);
		assert_int_equal(w->f->scheds[0].delays.n, 0);
		assert_int_equal(rows(w), 0);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_it_is_told_when_its_row_is_safe),
		TEST(test_its_event_and_its_end_are_written_together),
		TEST(test_it_survives_with_its_id_and_name),
		TEST(test_what_came_due_meanwhile_fires_once_and_says_how_late),
		TEST(test_time_passes_while_the_machine_is_down),
		TEST(test_it_may_be_late_by_more_than_the_machine_is_up),
		TEST(test_a_set_clock_moves_no_elapsed_time),
		TEST(test_a_failed_write_refuses_it),
		TEST(test_an_event_that_cannot_be_written_fires_later),
		TEST(test_one_of_another_run_is_cancelled_by_its_id),
		TEST(test_adjusting_is_stored),
		TEST(test_one_being_set_may_be_cancelled_by_its_name),
		TEST(test_a_name_replaces_the_one_before_in_one_job),
		TEST(test_a_repetition_keeps_its_grid),
		TEST(test_misfire_says_what_becomes_of_missed_times),
		TEST(test_a_full_mailbox_takes_no_repetition),
		TEST(test_a_repetition_ends_when_cancelled_while_it_fires),
		TEST(test_a_persistent_schedule_knows_what_it_missed),
		TEST(test_an_edited_schedule_does_not_fire_at_once),
		TEST(test_a_schedule_that_is_not_persistent_forgets),
		TEST(test_a_damaged_row_is_told_and_others_fire),
		TEST(test_rows_of_any_size_are_read_or_refused),
		TEST(test_no_row_does_harm),
		TEST(test_without_memory_it_is_refused_or_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
