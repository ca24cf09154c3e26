/* eventctl limits: what users make the daemon hold, and how much they may. One
 * thread. */
#include <inttypes.h>
#include <pwd.h>

#include "ctl.h"
#include "table.h"

static const char *const titles[] = {
	">UID", "LIMIT", ">USED", ">MAX", ">REFUSED", "FROM"};

enum { N_TITLES = sizeof(titles) / sizeof(titles[0]) };

static void
write_json(struct json *j, const struct evd_user_limits *u)
{
	struct evd_limit l;

	json_object(j, NULL);
	json_uint(j, "uid", evd_user_uid(u));
	json_uint(j, "denied", evd_user_denied(u));
	json_object(j, "limits");
	for (size_t i = 0; !evd_user_limit(u, i, &l); i++) {
		json_object(j, l.key);
		json_uint(j, "used", l.used);
		if (l.max != UINT64_MAX)
			json_uint(j, "max", l.max);
		json_string(j, "from", *l.from ? l.from : "default");
		json_uint(j, "refused", l.refused);
		json_bool(j, "near", l.near_it);
		json_object_end(j);
	}
	json_object_end(j);
	json_object_end(j);
	json_line_end(j);
}

static void
add_rows(struct table *t, const struct evd_user_limits *u)
{
	struct evd_limit l;
	char used[24];

	for (size_t i = 0; !evd_user_limit(u, i, &l); i++) {
		table_addf(t, "%" PRIu32, evd_user_uid(u));
		table_add(t, l.key);
		snprintf(used, sizeof(used), "%" PRIu64, l.used);
		table_add_style(t, used, l.near_it ? TABLE_WARN : TABLE_PLAIN);
		if (l.max == UINT64_MAX)
			table_add(t, "none");
		else
			table_addf(t, "%" PRIu64, l.max);
		table_addf(t, "%" PRIu64, l.refused);
		table_add(t, *l.from ? l.from : "default");
	}
}

static int
read_pages(struct ctl *ctl, const uint32_t *uid, struct table *t)
{
	const struct evd_user_limits *u;
	struct evd_limits *page;
	uint64_t after = 0;

	do {
		if (evd_limits(ctl->evd, uid, after, &page) < 0)
			return ctl_fail_evd(ctl);
		for (size_t i = 0; (u = evd_limits_at(page, i)); i++)
			if (ctl->as_json)
				write_json(&ctl->json, u);
			else
				add_rows(t, u);
		after = evd_limits_next(page);
		evd_limits_free(page);
	} while (after);
	return 0;
}

/* A name or a uid. */
static int
take_user(struct ctl *ctl, const char *word, uint32_t *uid)
{
	const struct passwd *user = getpwnam(word);
	uint64_t n;

	if (user)
		*uid = user->pw_uid;
	else if (number_parse(word, &n) && n < UINT32_MAX)
		*uid = (uint32_t)n;
	else
		return ctl_fail(ctl, EVD_STATUS_NOT_FOUND,
			"there is no user '%s'; a user is a name or a uid",
			word);
	return 0;
}

int
verb_limits(struct ctl *ctl)
{
	const char *word = ctl_word(ctl, 0);
	struct table t;
	uint32_t uid = 0;
	int r = word ? take_user(ctl, word, &uid) : 0;

	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	table_init(&t, titles, N_TITLES);
	r = read_pages(ctl, word ? &uid : NULL, &t);
	if (r == 0 && !ctl->as_json &&
		table_write(&t, ctl->out, ctl->legend, ctl->color))
		r = ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	table_deinit(&t);
	return r;
}
