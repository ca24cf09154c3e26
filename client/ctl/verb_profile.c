/* eventctl profile: what events cost, in the form that Perl's profilers have.
 * One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "json.h"
#include "text.h"

enum {
	ROWS_DEFAULT = 50,
	NAME_MAX_SIZE = EVD_ALIAS_MAX + EVD_EVENT_MAX + 32,
};

/* One line: an event of a session, or a sum. */
struct line {
	const struct evd_profile *session; /* NULL: a sum */
	const struct evd_profile_row *row;
	const char *name; /* of a sum */
	uint64_t values[EVD_N_PROFILE_VALUES];
};

struct profile {
	struct evd_profiles **pages;
	size_t n_pages;
	struct line *lines;
	size_t n, max;
	uint64_t gone_calls, gone_ns;
	bool on;
};

/* ---- loading ---- */

static bool
add_line(struct profile *p, const struct line *line)
{
	if (p->n == p->max) {
		size_t max = p->max ? 2 * p->max : 64;
		struct line *more =
			reallocarray(p->lines, max, sizeof(*p->lines));

		if (!more)
			return false;
		p->lines = more;
		p->max = max;
	}
	p->lines[p->n++] = *line;
	return true;
}

static bool
add_session(struct profile *p, const struct evd_profile *session)
{
	struct line line = {.session = session};

	for (size_t i = 0; (line.row = evd_profile_row(session, i)); i++) {
		for (int v = 0; v < EVD_N_PROFILE_VALUES; v++)
			line.values[v] = evd_profile_row_value(line.row, v);
		if (!add_line(p, &line))
			return false;
	}
	return true;
}

static bool
add_page(struct profile *p, struct evd_profiles *page)
{
	struct evd_profiles **more = reallocarray(
		p->pages, p->n_pages + 1, sizeof(struct evd_profiles *));

	if (!more) {
		evd_profiles_free(page);
		return false;
	}
	p->pages = more;
	p->pages[p->n_pages++] = page;
	p->on = evd_profiles_on(page);
	p->gone_calls = evd_profiles_gone_calls(page);
	p->gone_ns = evd_profiles_gone_ns(page);
	for (size_t i = 0; i < evd_profiles_count(page); i++)
		if (!add_session(p, evd_profiles_at(page, i)))
			return false;
	return true;
}

