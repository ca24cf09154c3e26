#pragma once
/* Session specification: what a file in sessions.d (or a spawn) asks for.
 * Filled once, immutable from then on, reference counted; any thread. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum restart_mode { RESTART_NO, RESTART_ON_FAILURE, RESTART_ALWAYS };
/* Which of its siblings are started again with one that failed. */
enum strategy { STRATEGY_ONE, STRATEGY_ALL, STRATEGY_REST };

/* What happens to an event for which a mailbox has no room. */
enum overflow {
	OVERFLOW_BLOCK, /* it waits within its poster's window, or is refused */
	OVERFLOW_REFUSE,      /* its poster is told */
	OVERFLOW_DROP_OLDEST, /* the oldest of its class goes */
	OVERFLOW_DROP_NEWEST, /* it goes */
	OVERFLOW_DISCONNECT,  /* it goes, and so does who is too slow */
};

/* Who gets the events of an alias that clients bind. The wire's numbers. */
enum bind_mode {
	BIND_EXCLUSIVE, /* one client */
	BIND_SHARED,    /* each event goes to one of several */
	BIND_FANOUT,    /* each goes to all of them */
	BIND_MONITOR,   /* copies of what the holder handles; of no file */
	BIND_MODES,
};

/* A class of events with an overflow of its own. */
struct overflow_rule {
	char *pattern; /* of the event's name; `*` is any text */
	enum overflow overflow;
};

/* An alias that it binds beside others, for as long as its state lasts. */
struct spec_bind {
	char *alias;
	uint32_t mode;   /* BIND_SHARED or BIND_FANOUT */
	uint32_t window; /* shared: events at once; 0: the default */
};

/* A level of a mailbox: a number of events, or a part of both bounds. */
struct water_mark {
	uint32_t events;  /* 0: by percent */
	uint32_t percent; /* 0 in both: no mark */
};

struct spec_param {
	char *key, *value;
};

struct calendar;

/* An event that comes by a calendar. */
struct spec_schedule {
	char *event;
	struct calendar *calendar; /* a reference */
};

struct session_spec {
	_Atomic uint32_t refs;
	uint32_t concurrency; /* handlers that may wait at once; default 1 */
	char *name;           /* of the file, without .conf */
	char *origin;         /* path of the file; NULL: spawned */
	char **aliases;       /* n_aliases of them */
	size_t n_aliases;
	uint32_t if_taken;  /* enum claim_mode: if others hold them */
	bool allow_replace; /* AllowReplace=: others may take them */
	bool of_client;     /* a client's binding: it is of its mailbox alone */
	bool manage_others; /* ManageOthers=: it may pause, purge ... others */
	char *kind;         /* "lua", "native", "client" */
	char *path;         /* script or plugin, absolute; NULL for client */
	struct spec_param *params; /* [Params], in order */
	size_t n_params;
	/* Of everything here but the executor, and of the script's bytes. */
	uint64_t digest;
	uint64_t parent; /* session id of who spawned it; 0 */
	/* [Schedule] */
	struct spec_schedule *schedules; /* n_schedules of them */
	size_t n_schedules;
	uint8_t misfire; /* enum delay_misfire; DELAY_ONCE by default */
	bool persistent; /* Persistent=: what is missed while the daemon is
			  * down counts as missed; the mailbox is durable */
	/* [Mailbox] */
	uint32_t max_events;         /* default SPEC_MAX_EVENTS */
	uint64_t max_bytes;          /* default SPEC_MAX_BYTES */
	enum overflow overflow;      /* of events of no class below */
	struct overflow_rule *rules; /* the first that matches counts */
	size_t n_rules;
	struct water_mark high, low;
	char *water_alias;  /* who is told of them; NULL: itself */
	char *dead_letter;  /* alias that gets copies; NULL: none does */
	uint32_t durable;   /* Durable=: it is in the store as well */
	uint64_t state_max; /* DurableState=: bytes */
	uint64_t lease_ms;  /* Lease=: of a delivery to a client; 0: no end */
	uint64_t retry_ms;  /* RetryDelay=: before it is tried again */
	uint32_t max_attempts; /* crashes that one event may cause; 0: one */
	/* [Session] */
	enum restart_mode restart;
	uint64_t restart_ms; /* first pause; doubles up to restart_max_ms */
	uint64_t restart_max_ms;
	uint32_t restart_burst; /* failures in restart_window_ms, then FAILED */
	uint64_t restart_window_ms;
	uint64_t memory_max; /* bytes of a Lua state; 0: none */
	uint32_t handler_ms; /* one handler's longest run; 0: none */
	int loop;            /* home; -1: any */
	uint64_t idle_ms;    /* IdleStop=; 0: never */
	uint32_t on_demand;  /* Start=: its state is made for the first event */
	uint32_t collect;    /* it ends when nothing refers to it */
	char *group;         /* Group=, its supervisor; or NULL */
	uint32_t on_stall;   /* OnStall=, enum stall_action */
	/* Executor=; NULL: its loop. Alone of all this it changes while a
	 * session has the spec, by who holds its home. */
	char *executor;
	int32_t order; /* Order= within the group, then by name */
	char **after;  /* After=: n_after files or aliases */
	size_t n_after;
	uint32_t mode;           /* Mode=, enum bind_mode; of Kind=client */
	struct spec_bind *binds; /* Bind=: n_binds of them */
	size_t n_binds;
	/* What a failure of this one does to its siblings; of a group: what
	 * that of any member does. */
	enum strategy strategy;
};

