#include "kind/manage_task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/kin.h"
#include "proto/envelope.h"
#include "proto/status.h"

/* ---- writing ----------------------------------------------------------- */

static bool
out_room(struct manage_out *out, size_t more)
{
	size_t room = out->room ? out->room : 256;
	uint8_t *data;

	if (out->size + more <= out->room)
		return true;
	while (room < out->size + more)
		room *= 2;
	data = FAULT(manage_out) ? NULL : realloc(out->data, room);
	if (!data) {
		out->failed = true;
		return false;
	}
	out->data = data;
	out->room = room;
	return true;
}

void
manage_put(struct manage_out *out, uint64_t number)
{
	if (!out_room(out, sizeof(number)))
		return;
	memcpy(out->data + out->size, &number, sizeof(number));
	out->size += sizeof(number);
}

void
manage_put_text(struct manage_out *out, const void *text, size_t size)
{
	manage_put(out, size);
	if (!out_room(out, size + 1))
		return;
	memcpy(out->data + out->size, text, size);
	out->data[out->size + size] = '\0';
	out->size += size + 1;
}

/* ---- reading ----------------------------------------------------------- */

static uint64_t
take(struct manage_answer *a)
{
	uint64_t number = 0;

	if ((size_t)(a->end - a->at) < sizeof(number)) {
		a->end = a->at = NULL;
		return 0;
	}
	memcpy(&number, a->at, sizeof(number));
	a->at += sizeof(number);
	return number;
}

static const char *
take_text(struct manage_answer *a, uint64_t *size)
{
	const char *text;

	*size = take(a);
	text = (const char *)a->at;
	if (!text || *size >= (size_t)(a->end - a->at) || text[*size]) {
		a->end = a->at = NULL;
		*size = 0;
		return "";
	}
	a->at += *size + 1;
	return text;
}

bool
manage_open(struct manage_answer *a, const void *data, size_t size)
{
	uint64_t text_size;

	*a = (struct manage_answer){.at = data};
	a->end = a->at + size;
	a->n = take(a);
	a->next = take(a);
	a->left = take(a);
	a->status = take(a);
	a->on = take(a);
	a->text = take_text(a, &text_size);
	return a->at;
}

bool
manage_next_event(struct manage_answer *a, struct manage_event *e)
{
	e->position = take(a);
	e->id = take(a);
	e->from = take(a);
	e->size = take(a);
	e->attempt = take(a);
	e->call = take(a);
	e->urgent = take(a);
	e->event = take_text(a, &e->event_size);
	e->data = take_text(a, &e->data_size);
	return a->at;
}

bool
manage_next_letter(struct manage_answer *a, struct manage_letter *l)
{
	uint64_t size, reason;

	l->id = take(a);
	l->event_id = take(a);
	l->from = take(a);
	l->session = take(a);
	l->size = take(a);
	l->attempt = take(a);
	l->time_ns = take(a);
	l->status = take(a);
	reason = take(a);
	l->reason = dead_word(
		reason < DEAD_REASONS ? (enum dead_reason)reason : DEAD_NONE);
	l->alias = take_text(a, &size);
	l->event = take_text(a, &size);
	l->text = take_text(a, &size);
	l->data = take_text(a, &l->data_size);
	return a->at;
}

bool
manage_next_row(struct manage_answer *a, struct manage_row *row)
{
	uint64_t size;

	row->event = take_text(a, &size);
	row->calls = take(a);
	row->own_ns = take(a);
	row->whole_ns = take(a);
	row->wait_ns = take(a);
	row->wait_max_ns = take(a);
	row->n_late = take(a);
	row->late_ns = take(a);
	row->late_max_ns = take(a);
	return a->at;
}

/* ---- the end ----------------------------------------------------------- */

static void
manage_free(struct manage *m)
{
	free(m->out.data);
	free(m);
}

void
manage_fail(struct manage *m, int status, const char *text)
{
	m->status = status;
	snprintf(m->text, sizeof(m->text), "%s",
		text ? text : status_text(status));
}

/* The head goes before the entries. */
static void
answer(struct manage *m, struct sched *here)
{
	struct manage_out all = {.data = NULL};

	manage_put(&all, m->n);
	manage_put(&all, m->next_page);
	manage_put(&all, m->left);
	manage_put(&all, m->first_status);
	manage_put(&all, m->on);
	manage_put_text(&all, m->text, strlen(m->text));
	if (!all.failed && m->out.size && out_room(&all, m->out.size)) {
		memcpy(all.data + all.size, m->out.data, m->out.size);
		all.size += m->out.size;
	}
	if (all.failed || m->out.failed)
		manage_fail(m, EVD_STATUS_NO_MEMORY, NULL);
	else /* without memory the call times out */
		(void)sched_reply(here, m->call, EVD_STATUS_OK, all.data,
			(uint32_t)all.size);
	free(all.data);
}

void
manage_end(struct manage *m, struct sched *here)
{
	if (!m->status)
		answer(m, here);
	if (m->status)
		(void)sched_reply(here, m->call, m->status, m->text,
			(uint32_t)strlen(m->text));
	manage_free(m);
}

/* ---- from scheduler to scheduler --------------------------------------- */

static bool
visit(struct manage *m, struct sched *s)
{
	switch ((enum manage_op)m->op) {
	case MANAGE_LETTERS:
	case MANAGE_LETTER:
	case MANAGE_REQUEUE:
	case MANAGE_FORGET:
		return manage_visit_letters(m, s);
	case MANAGE_PAUSE:
	case MANAGE_RESUME:
	case MANAGE_PEEK:
	case MANAGE_PURGE:
	case MANAGE_MOVE:
	case MANAGE_PROFILE:
		return manage_visit_queue(m, s);
	}
	return false;
}

