#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "config_access.h"
#include "config_life.h"
#include "config_limits.h"
#include "config_session.h"
#include "config_value.h"
#include "coro/stacks.h"
#include "kernel/users.h"
#include "ordering.h"
#include "policy/policy.h"
#include "proto/envelope.h"
#include "proto/passing.h"

enum { FILES_MAX = 1 << 20 };

/* ---- [Daemon] ---------------------------------------------------------- */

static const char *const log_words[] = {
	"error", "warning", "info", "debug", NULL};
static const char *const yes_words[] = {"no", "yes", NULL};
static const char *const corrupt_words[] = {"quarantine", "refuse", NULL};
static const char *const daemon_sections[] = {
	"Daemon", "Store", "Access", "Pool", "Limits", NULL};
static const char *const argued_sections[] = {"Access", "Pool", "Limits", NULL};

static void
set_loops(
	struct config_file *f, const struct config_key *key, const char *value)
{
	if (strcmp(value, "auto") == 0)
		config_store(f, key, CONFIG_LOOPS_AUTO);
	else
		config_set_count(f, key, value);
}

static void
set_sync(struct config_file *f, const struct config_key *key, const char *value)
{
	if (strcmp(value, "always") == 0)
		config_store(f, key, 0);
	else
		config_set_span(f, key, value);
}

/* A word why @path cannot be a socket's, or NULL. */
static const char *
socket_fault(const char *path)
{
	if (path[0] != '/')
		return "needs an absolute path";
	if (strlen(path) > CONFIG_SOCKET_MAX)
		return "is too long";
	return path[strlen(path) - 1] == '/' ? "needs a file's name" : NULL;
}

static void
set_socket(
	struct config_file *f, const struct config_key *key, const char *value)
{
	const char *fault = socket_fault(value);

	if (fault)
		config_file_error(f, f->at,
			"%s= %s: '%s' has %zu bytes, of at most %d", key->name,
			fault, value, strlen(value), CONFIG_SOCKET_MAX);
	else
		config_set_path(f, key, value);
}

static void
set_busy(struct config_file *f, const struct config_key *key, const char *value)
{
	struct config *c = f->target;

	config_set_busy(f, key->name, value, &c->busy_us);
}

#define HOUR_MS (3600 * UINT64_C(1000))
#define KEY(key, how, field, ...) KEY_IN("Daemon", key, how, field, __VA_ARGS__)
#define KEY_IN(in, key, how, field, ...)                                  \
	{                                                                 \
		.section = (in), .name = (key), .set = (how),             \
		.offset = offsetof(struct config, field),                 \
		.width = sizeof(((struct config *)0)->field), __VA_ARGS__ \
	}
#define COUNT(key, field, least, most) \
	KEY(key, config_set_count, field, .min = (least), .max = (most))
#define SIZE(key, field, least, most) \
	KEY(key, config_set_size, field, .min = (least), .max = (most))
#define SPAN(key, field, least, most) \
	KEY(key, config_set_span, field, .min = (least), .max = (most))

