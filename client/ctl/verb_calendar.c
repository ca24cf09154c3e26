/* eventctl calendar: when a calendar's next times are. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "ctl.h"
#include "later.h"
#include "table.h"
#include "when.h"

static const char *const titles[] = {"TIME", "UTC", ">LEFT"};

/* "Mon 2026-11-30 13:00:05 +0100", there and then. */
static void
format_there(int64_t ns, int32_t offset_s, char *text, size_t size)
{
	time_t seconds = (time_t)(ns / NS_PER_S + offset_s);
	unsigned minutes = (unsigned)(offset_s < 0 ? -offset_s : offset_s) / 60;
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&seconds, &tm))
		n = strftime(text, size, "%a %Y-%m-%d %H:%M:%S", &tm);
	snprintf(text + n, size - n, " %c%02u%02u", offset_s < 0 ? '-' : '+',
		minutes / 60, minutes % 60);
}

static int
print_table(struct ctl *ctl, const struct evd_calendar *times, int64_t from_ns)
{
	char text[WHEN_TEXT_SIZE];
	struct table t;
	int r;

	table_init(&t, titles, sizeof(titles) / sizeof(titles[0]));
	for (size_t i = 0; i < evd_calendar_count(times); i++) {
		int64_t at = evd_calendar_at_ns(times, i);

		format_there(at, evd_calendar_offset_s(times, i), text,
			sizeof(text));
		table_add(&t, text);
		when_format_utc(at, text, sizeof(text));
		table_add(&t, text);
		span_format(at - from_ns, text, sizeof(text));
		table_add(&t, text);
	}
	r = table_write(&t, ctl->out, ctl->legend, ctl->color);
	table_deinit(&t);
	if (r < 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	if (ctl->legend)
		fprintf(ctl->out, "\nzone %s\n", evd_calendar_zone(times));
	return 0;
}

static int
print(struct ctl *ctl, const struct evd_calendar *times, int64_t from_ns)
{
	struct json *j = &ctl->json;

	if (evd_calendar_count(times) == 0)
		ctl_note(ctl, "the calendar has no time to come");
	if (!ctl->as_json)
		return print_table(ctl, times, from_ns);
	for (size_t i = 0; i < evd_calendar_count(times); i++) {
		json_object(j, NULL);
		json_time(j, "at", evd_calendar_at_ns(times, i));
		json_int(j, "offset_s", evd_calendar_offset_s(times, i));
		json_string(j, "zone", evd_calendar_zone(times));
		json_object_end(j);
		json_line_end(j);
	}
	return 0;
}

int
verb_calendar(struct ctl *ctl)
{
	const char *after = ctl_value(ctl, OPT_AFTER);
	struct evd_calendar *times;
	int64_t after_ns = 0;
	uint64_t count = 5;
	int r = ctl_count(ctl, OPT_TIMES, &count);

	ctl->subject = ctl_word(ctl, 0);
	if (r == 0 && after) {
		const char *wrong = when_parse(after, &after_ns);

		if (wrong)
			r = ctl_usage(ctl, "--after '%s': %s", after, wrong);
	}
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	if (evd_calendar(ctl->evd, ctl->subject, ctl_value(ctl, OPT_ZONE),
		    after_ns, count < 1000 ? (uint32_t)count : 1000,
		    &times) < 0)
		return ctl_fail_evd(ctl);
	r = print(ctl, times, after ? after_ns : when_now_ns());
	evd_calendar_free(times);
	return r;
}
