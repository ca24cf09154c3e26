/* Completions for zsh: see completion.h. One thread. */
#include "completion.h"

/* @text inside the brackets of a specification inside single quotes. */
static void
write_explanation(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '[' || *text == ']' || *text == '\\')
			fputc('\\', f);
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fputc(*text, f);
	}
}

static void
write_value(FILE *f, const struct option_spec *spec)
{
	if (!spec->arg)
		return;
	fprintf(f, ":%s:", spec->arg);
	if (spec->complete == COMPLETE_FILE)
		fputs("_files", f);
	else if (spec->complete == COMPLETE_VALUES)
		fprintf(f, "(%s)", spec->values);
	else
		fputc(' ', f);
}

static void
write_option(FILE *f, enum option_id id)
{
	const struct option_spec *spec = &option_specs[id];
	const char *often =
		id == OPT_HEADER || id == OPT_ALIAS || id == OPT_PARAM ? "*"
								       : "";

	fprintf(f, "\t\t'%s--%s%s[", often, spec->name, spec->arg ? "=" : "");
	write_explanation(f, spec->help);
	fputc(']', f);
	write_value(f, spec);
	fputs("'\n", f);
	if (!spec->letter)
		return;
	fprintf(f, "\t\t'%s-%c%s[", often, spec->letter, spec->arg ? "+" : "");
	write_explanation(f, spec->help);
	fputc(']', f);
	write_value(f, spec);
	fputs("'\n", f);
}

static void
write_options(FILE *f, const unsigned char *ids)
{
	for (; *ids != OPT_END; ids++)
		write_option(f, *ids);
}

static const char *
action(enum complete complete)
{
	switch (complete) {
	case COMPLETE_ALIAS:
		return "_eventctl_aliases";
	case COMPLETE_VERB:
		return "_eventctl_verbs";
	case COMPLETE_SHELL:
		return "_eventctl_shells";
	case COMPLETE_QUEUE:
		return "(list peek pause resume purge move)";
	case COMPLETE_DEAD:
		return "(list show requeue purge)";
	case COMPLETE_POLICY:
		return "(show explain)";
	case COMPLETE_STORE:
		return "(stats check backup compact salvage)";
	case COMPLETE_SESSION:
		return "(executor)";
	case COMPLETE_FILE:
		return "_files";
	case COMPLETE_VALUES:
	case COMPLETE_NOTHING:
		return " ";
	}
	return " ";
}

static void
write_verb(FILE *f, const struct verb *verb)
{
	fprintf(f, "\t%s)\n\t\tspecs+=(\n", verb->name);
	write_options(f, verb->options);
	if (verb->max_words != 0)
		fprintf(f, "\t\t'1:word:%s'\n", action(verb->complete[0]));
	if (verb->max_words < 0 || verb->max_words > 1)
		fprintf(f, "\t\t'*:word:%s'\n", action(verb->complete[1]));
	fputs("\t\t)\n\t\t;;\n", f);
}

static void
write_helpers(FILE *f)
{
	fputs("#compdef eventctl\n"
	      "# zsh completion for eventctl, made from its table of verbs\n"
	      "\n"
	      "_eventctl_verbs() {\n"
	      "\tlocal -a verbs=(\n",
		f);
	for (const struct verb *v = verbs; v->name; v++) {
		fprintf(f, "\t\t'%s:", v->name);
		write_single_quoted(f, v->summary);
		fputs("'\n", f);
	}
	fprintf(f,
		"\t)\n"
		"\t_describe verb verbs\n"
		"}\n"
		"\n"
		"_eventctl_shells() {\n"
		"\tcompadd -- %s\n"
		"}\n"
		"\n"
		"_eventctl_aliases() {\n"
		"\tlocal -a aliases\n"
		"\taliases=(${(f)\"$(_call_program aliases eventctl \\\n"
		"\t\t${(q)eventctl_daemon} completion aliases 2>/dev/null)\"})"
		"\n"
		"\tcompadd -a aliases\n"
		"}\n"
		"\n",
		verb_shells);
}

void
completion_zsh(FILE *f)
{
	write_helpers(f);
	fputs("_eventctl() {\n"
	      "\tlocal curcontext=$curcontext state line ret=1\n"
	      "\tlocal -a specs eventctl_daemon\n"
	      "\tlocal -A opt_args\n"
	      "\n"
	      "\tspecs=(\n",
		f);
	write_options(f, global_options);
	fputs("\t)\n"
	      "\t_arguments -C $specs '1:verb:_eventctl_verbs' \\\n"
	      "\t\t'*::word:->words' && ret=0\n"
	      "\t[[ $state == words ]] || return ret\n"
	      "\t(( $+opt_args[--user] )) && eventctl_daemon=(--user)\n"
	      "\t(( $+opt_args[--socket] )) &&\n"
	      "\t\teventctl_daemon=(--socket ${(Q)opt_args[--socket]})\n"
	      "\tcurcontext=${curcontext%:*:*}:eventctl-$words[1]:\n"
	      "\tcase $words[1] in\n",
		f);
	for (const struct verb *v = verbs; v->name; v++)
		write_verb(f, v);
	fputs("\tesac\n"
	      "\t_arguments $specs && ret=0\n"
	      "\treturn ret\n"
	      "}\n"
	      "\n"
	      "if [[ $funcstack[1] == _eventctl ]]; then\n"
	      "\t_eventctl \"$@\"\n"
	      "else\n"
	      "\tcompdef _eventctl eventctl\n"
	      "fi\n",
		f);
}
