/* eventctl store: what is kept on disk. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

static void
print_json(struct json *j, const struct evd_store_report *r, bool checked)
{
	json_object(j, NULL);
	json_string(j, "state", r->state);
	if (r->text[0])
		json_string(j, "text", r->text);
	json_uint(j, "size", r->size);
	json_uint(j, "mailboxes", r->mailboxes);
	json_uint(j, "events", r->events);
	json_uint(j, "commits", r->commits);
	json_uint(j, "failed", r->failed);
	json_uint(j, "last_ns", r->last_ns);
	json_uint(j, "max_ns", r->max_ns);
	json_uint(j, "damaged", r->damaged);
	if (checked)
		json_uint(j, "checked", r->checked);
	json_object_end(j);
	json_line_end(j);
}

static void
print_text(FILE *out, const struct evd_store_report *r, bool checked)
{
	fprintf(out, "    State: %s%s%s\n", r->state, r->text[0] ? ", " : "",
		r->text);
	fprintf(out, "     Size: %" PRIu64 " bytes\n", r->size);
	fprintf(out, "   Events: %" PRIu64 " in %" PRIu64 " mailboxes\n",
		r->events, r->mailboxes);
	fprintf(out,
		"  Commits: %" PRIu64 ", %" PRIu64
		" failed; the last took %" PRIu64 " us, the longest %" PRIu64
		" us\n",
		r->commits, r->failed, r->last_ns / 1000, r->max_ns / 1000);
	if (checked)
		fprintf(out,
			"  Checked: %" PRIu64 " events, %" PRIu64 " damaged\n",
			r->checked, r->damaged);
	else if (r->damaged)
		fprintf(out, "  Damaged: %" PRIu64 " events\n", r->damaged);
}

/* Of a new file; JSON has what is in it beside what is not. */
static int
tell_salvage(struct ctl *ctl, const struct evd_store_report *r)
{
	struct json *j = &ctl->json;

	if (ctl->as_json) {
		json_object(j, NULL);
		json_uint(j, "mailboxes", r->mailboxes);
		json_uint(j, "events", r->events);
		json_uint(j, "damaged", r->damaged);
		json_uint(j, "lost", r->lost);
		json_bool(j, "lost_unknown", r->lost_unknown);
		json_object_end(j);
		json_line_end(j);
	} else {
		fprintf(ctl->out,
			"  Salvaged: %" PRIu64 " events in %" PRIu64
			" mailboxes, %" PRIu64 " of them damaged\n"
			"      Lost: %" PRIu64 " events%s\n",
			r->events, r->mailboxes, r->damaged, r->lost,
			r->lost_unknown ? ", perhaps more" : "");
	}
	if (r->lost || r->lost_unknown || r->damaged)
		return ctl_fail(ctl, EVD_STATUS_BAD_DATA,
			"not all of it could be read");
	return 0;
}

static int
tell_compact(struct ctl *ctl, const struct evd_store_report *r)
{
	struct json *j = &ctl->json;

	if (!ctl->as_json) {
		fprintf(ctl->out,
			"  Size: %" PRIu64 " bytes, %" PRIu64
			" less than before\n",
			r->size, r->freed);
		return 0;
	}
	json_object(j, NULL);
	json_uint(j, "size", r->size);
	json_uint(j, "freed", r->freed);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

static int
tell_check(struct ctl *ctl, const struct evd_store_report *r)
{
	if (r->damaged)
		return ctl_fail(ctl, EVD_STATUS_BAD_DATA,
			"%" PRIu64 " events are damaged", r->damaged);
	return 0;
}

static const struct {
	const char *name;
	enum evd_store_op op;
	int words; /* behind it */
} ops[] = {
	{"stats", EVD_STORE_STATS, 0},
	{"check", EVD_STORE_CHECK, 0},
	{"backup", EVD_STORE_BACKUP, 1},
	{"compact", EVD_STORE_COMPACT, 0},
	{"salvage", EVD_STORE_SALVAGE, 2},
};
enum { OPS = sizeof(ops) / sizeof(ops[0]) };

static int
tell(struct ctl *ctl, enum evd_store_op op, const struct evd_store_report *r)
{
	bool checked = op == EVD_STORE_CHECK;

	switch (op) {
	case EVD_STORE_BACKUP:
		return 0;
	case EVD_STORE_COMPACT:
		return tell_compact(ctl, r);
	case EVD_STORE_SALVAGE:
		return tell_salvage(ctl, r);
	case EVD_STORE_STATS:
	case EVD_STORE_CHECK:
		break;
	}
	if (ctl->as_json)
		print_json(&ctl->json, r, checked);
	else
		print_text(ctl->out, r, checked);
	return checked ? tell_check(ctl, r) : 0;
}

int
verb_store(struct ctl *ctl)
{
	const char *name = ctl_word(ctl, 0), *path = ctl_word(ctl, 1);
	const char *to = ctl_word(ctl, 2);
	struct evd_store_report report;
	int i = 0, r;

	while (i < OPS && strcmp(ops[i].name, name) != 0)
		i++;
	if (i == OPS)
		return ctl_usage(ctl,
			"'%s' is not stats, check, backup, compact or salvage",
			name);
	if ((path != NULL) + (to != NULL) != ops[i].words)
		return ctl_usage(ctl,
			"backup takes a path, salvage two, the others none");
	r = ctl_connect(ctl);
	if (r)
		return r;
	r = to ? evd_store_salvage(ctl->evd, path, to, &report)
	       : evd_store(ctl->evd, ops[i].op, path, &report);
	return r ? ctl_fail_evd(ctl) : tell(ctl, ops[i].op, &report);
}
