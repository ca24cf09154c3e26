/* eventctl queue: the mailboxes of sessions. One thread. */
#include <inttypes.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
#include "table.h"
#include "text.h"

enum {
	PEEK_EVENTS = 10,
	PEEK_BYTES = 64, /* of each payload */
	PEEK_BYTES_MAX = 4096,
	PEEK_PAGE = 1000,
};

struct command {
	const char *name, *args;
	size_t min_words, max_words; /* behind the name; 0: any number */
	int (*run)(struct ctl *ctl);
};

/* ---- list -------------------------------------------------------------- */

static const char *const list_titles[] = {
	"ALIAS", ">QUEUED", ">BYTES", ">MAX", ">WAITING", "STATE", "OVERFLOW"};
static const char *const peek_titles[] = {
	">POSITION", ">ID", "EVENT", ">FROM", ">BYTES", "FLAGS", "PAYLOAD"};

static const char *
box_state(const struct evd_session *s)
{
	if (evd_session_is_paused(s))
		return evd_session_is_above(s) ? "paused, high" : "paused";
	return evd_session_is_above(s) ? "high" : "";
}

static void
list_row(struct table *t, const struct evd_session *s)
{
	table_add(t, evd_session_alias(s, 0));
	table_addf(t, "%" PRIu64, evd_session_counter(s, EVD_COUNTER_QUEUED));
	table_addf(t, "%" PRIu64, evd_session_queued_bytes(s));
	table_addf(t, "%" PRIu64, evd_session_max_events(s));
	table_addf(t, "%" PRIu64, evd_session_parked(s));
	table_add_style(t, box_state(s), TABLE_WARN);
	table_add(t, evd_session_overflow(s));
}

static void
list_json(struct json *j, const struct evd_session *s)
{
	json_object(j, NULL);
	json_string(j, "alias", evd_session_alias(s, 0));
	json_uint(j, "queued", evd_session_counter(s, EVD_COUNTER_QUEUED));
	json_uint(j, "queued_bytes", evd_session_queued_bytes(s));
	json_uint(j, "max_events", evd_session_max_events(s));
	json_uint(j, "max_bytes", evd_session_max_bytes(s));
	json_uint(j, "parked", evd_session_parked(s));
	json_bool(j, "paused", evd_session_is_paused(s));
	json_bool(j, "above", evd_session_is_above(s));
	json_string(j, "overflow", evd_session_overflow(s));
	json_uint(j, "dropped", evd_session_counter(s, EVD_COUNTER_DROPPED));
	json_object_end(j);
	json_line_end(j);
}

static int
table_end(struct ctl *ctl, struct table *t)
{
	int r = table_write(t, ctl->out, ctl->legend, ctl->color);

	table_deinit(t);
	if (r < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	return 0;
}

static int
queue_list(struct ctl *ctl)
{
	struct pages all;
	struct table t;
	int r = pages_load_sessions(&all, ctl, ctl_word(ctl, 1));

	table_init(&t, list_titles, 7);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		const struct evd_session *s = pages_session(&all, i);

		if (evd_session_n_aliases(s) == 0)
			continue;
		if (ctl->as_json)
			list_json(&ctl->json, s);
		else
			list_row(&t, s);
	}
	if (r == 0 && !ctl->as_json)
		r = table_end(ctl, &t);
	else
		table_deinit(&t);
	pages_free_sessions(&all);
	return r;
}

/* ---- peek -------------------------------------------------------------- */

static void
peek_json(struct json *j, const struct evd_queued *q)
{
	size_t size;
	const void *data = evd_queued_data(q, &size);

	json_object(j, NULL);
	json_uint(j, "position", evd_queued_position(q));
	json_id(j, "id", evd_queued_id(q));
	json_string(j, "event", evd_queued_event(q));
	json_id(j, "from", evd_queued_from(q));
	json_uint(j, "payload_size", evd_queued_size(q));
	json_bool(j, "call", evd_queued_is_call(q));
	json_bool(j, "urgent", evd_queued_is_urgent(q));
	json_uint(j, "attempt", evd_queued_attempt(q));
	if (size)
		json_data(j, data, size);
	json_object_end(j);
	json_line_end(j);
}

