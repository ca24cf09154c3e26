#include "store/lmdb_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"

enum {
	MAP_STEP = 16 << 20,
	KEEP = 1 << 20, /* of room, for what erases */
	WAL_SHARE =
		16, /* of the room, for each file of the log: a so-many-th */
	WAL_MAX = 32 << 20,
	WAL_MIN = 256 << 10,
	LOCKS_SIZE = 16384, /* more than 126 readers take */
	CHECK_OK = 0,       /* exit codes of the check */
	CHECK_FAILED = 1,
};

const char *const lmdb_table_names[STORE_TABLES] = {
	[STORE_META] = "meta",
	[STORE_BOXES] = "boxes",
	[STORE_EVENTS] = "events",
	[STORE_MARKS] = "marks",
	[STORE_KEYS] = "keys",
	[STORE_STATE] = "state",
	[STORE_TIMERS] = "timers",
	[STORE_DEAD] = "dead",
	[STORE_HISTORY] = "history",
	[STORE_DAMAGED] = "damaged",
};

static const char format_key[] = "format";
static const char run_key[] = LMDB_RUN;
static const char applied_key[] = LMDB_APPLIED;

int
lmdb_error(int r)
{
	switch (r) {
	case 0:
		return 0;
	case MDB_MAP_FULL:
		return -ENOSPC;
	case MDB_TXN_FULL:
		return -E2BIG;
	case MDB_INVALID:
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_PANIC:
	case MDB_CURSOR_FULL:
		return -EUCLEAN;
	case MDB_VERSION_MISMATCH:
		return -EPROTO;
	default:
		return r > 0 ? -r : -EIO;
	}
}

static void
path_in(char *out, const char *path, const char *name)
{
	snprintf(out, PATH_MAX, "%s/%s", path, name);
}

/* ---- the directory ------------------------------------------------------- */

/* One level above it, too. */
static int
make_directory(const char *path)
{
	char up[PATH_MAX];
	char *slash;

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		return -errno;
	snprintf(up, sizeof(up), "%s", path);
	slash = strrchr(up, '/');
	if (!slash || slash == up)
		return -ENOENT;
	*slash = '\0';
	if (mkdir(up, 0755) < 0 && errno != EEXIST)
		return -errno;
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int
take_lock(struct lmdb_file *f, const char *path)
{
	char name[PATH_MAX];

	path_in(name, path, "owner");
	f->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f->lock_fd < 0)
		return -errno;
	if (flock(f->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return 0;
}

/* ---- the environment ----------------------------------------------------- */

static uint64_t
round_up(uint64_t size, uint64_t step)
{
	return (size + step - 1) / step * step;
}

static int
env_open(MDB_env **out, const char *path, uint64_t map_size, unsigned flags)
{
	MDB_env *env;
	int r = mdb_env_create(&env);

	if (r)
		return r;
	r = mdb_env_set_maxdbs(env, STORE_TABLES);
	if (!r)
		r = mdb_env_set_mapsize(env, map_size);
	if (!r)
		r = mdb_env_open(
			env, path, flags | MDB_NOTLS | MDB_NORDAHEAD, 0600);
	if (r) {
		mdb_env_close(env);
		return r;
	}
	*out = env;
	return 0;
}

static int
tables_open(struct lmdb_file *f, MDB_txn *txn)
{
	int r = 0;

	for (unsigned i = 0; i < STORE_TABLES && !r; i++)
		r = mdb_dbi_open(
			txn, lmdb_table_names[i], MDB_CREATE, &f->tables[i]);
	return r;
}

/* LMDB maps its file of locks, and a page of it for which the disk has no room
 * would kill the daemon: it is there before. */
static int
reserve_locks(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600), r;

	if (fd < 0)
		return errno;
	r = FAULT(lmdb_locks) ? ENOSPC : posix_fallocate(fd, 0, LOCKS_SIZE);
	close(fd);
	return r;
}

static int
copy_open(struct lmdb_file *f, const char *path)
{
	char locks[PATH_MAX];
	MDB_txn *txn;
	int r;

	snprintf(locks, sizeof(locks), "%.4000s-lock", path);
	r = reserve_locks(locks);
	if (!r)
		r = env_open(&f->env, path, f->map_size, MDB_NOSUBDIR);
	if (!r)
		r = mdb_txn_begin(f->env, NULL, 0, &txn);
	if (r)
		return r;
	r = tables_open(f, txn);
	if (!r)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return r;
}

int
lmdb_file_open_copy(struct lmdb_file *f, const char *path, uint64_t room)
{
	struct stat st;
	int r = 0;

	*f = (struct lmdb_file){.lock_fd = -1};
	f->data_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f->data_fd < 0 || fstat(f->data_fd, &st) < 0)
		r = errno;
	if (!r) {
		f->map_size = round_up((uint64_t)st.st_size + room, MAP_STEP);
		r = copy_open(f, path);
	}
	if (r)
		lmdb_file_close(f);
	return lmdb_error(r);
}

