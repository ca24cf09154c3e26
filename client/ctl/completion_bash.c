/* Completions for bash: see completion.h. One thread. */
#include "completion.h"

static void
write_options(FILE *f, const unsigned char *ids)
{
	for (; *ids != OPT_END; ids++) {
		fprintf(f, " --%s", option_specs[*ids].name);
		if (option_specs[*ids].letter)
			fprintf(f, " -%c", option_specs[*ids].letter);
	}
}

static void
write_verb_names(FILE *f)
{
	for (const struct verb *v = verbs; v->name; v++)
		fprintf(f, "%s%s", v == verbs ? "" : " ", v->name);
}

static const char head[] =
	"# bash completion for eventctl, made from its table of verbs\n"
	"\n"
	"_eventctl_words()\n"
	"{\n"
	"\tmapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
	"}\n"
	"\n"
	"_eventctl_files()\n"
	"{\n"
	"\tcompopt -o filenames\n"
	"\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"}\n"
	"\n"
	"_eventctl_aliases()\n"
	"{\n"
	"\tmapfile -t COMPREPLY < <(\"$1\" \"${daemon[@]}\" \\\n"
	"\t\tcompletion aliases \"$cur\" 2>/dev/null)\n"
	"}\n"
	"\n"
	"_eventctl()\n"
	"{\n"
	"\tlocal cur=$2 prev=$3 verb='' n=0 i options daemon=()\n"
	"\n"
	"\tCOMPREPLY=()\n"
	"\t# --option=value comes as three words\n"
	"\tif [[ $cur == '=' ]]; then\n"
	"\t\tcur=''\n"
	"\telif [[ $prev == '=' ]]; then\n"
	"\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	"\tfi\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t--user | --system) daemon+=(\"${COMP_WORDS[i]}\") ;;\n";

static const char after_values[] =
	")\n"
	"\t\t\t[[ ${COMP_WORDS[i+1]} != '=' ]] || ((i++))\n"
	"\t\t\t[[ ${COMP_WORDS[i]} != --socket &&\n"
	"\t\t\t\t${COMP_WORDS[i-1]} != --socket ]] ||\n"
	"\t\t\t\tdaemon+=(--socket \"${COMP_WORDS[i+1]}\")\n"
	"\t\t\t((i++))\n"
	"\t\t\t;;\n"
	"\t\t-* | '=') ;;\n"
	"\t\t*)\n"
	"\t\t\tif [[ -z $verb ]]; then\n"
	"\t\t\t\tverb=${COMP_WORDS[i]}\n"
	"\t\t\telse\n"
	"\t\t\t\t((++n))\n"
	"\t\t\tfi\n"
	"\t\t\t;;\n"
	"\t\tesac\n"
	"\tdone\n";

/* What stands behind an option that takes a value. */
static void
write_value(FILE *f, enum option_id id)
{
	const struct option_spec *spec = &option_specs[id];

	fprintf(f, "\t--%s", spec->name);
	if (spec->letter)
		fprintf(f, " | -%c", spec->letter);
	fputs(")\n", f);
	if (spec->complete == COMPLETE_VALUES)
		fprintf(f, "\t\t_eventctl_words '%s'\n", spec->values);
	else if (spec->complete == COMPLETE_FILE)
		fputs("\t\t_eventctl_files\n", f);
	fputs("\t\treturn\n\t\t;;\n", f);
}

static void
write_values(FILE *f)
{
	fputs("\tcase $prev in\n", f);
	for (int id = OPT_END + 1; id < N_OPTIONS; id++)
		if (option_specs[id].arg && id != OPT_TIMES)
			write_value(f, id);
	fputs("\tesac\n", f);
}

static void
write_verb_options(FILE *f)
{
	fputs("\toptions='", f);
	write_options(f, global_options);
	fputs("'\n\tcase $verb in\n", f);
	for (const struct verb *v = verbs; v->name; v++) {
		if (v->options[0] == OPT_END)
			continue;
		fprintf(f, "\t%s) options+='", v->name);
		write_options(f, v->options);
		fputs("' ;;\n", f);
	}
	fputs("\tesac\n", f);
}

static void
write_word(FILE *f, const struct verb *verb, int i)
{
	switch (verb->complete[i]) {
	case COMPLETE_ALIAS:
		fputs("_eventctl_aliases \"$1\"", f);
		break;
	case COMPLETE_VERB:
		fputs("_eventctl_words '", f);
		write_verb_names(f);
		fputc('\'', f);
		break;
	case COMPLETE_SHELL:
	case COMPLETE_QUEUE:
	case COMPLETE_DEAD:
	case COMPLETE_POLICY:
	case COMPLETE_STORE:
	case COMPLETE_SESSION:
		fprintf(f, "_eventctl_words '%s'",
			complete_words(verb->complete[i]));
		break;
	case COMPLETE_FILE:
		fputs("_eventctl_files", f);
		break;
	case COMPLETE_VALUES:
	case COMPLETE_NOTHING:
		return;
	}
	fputs(" ;;\n", f);
}

static void
write_words(FILE *f)
{
	fputs("\tif [[ $cur == -* ]]; then\n"
	      "\t\t_eventctl_words \"$options\"\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tcase $verb:$n in\n"
	      "\t:*) _eventctl_words '",
		f);
	write_verb_names(f);
	fputs("' ;;\n", f);
	for (const struct verb *v = verbs; v->name; v++) {
		for (int i = 0; i < 2; i++) {
			if (v->complete[i] == COMPLETE_NOTHING)
				continue;
			fprintf(f, "\t%s:%c) ", v->name, i ? '*' : '0');
			write_word(f, v, i);
		}
	}
	fputs("\tesac\n", f);
}

void
completion_bash(FILE *f)
{
	fputs(head, f);
	fputs("\t\t", f);
	write_value_options(f, " | ");
	fputs(after_values, f);
	write_values(f);
	write_verb_options(f);
	write_words(f);
	fputs("}\n\ncomplete -F _eventctl eventctl\n", f);
}
