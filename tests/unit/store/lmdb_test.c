/* The store on LMDB: what is written is there, or the writer is told why not;
 * and what a store is found like. The writer's thread is real; the scheduler is
 * stepped by the test. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "world.h"

/* ---- tests --------------------------------------------------------------- */

static void
test_rows_are_there_after_a_restart(void **state)
{
	struct world *w = *state;
	uint64_t run;

	assert_int_equal(open_store(w), 0);
	run = lmdb_store(w->lmdb)->run;
	assert_int_equal(put(w, "b", "2", 1), 0);
	assert_int_equal(put(w, "a", "1", 1), 0);
	assert_int_equal(put(w, "c", "3", 1), 0);
	assert_int_equal(erase(w, "b"), 0);
	assert_int_equal(erase(w, "nosuch"), 0);
	close_store(w);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(get(w, "a", 0, 100, NULL), "a=1 c=3");
	assert_int_equal(lmdb_store(w->lmdb)->run, run + 1);
	assert_true(
		lmdb_store(w->lmdb)->next_no > (run + 1) << STORE_RUN_SHIFT);
}

static void
test_reads_are_in_order_and_bounded(void **state)
{
	struct world *w = *state;
	bool more;

	assert_int_equal(open_store(w), 0);
	put(w, "x1", "a", 1);
	put(w, "x2", "b", 1);
	put(w, "x3", "c", 1);
	put(w, "y1", "d", 1);
	assert_string_equal(get(w, "x2", 1, 100, &more), "x2=b x3=c");
	assert_false(more);
	assert_string_equal(get(w, "x", 1, 2, &more), "x1=a x2=b");
	assert_true(more);
	assert_string_equal(get(w, "z", 1, 2, &more), "");
}

/* A job that does nothing comes back behind all that came before it, reads that
 * did not wait among them. */
static void
test_nothing_is_left_behind_a_barrier(void **state)
{
	struct world *w = *state;
	enum { N = 50 };
	struct job *reads = calloc(N, sizeof(*reads));
	struct job barrier = {.done = false};

	assert_int_equal(open_store(w), 0);
	put(w, "a", "1", 1);
	for (unsigned i = 0; i < N; i++) {
		reads[i].read = (struct store_read){.table = STORE_EVENTS,
			.also = STORE_TABLES,
			.max_rows = 10,
			.max_size = 100,
			.soon = true};
		reads[i].job.read = &reads[i].read;
		submit(w, &reads[i]);
	}
	submit(w, &barrier);
	assert_int_equal(wait_for(w, &barrier), 0);
	sched_turn(&w->sched);
	for (unsigned i = 0; i < N; i++) {
		assert_true(reads[i].done);
		assert_int_equal(reads[i].job.status, 0);
		assert_int_equal(reads[i].read.n, 1);
		free(reads[i].read.rows);
	}
	free(reads);
}

/* Several that wait are one transaction. */
static void
test_jobs_are_committed_together(void **state)
{
	struct world *w = *state;
	enum { N = 200 };
	struct job *jobs = calloc(N, sizeof(*jobs));
	char keys[N][8];
	struct lmdb_stats stats;

	assert_int_equal(open_store(w), 0);
	for (unsigned i = 0; i < N; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%03u", i);
		prepare_put(&jobs[i], keys[i], "v", 1);
		submit(w, &jobs[i]);
	}
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(wait_for(w, &jobs[i]), 0);
	lmdb_stats(w->lmdb, &stats);
	assert_in_range(stats.commits, 1, N / 2);
	free(jobs);
}

static void
test_the_map_grows(void **state)
{
	struct world *w = *state;
	const uint32_t size = 1 << 20;
	char *data = malloc(size), key[8];

	memset(data, 'x', size);
	assert_int_equal(open_store(w), 0);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "k%02u", i);
		assert_int_equal(put(w, key, data, size), 0);
	}
	free(data);
}

