/* eventctl spawn and stop: sessions that no file of the daemon's asks for, and
 * the end of any. One thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "watch.h"

/* ---- spawn --------------------------------------------------------------- */

/* What --alias and --param gave. */
struct names {
	const char **aliases;
	size_t n_aliases;
	struct evd_header *params; /* names are owned */
	size_t n_params;
};

static size_t
count(struct ctl *ctl, enum option_id id)
{
	size_t n = 0;

	while (args_value_at(ctl->args, id, n))
		n++;
	return n;
}

static void
names_deinit(struct names *names)
{
	for (size_t i = 0; i < names->n_params; i++)
		free((char *)(uintptr_t)names->params[i].name);
	free(names->params);
	free(names->aliases);
}

static int
take_param(struct ctl *ctl, const char *text, struct evd_header *param)
{
	const char *equal = strchr(text, '=');

	if (!equal || equal == text)
		return ctl_usage(
			ctl, "--param takes NAME=VALUE, not '%s'", text);
	param->name = strndup(text, (size_t)(equal - text));
	param->value = equal + 1;
	param->size = strlen(equal + 1);
	if (!param->name)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	return 0;
}

static int
names_take(struct names *names, struct ctl *ctl)
{
	size_t n_aliases = count(ctl, OPT_ALIAS);
	size_t n_params = count(ctl, OPT_PARAM);
	int r = 0;

	names->aliases = calloc(n_aliases + 1, sizeof(*names->aliases));
	names->params = calloc(n_params + 1, sizeof(*names->params));
	if (!names->aliases || !names->params)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < n_aliases && !r; i++) {
		const char *alias = args_value_at(ctl->args, OPT_ALIAS, i);

		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
		names->aliases[names->n_aliases++] = alias;
	}
	for (size_t i = 0; i < n_params && !r; i++)
		r = take_param(ctl, args_value_at(ctl->args, OPT_PARAM, i),
			&names->params[names->n_params++]);
	return r;
}

static int
check_usage(struct ctl *ctl)
{
	int n = (ctl_word(ctl, 0) != NULL) + ctl_has(ctl, OPT_SCRIPT) +
		ctl_has(ctl, OPT_PLUGIN);

	if (n != 1)
		return ctl_usage(ctl,
			"spawn needs a session file, --script or --plugin, "
			"and one of them");
	if (ctl_word(ctl, 0) && ctl_has(ctl, OPT_ALIAS))
		return ctl_usage(
			ctl, "the aliases are those in the session file");
	if (ctl_word(ctl, 0) &&
		(ctl_has(ctl, OPT_IF_TAKEN) || ctl_has(ctl, OPT_ALLOW_REPLACE)))
		return ctl_usage(ctl, "a session file says so itself: "
				      "IfTaken=, AllowReplace=");
	return 0;
}

static int
print_spawned(struct ctl *ctl, const struct names *names, uint64_t id)
{
	struct json *j = &ctl->json;

	ctl_detail(ctl, "session %llu", (unsigned long long)id);
	if (!ctl->as_json)
		return 0;
	json_object(j, NULL);
	json_id(j, "id", id);
	json_array(j, "aliases");
	for (size_t i = 0; i < names->n_aliases; i++)
		json_string(j, NULL, names->aliases[i]);
	json_array_end(j);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

static int
spawn(struct ctl *ctl, const struct names *names)
{
	const char *file = ctl_word(ctl, 0);
	const char *script = ctl_value(ctl, OPT_SCRIPT);
	const char *path = file     ? file
			   : script ? script
				    : ctl_value(ctl, OPT_PLUGIN);
	char *whole = realpath(path, NULL); /* the daemon is elsewhere */
	struct evd_spawn_options options = {.size = sizeof(options),
		.aliases = names->aliases,
		.n_aliases = names->n_aliases,
		.params = names->params,
		.n_params = names->n_params,
		.tie = ctl_has(ctl, OPT_TIE),
		.if_taken = ctl_if_taken(ctl),
		.allow_replace = ctl_has(ctl, OPT_ALLOW_REPLACE)};
	uint64_t id;
	int r;

	if (!whole)
		return ctl_fail(ctl, EVD_STATUS_NO_INPUT, "%s: %s", path,
			strerror(errno));
	*(file           ? &options.file
		: script ? &options.script
			 : &options.plugin) = whole;
	ctl->subject = path;
	r = evd_spawn(ctl->evd, &options, &id) < 0
		    ? ctl_fail_evd(ctl)
		    : print_spawned(ctl, names, id);
	free(whole);
	if (r || !options.tie)
		return r;
	r = ctl_flush(ctl);
	return r ? r : watch_until_down(ctl, id);
}

int
verb_spawn(struct ctl *ctl)
{
	struct names names = {0};
	int r = check_usage(ctl);

	if (r)
		return r;
	r = names_take(&names, ctl);
	if (!r)
		r = ctl_connect(ctl);
	if (!r)
		r = spawn(ctl, &names);
	names_deinit(&names);
	return r;
}

/* ---- stop ---------------------------------------------------------------- */

static int
stop(struct ctl *ctl, const char *alias)
{
	struct json *j = &ctl->json;

	ctl->subject = alias;
	if (evd_stop(ctl->evd, alias) < 0)
		return ctl_fail_evd(ctl);
	ctl_detail(ctl, "%s is stopped", alias);
	if (!ctl->as_json)
		return 0;
	json_object(j, NULL);
	json_string(j, "alias", alias);
	json_bool(j, "stopped", true);
	json_object_end(j);
	json_line_end(j);
	return 0;
}

int
verb_stop(struct ctl *ctl)
{
	const char *alias;
	int code = 0, r;

	for (size_t i = 0; !code && (alias = ctl_word(ctl, i)); i++)
		code = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	if (!code)
		code = ctl_connect(ctl);
	if (code)
		return code;
	for (size_t i = 0; (alias = ctl_word(ctl, i)); i++) {
		r = stop(ctl, alias);
		code = code ? code : r;
	}
	return code;
}
