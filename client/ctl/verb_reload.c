/* eventctl reload: have the daemon read its configuration again. One
 * thread. */
#include <inttypes.h>

#include "ctl.h"
#include "table.h"
#include "text.h"

struct change {
	int change;
	const char *key, *word;
	char sign;
	enum table_style style;
};

static const struct change kinds[] = {
	{EVD_CHANGE_ADDED, "added", "add", '+', TABLE_GOOD},
	{EVD_CHANGE_CHANGED, "changed", "change", '~', TABLE_WARN},
	{EVD_CHANGE_REMOVED, "removed", "remove", '-', TABLE_BAD},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void
print_json(struct ctl *ctl, const struct evd_changes *ch, bool preview)
{
	struct json *j = &ctl->json;
	const char *name;

	json_object(j, NULL);
	json_bool(j, "preview", preview);
	for (size_t k = 0; k < N_KINDS; k++) {
		json_array(j, kinds[k].key);
		for (size_t i = 0;
			(name = evd_changes_name(ch, kinds[k].change, i)); i++)
			json_string(j, NULL, name);
		json_array_end(j);
	}
	json_uint(j, "unchanged", evd_changes_unchanged(ch));
	json_object_end(j);
	json_line_end(j);
}

static void
print_kind(struct ctl *ctl, const struct evd_changes *ch,
	const struct change *kind, bool preview)
{
	const char *name;

	for (size_t i = 0; (name = evd_changes_name(ch, kind->change, i));
		i++) {
		fprintf(ctl->out, "%s%c ", style_begin(kind->style, ctl->color),
			kind->sign);
		escape_text(ctl->out, name);
		fprintf(ctl->out, "%s  %s\n",
			style_end(kind->style, ctl->color),
			preview ? kind->word : kind->key);
	}
}

static void
print_text(struct ctl *ctl, const struct evd_changes *ch, bool preview)
{
	size_t n = 0;

	for (size_t k = 0; k < N_KINDS; k++) {
		print_kind(ctl, ch, &kinds[k], preview);
		n += evd_changes_count(ch, kinds[k].change);
	}
	if (ctl->legend && !ctl->quiet)
		fprintf(ctl->out, "%zu session%s %s, %" PRIu32 " as before\n",
			n, n == 1 ? "" : "s", preview ? "to change" : "changed",
			evd_changes_unchanged(ch));
}

int
verb_reload(struct ctl *ctl)
{
	bool preview = ctl_has(ctl, OPT_PREVIEW);
	struct evd_changes *changes;
	int r = ctl_connect(ctl);

	if (r)
		return r;
	if (evd_reload(ctl->evd, preview, &changes) < 0)
		return ctl_fail_evd(ctl);
	if (ctl->as_json)
		print_json(ctl, changes, preview);
	else
		print_text(ctl, changes, preview);
	evd_changes_free(changes);
	return 0;
}
