/* Pairs: see pairs.h. One thread. */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "text.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* Length of the name that @word begins with; 0: none. */
static size_t
name_size(const char *word)
{
	if (strspn(word, LETTERS) == 0)
		return 0;
	return strspn(word, LETTERS "0123456789-.");
}

bool
pair_is(const char *word)
{
	size_t n = name_size(word);

	return n > 0 && (word[n] == '=' || strncmp(word + n, ":=", 2) == 0);
}

static bool
same_name(const char *a, const char *b)
{
	size_t n = name_size(a);

	return n == name_size(b) && memcmp(a, b, n) == 0;
}

/* Does @words say what JSON can hold, each name once? 0, or an exit code. */
static int
check_word(struct ctl *ctl, const char *const *words, size_t i)
{
	const char *value = words[i] + name_size(words[i]);
	size_t at;

	for (size_t k = 0; k < i; k++)
		if (same_name(words[k], words[i]))
			return ctl_usage(ctl, "%.*s is given twice",
				(int)name_size(words[i]), words[i]);
	if (*value == ':' && !json_check(value + 2, &at))
		return ctl_fail(ctl, EVD_STATUS_BAD_DATA,
			"%s is not JSON from character %zu on", value + 2,
			at + 1);
	if (*value == '=' && !utf8_is_valid(value + 1, strlen(value + 1)))
		return ctl_fail(ctl, EVD_STATUS_BAD_DATA,
			"the value of %.*s is not UTF-8, as JSON must be",
			(int)name_size(words[i]), words[i]);
	return 0;
}

static void
write_pair(struct json *j, const char *word)
{
	size_t n = name_size(word);
	char *name = strndup(word, n);

	if (!name)
		return;
	if (word[n] == '=')
		json_string(j, name, word + n + 1);
	else
		json_verbatim(j, name, word + n + 2);
	free(name);
}

int
pairs_to_json(struct ctl *ctl, const char *const *words, size_t n, char **data,
	size_t *size)
{
	struct json j;
	FILE *f;
	int r;

	for (size_t i = 0; i < n; i++) {
		r = check_word(ctl, words, i);
		if (r)
			return r;
	}
	f = open_memstream(data, size);
	if (!f)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	json_init(&j, f);
	json_object(&j, NULL);
	for (size_t i = 0; i < n; i++)
		write_pair(&j, words[i]);
	json_object_end(&j);
	if (fclose(f) != 0)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	return 0;
}
