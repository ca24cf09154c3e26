/* Writing the log; wal_replay.c reads it. */
#include "store/wal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/fault.h"
#include "kernel/store.h"
#include "store/wal_file.h"

enum {
	STEP_MIN = 256 << 10, /* by which a file grows */
	STEP_MAX = 4 << 20,
	KEEP = 2 << 20, /* of the disk's room, for what frees */
	SLOW_MS = 500,  /* a disk that is, in tests */
};

_Static_assert(sizeof(struct wal_head) == 40, "no gaps in what is stored");
_Static_assert(sizeof(struct wal_row) == 8, "no gaps in what is stored");

static struct wal_file *
file_of(struct wal *l)
{
	return &l->files[l->now];
}

/* ---- the files ----------------------------------------------------------- */

void
wal_file_name(char *out, unsigned i)
{
	snprintf(out, WAL_NAME_MAX, "log-%u", i);
}

int
wal_file_open(struct wal *l, unsigned i)
{
	struct wal_file *file = &l->files[i];
	char name[WAL_NAME_MAX];
	struct stat st;

	wal_file_name(name, i);
	file->fd = openat(l->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file->fd < 0 || fstat(file->fd, &st) < 0)
		return err_raise(-errno);
	file->ready = (uint64_t)st.st_size;
	return 0;
}

void
wal_init(struct wal *l)
{
	*l = (struct wal){.dir_fd = -1};
	for (unsigned i = 0; i < WAL_FILES; i++)
		l->files[i].fd = -1;
}

int
wal_open(struct wal *l, const char *path, uint64_t max)
{
	int r = 0;

	wal_init(l);
	l->max = max;
	l->dir_fd = FAULT(wal_open)
			    ? -1
			    : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->dir_fd < 0)
		return err_raise(-errno);
	for (unsigned i = 0; i < WAL_FILES && !r; i++)
		r = wal_file_open(l, i);
	if (!r && fsync(l->dir_fd) < 0)
		r = -errno;
	if (r)
		wal_close(l);
	return err_pass(r);
}

int
wal_open_to_read(struct wal *l, const char *path)
{
	char name[WAL_NAME_MAX];

	wal_init(l);
	l->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->dir_fd < 0)
		return err_raise(-errno);
	for (unsigned i = 0; i < WAL_FILES; i++) {
		wal_file_name(name, i);
		l->files[i].fd = openat(l->dir_fd, name, O_RDONLY | O_CLOEXEC);
		if (l->files[i].fd < 0 && errno != ENOENT)
			return err_raise(-errno);
	}
	return 0;
}

void
wal_close(struct wal *l)
{
	for (unsigned i = 0; i < WAL_FILES; i++) {
		if (l->files[i].fd >= 0)
			close(l->files[i].fd);
		l->files[i].fd = -1;
	}
	if (l->dir_fd >= 0)
		close(l->dir_fd);
	l->dir_fd = -1;
}

void
wal_remove(struct wal *l)
{
	char name[WAL_NAME_MAX];

	for (unsigned i = 0; i < WAL_FILES; i++) {
		wal_file_name(name, i);
		unlinkat(l->dir_fd, name, 0);
	}
}

/* ---- putting a group together -------------------------------------------- */

size_t
wal_row_size(const struct store_write *w)
{
	return sizeof(struct wal_row) + w->key_size + (w->data ? w->size : 0);
}

static size_t
round_up(size_t size)
{
	return (size + WAL_ALIGN - 1) / WAL_ALIGN * WAL_ALIGN;
}

size_t
wal_room(size_t rows_size, uint32_t n)
{
	return sizeof(struct wal_head) + round_up(rows_size) +
	       (size_t)n * ROWS_ROW_MAX;
}

uint8_t *
wal_rows(void *group)
{
	return (uint8_t *)group + sizeof(struct wal_head);
}

uint8_t *
wal_put_row(uint8_t *out, const struct store_write *w)
{
	struct wal_row row = {.size = w->data ? w->size : 0,
		.key_size = w->key_size,
		.table = w->table,
		.flags = w->data ? 0 : WAL_ROW_ERASED};

	memcpy(out, &row, sizeof(row));
	out += sizeof(row);
	memcpy(out, w->key, row.key_size);
	out += row.key_size;
	if (row.size)
		memcpy(out, w->data, row.size);
	return out + row.size;
}

int
wal_index(struct rows *rows, const void *group)
{
	const uint8_t *at = wal_rows((void *)group), *end;
	struct wal_head head;
	int r = 0;

	memcpy(&head, group, sizeof(head));
	end = (const uint8_t *)group + head.size;
	for (uint32_t i = 0; i < head.n && !r; i++) {
		struct wal_row row;

		if ((size_t)(end - at) < sizeof(row))
			return err_raise(-EUCLEAN);
		memcpy(&row, at, sizeof(row));
		at += sizeof(row);
		if ((size_t)(end - at) < (size_t)row.key_size + row.size ||
			row.table >= STORE_TABLES || !row.key_size ||
			row.key_size > STORE_KEY_MAX)
			return err_raise(-EUCLEAN);
		r = rows_set(rows, &(struct rows_row){.key = at,
					   .data = row.flags & WAL_ROW_ERASED
							   ? NULL
							   : at + row.key_size,
					   .size = row.size,
					   .key_size = row.key_size,
					   .table = row.table});
		at += row.key_size + row.size;
	}
	return err_pass(r);
}