/* B50: a full map refuses, what is there stays, room helps. */
static void
test_a_full_store_refuses_and_recovers(void **state)
{
	struct world *w = *state;
	const uint32_t size = 1 << 20;
	char *data = malloc(size), key[8];
	unsigned n = 0;
	int r = 0;

	memset(data, 'x', size);
	w->config.max_size = 8 << 20;
	assert_int_equal(open_store(w), 0);
	for (; !r && n < 20; n++) {
		snprintf(key, sizeof(key), "k%02u", n);
		r = put(w, key, data, size);
	}
	assert_int_equal(r, -ENOSPC);
	assert_in_range(n, 3, 10);
	assert_int_equal(put(w, "k00", "small", 5), -ENOSPC + ENOSPC);
	assert_int_equal(erase(w, "k01"), 0);
	assert_int_equal(erase(w, "k02"), 0);
	assert_int_equal(put(w, "more", data, size / 2), 0);
	free(data);
}

static void
check_fault(struct world *w, const char *point, int status)
{
	assert_int_equal(put(w, "before", "1", 1), 0);
	fault_arm(point, 1);
	assert_int_equal(put(w, "during", "2", 1), status);
	fault_arm(point, 0);
	assert_int_equal(put(w, "after", "3", 1), 0);
	assert_string_equal(get(w, "a", 0, 10, NULL), "after=3 before=1");
	close_store(w);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(get(w, "a", 0, 10, NULL), "after=3 before=1");
}

static void
test_failures_at_any_write_are_told_and_pass(void **state)
{
	struct world *w = *state;

	assert_int_equal(open_store(w), 0);
	check_fault(w, "store_write_enospc", -ENOSPC);
	check_fault(w, "store_write_eio", -EIO);
	check_fault(w, "store_commit_enospc", -ENOSPC);
	check_fault(w, "store_commit_eio", -EIO);
}

/* What gives room is done although what takes it is not. */
static void
test_erasing_goes_on_when_writing_fails(void **state)
{
	struct world *w = *state;
	const uint32_t size = 4 << 20;
	char *data = malloc(size);
	struct job jobs[2];

	memset(data, 'x', size);
	w->config.max_size = 4 << 20;
	assert_int_equal(open_store(w), 0);
	assert_int_equal(put(w, "old", "1", 1), 0);
	prepare_put(&jobs[0], "new", data, size);
	prepare_put(&jobs[1], "old", NULL, 0);
	jobs[1].job.frees = true;
	submit(w, &jobs[0]);
	submit(w, &jobs[1]);
	assert_int_equal(wait_for(w, &jobs[0]), -ENOSPC);
	assert_int_equal(wait_for(w, &jobs[1]), 0);
	assert_string_equal(get(w, "a", 0, 10, NULL), "");
	free(data);
}