static const struct config_key daemon_keys[] = {
	KEY("Loops", set_loops, loops, .min = 1, .max = KERNEL_LOOPS_MAX),
	KEY("Socket", set_socket, socket, .min = 0),
	KEY("SocketMode", config_set_mode, socket_mode, .min = 0),
	KEY("LogLevel", config_set_word, log_level, .words = log_words),
	KEY("SessionsDirectory", config_set_path, sessions_dir, .min = 0),
	COUNT("MaxConnections", max_connections, 1, 1000000),
	COUNT("MaxSessions", limits.max_sessions, 1,
		(1 << SESSION_SLOT_BITS) - 1),
	COUNT("MaxTimers", limits.max_timers, 1, 10000000),
	COUNT("MaxCalls", limits.max_calls, 1, 10000000),
	COUNT("MaxWatches", limits.max_watches, 1, 10000000),
	SIZE("MaxPayload", limits.max_payload, 1024, 256 << 20),
	SIZE("MaxMemfd", max_memfd, 0, MEMFD_MAX),
	COUNT("DeadLetters", limits.dead_letters, 0, 20000),
	SIZE("DeadLetterBytes", limits.dead_bytes, 0, UINT64_C(1) << 40),
	SIZE("History", limits.history, 0, 256 << 20),
	COUNT("Budget", limits.budget, 1, 1000000),
	COUNT("TurnBudget", limits.turn_budget, 1, 1000000),
	KEY("Profile", config_set_word, limits.profile, .words = yes_words),
	SPAN("CallTimeout", limits.call_timeout_ms, 1, 24 * HOUR_MS),
	SPAN("DedupWindow", limits.dedup_ms, 0, 24 * HOUR_MS),
	COUNT("MaxKeys", limits.max_keys, 1, 1000000),
	SPAN("HelloTimeout", hello_timeout_ms, 1, HOUR_MS),
	COUNT("WindowPosts", window_posts, 1, 1000000),
	SIZE("WindowBytes", window_bytes, 1024, UINT64_C(1) << 40),
	SPAN("StopTimeout", stop_timeout_ms, 0, HOUR_MS),
	KEY_IN("Store", "Path", config_set_path, store_path, .min = 0),
	KEY_IN("Store", "MaxSize", config_set_size, store_max, .min = 1 << 20,
		.max = UINT64_C(1) << 44),
	KEY_IN("Store", "Sync", set_sync, store_sync_ms, .min = 1,
		.max = HOUR_MS),
	KEY_IN("Store", "OnCorrupt", config_set_word, store_refuse,
		.words = corrupt_words),
	SIZE("CoroutineStack", coroutine_stack, CORO_STACK_MIN, CORO_STACK_MAX),
	COUNT("CoroutineStacks", coroutine_stacks, 0, 10000000),
	KEY("BusyPoll", set_busy, busy_us, .min = 0),
};

enum { N_DAEMON_KEYS = sizeof(daemon_keys) / sizeof(*daemon_keys) };
_Static_assert(sizeof(daemon_keys) / sizeof(*daemon_keys) <= CONFIG_KEYS_MAX,
	"config_file.seen has a place for every key");

static void
set_argued(struct config_file *f, const char *section, const char *words,
	const char *key, const char *value)
{
	if (strcmp(section, "Pool") == 0)
		config_pool_set(f, words, key, value);
	else if (strcmp(section, "Limits") == 0)
		config_limits_set(f, words, key, value);
	else
		config_access_set(f, words, key, value);
}

const struct config_table config_table_daemon = {
	.name = "eventd.conf, see eventd.conf(5)",
	.keys = daemon_keys,
	.n_keys = N_DAEMON_KEYS,
	.sections = daemon_sections,
	.argued_sections = argued_sections,
	.set_argued = set_argued,
	.other = &config_table_session,
};

enum log_level
config_log_level(const struct config *config)
{
	static const enum log_level levels[] = {
		LOG_L_ERR, LOG_L_WARN, LOG_L_INFO, LOG_L_DEBUG};

	return levels[config->log_level];
}

void
config_warn(const struct config *config)
{
	for (size_t i = 0; i < config->warnings.n; i++)
		log_warn("config.warning", "reason=\"%s\"",
			config->warnings.lines[i]);
}

static struct config *
config_new(void)
{
	struct config *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->limits = kernel_limits_default;
	c->loops = 1;
	c->socket_mode = 0660;
	c->log_level = 2;
	c->max_connections = 10000;
	c->hello_timeout_ms = 10000;
	c->max_memfd = 32 << 20;
	c->window_posts = 4096;
	c->window_bytes = 8 << 20;
	c->stop_timeout_ms = 5000;
	c->coroutine_stack = CORO_STACK_SIZE;
	c->coroutine_stacks = CORO_STACKS_KEEP;
	return c;
}