int
lmdb_number_get(
	struct lmdb_file *f, MDB_txn *txn, const char *name, uint64_t *out)
{
	MDB_val key = {strlen(name), (void *)name}, value;
	int r = mdb_get(txn, f->tables[STORE_META], &key, &value);

	*out = 0;
	if (r == MDB_NOTFOUND)
		return 0;
	if (!r && value.mv_size == sizeof(*out))
		memcpy(out, value.mv_data, sizeof(*out));
	return r;
}

int
lmdb_number_put(struct lmdb_file *f, MDB_txn *txn, const char *name, uint64_t n)
{
	MDB_val key = {strlen(name), (void *)name}, value = {sizeof(n), &n};

	return mdb_put(txn, f->tables[STORE_META], &key, &value, 0);
}

int
lmdb_file_needs_no_log(struct lmdb_file *f)
{
	MDB_txn *txn;
	int r = mdb_txn_begin(f->env, NULL, 0, &txn);

	if (r)
		return lmdb_error(r);
	r = lmdb_number_put(f, txn, LMDB_LOGGED, 0);
	if (!r)
		return lmdb_error(mdb_txn_commit(txn));
	mdb_txn_abort(txn);
	return lmdb_error(r);
}

/* Its format is ours, and so are its tables. */
static int
look_at_format(struct lmdb_file *f, MDB_txn *txn, struct lmdb_found *found)
{
	uint64_t format;
	int r = tables_open(f, txn);

	if (!r)
		r = lmdb_number_get(f, txn, format_key, &format);
	if (!r && format > LMDB_FORMAT) {
		snprintf(found->text, sizeof(found->text),
			"it has format %" PRIu64
			", this eventd knows up to %d: a later one wrote it",
			format, LMDB_FORMAT);
		return MDB_VERSION_MISMATCH;
	}
	if (!r && format != LMDB_FORMAT)
		r = lmdb_number_put(f, txn, format_key, LMDB_FORMAT);
	if (!r)
		r = lmdb_number_get(f, txn, run_key, &f->run);
	return r;
}

static int
prepare(struct lmdb_file *f, struct lmdb_found *found, struct lmdb_applied *was,
	uint64_t *logged)
{
	MDB_val key = {sizeof(applied_key) - 1, (void *)applied_key}, value;
	MDB_txn *txn;
	int r = mdb_txn_begin(f->env, NULL, 0, &txn);

	*was = (struct lmdb_applied){.no = 0};
	if (r)
		return r;
	r = look_at_format(f, txn, found);
	if (!r)
		r = mdb_get(txn, f->tables[STORE_META], &key, &value);
	if (!r && value.mv_size == sizeof(*was))
		memcpy(was, value.mv_data, sizeof(*was));
	if (!r)
		r = lmdb_number_get(f, txn, LMDB_LOGGED, logged);
	if (!r || r == MDB_NOTFOUND)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return r;
}

static uint64_t
random_mark(void)
{
	uint64_t mark = 0;

	while (!mark)
		if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark))
			mark = 0;
	return mark;
}

