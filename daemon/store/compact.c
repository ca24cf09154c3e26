/* Compaction: a copy of LMDB's file without what is free in it takes its place
 * while the store is in use. The store's thread, which does nothing else
 * meanwhile; the checkpoints' rests. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "store/lmdb_own.h"

static const char copy_name[] = "data.mdb.compact";

struct compact {
	char data[PATH_MAX], lock[PATH_MAX];
	char copy[PATH_MAX], copy_lock[PATH_MAX];
};

static void
names_of(struct compact *c, const char *path)
{
	snprintf(c->data, sizeof(c->data), "%.4000s/data.mdb", path);
	snprintf(c->lock, sizeof(c->lock), "%.4000s/lock.mdb", path);
	snprintf(c->copy, sizeof(c->copy), "%.4000s/%s", path, copy_name);
	snprintf(c->copy_lock, sizeof(c->copy_lock), "%.4000s/%s-lock", path,
		copy_name);
}

void
lmdb_compact_forget(const char *path)
{
	struct compact c;

	names_of(&c, path);
	unlink(c.copy);
	unlink(c.copy_lock);
}

static int
copy(struct lmdb *l, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = FAULT(compact_enospc) ? -ENOSPC
				  : lmdb_error(mdb_env_copyfd2(
					    l->file.env, fd, MDB_CP_COMPACT));
	if (!r && fsync(fd) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int
sync_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

/* Nobody reads: who does holds the same lock. From the first rename on the
 * copy is what there is; it holds the same rows. */
static int
take_place(struct lmdb *l, const struct compact *c, struct lmdb_file *copied)
{
	struct lmdb_file *f = &l->file;
	MDB_env *old = f->env;
	int old_fd = f->data_fd;

	if (FAULT(compact_rename) || rename(c->copy, c->data) < 0)
		return errno ? -errno : -EIO;
	if (rename(c->copy_lock, c->lock) < 0)
		log_warn("store.compact", "errno=%d", errno);
	f->env = copied->env;
	f->data_fd = copied->data_fd;
	f->map_size = copied->map_size;
	for (unsigned i = 0; i < STORE_TABLES; i++)
		f->tables[i] = copied->tables[i];
	copied->env = old;
	copied->data_fd = old_fd;
	return 0;
}

static int
exchange(struct lmdb *l, const struct compact *c)
{
	struct lmdb_file copied;
	int r = lmdb_file_open_copy(&copied, c->copy, 1);

	if (r)
		return r;
	pthread_mutex_lock(&l->file.view_lock);
	errno = 0;
	r = take_place(l, c, &copied);
	pthread_mutex_unlock(&l->file.view_lock);
	lmdb_file_close(&copied); /* the old one, or the copy */
	return r;
}

int
lmdb_compact(struct store *store, uint64_t *freed)
{
	struct lmdb *l = lmdb_of(store);
	uint64_t before;
	struct compact c;
	int r;

	*freed = 0;
	names_of(&c, l->path);
	r = checkpoint_all(l);
	if (r)
		return r;
	lmdb_file_look(&l->file, 0);
	before = l->file.file_size;
	lmdb_compact_forget(l->path);
	r = copy(l, c.copy);
	if (!r)
		r = exchange(l, &c);
	if (r) {
		lmdb_compact_forget(l->path);
		return r;
	}
	r = sync_directory(l->path);
	lmdb_file_look(&l->file, 0);
	if (l->file.file_size < before)
		*freed = before - l->file.file_size;
	pthread_mutex_lock(&l->lock);
	l->file_size = l->file.file_size;
	l->stats.size = l->file_size + wal_size(&l->wal);
	pthread_mutex_unlock(&l->lock);
	return r;
}
