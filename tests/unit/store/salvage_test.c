/* Compaction of a store that is in use, and salvage of one that is damaged. */
#include "store/salvage.h"

#include "world.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { ROWS = 400, BIG = 9000, ROUNDS = 200 };
enum { MANY = 1500, FLIPS = 20, PAGE = 4096, PAGE_ROWS = 80 };

static int
run_compact(struct store *store, struct store_job *job)
{
	(void)job;
	return lmdb_compact(store, &(uint64_t){0});
}

static int
compact(struct world *w)
{
	struct job j = {.job = {.run = run_compact}};

	submit(w, &j);
	return wait_for(w, &j);
}

static void
fill(struct world *w, unsigned n)
{
	static char big[BIG];
	char key[32];

	memset(big, 'b', sizeof(big));
	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "k%05u", i);
		assert_int_equal(put(w, key, big, i % 8 ? 100 : BIG), 0);
	}
}

static void
test_compaction_that_fails_changes_nothing(void **state)
{
	static const char *const points[] = {
		"compact_enospc", "compact_rename", "lmdb_locks"};
	struct world *w = *state;

	assert_int_equal(open_store(w), 0);
	assert_int_equal(put(w, "a", "1", 1), 0);
	for (unsigned i = 0; i < 3; i++) {
		fault_arm(points[i], 1);
		assert_true(compact(w) < 0);
		fault_arm(points[i], 0);
		assert_int_equal(put(w, "b", "2", 1), 0);
		assert_int_equal(compact(w), 0);
		assert_string_equal(get(w, "a", 0, 10, NULL), "a=1 b=2");
		close_store(w);
		assert_int_equal(open_store(w), 0);
		assert_string_equal(get(w, "a", 0, 10, NULL), "a=1 b=2");
	}
}

static void
test_compaction_gives_room_back(void **state)
{
	struct world *w = *state;
	struct lmdb_stats before, after;
	char key[32];

	assert_int_equal(open_store(w), 0);
	fill(w, ROWS);
	assert_int_equal(compact(w), 0);
	lmdb_stats(w->lmdb, &before);
	for (unsigned i = 1; i < ROWS; i++) {
		snprintf(key, sizeof(key), "k%05u", i);
		assert_int_equal(erase(w, key), 0);
	}
	assert_int_equal(compact(w), 0);
	lmdb_stats(w->lmdb, &after);
	assert_true(after.size + (400 << 10) < before.size);
	assert_int_equal(put(w, "z", "1", 1), 0);
	assert_string_equal(get(w, "z", 1, 10, NULL), "z=1");
}

static void
paths(const struct world *w, char *from, char *to, size_t size)
{
	snprintf(from, size, "%s/data.mdb", w->path);
	snprintf(to, size, "%s/salvaged", w->path);
}

static void
test_a_sound_file_is_read_whole(void **state)
{
	struct world *w = *state;
	char from[128], to[128];
	struct salvage s;

	paths(w, from, to, sizeof(from));
	assert_int_equal(open_store(w), 0);
	fill(w, ROWS);
	close_store(w);
	assert_int_equal(store_salvage(from, to, &s), 0);
	assert_int_equal(s.bad_pages, 0);
	assert_int_equal(s.lost, 0);
	assert_int_equal(store_salvage(from, to, &s), -EEXIST);
	assert_int_equal(rename(to, from), 0);
	assert_int_equal(open_store(w), 0);
	assert_false(w->found.set_aside);
	assert_int_equal(put(w, "z", "1", 1), 0);
	assert_string_equal(get(w, "z", 1, 10, NULL), "z=1");
}