static void
tell_log(struct lmdb_found *found, const struct wal_found *wal)
{
	size_t used = strlen(found->text);

	found->replayed = wal->groups;
	if (!wal->text[0])
		return;
	found->log_set_aside = true;
	snprintf(found->text + used, sizeof(found->text) - used, "%s%s",
		used ? "; " : "", wal->text);
}

/* This is one more run. What the last one left in its log comes in with it. */
static int
start_run(struct lmdb_file *f, struct wal *wal, struct lmdb_found *found)
{
	struct wal_found in_log = {.lost = 0};
	struct lmdb_applied was, now;
	uint64_t logged = 0;
	struct rows rows;
	int r = lmdb_error(prepare(f, found, &was, &logged));

	if (r)
		return r;
	rows_init(&rows);
	in_log.applied = was.no;
	in_log.expected = logged && logged == was.mark;
	in_log.mark = was.mark || found->set_aside ? was.mark : random_mark();
	f->mark = random_mark();
	r = wal_replay(wal, STORE_RUN_SHIFT, &rows, &in_log);
	if (in_log.last >> STORE_RUN_SHIFT > f->run)
		f->run = in_log.last >> STORE_RUN_SHIFT;
	f->run++;
	now = (struct lmdb_applied){f->run << STORE_RUN_SHIFT, f->mark};
	if (!r)
		r = lmdb_apply(f, &rows, &now);
	if (!r)
		r = wal_begin(wal, now.mark, now.no, &in_log);
	rows_clear(&rows);
	tell_log(found, &in_log);
	return r;
}

/* ---- the check ----------------------------------------------------------- */

/* How many events a row of STORE_BOXES counts. */
static uint64_t
box_events(const MDB_val *value)
{
	uint64_t n = 0;

	if (value->mv_size >= 2 * sizeof(n))
		memcpy(&n, (const uint8_t *)value->mv_data + sizeof(n),
			sizeof(n));
	return n;
}

static int
walk_table(MDB_txn *txn, const char *name, uint64_t *events)
{
	MDB_dbi dbi;
	MDB_cursor *cursor;
	MDB_val key, value;
	int r = mdb_dbi_open(txn, name, 0, &dbi);

	if (r)
		return r == MDB_NOTFOUND ? 0 : r;
	r = mdb_cursor_open(txn, dbi, &cursor);
	while (!r && !(r = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)))
		if (events)
			*events += box_events(&value);
	return r == MDB_NOTFOUND ? 0 : r;
}

/* In a process of its own, which a damaged page may kill: every page that leads
 * to a row is looked at. What the rows hold has checksums. */
static int
walk(const char *path, uint64_t map_size, int out)
{
	MDB_env *env;
	MDB_txn *txn;
	uint64_t events = 0;
	int r = env_open(&env, path, map_size, MDB_RDONLY | MDB_NOLOCK);

	if (!r)
		r = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!r)
		r = walk_table(txn, lmdb_table_names[STORE_BOXES], &events);
	if (!r && write(out, &events, sizeof(events)) < 0)
		r = errno;
	for (unsigned i = 0; i < STORE_TABLES && !r; i++)
		r = walk_table(txn, lmdb_table_names[i], NULL);
	return r;
}

static void
walk_apart(const char *path, uint64_t map_size, int out)
{
	struct rlimit none = {0, 0};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	/* Locks are held as long as anybody has their files. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	dup2(null, STDERR_FILENO); /* LMDB's assertions */
	out = dup2(out, STDERR_FILENO + 1);
	close_range(STDERR_FILENO + 2, UINT_MAX, 0);
	alarm(60);
	_exit(walk(path, map_size, out) ? CHECK_FAILED : CHECK_OK);
}

/* True: it is whole. No thread runs yet, and nothing is open. */
static bool
check(const char *path, uint64_t map_size, struct lmdb_found *found)
{
	int ends[2], status = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return true; /* then nobody knows better */
	pid = fork();
	if (pid == 0)
		walk_apart(path, map_size, ends[1]);
	close(ends[1]);
	found->lost_known =
		pid > 0 && read(ends[0], &found->lost, sizeof(found->lost)) ==
				   sizeof(found->lost);
	close(ends[0]);
	if (pid < 0)
		return true;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == CHECK_OK;
}

