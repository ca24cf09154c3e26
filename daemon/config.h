#pragma once
/* Configuration: eventd.conf with its drop-ins, and the session files, as one
 * value that is loaded as a whole or not at all.
 *
 * Loading reads files: not on a loop's thread, but for the start. A loaded
 * configuration is not changed any more. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "config_file.h"
#include "config_pool.h"
#include "kernel/kernel.h"
#include "kernel/spec.h"

struct limits;
struct policy;

enum {
	CONFIG_SOCKET_MAX = 107, /* bytes of a socket's path, without NUL */
	CONFIG_LOOPS_AUTO = 0,   /* Loops=auto: one for each CPU */
	CONFIG_LOOPS_OPTION_AUTO = -1, /* --loops auto */
};

/* Where to look, and what the command line overrides. */
struct config_source {
	const char *file;       /* --config; NULL: the default places */
	bool user;              /* the user's instance */
	const char *etc;        /* NULL: /etc/eventd or the user's */
	const char *vendor;     /* NULL: /usr/lib/eventd, none for a user */
	const char *socket;     /* --socket or NULL */
	int loops;              /* --loops; 0: not given */
	const char *log_level;  /* --log-level or NULL */
	bool no_store;          /* --no-store */
	unsigned running_loops; /* a reload: what Loop= may name; or 0 */
};

struct config {
	struct kernel_limits limits;
	uint32_t loops;
	char *socket;
	bool socket_is_default;
	bool user; /* a user's instance */
	uint32_t socket_mode;
	uint32_t log_level; /* row of config_log_levels */
	uint32_t max_connections;
	uint32_t hello_timeout_ms;
	uint32_t max_memfd; /* bytes; 0: none are taken */
	uint32_t window_posts;
	uint64_t window_bytes;
	uint32_t stop_timeout_ms;
	uint64_t coroutine_stack;  /* bytes of one */
	uint32_t coroutine_stacks; /* that are kept when free */
	uint32_t busy_us;          /* BusyPoll= */
	struct config_pool *pools; /* n_pools of them */
	size_t n_pools;
	char *sessions_dir; /* SessionsDirectory=, or NULL */
	/* [Store] */
	char *store_path;       /* Path=; NULL: by default */
	uint64_t store_max;     /* bytes; 0: as the disk allows */
	uint32_t store_sync_ms; /* Sync=; 0: before each ack */
	uint32_t store_refuse;  /* OnCorrupt=refuse */
	char *file;             /* the eventd.conf that was read, or NULL */
	struct session_spec **specs; /* n_specs, by name */
	size_t n_specs;
	struct policy *policy;      /* [Access], finished */
	struct limits *user_limits; /* [Limits]; NULL: taken out */
	uint32_t n_files;           /* read of eventd.conf and its drop-ins */
	struct config_errors warnings; /* what is read past */
};

/**
 * config_load() - read and check everything
 * @source: where
 * @out:    set on success only; config_free() it
 * @errors: zeroed by the caller; what is wrong
 *
 * Return: 0; or negative errno, with at least one line in @errors (-EINVAL:
 * the files are wrong).
 */
int config_load(const struct config_source *source, struct config **out,
	struct config_errors *errors);
struct config *config_free(struct config *config);
/* Log what was read past. */
void config_warn(const struct config *config);
enum log_level config_log_level(const struct config *config);

/* Keys of [Daemon] in which two configurations differ though they cannot
 * change while the daemon runs: "Loops=, Socket=" for a warning, cut if it
 * does not fit; "" if none. */
void config_fixed_diff(
	const struct config *a, const struct config *b, char *out, size_t size);

extern const struct config_table config_table_daemon;
extern const struct config_table config_table_session;
