/* eventctl completion SHELL: the shell's completions, and, for them alone, the
 * aliases of the daemon (eventctl completion aliases [PREFIX]). One thread. */
#include "completion.h"

#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "help.h"
#include "pages.h"

void
write_single_quoted(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fputc(*text, f);
}

static bool
named_before(enum option_id id)
{
	for (int before = OPT_END + 1; before < (int)id; before++)
		if (option_specs[before].arg &&
			strcmp(option_specs[before].name,
				option_specs[id].name) == 0)
			return true;
	return false;
}

void
write_value_options(FILE *f, const char *between)
{
	const char *sep = "";

	for (int id = OPT_END + 1; id < N_OPTIONS; id++) {
		if (!option_specs[id].arg || named_before(id))
			continue;
		fprintf(f, "%s--%s", sep, option_specs[id].name);
		sep = between;
		if (option_specs[id].letter)
			fprintf(f, "%s-%c", sep, option_specs[id].letter);
	}
}

int
completion_write(FILE *f, const char *shell)
{
	static void (*const writers[])(FILE *) = {
		completion_bash, completion_zsh, completion_fish};
	int i = values_index(verb_shells, shell);

	if (i < 0)
		return -1;
	writers[i](f);
	return 0;
}

static void
print_session(struct ctl *ctl, const struct evd_session *s, const char *prefix)
{
	const char *alias;

	for (size_t i = 0; (alias = evd_session_alias(s, i)); i++)
		if (strncmp(alias, prefix, strlen(prefix)) == 0)
			fprintf(ctl->out, "%s\n", alias);
}

static void
print_matching(struct ctl *ctl, const char *prefix)
{
	struct pages all;

	if (pages_load_sessions(&all, ctl, prefix) == 0)
		for (size_t i = 0; i < all.n; i++)
			print_session(ctl, pages_session(&all, i), prefix);
	pages_free_sessions(&all);
}

/* Somebody waits at a prompt: what goes wrong is not told. */
static int
print_aliases(struct ctl *ctl)
{
	const char *prefix = ctl_word(ctl, 1);

	if (!ctl->timeout_given)
		ctl->timeout_ms = 1000;
	if (ctl_handle(ctl) == 0 && evd_connect(ctl->evd, ctl->timeout_ms) == 0)
		print_matching(ctl, prefix ? prefix : "");
	return 0;
}

static int
print_json(struct ctl *ctl, const char *shell)
{
	struct json *j = &ctl->json;
	char *script = NULL;
	size_t size;
	FILE *f = open_memstream(&script, &size);

	if (f)
		completion_write(f, shell);
	if (!f || fclose(f) != 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	json_object(j, NULL);
	json_string(j, "shell", shell);
	json_string(j, "script", script);
	json_object_end(j);
	json_line_end(j);
	free(script);
	return 0;
}

int
verb_completion(struct ctl *ctl)
{
	const char *shell = ctl_word(ctl, 0);

	if (strcmp(shell, "aliases") == 0)
		return print_aliases(ctl);
	if (ctl->args->n_words > 1)
		return ctl_usage(
			ctl, "'%s' is one word too many", ctl_word(ctl, 1));
	if (values_index(verb_shells, shell) < 0)
		return ctl_usage(ctl, "completion knows %s, not '%s'",
			verb_shells, shell);
	if (ctl->as_json)
		return print_json(ctl, shell);
	completion_write(ctl->out, shell);
	return 0;
}
