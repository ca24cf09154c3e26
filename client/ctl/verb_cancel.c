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
				"timers lists them (an alias goes with --name "
				"or --all)",
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

static int
cancel_named(struct ctl *ctl, const char *alias, const char *name)
{
	struct json *j = &ctl->json;

	if (evd_cancel_name(ctl->evd, alias, name) < 0)
		return ctl_fail_evd(ctl);
	ctl_detail(ctl, "timer %s of %s will not fire", name, alias);
	if (!ctl->as_json)
		return 0;
	json_object(j, NULL);
	json_string(j, "alias", alias);
	json_string(j, "name", name);
	json_bool(j, "cancelled", true);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

static int
cancel_all(struct ctl *ctl, const char *alias)
{
	struct json *j = &ctl->json;
	int64_t n = evd_cancel_all(ctl->evd, alias);

	if (n < 0)
		return ctl_fail_evd(ctl);
	ctl_detail(ctl, "%lld timer%s of %s will not fire", (long long)n,
		n == 1 ? "" : "s", alias);
	if (!ctl->as_json)
		return 0;
	json_object(j, NULL);
	json_string(j, "alias", alias);
	json_uint(j, "cancelled", (uint64_t)n);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

static int
cancel_of_alias(struct ctl *ctl)
{
	const char *name = ctl_value(ctl, OPT_TIMER_NAME);
	const char *alias = ctl_word(ctl, 0);
	int r;

	if (ctl_word(ctl, 1) || (name && ctl_has(ctl, OPT_ALL_TIMERS)))
		return ctl_usage(
			ctl, "one alias, and either --name NAME or --all");
	ctl->subject = alias;
	r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	return name ? cancel_named(ctl, alias, name) : cancel_all(ctl, alias);
}

/* One that is gone does not keep the others; the first failure is told by the
 * exit code. */
int
verb_cancel(struct ctl *ctl)
{
	const char *word;
	int code, r;

	if (ctl_has(ctl, OPT_TIMER_NAME) || ctl_has(ctl, OPT_ALL_TIMERS))
		return cancel_of_alias(ctl);
	code = parse_ids(ctl);
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
