/* eventctl dead: events that came to a bad end. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "table.h"
#include "text.h"
#include "when.h"

enum { LIST_PAGE = 1000 };

static const char *const titles[] = {">LETTER", "WHEN", "REASON", "ALIAS",
	"EVENT", ">EVENT ID", ">FROM", ">BYTES", "WHY"};

enum { N_TITLES = sizeof(titles) / sizeof(titles[0]) };

static struct evd_dead_filter
filter_of(const struct ctl *ctl)
{
	return (struct evd_dead_filter){
		.alias = ctl_value(ctl, OPT_OF),
		.reason = ctl_value(ctl, OPT_REASON),
	};
}

static int
check_filter(struct ctl *ctl)
{
	const char *alias = ctl_value(ctl, OPT_OF),
		   *to = ctl_value(ctl, OPT_TO);
	int r = 0;

	if (alias)
		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	if (r == 0 && to)
		r = ctl_check_name(ctl, "alias", to, EVD_ALIAS_MAX);
	return r;
}

/* ---- list and show ----------------------------------------------------- */

static void
write_json(struct json *j, const struct evd_dead *d, bool whole)
{
	size_t size;
	const void *data = evd_dead_data(d, &size);

	json_object(j, NULL);
	json_id(j, "letter", evd_dead_id(d));
	json_time(j, "time", evd_dead_time_ns(d));
	json_string(j, "reason", evd_dead_reason(d));
	json_string(j, "text", evd_dead_text(d));
	json_string(j, "alias", evd_dead_alias(d));
	json_string(j, "event", evd_dead_event(d));
	json_id(j, "id", evd_dead_event_id(d));
	json_id(j, "from", evd_dead_from(d));
	json_id(j, "to", evd_dead_to(d));
	json_uint(j, "attempt", evd_dead_attempt(d));
	json_uint(j, "payload_size", evd_dead_size(d));
	if (whole && size)
		json_data(j, data, size);
	json_object_end(j);
	json_line_end(j);
}

static void
add_row(struct table *t, const struct evd_dead *d)
{
	char when[WHEN_TEXT_SIZE];

	when_format_local(evd_dead_time_ns(d), when, sizeof(when));
	table_addf(t, "%" PRIu64, evd_dead_id(d));
	table_add(t, when);
	table_add(t, evd_dead_reason(d));
	table_add(t, evd_dead_alias(d));
	table_add(t, evd_dead_event(d));
	table_addf(t, "%" PRIu64, evd_dead_event_id(d));
	table_addf(t, "%" PRIu64, evd_dead_from(d));
	table_addf(t, "%" PRIu64, evd_dead_size(d));
	table_add(t, evd_dead_text(d));
}

static size_t
print_page(struct ctl *ctl, struct table *t, const struct evd_deads *page)
{
	const struct evd_dead *d;
	size_t i;

	for (i = 0; (d = evd_deads_at(page, i)); i++) {
		if (ctl->as_json)
			write_json(&ctl->json, d, false);
		else
			add_row(t, d);
	}
	return i;
}

/* All pages, up to --count letters. */
static int
load(struct ctl *ctl, struct table *t, size_t *n)
{
	struct evd_dead_filter filter = filter_of(ctl);
	uint64_t after = 0, next, left = UINT64_MAX;
	struct evd_deads *page;
	int r = ctl_count(ctl, OPT_MOST, &left);

	if (r)
		return r;
	do {
		uint32_t limit = left < LIST_PAGE ? (uint32_t)left : LIST_PAGE;

		if (evd_dead_list(ctl->evd, &filter, after, limit, &page) < 0)
			return ctl_fail_evd(ctl);
		*n += print_page(ctl, t, page);
		left -= evd_deads_count(page);
		next = evd_deads_next(page);
		evd_deads_free(page);
		if (next && next <= after)
			return ctl_fail(ctl, EVD_STATUS_PROTOCOL,
				"the daemon's pages do not come to an end");
		after = next;
	} while (after && left);
	return 0;
}

