/* Reading the log at the start: the groups that LMDB does not have, in their
 * order. A group that was being written when all ended is where the log ends; a
 * bad one that was safe once is damage, and those behind it count still. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/fault.h"
#include "store/wal_file.h"

enum { FILE_MAX = 1 << 30 }; /* a larger one is none of ours */

/* A sound group. */
struct found_group {
	struct wal_head head;
	const uint8_t *at;
};

struct replay {
	uint8_t *bytes[WAL_FILES];
	size_t size[WAL_FILES];
	struct found_group *groups;
	size_t n, room;
	unsigned run_shift;
	uint64_t applied;
	bool seen; /* a sound group with the mark, also an older one */
};

static int
read_file(struct wal_file *file, uint8_t **bytes, size_t *size)
{
	struct stat st = {.st_size = 0};
	size_t got = 0;

	if (file->fd >= 0 && fstat(file->fd, &st) < 0)
		return err_raise(-errno);
	if (st.st_size > FILE_MAX)
		return err_raise(-EFBIG);
	*bytes = FAULT(wal_read) ? NULL : malloc((size_t)st.st_size + 1);
	if (!*bytes)
		return err_raise(-ENOMEM);
	while (got < (size_t)st.st_size) {
		ssize_t n = pread(file->fd, *bytes + got,
			(size_t)st.st_size - got, (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_raise(-errno);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	*size = got;
	return 0;
}

static bool
is_sound(const struct wal_head *head, const uint8_t *at, size_t left)
{
	return head->size >= sizeof(*head) && head->size <= left &&
	       head->size % WAL_ALIGN == 0 &&
	       crc32c(0, at + WAL_CRC_FROM, head->size - WAL_CRC_FROM) ==
		       head->crc;
}

static int
add_group(struct replay *p, const struct wal_head *head, const uint8_t *at)
{
	if (p->n == p->room) {
		size_t room = p->room ? p->room * 2 : 1024;
		struct found_group *groups =
			realloc(p->groups, room * sizeof(*groups));

		if (!groups)
			return err_raise(-ENOMEM);
		p->groups = groups;
		p->room = room;
	}
	p->groups[p->n++] = (struct found_group){*head, at};
	return 0;
}

/* All sound groups of file @i with @mark that LMDB does not have. The bytes of
 * older ones, and of damaged ones, are looked through. */
static int
scan(struct replay *p, unsigned i, uint64_t mark)
{
	const uint8_t *at = p->bytes[i];
	size_t left = p->size[i] / WAL_ALIGN * WAL_ALIGN, step;
	struct wal_head head;
	int r = 0;

	for (; left >= sizeof(head) && !r; at += step, left -= step) {
		step = WAL_ALIGN;
		if (memcmp(at, &mark, sizeof(mark)) != 0)
			continue;
		memcpy(&head, at, sizeof(head));
		if (head.no <= p->applied && p->seen)
			continue;
		if (!is_sound(&head, at, left))
			continue;
		p->seen = true;
		if (head.no <= p->applied)
			continue;
		r = add_group(p, &head, at);
		step = head.size;
	}
	return err_pass(r);
}

static uint64_t
first_mark(const struct replay *p, unsigned i)
{
	uint64_t mark = 0;

	if (p->size[i] >= sizeof(mark))
		memcpy(&mark, p->bytes[i], sizeof(mark));
	return mark;
}

static int
by_number(const void *a, const void *b)
{
	const struct found_group *x = a, *y = b;

	return x->head.no < y->head.no ? -1 : x->head.no > y->head.no;
}

/* Nobody knows which run was the last one: that with the highest numbers. */
static void
keep_last_run(struct replay *p)
{
	uint64_t run = p->n ? p->groups[p->n - 1].head.no >> p->run_shift : 0;
	size_t n = 0;

	while (n < p->n && p->groups[n].head.no >> p->run_shift != run)
		n++;
	p->n -= n;
	if (n)
		memmove(p->groups, p->groups + n, p->n * sizeof(*p->groups));
	if (p->n)
		p->applied = p->groups[0].head.no - 1;
}

/* The groups up to this one were safe when the last of them was written. */
static uint64_t
safe_until(const struct replay *p)
{
	uint64_t safe = p->applied;

	for (size_t i = 0; i < p->n; i++)
		if (p->groups[i].head.synced > safe)
			safe = p->groups[i].head.synced;
	return safe;
}

/* Drop what is behind a gap that no sync has closed; count what is missing. */
static void
find_end(struct replay *p, struct wal_found *found)
{
	uint64_t next = p->applied + 1, safe = safe_until(p);
	size_t n = 0;

	for (; n < p->n; n++) {
		uint64_t no = p->groups[n].head.no;

		if (no > next && safe < next)
			break;
		if (no > next)
			found->lost +=
				(safe < no - 1 ? safe : no - 1) - next + 1;
		if (no > next && safe < no - 1)
			break;
		next = no + 1;
	}
	p->n = n;
	found->groups = n;
	found->last = n ? p->groups[n - 1].head.no : 0;
}

static int
take_groups(struct replay *p, struct rows *rows)
{
	int r = 0;

	for (size_t i = 0; i < p->n && !r; i++) {
		const struct wal_head *head = &p->groups[i].head;
		uint8_t *copy = rows_room(rows, head->size);

		if (!copy)
			return err_raise(-ENOMEM);
		memcpy(copy, p->groups[i].at, head->size);
		r = wal_index(rows, copy);
	}
	return err_pass(r);
}

/* The first group of file @i is of a run that comes after all that LMDB knows
 * of. */
static bool
is_stray(const struct replay *p, unsigned i, uint64_t mark)
{
	struct wal_head head;

	if (p->size[i] < sizeof(head))
		return false;
	memcpy(&head, p->bytes[i], sizeof(head));
	return head.mark && head.mark != mark && head.no > p->applied &&
	       head.no >> p->run_shift != p->applied >> p->run_shift &&
	       is_sound(&head, p->bytes[i], p->size[i]);
}

/* All of it. */
static bool
is_lost(const struct wal_found *found)
{
	return found->expected && !found->seen && !found->stray;
}

static int
replay(struct replay *p, struct wal *l, struct rows *rows,
	struct wal_found *found)
{
	int r = 0;

	for (unsigned i = 0; i < WAL_FILES && !r; i++) {
		r = read_file(&l->files[i], &p->bytes[i], &p->size[i]);
		if (!r && found->mark && is_stray(p, i, found->mark))
			found->stray = l->files[i].bad = true;
		if (!r && (found->mark || first_mark(p, i)))
			r = scan(p, i,
				found->mark ? found->mark : first_mark(p, i));
	}
	if (r)
		return err_pass(r);
	if (p->n)
		qsort(p->groups, p->n, sizeof(*p->groups), by_number);
	if (!found->mark)
		keep_last_run(p);
	find_end(p, found);
	found->seen = p->seen;
	for (unsigned i = 0; i < WAL_FILES; i++)
		if (found->lost || is_lost(found))
			l->files[i].bad = p->size[i] > 0;
	return take_groups(p, rows);
}

int
wal_replay(struct wal *l, unsigned run_shift, struct rows *rows,
	struct wal_found *found)
{
	struct replay p = {.run_shift = run_shift, .applied = found->applied};
	int r = replay(&p, l, rows, found);

	for (unsigned i = 0; i < WAL_FILES; i++)
		free(p.bytes[i]);
	free(p.groups);
	return r;
}

/* ---- afterwards ---------------------------------------------------------- */

/* What cannot be read is kept as a file, for whoever wants to see it. */
static int
set_aside(struct wal *l, unsigned i, struct wal_found *found)
{
	char from[WAL_NAME_MAX], to[64];

	wal_file_name(from, i);
	snprintf(to, sizeof(to), "%s.%s-%lld", from,
		found->stray ? "stray" : "corrupt", (long long)time(NULL));
	if (renameat(l->dir_fd, from, l->dir_fd, to) < 0)
		return err_raise(-errno);
	close(l->files[i].fd);
	l->files[i].fd = -1;
	if (found->stray)
		snprintf(found->text, sizeof(found->text),
			"the log is of another store: set aside as %s", to);
	else if (is_lost(found))
		snprintf(found->text, sizeof(found->text),
			"the log is damaged: set aside as %s; what was "
			"written in the last seconds of the last run is lost",
			to);
	else
		snprintf(found->text, sizeof(found->text),
			"the log is damaged: set aside as %s; %" PRIu64
			" groups of writes are lost",
			to, found->lost);
	return wal_file_open(l, i);
}

int
wal_begin(struct wal *l, uint64_t mark, uint64_t no, struct wal_found *found)
{
	int r = 0;

	if (is_lost(found))
		snprintf(found->text, sizeof(found->text),
			"the log of the last run is not there: what was "
			"written in its last seconds is lost");
	l->mark = mark;
	l->no = l->synced = no;
	l->now = 0;
	l->dirty = false;
	wal_rewind(l);
	for (unsigned i = 0; i < WAL_FILES && !r; i++)
		if (l->files[i].bad)
			r = set_aside(l, i, found);
	if (!r && found->text[0] && fsync(l->dir_fd) < 0)
		r = err_raise(-errno);
	return err_pass(r);
}
