/* What is asked of dead letters: scheduler by scheduler, since each has its
 * own. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/alias.h"
#include "kind/manage_task.h"

enum { STEP = 100 }; /* letters changed in one turn */

static void
put_letter(struct manage *m, const struct dead *d, size_t bytes)
{
	const struct msg *e = d->msg;
	struct manage_out *out = &m->out;

	manage_put(out, d->id);
	manage_put(out, e->id);
	manage_put(out, e->from);
	manage_put(out, d->session);
	manage_put(out, e->size);
	manage_put(out, e->attempt);
	manage_put(out, d->time_ns);
	manage_put(out, (uint64_t)d->status);
	manage_put(out, d->reason);
	manage_put_text(out, d->alias, d->alias_size);
	manage_put_text(out, e->event, e->event_size);
	manage_put_text(out, dead_text(d), strlen(dead_text(d)));
	manage_put_text(out, msg_payload(e), e->size < bytes ? e->size : bytes);
	m->n++;
}

/* ---- list and show ----------------------------------------------------- */

static bool
list(struct manage *m, struct sched *s)
{
	struct dead *d;
	bool more;

	while ((d = dead_search_next(&m->search, s, &more))) {
		put_letter(m, d, m->bytes);
		if (m->n == m->limit || manage_is_long(m) || m->out.failed) {
			m->next_page = dead_token(d->id);
			return false;
		}
	}
	if (more)
		m->next_page = dead_token(m->search.after);
	return !more;
}

static void
no_letter(uint64_t id, char *text, size_t size)
{
	snprintf(text, size,
		"no dead letter %" PRIu64
		" of it: it was posted again, forgotten, or never was",
		id);
}

/* NULL: it is not here, or for another session than was said. */
static struct dead *
find(const struct manage *m, struct sched *s, uint64_t id)
{
	struct dead *d = dead_sched(id) == s->index ? dead_find(s, id) : NULL;

	return d && m->session && d->session != m->session ? NULL : d;
}

static void
show(struct manage *m, struct sched *s)
{
	uint64_t id = m->n_ids ? m->ids[0] : 0;
	struct dead *d = find(m, s, id);

	if (d) {
		put_letter(m, d, SIZE_MAX);
		return;
	}
	m->status = EVD_STATUS_NOT_FOUND;
	no_letter(id, m->text, sizeof(m->text));
}

/* ---- requeue and forget ------------------------------------------------ */

static void
change_failed(struct manage *m, int status, const char *text)
{
	if (m->left++)
		return;
	m->first_status = (uint64_t)status;
	snprintf(m->text, sizeof(m->text), "%s", text);
}

static void
requeue(struct manage *m, struct sched *s, struct dead *d)
{
	const char *alias = m->to[0] ? m->to : d->alias;
	uint64_t holder =
		alias_holder(&s->kernel->aliases, alias, strlen(alias));
	char text[MANAGE_TEXT];
	int r;

	if (!holder) {
		snprintf(text, sizeof(text), "no session holds the alias '%s'",
			alias);
		change_failed(m, EVD_STATUS_NO_ALIAS, text);
		return;
	}
	r = dead_requeue(s, d, holder);
	if (r)
		change_failed(m, sched_status(r),
			sched_explain(s, r, holder, text, sizeof(text)));
	else
		m->n++;
}

static void
change(struct manage *m, struct sched *s, struct dead *d)
{
	if (m->op == MANAGE_REQUEUE) {
		requeue(m, s, d);
		return;
	}
	dead_drop(s, d);
	m->n++;
}

static bool
change_named(struct manage *m, struct sched *s)
{
	char text[MANAGE_TEXT];

	for (size_t i = 0; i < m->n_ids; i++) {
		struct dead *d = find(m, s, m->ids[i]);
		bool last = s->index + 1 == s->kernel->n_scheds;

		if (d) {
			change(m, s, d);
		} else if (dead_sched(m->ids[i]) == s->index ||
			   (last && dead_sched(m->ids[i]) > s->index)) {
			no_letter(m->ids[i], text, sizeof(text));
			change_failed(m, EVD_STATUS_NOT_FOUND, text);
		}
	}
	return true;
}

/* All that are here when it comes: what dies again is not taken twice. */
static bool
change_matching(struct manage *m, struct sched *s)
{
	struct dead *d;
	bool more;

	if (!m->looked)
		m->search.until = s->dead.total << 6 | s->index;
	m->looked = true;
	m->search.looks = DEAD_LOOK;
	for (unsigned i = 0; i < STEP; i++) {
		d = dead_search_next(&m->search, s, &more);
		if (!d) {
			m->again = more;
			return true;
		}
		change(m, s, d);
	}
	m->again = true;
	return true;
}

bool
manage_visit_letters(struct manage *m, struct sched *s)
{
	if (m->op == MANAGE_LETTERS)
		return list(m, s);
	if (m->op != MANAGE_LETTER)
		return m->n_ids ? change_named(m, s) : change_matching(m, s);
	show(m, s);
	return false;
}
