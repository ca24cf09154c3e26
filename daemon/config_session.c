#include "config_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "config.h"
#include "config_life.h"
#include "config_mailbox.h"
#include "kernel/claim.h"
#include "kernel/stall.h"
#include "kind/kind.h"
#include "proto/envelope.h"

/* ---- digest: FNV-1a, 64 bits ------------------------------------------- */

enum { SCRIPT_MAX = 64 << 20, READ_SIZE = 64 * 1024 };

static uint64_t
digest_bytes(uint64_t digest, const void *data, size_t size)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < size; i++)
		digest = (digest ^ p[i]) * UINT64_C(0x100000001b3);
	return digest;
}

/* With its end, so that "a" "bc" is not "ab" "c"; NULL is not "". */
uint64_t
config_digest_string(uint64_t digest, const char *text)
{
	static const char none = '\1';

	return text ? digest_bytes(digest, text, strlen(text) + 1)
		    : digest_bytes(digest, &none, 1);
}

uint64_t
config_digest_number(uint64_t digest, uint64_t value)
{
	return digest_bytes(digest, &value, sizeof(value));
}

uint64_t
config_session_digest(const struct session_spec *spec)
{
	uint64_t d = UINT64_C(0xcbf29ce484222325);

	d = config_digest_string(d, spec->name);
	d = config_digest_string(d, spec->origin);
	d = config_digest_string(d, spec->kind);
	d = config_digest_string(d, spec->path);
	d = config_digest_number(d, spec->n_aliases);
	for (size_t i = 0; i < spec->n_aliases; i++)
		d = config_digest_string(d, spec->aliases[i]);
	for (size_t i = 0; i < spec->n_params; i++) {
		d = config_digest_string(d, spec->params[i].key);
		d = config_digest_string(d, spec->params[i].value);
	}
	d = config_schedule_digest(d, spec);
	d = config_digest_number(d, spec->max_events);
	d = config_digest_number(d, spec->max_bytes);
	d = config_mailbox_digest(d, spec);
	d = config_life_digest(d, spec);
	d = config_digest_number(d, spec->restart);
	d = config_digest_number(d, spec->restart_ms);
	d = config_digest_number(d, spec->restart_max_ms);
	d = config_digest_number(d, spec->restart_burst);
	d = config_digest_number(d, spec->restart_window_ms);
	d = config_digest_number(d, spec->memory_max);
	d = config_digest_number(d, spec->handler_ms);
	d = config_digest_number(d, spec->concurrency);
	d = config_digest_number(d, spec->on_stall);
	d = config_digest_number(d, spec->if_taken);
	d = config_digest_number(d, spec->allow_replace);
	d = config_digest_number(d, spec->manage_others);
	return config_digest_number(d, (uint64_t)spec->loop);
}

static int
digest_script(int fd, uint64_t *digest)
{
	char *buffer = malloc(READ_SIZE);
	ssize_t n;

	if (!buffer)
		return err_raise(-ENOMEM);
	do {
		n = read(fd, buffer, READ_SIZE);
		if (n > 0)
			*digest = digest_bytes(*digest, buffer, (size_t)n);
	} while (n > 0 || (n < 0 && errno == EINTR));
	free(buffer);
	return n < 0 ? err_raise(-errno) : 0;
}

/* ---- aliases ----------------------------------------------------------- */

void
config_aliases_deinit(struct config_aliases *aliases)
{
	for (size_t i = 0; i < aliases->n; i++) {
		free(aliases->items[i].name);
		free(aliases->items[i].path);
	}
	free(aliases->items);
	*aliases = (struct config_aliases){0};
}

static int
aliases_add(struct config_aliases *aliases, const char *name, const char *path,
	struct config_place at)
{
	struct config_alias *bigger, item = {.name = strdup(name),
					     .path = strdup(path),
					     .at = at,
					     .order = aliases->n};
	size_t n = aliases->n;

	bigger = aliases->items;
	if ((n & (n - 1)) == 0) /* doubles at powers of two */
		bigger = reallocarray(bigger, n ? n * 2 : 1, sizeof(*bigger));
	if (bigger)
		aliases->items = bigger;
	if (!bigger || !item.name || !item.path) {
		free(item.name);
		free(item.path);
		return err_raise(-ENOMEM);
	}
	aliases->items[aliases->n++] = item;
	return 0;
}

