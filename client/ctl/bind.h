#pragma once
/* eventctl bind: events of aliases, printed or handed to a command. One
 * thread; signals come by a descriptor. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"

struct bind {
	struct ctl *ctl;
	const char *exec;            /* --exec, or NULL */
	const char *reply;           /* --reply-with, or NULL */
	const char *forward;         /* --forward, or NULL */
	struct evd_bind_options opt; /* of every alias */
	bool counted;                /* --count */
	uint64_t left;               /* events until the end, if counted */
	int signal_fd;               /* -1: not made */
	sigset_t old_mask;           /* before signal_fd was made */
	int stop_signal;             /* 0: none came */
	FILE *out;   /* where ctl->out went, which gathers now */
	char *text;  /* what was gathered ... */
	size_t size; /* ... at the last flush */
};

/* A command that ran. */
struct outcome {
	int wait_status;
	bool started;
	char *output; /* owned; with a NUL behind it */
	size_t size;
	bool cut; /* there was more than the limit */
};

/* Block the signals that end eventctl, but for those that are ignored, and
 * SIGCHLD: they come by signal_fd. 0, or -errno. */
int bind_signals_init(struct bind *b);
/* As before, so that a second Ctrl-C ends us at once. */
void bind_signals_deinit(struct bind *b);
/* Take what came: sets stop_signal. Is a child said to have ended? */
bool bind_signals_read(struct bind *b);

/* From now on ctl->out gathers. 0, or an exit code. */
int bind_output_init(struct bind *b);
void bind_output_deinit(struct bind *b);
/* Write what was gathered; the rest is dropped if a stop signal comes. 0, or
 * the exit code: CTL_EXIT_PIPE, or that of an error that has been told. */
int bind_output_flush(struct bind *b);

/* Run b->exec for @event and wait for it; its stdout is kept if @capture. 0, or
 * the exit code of an error that has been told: it could not be started. A
 * stop signal is passed on to it. */
int bind_run(struct bind *b, const struct evd_event *event, bool capture,
	struct outcome *outcome);
void outcome_deinit(struct outcome *outcome);
/* "ended with status 3", "was killed by signal 9 (Killed)"; NULL: it is
 * well. */
const char *outcome_text(
	const struct outcome *outcome, char *text, size_t size);

/* Print @event; @outcome as well if not NULL. */
/* That events were dropped. 0, or an exit code. */
int bind_print_gap(struct bind *b, const struct evd_event *event);
void bind_print(struct bind *b, const struct evd_event *event,
	const struct outcome *outcome);
