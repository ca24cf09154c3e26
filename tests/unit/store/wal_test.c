/* The log: what was written comes back, up to where it was cut; what was safe
 * and is damaged is told. Files are real, and bytes of them are changed. */
#include "store/wal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "kernel/store.h"

enum {
	SHIFT = 40,
	MAX = 64 << 10,
	MARK = 0x1234567,
	HEAD = sizeof(struct wal_head)
};

struct world {
	char path[64];
	struct wal wal;
	struct rows rows;
	struct wal_found found;
};

static uint64_t
first_no(void)
{
	return 7ull << SHIFT;
}

static void
reopen(struct world *w)
{
	wal_close(&w->wal);
	assert_int_equal(wal_open(&w->wal, w->path, MAX), 0);
}

static void
begin(struct world *w)
{
	assert_int_equal(wal_begin(&w->wal, MARK, first_no(), &w->found), 0);
}

static int
setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	strcpy(w->path, "/tmp/eventd-wal-XXXXXX");
	assert_non_null(mkdtemp(w->path));
	wal_init(&w->wal);
	rows_init(&w->rows);
	reopen(w);
	begin(w);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;
	char command[128];

	wal_close(&w->wal);
	rows_clear(&w->rows);
	snprintf(command, sizeof(command), "rm -rf '%s'", w->path);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

/* A group of one row. */
static int
append(struct world *w, const char *key, const void *data, uint32_t size)
{
	struct store_write row = {.table = STORE_EVENTS,
		.key = key,
		.key_size = (uint16_t)strlen(key),
		.data = data,
		.size = size};
	void *group = malloc(wal_room(wal_row_size(&row), 1));
	uint8_t *end = wal_put_row(wal_rows(group), &row);
	int r = wal_append(&w->wal, group, end, 1, false);

	free(group);
	return r;
}

static void
put(struct world *w, const char *key)
{
	assert_int_equal(append(w, key, key, (uint32_t)strlen(key)), 0);
	assert_int_equal(wal_sync(&w->wal), 0);
}

/* The keys that a new start finds: "a b -c", with - for erased ones. */
static const char *
replay_from(struct world *w, uint64_t applied, uint64_t mark)
{
	static char out[4096];
	size_t used = 0;

	reopen(w);
	rows_clear(&w->rows);
	w->found = (struct wal_found){.applied = applied, .mark = mark};
	assert_int_equal(wal_replay(&w->wal, SHIFT, &w->rows, &w->found), 0);
	out[0] = '\0';
	for (const struct rows_row *row = w->rows.head[0]; row;
		row = row->next[0]) {
		assert_int_equal(row->table, STORE_EVENTS);
		used += (size_t)snprintf(out + used, sizeof(out) - used,
			"%s%s%.*s", used ? " " : "", row->data ? "" : "-",
			row->key_size, row->key);
	}
	return out;
}

static const char *
replay(struct world *w)
{
	return replay_from(w, first_no(), MARK);
}

static size_t
file_bytes(const struct world *w, unsigned i, uint8_t **bytes)
{
	char name[128];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "%s/log-%u", w->path, i);
	fd = open(name, O_RDONLY);
	assert_true(fd >= 0 && !fstat(fd, &st));
	*bytes = malloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, *bytes, (size_t)st.st_size), st.st_size);
	close(fd);
	return (size_t)st.st_size;
}