struct config *
config_free(struct config *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_specs; i++)
		spec_unref(c->specs[i]);
	free(c->specs);
	config_pools_free(c);
	free(c->socket);
	free(c->sessions_dir);
	free(c->store_path);
	free(c->file);
	policy_unref(c->policy);
	limits_free(c->user_limits);
	config_errors_deinit(&c->warnings);
	free(c);
	return NULL;
}

/* What may change while the daemon runs. */
static bool
key_is_live(const struct config_key *key)
{
	static const char *const live[] = {"BusyPoll", "HelloTimeout",
		"MaxConnections", "MaxMemfd", "SessionsDirectory",
		"StopTimeout", "WindowBytes", "WindowPosts"};

	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		if (strcmp(key->name, live[i]) == 0)
			return true;
	return false;
}

static bool
key_differs(const struct config_key *key, const struct config *a,
	const struct config *b)
{
	const char *x = (const char *)a + key->offset;
	const char *y = (const char *)b + key->offset;
	char *p, *q;

	if (key->set != set_socket && key->set != config_set_path)
		return memcmp(x, y, key->width) != 0;
	memcpy(&p, x, sizeof(p));
	memcpy(&q, y, sizeof(q));
	return strcmp(p ? p : "", q ? q : "") != 0;
}

void
config_fixed_diff(
	const struct config *a, const struct config *b, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < N_DAEMON_KEYS; i++) {
		const struct config_key *key = &daemon_keys[i];

		if (!key_is_live(key) && key_differs(key, a, b) && used < size)
			used += (size_t)snprintf(out + used, size - used,
				"%s%s=", used ? ", " : "", key->name);
	}
}

/* ---- places ------------------------------------------------------------ */

/* One load: the directories, each NULL if there is none. */
struct loading {
	const struct config_source *source;
	struct config_errors *errors;
	struct config *config;
	char *etc, *vendor;
};

/* "@a/@b" into *@out. */
static int
join(const char *a, const char *b, char **out)
{
	if (asprintf(out, "%s/%s", a, b) >= 0)
		return 0;
	*out = NULL;
	return err_raise(-ENOMEM);
}

static int
directory_of(const char *file, char **out)
{
	const char *slash = strrchr(file, '/');

	if (!slash)
		*out = strdup(".");
	else
		*out = strndup(
			file, slash == file ? 1 : (size_t)(slash - file));
	return *out ? 0 : err_raise(-ENOMEM);
}

static int
user_directory(struct loading *l)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (base && base[0] == '/')
		return join(base, "eventd", &l->etc);
	if (home && home[0] == '/')
		return join(home, ".config/eventd", &l->etc);
	config_errors_add(l->errors,
		"neither XDG_CONFIG_HOME nor HOME is set: --user does not "
		"know where your configuration is; set one or give --config");
	return err_raise(-EINVAL);
}

static int
find_places(struct loading *l)
{
	const struct config_source *s = l->source;

	if (s->file)
		return directory_of(s->file, &l->etc);
	if (s->etc)
		l->etc = strdup(s->etc);
	else if (!s->user)
		l->etc = strdup("/etc/eventd");
	else
		return user_directory(l);
	if (s->vendor || !s->user)
		l->vendor = strdup(s->vendor ? s->vendor : "/usr/lib/eventd");
	return l->etc && (l->vendor || s->user) ? 0 : err_raise(-ENOMEM);
}

/* ---- directories of .conf files ---------------------------------------- */

struct conf_list {
	struct conf_entry {
		char *name; /* with .conf */
		char *path;
		bool masked; /* it is empty or /dev/null: hides the vendor's */
	} * items;
	size_t n;
};

static void
list_deinit(struct conf_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->items[i].name);
		free(list->items[i].path);
	}
	free(list->items);
	*list = (struct conf_list){0};
}

static bool
name_is_conf(const char *name)
{
	size_t size = strlen(name);

	return size > 5 && name[0] != '.' &&
	       strcmp(name + size - 5, ".conf") == 0;
}