/* The head of the payload, on one line of a table. */
static void
peek_payload(struct table *t, const struct evd_queued *q)
{
	char text[PEEK_BYTES_MAX + 4];
	size_t size, n = 0;
	const char *data = evd_queued_data(q, &size);

	for (; n < size && n < PEEK_BYTES_MAX; n++)
		text[n] = data[n] ? data[n] : ' ';
	if (size < evd_queued_size(q) && size)
		n += (size_t)snprintf(text + n, 4, "...");
	text[n] = '\0';
	table_add(t, text);
}

static void
peek_row(struct table *t, const struct evd_queued *q)
{
	char flags[32];

	table_addf(t, "%" PRIu64, evd_queued_position(q));
	table_addf(t, "%" PRIu64, evd_queued_id(q));
	table_add(t, evd_queued_event(q));
	table_addf(t, "%" PRIu64, evd_queued_from(q));
	table_addf(t, "%" PRIu64, evd_queued_size(q));
	snprintf(flags, sizeof(flags), "%s%s%s",
		evd_queued_is_call(q) ? "call " : "",
		evd_queued_is_urgent(q) ? "urgent " : "",
		evd_queued_attempt(q) ? "again" : "");
	table_add(t, flags);
	peek_payload(t, q);
}

static void
peek_page(struct ctl *ctl, struct table *t, const struct evd_queue *page)
{
	const struct evd_queued *q;

	for (size_t i = 0; (q = evd_queue_at(page, i)); i++) {
		if (ctl->as_json)
			peek_json(&ctl->json, q);
		else
			peek_row(t, q);
	}
}

/* Pages of at most @left events from @skip on. */
static int
peek_pages(struct ctl *ctl, struct table *t, uint64_t skip, uint64_t left,
	uint32_t bytes)
{
	struct evd_queue *page;

	do {
		uint32_t n = left < PEEK_PAGE ? (uint32_t)left : PEEK_PAGE;

		if (evd_queue_peek(
			    ctl->evd, ctl->subject, skip, n, bytes, &page) < 0)
			return ctl_fail_evd(ctl);
		peek_page(ctl, t, page);
		left -= evd_queue_count(page) < left ? evd_queue_count(page)
						     : left;
		skip = evd_queue_next(page);
		evd_queue_free(page);
	} while (left && skip);
	return 0;
}

static int
peek_one(struct ctl *ctl, struct table *t, uint32_t bytes)
{
	struct evd_queue *page;
	uint64_t id;

	if (!number_parse(ctl_value(ctl, OPT_ID), &id) || !id)
		return ctl_usage(ctl, "--id takes the id of an event");
	if (evd_queue_peek_id(ctl->evd, ctl->subject, id, bytes, &page) < 0)
		return ctl_fail_evd(ctl);
	peek_page(ctl, t, page);
	evd_queue_free(page);
	return 0;
}

static int
queue_peek(struct ctl *ctl)
{
	uint64_t n = PEEK_EVENTS, skip = 0, bytes = PEEK_BYTES;
	struct table t;
	int r = ctl_count(ctl, OPT_MOST, &n);

	if (r == 0)
		r = ctl_count(ctl, OPT_SKIP, &skip);
	if (r == 0)
		r = ctl_count(ctl, OPT_BYTES, &bytes);
	if (r == 0 && bytes > PEEK_BYTES_MAX)
		r = ctl_usage(ctl, "--bytes is at most %d", PEEK_BYTES_MAX);
	if (r)
		return r;
	table_init(&t, peek_titles, 7);
	if (ctl_has(ctl, OPT_ID))
		r = peek_one(ctl, &t, (uint32_t)bytes);
	else
		r = peek_pages(ctl, &t, skip, n, (uint32_t)bytes);
	if (r == 0 && !ctl->as_json)
		return table_end(ctl, &t);
	table_deinit(&t);
	return r;
}

/* ---- changes ----------------------------------------------------------- */

static void
changed_json(struct ctl *ctl, const char *key, uint64_t n)
{
	struct json *j = &ctl->json;

	json_object(j, NULL);
	json_string(j, "alias", ctl->subject);
	json_uint(j, key, n);
	json_object_end(j);
	json_line_end(j);
}

