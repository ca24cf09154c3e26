#pragma once
/* The command line, taken apart by the table of verbs. One thread. */
#include <stdbool.h>
#include <stddef.h>

#include "verb.h"

enum {
	ARGS_ERROR_SIZE = 512,
};

struct arg {
	enum option_id id;
	const char *value; /* NULL if it takes none; borrowed from argv */
};

struct args {
	const struct verb *verb; /* NULL: none was named */
	struct arg *options;     /* in the order given */
	size_t n_options;
	const char **words; /* behind the verb, no options */
	size_t n_words;
};

/* Options may stand anywhere until "--". Returns 0, or -1: @error says what is
 * wrong; the options before the mistake are there. Free it in any case. */
int args_parse(struct args *args, int argc, char *argv[],
	char error[static ARGS_ERROR_SIZE]);
void args_deinit(struct args *args);

bool args_has(const struct args *args, enum option_id id);
/* The value given last; NULL: not given. */
const char *args_value(const struct args *args, enum option_id id);
/* The value given as number @i of that option; NULL past the last. */
const char *args_value_at(const struct args *args, enum option_id id, size_t i);
