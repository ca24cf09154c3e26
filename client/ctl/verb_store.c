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

static int
ask(struct ctl *ctl, enum evd_store_op op, const char *path)
{
	struct evd_store_report report;
	int r = evd_store(ctl->evd, op, path, &report);

	if (r)
		return ctl_fail_evd(ctl);
	if (op == EVD_STORE_BACKUP)
		return 0;
	if (ctl->as_json)
		print_json(&ctl->json, &report, op == EVD_STORE_CHECK);
	else
		print_text(ctl->out, &report, op == EVD_STORE_CHECK);
	if (op == EVD_STORE_CHECK && report.damaged)
		return ctl_fail(ctl, EVD_STATUS_BAD_DATA,
			"%" PRIu64 " events are damaged", report.damaged);
	return 0;
}

int
verb_store(struct ctl *ctl)
{
	static const char *const names[] = {"stats", "check", "backup"};
	const char *name = ctl_word(ctl, 0), *path = ctl_word(ctl, 1);
	int op = 0, r;

	while (op < 3 && strcmp(names[op], name) != 0)
		op++;
	if (op == 3)
		return ctl_usage(
			ctl, "'%s' is not stats, check or backup", name);
	if ((op == EVD_STORE_BACKUP) != (path != NULL))
		return ctl_usage(ctl, "backup, and no other, takes a path");
	r = ctl_connect(ctl);
	return r ? r : ask(ctl, (enum evd_store_op)op, path);
}
