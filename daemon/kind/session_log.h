#pragma once
/* What all kinds say of a session: a log line of its own, its first alias.
 * The home's thread. */
#include <stddef.h>

struct log_site;
struct session;

/* Log @size bytes of @text at a syslog @level, as event "session.log" with the
 * session's name. What is no printable text is escaped. @site is the session's:
 * a noisy one uses up its own allowance only. */
void session_log(struct session *s, struct log_site *site, int level,
	const char *text, size_t size);
/* "" if it has none. */
const char *session_first_alias(const struct session *s);
