/* eventctl monitor: what the aliases that match a pattern handle, when they
 * come and go, and how their sessions end. Each has a binding in mode monitor
 * and a watch while somebody holds it. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
#include "text.h"
#include "watch.h"

enum { WORD_WIDTH = 6 };

struct monitored {
	char *alias;
	int binding;
	int64_t watch; /* of this life of its holder; 0 or less: none */
};

struct monitor {
	struct ctl *ctl;
	uint64_t left; /* to be told before the end */
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
tell_name(struct monitor *m, const char *alias, uint64_t session)
{
	m->left--;
	return print_name(m->ctl, alias, session, WORD_WIDTH);
}

static int
tell_event(struct monitor *m, const struct evd_event *event)
{
	struct ctl *ctl = m->ctl;
	struct json *j = &ctl->json;

	m->left--;
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

static int
on_name(struct monitor *m, const struct evd_event *event)
{
	uint64_t session = evd_event_session(event);
	char alias[EVD_ALIAS_MAX + 1]; /* requests may end the event */
	int r;

	snprintf(alias, sizeof(alias), "%s", evd_event_alias(event));
	r = tell_name(m, alias, session);
	if (r == 0 && session)
		r = add(m, alias);
	else if (r == 0)
		forget(m, alias);
	return r;
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
		m->left--;
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
on_event(struct monitor *m, const struct evd_event *event)
{
	switch (evd_event_type(event)) {
	case EVD_DELIVERY:
		return on_delivery(m, event);
	case EVD_DOWN:
		return on_down(m, event);
	case EVD_GAP:
		return tell_gap(m, event);
	case EVD_NAME:
		return on_name(m, event);
	case EVD_DISCONNECTED:
		return ctl_fail_text(
			m->ctl, EVD_STATUS_LOST, evd_event_text(event), NULL);
	default:
		return 0;
	}
}

/* ---- the loop ------------------------------------------------------------ */

static int
loop(struct monitor *m)
{
	const struct evd_event *event;
	int code = 0, r;

	while (code == 0 && m->left) {
		r = evd_next(m->ctl->evd, &event);
		if (r > 0)
			code = on_event(m, event);
		else if (r == 0)
			r = evd_process(m->ctl->evd);
		if (r < 0)
			return ctl_fail_evd(m->ctl);
		if (r == 0)
			code = watch_more(m->ctl);
	}
	return code;
}

/* Those that are there already. */
static int
add_present(struct monitor *m, const char *pattern)
{
	char prefix[EVD_ALIAS_MAX + 1] = "";
	struct pages all;
	const char *alias;
	int r;

	memcpy(prefix, pattern, strcspn(pattern, "*"));
	r = pages_load_sessions(&all, m->ctl, prefix);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		const struct evd_session *s = pages_session(&all, i);

		for (size_t k = 0;
			r == 0 && m->left && (alias = evd_session_alias(s, k));
			k++) {
			if (evd_pattern_matches(pattern, alias) != 1)
				continue;
			r = add(m, alias); /* when it is told, it is so */
			if (r == 0)
				r = tell_name(m, alias, evd_session_id(s));
		}
	}
	pages_free_sessions(&all);
	return r;
}

int
verb_monitor(struct ctl *ctl)
{
	struct monitor m = {.ctl = ctl, .left = UINT64_MAX};
	const char *pattern = ctl_word(ctl, 0) ? ctl_word(ctl, 0) : "*";
	int r;

	if (evd_pattern_matches(pattern, "") < 0)
		return ctl_usage(ctl,
			"'%s' is no pattern: those are 1 to %d of A-Z a-z 0-9 "
			"_ . / - and at most one *",
			pattern, EVD_ALIAS_MAX);
	r = ctl_count(ctl, OPT_COUNT, &m.left);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	if (evd_watch_names(ctl->evd, pattern) < 0)
		return ctl_fail_evd(ctl);
	r = add_present(&m, pattern);
	if (r == 0)
		r = loop(&m);
	while (m.n)
		free(m.all[--m.n].alias);
	free(m.all);
	return r;
}
