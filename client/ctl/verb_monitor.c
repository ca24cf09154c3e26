/* eventctl monitor: what the aliases that match a pattern handle, when they
 * come and go, and how their sessions end. Each has a binding in mode monitor
 * and a watch while somebody holds it. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "text.h"
#include "watch.h"

enum { WORD_WIDTH = 6 };

struct monitored {
	char *alias;
	int binding;
	int64_t watch; /* of this life of its holder; 0 or less: none */
};

struct monitor {
	struct watching watching; /* first: on_event() and on_name() get it */
	struct ctl *ctl;
	struct monitored *all;
	size_t n;
	bool some_failed; /* for good: their events are looked at */
};

/* ---- what is monitored --------------------------------------------------- */

static struct monitored *
find(struct monitor *m, const char *alias)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->all[i].alias, alias))
			return &m->all[i];
	return NULL;
}

static void
forget(struct monitor *m, const char *alias)
{
	struct monitored *one = find(m, alias);

	if (!one)
		return;
	evd_unbind(m->ctl->evd, one->binding);
	if (one->watch > 0)
		evd_unwatch(m->ctl->evd, one->watch);
	free(one->alias);
	*one = m->all[--m->n];
}

/* Be told how this life of its holder ends, if that may be seen. One that has
 * failed for good would be told of at once, again and again: it is watched when
 * it handles events. */
static void
watch_life(struct monitor *m, struct monitored *one)
{
	const struct evd_session *session;
	struct evd_report *report;

	one->watch = 0;
	if (evd_status(m->ctl->evd, one->alias, &report))
		return;
	session = evd_report_session(report);
	if (session && strcmp(evd_session_state(session), "failed") != 0)
		one->watch = evd_watch(m->ctl->evd, one->alias);
	else
		m->some_failed = true;
	evd_report_free(report);
}

/* @alias has a holder, perhaps another one than before. What may not be seen is
 * passed over, and so is who has gone meanwhile. */
static int
add(struct monitor *m, const char *alias)
{
	const struct evd_bind_options opt = {
		.size = sizeof(opt), .mode = EVD_BIND_MONITOR};
	struct monitored *all;
	int binding;

	forget(m, alias);
	binding = evd_bind_opt(m->ctl->evd, alias, &opt);
	if (binding < 0) {
		ctl_note(m->ctl, "%s is not monitored: %s", alias,
			evd_last_error(m->ctl->evd));
		return evd_is_connected(m->ctl->evd) ? 0 : ctl_fail_evd(m->ctl);
	}
	all = reallocarray(m->all, m->n + 1, sizeof(*all));
	if (all)
		m->all = all;
	if (!all || !(all[m->n].alias = strdup(alias)))
		return ctl_fail(m->ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	all[m->n].binding = binding;
	watch_life(m, &all[m->n++]);
	return 0;
}

/* ---- what is told -------------------------------------------------------- */

static int
tell_event(struct monitor *m, const struct evd_event *event)
{
	struct ctl *ctl = m->ctl;
	struct json *j = &ctl->json;

	m->watching.left--;
	if (ctl->as_json) {
		json_object(j, NULL);
		json_string(j, "alias", evd_event_alias(event));
		json_string(j, "event", evd_event_name(event));
		json_id(j, "id", evd_event_id(event));
		json_id(j, "from", evd_event_from(event));
		json_data(j, evd_event_data(event), evd_event_size(event));
		json_object_end(j);
		json_line_end(j);
		return ctl_flush(ctl);
	}
	fprintf(ctl->out, "event %s %s", evd_event_alias(event),
		evd_event_name(event));
	if (evd_event_size(event) > 0)
		fputc(' ', ctl->out);
	escape_write(ctl->out, evd_event_data(event), evd_event_size(event), 0);
	fputc('\n', ctl->out);
	return ctl_flush(ctl);
}

static int
tell_gap(struct monitor *m, const struct evd_event *event)
{
	struct ctl *ctl = m->ctl;
	struct json *j = &ctl->json;

	if (!ctl->as_json) {
		ctl_note(ctl, "%s: %" PRIu64 " events were left out",
			evd_event_alias(event), evd_event_lost(event));
		return 0;
	}
	json_object(j, NULL);
	json_string(j, "alias", evd_event_alias(event));
	json_uint(j, "dropped", evd_event_lost(event));
	json_object_end(j);
	json_line_end(j);
	return ctl_flush(ctl);
}

/* When it is told that it has come, it is monitored already. */
static int
on_present(struct watching *w, const char *alias, uint64_t session)
{
	int r = add((struct monitor *)w, alias);

	w->left--;
	return r ? r : print_name(w->ctl, alias, session, WORD_WIDTH);
}

static int
on_name(struct monitor *m, const struct evd_event *event)
{
	char alias[EVD_ALIAS_MAX + 1]; /* requests may end the event */
	uint64_t session = evd_event_session(event);

	snprintf(alias, sizeof(alias), "%s", evd_event_alias(event));
	if (session)
		return on_present(&m->watching, alias, session);
	forget(m, alias);
	m->watching.left--;
	return print_name(m->ctl, alias, 0, WORD_WIDTH);
}

/* Its next life is watched, too. */
static int
on_down(struct monitor *m, const struct evd_event *event)
{
	int64_t watch = evd_event_watch(event);
	int r;

	for (size_t i = 0; i < m->n; i++) {
		if (m->all[i].watch != watch)
			continue;
		m->watching.left--;
		r = print_down(m->ctl, event, "end   ");
		watch_life(m, &m->all[i]);
		return r;
	}
	return 0;
}

static int
on_delivery(struct monitor *m, const struct evd_event *event)
{
	struct monitored *one =
		m->some_failed ? find(m, evd_event_alias(event)) : NULL;
	int r = tell_event(m, event);

	if (one && !one->watch) /* it has been started again */
		watch_life(m, one);
	return r;
}

static int
on_event(struct watching *w, const struct evd_event *event)
{
	struct monitor *m = (struct monitor *)w;

	switch (evd_event_type(event)) {
	case EVD_DELIVERY:
		return on_delivery(m, event);
	case EVD_DOWN:
		return on_down(m, event);
	case EVD_GAP:
		return tell_gap(m, event);
	case EVD_NAME:
		return on_name(m, event);
	default:
		return 0;
	}
}

int
verb_monitor(struct ctl *ctl)
{
	struct monitor m = {
		.watching = {.ctl = ctl,
			.on_event = on_event,
			.on_name = on_present},
		.ctl = ctl,
	};
	int r = watching_names(&m.watching);

	if (r == 0)
		r = watching_run(&m.watching);
	while (m.n)
		free(m.all[--m.n].alias);
	free(m.all);
	return r;
}
