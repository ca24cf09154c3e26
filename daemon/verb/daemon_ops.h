#pragma once
/* What the verbs reload and status ask of the daemon that hosts them: an ops
 * table, since daemon.c stands above verb/. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;

/* Which session files a reload adds, changes and removes. */
struct reload_diff {
	char **added, **changed, **removed; /* names, n_* of them */
	size_t n_added, n_changed, n_removed, n_unchanged;
};
void reload_diff_deinit(struct reload_diff *diff);

struct daemon_ops {
	/**
	 * reload - read the configuration again and apply what changed
	 * @sched:   of the caller; any loop's thread
	 * @preview: only tell
	 * @done:    called once, on the caller's thread, maybe at once: status
	 *           0 and @diff, or EVD_STATUS_CONFIG (or another) and a text
	 *           with file, line and hint; the old configuration stays
	 */
	void (*reload)(void *daemon, struct sched *sched, bool preview,
		void (*done)(void *arg, int status, const char *text,
			const struct reload_diff *diff),
		void *arg);
};
