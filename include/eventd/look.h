#pragma once
/* libevd: look at eventd's sessions and timers, reload, restart. Part of
 * client.h, which includes it and tells the rules. */
#include <eventd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evd_sessions;    /* a page of sessions: evd_list() */
struct evd_session;     /* one of them */
struct evd_report;      /* evd_status() */
struct evd_daemon;      /* the daemon's own figures, in a report */
struct evd_timers;      /* a page of timers: evd_timers() */
struct evd_timer;       /* one of them */
struct evd_calendar;    /* times of a calendar: evd_calendar() */
struct evd_profiles;    /* a page of profiles: evd_profile() */
struct evd_profile;     /* of one session */
struct evd_profile_row; /* of one of its events */
struct evd_changes;     /* what a reload changes: evd_reload() */

/* ---- looking ----------------------------------------------------------- */

/* The functions of this part wait evd_set_timeout() and may fail with
 * -EACCES, -EOPNOTSUPP, -ETIMEDOUT, -ENOTCONN, -EPIPE, -EPROTO, -ENOMEM and
 * -ECHILD beside what they list. What they set is yours, independent of the
 * handle; strings in it are valid as long as it is. Free functions accept NULL
 * and return NULL. */

/* The counters of a session, or of the whole daemon. */
enum evd_counter {
	EVD_COUNTER_ACCEPTED = 0,
	EVD_COUNTER_HANDLED = 1,
	EVD_COUNTER_EXPIRED = 2,
	EVD_COUNTER_CANCELLED = 3,
	EVD_COUNTER_DROPPED = 4,
	EVD_COUNTER_DEAD_LETTERED = 5,
	EVD_COUNTER_QUEUED = 6,  /* now */
	EVD_COUNTER_LEASED = 7,  /* now: being handled, or at a consumer */
	EVD_COUNTER_DELAYED = 8, /* now: timers that hold an event */
	EVD_COUNTER_REFUSED = 9, /* never accepted */
	EVD_N_COUNTERS = 10,
};
/* "accepted", "handled", "dead_lettered" ...; NULL past the last. */
EVD_API const char *evd_counter_name(int counter);

/**
 * evd_list() - a page of the sessions
 * @prefix: of their alias; NULL or "": all, also those without alias
 * @after:  0: the first page; then evd_sessions_next() of the page before
 * @limit:  sessions a page; 0: the daemon's default
 * @page:   set on success; release with evd_sessions_free()
 *
 * Return: 0, or -EINVAL and the errors above.
 */
EVD_API int evd_list(struct evd *c, const char *prefix, uint64_t after,
	uint32_t limit, struct evd_sessions **page);
EVD_API size_t evd_sessions_count(const struct evd_sessions *page);
/* Number @i of the page; NULL past the last. */
EVD_API const struct evd_session *evd_sessions_at(
	const struct evd_sessions *page, size_t i);
/* For @after of the next page; 0: this was the last. */
EVD_API uint64_t evd_sessions_next(const struct evd_sessions *page);
EVD_API struct evd_sessions *evd_sessions_free(struct evd_sessions *page);

EVD_API uint64_t evd_session_id(const struct evd_session *s);
EVD_API size_t evd_session_n_aliases(const struct evd_session *s);
/* Alias number @i; NULL past the last. */
EVD_API const char *evd_session_alias(const struct evd_session *s, size_t i);
EVD_API const char *evd_session_kind(const struct evd_session *s);
/* "starting", "up", "backoff", "failed", "stopping" */
EVD_API const char *evd_session_state(const struct evd_session *s);
EVD_API uint64_t evd_session_counter(const struct evd_session *s, int counter);
EVD_API uint64_t evd_session_queued_bytes(const struct evd_session *s);
EVD_API uint64_t evd_session_max_events(const struct evd_session *s);
EVD_API uint64_t evd_session_max_bytes(const struct evd_session *s);
/* Posts that wait for room in the mailbox. */
/* Its events wait: evd_queue_pause(). */
EVD_API bool evd_session_is_paused(const struct evd_session *s);
/* As in its file: "block tick:drop-oldest". */
EVD_API const char *evd_session_overflow(const struct evd_session *s);
/* How clients bind it: "exclusive", "shared", "fanout"; "": they do not. And
 * how many have. */