static int
alias_compare(const void *a, const void *b)
{
	const struct config_alias *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : (x->order > y->order) - (x->order < y->order);
}

void
config_aliases_check(
	struct config_aliases *aliases, struct config_errors *errors)
{
	const struct config_alias *first = aliases->items;

	if (aliases->n > 1)
		qsort(aliases->items, aliases->n, sizeof(*first),
			alias_compare);
	for (size_t i = 1; i < aliases->n; i++) {
		const struct config_alias *item = &aliases->items[i];

		if (strcmp(item->name, first->name) != 0 || first->waits) {
			first = item;
			continue;
		}
		if (item->waits)
			continue;
		config_errors_add(errors,
			"%s:%u:%u: the alias '%s' is taken already by "
			"%s:%u:%u; an alias names one session, others can "
			"wait for it (IfTaken=queue)",
			item->path, item->at.line, item->at.column, item->name,
			first->path, first->at.line, first->at.column);
	}
}

/* ---- keys of their own ------------------------------------------------- */

static void
no_memory(struct config_file *f)
{
	config_file_error(f, f->at, "out of memory");
}

void
config_session_claim(struct config_file *f, const char *name)
{
	struct config_session *s = f->target;

	if (!name_is_valid(name, strlen(name), ENVELOPE_ALIAS_MAX))
		config_file_error(f, f->at,
			"'%s' is not a valid alias; it has 1 to %d of A-Z a-z "
			"0-9 _ . / -",
			name, ENVELOPE_ALIAS_MAX);
	else if (spec_add_alias(s->spec, name) ||
		 aliases_add(s->aliases, name, f->path, f->at))
		no_memory(f);
}

/* Alias=a b c */
static void
set_alias(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct config_place start = f->at;
	char *copy = strdup(value), *rest = copy, *word;

	(void)key;
	if (!copy) {
		no_memory(f);
		return;
	}
	while ((word = strsep(&rest, " \t"))) {
		f->at.column = start.column + (unsigned)(word - copy);
		if (*word)
			config_session_claim(f, word);
	}
	f->at = start;
	free(copy);
}

static void
set_kind(struct config_file *f, const struct config_key *key, const char *value)
{
	struct config_session *s = f->target;

	(void)key;
	if (!kind_find(value) && strcmp(value, "client") != 0) {
		config_file_error(f, f->at,
			"there is no kind '%s'; there are %s, client", value,
			kind_words());
		return;
	}
	free(s->spec->kind);
	s->spec->kind = strdup(value);
	if (!s->spec->kind)
		no_memory(f);
}

/* Script= and Plugin=: absolute, or from the directory of the file. */
static void
set_program(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct config_session *s = f->target;
	const char *slash = strrchr(f->path, '/');
	int size = slash && value[0] != '/' ? (int)(slash + 1 - f->path) : 0;
	char *path;

	(void)key;
	if (asprintf(&path, "%.*s%s", size, f->path, value) < 0) {
		no_memory(f);
		return;
	}
	free(s->spec->path);
	s->spec->path = path;
}

/* Set a number of four bytes that is not a field of the spec, and return it:
 * @now if @value is wrong. */
static uint32_t
set_apart(struct config_file *f, const struct config_key *key,
	const char *value, config_set_fn set, uint32_t now)
{
	void *target = f->target;

	f->target = &now;
	set(f, key, value);
	f->target = target;
	return now;
}

static void
set_restart(
	struct config_file *f, const struct config_key *key, const char *value)
{
	const struct config_session *s = f->target;

	s->spec->restart = (enum restart_mode)set_apart(
		f, key, value, config_set_word, s->spec->restart);
}

static void
set_allow_replace(
	struct config_file *f, const struct config_key *key, const char *value)
{
	const struct config_session *s = f->target;

	s->spec->allow_replace = set_apart(f, key, value, config_set_word,
					 s->spec->allow_replace) != 0;
}

static void
set_manage_others(
	struct config_file *f, const struct config_key *key, const char *value)
{
	const struct config_session *s = f->target;

