/* eventctl list: the sessions. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
#include "session.h"
#include "table.h"

static const char *const titles[] = {"ALIAS", "KIND", "STATE", ">QUEUED",
	">HANDLED", ">DEAD", ">RESTARTS", "FROM"};

enum { N_TITLES = sizeof(titles) / sizeof(titles[0]) };

static bool
is_listed(struct ctl *ctl, const struct evd_session *s)
{
	return ctl_has(ctl, OPT_ALL) || evd_session_n_aliases(s) > 0;
}

/* "a, b, c", to be freed; NULL: out of memory. */
static char *
aliases_join(const struct evd_session *s)
{
	char *text = NULL;
	const char *alias;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (size_t i = 0; (alias = evd_session_alias(s, i)); i++)
		fprintf(f, "%s%s", i ? ", " : "", alias);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static void
add_row(struct table *t, const struct evd_session *s)
{
	char *aliases = aliases_join(s);
	char from[512];

	session_from(s, from, sizeof(from));
	table_add(t, aliases ? aliases : "?");
	free(aliases);
	table_add(t, evd_session_kind(s));
	table_add_style(t, evd_session_state(s), session_style(s));
	table_addf(t, "%" PRIu64, evd_session_counter(s, EVD_COUNTER_QUEUED));
	table_addf(t, "%" PRIu64, evd_session_counter(s, EVD_COUNTER_HANDLED));
	table_addf(t, "%" PRIu64,
		evd_session_counter(s, EVD_COUNTER_DEAD_LETTERED));
	table_addf(t, "%" PRIu32, evd_session_restarts(s));
	table_add(t, from);
}

static void
print_legend(struct ctl *ctl, size_t n, size_t n_failed)
{
	fprintf(ctl->out, "\n%zu session%s", n, n == 1 ? "" : "s");
	if (n_failed)
		fprintf(ctl->out,
			", %zu failed: eventctl status ALIAS shows why",
			n_failed);
	fputc('\n', ctl->out);
}

static int
print_table(struct ctl *ctl, const struct pages *all)
{
	struct table t;
	size_t n_failed = 0, n = 0;
	int r;

	table_init(&t, titles, N_TITLES);
	for (size_t i = 0; i < all->n; i++) {
		if (!is_listed(ctl, pages_session(all, i)))
			continue;
		add_row(&t, pages_session(all, i));
		n++;
		n_failed += session_style(pages_session(all, i)) == TABLE_BAD;
	}
	r = table_write(&t, ctl->out, ctl->legend, ctl->color);
	table_deinit(&t);
	if (r < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	if (ctl->legend)
		print_legend(ctl, n, n_failed);
	return 0;
}

static void
print_json(struct ctl *ctl, const struct evd_session *session)
{
	if (is_listed(ctl, session))
		session_write_json(&ctl->json, session);
}

int
verb_list(struct ctl *ctl)
{
	struct pages all;
	int r = ctl_connect(ctl);

	if (r)
		return r;
	if (ctl->as_json) /* as they come: there may be a million */
		return pages_each_session(ctl, ctl_word(ctl, 0), print_json);
	r = pages_load_sessions(&all, ctl, ctl_word(ctl, 0));
	if (r == 0)
		r = print_table(ctl, &all);
	pages_free_sessions(&all);
	return r;
}