EVD_API const char *evd_session_mode(const struct evd_session *s);
EVD_API uint32_t evd_session_consumers(const struct evd_session *s);
/* What it has bound itself beside others, or asked to, as Bind= of its file has
 * it: "jobs:shared:4 news:fanout". */
EVD_API const char *evd_session_binds(const struct evd_session *s);
/* The high mark, in events and in bytes; 0: none. */
EVD_API uint64_t evd_session_high_events(const struct evd_session *s);
EVD_API uint64_t evd_session_high_bytes(const struct evd_session *s);
/* It was reached, and the low one has not been since. */
EVD_API bool evd_session_is_above(const struct evd_session *s);
EVD_API uint64_t evd_session_parked(const struct evd_session *s);
/* Watches that it has, of sessions and names; that others have of it; links,
 * whoever asked for them; aliases that it stands in line for. */
EVD_API uint32_t evd_session_watches(const struct evd_session *s);
EVD_API uint32_t evd_session_watchers(const struct evd_session *s);
EVD_API uint32_t evd_session_links(const struct evd_session *s);
EVD_API uint32_t evd_session_claims(const struct evd_session *s);
/* Of those queued, what the session has put aside; and posts that repeated one
 * by its key. */
EVD_API uint64_t evd_session_stashed(const struct evd_session *s);
EVD_API uint64_t evd_session_repeated(const struct evd_session *s);
/* Bytes of the session's own state. */
EVD_API uint64_t evd_session_memory(const struct evd_session *s);
/* Seconds since it was made. */
EVD_API uint64_t evd_session_age(const struct evd_session *s);
EVD_API uint32_t evd_session_loop(const struct evd_session *s);
EVD_API uint32_t evd_session_restarts(const struct evd_session *s);
/* Why it failed last; "". */
EVD_API const char *evd_session_reason(const struct evd_session *s);
/* Wall clock, nanoseconds since the epoch; 0: unknown. */
EVD_API int64_t evd_session_started_ns(const struct evd_session *s);
EVD_API int64_t evd_session_restart_ns(const struct evd_session *s);
/* Bound clients: who they are. */
EVD_API uint32_t evd_session_uid(const struct evd_session *s);
EVD_API uint32_t evd_session_pid(const struct evd_session *s);
EVD_API const char *evd_session_peer(const struct evd_session *s);
/* Its configuration file; "". */
EVD_API const char *evd_session_origin(const struct evd_session *s);
/* Of the file, or of what it was spawned from; "" if of a client. */
EVD_API const char *evd_session_name(const struct evd_session *s);
/* Requests for its aliases that were refused by policy. */
EVD_API uint64_t evd_session_denied(const struct evd_session *s);
/* Values of its durable state, and the bytes that they count for. */
EVD_API uint32_t evd_session_state_keys(const struct evd_session *s);
EVD_API uint64_t evd_session_state_size(const struct evd_session *s);
/* Id of the session that spawned it, or of its group; 0: none. */
EVD_API uint64_t evd_session_parent(const struct evd_session *s);
EVD_API uint64_t evd_session_children(const struct evd_session *s);
/* How it ended last: "normal", "stopped", "failed", "killed", "idle",
 * "unreferenced"; "" if it never did. */
EVD_API const char *evd_session_exit(const struct evd_session *s);
/* How often its state was made. */
/* Who runs its handlers: "loop", or a pool's name. */
EVD_API const char *evd_session_executor(const struct evd_session *s);
/* A thread of that pool runs one now. */
EVD_API bool evd_session_is_away(const struct evd_session *s);
/* What that one runs: the event's name, "(reply)" where it goes on with an
 * answer, "" if it waits for a thread; the event's id, or 0; for how long by
 * now, in ns; the thread's number. */
