/* What lies in the store, as a damaged disk or another program may have left
 * it: groups of the log, records of events, rows of timers. The first byte says
 * which of them. Checksums are made right, for what is behind them is the
 * question; what is taken is put back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/calendar.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "kernel/delay_row.h"
#include "kernel/record.h"
#include "kernel/sched.h"
#include "kernel/store.h"
#include "store/wal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MARK = 0x6b72616d, /* of groups that are to be read */
	FILE_ROOM = 1 << 16,
	RECORD_CRC_FROM = 4,
	WAL_CRC_AT = 8,
	WAL_CRC_BEHIND = 12,
	WAL_SIZE_AT = 12,
};

#define MUST(condition)           \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

struct script {
	const uint8_t *p, *end;
};

static unsigned
take(struct script *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static size_t
take_bytes(struct script *s, uint8_t *out, size_t most)
{
	size_t left = (size_t)(s->end - s->p);

	if (most > left)
		most = left;
	if (most)
		memcpy(out, s->p, most);
	s->p += most;
	return most;
}

/* ---- the log ------------------------------------------------------------- */

/* One group, as the script has it; it fits. Returns where it ends. */
static size_t
put_group(struct script *s, uint8_t *out, size_t room)
{
	unsigned how = take(s);
	struct wal_head head = {
		.mark = how & 1 ? take(s) : MARK,
		.no = (uint64_t)(how >> 6) << 40 | take(s),
		.synced = take(s),
		.n = how & 2 ? take(s) << 16 : take(s),
	};
	size_t size = sizeof(head) +
		      take_bytes(s, out + sizeof(head), take(s) * 2u + 8);

	while (size % 8)
		out[size++] = 0;
	MUST(size <= room);
	head.size = how & 4 ? take(s) << (how & 24) : (uint32_t)size;
	memcpy(out, &head, sizeof(head));
	if (head.size >= WAL_CRC_BEHIND && head.size <= size)
		head.crc = crc32c(
			0, out + WAL_CRC_BEHIND, head.size - WAL_CRC_BEHIND);
	memcpy(out + WAL_CRC_AT, &head.crc, sizeof(head.crc));
	return size;
}

static void
put_file(struct script *s, int fd)
{
	static uint8_t bytes[FILE_ROOM];
	unsigned n = take(s) % 16;
	size_t size = 0;

	while (n-- && size + 1024 < sizeof(bytes))
		size += put_group(s, bytes + size, sizeof(bytes) - size);
	size -= size ? take(s) % 8 : 0; /* cut off */
	MUST(write(fd, bytes, size) == (ssize_t)size);
}

static void
check_rows(const struct rows *rows)
{
	const struct rows_row *row = rows->head[0], *next;

	for (; row; row = next) {
		next = row->next[0];
		MUST(row->key_size && row->key_size <= STORE_KEY_MAX);
		MUST(row->table < STORE_TABLES);
		if (next && next->table == row->table)
			MUST(rows_compare(row->key, row->key_size, next->key,
				     next->key_size) < 0);
	}
}

static void
fuzz_log(struct script *s)
{
	struct wal_found found = {.applied = take(s)};
	struct wal l;
	struct rows rows;
	int r;

	found.mark = take(s) & 1 ? MARK : 0;
	wal_init(&l);
	rows_init(&rows);
	for (unsigned i = 0; i < WAL_FILES; i++) {
		l.files[i].fd = memfd_create("log", MFD_CLOEXEC);
		MUST(l.files[i].fd >= 0);
		put_file(s, l.files[i].fd);
	}
	r = wal_replay(&l, 40, &rows, &found);
	if (!r)
		check_rows(&rows);
	MUST(r || !found.groups || found.last > found.applied);
	rows_clear(&rows);
	wal_close(&l);
}

/* ---- records ------------------------------------------------------------- */

static void
set_crc(uint8_t *data, size_t size)
{
	uint32_t crc;

	if (size < RECORD_CRC_FROM)
		return;
	crc = crc32c(0, data + RECORD_CRC_FROM, size - RECORD_CRC_FROM);
	memcpy(data, &crc, sizeof(crc));
}

static void
fuzz_record(uint8_t *data, size_t size)
{
	struct msg *m = NULL;
	struct record record;
	uint32_t says = 0;
	size_t used = 0;
	uint8_t *back;

	if (size >= 8)
		memcpy(&says, data + 4, sizeof(says));
	set_crc(data, says >= 4 && says <= size ? says : size);
	if (record_get(NULL, data, size, &used, &m, &record)) {
		MUST(used <= size);
		return;
	}
	MUST(record_is_sound(data, size, &used) && used <= size);
	MUST(record_size(m) == used);
	back = malloc(used);
	MUST(back && record_put(back, m, &record) == used);
	MUST(record_is_sound(back, used, &used));
	free(back);
	msg_free(NULL, m);
}

/* ---- rows of timers ------------------------------------------------------ */

static const struct executor_ops executor_ops = {.name = "none"};

static void
fuzz_delay(uint8_t *data, size_t size)
{
	static struct kernel k;
	static struct sched s;
	static struct store store;
	static bool is_made;
	struct delay_init init = {.event = NULL};
	struct delay_row row;

	if (!is_made) {
		MUST(!kernel_init(&k, &kernel_limits_default, &clock_system));
		MUST(!sched_init(&s, &k, 0, &executor_ops, NULL));
		k.store = &store;
		is_made = true;
	}
	set_crc(data, size);
	if (!delay_row_get(&s, data, size, &init, &row)) {
		MUST(init.event_size && strlen(init.event) == init.event_size);
		MUST((size_t)init.size + init.headers_size < size);
		MUST(init.name_size == strlen(init.name));
		MUST(row.self == !init.alias);
	}
	calendar_unref(init.calendar);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = {data + 1, data + size};
	uint8_t *copy;

	if (!size)
		return 0;
	if (data[0] % 3 == 0) {
		fuzz_log(&s);
		return 0;
	}
	copy = malloc(size); /* of this size, that no byte more is read */
	MUST(copy);
	memcpy(copy, data + 1, size - 1);
	copy = realloc(copy, size > 1 ? size - 1 : 1);
	MUST(copy);
	if (data[0] % 3 == 1)
		fuzz_record(copy, size - 1);
	else
		fuzz_delay(copy, size - 1);
	free(copy);
	return 0;
}
