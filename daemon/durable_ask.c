/* What is asked of the store: how it stands, whether it is sound, a copy, a
 * smaller file, what is left of a damaged one. The thread of who asks, but for
 * what takes long: that is done by the store's thread, or by one of libuv's. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "durable.h"
#include "eventd/status.h"
#include "store/salvage.h"
#include "verb/verb.h"

struct ask {
	struct store_job job;
	uv_work_t work;
	struct durable *durable;
	store_done_fn done;
	void *arg;
	int op, status; /* negative errno */
	uint64_t checked, damaged, freed;
	struct salvage salvage;
	char *to;
	char path[];
};

static void
report_make(struct durable *d, struct store_report *r)
{
	const struct store *store = d->kernel->store;
	struct lmdb_stats stats = {.size = 0};

	*r = (struct store_report){.state = "off"};
	if (d->kernel->without_store)
		snprintf(r->text, sizeof(r->text), "--no-store");
	if (!store)
		return;
	if (store->broken) {
		r->state = "broken";
		reopen_text(&d->reopen, r->text, sizeof(r->text));
		return;
	}
	lmdb_stats(d->lmdb, &stats);
	r->state = "ok";
	r->size = stats.size;
	r->mailboxes = stats.boxes;
	r->events = stats.events;
	r->commits = stats.commits;
	r->failed = stats.failed;
	r->last_ns = stats.last_ns;
	r->max_ns = stats.max_ns;
	r->damaged = atomic_load(&store->n_damaged);
	if (stats.last_error)
		snprintf(r->text, sizeof(r->text), "the last write failed: %s",
			strerror(stats.last_error));
	else if (!durable_was_set_aside(d, r->text, sizeof(r->text)) &&
		 r->damaged)
		snprintf(r->text, sizeof(r->text),
			"%" PRIu64 " events could not be read", r->damaged);
	if (r->text[0])
		r->state = "degraded";
}

static int
ask_run(struct store *store, struct store_job *job)
{
	struct ask *ask = container_of(job, struct ask, job);

	if (ask->op == EVENTD__V1__STORE_OP__STORE_BACKUP)
		return lmdb_backup(store, ask->path);
	if (ask->op == EVENTD__V1__STORE_OP__STORE_COMPACT)
		return lmdb_compact(store, &ask->freed);
	return lmdb_check(store, &ask->checked, &ask->damaged);
}

/* Which file, what is wrong, and what helps. */
static void
why(const struct ask *ask, char *text, size_t size)
{
	bool unreadable = ask->status == -EIO || ask->status == -EUCLEAN;

	if (ask->salvage.text[0])
		snprintf(
			text, size, "%.200s: %s", ask->path, ask->salvage.text);
	else if (ask->op != EVENTD__V1__STORE_OP__STORE_SALVAGE && unreadable)
		snprintf(text, size,
			"%.200s%s%.200s: %s; if it is damaged, it is set aside "
			"at the next start, and 'eventctl store salvage' reads "
			"what is left",
			ask->path, ask->path[0] ? " from " : "",
			lmdb_path(ask->durable->lmdb), strerror(-ask->status));
	else
		snprintf(text, size, "%.200s: %s",
			ask->path[0] ? ask->path
				     : lmdb_path(ask->durable->lmdb),
			strerror(-ask->status));
}

static void
ask_end(struct ask *ask)
{
	struct store_report r;
	char text[512];

	report_make(ask->durable, &r);
	r.checked = ask->checked;
	r.freed = ask->freed;
	if (ask->op == EVENTD__V1__STORE_OP__STORE_CHECK)
		r.damaged = ask->damaged;
	why(ask, text, sizeof(text));
	if (ask->op == EVENTD__V1__STORE_OP__STORE_SALVAGE) {
		r.events = ask->salvage.events;
		r.mailboxes = ask->salvage.mailboxes;
		r.lost = ask->salvage.lost;
		r.lost_unknown = !ask->salvage.counts_known;
		r.damaged = ask->salvage.damaged;
	}
	ask->done(ask->arg, ask->status ? EVD_STATUS_IO : EVD_STATUS_OK, text,
		&r);
	free(ask);
}

static void
ask_done(struct sched *s, struct store_job *job)
{
	struct ask *ask = container_of(job, struct ask, job);

	(void)s;
	ask->status = job->status;
	ask_end(ask);
}

static void
salvage_on_work(uv_work_t *work)
{
	struct ask *ask = container_of(work, struct ask, work);

	ask->status = store_salvage(ask->path, ask->to, &ask->salvage);
}

static void
salvage_on_done(uv_work_t *work, int status)
{
	struct ask *ask = container_of(work, struct ask, work);

	if (status)
		ask->status = status;
	ask_end(ask);
}

static struct ask *
ask_new(struct durable *d, const struct store_ask *what, store_done_fn done,
	void *arg)
{
	size_t size = strlen(what->path) + 1, to_size = strlen(what->to) + 1;
	struct ask *ask = calloc(1, sizeof(*ask) + size + to_size);

	if (!ask)
		return NULL;
	ask->durable = d;
	ask->done = done;
	ask->arg = arg;
	ask->op = what->op;
	ask->to = ask->path + size;
	memcpy(ask->path, what->path, size);
	memcpy(ask->to, what->to, to_size);
	return ask;
}

/* Why that cannot be asked for; NULL: it can. */
static const char *
wrong_with(const struct store_ask *what)
{
	switch (what->op) {
	case EVENTD__V1__STORE_OP__STORE_BACKUP:
		return what->path[0] == '/' ? NULL
					    : "the copy needs an absolute path";
	case EVENTD__V1__STORE_OP__STORE_SALVAGE:
		return what->path[0] == '/' && what->to[0] == '/'
			       ? NULL
			       : "both files need an absolute path";
	case EVENTD__V1__STORE_OP__STORE_CHECK:
	case EVENTD__V1__STORE_OP__STORE_COMPACT:
		return NULL;
	default:
		return "there is no such operation on the store";
	}
}

/* False: it is not under way. */
static bool
ask_start(struct durable *d, struct sched *sched, struct ask *ask)
{
	struct store *store;

	if (ask->op == EVENTD__V1__STORE_OP__STORE_SALVAGE)
		return uv_queue_work(&loop_of(sched)->uv, &ask->work,
			       salvage_on_work, salvage_on_done) == 0;
	store = lmdb_store(d->lmdb);
	ask->job = (struct store_job){
		.sched = sched, .run = ask_run, .done = ask_done};
	store->ops->submit(store, &ask->job, &ask->job);
	return true;
}

void
durable_ask(struct durable *d, struct sched *sched,
	const struct store_ask *what, store_done_fn done, void *arg)
{
	const char *wrong = NULL;
	struct store_report r;
	struct ask *ask;

	report_make(d, &r);
	if (what->op == EVENTD__V1__STORE_OP__STORE_STATS) {
		done(arg, EVD_STATUS_OK, NULL, &r);
		return;
	}
	if (!d->lmdb && what->op != EVENTD__V1__STORE_OP__STORE_SALVAGE) {
		done(arg, EVD_STATUS_UNSUPPORTED, "there is no store in use",
			NULL);
		return;
	}
	wrong = wrong_with(what);
	if (wrong) {
		done(arg, EVD_STATUS_INVALID, wrong, NULL);
		return;
	}
	ask = ask_new(d, what, done, arg);
	if (ask && ask_start(d, sched, ask))
		return;
	free(ask);
	done(arg, EVD_STATUS_NO_MEMORY, "out of memory", NULL);
}