EVD_API const char *evd_session_running_event(const struct evd_session *s);
EVD_API uint64_t evd_session_running_event_id(const struct evd_session *s);
EVD_API uint64_t evd_session_running_ns(const struct evd_session *s);
EVD_API uint32_t evd_session_running_thread(const struct evd_session *s);
/* It does so for longer than StuckAfter= of the pool; and how often it has. */
EVD_API bool evd_session_is_stuck(const struct evd_session *s);
EVD_API uint32_t evd_session_stuck_ever(const struct evd_session *s);
/* Its handlers that wait in the middle, and how many may be under way
 * (Concurrency=; 0: its kind has no handlers); of those, what for. */
EVD_API uint32_t evd_session_waiting(const struct evd_session *s);
EVD_API uint32_t evd_session_waiting_time(const struct evd_session *s);
/* For answers, or how far a post has come. */
EVD_API uint32_t evd_session_waiting_answer(const struct evd_session *s);
EVD_API uint32_t evd_session_waiting_event(const struct evd_session *s);
EVD_API uint32_t evd_session_concurrency(const struct evd_session *s);
/* Bytes of its stack, where a plugin's handler waited deepest; 0: none did. */
EVD_API uint32_t evd_session_stack_high(const struct evd_session *s);
EVD_API uint32_t evd_session_starts(const struct evd_session *s);
/* Its group or, of a group, its own name; "" if none. */
EVD_API const char *evd_session_group(const struct evd_session *s);
/* Is it started by an event? */
EVD_API bool evd_session_on_demand(const struct evd_session *s);

/**
 * evd_status() - one session, or the daemon
 * @alias:  NULL or "": the daemon
 * @report: set on success; release with evd_report_free()
 *
 * Return: 0, or -ENOENT (no session holds the alias), -EINVAL and the errors
 * above.
 */
EVD_API int evd_status(
	struct evd *c, const char *alias, struct evd_report **report);
EVD_API struct evd_report *evd_report_free(struct evd_report *report);
/* NULL if the report is not about that. */
EVD_API const struct evd_session *evd_report_session(
	const struct evd_report *report);
EVD_API const struct evd_daemon *evd_report_daemon(
	const struct evd_report *report);

