/* json_check(): a recursive descent over RFC 8259 that builds nothing. The
 * depth is limited, so the stack is. Pure functions, any thread. */
#include <string.h>

#include "json.h"
#include "text.h"

static bool check_value(const char **p, int depth);

static void
skip_space(const char **p)
{
	*p += strspn(*p, " \t\n\r");
}

static bool
take(const char **p, const char *word)
{
	size_t size = strlen(word);

	if (strncmp(*p, word, size) != 0)
		return false;
	*p += size;
	return true;
}

static bool
check_escape(const char **p)
{
	if (**p && strchr("\"\\/bfnrt", **p)) {
		(*p)++;
		return true;
	}
	if (**p != 'u')
		return false;
	(*p)++;
	if (strspn(*p, "0123456789abcdefABCDEF") < 4)
		return false;
	*p += 4;
	return true;
}

static bool
check_string(const char **p)
{
	uint32_t code;
	size_t n;

	if (!take(p, "\""))
		return false;
	for (;;) {
		if (take(p, "\""))
			return true;
		if (take(p, "\\")) {
			if (!check_escape(p))
				return false;
			continue;
		}
		n = utf8_decode(*p, strnlen(*p, 4), &code);
		if (n == 0 || code < 0x20)
			return false;
		*p += n;
	}
}

static bool
check_digits(const char **p)
{
	size_t n = strspn(*p, "0123456789");

	*p += n;
	return n > 0;
}

static bool
check_number(const char **p)
{
	take(p, "-");
	if (!take(p, "0") && !check_digits(p))
		return false;
	if (take(p, ".") && !check_digits(p))
		return false;
	if (!take(p, "e") && !take(p, "E"))
		return true;
	if (!take(p, "+"))
		take(p, "-");
	return check_digits(p);
}

static bool
check_member(const char **p, int depth)
{
	skip_space(p);
	if (!check_string(p))
		return false;
	skip_space(p);
	return take(p, ":") && check_value(p, depth);
}

static bool
check_container(const char **p, int depth, bool object)
{
	const char *end = object ? "}" : "]";

	skip_space(p);
	if (take(p, end))
		return true;
	do {
		if (object ? !check_member(p, depth) : !check_value(p, depth))
			return false;
		skip_space(p);
	} while (take(p, ","));
	return take(p, end);
}

static bool
check_value(const char **p, int depth)
{
	if (depth == 0)
		return false;
	skip_space(p);
	if (take(p, "{"))
		return check_container(p, depth - 1, true);
	if (take(p, "["))
		return check_container(p, depth - 1, false);
	if (**p == '"')
		return check_string(p);
	if (take(p, "true") || take(p, "false") || take(p, "null"))
		return true;
	return check_number(p);
}

bool
json_check(const char *text, size_t *at)
{
	const char *p = text;
	bool ok = check_value(&p, JSON_MAX_DEPTH);

	if (ok) {
		skip_space(&p);
		ok = *p == '\0';
	}
	if (at)
		*at = (size_t)(p - text);
	return ok;
}