static int
dead_list(struct ctl *ctl)
{
	struct table t;
	size_t n = 0;
	int r;

	if (ctl->args->n_words > 1)
		return ctl_usage(ctl,
			"usage: eventctl dead list [--alias ALIAS] "
			"[--reason REASON]");
	table_init(&t, titles, N_TITLES);
	r = load(ctl, &t, &n);
	if (r == 0 && !ctl->as_json) {
		if (table_write(&t, ctl->out, ctl->legend, ctl->color) < 0)
			r = ctl_fail(
				ctl, EVD_STATUS_NO_MEMORY, "out of memory");
		else if (ctl->legend)
			fprintf(ctl->out, "\n%zu dead letter%s\n", n,
				n == 1 ? "" : "s");
	}
	table_deinit(&t);
	return r;
}

/* What is known of it, then the payload. */
static void
print_letter(struct ctl *ctl, const struct evd_dead *d)
{
	char when[WHEN_TEXT_SIZE];
	size_t size;
	const void *data = evd_dead_data(d, &size);
	FILE *f = ctl->out;

	when_format_local(evd_dead_time_ns(d), when, sizeof(when));
	fprintf(f, "  Letter: %" PRIu64 "\n    When: %s\n  Reason: %s: ",
		evd_dead_id(d), when, evd_dead_reason(d));
	escape_text(f, evd_dead_text(d));
	fputs("\n   Alias: ", f);
	escape_text(f, evd_dead_alias(d));
	fputs("\n   Event: ", f);
	escape_text(f, evd_dead_event(d));
	fprintf(f,
		" %" PRIu64 " from session %" PRIu64 "\nAttempts: %" PRIu32
		"\n Payload: %" PRIu64 " bytes\n",
		evd_dead_event_id(d), evd_dead_from(d), evd_dead_attempt(d),
		evd_dead_size(d));
	if (!size)
		return;
	fputc('\n', f);
	escape_write(f, data, size, ESCAPE_KEEP_LINES);
	fputc('\n', f);
}

/* With --raw the payload alone, as it is. */
static void
print_raw(struct ctl *ctl, const struct evd_dead *d)
{
	size_t size;
	const void *data = evd_dead_data(d, &size);

	if (size)
		fwrite(data, 1, size, ctl->out);
}

static int
dead_show(struct ctl *ctl)
{
	struct evd_deads *page;
	const struct evd_dead *d;
	uint64_t id;

	if (ctl->args->n_words != 2 || !number_parse(ctl_word(ctl, 1), &id))
		return ctl_usage(ctl,
			"usage: eventctl dead show LETTER; eventctl dead list "
			"tells their numbers");
	ctl->subject = ctl_word(ctl, 1);
	if (evd_dead_show(ctl->evd, id, &page) < 0)
		return ctl_fail_evd(ctl);
	d = evd_deads_at(page, 0);
	if (d && ctl->as_json)
		write_json(&ctl->json, d, true);
	else if (d && ctl_has(ctl, OPT_RAW))
		print_raw(ctl, d);
	else if (d)
		print_letter(ctl, d);
	evd_deads_free(page);
	return 0;
}

/* ---- requeue and purge ------------------------------------------------- */

struct change {
	bool requeue;
	uint64_t *ids;
	size_t n_ids;
	uint64_t done, failed;
	int status;
	char text[512]; /* why the first failed */
};

static int
read_ids(struct ctl *ctl, struct change *ch)
{
	const char *word;

	ch->ids = calloc(ctl->args->n_words, sizeof(*ch->ids));
	if (!ch->ids)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	for (size_t i = 1; (word = ctl_word(ctl, i)); i++)
		if (!number_parse(word, &ch->ids[ch->n_ids++]))
			return ctl_usage(ctl,
				"'%s' is not the number of a letter; eventctl "
				"dead list tells them",
				word);
	return 0;
}

static bool
is_search(const struct ctl *ctl)
{
	return ctl_has(ctl, OPT_ALL_LETTERS) || ctl_has(ctl, OPT_OF) ||
	       ctl_has(ctl, OPT_REASON);
}

