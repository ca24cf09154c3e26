/* See table.h. One thread. */
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kernel/sched.h"
#include "stats/profile.h"

enum { LINES_MAX = 64 };

struct line {
	const struct session *session;
	const struct profile_row *row;
};

static int
dearest_first(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return x->row->own > y->row->own ? -1 : x->row->own < y->row->own;
}

static size_t
collect(const struct kernel *k, struct line *lines)
{
	size_t n = 0;

	for (uint32_t slot = 1; slot <= k->sessions.n_slots; slot++) {
		const struct session *t =
			session_at((struct kernel *)(uintptr_t)k, slot);
		const struct profile_row *row;
		uint32_t at = 0;

		if (!t->id)
			continue;
		while (n < LINES_MAX && (row = profile_next(t->home, t, &at)))
			lines[n++] = (struct line){t, row};
	}
	return n;
}

static void
print_line(
	const struct kernel *k, FILE *f, const struct line *l, double total_s)
{
	double own = (double)profile_ns(k, l->row->own) / 1e9;
	double whole = (double)profile_ns(k, l->row->whole) / 1e9;
	double calls = (double)l->row->calls;

	fprintf(f, "%5.1f %8.3f %8.3f %9" PRIu64 " %11.9f %11.9f  %s:%s\n",
		100 * own / total_s, own, whole, l->row->calls, own / calls,
		whole / calls, session_name(l->session), l->row->event);
}

void
table_print(const struct kernel *k, FILE *f)
{
	struct line lines[LINES_MAX];
	size_t n = collect(k, lines);
	uint64_t total = 1;

	qsort(lines, n, sizeof(lines[0]), dearest_first);
	for (size_t i = 0; i < n; i++)
		total += lines[i].row->own;
	fprintf(f,
		"%%Time  ExclSec   CumulS    #Calls    sec/call      Csec/c  "
		"Name\n");
	for (size_t i = 0; i < n; i++)
		print_line(k, f, &lines[i], (double)profile_ns(k, total) / 1e9);
}
