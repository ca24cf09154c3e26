#pragma once
/* Reload: reads the configuration again, off the loops' threads, and applies
 * the difference, or keeps the old one and says what is wrong with the new.
 * One at a time; others wait their turn. The main thread, but for
 * reloader_ask(). */
#include <stdbool.h>

#include "config.h"
#include "hosting.h"

struct reload;

typedef void (*reload_done_fn)(void *arg, int status, const char *text,
	const struct reload_diff *diff);

struct reloader {
	struct loop *loops;
	struct hosting *hosting;
	struct config_source source;
	struct config *config;       /* in force; owned */
	struct reload *head, **tail; /* waiting */
	struct reload *running;
	bool open;    /* else they wait */
	bool closing; /* they are refused */
	/* One has ended: 0 or the status of its failure. */
	void (*ended)(void *arg, bool preview, int status);
	void *arg;
};

/* @config is in force and taken over; nothing is read until
 * reloader_open(). */
void reloader_init(struct reloader *r, struct loop *loops,
	struct hosting *hosting, const struct config_source *source,
	struct config *config);
void reloader_deinit(struct reloader *r);
void reloader_open(struct reloader *r);
/* Refuse what waits and comes; the running one still ends. */
void reloader_close(struct reloader *r);

/* As daemon_ops.reload(), on the thread of @from. */
void reloader_ask(struct reloader *r, struct sched *from, bool preview,
	reload_done_fn done, void *arg);
