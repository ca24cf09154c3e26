/* eventctl delay, and post with --in, --at or --on: see later.h. One thread. */
#include <unistd.h>

#include "ctl.h"
#include "later.h"
#include "payload.h"
#include "when.h"

struct later {
	struct evd_delay_options opt;
	struct headers headers;
	struct payload payload;
};

int
later_parse_at(struct ctl *ctl, const char *text, int64_t *at_ns)
{
	const char *wrong = when_parse(text, at_ns);

	if (wrong)
		return ctl_usage(ctl, "--at '%s': %s", text, wrong);
	if (*at_ns <= when_now_ns())
		ctl_note(ctl, "%s is over: the event is due at once", text);
	if (*at_ns == 0)
		*at_ns = 1; /* 0 stands for "not given" */
	return 0;
}

static int
parse_every(struct ctl *ctl, uint64_t *repeat_ms)
{
	int r = ctl_span_ms(ctl, OPT_EVERY, repeat_ms);

	if (r)
		return r;
	if (ctl_has(ctl, OPT_EVERY) && *repeat_ms == 0)
		return ctl_usage(ctl, "--every takes a span above 0");
	return 0;
}

static int
parse_times(struct ctl *ctl, struct evd_delay_options *opt)
{
	const char *at = ctl_value(ctl, OPT_AT);
	int r, n;

	opt->calendar = ctl_value(ctl, OPT_CALENDAR);
	n = ctl_has(ctl, OPT_IN) + (at != NULL) + (opt->calendar != NULL);
	if (n != 1)
		return ctl_usage(ctl,
			"%s: --in SPAN, --at TIME or --on CALENDAR",
			n ? "one of these alone" : "say when");
	if (opt->calendar && ctl_has(ctl, OPT_EVERY))
		return ctl_usage(ctl, "--on says by itself how it repeats");
	if (!opt->calendar && ctl_has(ctl, OPT_ZONE))
		return ctl_usage(ctl, "--zone goes with --on CALENDAR");
	r = ctl_span_ms(ctl, OPT_IN, &opt->delay_ms);
	if (r == 0 && at)
		r = later_parse_at(ctl, at, &opt->at_ns);
	return r ? r : parse_every(ctl, &opt->repeat_ms);
}

static int
parse_word(struct ctl *ctl, enum option_id id, int *value)
{
	const char *word = ctl_value(ctl, id);
	const char *words = option_specs[id].values;

	if (word)
		*value = values_index(words, word);
	if (*value >= 0)
		return 0;
	return ctl_usage(ctl, "--%s is one of %s, not '%s'",
		option_specs[id].name, words, word);
}

/* What few timers have. */
static int
parse_rest(struct ctl *ctl, struct evd_delay_options *opt)
{
	int r;

	opt->name = ctl_value(ctl, OPT_TIMER_NAME);
	opt->zone = ctl_value(ctl, OPT_ZONE);
	if (ctl_has(ctl, OPT_STORED))
		opt->keep = EVD_KEEP_DURABLE;
	else if (ctl_has(ctl, OPT_VOLATILE))
		opt->keep = EVD_KEEP_VOLATILE;
	if (ctl_has(ctl, OPT_STORED) && ctl_has(ctl, OPT_VOLATILE))
		return ctl_usage(ctl, "--durable or --volatile, not both");
	r = send_options(ctl, &opt->priority, &opt->ttl_ms);
	if (r == 0)
		r = ctl_span_ms(ctl, OPT_SLACK, &opt->slack_ms);
	if (r == 0)
		r = parse_word(ctl, OPT_CLOCK, &opt->clock);
	if (r == 0)
		r = parse_word(ctl, OPT_MISFIRE, &opt->misfire);
	if (r == 0 && opt->clock && !ctl_has(ctl, OPT_IN))
		r = ctl_usage(ctl, "--clock goes with --in SPAN");
	return r;
}

static int
check_options(struct ctl *ctl)
{
	static const enum option_id not_later[] = {
		OPT_LINES, OPT_NULL, OPT_WAIT, OPT_NO_WAIT};

	for (size_t i = 0; i < sizeof(not_later) / sizeof(not_later[0]); i++)
		if (ctl_has(ctl, not_later[i]))
			return ctl_usage(ctl,
				"--%s does not go with an event that is sent "
				"later",
				option_specs[not_later[i]].name);
	return ctl_check_event(ctl);
}

static void
print_json(struct ctl *ctl, const struct later *l, uint64_t timer)
{
	struct json *j = &ctl->json;

	json_object(j, NULL);
	json_id(j, "timer", timer);
	json_string(j, "alias", ctl_word(ctl, 0));
	json_string(j, "event", ctl_word(ctl, 1));
	json_time(j, "due", evd_due_ns(ctl->evd));
	if (l->opt.repeat_ms)
		json_uint(j, "every_ms", l->opt.repeat_ms);
	if (l->opt.name)
		json_string(j, "name", l->opt.name);
	if (evd_replaced(ctl->evd))
		json_id(j, "replaced", evd_replaced(ctl->evd));
	json_object_end(j);
	json_line_end(j);
}

/* The id alone is what a script needs; the note is for a person. */
static void
print_timer(struct ctl *ctl, const struct later *l, uint64_t timer)
{
	int64_t due = evd_due_ns(ctl->evd);
	char at[WHEN_TEXT_SIZE], in[WHEN_TEXT_SIZE];

	if (ctl->as_json) {
		print_json(ctl, l, timer);
		return;
	}
	fprintf(ctl->out, "%llu\n", (unsigned long long)timer);
	if (evd_replaced(ctl->evd))
		ctl_note(ctl, "it replaces timer %llu",
			(unsigned long long)evd_replaced(ctl->evd));
	if (!ctl->verbose && !isatty(fileno(ctl->err)))
		return;
	when_format_local(due, at, sizeof(at));
	span_format(due - when_now_ns(), in, sizeof(in));
	ctl_note(ctl, "due %s, in %s; eventctl cancel %llu takes it back", at,
		in, (unsigned long long)timer);
}

static int
send_later(struct ctl *ctl, struct later *l)
{
	size_t size;
	char *data;
	int64_t timer;
	int r;

	r = payload_read(
		&l->payload, ctl, evd_max_payload(ctl->evd), &data, &size);
	if (r)
		return r;
	l->opt.headers = l->headers.at;
	l->opt.n_headers = l->headers.n;
	timer = evd_delay_opt(ctl->evd, ctl_word(ctl, 0), ctl_word(ctl, 1),
		data, size, &l->opt);
	if (timer < 0)
		return ctl_fail_evd(ctl);
	print_timer(ctl, l, (uint64_t)timer);
	return 0;
}

int
later_run(struct ctl *ctl)
{
	struct later l = {.opt = {.size = sizeof(l.opt)}, .payload.fd = -1};
	int r;

	ctl->subject = ctl_word(ctl, 0);
	r = check_options(ctl);
	if (r == 0)
		r = parse_times(ctl, &l.opt);
	if (r == 0)
		r = parse_rest(ctl, &l.opt);
	if (r == 0)
		r = headers_init(&l.headers, ctl);
	if (r == 0)
		r = payload_open(&l.payload, ctl, 2);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r == 0)
		r = send_later(ctl, &l);
	payload_deinit(&l.payload);
	headers_deinit(&l.headers);
	return r;
}

int
verb_delay(struct ctl *ctl)
{
	return later_run(ctl);
}
