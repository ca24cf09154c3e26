#pragma once
/* All pages of the daemon's lists, in one array in the order that people look
 * for. One thread. */
#include <stddef.h>

#include <eventd/client.h>

struct ctl;

struct pages {
	void **pages; /* owned */
	size_t n_pages, max_pages;
	const void **entries; /* in the pages */
	size_t n, max_entries;
};

/* Sessions by their first alias, those without one last; timers by when they
 * are due. 0, or the exit code of an error that has been told. */
int pages_load_sessions(struct pages *all, struct ctl *ctl, const char *prefix);
void pages_free_sessions(struct pages *all);
/* The same, sorted within each page and holding no more than one. */
int pages_each_session(struct ctl *ctl, const char *prefix,
	void (*each)(struct ctl *ctl, const struct evd_session *session));
int pages_load_timers(struct pages *all, struct ctl *ctl, const char *alias);
void pages_free_timers(struct pages *all);

static inline const struct evd_session *
pages_session(const struct pages *all, size_t i)
{
	return all->entries[i];
}

static inline const struct evd_timer *
pages_timer(const struct pages *all, size_t i)
{
	return all->entries[i];
}