/* ---- writing ------------------------------------------------------------- */

static int
write_at(int fd, const void *data, size_t size, uint64_t at)
{
	while (size) {
		ssize_t n = pwrite(fd, data, size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		data = (const uint8_t *)data + n;
		size -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static bool
disk_has(const struct wal *l, uint64_t room)
{
	struct statvfs fs;

	return fstatvfs(l->dir_fd, &fs) < 0 ||
	       (uint64_t)fs.f_bavail * fs.f_frsize >= room;
}

/* Zeros, so that a sync need not tell the file system of a longer file. */
static int
make_ready(struct wal *l, struct wal_file *file, uint64_t need, bool frees)
{
	static const uint8_t zeros[STEP_MIN];
	uint64_t step = file->ready / 2, want;
	int r = 0;

	if (need <= file->ready)
		return 0;
	step = step < STEP_MIN ? STEP_MIN : step > STEP_MAX ? STEP_MAX : step;
	want = (need + step - 1) / STEP_MIN * STEP_MIN;
	if (!frees && !disk_has(l, want - file->ready + KEEP))
		return -ENOSPC;
	while (file->ready < want && !r) {
		uint64_t size = want - file->ready;

		size = size < sizeof(zeros) ? size : sizeof(zeros);
		r = write_at(file->fd, zeros, size, file->ready);
		if (!r)
			file->ready += size;
	}
	return file->ready < need ? r : 0;
}

int
wal_append(struct wal *l, void *group, uint8_t *end, uint32_t n, bool frees)
{
	struct wal_file *file = file_of(l);
	size_t size = (size_t)(end - (uint8_t *)group);
	struct wal_head head = {.mark = l->mark,
		.size = (uint32_t)round_up(size),
		.no = l->no + 1,
		.synced = l->synced,
		.n = n};
	int r;

	memset(end, 0, head.size - size);
	memcpy(group, &head, sizeof(head));
	head.crc = crc32c(
		0, (uint8_t *)group + WAL_CRC_FROM, head.size - WAL_CRC_FROM);
	memcpy(group, &head, sizeof(head));
	if (FAULT(store_write_enospc))
		return -ENOSPC;
	if (FAULT(store_write_eio))
		return -EIO;
	r = make_ready(l, file, file->at + head.size, frees);
	if (!r)
		r = write_at(file->fd, group, head.size, file->at);
	l->written = head.size;
	l->before = file->last;
	file->at += head.size;
	file->last = ++l->no;
	l->dirty = true;
	if (r)
		wal_undo(l);
	return r;
}

/* Nobody takes what is there for a group if the daemon dies now. */
void
wal_undo(struct wal *l)
{
	struct wal_file *file = file_of(l);
	const uint64_t none = 0;

	l->no--;
	file->at -= l->written;
	file->last = l->before;
	write_at(file->fd, &none, sizeof(none), file->at);
}

int
wal_sync(struct wal *l)
{
	if (FAULT(store_commit_enospc))
		return -ENOSPC;
	if (FAULT(store_commit_eio))
		return -EIO;
	if (FAULT(store_slow))
		usleep(SLOW_MS * 1000);
	for (unsigned i = 0; i < WAL_FILES; i++)
		if (l->files[i].last > l->synced &&
			fdatasync(l->files[i].fd) < 0)
			return -errno;
	l->synced = l->no;
	l->dirty = false;
	return 0;
}

/* ---- room ---------------------------------------------------------------- */

int
wal_fd(const struct wal *l)
{
	return l->files[l->now].fd;
}

uint64_t
wal_left(const struct wal *l)
{
	return l->max - l->files[l->now].at;
}

bool
wal_must_grow(const struct wal *l, uint64_t size)
{
	return l->files[l->now].at + size > l->files[l->now].ready;
}

bool
wal_other_is_free(const struct wal *l, uint64_t applied)
{
	return l->files[!l->now].last <= applied;
}

void
wal_turn(struct wal *l)
{
	l->now = !l->now;
	file_of(l)->at = 0;
	file_of(l)->last = 0;
}

void
wal_rewind(struct wal *l)
{
	for (unsigned i = 0; i < WAL_FILES; i++) {
		l->files[i].at = l->files[i].last = 0;
		if (l->files[i].ready > l->files[l->now].ready)
			l->now = i;
	}
}

uint64_t
wal_size(const struct wal *l)
{
	uint64_t size = 0;

	for (unsigned i = 0; i < WAL_FILES; i++)
		size += l->files[i].ready;
	return size;
}
