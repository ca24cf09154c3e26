#pragma once
/* What the verbs reload and status ask of the daemon that hosts them: an ops
 * table, since daemon.c stands above verb/. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;
struct sched;
struct session_spec;

/* Which session files a reload adds, changes and removes. */
struct reload_diff {
	char **added, **changed, **removed; /* names, n_* of them */
	size_t n_added, n_changed, n_removed, n_unchanged;
};
void reload_diff_deinit(struct reload_diff *diff);

enum { SPAWN_NAMES_MAX = 1000 }; /* aliases, and parameters */

/* A session to be made, as a client describes it: by a file, or by a script or
 * plugin and names; in either case with these parameters. All absolute paths;
 * borrowed. */
struct session_order {
	const char *file, *script, *plugin; /* one of them, the others "" */
	char **aliases;
	size_t n_aliases;
	const char **keys, **values; /* of [Params] */
	size_t n_params;
	uint32_t if_taken;  /* enum claim_mode */
	bool allow_replace; /* others may take its aliases */
};

/* How the store stands. */
struct store_report {
	const char *state; /* "ok", "degraded", "broken", "off" */
	char text[256];    /* why not ok */
	uint64_t size, mailboxes, events, commits, failed, last_ns, max_ns;
	uint64_t damaged, checked;
	uint64_t freed, lost;
	bool lost_unknown;
};
/* What is wanted of the store; borrowed. */
struct store_ask {
	int op; /* of the wire */
	const char *path, *to;
};
typedef void (*store_done_fn)(
	void *arg, int status, const char *text, const struct store_report *r);

/* @m: NULL, the daemon ends. */
typedef void (*memory_done_fn)(void *arg, const struct memory *m);

struct daemon_ops {
	/**
	 * memory - what the process's memory is made of
	 * @done: called once, on the caller's thread, maybe at once
	 */
	void (*memory)(void *daemon, struct sched *sched, memory_done_fn done,
		void *arg);
	/**
	 * store - tell of the store, check it, copy it, make it smaller, or
	 *         read what is left of a damaged one
	 * @done: called once, on the caller's thread, maybe at once
	 */
	void (*store)(void *daemon, struct sched *sched,
		const struct store_ask *what, store_done_fn done, void *arg);
	/**
	 * describe - read what a session needs and check it
	 * @sched: of the caller; its thread
	 * @order: copied
	 * @done:  called once, on the caller's thread, maybe at once: @spec,
	 *         a reference for it, and status 0; or NULL, a status and a
	 *         text with what is wrong where
	 */
	void (*describe)(void *daemon, struct sched *sched,
		const struct session_order *order,
		void (*done)(void *arg, int status, const char *text,
			struct session_spec *spec),
		void *arg);
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
