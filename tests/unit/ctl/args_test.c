/* client/ctl/args.c and verbs.c: the command line and its table. */
#include "args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_WORDS = 16 };

struct line {
	struct args args;
	char error[ARGS_ERROR_SIZE];
	char *argv[MAX_WORDS + 1];
	int argc;
};

/* Take "a b c" apart, a word each. */
static int
parse(struct line *line, const char *text)
{
	char *copy = strdup(text), *rest = copy, *word;

	memset(line, 0, sizeof(*line));
	line->argv[line->argc++] = strdup("eventctl");
	while ((word = strsep(&rest, " ")) && line->argc < MAX_WORDS)
		line->argv[line->argc++] = strdup(word);
	free(copy);
	return args_parse(&line->args, line->argc, line->argv, line->error);
}

static void
drop(struct line *line)
{
	args_deinit(&line->args);
	for (int i = 0; i < line->argc; i++)
		free(line->argv[i]);
}

static void
test_options_stand_anywhere(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(
		parse(&line, "--json post --wait=handled a -q e --timeout 5s"),
		0);
	assert_string_equal(line.args.verb->name, "post");
	assert_int_equal(line.args.n_words, 2);
	assert_string_equal(line.args.words[0], "a");
	assert_string_equal(line.args.words[1], "e");
	assert_true(args_has(&line.args, OPT_JSON));
	assert_true(args_has(&line.args, OPT_QUIET));
	assert_false(args_has(&line.args, OPT_VERBOSE));
	assert_string_equal(args_value(&line.args, OPT_WAIT), "handled");
	assert_string_equal(args_value(&line.args, OPT_TIMEOUT), "5s");
	drop(&line);
}

static void
test_letters_go_together(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "bind -jvn5 a"), 0);
	assert_true(args_has(&line.args, OPT_JSON));
	assert_true(args_has(&line.args, OPT_VERBOSE));
	assert_string_equal(args_value(&line.args, OPT_COUNT), "5");
	drop(&line);
	assert_int_equal(parse(&line, "bind -n 7 a"), 0);
	assert_string_equal(args_value(&line.args, OPT_COUNT), "7");
	drop(&line);
}

static void
test_dashes_end_options(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "post a e -- --json"), 0);
	assert_int_equal(line.args.n_words, 3);
	assert_string_equal(line.args.words[2], "--json");
	assert_false(args_has(&line.args, OPT_JSON));
	drop(&line);
	assert_int_equal(parse(&line, "post a e -"), 0);
	assert_string_equal(line.args.words[2], "-");
	drop(&line);
	assert_int_equal(parse(&line, "post a e --data -5"), 0);
	assert_string_equal(args_value(&line.args, OPT_DATA), "-5");
	drop(&line);
	assert_int_equal(parse(&line, "post a e --data="), 0);
	assert_string_equal(args_value(&line.args, OPT_DATA), "");
	drop(&line);
}

static void
test_the_last_value_counts_and_all_are_there(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "post a e -H x=1 --header y=2"), 0);
	assert_string_equal(args_value(&line.args, OPT_HEADER), "y=2");
	assert_string_equal(args_value_at(&line.args, OPT_HEADER, 0), "x=1");
	assert_string_equal(args_value_at(&line.args, OPT_HEADER, 1), "y=2");
	assert_null(args_value_at(&line.args, OPT_HEADER, 2));
	drop(&line);
}

static void
refused(const char *text, const char *with)
{
	struct line line;

	assert_int_equal(parse(&line, text), -1);
	if (!strstr(line.error, with))
		fail_msg(
			"'%s': '%s' does not say '%s'", text, line.error, with);
	drop(&line);
}

static void
test_mistakes_are_named(void **state)
{
	(void)state;
	refused("pots a e", "did you mean post?");
	refused("xyzzy", "no verb 'xyzzy'");
	refused("--wait handled post a e", "--wait goes behind the verb");
	refused("--frob post a e", "no option '--frob'");
	refused("post a e --frob", "'--frob'");
	refused("post a e -5", "behind --data or --");
	refused("post a e -jZ", "'-Z'");
	refused("post a e --wait", "--wait wants LEVEL");
	refused("post a e --wait maybe", "accepted durable delivered handled");
	refused("post a e --json=yes", "--json takes no value");
	refused("post a", "usage: eventctl post ALIAS EVENT");
	refused("status a b", "'b' is one word too many");
	refused("reload x", "usage: eventctl reload");
	refused("ping --exec x", "'--exec'");
}

static void
test_options_before_a_mistake_are_there(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "--json nonsense"), -1);
	assert_true(args_has(&line.args, OPT_JSON));
	drop(&line);
}

static void
test_help_needs_no_words(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "post --help"), 0);
	drop(&line);
	assert_int_equal(parse(&line, "--help"), 0);
	assert_null(line.args.verb);
	drop(&line);
}

/* ---- the table ---- */

static void
test_no_verb_has_an_option_twice(void **state)
{
	const struct option_spec *spec;

	(void)state;
	for (const struct verb *v = verbs; v->name; v++) {
		for (const unsigned char *id = v->options; *id; id++) {
			spec = &option_specs[*id];
			assert_int_equal(verb_option(v, spec->name), *id);
			assert_int_equal(verb_option(NULL, spec->name), 0);
			if (spec->letter)
				assert_int_equal(
					verb_option_letter(v, spec->letter),
					*id);
		}
	}
}

static void
test_every_option_is_explained(void **state)
{
	(void)state;
	for (int id = OPT_END + 1; id < N_OPTIONS; id++) {
		assert_non_null(option_specs[id].name);
		assert_non_null(option_specs[id].help);
		if (option_specs[id].complete == COMPLETE_VALUES)
			assert_non_null(option_specs[id].values);
	}
	for (const struct verb *v = verbs; v->name; v++) {
		assert_non_null(v->run);
		assert_true(strlen(v->summary) < 52);
	}
}

static void
test_values_are_found_whole(void **state)
{
	(void)state;
	assert_int_equal(values_index("one two three", "one"), 0);
	assert_int_equal(values_index("one two three", "three"), 2);
	assert_int_equal(values_index("one two three", "thre"), -1);
	assert_int_equal(values_index("one two three", ""), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_stand_anywhere),
		cmocka_unit_test(test_letters_go_together),
		cmocka_unit_test(test_dashes_end_options),
		cmocka_unit_test(test_the_last_value_counts_and_all_are_there),
		cmocka_unit_test(test_mistakes_are_named),
		cmocka_unit_test(test_options_before_a_mistake_are_there),
		cmocka_unit_test(test_help_needs_no_words),
		cmocka_unit_test(test_no_verb_has_an_option_twice),
		cmocka_unit_test(test_every_option_is_explained),
		cmocka_unit_test(test_values_are_found_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