static bool
path_is_mask(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode))
		return st.st_rdev == makedev(1, 3); /* /dev/null */
	return S_ISREG(st.st_mode) && st.st_size == 0;
}

static bool
list_has(const struct conf_list *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list->items[i].name, name) == 0)
			return true;
	return false;
}

static int
list_add(struct conf_list *list, const char *dir, const char *name)
{
	struct conf_entry *bigger, item = {.name = strdup(name)};
	size_t n = list->n;
	int r = join(dir, name, &item.path);

	bigger = list->items;
	if ((n & (n - 1)) == 0)
		bigger = reallocarray(bigger, n ? n * 2 : 1, sizeof(*bigger));
	if (bigger)
		list->items = bigger;
	if (r || !bigger || !item.name) {
		free(item.name);
		free(item.path);
		return err_raise(-ENOMEM);
	}
	item.masked = path_is_mask(item.path);
	list->items[list->n++] = item;
	return 0;
}

/* Add what is in @dir, but for names that a directory before it has. */
static int
list_read(struct loading *l, struct conf_list *list, const char *dir)
{
	size_t before = list->n;
	struct dirent *entry;
	DIR *d = opendir(dir);
	int r = 0;

	if (!d) {
		if (errno == ENOENT)
			return 0;
		config_errors_add(l->errors, "%s: cannot be read: %s", dir,
			strerror(errno));
		return errno == ENOMEM ? err_raise(-ENOMEM) : 0;
	}
	while (!r && (entry = readdir(d)) && list->n < FILES_MAX)
		if (name_is_conf(entry->d_name) &&
			!list_has(list, before, entry->d_name))
			r = list_add(list, dir, entry->d_name);
	closedir(d);
	return r;
}

static int
entry_compare(const void *a, const void *b)
{
	const struct conf_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* All of @sub in our directory and the vendor's, in the order of names. */
static int
list_make(struct loading *l, const char *sub, struct conf_list *list)
{
	const char *const roots[] = {l->etc, l->vendor};
	int r = 0;

	for (size_t i = 0; i < 2 && !r; i++) {
		char *dir;

		if (!roots[i])
			continue;
		r = join(roots[i], sub, &dir);
		if (!r)
			r = list_read(l, list, dir);
		free(dir);
	}
	if (list->n > 1)
		qsort(list->items, list->n, sizeof(*list->items),
			entry_compare);
	return r;
}

/* ---- eventd.conf ------------------------------------------------------- */

/* Read one of the daemon's files; -ENOENT is passed up untold. */
static int
daemon_file_read(struct loading *l, const char *path)
{
	struct config_file f = {.path = path,
		.table = &config_table_daemon,
		.target = l->config,
		.errors = l->errors};

	l->config->n_files++;
	return config_file_read(&f);
}

/* The first of the two that is there; its name is kept. */
static int
main_file_read(struct loading *l)
{
	const char *const roots[] = {l->etc, l->vendor};
	int r = -ENOENT;

	for (size_t i = 0; i < 2 && r == -ENOENT; i++) {
		char *path;

		if (!roots[i])
			continue;
		if (join(roots[i], "eventd.conf", &path))
			return -ENOMEM;
		r = path_is_mask(path) ? 0 : daemon_file_read(l, path);
		if (r == -ENOENT) {
			free(path);
			continue;
		}
		l->config->file = path;
	}
	return r == -ENOENT ? 0 : r;
}

static int
given_file_read(struct loading *l)
{
	int r = daemon_file_read(l, l->source->file);

	if (r == -ENOENT)
		config_errors_add(l->errors, "%s: cannot be read: %s",
			l->source->file, strerror(ENOENT));
	l->config->file = strdup(l->source->file);
	return l->config->file ? r : err_raise(-ENOMEM);
}

static int
drop_ins_read(struct loading *l)
{
	struct conf_list list = {0};
	int r = list_make(l, "eventd.conf.d", &list);

	for (size_t i = 0; i < list.n && r != -ENOMEM; i++)
		if (!list.items[i].masked)
			r = daemon_file_read(l, list.items[i].path);
	list_deinit(&list);
	return r == -ENOMEM ? r : 0;
}

/* ---- overrides and defaults -------------------------------------------- */

static int
default_socket(struct loading *l)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *fault;

	l->config->socket_is_default = true;
	if (!l->source->user) {
		l->config->socket = strdup("/run/eventd/eventd.sock");
		return l->config->socket ? 0 : err_raise(-ENOMEM);
	}
	if (!runtime || runtime[0] != '/') {
		config_errors_add(l->errors,
			"XDG_RUNTIME_DIR is not set: --user does not know "
			"where your socket is; log in by PAM or give --socket");
		return 0;
	}
	if (join(runtime, "eventd/eventd.sock", &l->config->socket))
		return -ENOMEM;
	fault = socket_fault(l->config->socket);
	if (fault)
		config_errors_add(l->errors,
			"the socket %s %s: it has %zu bytes, of at most %d; "
			"give a shorter --socket",
			l->config->socket, fault, strlen(l->config->socket),
			CONFIG_SOCKET_MAX);
	return 0;
}

