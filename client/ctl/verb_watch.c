/* eventctl wait, watch, names: for sessions to appear and to end, and for
 * names to come and go. One thread. */
#include <inttypes.h>

#include "ctl.h"
#include "text.h"
#include "watch.h"

enum { NAME_WIDTH = 5 };

/* ---- wait -------------------------------------------------------------- */

static int
print_found(struct ctl *ctl, const char *alias, uint64_t session)
{
	struct json *j = &ctl->json;

	if (ctl->as_json) {
		json_object(j, NULL);
		json_string(j, "alias", alias);
		json_id(j, "session", session);
		json_object_end(j);
		json_line_end(j);
	} else {
		ctl_detail(
			ctl, "%s is there: session %" PRIu64, alias, session);
	}
	return ctl_flush(ctl);
}

int
verb_wait(struct ctl *ctl)
{
	const char *alias;
	uint64_t session;
	int r = 0;

	for (size_t i = 0; r == 0 && (alias = ctl_word(ctl, i)); i++)
		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	for (size_t i = 0; r == 0 && (alias = ctl_word(ctl, i)); i++) {
		ctl->subject = alias;
		if (evd_wait_alias(ctl->evd, alias, ctl->timeout_ms, &session))
			return ctl_fail_evd(ctl);
		r = print_found(ctl, alias, session);
	}
	return r;
}

/* ---- watch ------------------------------------------------------------- */

int
print_down(struct ctl *ctl, const struct evd_event *event, const char *word)
{
	struct json *j = &ctl->json;

	if (ctl->as_json) {
		json_object(j, NULL);
		json_string(j, "alias", evd_event_alias(event));
		json_id(j, "session", evd_event_session(event));
		json_string(j, "reason", evd_event_reason(event));
		if (*evd_event_text(event))
			json_string(j, "text", evd_event_text(event));
		json_object_end(j);
		json_line_end(j);
		return ctl_flush(ctl);
	}
	fprintf(ctl->out, "%s%s %s", word, evd_event_alias(event),
		evd_event_reason(event));
	if (*evd_event_text(event)) {
		fputs(": ", ctl->out);
		escape_text(ctl->out, evd_event_text(event));
	}
	fputc('\n', ctl->out);
	return ctl_flush(ctl);
}

static int
tell_down(struct watching *w, const struct evd_event *event)
{
	if (evd_event_type(event) != EVD_DOWN)
		return 0;
	w->left--;
	return print_down(w->ctl, event, "");
}

int
verb_watch(struct ctl *ctl)
{
	struct watching w = {.ctl = ctl, .on_event = tell_down};
	const char *alias;
	int r = 0;

	for (size_t i = 0; r == 0 && (alias = ctl_word(ctl, i)); i++)
		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	for (size_t i = 0; r == 0 && (alias = ctl_word(ctl, i)); i++) {
		ctl->subject = alias;
		if ((ctl_has(ctl, OPT_LINK) ? evd_link(ctl->evd, alias)
					    : evd_watch(ctl->evd, alias)) < 0)
			return ctl_fail_evd(ctl);
		w.left++;
	}
	ctl->subject = NULL;
	return r ? r : watching_run(&w);
}

int
watch_until_down(struct ctl *ctl, uint64_t session)
{
	struct watching w = {.ctl = ctl, .left = 1, .on_event = tell_down};

	if (evd_watch_id(ctl->evd, session) < 0)
		return ctl_fail_evd(ctl);
	return watching_run(&w);
}

/* ---- names ------------------------------------------------------------- */

int
print_name(struct ctl *ctl, const char *alias, uint64_t session, int width)
{
	struct json *j = &ctl->json;

	if (ctl->as_json) {
		json_object(j, NULL);
		json_string(j, "alias", alias);
		json_string(j, "change", session ? "up" : "down");
		if (session)
			json_id(j, "session", session);
		json_object_end(j);
		json_line_end(j);
	} else if (session) {
		fprintf(ctl->out, "%-*s%s %" PRIu64 "\n", width, "up", alias,
			session);
	} else {
		fprintf(ctl->out, "%-*s%s\n", width, "down", alias);
	}
	return ctl_flush(ctl);
}

static int
tell_present(struct watching *w, const char *alias, uint64_t session)
{
	w->left--;
	return print_name(w->ctl, alias, session, NAME_WIDTH);
}

static int
tell_name(struct watching *w, const struct evd_event *event)
{
	if (evd_event_type(event) != EVD_NAME)
		return 0;
	if (evd_event_lost(event))
		ctl_note(w->ctl, "%" PRIu64 " changes were left out",
			evd_event_lost(event));
	return tell_present(
		w, evd_event_alias(event), evd_event_session(event));
}

int
verb_names(struct ctl *ctl)
{
	struct watching w = {
		.ctl = ctl, .on_event = tell_name, .on_name = tell_present};
	int r = watching_names(&w);

	return r ? r : watching_run(&w);
}
