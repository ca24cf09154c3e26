#include "kind/session_log.h"

#include <stdio.h>

#include "base/log.h"
#include "kernel/alias.h"
#include "kernel/session.h"

enum { TEXT_MAX = 2048 };

/* Quotes, backslashes and control characters as escapes, cut at the end. */
static void
escape(char out[TEXT_MAX], const char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size && n + 8 < TEXT_MAX; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\n') {
			out[n++] = '\\';
			out[n++] = 'n';
		} else if (c < ' ' || c == 0x7f) {
			n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
		} else {
			if (c == '"' || c == '\\')
				out[n++] = '\\';
			out[n++] = (char)c;
		}
	}
	out[n] = '\0';
}

static enum log_level
level_of(int level)
{
	if (level <= LOG_L_ERR)
		return LOG_L_ERR;
	if (level == LOG_L_WARN)
		return LOG_L_WARN;
	return level >= LOG_L_DEBUG ? LOG_L_DEBUG : LOG_L_INFO;
}

void
session_log(struct session *s, struct log_site *site, int level,
	const char *text, size_t size)
{
	char escaped[TEXT_MAX];
	enum log_level l = level_of(level);

	if (l > log_level_now)
		return;
	escape(escaped, text, size);
	log_at(site, l, "session.log", "session=%s text=\"%s\"",
		session_name(s), escaped);
}

const char *
session_first_alias(const struct session *s)
{
	const struct alias *alias = s->aliases;

	if (!alias)
		return "";
	while (alias->sibling) /* the last in the chain came first */
		alias = alias->sibling;
	return alias->name;
}
