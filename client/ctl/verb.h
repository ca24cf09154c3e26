#pragma once
/* The table of verbs and options: parsing, help, completions and the test of
 * the man page all read it. Constant, any thread. */
#include <stdbool.h>
#include <stddef.h>

struct ctl;

/* What completes a word. */
enum complete {
	COMPLETE_NOTHING = 0,
	COMPLETE_ALIAS,
	COMPLETE_FILE,
	COMPLETE_VERB,
	COMPLETE_VALUES, /* option.values */
	COMPLETE_SHELL,  /* option_shells */
	COMPLETE_QUEUE,  /* what eventctl queue can do */
	COMPLETE_DEAD,
	COMPLETE_POLICY,
	COMPLETE_STORE,
	COMPLETE_SESSION,
};

enum option_id {
	OPT_END = 0, /* ends a list */
	/* of every verb */
	OPT_SOCKET,
	OPT_USER,
	OPT_SYSTEM,
	OPT_TIMEOUT,
	OPT_JSON,
	OPT_NO_LEGEND,
	OPT_COLOR,
	OPT_QUIET,
	OPT_VERBOSE,
	OPT_HELP,
	OPT_VERSION,
	/* payload */
	OPT_DATA,
	OPT_FILE,
	OPT_LINES,
	OPT_NULL,
	OPT_HEX,
	OPT_BASE64,
	/* of some */
	OPT_WAIT,
	OPT_NO_WAIT,
	OPT_HEADER,
	OPT_IN,
	OPT_AT,
	OPT_EVERY,
	OPT_RAW,
	OPT_EXEC,
	OPT_REPLY_WITH,
	OPT_COUNT,
	OPT_NAME,
	OPT_RECONNECT,
	OPT_NULL_OUT,
	OPT_ALL,
	OPT_PREVIEW,
	OPT_TIMES,
	OPT_INTERVAL,
	OPT_PRIORITY,
	OPT_TTL,
	OPT_KEY,
	OPT_WANTED,
	OPT_FORWARD,
	OPT_ON,
	OPT_OFF,
	OPT_RESET,
	OPT_ROWS,
	OPT_WAITS,
	OPT_SCRIPT,
	OPT_PLUGIN,
	OPT_ALIAS,
	OPT_PARAM,
	OPT_CALENDAR,
	OPT_ZONE,
	OPT_MISFIRE,
	OPT_TIMER_NAME,
	OPT_SLACK,
	OPT_CLOCK,
	OPT_STORED,
	OPT_VOLATILE,
	OPT_ALL_TIMERS,
	OPT_AFTER,
	OPT_YES,
	OPT_EVENT,
	OPT_MOST,
	OPT_SKIP,
	OPT_BYTES,
	OPT_ID,
	OPT_TO,
	OPT_OF,
	OPT_REASON,
	OPT_ALL_LETTERS,
	OPT_IF_TAKEN,
	OPT_ALLOW_REPLACE,
	OPT_PRINT_ID,
	OPT_DURABLE,
	OPT_SHARED,
	OPT_FANOUT,
	OPT_WILL,
	OPT_OVERFLOW,
	OPT_MAX_EVENTS,
	OPT_MAX_BYTES,
	OPT_LINK,
	OPT_TIE,
	OPT_PROBE,
	N_OPTIONS,
};

struct option_spec {
	const char *name; /* without the dashes */
	char letter;      /* 0: none */
	const char *arg;  /* its argument in the help; NULL: takes none */
	const char *help;
	const char *values; /* the only ones, between spaces; NULL: any */
	enum complete complete;
};

enum {
	VERB_MAX_OPTIONS = 32,
};

struct verb {
	const char *name;
	const char *args;    /* its words in the help */
	const char *summary; /* one line */
	const char *details; /* lines of the help, may be NULL */
	unsigned char options[VERB_MAX_OPTIONS]; /* enum option_id */
	int min_words, max_words;                /* -1: any number */
	enum complete complete[2];   /* of its first word, and of the others */
	int (*run)(struct ctl *ctl); /* returns the exit code */
};

extern const struct option_spec option_specs[N_OPTIONS];
extern const unsigned char global_options[];
extern const struct verb verbs[]; /* ends with a NULL name */
extern const char verb_shells[];  /* that completion knows */
/* The words that complete @how, between spaces; NULL: it is of no such kind. */
const char *complete_words(enum complete how);

const struct verb *verb_find(const char *name); /* NULL: none */
/* The one most like @name; NULL: none is. */
const struct verb *verb_like(const char *name);
/* An option of @verb or of every verb, by its name or letter; OPT_END: none.
 * @verb may be NULL. */
enum option_id verb_option(const struct verb *verb, const char *name);
enum option_id verb_option_letter(const struct verb *verb, char letter);
/* Word number @i of @values, @size bytes; NULL past the last. */
const char *values_at(const char *values, size_t i, size_t *size);
/* The index of @word in @values; -1: it is not there. */
int values_index(const char *values, const char *word);

int verb_post(struct ctl *ctl);
int verb_call(struct ctl *ctl);
int verb_gather(struct ctl *ctl);
int verb_bind(struct ctl *ctl);
int verb_wait(struct ctl *ctl);
int verb_watch(struct ctl *ctl);
int verb_names(struct ctl *ctl);
int verb_monitor(struct ctl *ctl);
int verb_delay(struct ctl *ctl);
int verb_cancel(struct ctl *ctl);
int verb_adjust(struct ctl *ctl);
int verb_calendar(struct ctl *ctl);
int verb_list(struct ctl *ctl);
int verb_status(struct ctl *ctl);
int verb_timers(struct ctl *ctl);
int verb_reload(struct ctl *ctl);
int verb_restart(struct ctl *ctl);
int verb_spawn(struct ctl *ctl);
int verb_stop(struct ctl *ctl);
int verb_session(struct ctl *ctl);
int verb_tree(struct ctl *ctl);
int verb_ping(struct ctl *ctl);
int verb_profile(struct ctl *ctl);
int verb_queue(struct ctl *ctl);
int verb_dead(struct ctl *ctl);
int verb_policy(struct ctl *ctl);
int verb_limits(struct ctl *ctl);
int verb_store(struct ctl *ctl);
int verb_why(struct ctl *ctl);
int verb_version(struct ctl *ctl);
int verb_completion(struct ctl *ctl);
int verb_help(struct ctl *ctl);