	s->spec->manage_others = set_apart(f, key, value, config_set_word,
					 s->spec->manage_others) != 0;
}

static void
set_loop(struct config_file *f, const struct config_key *key, const char *value)
{
	const struct config_session *s = f->target;
	struct config_key bounded = *key;

	bounded.max = s->n_loops - 1;
	s->spec->loop = (int)set_apart(f, &bounded, value, config_set_count, 0);
}

/* A pool's name, or "loop". */
static void
set_executor(
	struct config_file *f, const struct config_key *key, const char *value)
{
	struct config_session *s = f->target;

	(void)key;
	if (strcmp(value, "loop") != 0 && s->config &&
		!config_pool_find(s->config, value)) {
		config_file_error(f, f->at,
			"there is no pool '%s' for Executor=; there are loop, "
			"worker, threadpool, leader and those with a [Pool "
			"NAME] in eventd.conf",
			value);
		return;
	}
	free(s->spec->executor);
	s->spec->executor = strdup(value);
	if (!s->spec->executor)
		no_memory(f);
}

/* Plain fields are in the spec that the target points at. */
static void
set_in_spec(struct config_file *f, const struct config_key *key,
	const char *value, config_set_fn set)
{
	struct config_session *s = f->target;

	f->target = s->spec;
	set(f, key, value);
	f->target = s;
}

static void
set_count(
	struct config_file *f, const struct config_key *key, const char *value)
{
	set_in_spec(f, key, value, config_set_count);
}

static void
set_size(struct config_file *f, const struct config_key *key, const char *value)
{
	set_in_spec(f, key, value, config_set_size);
}

static void
set_span(struct config_file *f, const struct config_key *key, const char *value)
{
	set_in_spec(f, key, value, config_set_span);
}

static void
set_word(struct config_file *f, const struct config_key *key, const char *value)
{
	set_in_spec(f, key, value, config_set_word);
}

static void
set_any(struct config_file *f, const char *section, const char *name,
	const char *value)
{
	struct config_session *s = f->target;

	if (strcmp(section, "Schedule") == 0)
		config_schedule_set(f, &s->schedule, name, value);
	else if (spec_param(s->spec, name))
		config_file_error(f, f->key_at,
			"%s= is in [Params] already; keep one of them", name);
	else if (spec_add_param(s->spec, name, value))
		no_memory(f);
}

static void
set_argued(struct config_file *f, const char *section, const char *words,
	const char *key, const char *value)
{
	struct config_session *s = f->target;

	(void)section;
	config_access_add(f, &s->access, words, key, value);
}

/* ---- the table --------------------------------------------------------- */

static const char *const restart_words[] = {
	[RESTART_NO] = "no",
	[RESTART_ON_FAILURE] = "on-failure",
	[RESTART_ALWAYS] = "always",
	NULL,
};
static const char *const taken_words[] = {
	[CLAIM_REFUSE] = "refuse",
	[CLAIM_QUEUE] = "queue",
	[CLAIM_REPLACE] = "replace",
	NULL,
};
static const char *const no_yes[] = {"no", "yes", NULL};
static const char *const sections[] = {
	"Session", "Mailbox", "Schedule", "Params", "Access", NULL};
static const char *const argued_sections[] = {"Access", NULL};
static const char *const open_sections[] = {"Schedule", "Params", NULL};
static const char *const stall_words[] = {
	[STALL_LOG] = "log",
	[STALL_MOVE] = "move",
	[STALL_STOP] = "stop",
	NULL,
};
static const char *const start_words[] = {"at-boot", "on-demand", NULL};
static const char *const strategy_words[] = {
	[STRATEGY_ONE] = "one",
	[STRATEGY_ALL] = "all",
	[STRATEGY_REST] = "rest",
	NULL,
};

#define DAY_MS (86400 * UINT64_C(1000))
#define KEY(part, key, how, ...)                                            \
	{                                                                   \
		.section = (part), .name = (key), .set = (how), __VA_ARGS__ \
	}
#define FIELD(field, least, most)                                           \
	.offset = offsetof(struct session_spec, field),                     \
	.width = sizeof(((struct session_spec *)0)->field), .min = (least), \
	.max = (most)

