/* The command line: see args.h. One thread. */
#include "args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
	struct args *args;
	char **argv;
	int argc;
	int next;        /* index of the word to look at */
	bool only_words; /* "--" was seen */
	char *error;
};

__attribute__((format(printf, 2, 3))) static int
fail(struct parser *p, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(p->error, ARGS_ERROR_SIZE, format, ap);
	va_end(ap);
	return -1;
}

static int
check_value(struct parser *p, const struct option_spec *spec, const char *value)
{
	if (!spec->values || values_index(spec->values, value) >= 0)
		return 0;
	return fail(p, "--%s takes one of: %s; not '%s'", spec->name,
		spec->values, value);
}

static int
add_option(struct parser *p, enum option_id id, const char *value)
{
	const struct option_spec *spec = &option_specs[id];

	if (spec->arg && !value) {
		if (p->next >= p->argc)
			return fail(p, "--%s wants %s behind it", spec->name,
				spec->arg);
		value = p->argv[p->next++];
	}
	if (spec->arg && check_value(p, spec, value) < 0)
		return -1;
	p->args->options[p->args->n_options++] = (struct arg){id, value};
	return 0;
}

static int
unknown_option(struct parser *p, const char *word)
{
	const struct verb *verb = p->args->verb;

	for (size_t i = 0; !verb && verbs[i].name; i++)
		if (verb_option(&verbs[i], word + 2) != OPT_END)
			return fail(p, "%s goes behind the verb", word);
	if (verb)
		return fail(p,
			"%s does not know the option '%s'; eventctl help %s "
			"lists its options, and what begins with a dash goes "
			"behind --data or --",
			verb->name, word, verb->name);
	return fail(
		p, "there is no option '%s'; eventctl help lists them", word);
}

/* "--name" or "--name=value" */
static int
parse_long(struct parser *p, char *word)
{
	char *value = strchr(word, '=');
	enum option_id id;

	if (value)
		*value = '\0';
	id = verb_option(p->args->verb, word + 2);
	if (id == OPT_END)
		return unknown_option(p, word);
	if (value && !option_specs[id].arg)
		return fail(p, "%s takes no value", word);
	return add_option(p, id, value ? value + 1 : NULL);
}

/* "-jq", "-n5", "-n 5" */
static int
parse_letters(struct parser *p, const char *word)
{
	char name[3] = "-?";
	const char *rest;
	enum option_id id;

	for (const char *at = word + 1; *at; at++) {
		name[1] = *at;
		id = verb_option_letter(p->args->verb, *at);
		if (id == OPT_END)
			return unknown_option(p, at == word + 1 ? word : name);
		rest = option_specs[id].arg && at[1] ? at + 1 : NULL;
		if (add_option(p, id, rest) < 0)
			return -1;
		if (rest)
			break;
	}
	return 0;
}

static int
parse_verb(struct parser *p, const char *word)
{
	const struct verb *like;

	p->args->verb = verb_find(word);
	if (p->args->verb)
		return 0;
	like = verb_like(word);
	if (like)
		return fail(p, "there is no verb '%s'; did you mean %s?", word,
			like->name);
	return fail(p, "there is no verb '%s'; eventctl help lists them", word);
}

static int
parse_word(struct parser *p)
{
	char *word = p->argv[p->next++];

	if (!p->only_words && strcmp(word, "--") == 0) {
		p->only_words = true;
		return 0;
	}
	if (!p->only_words && strncmp(word, "--", 2) == 0)
		return parse_long(p, word);
	if (!p->only_words && word[0] == '-' && word[1])
		return parse_letters(p, word);
	if (!p->args->verb)
		return parse_verb(p, word);
	p->args->words[p->args->n_words++] = word;
	return 0;
}

static int
check_words(struct parser *p)
{
	const struct verb *verb = p->args->verb;
	int n = (int)p->args->n_words;

	if (!verb || args_has(p->args, OPT_HELP))
		return 0;
	if (n < verb->min_words)
		return fail(p, "usage: eventctl %s %s", verb->name, verb->args);
	if (verb->max_words >= 0 && n > verb->max_words)
		return fail(p,
			"'%s' is one word too many; usage: eventctl %s%s%s",
			p->args->words[verb->max_words], verb->name,
			verb->args[0] ? " " : "", verb->args);
	return 0;
}

int
args_parse(struct args *args, int argc, char *argv[],
	char error[static ARGS_ERROR_SIZE])
{
	struct parser p = {args, argv, argc, 1, false, error};
	size_t n_letters = 1;

	memset(args, 0, sizeof(*args));
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-') /* "-jqv" is three options */
			n_letters += strlen(argv[i]);
	args->options = calloc(n_letters, sizeof(*args->options));
	args->words = calloc((size_t)argc + 1, sizeof(*args->words));
	if (!args->options || !args->words)
		return fail(&p, "out of memory");
	while (p.next < argc)
		if (parse_word(&p) < 0)
			return -1;
	return check_words(&p);
}

void
args_deinit(struct args *args)
{
	free(args->options);
	free(args->words);
	memset(args, 0, sizeof(*args));
}

bool
args_has(const struct args *args, enum option_id id)
{
	for (size_t i = 0; i < args->n_options; i++)
		if (args->options[i].id == id)
			return true;
	return false;
}

const char *
args_value(const struct args *args, enum option_id id)
{
	for (size_t i = args->n_options; i > 0; i--)
		if (args->options[i - 1].id == id)
			return args->options[i - 1].value;
	return NULL;
}

const char *
args_value_at(const struct args *args, enum option_id id, size_t i)
{
	for (size_t k = 0; k < args->n_options; k++)
		if (args->options[k].id == id && i-- == 0)
			return args->options[k].value;
	return NULL;
}