static int
check_change(struct ctl *ctl, const struct change *ch)
{
	const char *name = ctl_word(ctl, 0);

	if ((ch->n_ids > 0) == is_search(ctl))
		return ctl_usage(ctl,
			"eventctl dead %s wants either numbers of letters, or "
			"--alias, --reason or --all",
			name);
	if (!ch->requeue && !ctl_has(ctl, OPT_YES))
		return ctl_usage(ctl,
			"dead purge forgets events for good; if you mean it, "
			"add --yes");
	return 0;
}

/* One request: the letters named, or the next page of those that match. */
static int
change_once(struct ctl *ctl, struct change *ch, uint64_t after,
	struct evd_dead_result *result)
{
	struct evd_dead_filter filter = filter_of(ctl);
	const char *to = ctl_value(ctl, OPT_TO);

	if (ch->n_ids && ch->requeue)
		return evd_dead_requeue(
			ctl->evd, ch->ids, ch->n_ids, to, result);
	if (ch->n_ids)
		return evd_dead_purge(ctl->evd, ch->ids, ch->n_ids, result);
	if (ch->requeue)
		return evd_dead_requeue_matching(
			ctl->evd, &filter, to, after, result);
	return evd_dead_purge_matching(ctl->evd, &filter, after, result);
}

static int
change_all(struct ctl *ctl, struct change *ch)
{
	struct evd_dead_result result;
	uint64_t after = 0;

	do {
		if (change_once(ctl, ch, after, &result) < 0)
			return ctl_fail_evd(ctl);
		if (result.failed && !ch->failed) {
			ch->status = result.status;
			snprintf(ch->text, sizeof(ch->text), "%s",
				evd_last_error(ctl->evd));
		}
		ch->done += result.letters;
		ch->failed += result.failed;
		if (result.next && result.next <= after)
			return ctl_fail(ctl, EVD_STATUS_PROTOCOL,
				"the daemon's pages do not come to an end");
		after = result.next;
	} while (after);
	return 0;
}

static int
report_change(struct ctl *ctl, const struct change *ch)
{
	struct json *j = &ctl->json;
	const char *word = ch->requeue ? "requeued" : "purged";

	if (ctl->as_json) {
		json_object(j, NULL);
		json_uint(j, word, ch->done);
		json_uint(j, "failed", ch->failed);
		json_object_end(j);
		json_line_end(j);
	} else {
		fprintf(ctl->out, "%" PRIu64 " dead letter%s %s\n", ch->done,
			ch->done == 1 ? "" : "s", word);
	}
	if (!ch->failed)
		return 0;
	return ctl_fail(ctl, ch->status,
		"%" PRIu64 " dead letter%s could not be %s: %s", ch->failed,
		ch->failed == 1 ? "" : "s", word, ch->text);
}

static int
change(struct ctl *ctl, bool requeue)
{
	struct change ch = {.requeue = requeue};
	int r = read_ids(ctl, &ch);

	if (r == 0)
		r = check_change(ctl, &ch);
	if (r == 0)
		r = change_all(ctl, &ch);
	if (r == 0)
		r = report_change(ctl, &ch);
	free(ch.ids);
	return r;
}

static int
dead_requeue(struct ctl *ctl)
{
	return change(ctl, true);
}

static int
dead_purge(struct ctl *ctl)
{
	return change(ctl, false);
}

/* ---- the verb ---------------------------------------------------------- */

int
verb_dead(struct ctl *ctl)
{
	static const struct {
		const char *name;
		int (*run)(struct ctl *ctl);
	} commands[] = {
		{"list", dead_list},
		{"show", dead_show},
		{"requeue", dead_requeue},
		{"purge", dead_purge},
	};
	const char *name = ctl_word(ctl, 0);
	size_t i = 0;
	int r;

	while (i < 4 && strcmp(commands[i].name, name) != 0)
		i++;
	if (i == 4)
		return ctl_usage(
			ctl, "'%s' is not list, show, requeue or purge", name);
	r = check_filter(ctl);
	if (r == 0)
		r = ctl_connect(ctl);
	return r ? r : commands[i].run(ctl);
}