static int
rename_aside(const char *path, struct lmdb_found *found)
{
	char from[PATH_MAX], to[PATH_MAX], lock[PATH_MAX];
	char known[64] = "how many events it held is not known";
	time_t now = time(NULL);
	int r;

	path_in(from, path, "data.mdb");
	path_in(lock, path, "lock.mdb");
	snprintf(to, sizeof(to), "%.*s.corrupt-%lld", PATH_MAX - 32, from,
		(long long)now);
	r = rename(from, to) < 0 ? -errno : 0;
	unlink(lock);
	if (found->lost_known)
		snprintf(known, sizeof(known), "it held %" PRIu64 " events",
			found->lost);
	found->set_aside = !r;
	snprintf(found->text, sizeof(found->text),
		"%.200s is damaged: set aside as %.200s; %s", from, to, known);
	return r;
}

/* Damaged: set it aside, or say so. */
static int
deal_with_damage(const struct lmdb_config *config, struct lmdb_found *found)
{
	if (!config->refuse_corrupt)
		return rename_aside(config->path, found);
	snprintf(found->text, sizeof(found->text),
		"%.300s/data.mdb is damaged (OnCorrupt=refuse)", config->path);
	return -EUCLEAN;
}

/* ---- open and close ------------------------------------------------------ */

