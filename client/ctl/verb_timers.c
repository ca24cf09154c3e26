/* eventctl timers: what is due later. One thread. */
#include <inttypes.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
#include "table.h"
#include "when.h"

static const char *const titles[] = {">TIMER", "DUE", ">LEFT", "EVERY", "NAME",
	"ALIAS", "EVENT", ">BYTES", "KEPT"};

enum { N_TITLES = sizeof(titles) / sizeof(titles[0]) };

/* Milliseconds as a span; 0 is the empty text. */
static void
every_format(uint64_t ms, char *text, size_t size)
{
	int64_t ns;

	*text = '\0';
	if (ms > INT64_MAX ||
		__builtin_mul_overflow((int64_t)ms, NS_PER_MS, &ns))
		ns = INT64_MAX;
	if (ms)
		span_format(ns, text, size);
}

static void
add_row(struct table *t, const struct evd_timer *timer, int64_t now_ns)
{
	int64_t due = evd_timer_due_ns(timer), left;
	char text[WHEN_TEXT_SIZE];

	table_addf(t, "%" PRIu64, evd_timer_id(timer));
	when_format_local(due, text, sizeof(text));
	table_add(t, text);
	if (__builtin_sub_overflow(due, now_ns, &left))
		left = due < now_ns ? -INT64_MAX : INT64_MAX;
	span_format(left, text, sizeof(text));
	table_add(t, text);
	every_format(evd_timer_repeat_ms(timer), text, sizeof(text));
	table_add(t,
		*evd_timer_calendar(timer) ? evd_timer_calendar(timer) : text);
	table_add(t, evd_timer_name(timer));
	table_add(t, evd_timer_alias(timer));
	table_add(t, evd_timer_event(timer));
	table_addf(t, "%" PRIu64, evd_timer_size(timer));
	table_add(t, evd_timer_durable(timer) ? "durable" : "");
}

static int
print_table(struct ctl *ctl, const struct pages *all)
{
	int64_t now_ns = when_now_ns();
	struct table t;
	int r;

	table_init(&t, titles, N_TITLES);
	for (size_t i = 0; i < all->n; i++)
		add_row(&t, pages_timer(all, i), now_ns);
	r = table_write(&t, ctl->out, ctl->legend, ctl->color);
	table_deinit(&t);
	if (r < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	if (ctl->legend)
		fprintf(ctl->out, "\n%zu timer%s\n", all->n,
			all->n == 1 ? "" : "s");
	return 0;
}

/* Word @i of those that the option takes. */
static const char *
word_of(enum option_id id, size_t i, char text[WHEN_TEXT_SIZE])
{
	size_t size = 0;
	const char *word = values_at(option_specs[id].values, i, &size);

	snprintf(text, WHEN_TEXT_SIZE, "%.*s", (int)size, word ? word : "");
	return text;
}

static void
print_calendar(struct json *j, const struct evd_timer *timer)
{
	char text[WHEN_TEXT_SIZE];

	json_string(j, "calendar", evd_timer_calendar(timer));
	json_string(j, "zone", evd_timer_zone(timer));
	json_string(j, "misfire",
		word_of(OPT_MISFIRE, (size_t)evd_timer_misfire(timer), text));
}

static void
print_json(struct ctl *ctl, const struct evd_timer *timer)
{
	struct json *j = &ctl->json;
	char text[WHEN_TEXT_SIZE];

	json_object(j, NULL);
	json_id(j, "timer", evd_timer_id(timer));
	json_time(j, "due", evd_timer_due_ns(timer));
	if (evd_timer_repeat_ms(timer))
		json_uint(j, "every_ms", evd_timer_repeat_ms(timer));
	if (*evd_timer_calendar(timer))
		print_calendar(j, timer);
	if (evd_timer_slack_ms(timer))
		json_uint(j, "slack_ms", evd_timer_slack_ms(timer));
	if (evd_timer_durable(timer))
		json_bool(j, "durable", true);
	if (*evd_timer_name(timer))
		json_string(j, "name", evd_timer_name(timer));
	json_string(j, "clock",
		word_of(OPT_CLOCK, (size_t)evd_timer_clock(timer), text));
	json_string(j, "alias", evd_timer_alias(timer));
	json_string(j, "event", evd_timer_event(timer));
	json_id(j, "owner", evd_timer_owner(timer));
	json_uint(j, "size", evd_timer_size(timer));
	json_object_end(j);
	json_line_end(j);
}

static int
print_all(struct ctl *ctl, const struct pages *all)
{
	if (!ctl->as_json)
		return print_table(ctl, all);
	for (size_t i = 0; i < all->n; i++)
		print_json(ctl, pages_timer(all, i));
	return 0;
}

int
verb_timers(struct ctl *ctl)
{
	struct pages all;
	int r = 0;

	ctl->subject = ctl_word(ctl, 0);
	if (ctl->subject)
		r = ctl_check_name(ctl, "alias", ctl->subject, EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	r = pages_load_timers(&all, ctl, ctl->subject);
	if (r == 0)
		r = print_all(ctl, &all);
	pages_free_timers(&all);
	return r;
}
