#include "durable.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "census.h"
#include "kernel/history.h"
#include "net/standing.h"

enum {
	BARRIERS = 4, /* what comes back may lead to more, but not often */
	ID_RUN_MASK = (1 << 18) - 1,
};

static bool
any_durable(const struct config *config)
{
	for (size_t i = 0; i < config->n_specs; i++)
		if (config->specs[i]->durable)
			return true;
	return false;
}

/* Where the store is, or is to be; false: nobody said so. */
static bool
store_path(const struct config *config, char *out, size_t size)
{
	const char *state = getenv("STATE_DIRECTORY");
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (config->store_path)
		snprintf(out, size, "%s", config->store_path);
	else if (state && state[0] == '/')
		snprintf(out, size, "%.*s/store", (int)strcspn(state, ":"),
			state);
	else if (!config->user)
		snprintf(out, size, "/var/lib/eventd/store");
	else if (base && base[0] == '/')
		snprintf(out, size, "%s/eventd/store", base);
	else if (home && home[0] == '/')
		snprintf(out, size, "%s/.local/state/eventd/store", home);
	else
		return false;
	return config->store_path || (state && state[0] == '/') ||
	       any_durable(config);
}

static void
tell(struct durable *d, const struct lmdb_found *found, const char *path)
{
	bool set_aside = found->set_aside || found->log_set_aside;

	pthread_mutex_lock(&d->lock);
	d->set_aside = set_aside;
	snprintf(d->text, sizeof(d->text), "%s", found->text);
	pthread_mutex_unlock(&d->lock);
	if (set_aside)
		log_err("store.corrupt", "reason=\"%s\"", found->text);
	if (found->ran_without)
		log_warn("store.ran-without",
			"runs=%" PRIu64 " events=%" PRIu64
			" reason=\"eventd ran with --no-store since: the "
			"events that were stored before come now\"",
			found->ran_without, found->events);
	log_info("store.open",
		"path=\"%s\" mailboxes=%" PRIu64 " events=%" PRIu64
		" replayed=%" PRIu64,
		path, found->boxes, found->events, found->replayed);
}

/* With these the daemon must not start: somebody has to decide. */
static bool
is_fatal(int r)
{
	return r == -EBUSY || r == -EPROTO || r == -EUCLEAN;
}

static void
use_broken(struct durable *d, const struct lmdb_config *config,
	const struct lmdb_found *found)
{
	snprintf(d->why, sizeof(d->why), "%s", found->text);
	d->broken.broken = d->why;
	d->kernel->store = &d->broken;
	reopen_init(&d->reopen, config, d->why);
	log_err("store.broken",
		"reason=\"%s\" hint=\"it is tried again until it can be "
		"used\"",
		d->why);
}

/* Which start of the machine this is. Where that is not to be had, each start
 * of the daemon counts as one: then time is told by the wall clock. */
static void
read_boot(struct store *store)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = 0;
	int c;

	memcpy(store->boot, &store->run, sizeof(store->run));
	if (!file)
		return;
	while (n < 2 * sizeof(store->boot) && (c = fgetc(file)) != EOF) {
		unsigned digit = c >= '0' && c <= '9'   ? (unsigned)c - '0'
				 : c >= 'a' && c <= 'f' ? (unsigned)c - 'a' + 10
							: 16;

		if (digit < 16) {
			uint8_t *byte = &store->boot[n / 2];

			*byte = (uint8_t)(n % 2 ? *byte | digit : digit << 4);
			n++;
		}
	}
	fclose(file);
}

static void
use(struct durable *d, struct lmdb *lmdb)
{
	read_boot(lmdb_store(lmdb));
	d->lmdb = lmdb;
	d->kernel->store = lmdb_store(lmdb);
}

int
durable_open(struct durable *d, struct kernel *k, const struct config *config,
	bool no_store, char *why, size_t size)
{
	char path[PATH_MAX];
	struct lmdb_config how = {.path = path,
		.max_size = config->store_max,
		.interval_ms = config->store_sync_ms,
		.refuse_corrupt = config->store_refuse};
	struct lmdb_found found;
	struct lmdb *lmdb;
	int r;

	*d = (struct durable){.kernel = k};
	pthread_mutex_init(&d->lock, NULL);
	if (!store_path(config, path, sizeof(path)))
		return 0;
	if (no_store) {
		k->without_store = true;
		lmdb_ran_without(path);
		log_warn("store.off", "reason=\"--no-store: nothing is "
				      "durable in this run\"");
		return 0;
	}
	r = lmdb_open(&lmdb, &how, &found);
	if (r && is_fatal(r)) {
		snprintf(why, size, "the store: %.400s", found.text);
		return err_raise(-EIO);
	}
	if (r) {
		use_broken(d, &how, &found);
		return 0;
	}
	use(d, lmdb);
	tell(d, &found, path);
	return 0;
}