enum {
	ROW_ALIAS,
	ROW_KIND,
	ROW_SCRIPT,
	ROW_PLUGIN,
	ROW_RESTART_SEC,
	ROW_RESTART_MAX_SEC,
	ROW_HIGH,
	ROW_LOW,
	ROW_START,
	ROW_IDLE_STOP,
	ROW_COLLECT,
	ROW_EXECUTOR,
	ROW_MODE,
	ROW_ON_STALL,
	ROW_STATE,
	ROW_BIND,
};

static const struct config_key keys[] = {
	[ROW_ALIAS] = KEY("Session", "Alias", set_alias, .repeats = true),
	[ROW_KIND] = KEY("Session", "Kind", set_kind, .width = 0),
	[ROW_SCRIPT] = KEY("Session", "Script", set_program, .width = 0),
	[ROW_PLUGIN] = KEY("Session", "Plugin", set_program, .width = 0),
	[ROW_RESTART_SEC] = KEY("Session", "RestartSec", set_span,
		FIELD(restart_ms, 1, DAY_MS)),
	[ROW_RESTART_MAX_SEC] = KEY("Session", "RestartMaxSec", set_span,
		FIELD(restart_max_ms, 1, DAY_MS)),
	[ROW_HIGH] = KEY("Mailbox", "HighWater", config_set_water,
		FIELD(high, 1, 100000000)),
	[ROW_LOW] = KEY("Mailbox", "LowWater", config_set_water,
		FIELD(low, 0, 100000000)),
	[ROW_START] = KEY("Session", "Start", set_word, FIELD(on_demand, 0, 0),
		.words = start_words),
	[ROW_IDLE_STOP] =
		KEY("Session", "IdleStop", set_span, FIELD(idle_ms, 0, DAY_MS)),
	[ROW_COLLECT] = KEY("Session", "Collect", set_word,
		FIELD(collect, 0, 0), .words = no_yes),
	[ROW_EXECUTOR] = KEY("Session", "Executor", set_executor, .width = 0),
	[ROW_MODE] = KEY("Session", "Mode", set_word, FIELD(mode, 0, 0),
		.words = bind_mode_words),
	[ROW_ON_STALL] = KEY("Session", "OnStall", set_word,
		FIELD(on_stall, 0, 0), .words = stall_words),
	[ROW_STATE] = KEY("Mailbox", "DurableState", set_size,
		FIELD(state_max, 1, 64 << 20)),
	[ROW_BIND] = KEY("Session", "Bind", config_set_bind, .repeats = true),
	KEY("Session", "Group", config_set_group, .width = 0),
	KEY("Session", "Order", config_set_order, .width = 0),
	KEY("Session", "After", config_set_after, .repeats = true),
	KEY("Session", "Strategy", set_word, FIELD(strategy, 0, 0),
		.words = strategy_words),
	KEY("Mailbox", "Lease", set_span, FIELD(lease_ms, 0, DAY_MS)),
	KEY("Mailbox", "RetryDelay", set_span, FIELD(retry_ms, 0, DAY_MS)),
	KEY("Mailbox", "Durable", set_word, FIELD(durable, 0, 0),
		.words = no_yes),
	KEY("Mailbox", "MaxAttempts", set_count, FIELD(max_attempts, 1, 255)),
	KEY("Session", "Restart", set_restart, .width = 4,
		.words = restart_words),
	KEY("Session", "IfTaken", set_word, FIELD(if_taken, 0, 0),
		.words = taken_words),
	KEY("Session", "AllowReplace", set_allow_replace, .width = 4,
		.words = no_yes),
	KEY("Session", "ManageOthers", set_manage_others, .width = 4,
		.words = no_yes),
	KEY("Session", "RestartBurst", set_count,
		FIELD(restart_burst, 0, 1000000)),
	KEY("Session", "RestartWindowSec", set_span,
		FIELD(restart_window_ms, 1, DAY_MS)),
	KEY("Session", "MemoryMax", set_size,
		FIELD(memory_max, 0, UINT64_C(1) << 40)),
	KEY("Session", "HandlerTimeout", set_span,
		FIELD(handler_ms, 0, DAY_MS)),
	KEY("Session", "Concurrency", set_count,
		FIELD(concurrency, 1, SPEC_CONCURRENCY_MAX)),
	KEY("Session", "Loop", set_loop, .width = 4),
	KEY("Mailbox", "MaxEvents", set_count, FIELD(max_events, 1, 100000000)),
	KEY("Mailbox", "MaxBytes", set_size,
		FIELD(max_bytes, 1, UINT64_C(1) << 40)),
	KEY("Mailbox", "Overflow", config_set_overflow, .width = 0),
	KEY("Mailbox", "WaterAlias", config_set_alias,
		FIELD(water_alias, 0, 0)),
	KEY("Mailbox", "DeadLetter", config_set_alias,
		FIELD(dead_letter, 0, 0)),
};