static void
test_what_is_no_store_is_refused(void **state)
{
	struct world *w = *state;
	char to[128], from[128];
	struct salvage s;

	paths(w, from, to, sizeof(from));
	assert_int_equal(store_salvage(from, to, &s), -ENOENT);
	assert_int_equal(store_salvage(w->path, to, &s), -EINVAL);
	assert_int_equal(store_salvage("/dev/null", to, &s), -EINVAL);
	assert_true(store_salvage("/proc/self/exe", to, &s) < 0);
	assert_true(s.text[0]);
	assert_int_equal(access(to, F_OK), -1);
}

/* Whatever is in it: it is told, and nobody comes to harm. */
static void
test_any_bytes_may_be_wrong(void **state)
{
	struct world *w = *state;
	char from[128], to[128];
	uint64_t rng = 42, at;
	struct salvage s;
	struct stat st;
	uint8_t byte, was;
	int fd, r;

	paths(w, from, to, sizeof(from));
	assert_int_equal(open_store(w), 0);
	fill(w, ROWS);
	close_store(w);
	fd = open(from, O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		rng = rng * 6364136223846793005u + 1442695040888963407u;
		/* most often where a page says what it has */
		at = (rng >> 20) % (uint64_t)st.st_size;
		if (i % 4)
			at = at / 4096 * 4096 + (rng >> 12) % 64;
		byte = (uint8_t)(rng >> 56);
		assert_int_equal(pread(fd, &was, 1, (off_t)at), 1);
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		r = store_salvage(from, to, &s);
		assert_true(r <= 0);
		if (i % 2) /* else they add up */
			assert_int_equal(pwrite(fd, &was, 1, (off_t)at), 1);
		unlink(to);
	}
	close(fd);
}

/* ---- what damaged pages led to ------------------------------------------- */

/* All rows of the salvaged file, in its place. */
static unsigned
count_rows_of(struct world *w, const char *from, const char *to)
{
	struct job j = {.read = {.table = STORE_EVENTS,
				.also = STORE_TABLES,
				.max_rows = MANY + ROWS,
				.max_size = UINT64_MAX / 2}};
	unsigned n;

	assert_int_equal(rename(to, from), 0);
	assert_int_equal(open_store(w), 0);
	assert_false(w->found.set_aside);
	j.job.read = &j.read;
	submit(w, &j);
	assert_int_equal(wait_for(w, &j), 0);
	n = j.read.n;
	free(j.read.rows);
	close_store(w);
	return n;
}

static uint16_t
flags_at(int fd, uint64_t no)
{
	uint16_t flags;

	assert_int_equal(pread(fd, &flags, 2, (off_t)(no * PAGE + 10)), 2);
	return flags;
}

static void
copy_file(const char *from, const char *to)
{
	char command[300];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

static void
flip(const char *path, uint64_t at, uint8_t bits)
{
	int fd = open(path, O_RDWR);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= bits;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/* All that are put at once are few commits. */
static void
put_many(struct world *w)
{
	struct job *jobs = calloc(MANY, sizeof(*jobs));
	char keys[MANY][16];
	static const char data[] = "0123456789012345678901234567890123456789";

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "m%05u", i);
		prepare_put(&jobs[i], keys[i], data, sizeof(data));
		submit(w, &jobs[i]);
	}
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(wait_for(w, &jobs[i]), 0);
	free(jobs);
}

/* Those that are erased again leave old pages, which must not count. */
static void
fill_many(struct world *w)
{
	char key[32];

	put_many(w);
	for (unsigned i = 0; i < MANY; i += 2) {
		snprintf(key, sizeof(key), "m%05u", i);
		assert_int_equal(erase(w, key), 0);
	}
	fill(w, ROWS);
}