enum {
	SPEC_MAX_EVENTS = 100000,
	SPEC_MAX_BYTES = 64 << 20,
	SPEC_RESTART_MS = 100,
	SPEC_RESTART_MAX_MS = 30000,
	SPEC_RESTART_BURST = 10,
	SPEC_RESTART_WINDOW_MS = 60000,
	SPEC_MEMORY_MAX = 64 << 20,
	SPEC_HANDLER_MS = 5000,
	SPEC_RULES_MAX = 16,
	SPEC_BINDS_MAX = 16,
	SPEC_CONCURRENCY_MAX = 100000,
	SPEC_STATE_MAX = 64 << 10,
};

/* One reference, defaults everywhere, no names; NULL: out of memory. */
struct session_spec *spec_new(void);
struct session_spec *spec_ref(struct session_spec *spec);
struct session_spec *spec_unref(struct session_spec *spec);
/* Value of a [Params] key, or NULL; of several the last. */
const char *spec_param(const struct session_spec *spec, const char *key);
/* Append a copy: 0 or -ENOMEM. */
int spec_add_alias(struct session_spec *spec, const char *alias);
/* The same of those it starts after. */
int spec_add_after(struct session_spec *spec, const char *name);
int spec_add_bind(struct session_spec *spec, const char *alias, uint32_t mode,
	uint32_t window);
/* It takes the reference to @calendar on success. */
int spec_add_schedule(struct session_spec *spec, const char *event,
	struct calendar *calendar);
int spec_add_param(
	struct session_spec *spec, const char *key, const char *value);

enum {
	SPEC_E_WORD = 1,    /* no such policy */
	SPEC_E_PATTERN = 2, /* no such class can be */
	SPEC_E_MANY = 3,    /* SPEC_RULES_MAX classes are there */
};
/* Add what one word of Overflow= says, "block" or "CLASS:block": 0, SPEC_E_* or
 * -ENOMEM. */
int spec_add_overflow(struct session_spec *spec, const char *word);
/* All the words of @text, which blanks separate; none is none. */
int spec_set_overflow(struct session_spec *spec, const char *text);
/* Restarts, limits and the mailbox of @spec are as those of @from: 0 or
 * -ENOMEM. */
int spec_inherit(struct session_spec *spec, const struct session_spec *from);
/* -ENOMEM: as before. */
int spec_set_executor(struct session_spec *spec, const char *name);
/* Copy all that is said of the mailbox: 0 or -ENOMEM. */
int spec_copy_mailbox(
	struct session_spec *spec, const struct session_spec *from);
/* What it says of the event @name. */
enum overflow spec_overflow(const struct session_spec *spec, const char *name);
/* Whether it says @overflow of events of any class. */
bool spec_says(const struct session_spec *spec, enum overflow overflow);
/* The rule that counts for @name; n_rules: none does. */
size_t spec_overflow_class(const struct session_spec *spec, const char *name);
extern const char *const overflow_words[];  /* by enum overflow; NULL ends */
extern const char *const bind_mode_words[]; /* by enum bind_mode; NULL ends */