static int
set_pause(struct ctl *ctl, bool pause)
{
	struct json *j = &ctl->json;
	int r = 0;

	for (size_t i = 1; r == 0 && ctl_word(ctl, i); i++) {
		ctl->subject = ctl_word(ctl, i);
		if ((pause ? evd_queue_pause(ctl->evd, ctl->subject)
			   : evd_queue_resume(ctl->evd, ctl->subject)) < 0)
			return ctl_fail_evd(ctl);
		ctl_detail(ctl, "%s is %s", ctl->subject,
			pause ? "paused" : "not paused");
		if (!ctl->as_json)
			continue;
		json_object(j, NULL);
		json_string(j, "alias", ctl->subject);
		json_bool(j, "paused", pause);
		json_object_end(j);
		json_line_end(j);
	}
	return r;
}

static int
queue_pause(struct ctl *ctl)
{
	return set_pause(ctl, true);
}

static int
queue_resume(struct ctl *ctl)
{
	return set_pause(ctl, false);
}

static int
queue_purge(struct ctl *ctl)
{
	const char *event = ctl_value(ctl, OPT_EVENT);
	uint64_t n;

	if (!ctl_has(ctl, OPT_YES))
		return ctl_usage(ctl,
			"queue purge ends events for good; if you mean it, "
			"add --yes");
	if (evd_queue_purge(ctl->evd, ctl->subject, event, &n) < 0)
		return ctl_fail_evd(ctl);
	if (ctl->as_json)
		changed_json(ctl, "purged", n);
	else
		fprintf(ctl->out, "%" PRIu64 " event%s purged\n", n,
			n == 1 ? "" : "s");
	return 0;
}

static int
queue_move(struct ctl *ctl)
{
	uint64_t limit = 0, n, left;
	const char *to = ctl_word(ctl, 2);
	struct json *j = &ctl->json;
	int r = ctl_count(ctl, OPT_MOST, &limit);

	if (r == 0)
		r = ctl_check_name(ctl, "alias", to, EVD_ALIAS_MAX);
	if (r)
		return r;
	if (evd_queue_move(ctl->evd, ctl->subject, to, limit, &n, &left) < 0)
		return ctl_fail_evd(ctl);
	if (left)
		return ctl_fail_evd(ctl);
	if (!ctl->as_json) {
		fprintf(ctl->out, "%" PRIu64 " event%s moved\n", n,
			n == 1 ? "" : "s");
		return 0;
	}
	json_object(j, NULL);
	json_string(j, "alias", ctl->subject);
	json_string(j, "to", to);
	json_uint(j, "moved", n);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

/* ---- the verb ---------------------------------------------------------- */

static const struct command commands[] = {
	{"list", "[PREFIX]", 0, 1, queue_list},
	{"peek", "ALIAS", 1, 1, queue_peek},
	{"pause", "ALIAS...", 1, 0, queue_pause},
	{"resume", "ALIAS...", 1, 0, queue_resume},
	{"purge", "ALIAS --yes", 1, 1, queue_purge},
	{"move", "ALIAS TO", 2, 2, queue_move},
	{NULL, NULL, 0, 0, NULL},
};

int
verb_queue(struct ctl *ctl)
{
	const char *name = ctl_word(ctl, 0);
	const struct command *c = commands;
	size_t n = ctl->args->n_words - 1;
	int r = 0;

	while (c->name && strcmp(c->name, name) != 0)
		c++;
	if (!c->name)
		return ctl_usage(ctl,
			"'%s' is not list, peek, pause, resume, purge or move",
			name);
	if (n < c->min_words || (c->max_words && n > c->max_words))
		return ctl_usage(
			ctl, "usage: eventctl queue %s %s", c->name, c->args);
	ctl->subject = ctl_word(ctl, 1);
	for (size_t i = 1; r == 0 && i <= c->min_words; i++)
		r = ctl_check_name(
			ctl, "alias", ctl_word(ctl, i), EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	return r ? r : c->run(ctl);
}