static void
write_bytes(const struct world *w, unsigned i, const void *bytes, size_t size)
{
	char name[128];
	int fd;

	snprintf(name, sizeof(name), "%s/log-%u", w->path, i);
	fd = open(name, O_WRONLY | O_TRUNC | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

/* ---- tests --------------------------------------------------------------- */

static void
test_what_was_written_comes_back(void **state)
{
	struct world *w = *state;

	put(w, "a");
	put(w, "b");
	assert_int_equal(append(w, "a", NULL, 0), 0);
	assert_string_equal(replay(w), "-a b");
	assert_int_equal(w->found.groups, 3);
	assert_int_equal(w->found.last, first_no() + 3);
	assert_int_equal(w->found.lost, 0);
	assert_string_equal(replay_from(w, first_no() + 2, MARK), "-a");
	assert_string_equal(replay_from(w, first_no() + 3, MARK), "");
	assert_false(w->found.stray);
}

static void
test_nothing_is_found_in_an_empty_log(void **state)
{
	struct world *w = *state;

	assert_string_equal(replay(w), "");
	assert_int_equal(w->found.groups, 0);
	write_bytes(w, 0, "\x67", 1);
	assert_string_equal(replay(w), "");
}

/* B53: cut at every byte of the last group, it ends before that. */
static void
test_a_torn_tail_is_the_end(void **state)
{
	struct world *w = *state;
	uint8_t *bytes;
	size_t size, last, end;

	put(w, "one");
	put(w, "two");
	last = w->wal.files[0].at;
	put(w, "three");
	end = w->wal.files[0].at;
	size = file_bytes(w, 0, &bytes);
	assert_true(size >= end);
	for (size_t cut = last; cut < end; cut++) {
		write_bytes(w, 0, bytes, cut);
		assert_string_equal(replay(w), "one two");
		assert_int_equal(w->found.lost, 0);
	}
	for (size_t at = last; at < end; at++) { /* torn in any place */
		bytes[at] ^= 0x40;
		write_bytes(w, 0, bytes, size);
		assert_string_equal(replay(w), "one two");
		assert_int_equal(w->found.lost, 0);
		bytes[at] ^= 0x40;
	}
	free(bytes);
}

/* B53: what was safe and cannot be read is told, what is behind it counts. */
static void
test_damage_in_the_middle_is_told(void **state)
{
	struct world *w = *state;
	uint8_t *bytes;
	size_t size, from, to;
	struct stat st;
	char name[128];

	put(w, "one");
	from = w->wal.files[0].at;
	put(w, "two");
	to = w->wal.files[0].at;
	put(w, "three");
	size = file_bytes(w, 0, &bytes);
	for (size_t at = from; at < to; at++) {
		bytes[at] ^= 1;
		write_bytes(w, 0, bytes, size);
		assert_string_equal(replay(w), "one three");
		assert_int_equal(w->found.lost, 1);
		bytes[at] ^= 1;
	}
	bytes[from] ^= 1;
	write_bytes(w, 0, bytes, size);
	replay(w);
	assert_int_equal(wal_begin(&w->wal, 1, w->found.last, &w->found), 0);
	assert_non_null(strstr(w->found.text, "1 groups of writes are lost"));
	snprintf(name, sizeof(name), "%s/%s", w->path,
		strstr(w->found.text, "log-0.corrupt-"));
	*strchr(name, ';') = '\0';
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(st.st_size, size);
	free(bytes);
}

/* Nobody was told that these were safe: the log ends before the gap. */
static void
test_a_gap_that_was_never_synced_is_the_end(void **state)
{
	struct world *w = *state;
	uint8_t *bytes;
	size_t size, from;

	put(w, "one");
	from = w->wal.files[0].at;
	assert_int_equal(append(w, "two", "2", 1), 0);
	assert_int_equal(append(w, "three", "3", 1), 0);
	size = file_bytes(w, 0, &bytes);
	bytes[from + HEAD] ^= 1;
	write_bytes(w, 0, bytes, size);
	assert_string_equal(replay(w), "one");
	assert_int_equal(w->found.lost, 0);
	free(bytes);
}

/* The files are written in turn; what LMDB has is written over. */
static void
test_files_take_turns(void **state)
{
	struct world *w = *state;
	char key[8];

	put(w, "a0");
	put(w, "a1");
	assert_true(wal_other_is_free(&w->wal, first_no()));
	wal_turn(&w->wal);
	put(w, "b2");
	assert_false(wal_other_is_free(&w->wal, first_no() + 1));
	assert_true(wal_other_is_free(&w->wal, first_no() + 2));
	assert_string_equal(replay_from(w, first_no(), MARK), "a0 a1 b2");
	assert_string_equal(replay_from(w, first_no() + 1, MARK), "a1 b2");
	begin(w);
	for (unsigned i = 0; i < 40; i++) { /* old ones lie behind new ones */
		if (i % 3 == 0)
			wal_turn(&w->wal);
		snprintf(key, sizeof(key), "k%02u", i);
		put(w, key);
	}
	assert_string_equal(
		replay_from(w, first_no() + 35, MARK), "k35 k36 k37 k38 k39");
	assert_int_equal(w->found.lost, 0);
}

static void
test_what_is_undone_does_not_come_back(void **state)
{
	struct world *w = *state;

	put(w, "one");
	assert_int_equal(append(w, "never", "x", 1), 0);
	wal_undo(&w->wal);
	assert_string_equal(replay(w), "one");
	begin(w);
	put(w, "1");
	fault_arm("store_write_enospc", 1);
	assert_int_equal(append(w, "never", "x", 1), -ENOSPC);
	put(w, "2");
	assert_string_equal(replay(w), "1 2");
}

/* Of another store, or of a later state of this one: not mixed with it. */
static void
test_another_stores_log_is_set_aside(void **state)
{
	struct world *w = *state;

	put(w, "theirs");
	assert_string_equal(replay_from(w, 3ull << SHIFT, 42), "");
	assert_true(w->found.stray);
	assert_int_equal(wal_begin(&w->wal, 42, 3ull << SHIFT, &w->found), 0);
	assert_non_null(strstr(w->found.text, "log-0.stray-"));
	put(w, "ours");
	assert_string_equal(replay_from(w, 3ull << SHIFT, 42), "ours");
	/* an older one's is of no interest */
	assert_string_equal(replay_from(w, 9ull << SHIFT, 43), "");
	assert_false(w->found.stray);
}

/* What LMDB knew is gone: all of the last run is taken. */
static void
test_a_lost_store_gets_what_the_log_has(void **state)
{
	struct world *w = *state;

	put(w, "old");
	put(w, "older");
	assert_int_equal(
		wal_begin(&w->wal, MARK + 1, 8ull << SHIFT, &w->found), 0);
	wal_turn(&w->wal);
	put(w, "x");
	put(w, "y");
	assert_string_equal(replay_from(w, 0, 0), "x y");
	assert_int_equal(w->found.lost, 0);
	assert_int_equal(w->found.last, (8ull << SHIFT) + 2);
}

/* A group whose checksum is right but whose rows are not is not believed. */
static void
test_rows_are_checked(void **state)
{
	struct world *w = *state;
	struct store_write row = {.table = STORE_TABLES,
		.key = "k",
		.key_size = 1,
		.data = "v",
		.size = 1};
	void *group = malloc(wal_room(64, 1));
	uint8_t *end = wal_put_row(wal_rows(group), &row);

	assert_int_equal(wal_append(&w->wal, group, end, 1, false), 0);
	assert_int_equal(wal_index(&w->rows, group), -EUCLEAN);
	end = wal_rows(group);
	memset(end, 0xff, 16);
	end += 16;
	assert_int_equal(wal_append(&w->wal, group, end, 1, false), 0);
	assert_int_equal(wal_index(&w->rows, group), -EUCLEAN);
	free(group);
}

static void
test_random_bytes_never_come_back(void **state)
{
	struct world *w = *state;
	uint8_t *bytes = malloc(MAX);
	const uint64_t mark = MARK;

	srandom(1);
	for (unsigned round = 0; round < 50; round++) {
		for (size_t i = 0; i < MAX; i++)
			bytes[i] = (uint8_t)random();
		for (size_t i = 0; i < MAX; i += 64)
			memcpy(bytes + i, &mark, sizeof(mark));
		write_bytes(w, round % 2, bytes, MAX);
		assert_string_equal(replay(w), "");
		assert_string_equal(replay_from(w, 0, 0), "");
	}
	free(bytes);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_was_written_comes_back),
		TEST(test_nothing_is_found_in_an_empty_log),
		TEST(test_a_torn_tail_is_the_end),
		TEST(test_damage_in_the_middle_is_told),
		TEST(test_a_gap_that_was_never_synced_is_the_end),
		TEST(test_files_take_turns),
		TEST(test_what_is_undone_does_not_come_back),
		TEST(test_another_stores_log_is_set_aside),
		TEST(test_a_lost_store_gets_what_the_log_has),
		TEST(test_rows_are_checked),
		TEST(test_random_bytes_never_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