/* Each page above the leaves in turn: what is below it is intact, and found. */
static void
test_below_damaged_branches_all_is_found(void **state)
{
	struct world *w = *state;
	char from[128], to[128], kept[128];
	unsigned n_branches = 0;
	struct salvage s;
	struct stat st;
	int fd;

	paths(w, from, to, sizeof(from));
	snprintf(kept, sizeof(kept), "%s/kept", w->path);
	assert_int_equal(open_store(w), 0);
	fill_many(w);
	close_store(w);
	assert_int_equal(rename(from, kept), 0);
	fd = open(kept, O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	for (uint64_t no = 2; no < (uint64_t)st.st_size / PAGE; no++) {
		if (flags_at(fd, no) != 1)
			continue;
		n_branches++;
		copy_file(kept, from);
		flip(from, no * PAGE + 10, 0xff);
		assert_int_equal(store_salvage(from, to, &s), 0);
		assert_int_equal(count_rows_of(w, from, to), MANY / 2 + ROWS);
		unlink(from);
	}
	close(fd);
	assert_true(n_branches > 0);
}

/* Any one bit: of rows at most those of one page are lost, and nothing that had
 * been erased comes back. */
static void
test_a_flipped_bit_costs_its_page_alone(void **state)
{
	struct world *w = *state;
	char from[128], to[128], kept[128];
	uint64_t rng = 7, at;
	struct salvage s;
	struct stat st;
	unsigned n;

	paths(w, from, to, sizeof(from));
	snprintf(kept, sizeof(kept), "%s/kept", w->path);
	assert_int_equal(open_store(w), 0);
	fill_many(w);
	close_store(w);
	assert_int_equal(rename(from, kept), 0);
	assert_int_equal(stat(kept, &st), 0);
	for (unsigned i = 0; i < FLIPS; i++) {
		rng = rng * 6364136223846793005u + 1442695040888963407u;
		at = 2 * PAGE + (rng >> 20) % ((uint64_t)st.st_size - 2 * PAGE);
		if (i % 2) /* where a page says what it is */
			at = at / PAGE * PAGE + (rng >> 12) % 16;
		copy_file(kept, from);
		flip(from, at, (uint8_t)(1 << (rng >> 61)));
		assert_int_equal(store_salvage(from, to, &s), 0);
		n = count_rows_of(w, from, to);
		assert_in_range(n, MANY / 2 + ROWS - PAGE_ROWS,
			MANY / 2 + ROWS + PAGE_ROWS);
		unlink(from);
	}
}

/* What is in the log and not yet in the file, and what it has erased. */
static void
test_the_log_beside_it_is_read(void **state)
{
	struct world *w = *state;
	char from[128], to[128], away[128], command[512];
	struct salvage s;

	paths(w, from, to, sizeof(from));
	snprintf(away, sizeof(away), "%s/away", w->path);
	assert_int_equal(open_store(w), 0);
	assert_int_equal(put(w, "a", "1", 1), 0);
	assert_int_equal(put(w, "b", "2", 1), 0);
	close_store(w);
	assert_int_equal(open_store(w), 0);
	assert_int_equal(put(w, "c", "3", 1), 0);
	assert_int_equal(erase(w, "a"), 0);
	/* as it is when the machine stops now */
	snprintf(command, sizeof(command),
		"mkdir '%s' && cp '%s/data.mdb' '%s'/log-* '%s'", away, w->path,
		w->path, away);
	assert_int_equal(system(command), 0);
	close_store(w);
	snprintf(from, sizeof(from), "%s/away/data.mdb", w->path);
	assert_int_equal(store_salvage(from, to, &s), 0);
	assert_true(s.counts_known);
	snprintf(command, sizeof(command), "rm -rf '%s'", away);
	assert_int_equal(system(command), 0);
	paths(w, from, to, sizeof(from));
	assert_int_equal(rename(to, from), 0);
	assert_int_equal(open_store(w), 0);
	assert_string_equal(get(w, "a", 0, 10, NULL), "b=2 c=3");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_compaction_that_fails_changes_nothing, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_compaction_gives_room_back, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_a_sound_file_is_read_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_what_is_no_store_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_any_bytes_may_be_wrong, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_below_damaged_branches_all_is_found, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_a_flipped_bit_costs_its_page_alone, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_the_log_beside_it_is_read, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