static int
option_socket(struct loading *l)
{
	const char *path = l->source->socket, *fault = socket_fault(path);

	if (fault)
		config_errors_add(l->errors,
			"--socket %s: '%s' has %zu bytes, of at most %d", fault,
			path, strlen(path), CONFIG_SOCKET_MAX);
	free(l->config->socket);
	l->config->socket = strdup(path);
	return l->config->socket ? 0 : err_raise(-ENOMEM);
}

static void
option_log_level(struct loading *l, const char *word)
{
	for (uint32_t i = 0; log_words[i]; i++) {
		if (strcmp(log_words[i], word) == 0) {
			l->config->log_level = i;
			return;
		}
	}
	config_errors_add(l->errors,
		"--log-level may be error, warning, info or debug, not '%s'",
		word);
}

static void
count_loops(struct loading *l)
{
	struct config *c = l->config;
	long n;

	if (l->source->loops == CONFIG_LOOPS_OPTION_AUTO)
		c->loops = CONFIG_LOOPS_AUTO;
	else if (l->source->loops)
		c->loops = (uint32_t)l->source->loops;
	if (c->loops != CONFIG_LOOPS_AUTO)
		return;
	n = sysconf(_SC_NPROCESSORS_ONLN);
	c->loops = n < 1                  ? 1
		   : n > KERNEL_LOOPS_MAX ? KERNEL_LOOPS_MAX
					  : (uint32_t)n;
}

static int
finish_daemon(struct loading *l)
{
	struct config *c = l->config;
	int r = 0;

	c->user = l->source->user;
	if (l->source->socket)
		r = option_socket(l);
	else if (!c->socket)
		r = default_socket(l);
	if (l->source->log_level)
		option_log_level(l, l->source->log_level);
	count_loops(l);
	limits_finish(c->user_limits, c->max_connections, c->hello_timeout_ms);
	if (!r)
		r = config_pools_finish(c);
	if (c->window_bytes < c->limits.max_payload)
		config_errors_add(l->errors,
			"%s: WindowBytes= (%llu) is below MaxPayload= (%u): "
			"the largest post would never fit",
			c->file ? c->file : "eventd.conf",
			(unsigned long long)c->window_bytes,
			c->limits.max_payload);
	return r;
}

/* ---- sessions ---------------------------------------------------------- */

/* @file without its .conf, if it can be a session's name. */
static char *
session_name_of(struct loading *l, const struct conf_entry *file)
{
	size_t size = strlen(file->name) - 5;

	if (name_is_valid(file->name, size, ENVELOPE_ALIAS_MAX))
		return strndup(file->name, size);
	config_errors_add(l->errors,
		"%s/: a file there cannot name a session: its name has A-Z "
		"a-z 0-9 _ . - alone before .conf",
		l->config->sessions_dir ? l->config->sessions_dir
					: "sessions.d");
	return NULL;
}