static uint64_t
size_of_file(const char *path)
{
	char name[PATH_MAX];
	struct stat st;

	path_in(name, path, "data.mdb");
	return stat(name, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

/* With an empty file LMDB begins anew. */
static int
open_checked(struct lmdb_file *f, struct wal *wal,
	const struct lmdb_config *config, struct lmdb_found *found)
{
	char name[PATH_MAX];
	int r;

	f->file_size = size_of_file(config->path);
	f->map_size = round_up(f->file_size + 1, MAP_STEP);
	if (f->max_size && f->map_size > f->max_size)
		f->map_size = round_up(
			f->file_size > f->max_size ? f->file_size : f->max_size,
			4096);
	if (f->file_size && !check(config->path, f->map_size, found)) {
		r = deal_with_damage(config, found);
		if (r)
			return r;
		f->file_size = 0;
	}
	path_in(name, config->path, "lock.mdb");
	r = lmdb_error(reserve_locks(name));
	if (r)
		return r;
	r = lmdb_error(env_open(&f->env, config->path, f->map_size, 0));
	if (r)
		return r;
	path_in(name, config->path, "data.mdb");
	f->data_fd = open(name, O_WRONLY | O_CLOEXEC);
	f->file_size = size_of_file(config->path);
	r = wal_open(wal, config->path, f->wal_max);
	if (!r)
		r = start_run(f, wal, found);
	return r;
}

/* The log gets a part of the room that there is. */
static void
share_room(struct lmdb_file *f, const char *path)
{
	struct statvfs fs;
	uint64_t room = f->max_size;

	if (!room && statvfs(path, &fs) == 0)
		room = (uint64_t)fs.f_blocks * fs.f_frsize;
	f->wal_max = room / WAL_SHARE;
	if (f->wal_max > WAL_MAX)
		f->wal_max = WAL_MAX;
	if (f->wal_max < WAL_MIN)
		f->wal_max = WAL_MIN;
	if (f->max_size > 2 * WAL_FILES * f->wal_max)
		f->max_size -= WAL_FILES * f->wal_max;
}

static void
count_rows(struct lmdb_file *f, struct lmdb_found *found)
{
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_val key, value;

	if (mdb_txn_begin(f->env, NULL, MDB_RDONLY, &txn))
		return;
	if (!mdb_cursor_open(txn, f->tables[STORE_BOXES], &cursor)) {
		while (!mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
			found->boxes += box_events(&value) > 0;
			found->events += box_events(&value);
		}
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
}

static void
explain(struct lmdb_found *found, const char *path, int r)
{
	if (r == -EBUSY)
		snprintf(found->text, sizeof(found->text),
			"%.300s: another process uses it (see the lock on "
			"its file 'owner' in lslocks)",
			path);
	else if (!found->text[0] || found->set_aside)
		snprintf(found->text, sizeof(found->text), "%.300s: %s", path,
			strerror(-r));
}

int
lmdb_file_open(struct lmdb_file *f, struct wal *wal,
	const struct lmdb_config *config, struct lmdb_found *found)
{
	int r;

	*f = (struct lmdb_file){
		.lock_fd = -1, .data_fd = -1, .max_size = config->max_size};
	pthread_mutex_init(&f->view_lock, NULL);
	*found = (struct lmdb_found){.boxes = 0};
	r = FAULT(lmdb_file_open) ? -EIO : make_directory(config->path);
	if (!r)
		r = take_lock(f, config->path);
	if (!r) {
		lmdb_compact_forget(config->path);
		share_room(f, config->path);
		r = open_checked(f, wal, config, found);
	}
	if (r) {
		explain(found, config->path, r);
		lmdb_file_close(f);
		return err_raise(r);
	}
	count_rows(f, found);
	return 0;
}

void
lmdb_file_close(struct lmdb_file *f)
{
	if (f->env)
		mdb_env_close(f->env);
	if (f->data_fd >= 0)
		close(f->data_fd);
	if (f->lock_fd >= 0)
		close(f->lock_fd);
	f->env = NULL;
	f->data_fd = f->lock_fd = -1;
}

/* ---- room ---------------------------------------------------------------- */

/* What erases needs new pages before it frees old ones: what adds leaves so
 * much for it. */
static uint64_t
kept_free(const struct lmdb_file *f)
{
	return f->max_size && f->max_size / 4 < KEEP ? f->max_size / 4 : KEEP;
}

/* How large the map may become; UINT64_MAX: as it likes. */
static uint64_t
map_limit(const struct lmdb_file *f, bool freeing)
{
	uint64_t limit = f->tight ? f->file_size + KEEP : UINT64_MAX;

	if (f->max_size && f->max_size < limit)
		limit = f->max_size;
	if (limit != UINT64_MAX && !freeing)
		limit -= kept_free(f);
	return limit == UINT64_MAX ? limit : limit / 4096 * 4096;
}

static int
map_resize(struct lmdb_file *f, uint64_t size)
{
	int r;

	pthread_mutex_lock(&f->view_lock);
	r = mdb_env_set_mapsize(f->env, size);
	pthread_mutex_unlock(&f->view_lock);
	if (r)
		return err_raise(lmdb_error(r));
	f->map_size = size;
	return 0;
}

int
lmdb_file_limit(struct lmdb_file *f, bool freeing)
{
	uint64_t limit = map_limit(f, freeing);

	return f->map_size > limit ? map_resize(f, limit) : 0;
}

int
lmdb_file_grow(struct lmdb_file *f, bool freeing)
{
	uint64_t size = round_up(f->map_size + f->map_size / 2, MAP_STEP);
	uint64_t limit = map_limit(f, freeing);
	int dead = 0;

	/* What another program read when it was killed pins old pages. */
	if (!mdb_reader_check(f->env, &dead) && dead)
		return 0;

	if (size > limit)
		size = limit;
	if (size <= f->map_size || FAULT(lmdb_grow))
		return -ENOSPC;
	return map_resize(f, size);
}

bool
lmdb_file_disk_is_full(const struct lmdb_file *f)
{
	struct statvfs fs;

	return fstatvfs(f->data_fd, &fs) == 0 &&
	       (uint64_t)fs.f_bavail * fs.f_frsize < 2 * KEEP;
}

void
lmdb_file_look(struct lmdb_file *f, uint64_t need)
{
	struct statvfs fs;
	struct stat st;

	if (f->data_fd < 0 || fstat(f->data_fd, &st) < 0 ||
		fstatvfs(f->data_fd, &fs) < 0)
		return;
	f->file_size = (uint64_t)st.st_size;
	f->tight = (uint64_t)fs.f_bavail * fs.f_frsize < need + 2 * KEEP;
}
