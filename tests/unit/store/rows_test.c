/* Rows in memory: the last word on a key counts, in the order of keys. */
#include "store/rows.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"

enum { N = 2000 };

static void
set(struct rows *rows, unsigned table, const char *key, const char *data)
{
	size_t size = strlen(key), data_size = data ? strlen(data) : 0;
	char *room = rows_room(rows, 64);
	struct rows_row row = {.key = (uint8_t *)room,
		.key_size = (uint16_t)size,
		.table = (uint8_t)table};

	assert_non_null(room);
	snprintf(room, 64, "%s%s", key, data ? data : "");
	if (data) {
		row.data = (uint8_t *)room + size;
		row.size = (uint32_t)data_size;
	}
	assert_int_equal(rows_set(rows, &row), 0);
}

/* "0a=1 1b=-" */
static const char *
text(const struct rows *rows)
{
	static char out[4096];
	size_t used = 0;

	out[0] = '\0';
	for (const struct rows_row *row = rows->head[0]; row;
		row = row->next[0])
		used += (size_t)snprintf(out + used, sizeof(out) - used,
			"%s%u%.*s=%.*s", used ? " " : "", row->table,
			row->key_size, row->key, row->data ? (int)row->size : 1,
			row->data ? (const char *)row->data : "-");
	return out;
}

static void
test_the_last_word_counts_in_order(void **state)
{
	struct rows rows;

	(void)state;
	rows_init(&rows);
	set(&rows, 1, "b", "1");
	set(&rows, 0, "z", "2");
	set(&rows, 1, "a", "3");
	set(&rows, 1, "ab", "4");
	set(&rows, 1, "b", NULL);
	set(&rows, 1, "a", "5");
	assert_string_equal(text(&rows), "0z=2 1a=5 1ab=4 1b=-");
	assert_int_equal(rows.n, 4);
	rows_clear(&rows);
	assert_string_equal(text(&rows), "");
}

static void
test_seek_finds_the_first_behind(void **state)
{
	struct rows rows;

	(void)state;
	rows_init(&rows);
	set(&rows, 1, "b", "1");
	set(&rows, 1, "d", "2");
	set(&rows, 2, "a", "3");
	assert_memory_equal(rows_seek(&rows, 1, "", 0)->data, "1", 1);
	assert_memory_equal(rows_seek(&rows, 1, "b", 1)->data, "1", 1);
	assert_memory_equal(rows_seek(&rows, 1, "ba", 2)->data, "2", 1);
	assert_int_equal(rows_seek(&rows, 1, "e", 1)->table, 2);
	assert_null(rows_seek(&rows, 2, "b", 1));
	rows_clear(&rows);
}

static void
test_newer_rows_win_when_merged(void **state)
{
	struct rows rows, newer;

	(void)state;
	rows_init(&rows);
	rows_init(&newer);
	set(&rows, 0, "a", "1");
	set(&rows, 0, "b", "2");
	set(&newer, 0, "a", NULL);
	set(&newer, 0, "c", "3");
	fault_arm("rows_chunk", 1);
	while (rows_room(&rows, 8)) /* until the chunk is full */
		;
	fault_arm("rows_chunk", 1);
	assert_int_equal(rows_merge(&rows, &newer), -ENOMEM);
	assert_string_equal(text(&rows), "0a=1 0b=2");
	assert_int_equal(rows_merge(&rows, &newer), 0);
	assert_string_equal(text(&rows), "0a=- 0b=2 0c=3");
	assert_int_equal(newer.n, 0);
	assert_null(newer.chunks);
	rows_clear(&rows);
}

/* With the room kept that they need, none fails. */
static void
test_room_that_is_kept_is_enough(void **state)
{
	struct rows rows;
	void *room;
	char key[8];

	(void)state;
	rows_init(&rows);
	room = rows_room(&rows, (size_t)N * (ROWS_ROW_MAX + 64));
	assert_non_null(room);
	rows_unroom(&rows, room);
	fault_arm("rows_chunk", 1);
	for (unsigned i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "%04u", i * 7919 % N);
		set(&rows, 0, key, "v");
	}
	assert_int_equal(rows.n, N);
	fault_arm("rows_chunk", 0);
	rows_clear(&rows);
}

static void
test_many_are_in_order(void **state)
{
	struct rows rows;
	char key[8];
	unsigned i = 0;

	(void)state;
	rows_init(&rows);
	for (; i < N; i++) {
		snprintf(key, sizeof(key), "%04u", i * 7919 % N);
		set(&rows, 0, key, key);
	}
	i = 0;
	for (const struct rows_row *row = rows.head[0]; row;
		row = row->next[0], i++) {
		snprintf(key, sizeof(key), "%04u", i);
		assert_memory_equal(row->key, key, 4);
		assert_memory_equal(row->data, key, 4);
	}
	assert_int_equal(i, N);
	rows_clear(&rows);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_word_counts_in_order),
		cmocka_unit_test(test_seek_finds_the_first_behind),
		cmocka_unit_test(test_newer_rows_win_when_merged),
		cmocka_unit_test(test_room_that_is_kept_is_enough),
		cmocka_unit_test(test_many_are_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