static int
session_read(struct loading *l, struct config_aliases *aliases,
	const struct conf_entry *file)
{
	struct config *c = l->config;
	struct config_session s = {.aliases = aliases,
		.policy = c->policy,
		.warnings = &c->warnings,
		.config = c,
		.n_loops = l->source->running_loops ? l->source->running_loops
						    : c->loops};
	char *name = session_name_of(l, file);
	int r = 0;

	if (name)
		r = config_session_read(file->path, name, &s, l->errors);
	if (!r && s.spec)
		c->specs[c->n_specs++] = s.spec;
	free(name);
	return r;
}

static int
sessions_list(struct loading *l, struct conf_list *list)
{
	const char *dir = l->config->sessions_dir;

	if (!dir)
		return list_make(l, "sessions.d", list);
	if (access(dir, F_OK) < 0)
		config_errors_add(l->errors,
			"SessionsDirectory=%s cannot be read: %s", dir,
			strerror(errno));
	else if (list_read(l, list, dir))
		return -ENOMEM;
	if (list->n > 1)
		qsort(list->items, list->n, sizeof(*list->items),
			entry_compare);
	return 0;
}

static int
spec_compare(const void *a, const void *b)
{
	struct session_spec *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int
sessions_read(struct loading *l)
{
	struct config_aliases aliases = {0};
	struct conf_list list = {0};
	struct config *c = l->config;
	int r = sessions_list(l, &list);

	if (!r && list.n > c->limits.max_sessions)
		config_errors_add(l->errors,
			"there are %zu session files and MaxSessions=%u",
			list.n, c->limits.max_sessions);
	c->specs = calloc(list.n + 1, sizeof(struct session_spec *));
	for (size_t i = 0; i < list.n && !r && c->specs; i++)
		if (!list.items[i].masked)
			r = session_read(l, &aliases, &list.items[i]);
	if (!c->specs)
		r = err_raise(-ENOMEM);
	else
		r = r ? r : config_groups_add(c);
	if (c->n_specs > 1) /* "a.conf" is behind "a-b.conf", a before a-b */
		qsort(c->specs, c->n_specs, sizeof(*c->specs), spec_compare);
	config_aliases_check(&aliases, l->errors);
	if (!r && !config_errors_any(l->errors))
		r = ordering_check(c->specs, c->n_specs, l->errors);
	config_aliases_deinit(&aliases);
	list_deinit(&list);
	return r;
}

/* ---- the whole --------------------------------------------------------- */

static int
load(struct loading *l)
{
	int r = find_places(l);

	if (r)
		return err_pass(r);
	l->config->policy = policy_new(geteuid(), l->source->user);
	l->config->user_limits = limits_new(geteuid(), l->source->user);
	if (!l->config->policy || !l->config->user_limits)
		return err_raise(-ENOMEM);
	r = l->source->file ? given_file_read(l) : main_file_read(l);
	if (r != -ENOMEM) /* else it has been told: go on for the rest */
		r = drop_ins_read(l);
	if (!r)
		r = finish_daemon(l);
	if (!r)
		r = sessions_read(l);
	if (!r)
		r = policy_finish(l->config->policy);
	return err_pass(r);
}

int
config_load(const struct config_source *source, struct config **out,
	struct config_errors *errors)
{
	struct loading l = {
		.source = source, .errors = errors, .config = config_new()};
	int r = l.config ? load(&l) : err_raise(-ENOMEM);

	free(l.etc);
	free(l.vendor);
	if (!r && config_errors_any(errors))
		r = err_raise(-EINVAL);
	if (r && !config_errors_any(errors))
		config_errors_add(errors,
			"the configuration cannot be read: %s", strerror(-r));
	if (r)
		config_free(l.config);
	else
		*out = l.config;
	return err_pass(r);
}
