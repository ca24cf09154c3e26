/* eventctl adjust: change timers that are pending. One thread. */
#include "ctl.h"
#include "later.h"
#include "when.h"

static int
parse_change(struct ctl *ctl, struct evd_adjust_options *opt)
{
	const char *at = ctl_value(ctl, OPT_AT);
	int r;

	if (ctl_has(ctl, OPT_IN) && at)
		return ctl_usage(ctl, "--in SPAN or --at TIME: one alone");
	if (!ctl_has(ctl, OPT_IN) && !at && !ctl_has(ctl, OPT_EVERY))
		return ctl_usage(
			ctl, "say what is to change: --in, --at or --every");
	opt->due = ctl_has(ctl, OPT_IN) || at;
	opt->repeat = ctl_has(ctl, OPT_EVERY);
	r = ctl_span_ms(ctl, OPT_IN, &opt->delay_ms);
	if (r == 0)
		r = ctl_span_ms(ctl, OPT_EVERY, &opt->repeat_ms);
	if (r == 0 && at)
		r = later_parse_at(ctl, at, &opt->at_ns);
	return r;
}

static void
print(struct ctl *ctl, int64_t timer)
{
	int64_t due = evd_due_ns(ctl->evd);
	struct json *j = &ctl->json;
	char at[WHEN_TEXT_SIZE];

	if (!ctl->as_json) {
		when_format_local(due, at, sizeof(at));
		ctl_detail(ctl, "timer %lld is due %s", (long long)timer, at);
		return;
	}
	json_object(j, NULL);
	json_id(j, "timer", (uint64_t)timer);
	json_time(j, "due", due);
	json_object_end(j);
	json_line_end(j);
}

int
verb_adjust(struct ctl *ctl)
{
	struct evd_adjust_options opt = {.size = sizeof(opt)};
	int64_t timer;
	int r = parse_change(ctl, &opt);

	ctl->subject = ctl_word(ctl, 0);
	opt.name = ctl_value(ctl, OPT_TIMER_NAME);
	if (r == 0 && opt.name)
		opt.alias = ctl->subject;
	else if (r == 0 &&
		 (!number_parse(ctl->subject, &opt.timer) || opt.timer == 0))
		r = ctl_usage(ctl,
			"'%s' is not the id of a timer; give an id, or an "
			"alias and --name",
			ctl->subject);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	timer = evd_adjust(ctl->evd, &opt);
	if (timer < 0)
		return ctl_fail_evd(ctl);
	print(ctl, timer);
	return 0;
}