/* Pages without sessions are not kept: there may be many. */
static int
load(struct ctl *ctl, struct profile *p)
{
	uint64_t after = 0, next;

	do {
		struct evd_profiles *page;

		if (evd_profile(ctl->evd, ctl->subject, after, EVD_PROFILE_LOOK,
			    &page) < 0)
			return ctl_fail_evd(ctl);
		next = evd_profiles_next(page);
		if (next && next <= after) {
			evd_profiles_free(page);
			return ctl_fail(ctl, EVD_STATUS_PROTOCOL,
				"the daemon's pages do not come to an end");
		}
		after = next;
		if (after && !evd_profiles_count(page))
			evd_profiles_free(page);
		else if (!add_page(p, page))
			return ctl_fail(
				ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	} while (after);
	return 0;
}

static void
unload(struct profile *p)
{
	for (size_t i = 0; i < p->n_pages; i++)
		evd_profiles_free(p->pages[i]);
	free(p->pages);
	free(p->lines);
}

/* ---- lines ---- */

static int
dearest_first(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	uint64_t m = x->values[EVD_PROFILE_OWN_NS];
	uint64_t n = y->values[EVD_PROFILE_OWN_NS];

	return m > n ? -1 : m < n;
}

static uint64_t
greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What is beyond @most lines becomes one. */
static void
fold(struct profile *p, size_t most)
{
	struct line *sum = &p->lines[most];

	if (p->n <= most + 1)
		return;
	sum->session = NULL;
	sum->name = "(other)";
	for (size_t i = most + 1; i < p->n; i++) {
		const uint64_t *values = p->lines[i].values;

		for (int v = 0; v < EVD_N_PROFILE_VALUES; v++) {
			if (v == EVD_PROFILE_WAIT_MAX_NS ||
				v == EVD_PROFILE_LATE_MAX_NS)
				sum->values[v] =
					greater(sum->values[v], values[v]);
			else
				sum->values[v] += values[v];
		}
	}
	p->n = most + 1;
}

static bool
prepare(struct ctl *ctl, struct profile *p, uint64_t most)
{
	struct line gone = {.name = "(ended sessions)"};

	gone.values[EVD_PROFILE_CALLS] = p->gone_calls;
	gone.values[EVD_PROFILE_OWN_NS] = p->gone_ns;
	gone.values[EVD_PROFILE_WHOLE_NS] = p->gone_ns;
	if (!ctl->subject && p->gone_calls && !add_line(p, &gone))
		return false;
	if (p->n)
		qsort(p->lines, p->n, sizeof(*p->lines), dearest_first);
	if (most < p->n)
		fold(p, (size_t)most);
	return true;
}

static void
name_of(const struct line *line, char name[static NAME_MAX_SIZE])
{
	const char *alias;

	if (!line->session) {
		snprintf(name, NAME_MAX_SIZE, "%s", line->name);
		return;
	}
	alias = evd_profile_alias(line->session);
	if (*alias)
		snprintf(name, NAME_MAX_SIZE, "%s:%s", alias,
			evd_profile_row_event(line->row));
	else
		snprintf(name, NAME_MAX_SIZE, "#%" PRIu64 ":%s",
			evd_profile_session(line->session),
			evd_profile_row_event(line->row));
}

/* ---- printing ---- */

static double
seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double
seconds_each(uint64_t ns, uint64_t n)
{
	return n ? seconds(ns) / (double)n : 0;
}

static void
print_waits(struct ctl *ctl, const uint64_t *v)
{
	fprintf(ctl->out, " %9.7f %8.6f %9.7f %8.6f",
		seconds_each(v[EVD_PROFILE_WAIT_NS], v[EVD_PROFILE_CALLS]),
		seconds(v[EVD_PROFILE_WAIT_MAX_NS]),
		seconds_each(v[EVD_PROFILE_LATE_NS], v[EVD_PROFILE_LATE]),
		seconds(v[EVD_PROFILE_LATE_MAX_NS]));
}

static void
print_line(struct ctl *ctl, const struct line *line, uint64_t total_ns)
{
	const uint64_t *v = line->values;
	uint64_t own = v[EVD_PROFILE_OWN_NS], whole = v[EVD_PROFILE_WHOLE_NS];
	uint64_t calls = v[EVD_PROFILE_CALLS];
	char name[NAME_MAX_SIZE];

	fprintf(ctl->out, "%5.1f %8.3f %8.3f %9" PRIu64 " %11.9f %11.9f",
		total_ns ? 100.0 * (double)own / (double)total_ns : 0,
		seconds(own), seconds(whole), calls, seconds_each(own, calls),
		seconds_each(whole, calls));
	if (ctl_has(ctl, OPT_WAITS))
		print_waits(ctl, v);
	name_of(line, name);
	fputs("  ", ctl->out);
	escape_text(ctl->out, name);
	fputc('\n', ctl->out);
}

static void
print_table(struct ctl *ctl, const struct profile *p)
{
	uint64_t total_ns = 0;

	for (size_t i = 0; i < p->n; i++)
		total_ns += p->lines[i].values[EVD_PROFILE_OWN_NS];
	if (ctl->legend)
		fprintf(ctl->out,
			"%%Time  ExclSec   CumulS    #Calls    sec/call"
			"      Csec/c%s  Name\n",
			ctl_has(ctl, OPT_WAITS)
				? "    wait/c  maxwait    late/c  maxlate"
				: "");
	for (size_t i = 0; i < p->n; i++)
		print_line(ctl, &p->lines[i], total_ns);
}

static void
print_json(struct ctl *ctl, const struct line *line)
{
	static const char *const names[EVD_N_PROFILE_VALUES] = {"calls",
		"exclusive_ns", "cumulative_ns", "wait_ns", "wait_max_ns",
		"late", "late_ns", "late_max_ns"};
	struct json *j = &ctl->json;

	json_object(j, NULL);
	if (line->session) {
		json_id(j, "session", evd_profile_session(line->session));
		json_string(j, "alias", evd_profile_alias(line->session));
		json_string(j, "kind", evd_profile_kind(line->session));
		json_bool(j, "on", evd_profile_on(line->session));
		json_string(j, "event", evd_profile_row_event(line->row));
	} else {
		json_string(j, "event", line->name);
	}
	for (int v = 0; v < EVD_N_PROFILE_VALUES; v++)
		json_uint(j, names[v], line->values[v]);
	json_object_end(j);
	json_line_end(j);
}

static int
show(struct ctl *ctl, uint64_t most)
{
	struct profile p = {0};
	int r = load(ctl, &p);

	if (r == 0 && !prepare(ctl, &p, most))
		r = ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	if (r == 0 && ctl->as_json)
		for (size_t i = 0; i < p.n; i++)
			print_json(ctl, &p.lines[i]);
	else if (r == 0)
		print_table(ctl, &p);
	if (r == 0 && p.n == 0 && !p.on)
		ctl_note(ctl, "profiling is off: eventctl profile --on");
	unload(&p);
	return r;
}

/* ---- switching ---- */

static int
change(struct ctl *ctl, int what)
{
	struct evd_profiles *page;

	if (evd_profile(ctl->evd, ctl->subject, 0, what, &page) < 0)
		return ctl_fail_evd(ctl);
	evd_profiles_free(page);
	return 0;
}

static int
wanted(struct ctl *ctl)
{
	return (ctl_has(ctl, OPT_ON) ? EVD_PROFILE_ON : 0) |
	       (ctl_has(ctl, OPT_OFF) ? EVD_PROFILE_OFF : 0) |
	       (ctl_has(ctl, OPT_RESET) ? EVD_PROFILE_RESET : 0);
}

int
verb_profile(struct ctl *ctl)
{
	uint64_t most = ROWS_DEFAULT;
	int what = wanted(ctl), r;

	ctl->subject = ctl_word(ctl, 0);
	if (ctl_has(ctl, OPT_ON) && ctl_has(ctl, OPT_OFF))
		return ctl_usage(ctl, "--on or --off, not both");
	r = ctl_count(ctl, OPT_ROWS, &most);
	if (r == 0 && ctl->subject)
		r = ctl_check_name(ctl, "alias", ctl->subject, EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	return what ? change(ctl, what) : show(ctl, most);
}
