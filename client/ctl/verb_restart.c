/* eventctl restart: start failed sessions now. One thread. */
#include "ctl.h"

static int
check_aliases(struct ctl *ctl)
{
	const char *alias;
	int r = 0;

	for (size_t i = 0; r == 0 && (alias = ctl_word(ctl, i)); i++)
		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	return r;
}

static int
restart(struct ctl *ctl, const char *alias)
{
	struct json *j = &ctl->json;

	ctl->subject = alias;
	if (evd_restart(ctl->evd, alias) < 0)
		return ctl_fail_evd(ctl);
	ctl_detail(ctl, "%s is started again", alias);
	if (!ctl->as_json)
		return 0;
	json_object(j, NULL);
	json_string(j, "alias", alias);
	json_bool(j, "restarted", true);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

int
verb_restart(struct ctl *ctl)
{
	const char *alias;
	int code = check_aliases(ctl), r;

	if (code == 0)
		code = ctl_connect(ctl);
	if (code)
		return code;
	for (size_t i = 0; (alias = ctl_word(ctl, i)); i++) {
		r = restart(ctl, alias);
		code = code ? code : r;
	}
	return code;
}