/* Ids of events are not used again in a later run, which may find events of
 * this one. */
static void
begin_ids(const struct store *store, struct sched *sched)
{
	uint64_t run = (store->run - 1) & ID_RUN_MASK;

	sched->next_id += run << (STORE_RUN_SHIFT + 6);
}

/* ---- once it can be used ------------------------------------------------- */

static void
ids_on_loop(struct round *round, struct loop *l)
{
	const struct durable *d = container_of(round, struct durable, round);

	begin_ids(lmdb_store(d->lmdb), &l->sched);
}

static void
sessions_on_loop(struct round *round, struct loop *l)
{
	struct session *s;
	uint32_t slot = 0;

	(void)round;
	while ((s = census_next(l, &slot)))
		session_store_is_there(s);
}

static void
sessions_know(struct round *round)
{
	struct durable *d = container_of(round, struct durable, round);

	if (!atomic_load(&d->kernel->stopping))
		standing_begin(d->sched, lmdb_boxes(d->lmdb));
}

/* Ids are such as no other run has given: the store may be used. */
static void
ids_are_begun(struct round *round)
{
	struct durable *d = container_of(round, struct durable, round);

	d->kernel->store = lmdb_store(d->lmdb);
	history_load(d->sched);
	round_start(round, sessions_on_loop, sessions_know);
}

static void
on_opened(struct reopen *r)
{
	struct durable *d = container_of(r, struct durable, reopen);

	if (atomic_load(&d->kernel->stopping)) /* too late */
		return;
	read_boot(lmdb_store(r->lmdb));
	d->lmdb = reopen_take(r);
	tell(d, &r->found, r->path);
	log_info("store.recovered", "tries=%" PRIu32, r->tries + 1);
	round_start(&d->round, ids_on_loop, ids_are_begun);
}

void
durable_begin(struct durable *d, struct loop *loops, unsigned n_loops)
{
	int r;

	d->sched = &loops[0].sched;
	round_init(&d->round, loops, n_loops);
	for (unsigned i = 0; d->lmdb && i < n_loops; i++)
		begin_ids(d->kernel->store, &loops[i].sched);
	if (d->lmdb)
		history_load(d->sched);
	if (!d->broken.broken)
		return;
	r = reopen_start(&d->reopen, d->sched, on_opened);
	if (r)
		log_err("store.broken",
			"errno=%d reason=\"no thread to try "
			"again\"",
			-r);
}

static void
barrier_submit(struct durable *d)
{
	struct store *store = lmdb_store(d->lmdb);

	store->ops->submit(store, &d->barrier, &d->barrier);
}

static void
barrier_done(struct sched *s, struct store_job *job)
{
	struct durable *d = container_of(job, struct durable, barrier);

	(void)s;
	if (++d->n_barriers < BARRIERS)
		barrier_submit(d);
	else
		d->done(d->arg);
}

void
durable_finish(struct durable *d, void (*done)(void *arg), void *arg)
{
	d->done = done;
	d->arg = arg;
	if (!d->lmdb) {
		done(arg);
		return;
	}
	d->n_barriers = 0;
	d->barrier =
		(struct store_job){.sched = d->sched, .done = barrier_done};
	barrier_submit(d);
}

void
durable_close(struct durable *d)
{
	reopen_end(&d->reopen);
	d->lmdb = lmdb_close(d->lmdb);
	d->kernel->store = NULL;
}

bool
durable_was_set_aside(struct durable *d, char *text, size_t size)
{
	bool set_aside;

	pthread_mutex_lock(&d->lock);
	set_aside = d->set_aside;
	if (set_aside)
		snprintf(text, size, "%.255s", d->text);
	pthread_mutex_unlock(&d->lock);
	return set_aside;
}

bool
durable_is_degraded(struct durable *d)
{
	const struct store *store = d->kernel->store;
	char text[1];

	return durable_was_set_aside(d, text, sizeof(text)) ||
	       (store && (store->broken || atomic_load(&store->n_damaged)));
}
