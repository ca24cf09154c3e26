/* Hints: see hint.h. */
#include "hint.h"

#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <eventd/status.h>

static void
put(char hint[HINT_SIZE], const char *text)
{
	snprintf(hint, HINT_SIZE, "%s", text);
}

/* "eventctl VERB SUBJECT DOES" */
static void
put_verb(char hint[HINT_SIZE], const char *verb, const char *subject,
	const char *does)
{
	snprintf(hint, HINT_SIZE, "eventctl %s%s%s %s", verb,
		subject ? " " : "", subject ? subject : "", does);
}

static void
hint_timeout(const char *subject, char hint[HINT_SIZE])
{
	snprintf(hint, HINT_SIZE, "--timeout SPAN waits longer%s%s%s",
		subject ? ", eventctl status " : "", subject ? subject : "",
		subject ? " shows how it is" : "");
}

void
hint_for_status(int status, const char *subject, char hint[HINT_SIZE])
{
	*hint = '\0';
	switch (status) {
	case EVD_STATUS_NO_ALIAS:
		put(hint, "eventctl list shows what there is");
		break;
	case EVD_STATUS_TAKEN:
		put_verb(hint, "status", subject, "shows who holds it");
		break;
	case EVD_STATUS_FULL:
		put_verb(hint, "status", subject, "shows its mailbox");
		break;
	case EVD_STATUS_DIED:
		put_verb(hint, "status", subject, "shows how it is");
		break;
	case EVD_STATUS_FAILED:
		snprintf(hint, HINT_SIZE,
			"eventctl status %s shows why, eventctl restart %s "
			"starts it",
			subject ? subject : "ALIAS",
			subject ? subject : "ALIAS");
		break;
	case EVD_STATUS_TIMEOUT:
		hint_timeout(subject, hint);
		break;
	case EVD_STATUS_NOT_FOUND:
		put(hint, "eventctl timers lists them");
		break;
	case EVD_STATUS_UNSUPPORTED:
		put(hint, "eventctl version shows how old the daemon is");
		break;
	case EVD_STATUS_CONFIG:
		put(hint, "the old configuration stays");
		break;
	default:
		break;
	}
}

static void
hint_not_running(const char *path, bool user, char hint[HINT_SIZE])
{
	if (user)
		put(hint, "systemctl --user start eventd.socket");
	else if (strcmp(path, "/run/eventd/eventd.sock") == 0)
		put(hint, "systemctl start eventd.socket");
	else
		put(hint, "--socket PATH or $EVENTD_SOCKET choose another");
}

static void
hint_no_right(const char *path, char hint[HINT_SIZE])
{
	struct stat st;
	const struct group *group = NULL;

	if (stat(path, &st) < 0) {
		put(hint, "a directory above it is closed to you");
		return;
	}
	if (st.st_mode & S_IWGRP)
		group = getgrgid(st.st_gid);
	if (group && st.st_gid != 0)
		snprintf(hint, HINT_SIZE,
			"members of the group %s may: adduser USER %s, then "
			"log in again",
			group->gr_name, group->gr_name);
	else
		snprintf(hint, HINT_SIZE, "only its owner, uid %ju, may",
			(uintmax_t)st.st_uid);
}

void
hint_for_connect(int err, const char *path, bool user, char hint[HINT_SIZE])
{
	*hint = '\0';
	switch (err) {
	case ENOENT:
	case ECONNREFUSED:
		hint_not_running(path, user, hint);
		break;
	case EACCES:
	case EPERM:
		hint_no_right(path, hint);
		break;
	case ETIMEDOUT:
		put(hint, "--timeout SPAN waits longer");
		break;
	case EPROTO:
		put(hint,
			"is that eventd's socket, and is it of this version?");
		break;
	default:
		break;
	}
}