EVD_API const char *evd_daemon_server(const struct evd_daemon *d);
EVD_API uint32_t evd_daemon_pid(const struct evd_daemon *d);
EVD_API int64_t evd_daemon_started_ns(const struct evd_daemon *d);
EVD_API uint32_t evd_daemon_loops(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_sessions(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_failed(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_connections(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_counter(const struct evd_daemon *d, int counter);
/* Resident bytes. */
EVD_API uint64_t evd_daemon_memory(const struct evd_daemon *d);
enum evd_memory_part {
	EVD_MEMORY_PROPORTIONAL = 0, /* its part of what others share */
	EVD_MEMORY_PRIVATE = 1,      /* nobody else has it */
	EVD_MEMORY_SHARED = 2,
	EVD_MEMORY_SWAP = 3,
};
/* Bytes of that; 0: none, or the kernel does not tell. */
EVD_API uint64_t evd_daemon_memory_part(const struct evd_daemon *d, int part);
/* "running", "stopping" */
EVD_API const char *evd_daemon_state(const struct evd_daemon *d);
/* Dead letters: kept now, their bytes, ever, and forgotten for the bounds. */
EVD_API uint64_t evd_daemon_dead_letters(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_dead_letter_bytes(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_dead_letters_ever(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_dead_letters_forgotten(const struct evd_daemon *d);
EVD_API uint64_t evd_daemon_late_replies(const struct evd_daemon *d);
/* Requests that were refused by policy. */
EVD_API uint64_t evd_daemon_denied(const struct evd_daemon *d);
/* Budget= and TurnBudget=. */
EVD_API uint32_t evd_daemon_budget(const struct evd_daemon *d);
EVD_API uint32_t evd_daemon_turn_budget(const struct evd_daemon *d);
/* All sessions are profiled. */
EVD_API bool evd_daemon_profile(const struct evd_daemon *d);
enum evd_loop_value {
	EVD_LOOP_TURNS = 0,    /* ever */
	EVD_LOOP_RUNNABLE = 1, /* now: sessions with something to do */
	EVD_LOOP_QUEUED = 2,   /* now: events in mailboxes of its sessions */
	EVD_LOOP_TIMERS = 3,   /* now */
	/* How late delays by elapsed time were when they fired: how many ever;
	 * ns that half of them, that 99 % were at most; ns of the latest. */
	EVD_LOOP_LATE_COUNT = 4,
	EVD_LOOP_LATE_P50 = 5,
	EVD_LOOP_LATE_P99 = 6,
	EVD_LOOP_LATE_MAX = 7,
};
/* Of loop @i, from 0; 0 past the last. */
EVD_API uint64_t evd_daemon_loop(
	const struct evd_daemon *d, size_t i, int value);
enum evd_pool_value {
	EVD_POOL_THREADS = 0,  /* that have been made */
	EVD_POOL_BUSY = 1,     /* of those, now */
	EVD_POOL_QUEUED = 2,   /* now: sessions that wait for a thread */
	EVD_POOL_SESSIONS = 3, /* whose executor it is */
	EVD_POOL_RUNS = 4,     /* events and replies, ever */
	EVD_POOL_STUCK = 5,    /* now: handlers beyond StuckAfter= */
	EVD_POOL_STUCK_EVER = 6,
};
/* Pool @i that has been used, from 0; NULL, 0 past the last. */
EVD_API const char *evd_daemon_pool_name(const struct evd_daemon *d, size_t i);
EVD_API uint64_t evd_daemon_pool(
	const struct evd_daemon *d, size_t i, int value);
/* One of EVD_LOOP_LATE_*, of all loops together. */
EVD_API uint64_t evd_daemon_late(const struct evd_daemon *d, int value);
/* The histogram of that, bucket by bucket from 0 on, those that are empty left
 * out: how many delays were later than the bound of the bucket before, and by
 * less than *@below_ns, which may be NULL; UINT64_MAX: there is no bound. 0:
 * past the last. */
EVD_API uint64_t evd_daemon_late_bucket(
	const struct evd_daemon *d, size_t i, uint64_t *below_ns);

/**
 * evd_timers() - a page of the pending timers
 * @alias: of the receiver; NULL or "": of all
 * @after: 0: the first page; then evd_timers_next() of the page before
 * @limit: timers a page; 0: the daemon's default
 * @page:  set on success; release with evd_timers_free()
 *
 * Return: 0, or -EINVAL and the errors above.
 */
EVD_API int evd_timers(struct evd *c, const char *alias, uint64_t after,
	uint32_t limit, struct evd_timers **page);
EVD_API size_t evd_timers_count(const struct evd_timers *page);
EVD_API const struct evd_timer *evd_timers_at(
	const struct evd_timers *page, size_t i);
EVD_API uint64_t evd_timers_next(const struct evd_timers *page);
EVD_API struct evd_timers *evd_timers_free(struct evd_timers *page);

EVD_API uint64_t evd_timer_id(const struct evd_timer *t);
EVD_API const char *evd_timer_alias(const struct evd_timer *t);
EVD_API const char *evd_timer_event(const struct evd_timer *t);
/* Wall clock, nanoseconds since the epoch. */
EVD_API int64_t evd_timer_due_ns(const struct evd_timer *t);
EVD_API uint64_t evd_timer_repeat_ms(const struct evd_timer *t);
/* Id of the session that set it. */
EVD_API uint64_t evd_timer_owner(const struct evd_timer *t);
/* Payload bytes. */
EVD_API uint64_t evd_timer_size(const struct evd_timer *t);
EVD_API const char *evd_timer_name(const struct evd_timer *t); /* "": none */
EVD_API int evd_timer_clock(const struct evd_timer *t); /* enum evd_clock */
EVD_API uint64_t evd_timer_slack_ms(const struct evd_timer *t);
/* "": it has none; then what follows has no meaning. */
EVD_API const char *evd_timer_calendar(const struct evd_timer *t);
EVD_API const char *evd_timer_zone(const struct evd_timer *t);
EVD_API int evd_timer_misfire(const struct evd_timer *t); /* enum evd_misfire */
/* 1: it is in the store, and has a misfire also without a calendar. */
EVD_API int evd_timer_durable(const struct evd_timer *t);

/**
 * evd_calendar() - when a calendar's next times are
 * @calendar: as systemd.time(7) or crontab(5) write it, also with a zone behind
 * @zone:     by name; NULL: the daemon's
 * @after_ns: since the epoch; 0: now
 * @limit:    how many; 0: one; at most 1,000
 * @times:    set on success; release with evd_calendar_free()
 *
 * Return: 0, or -EINVAL (it is no calendar, there is no such zone), -ETIMEDOUT,
 * -ENOTCONN, -EPIPE, -ENOMEM, -ECHILD.
 */
EVD_API int evd_calendar(struct evd *c, const char *calendar, const char *zone,
	int64_t after_ns, uint32_t limit, struct evd_calendar **times);
EVD_API size_t evd_calendar_count(const struct evd_calendar *times);
EVD_API int64_t evd_calendar_at_ns(const struct evd_calendar *times, size_t i);
/* Seconds east of UTC, there and then. */
EVD_API int32_t evd_calendar_offset_s(
	const struct evd_calendar *times, size_t i);
EVD_API const char *evd_calendar_zone(const struct evd_calendar *times);
EVD_API struct evd_calendar *evd_calendar_free(struct evd_calendar *times);

/* ---- what events cost -------------------------------------------------- */

enum evd_profile_what {
	EVD_PROFILE_LOOK = 0,
	EVD_PROFILE_ON = 1,
	EVD_PROFILE_OFF = 2,
	EVD_PROFILE_RESET = 4, /* forget all figures; for all sessions alone */
};

/**
 * evd_profile() - switch profiling, and a page of the profiles
 * @alias: one session; NULL or "": all
 * @after: 0: the first page; then evd_profiles_next() of the page before
 * @what:  enum evd_profile_what, or-ed: done before looking
 * @page:  set on success; release with evd_profiles_free()
 *
 * Sessions without figures are left out; a page may be empty and not the last.
 *
 * Return: 0, or -ENOENT (no session holds the alias), -EINVAL (all sessions
 * are profiled: one cannot be switched), -EACCES and the errors above.
 */
EVD_API int evd_profile(struct evd *c, const char *alias, uint64_t after,
	int what, struct evd_profiles **page);
EVD_API size_t evd_profiles_count(const struct evd_profiles *page);
EVD_API const struct evd_profile *evd_profiles_at(
	const struct evd_profiles *page, size_t i);
EVD_API uint64_t evd_profiles_next(const struct evd_profiles *page);
/* All sessions are profiled. */
EVD_API bool evd_profiles_on(const struct evd_profiles *page);
/* Of sessions that are no more. */
EVD_API uint64_t evd_profiles_gone_calls(const struct evd_profiles *page);
EVD_API uint64_t evd_profiles_gone_ns(const struct evd_profiles *page);
EVD_API struct evd_profiles *evd_profiles_free(struct evd_profiles *page);

EVD_API uint64_t evd_profile_session(const struct evd_profile *p);
/* Its first alias; "". */
EVD_API const char *evd_profile_alias(const struct evd_profile *p);
EVD_API const char *evd_profile_kind(const struct evd_profile *p);
EVD_API bool evd_profile_on(const struct evd_profile *p);
/* Number @i of its events, in no order; NULL past the last. */
EVD_API const struct evd_profile_row *evd_profile_row(
	const struct evd_profile *p, size_t i);
/* The event; or "(reply)", "_start", "(other)" for what has no row. */
EVD_API const char *evd_profile_row_event(const struct evd_profile_row *row);
enum evd_profile_value {
	EVD_PROFILE_CALLS = 0,
	EVD_PROFILE_OWN_NS = 1,   /* in the handler */
	EVD_PROFILE_WHOLE_NS = 2, /* until it was over, waiting included */
	EVD_PROFILE_WAIT_NS = 3,  /* in the mailbox */
	EVD_PROFILE_WAIT_MAX_NS = 4,
	EVD_PROFILE_LATE = 5, /* how many were fired by timers */
	EVD_PROFILE_LATE_NS = 6,
	EVD_PROFILE_LATE_MAX_NS = 7,
	EVD_N_PROFILE_VALUES = 8,
};
EVD_API uint64_t evd_profile_row_value(
	const struct evd_profile_row *row, int value);

/* ---- managing ---------------------------------------------------------- */

enum evd_change {
	EVD_CHANGE_ADDED = 0,
	EVD_CHANGE_CHANGED = 1,
	EVD_CHANGE_REMOVED = 2,
};

/**
 * evd_reload() - read the configuration again
 * @preview: only tell what would change
 * @changes: set on success; release with evd_changes_free(). NULL if not
 *           wanted
 *
 * Return: 0, or -EUCLEAN (the configuration is wrong, the old one is kept;
 * evd_last_error() says file and line), -EACCES and the errors above.
 */
EVD_API int evd_reload(
	struct evd *c, bool preview, struct evd_changes **changes);
EVD_API size_t evd_changes_count(const struct evd_changes *ch, int change);
/* Name @i of the sessions so changed; NULL past the last. */
EVD_API const char *evd_changes_name(
	const struct evd_changes *ch, int change, size_t i);
EVD_API uint32_t evd_changes_unchanged(const struct evd_changes *ch);
EVD_API struct evd_changes *evd_changes_free(struct evd_changes *ch);

/* Start a failed or backing-off session now, with a fresh budget.
 * Return: 0, or -ENOENT, -EINVAL and the errors above. */
EVD_API int evd_restart(struct evd *c, const char *alias);

/* Have the handlers of a session run by a pool of the daemon from now on, or by
 * "loop". Nothing is lost, doubled or overtaken by that; an event that is being
 * handled is handled where it is.
 * Return: 0, or -ENOENT, -EINVAL (no such executor), -EOPNOTSUPP (its kind is
 * run by its loop alone) and the errors above. */
EVD_API int evd_set_executor(
	struct evd *c, const char *alias, const char *executor);

/* Zero it, then set @size and one of the paths, which are absolute and of the
 * daemon's host. */
struct evd_spawn_options {
	size_t size;                /* sizeof(struct evd_spawn_options) */
	const char *file;           /* a session file, or */
	const char *script;         /* of a Lua session, or */
	const char *plugin;         /* of a native one */
	const char *const *aliases; /* not with @file, which gives them */
	size_t n_aliases;
	const struct evd_header *params; /* of [Params]; values are text */
	size_t n_params;
	int tie; /* it ends with this connection at the latest */
	/* Of its aliases; not with @file, which says so itself: */
	uint32_t if_taken; /* enum evd_if_taken: if others hold them */
	int allow_replace; /* may others take them by EVD_TAKEN_REPLACE? */
};

/**
 * evd_spawn() - make a session that no file of the daemon's own asks for
 * @session: its id, set on success; may be NULL
 *
 * It is there until it ends, is stopped or the daemon ends. That it has been
 * made does not say that it starts well: see evd_status().
 *
 * Return: 0, or -EUCLEAN (the file, script or plugin is wrong; the error's text
 * says where), -EADDRINUSE (an alias is held), -EDQUOT (MaxSessions=), -EACCES,
 * -EINVAL and the errors above.
 */
EVD_API int evd_spawn(struct evd *c, const struct evd_spawn_options *options,
	uint64_t *session);
/* End the session that holds @alias, for good.
 * Return: 0, or -ENOENT, -EOPNOTSUPP (it is a client's), -EACCES, -EINVAL and
 * the errors above. */
EVD_API int evd_stop(struct evd *c, const char *alias);

/* Go to the daemon and back. @rtt_ns: how long it took; may be NULL.
 * Return: 0, or the errors above. */
EVD_API int evd_ping(struct evd *c, int64_t *rtt_ns);

#ifdef __cplusplus
}
#endif
