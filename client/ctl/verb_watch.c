/* eventctl wait, watch, names: for sessions to appear and to end, and for
 * names to come and go. One thread. */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
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

/* ---- the loop of watch and names --------------------------------------- */

struct watching {
	struct ctl *ctl;
	uint64_t left; /* to be told before the end */
	int (*tell)(struct watching *w, const struct evd_event *event);
};

static int
on_event(struct watching *w, const struct evd_event *event)
{
	switch (evd_event_type(event)) {
	case EVD_DOWN:
	case EVD_NAME:
		w->left--;
		return w->tell(w, event);
	case EVD_DISCONNECTED:
		return ctl_fail_text(
			w->ctl, EVD_STATUS_LOST, evd_event_text(event), NULL);
	default:
		return 0;
	}
}

int
watch_more(struct ctl *ctl)
{
	int timeout_ms = ctl->timeout_given ? ctl->timeout_ms : -1;
	struct pollfd fds[2] = {
		{.fd = evd_fd(ctl->evd), .events = (short)evd_events(ctl->evd)},
		{.fd = fileno(ctl->out)},
	};
	int n;

	if (evd_timeout_ms(ctl->evd) == 0)
		return 0;
	n = poll(fds, fds[1].fd < 0 ? 1 : 2, timeout_ms);
	if (n == 0)
		return ctl_fail(ctl, EVD_STATUS_TIMEOUT,
			"nothing more has happened in time");
	return fds[1].revents & (POLLERR | POLLHUP) ? CTL_EXIT_PIPE : 0;
}

static int
loop(struct watching *w)
{
	const struct evd_event *event;
	int code = 0, r;

	while (code == 0 && w->left) {
		r = evd_next(w->ctl->evd, &event);
		if (r > 0)
			code = on_event(w, event);
		else if (r == 0)
			r = evd_process(w->ctl->evd);
		if (r < 0)
			return ctl_fail_evd(w->ctl);
		if (r == 0)
			code = watch_more(w->ctl);
	}
	return code;
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
	return print_down(w->ctl, event, "");
}

int
verb_watch(struct ctl *ctl)
{
	struct watching w = {.ctl = ctl, .tell = tell_down};
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
	return r ? r : loop(&w);
}

int
watch_until_down(struct ctl *ctl, uint64_t session)
{
	struct watching w = {.ctl = ctl, .left = 1, .tell = tell_down};

	if (evd_watch_id(ctl->evd, session) < 0)
		return ctl_fail_evd(ctl);
	return loop(&w);
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
tell_name(struct watching *w, const struct evd_event *event)
{
	if (evd_event_lost(event))
		ctl_note(w->ctl, "%" PRIu64 " changes were left out",
			evd_event_lost(event));
	return print_name(w->ctl, evd_event_alias(event),
		evd_event_session(event), NAME_WIDTH);
}

/* Those that are there already. */
static int
print_present(struct watching *w, const char *pattern)
{
	char prefix[EVD_ALIAS_MAX + 1] = "";
	struct pages all;
	const char *alias;
	int r;

	memcpy(prefix, pattern, strcspn(pattern, "*"));
	r = pages_load_sessions(&all, w->ctl, prefix);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		const struct evd_session *s = pages_session(&all, i);

		for (size_t k = 0;
			r == 0 && w->left && (alias = evd_session_alias(s, k));
			k++) {
			if (evd_pattern_matches(pattern, alias) != 1)
				continue;
			r = print_name(
				w->ctl, alias, evd_session_id(s), NAME_WIDTH);
			w->left--;
		}
	}
	pages_free_sessions(&all);
	return r;
}

int
verb_names(struct ctl *ctl)
{
	struct watching w = {.ctl = ctl, .left = UINT64_MAX, .tell = tell_name};
	const char *pattern = ctl_word(ctl, 0) ? ctl_word(ctl, 0) : "*";
	int r;

	if (evd_pattern_matches(pattern, "") < 0)
		return ctl_usage(ctl,
			"'%s' is no pattern: those are 1 to %d of A-Z a-z 0-9 "
			"_ . / - and at most one *",
			pattern, EVD_ALIAS_MAX);
	r = ctl_count(ctl, OPT_COUNT, &w.left);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	if (evd_watch_names(ctl->evd, pattern) < 0)
		return ctl_fail_evd(ctl);
	r = print_present(&w, pattern);
	return r ? r : loop(&w);
}
