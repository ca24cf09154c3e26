/* eventctl cancel: take timers back. One thread. */
#include "ctl.h"

static int
parse_ids(struct ctl *ctl)
{
	const char *word;
	uint64_t id;

	for (size_t i = 0; (word = ctl_word(ctl, i)); i++)
		if (!number_parse(word, &id) || id == 0)
			return ctl_usage(ctl,
				"'%s' is not the id of a timer; eventctl "
				"timers lists them",
				word);
	return 0;
}

static int
cancel(struct ctl *ctl, const char *word)
{
	struct json *j = &ctl->json;
	uint64_t id = 0;

	number_parse(word, &id);
	ctl->subject = word;
	if (evd_cancel(ctl->evd, id) < 0)
		return ctl_fail_evd(ctl);
	ctl_detail(ctl, "timer %s will not fire", word);
	if (!ctl->as_json)
		return 0;
	json_object(j, NULL);
	json_id(j, "timer", id);
	json_bool(j, "cancelled", true);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

/* One that is gone does not keep the others; the first failure is told by the
 * exit code. */
int
verb_cancel(struct ctl *ctl)
{
	const char *word;
	int code = parse_ids(ctl), r;

	if (code == 0)
		code = ctl_connect(ctl);
	if (code)
		return code;
	for (size_t i = 0; (word = ctl_word(ctl, i)); i++) {
		r = cancel(ctl, word);
		code = code ? code : r;
	}
	return code;
}