static void
test_a_second_process_is_refused(void **state)
{
	struct world *w = *state;
	int status = 0;
	pid_t pid;

	assert_int_equal(open_store(w), 0);
	pid = fork();
	if (pid == 0) {
		struct lmdb *other;
		struct lmdb_found found;
		int r = lmdb_open(&other, &w->config, &found);

		_exit(r == -EBUSY && strstr(found.text, "another process") ? 0
									   : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
write_at(const struct world *w, off_t at, const void *data, size_t size)
{
	char name[128];
	int fd;

	snprintf(name, sizeof(name), "%s/data.mdb", w->path);
	fd = open(name, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, size, at), size);
	close(fd);
}

static unsigned
count_corrupt(const struct world *w)
{
	char command[128], text[16] = "";
	FILE *p;

	snprintf(command, sizeof(command), "ls '%s' | grep -c corrupt-",
		w->path);
	p = popen(command, "r");
	assert_non_null(fgets(text, sizeof(text), p));
	pclose(p);
	return (unsigned)atoi(text);
}

/* B43, B53: garbage, zeros and a torn page are set aside, nothing is deleted,
 * and the store begins anew. */
static void
test_damage_is_set_aside(void **state)
{
	struct world *w = *state;
	static uint8_t garbage[3 * 4096];

	memset(garbage, 0xa5, sizeof(garbage));
	assert_int_equal(open_store(w), 0);
	put(w, "a", "1", 1);
	close_store(w);
	write_at(w, 0, garbage, sizeof(garbage));
	assert_int_equal(open_store(w), 0);
	assert_true(w->found.set_aside);
	assert_non_null(strstr(w->found.text, "set aside as"));
	assert_int_equal(count_corrupt(w), 1);
	assert_string_equal(get(w, "a", 0, 10, NULL), "");
	assert_int_equal(put(w, "b", "1", 1), 0);
}

/* Every page behind the two that say where all is, flipped. */
static void
test_flipped_pages_never_kill_us(void **state)
{
	struct world *w = *state;
	static uint8_t flipped[16 * 4096];

	memset(flipped, 0xff, sizeof(flipped));
	assert_int_equal(open_store(w), 0);
	for (unsigned i = 0; i < 50; i++) {
		char key[8];

		snprintf(key, sizeof(key), "k%02u", i);
		put(w, key, flipped, 3000);
	}
	close_store(w);
	write_at(w, 2 * 4096, flipped, sizeof(flipped));
	assert_int_equal(open_store(w), 0);
	assert_true(w->found.set_aside);
}

static void
test_damage_is_refused_if_so_asked(void **state)
{
	struct world *w = *state;

	w->config.refuse_corrupt = true;
	assert_int_equal(open_store(w), 0);
	close_store(w);
	write_at(w, 0, "garbage in both", 16);
	write_at(w, 4096, "garbage in both", 16);
	write_at(w, 16, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	write_at(w, 4096 + 16, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	assert_int_equal(open_store(w), -EUCLEAN);
	assert_non_null(strstr(w->found.text, "OnCorrupt=refuse"));
	assert_int_equal(system("true"), 0);
}

/* B59 */
static void
test_an_empty_file_is_none(void **state)
{
	struct world *w = *state;
	char name[128];

	snprintf(name, sizeof(name), "%s/data.mdb", w->path);
	close(open(name, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(open_store(w), 0);
	assert_false(w->found.set_aside);
	assert_int_equal(put(w, "a", "1", 1), 0);
}

/* B47 */
static void
test_runs_without_it_are_told(void **state)
{
	struct world *w = *state;

	lmdb_ran_without(w->path);
	assert_int_equal(open_store(w), 0);
	assert_int_equal(w->found.ran_without, 0); /* there was none */
	close_store(w);
	lmdb_ran_without(w->path);
	lmdb_ran_without(w->path);
	assert_int_equal(open_store(w), 0);
	assert_int_equal(w->found.ran_without, 2);
	close_store(w);
	assert_int_equal(open_store(w), 0);
	assert_int_equal(w->found.ran_without, 0);
}

static void
test_a_place_that_cannot_be_is_told(void **state)
{
	struct world *w = *state;

	w->config.path = "/proc/nothing/here";
	assert_true(open_store(w) < 0);
	assert_non_null(strstr(w->found.text, "/proc/nothing/here: "));
}

/* A box is one session's at a time, and its number is its own for ever. */
static void
test_boxes_are_held_once(void **state)
{
	struct world *w = *state;
	struct store *store;
	struct store_box *a, *b;

	assert_int_equal(open_store(w), 0);
	store = lmdb_store(w->lmdb);
	a = store->ops->hold(store, "a", 1);
	b = store->ops->hold(store, "b", 1);
	assert_non_null(a);
	assert_int_not_equal(a->id, b->id);
	assert_null(store->ops->hold(store, "a", 1));
	store->ops->release(store, a);
	assert_ptr_equal(store->ops->hold(store, "a", 1), a);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_rows_are_there_after_a_restart),
		TEST(test_reads_are_in_order_and_bounded),
		TEST(test_nothing_is_left_behind_a_barrier),
		TEST(test_jobs_are_committed_together),
		TEST(test_the_map_grows),
		TEST(test_a_full_store_refuses_and_recovers),
		TEST(test_failures_at_any_write_are_told_and_pass),
		TEST(test_erasing_goes_on_when_writing_fails),
		TEST(test_a_second_process_is_refused),
		TEST(test_damage_is_set_aside),
		TEST(test_flipped_pages_never_kill_us),
		TEST(test_damage_is_refused_if_so_asked),
		TEST(test_an_empty_file_is_none),
		TEST(test_runs_without_it_are_told),
		TEST(test_a_place_that_cannot_be_is_told),
		TEST(test_boxes_are_held_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
