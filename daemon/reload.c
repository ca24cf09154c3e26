#include "reload.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "eventd/status.h"
#include "notify.h"
#include "pools.h"

/* One request, from the asking loop to the main one and back. */
struct reload {
	struct sched_task task;
	struct reload *next;
	struct reloader *reloader;
	struct sched *from;
	bool preview;
	reload_done_fn done;
	void *arg;
	uv_work_t work;
	int loaded; /* what config_load() returned */
	struct config *config;
	struct config_errors errors;
	int status;
	char *text;
	struct reload_diff diff;
};

void
reloader_init(struct reloader *r, struct loop *loops, struct hosting *hosting,
	const struct config_source *source, struct config *config)
{
	memset(r, 0, sizeof(*r));
	r->loops = loops;
	r->hosting = hosting;
	r->source = *source;
	r->source.running_loops = hosting->n_loops;
	r->config = config;
	r->tail = &r->head;
}

void
reloader_deinit(struct reloader *r)
{
	r->config = config_free(r->config);
}

/* ---- the answer -------------------------------------------------------- */

static void
reload_free(struct reload *q)
{
	reload_diff_deinit(&q->diff);
	config_errors_deinit(&q->errors);
	config_free(q->config);
	free(q->text);
	free(q);
}

/* Back on the thread that asked. */
static void
reload_on_answer(struct sched *s, struct sched_task *task)
{
	struct reload *q = container_of(task, struct reload, task);

	(void)s;
	q->done(q->arg, q->status, q->text, &q->diff);
	reload_free(q);
}

static void
reload_answer(struct reload *q)
{
	struct sched *main = &q->reloader->loops[0].sched;

	memset(&q->task, 0, sizeof(q->task));
	q->task.run = reload_on_answer;
	sched_run_on(main, q->from, &q->task);
}

static void
reload_refuse(struct reload *q, int status, const char *text)
{
	q->status = status;
	free(q->text);
	q->text = strdup(text);
}

static void reloader_next(struct reloader *r);

static void
reload_end(struct reload *q)
{
	struct reloader *r = q->reloader;

	r->running = NULL;
	if (q->status)
		log_err("reload.failed", "status=%d errors=%zu", q->status,
			q->errors.n + q->errors.n_left_out);
	else if (!q->preview)
		log_info("reload.done",
			"added=%zu changed=%zu removed=%zu unchanged=%zu",
			q->diff.n_added, q->diff.n_changed, q->diff.n_removed,
			q->diff.n_unchanged);
	r->ended(r->arg, q->preview, q->status);
	reload_answer(q);
	reloader_next(r);
}

/* ---- applying ---------------------------------------------------------- */

static void
reload_on_applied(struct transition *t, void *arg)
{
	struct reload *q = arg;
	struct reloader *r = q->reloader;
	unsigned refused = atomic_load(&t->n_refused);

	config_free(r->config);
	r->config = TAKE(q->config);
	if (refused)
		reload_refuse(q, EVD_STATUS_LIMIT,
			"applied, but some sessions could not be made: out of "
			"memory, or MaxSessions= is reached; the log names "
			"them");
	q->diff = t->diff;
	t->diff = (struct reload_diff){0};
	transition_free(t);
	reload_end(q);
}

static void
warn_of_fixed(const struct reloader *r, const struct config *new)
{
	char keys[256];

	config_fixed_diff(r->config, new, keys, sizeof(keys));
	if (keys[0])
		log_warn("reload.needs-restart",
			"keys=\"%s\" reason=\"they take effect when eventd is "
			"started again\"",
			keys);
}

static void
reload_apply(struct reload *q)
{
	struct reloader *r = q->reloader;
	struct transition *t;

	int made = q->preview ? 0 : pools_make(r->hosting->pools, q->config);

	if (made == POOLS_E_MANY) {
		reload_refuse(q, EVD_STATUS_LIMIT,
			"so many pools have come and gone that eventd must be "
			"started again for another; the old configuration "
			"stays");
		reload_end(q);
		return;
	}
	if (made || transition_make(&t, r->hosting, q->config)) {
		reload_refuse(q, EVD_STATUS_NO_MEMORY,
			"out of memory; the old configuration stays");
		reload_end(q);
		return;
	}
	if (!q->preview) {
		warn_of_fixed(r, q->config);
		config_warn(q->config);
		transition_run(t, reload_on_applied, q);
		return;
	}
	q->diff = t->diff;
	t->diff = (struct reload_diff){0};
	transition_free(t);
	reload_end(q);
}

static void
reload_wrong(struct reload *q)
{
	char *text = config_errors_text(&q->errors);

	for (size_t i = 0; i < q->errors.n; i++)
		log_err("config.error", "reason=\"%s\"", q->errors.lines[i]);
	reload_refuse(q,
		q->loaded == -ENOMEM ? EVD_STATUS_NO_MEMORY : EVD_STATUS_CONFIG,
		text ? text : "out of memory");
	free(text);
	reload_end(q);
}

/* ---- reading, in a thread of libuv's pool ------------------------------ */

static void
reload_on_work(uv_work_t *work)
{
	struct reload *q = container_of(work, struct reload, work);

	q->loaded = config_load(&q->reloader->source, &q->config, &q->errors);
}

static void
reload_on_loaded(uv_work_t *work, int status)
{
	struct reload *q = container_of(work, struct reload, work);

	if (status || q->loaded)
		reload_wrong(q);
	else
		reload_apply(q);
}

static void
reload_start(struct reload *q)
{
	struct reloader *r = q->reloader;

	r->running = q;
	if (!q->preview)
		notify_reloading();
	if (uv_queue_work(&r->loops[0].uv, &q->work, reload_on_work,
		    reload_on_loaded) == 0)
		return;
	reload_refuse(q, EVD_STATUS_NO_MEMORY, "out of memory");
	reload_end(q);
}

/* ---- the queue --------------------------------------------------------- */

static void
reloader_next(struct reloader *r)
{
	struct reload *q;

	while (!r->running && (r->open || r->closing) && (q = r->head)) {
		r->head = q->next;
		if (!r->head)
			r->tail = &r->head;
		if (!r->closing) {
			reload_start(q);
			return;
		}
		reload_refuse(q, EVD_STATUS_UNAVAILABLE, "eventd stops");
		reload_answer(q);
	}
}

static void
reload_on_main(struct sched *s, struct sched_task *task)
{
	struct reload *q = container_of(task, struct reload, task);
	struct reloader *r = q->reloader;

	(void)s;
	*r->tail = q;
	r->tail = &q->next;
	reloader_next(r);
}

void
reloader_ask(struct reloader *r, struct sched *from, bool preview,
	reload_done_fn done, void *arg)
{
	static const struct reload_diff nothing;
	struct reload *q = calloc(1, sizeof(*q));

	if (!q) {
		done(arg, EVD_STATUS_NO_MEMORY, "out of memory", &nothing);
		return;
	}
	q->reloader = r;
	q->from = from;
	q->preview = preview;
	q->done = done;
	q->arg = arg;
	q->task.run = reload_on_main;
	sched_run_on(from, &r->loops[0].sched, &q->task);
}

void
reloader_open(struct reloader *r)
{
	r->open = true;
	reloader_next(r);
}

void
reloader_close(struct reloader *r)
{
	r->closing = true;
	reloader_next(r);
}
