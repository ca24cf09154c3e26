/* eventctl policy: who may do what, and which line says so. One thread. */
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "table.h"
#include "text.h"

enum { GROUPS_MAX = 65536, WHO_TEXT_MAX = 1024, PLACE_MAX = 512 };

static const char *const titles[] = {
	"RIGHT", "ALIAS", "EVENT", "WHO", ">DENIED", "LINE"};

enum { N_TITLES = sizeof(titles) / sizeof(titles[0]) };

/* ---- show ---------------------------------------------------------------- */

/* "uid 33, not gid 5": as it was understood. */
static const char *
who_text(const struct evd_rule *r, char *text, size_t size)
{
	struct evd_who who;
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; !evd_rule_who(r, i, &who) && used < size; i++) {
		used += (size_t)snprintf(text + used, size - used, "%s%s%s",
			i ? ", " : "", who.deny ? "not " : "", who.kind);
		if (used >= size)
			break;
		if (strcmp(who.kind, "unit") == 0)
			used += (size_t)snprintf(
				text + used, size - used, " %s", who.unit);
		else if (strstr("uid gid", who.kind))
			used += (size_t)snprintf(
				text + used, size - used, " %" PRIu32, who.id);
	}
	return text;
}

static const char *
place_text(const struct evd_rule *r, char *text, size_t size)
{
	uint32_t line = evd_rule_line(r);

	if (line)
		snprintf(text, size, "%s:%" PRIu32, evd_rule_file(r), line);
	else
		snprintf(text, size, "%s (its alias)", evd_rule_file(r));
	return text;
}

static void
write_rule(struct json *j, const char *key, const struct evd_rule *r)
{
	struct evd_who who;

	json_object(j, key);
	json_string(j, "right", evd_rule_right(r));
	json_string(j, "alias", evd_rule_alias(r));
	json_string(j, "event", evd_rule_event(r));
	json_string(j, "words", evd_rule_words(r));
	json_array(j, "who");
	for (size_t i = 0; !evd_rule_who(r, i, &who); i++) {
		json_object(j, NULL);
		json_string(j, "kind", who.kind);
		if (strstr("uid gid", who.kind))
			json_uint(j, "id", who.id);
		if (*who.unit)
			json_string(j, "unit", who.unit);
		json_bool(j, "deny", who.deny);
		json_object_end(j);
	}
	json_array_end(j);
	json_string(j, "file", evd_rule_file(r));
	json_uint(j, "line", evd_rule_line(r));
	json_uint(j, "denied", evd_rule_denied(r));
	json_object_end(j);
}

static void
add_row(struct table *t, const struct evd_rule *r)
{
	char text[WHO_TEXT_MAX];

	table_add(t, evd_rule_right(r));
	table_add(t, evd_rule_alias(r));
	table_add(t, evd_rule_event(r));
	table_add(t, who_text(r, text, sizeof(text)));
	table_addf(t, "%" PRIu64, evd_rule_denied(r));
	table_add(t, place_text(r, text, sizeof(text)));
}

static void
add_page(struct ctl *ctl, struct table *t, const struct evd_policy *page)
{
	const struct evd_rule *r;

	for (size_t i = 0; (r = evd_policy_at(page, i)); i++) {
		if (!ctl->as_json) {
			add_row(t, r);
			continue;
		}
		write_rule(&ctl->json, NULL, r);
		json_line_end(&ctl->json);
	}
}

static void
tell_defaults(struct ctl *ctl, bool own, uint32_t owner)
{
	if (ctl->as_json || !ctl->legend || ctl->quiet)
		return;
	if (own)
		fprintf(ctl->out,
			"else: uid %" PRIu32 " and root may all, others "
			"nothing\n",
			owner);
	else
		fprintf(ctl->out,
			"else: root and uid %" PRIu32 " may all, others all "
			"but manage\n",
			owner);
}

static int
policy_show(struct ctl *ctl)
{
	struct evd_policy *page;
	struct table t;
	uint64_t after = 0;
	uint32_t owner = 0;
	bool own = false;
	int r;

	if (ctl->args->n_words > 1)
		return ctl_usage(ctl, "policy show takes no words");
	r = ctl_connect(ctl);
	if (r)
		return r;
	table_init(&t, titles, N_TITLES);
	do {
		if (evd_policy_show(ctl->evd, after, &page) < 0) {
			table_deinit(&t);
			return ctl_fail_evd(ctl);
		}
		add_page(ctl, &t, page);
		after = evd_policy_next(page);
		owner = evd_policy_owner(page);
		own = evd_policy_is_own(page);
		evd_policy_free(page);
	} while (after);
	if (!ctl->as_json && t.n_cells)
		r = table_write(&t, ctl->out, ctl->legend, ctl->color);
	table_deinit(&t);
	if (r)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	tell_defaults(ctl, own, owner);
	return 0;
}

/* ---- explain ------------------------------------------------------------- */