_Static_assert(sizeof(keys) / sizeof(*keys) <= CONFIG_KEYS_MAX,
	"config_file.seen has a place for every key");

const struct config_table config_table_session = {
	.name = "a session file, see eventd.session(5)",
	.keys = keys,
	.n_keys = sizeof(keys) / sizeof(*keys),
	.sections = sections,
	.open_sections = open_sections,
	.set_any = set_any,
	.argued_sections = argued_sections,
	.set_argued = set_argued,
	.other = &config_table_daemon,
};

/* ---- the whole file ---------------------------------------------------- */

static void
program_is_extra(struct config_file *f, unsigned row, const char *kind)
{
	if (f->seen[row].line)
		config_file_error(f, f->seen[row],
			"%s= has no meaning with Kind=%s; remove it",
			keys[row].name, kind);
}

static void
program_is_needed(struct config_file *f, unsigned row, const char *kind)
{
	if (!f->seen[row].line)
		config_file_error(f, f->seen[ROW_KIND],
			"Kind=%s needs %s=, the path of its %s", kind,
			keys[row].name,
			row == ROW_SCRIPT ? "script" : "shared object");
}

static void
check_program(struct config_file *f)
{
	const struct config_session *s = f->target;
	const char *kind = s->spec->kind;

	if (strcmp(kind, "lua") == 0) {
		program_is_needed(f, ROW_SCRIPT, kind);
		program_is_extra(f, ROW_PLUGIN, kind);
	} else if (strcmp(kind, "native") == 0) {
		program_is_needed(f, ROW_PLUGIN, kind);
		program_is_extra(f, ROW_SCRIPT, kind);
	} else {
		program_is_extra(f, ROW_SCRIPT, kind);
		program_is_extra(f, ROW_PLUGIN, kind);
		program_is_extra(f, ROW_EXECUTOR, kind);
	}
	if (s->spec->on_stall == STALL_STOP && strcmp(kind, "lua") != 0)
		config_file_error(f, f->seen[ROW_ON_STALL],
			"OnStall=stop is for Kind=lua: nothing can stop a "
			"handler of Kind=%s; log, or move if it is native",
			kind);
}

/* It is kept with the end of one event, of which there would be several. */
static void
check_state(struct config_file *f)
{
	const struct config_session *s = f->target;

	if (f->seen[ROW_STATE].line && s->spec->concurrency > 1)
		config_file_error(f, f->seen[ROW_STATE],
			"DurableState= has no meaning with Concurrency= above "
			"1: eventd.durable is for one handler at a time");
}

static void
check_pauses(struct config_file *f)
{
	const struct config_session *s = f->target;
	struct session_spec *spec = s->spec;

	if (spec->restart_ms <= spec->restart_max_ms)
		return;
	if (f->seen[ROW_RESTART_MAX_SEC].line)
		config_file_error(f, f->seen[ROW_RESTART_MAX_SEC],
			"RestartMaxSec= is below RestartSec=, which it limits");
	else
		spec->restart_max_ms = spec->restart_ms;
}

/* A session is called by its file's name if it is not given another. */
static void
check_alias(struct config_file *f)
{
	const struct config_session *s = f->target;

	f->at = (struct config_place){1, 1};
	if (!f->seen[ROW_ALIAS].line &&
		(!s->spec->kind || strcmp(s->spec->kind, "group") != 0))
		config_session_claim(f, s->spec->name);
}

