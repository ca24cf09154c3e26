#pragma once
/* Tap: sees each event that one session has been given. While a scheduler has
 * taps they stand between it and who measures its events (profiling.h): without
 * them an event costs nothing more. The scheduler's thread. */
#include <stdbool.h>
#include <stdint.h>

struct msg;
struct sched;
struct session;

struct tap {
	struct tap *next;
	uint64_t session; /* whose events */
	uint64_t to;      /* the session that wants them: it ends with either */
	bool payload;     /* ... and may see what they carry */
	/* @m, which is borrowed, has been taken by its session @t. */
	void (*seen)(struct sched *s, const struct tap *tap, struct session *t,
		const struct msg *m);
};

enum { TAPS_MAX = 1024 }; /* of a scheduler */

/* A copy of @init for the session init->session of this scheduler: 0, -ENOSPC
 * or -ENOMEM. */
int tap_add(struct sched *s, const struct tap *init);
/* Those of @t see @event, one of notice.h's, with a text, as if it had been
 * given that. */
void tap_tell(struct sched *s, struct session *t, const char *event,
	const char *text);
void taps_deinit(struct sched *s);
