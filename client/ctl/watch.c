/* The loop of the verbs that wait for events until enough has been told, and
 * the names that match a pattern. One thread. */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
#include "watch.h"

/* ---- the loop ------------------------------------------------------------ */

/* Until something comes, as --timeout says, or nobody reads our output. */
static int
wait_for_more(struct ctl *ctl)
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
take(struct watching *w, const struct evd_event *event)
{
	if (evd_event_type(event) == EVD_DISCONNECTED)
		return ctl_fail_text(
			w->ctl, EVD_STATUS_LOST, evd_event_text(event), NULL);
	return w->on_event(w, event);
}

int
watching_run(struct watching *w)
{
	const struct evd_event *event;
	int code = 0, r;

	while (code == 0 && w->left) {
		r = evd_next(w->ctl->evd, &event);
		if (r > 0)
			code = take(w, event);
		else if (r == 0)
			r = evd_process(w->ctl->evd);
		if (r < 0)
			return ctl_fail_evd(w->ctl);
		if (r == 0)
			code = wait_for_more(w->ctl);
	}
	return code;
}

/* ---- names --------------------------------------------------------------- */

static int
present_of(struct watching *w, const struct evd_session *s, const char *pattern)
{
	const char *alias;
	int r = 0;

	for (size_t i = 0;
		r == 0 && w->left && (alias = evd_session_alias(s, i)); i++)
		if (evd_pattern_matches(pattern, alias) == 1)
			r = w->on_name(w, alias, evd_session_id(s));
	return r;
}

/* Those that are there already. */
static int
present(struct watching *w, const char *pattern)
{
	char prefix[EVD_ALIAS_MAX + 1] = "";
	struct pages all;
	int r;

	memcpy(prefix, pattern, strcspn(pattern, "*"));
	r = pages_load_sessions(&all, w->ctl, prefix);
	for (size_t i = 0; r == 0 && i < all.n; i++)
		r = present_of(w, pages_session(&all, i), pattern);
	pages_free_sessions(&all);
	return r;
}

int
watching_names(struct watching *w)
{
	const char *word = ctl_word(w->ctl, 0);
	const char *pattern = word ? word : "*";
	int r;

	if (evd_pattern_matches(pattern, "") < 0)
		return ctl_usage(w->ctl,
			"'%s' is no pattern: those are 1 to %d of A-Z a-z 0-9 "
			"_ . / - and at most one *",
			pattern, EVD_ALIAS_MAX);
	w->left = UINT64_MAX;
	r = ctl_count(w->ctl, OPT_COUNT, &w->left);
	if (r == 0)
		r = ctl_connect(w->ctl);
	if (r)
		return r;
	if (evd_watch_names(w->ctl->evd, pattern) < 0)
		return ctl_fail_evd(w->ctl);
	return present(w, pattern);
}
