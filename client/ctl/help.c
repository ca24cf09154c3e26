/* eventctl help: see help.h. One thread. */
#include "help.h"

#include <string.h>

#include <eventd/client.h>

#include "ctl.h"

enum {
	HELP_COLUMN = 26, /* where the explanations begin */
	HELP_WIDTH = 78,
};

/* @text from HELP_COLUMN on, in lines of HELP_WIDTH; the cursor is in column
 * @at. */
static void
write_wrapped(FILE *f, size_t at, const char *text)
{
	size_t n;

	if (at >= HELP_COLUMN) {
		fputc('\n', f);
		at = 0;
	}
	fprintf(f, "%*s", (int)(HELP_COLUMN - at), "");
	at = HELP_COLUMN;
	while (*text) {
		n = strcspn(text, " ");
		if (at > HELP_COLUMN && at + 1 + n > HELP_WIDTH) {
			fprintf(f, "\n%*s", HELP_COLUMN, "");
			at = HELP_COLUMN;
		} else if (at > HELP_COLUMN) {
			fputc(' ', f);
			at++;
		}
		fwrite(text, 1, n, f);
		at += n;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', f);
}

static void
write_option(FILE *f, enum option_id id)
{
	const struct option_spec *spec = &option_specs[id];
	char left[64], letter[] = "    ";

	if (spec->letter)
		snprintf(letter, sizeof(letter), "-%c, ", spec->letter);
	snprintf(left, sizeof(left), "  %s--%s%s%s", letter, spec->name,
		spec->arg ? " " : "", spec->arg ? spec->arg : "");
	fputs(left, f);
	write_wrapped(f, strlen(left), spec->help);
}

static void
write_options(FILE *f, const unsigned char *ids)
{
	for (; *ids != OPT_END; ids++)
		write_option(f, *ids);
}

static const int codes[] = {
#define HELP_CODE(name, code, word, err, exit, text) (code),
	EVD_STATUS_TABLE(HELP_CODE)
#undef HELP_CODE
};

enum { N_CODES = sizeof(codes) / sizeof(codes[0]) };

static void
write_code(FILE *f, int code)
{
	char left[32];

	snprintf(left, sizeof(left), "  %3d  %s", evd_status_exit(code),
		evd_status_word(code));
	fputs(left, f);
	write_wrapped(f, strlen(left), evd_status_text(code));
}

/* By exit code; those of one code as in the table. */
static void
write_exit_codes(FILE *f)
{
	fputs("\nExit status:\n", f);
	for (int exit_code = 0; exit_code < 256; exit_code++)
		for (size_t i = 0; i < N_CODES; i++)
			if (evd_status_exit(codes[i]) == exit_code)
				write_code(f, codes[i]);
}

void
help_all(FILE *f)
{
	char left[64];

	fputs("usage: eventctl [OPTION...] VERB [WORD...]\n"
	      "\n"
	      "Posts events to the sessions of eventd, calls them, looks at "
	      "them.\n"
	      "\n"
	      "Verbs:\n",
		f);
	for (const struct verb *v = verbs; v->name; v++) {
		snprintf(left, sizeof(left), "  %s", v->name);
		fputs(left, f);
		write_wrapped(f, strlen(left), v->summary);
	}
	fputs("\nOptions of every verb (eventctl help VERB shows the others):"
	      "\n",
		f);
	write_options(f, global_options);
	write_exit_codes(f);
	fputs("\nMore: man eventctl\n", f);
}

void
help_verb(FILE *f, const struct verb *verb)
{
	fprintf(f, "usage: eventctl %s%s%s\n\n%c%s.\n", verb->name,
		*verb->args ? " " : "", verb->args, verb->summary[0] - 32,
		verb->summary + 1);
	if (verb->details)
		fprintf(f, "\n%s", verb->details);
	if (verb->options[0] != OPT_END) {
		fputs("\nOptions:\n", f);
		write_options(f, verb->options);
	}
	fputs("\nOptions of every verb:\n", f);
	write_options(f, global_options);
}

static void
option_json(struct json *j, enum option_id id)
{
	const struct option_spec *spec = &option_specs[id];

	json_object(j, NULL);
	json_string(j, "name", spec->name);
	if (spec->letter)
		json_string_n(j, "letter", &spec->letter, 1);
	if (spec->arg)
		json_string(j, "argument", spec->arg);
	json_string(j, "help", spec->help);
	json_object_end(j);
}

void
help_verb_json(struct json *j, const struct verb *verb)
{
	json_object(j, NULL);
	json_string(j, "verb", verb->name);
	json_string(j, "words", verb->args);
	json_string(j, "summary", verb->summary);
	if (verb->details)
		json_string(j, "details", verb->details);
	json_array(j, "options");
	for (const unsigned char *id = verb->options; *id != OPT_END; id++)
		option_json(j, *id);
	for (const unsigned char *id = global_options; *id != OPT_END; id++)
		option_json(j, *id);
	json_array_end(j);
	json_object_end(j);
	json_line_end(j);
}

void
help_print(struct ctl *ctl, const struct verb *verb)
{
	if (verb && ctl->as_json)
		help_verb_json(&ctl->json, verb);
	else if (verb)
		help_verb(ctl->out, verb);
	else if (ctl->as_json)
		for (const struct verb *v = verbs; v->name; v++)
			help_verb_json(&ctl->json, v);
	else
		help_all(ctl->out);
}

int
verb_help(struct ctl *ctl)
{
	const char *name = ctl_word(ctl, 0);
	const struct verb *verb = name ? verb_find(name) : NULL;
	const struct verb *like;

	if (verb || !name) {
		help_print(ctl, verb);
		return 0;
	}
	like = verb_like(name);
	if (like)
		return ctl_usage(ctl, "there is no verb '%s'; did you mean %s?",
			name, like->name);
	return ctl_usage(
		ctl, "there is no verb '%s'; eventctl help lists them", name);
}
