#pragma once
/* Daemon: everything that is not one session's or one connection's: its
 * loops, its sockets, the sessions from files, reload and the end. The first
 * loop runs in the main thread, which owns all of this. */
#include "config.h"

/* What EX_* of sysexits.h stands for here; see EXIT STATUS in eventd(8). */
enum {
	DAEMON_EXIT_USAGE = 64,
	DAEMON_EXIT_DATA = 65, /* --salvage: not all of it could be read */
	DAEMON_EXIT_INTERNAL = 70,
	DAEMON_EXIT_OS = 71,
	DAEMON_EXIT_SOCKET = 73,
	DAEMON_EXIT_CONFIG = 78,
};

/* From now on a SIGHUP waits until daemon_run() can take it: it is a reload,
 * however early it comes, and never the end. */
void daemon_hold_hangups(void);

/**
 * daemon_run() - be the daemon until a signal ends it
 * @source: as given on the command line; kept for reloads
 * @config: loaded from it; taken over
 *
 * Return: the exit status of the process.
 */
int daemon_run(const struct config_source *source, struct config *config);
