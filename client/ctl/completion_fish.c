/* Completions for fish: see completion.h. One thread. */
#include "completion.h"

/* Inside single quotes fish reads \' and \\ alone. */
static void
write_quoted(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
	fputc('\'', f);
}

static void
write_option(FILE *f, const char *condition, enum option_id id)
{
	const struct option_spec *spec = &option_specs[id];

	fprintf(f, "complete -c eventctl%s -l %s", condition, spec->name);
	if (spec->letter)
		fprintf(f, " -s %c", spec->letter);
	if (spec->complete == COMPLETE_FILE)
		fputs(" -r -F", f);
	else if (spec->complete == COMPLETE_VALUES)
		fprintf(f, " -x -a '%s'", spec->values);
	else if (spec->arg)
		fputs(" -x", f);
	fputs(" -d ", f);
	write_quoted(f, spec->help);
	fputc('\n', f);
}

static void
write_verb_words(FILE *f)
{
	for (const struct verb *v = verbs; v->name; v++) {
		fprintf(f, " -a %s -d ", v->name);
		write_quoted(f, v->summary);
		if (v[1].name)
			fputs("\ncomplete -c eventctl -n '__eventctl_at \"\"'",
				f);
	}
	fputc('\n', f);
}

static void
write_word(FILE *f, const struct verb *verb, int i)
{
	fprintf(f, "complete -c eventctl -n '__eventctl_at %s %s'", verb->name,
		i ? "1 more" : "0");
	switch (verb->complete[i]) {
	case COMPLETE_ALIAS:
		fputs(" -a '(__eventctl_aliases)'\n", f);
		break;
	case COMPLETE_VERB:
		fputs(" -a '", f);
		for (const struct verb *v = verbs; v->name; v++)
			fprintf(f, "%s ", v->name);
		fputs("'\n", f);
		break;
	case COMPLETE_SHELL:
	case COMPLETE_QUEUE:
	case COMPLETE_DEAD:
	case COMPLETE_POLICY:
	case COMPLETE_STORE:
	case COMPLETE_SESSION:
		fprintf(f, " -a '%s'\n", complete_words(verb->complete[i]));
		break;
	case COMPLETE_FILE:
	case COMPLETE_VALUES:
	case COMPLETE_NOTHING:
		fputs(" -f\n", f);
		break;
	}
}

static const char head[] =
	"# fish completion for eventctl, made from its table of verbs\n"
	"\n"
	"# the words of the command line that are no options: the verb first\n"
	"function __eventctl_words\n"
	"\tset -l skip 0\n"
	"\tfor token in (commandline -opc)[2..]\n"
	"\t\tif test $skip = 1\n"
	"\t\t\tset skip 0\n"
	"\t\t\tcontinue\n"
	"\t\tend\n"
	"\t\tswitch $token\n"
	"\t\t\tcase ";

static const char functions[] =
	"\n"
	"\t\t\t\tset skip 1\n"
	"\t\t\tcase '-*'\n"
	"\t\t\tcase '*'\n"
	"\t\t\t\techo -- $token\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"\n"
	"# VERB N [more]: is it word N, or a later one, of the verb?\n"
	"function __eventctl_at\n"
	"\tset -l words (__eventctl_words)\n"
	"\tif test -z \"$argv[1]\"\n"
	"\t\ttest (count $words) = 0\n"
	"\t\treturn\n"
	"\tend\n"
	"\ttest \"$words[1]\" = \"$argv[1]\"; or return 1\n"
	"\tset -l n (math (count $words) - 1)\n"
	"\tif set -q argv[3]\n"
	"\t\ttest $n -ge $argv[2]\n"
	"\telse\n"
	"\t\ttest -z \"$argv[2]\"; or test $n = $argv[2]\n"
	"\tend\n"
	"end\n"
	"\n"
	"function __eventctl_aliases\n"
	"\tset -l daemon\n"
	"\tset -l tokens (commandline -opc)\n"
	"\tif contains -- --user $tokens\n"
	"\t\tset daemon --user\n"
	"\telse if set -l at (contains -i -- --socket $tokens)\n"
	"\t\tset daemon --socket $tokens[(math $at + 1)]\n"
	"\tend\n"
	"\teventctl $daemon completion aliases 2>/dev/null\n"
	"end\n"
	"\n"
	"complete -c eventctl -f\n"
	"complete -c eventctl -n '__eventctl_at \"\"'";

void
completion_fish(FILE *f)
{
	char condition[64];

	fputs(head, f);
	write_value_options(f, " ");
	fputs(functions, f);
	write_verb_words(f);
	for (const unsigned char *id = global_options; *id != OPT_END; id++)
		write_option(f, "", *id);
	for (const struct verb *v = verbs; v->name; v++) {
		snprintf(condition, sizeof(condition), " -n '__eventctl_at %s'",
			v->name);
		for (const unsigned char *id = v->options; *id != OPT_END; id++)
			write_option(f, condition, *id);
		for (int i = 0; i < 2; i++)
			if (v->complete[i] != COMPLETE_NOTHING)
				write_word(f, v, i);
	}
}