/* Its own stand at the end. */
static void
mark_those_that_wait(struct config_file *f)
{
	const struct config_session *s = f->target;
	struct config_aliases *aliases = s->aliases;

	for (size_t i = aliases->n; i-- > aliases->n - s->spec->n_aliases;)
		aliases->items[i].waits = s->spec->if_taken != CLAIM_REFUSE;
}

static void
check(struct config_file *f)
{
	struct config_session *s = f->target;
	const struct config_place life[] = {f->seen[ROW_START],
		f->seen[ROW_IDLE_STOP], f->seen[ROW_COLLECT]};

	config_schedule_finish(f, &s->schedule, s->spec);
	check_alias(f);
	config_check_life(f, life);
	config_check_mode(f, f->seen[ROW_MODE]);
	config_check_bind(f, f->seen[ROW_BIND]);
	mark_those_that_wait(f);
	check_pauses(f);
	check_state(f);
	config_check_water(f, f->seen[ROW_HIGH], f->seen[ROW_LOW]);
	if (s->spec->kind)
		check_program(f);
	else if (!f->seen[ROW_KIND].line)
		config_file_error(f, (struct config_place){0, 0},
			"[Session] needs Kind=, one of %s, client",
			kind_words());
}

static const char *
program_why(int r)
{
	switch (r) {
	case -EPERM:
		return "anyone may write to it; chmod o-w it";
	case -EINVAL:
		return "it is not a regular file";
	case -EFBIG:
		return "it is over 64 MiB";
	default:
		return strerror(-r);
	}
}

/* The script or plugin must be readable now; its bytes count in the digest,
 * so that a reload sees an edited script. */
static void
check_readable(struct config_file *f)
{
	const struct config_session *s = f->target;
	unsigned row = f->seen[ROW_SCRIPT].line ? ROW_SCRIPT : ROW_PLUGIN;
	uint64_t size;
	int fd, r;

	s->spec->digest = config_session_digest(s->spec);
	if (!s->spec->path ||
		(f->seen[ROW_SCRIPT].line && f->seen[ROW_PLUGIN].line))
		return;
	r = config_open(s->spec->path, &fd, &size);
	if (!r) {
		r = size > SCRIPT_MAX ? -EFBIG
				      : digest_script(fd, &s->spec->digest);
		close(fd);
	}
	if (r)
		config_file_error(f, f->seen[row], "%s=%s cannot be used: %s",
			keys[row].name, s->spec->path, program_why(r));
}

static int
spec_start(struct config_session *s, const char *path, const char *name)
{
	s->spec = spec_new();
	if (!s->spec)
		return err_raise(-ENOMEM);
	s->spec->name = strdup(name);
	s->spec->origin = strdup(path);
	if (!s->spec->name || !s->spec->origin) {
		s->spec = spec_unref(s->spec);
		return err_raise(-ENOMEM);
	}
	return 0;
}

int
config_session_read(const char *path, const char *name,
	struct config_session *s, struct config_errors *errors)
{
	struct config_file f = {.path = path,
		.table = &config_table_session,
		.target = s,
		.errors = errors};
	int r = spec_start(s, path, name);

	if (r)
		return err_pass(r);
	r = config_file_read(&f);
	if (!r) {
		check(&f);
		check_readable(&f);
	}
	config_access_apply(&f, &s->access, s->spec, s->policy, s->warnings);
	config_schedule_deinit(&s->schedule);
	if (!r)
		return 0;
	s->spec = spec_unref(s->spec);
	if (r == -ENOENT)
		config_errors_add(errors, "%s:1:1: cannot be read: %s", path,
			strerror(ENOENT));
	return r == -ENOMEM ? r : 0;
}

int
config_session_parse(const char *text, size_t size, struct config_session *s,
	struct config_errors *errors)
{
	struct config_file f = {.path = "/memory.conf",
		.table = &config_table_session,
		.target = s,
		.errors = errors};
	int r = spec_start(s, f.path, "memory");

	if (r)
		return err_pass(r);
	r = config_file_parse(&f, text, size);
	if (!r)
		check(&f);
	config_access_apply(&f, &s->access, s->spec, s->policy, s->warnings);
	config_schedule_deinit(&s->schedule);
	return r;
}
