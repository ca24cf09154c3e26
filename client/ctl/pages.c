/* Pages: see pages.h. One thread. */
#include "pages.h"

#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* Room for @more pointers in *@array; 0, or -1. */
static int
grow(void **array, size_t n, size_t *max, size_t more)
{
	size_t want = *max ? *max : 64;
	void *grown;

	if (n + more <= *max)
		return 0;
	while (want < n + more)
		want *= 2;
	grown = reallocarray(*array, want, sizeof(void *));
	if (!grown)
		return -1;
	*array = grown;
	*max = want;
	return 0;
}

/* Keep @page, which has @n entries. Frees nothing on failure. */
static int
add_page(struct pages *all, struct ctl *ctl, void *page, size_t n)
{
	void *pages = all->pages, *entries = all->entries;
	int r = grow(&pages, all->n_pages, &all->max_pages, 1);

	all->pages = pages;
	if (r == 0)
		r = grow(&entries, all->n, &all->max_entries, n);
	all->entries = entries;
	if (r < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	all->pages[all->n_pages++] = page;
	return 0;
}

/* Ids of pages only grow, or a bad daemon would keep us for ever. */
static int
check_next(struct ctl *ctl, uint64_t after, uint64_t next)
{
	if (next == 0 || next > after)
		return 0;
	return ctl_fail(ctl, EVD_STATUS_PROTOCOL,
		"the daemon's pages do not come to an end");
}

/* ---- sessions ---- */

static int
by_alias(const void *a, const void *b)
{
	const struct evd_session *const *x = a, *const *y = b;
	const char *name_x = evd_session_alias(*x, 0);
	const char *name_y = evd_session_alias(*y, 0);
	uint64_t id_x = evd_session_id(*x), id_y = evd_session_id(*y);

	if (name_x && name_y)
		return strcmp(name_x, name_y);
	if (name_x || name_y)
		return name_x ? -1 : 1;
	return id_x < id_y ? -1 : id_x > id_y;
}

static int
load_sessions_page(
	struct pages *all, struct ctl *ctl, const char *prefix, uint64_t *after)
{
	struct evd_sessions *page;
	size_t n;
	int r;

	if (evd_list(ctl->evd, prefix, *after, 0, &page) < 0)
		return ctl_fail_evd(ctl);
	n = evd_sessions_count(page);
	r = add_page(all, ctl, page, n);
	if (r) {
		evd_sessions_free(page);
		return r;
	}
	for (size_t i = 0; i < n; i++)
		all->entries[all->n++] = evd_sessions_at(page, i);
	r = check_next(ctl, *after, evd_sessions_next(page));
	*after = evd_sessions_next(page);
	return r;
}

static void
sort_sessions(struct pages *all)
{
	if (all->n > 0)
		qsort(all->entries, all->n, sizeof(void *), by_alias);
}

int
pages_load_sessions(struct pages *all, struct ctl *ctl, const char *prefix)
{
	uint64_t after = 0;
	int r;

	memset(all, 0, sizeof(*all));
	do
		r = load_sessions_page(all, ctl, prefix, &after);
	while (r == 0 && after != 0);
	if (r == 0)
		sort_sessions(all);
	return r;
}

int
pages_each_session(struct ctl *ctl, const char *prefix,
	void (*each)(struct ctl *ctl, const struct evd_session *session))
{
	uint64_t after = 0;
	int r;

	do {
		struct pages page = {.n = 0};

		r = load_sessions_page(&page, ctl, prefix, &after);
		sort_sessions(&page);
		for (size_t i = 0; r == 0 && i < page.n; i++)
			each(ctl, pages_session(&page, i));
		pages_free_sessions(&page);
	} while (r == 0 && after != 0);
	return r;
}

void
pages_free_sessions(struct pages *all)
{
	for (size_t i = 0; i < all->n_pages; i++)
		evd_sessions_free(all->pages[i]);
	free(all->pages);
	free(all->entries);
}

/* ---- timers ---- */

static int
by_due(const void *a, const void *b)
{
	const struct evd_timer *const *x = a, *const *y = b;
	int64_t due_x = evd_timer_due_ns(*x), due_y = evd_timer_due_ns(*y);
	uint64_t id_x = evd_timer_id(*x), id_y = evd_timer_id(*y);

	if (due_x != due_y)
		return due_x < due_y ? -1 : 1;
	return id_x < id_y ? -1 : id_x > id_y;
}

static int
load_timers_page(
	struct pages *all, struct ctl *ctl, const char *alias, uint64_t *after)
{
	struct evd_timers *page;
	size_t n;
	int r;

	if (evd_timers(ctl->evd, alias, *after, 0, &page) < 0)
		return ctl_fail_evd(ctl);
	n = evd_timers_count(page);
	r = add_page(all, ctl, page, n);
	if (r) {
		evd_timers_free(page);
		return r;
	}
	for (size_t i = 0; i < n; i++)
		all->entries[all->n++] = evd_timers_at(page, i);
	r = check_next(ctl, *after, evd_timers_next(page));
	*after = evd_timers_next(page);
	return r;
}

int
pages_load_timers(struct pages *all, struct ctl *ctl, const char *alias)
{
	uint64_t after = 0;
	int r;

	memset(all, 0, sizeof(*all));
	do
		r = load_timers_page(all, ctl, alias, &after);
	while (r == 0 && after != 0);
	if (r == 0 && all->n > 0)
		qsort(all->entries, all->n, sizeof(void *), by_due);
	return r;
}

void
pages_free_timers(struct pages *all)
{
	for (size_t i = 0; i < all->n_pages; i++)
		evd_timers_free(all->pages[i]);
	free(all->pages);
	free(all->entries);
}
