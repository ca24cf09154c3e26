#pragma once
/* What the verbs share that wait for events until enough has been told: watch,
 * names, monitor, spawn --wait. One thread. */
#include <stdint.h>

struct ctl;
struct evd_event;

struct watching {
	struct ctl *ctl;
	uint64_t left; /* to be told before the end */
	/* What has come; lowers @left. 0, or an exit code. */
	int (*on_event)(struct watching *w, const struct evd_event *event);
	/* The names that match have come to @session. 0, or an exit code. */
	int (*on_name)(struct watching *w, const char *alias, uint64_t session);
};

/* Hands every event to @on_event until nothing is left to be told, the
 * connection is lost, nothing comes within --timeout, or nobody reads our
 * output any more. 0, or an exit code. */
int watching_run(struct watching *w);

/* Connects, asks for the names that match the pattern in the verb's first word
 * (all of them if it has none), and hands those that are there already to
 * @on_name. @left becomes what --count says. 0, or an exit code. */
int watching_names(struct watching *w);

/* Until it has ended, as --timeout says; prints why. 0, or an exit code. */
int watch_until_down(struct ctl *ctl, uint64_t session);

/* Prints that @alias has come to @session, or gone if that is 0; the word has
 * @width columns. 0, or an exit code. */
int print_name(struct ctl *ctl, const char *alias, uint64_t session, int width);

/* Prints EVD_DOWN, @word before it unless it is JSON. 0, or an exit code. */
int print_down(
	struct ctl *ctl, const struct evd_event *event, const char *word);
