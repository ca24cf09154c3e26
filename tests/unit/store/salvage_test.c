/* Compaction of a store that is in use, and salvage of one that is damaged. */
#include "store/salvage.h"

#include "world.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { ROWS = 400, BIG = 9000, ROUNDS = 200 };

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