/* The groups of a user of this machine: numbers go to the daemon. */
static int
take_groups(struct ctl *ctl, const struct passwd *user,
	struct evd_subject *subject, uint32_t **groups)
{
	int n = GROUPS_MAX;
	gid_t *all = malloc((size_t)n * sizeof(*all));

	*groups = malloc((size_t)n * sizeof(**groups));
	if (!all || !*groups) {
		free(all);
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	}
	if (getgrouplist(user->pw_name, user->pw_gid, all, &n) < 0)
		n = GROUPS_MAX;
	for (int i = 0; i < n; i++)
		(*groups)[i] = all[i];
	subject->groups = *groups;
	subject->n_groups = (size_t)n;
	free(all);
	return 0;
}

/* NAME, UID, uid:N or pid:N. */
static int
take_subject(struct ctl *ctl, struct evd_subject *subject, uint32_t **groups)
{
	const char *word = ctl_word(ctl, 1);
	bool pid = strncmp(word, "pid:", 4) == 0;
	bool uid = strncmp(word, "uid:", 4) == 0;
	const struct passwd *user;
	uint64_t n;

	if (number_parse(word + (pid || uid ? 4 : 0), &n) && n < UINT32_MAX) {
		if (pid) {
			subject->pid = (uint32_t)n;
			return 0;
		}
		user = getpwuid((uid_t)n);
		subject->uid = subject->gid = (uint32_t)n;
	} else {
		user = pid || uid ? NULL : getpwnam(word);
		if (!user)
			return ctl_fail(ctl, EVD_STATUS_NOT_FOUND,
				"there is no user '%s'; a user is a name, a "
				"uid, or pid:N of a connected client",
				word);
	}
	if (!user) /* a number alone has no groups */
		return 0;
	subject->uid = user->pw_uid;
	subject->gid = user->pw_gid;
	return take_groups(ctl, user, subject, groups);
}

static void
print_verdict(struct ctl *ctl, const struct evd_verdict *v, const char *right,
	const char *alias, const char *event)
{
	const struct evd_rule *rule = evd_verdict_rule(v);
	struct json *j = &ctl->json;
	uint32_t gid;

	if (!ctl->as_json) {
		fprintf(ctl->out, "%s%s%s: ",
			style_begin(
				evd_verdict_allowed(v) ? TABLE_GOOD : TABLE_BAD,
				ctl->color),
			evd_verdict_allowed(v) ? "allowed" : "denied",
			style_end(TABLE_GOOD, ctl->color));
		escape_text(ctl->out, evd_verdict_text(v));
		fputc('\n', ctl->out);
		return;
	}
	json_object(j, NULL);
	json_bool(j, "allowed", evd_verdict_allowed(v));
	json_string(j, "right", right);
	json_string(j, "alias", alias);
	json_string(j, "event", event ? event : "");
	json_uint(j, "uid", evd_verdict_uid(v));
	json_uint(j, "gid", evd_verdict_gid(v));
	json_array(j, "groups");
	for (size_t i = 0; !evd_verdict_group(v, i, &gid); i++)
		json_uint(j, NULL, gid);
	json_array_end(j);
	json_string(j, "unit", evd_verdict_unit(v));
	if (rule)
		write_rule(j, "rule", rule);
	json_string(j, "text", evd_verdict_text(v));
	json_object_end(j);
	json_line_end(j);
}

static int
explain(struct ctl *ctl, const struct evd_subject *subject)
{
	const char *right = ctl_word(ctl, 2), *alias = ctl_word(ctl, 3);
	const char *event = ctl_word(ctl, 4);
	struct evd_verdict *v;
	int r;

	if (!alias)
		alias = "";
	r = *alias ? ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX) : 0;
	if (r == 0 && event)
		r = ctl_check_name(ctl, "event", event, EVD_EVENT_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	if (evd_policy_explain(ctl->evd, subject, right, alias, event, &v) < 0)
		return ctl_fail_evd(ctl);
	print_verdict(ctl, v, right, alias, event);
	evd_verdict_free(v);
	return 0;
}

static int
policy_explain(struct ctl *ctl)
{
	struct evd_subject subject = {0};
	uint32_t *groups = NULL;
	int r;

	if (ctl->args->n_words < 3 || ctl->args->n_words > 5)
		return ctl_usage(
			ctl, "policy explain USER RIGHT [ALIAS [EVENT]]");
	r = take_subject(ctl, &subject, &groups);
	if (r == 0)
		r = explain(ctl, &subject);
	free(groups);
	return r;
}

int
verb_policy(struct ctl *ctl)
{
	const char *name = ctl_word(ctl, 0);

	if (strcmp(name, "show") == 0)
		return policy_show(ctl);
	if (strcmp(name, "explain") == 0)
		return policy_explain(ctl);
	return ctl_usage(ctl, "'%s' is not show or explain", name);
}