static void
on_visit(struct sched *s, struct sched_task *task)
{
	struct manage *m = container_of(task, struct manage, task);
	struct kernel *k = s->kernel;
	bool more;

	m->again = false;
	more = visit(m, s);
	if (m->pending)
		return; /* it may be gone */
	if (m->again) {
		sched_run_on(s, s, task);
		return;
	}
	m->looked = false;
	if (!more || ++m->next >= k->n_scheds)
		manage_end(m, s);
	else
		sched_run_on(s, k->scheds[m->next], task);
}

static void
on_drop(struct sched_task *task)
{
	manage_free(container_of(task, struct manage, task));
}

/* Where to begin: where the session lives, or where the letters are. */
static unsigned
first_sched(const struct manage *m, struct kernel *k)
{
	struct session *t = session_find(k, m->session);
	unsigned first;

	if (m->op == MANAGE_LETTER && m->n_ids)
		first = dead_sched(m->ids[0]);
	else if (m->op >= MANAGE_LETTERS && m->op <= MANAGE_FORGET)
		first = m->n_ids ? 0 : dead_sched(m->search.after);
	else
		first = t ? ((struct sched *)atomic_load(&t->home))->index : 0;
	return first < k->n_scheds ? first : 0;
}

/* ---- asking ------------------------------------------------------------ */

bool
manage_may(const struct session *s, uint64_t id)
{
	return (s->spec && s->spec->manage_others) ||
	       (id && (id == atomic_load(&s->id) || kin_child(s, id)));
}

static bool
name_fits(const char *name, size_t most)
{
	return !name || name_is_valid(name, strlen(name), most);
}

static const char *
wrong(const struct manage_args *a)
{
	if (!name_fits(a->alias, ENVELOPE_ALIAS_MAX) ||
		!name_fits(a->to, ENVELOPE_ALIAS_MAX))
		return "an alias is 1 to 255 of A-Z a-z 0-9 _ . / -";
	if (!name_fits(a->event, ENVELOPE_EVENT_MAX))
		return "an event is 1 to 127 of A-Z a-z 0-9 _ . / -";
	if (a->n_ids > MANAGE_IDS_MAX)
		return "at most 1000 letters are named at once";
	return NULL;
}

static void
copy_name(char *out, const char *name)
{
	if (name)
		strcpy(out, name); /* it fits: wrong() looked */
}

static uint32_t
page_limit(uint32_t limit)
{
	if (!limit)
		return MANAGE_PAGE;
	return limit < MANAGE_PAGE_MAX ? limit : MANAGE_PAGE_MAX;
}

static struct manage *
manage_new(enum manage_op op, const struct manage_args *a)
{
	struct manage *m =
		FAULT(manage_new)
			? NULL
			: calloc(1, sizeof(*m) + a->n_ids * sizeof(m->ids[0]));

	if (!m)
		return NULL;
	m->op = (uint8_t)op;
	m->task.run = on_visit;
	m->task.drop = on_drop;
	m->session = a->session;
	m->skip = a->after;
	m->limit = op == MANAGE_PEEK || op == MANAGE_LETTERS
			   ? page_limit(a->limit)
			   : a->limit;
	m->bytes = a->bytes < MANAGE_BYTES_MAX ? a->bytes : MANAGE_BYTES_MAX;
	m->set = a->set;
	copy_name(m->alias, a->alias);
	copy_name(m->to, a->to);
	copy_name(m->event, a->event);
	m->n_ids = a->n_ids;
	if (a->n_ids)
		memcpy(m->ids, a->ids, a->n_ids * sizeof(m->ids[0]));
	m->search = (struct dead_search){
		.alias = a->alias ? m->alias : NULL,
		.session = a->session,
		.reason = a->reason,
		.after = dead_token_id(a->after),
		.looks = DEAD_LOOK,
	};
	return m;
}

static int
refuse(int status, const char *why, char text[MANAGE_TEXT])
{
	snprintf(text, MANAGE_TEXT, "%s", why ? why : status_text(status));
	return status;
}

int
manage_ask(struct session *s, enum manage_op op, const struct manage_args *args,
	uint64_t token, char text[MANAGE_TEXT])
{
	struct sched *sched = atomic_load(&s->home);
	uint64_t ms = sched->kernel->limits.call_timeout_ms;
	struct manage *m;
	int r;

	if (wrong(args))
		return refuse(EVD_STATUS_INVALID, wrong(args), text);
	if (!manage_may(s, args->session))
		return refuse(EVD_STATUS_DENIED,
			"a session manages itself and its children, others "
			"only with ManageOthers=yes in its file",
			text);
	m = manage_new(op, args);
	if (!m)
		return refuse(EVD_STATUS_NO_MEMORY, NULL, text);
	r = session_sleep(s, token, ms, &m->call);
	if (r) {
		manage_free(m);
		return refuse(sched_status(r),
			sched_explain(sched, r, 0, text, MANAGE_TEXT), text);
	}
	m->next = first_sched(m, sched->kernel);
	if (sched->kernel->scheds[m->next] == sched)
		on_visit(sched, &m->task);
	else
		sched_run_on(sched, sched->kernel->scheds[m->next], &m->task);
	return EVD_STATUS_OK;
}
