#pragma once
/* Hints: what someone who got an error can do about it. Pure functions but for
 * a look at the socket's file. */
#include <stdbool.h>
#include <stddef.h>

enum {
	HINT_SIZE = 512,
};

/* For an answer of the daemon. @subject: the alias or id, may be NULL.
 * Empty if there is nothing to say. */
void hint_for_status(int status, const char *subject, char hint[HINT_SIZE]);
/* For a connection that could not be made. @err: errno. @user: it is the
 * daemon of the user that was asked for. */
void hint_for_connect(
	int err, const char *path, bool user, char hint[HINT_SIZE]);
