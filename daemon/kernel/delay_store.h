#pragma once
/* Delays that are in the store: a row in STORE_TIMERS, of the durable mailbox
 * that they go to. One is pending when its row is safe. When it is due the
 * record of its event and what becomes of its row are written together, so that
 * there is one event whatever ends the daemon; until that is safe the delay
 * counts, then the event does.
 *
 * They have ids of their own, which are the same in all runs. The thread of the
 * mailbox's home. */
#include "base/list.h"
#include "kernel/delays.h"
#include "kernel/journal.h"

enum stored_state {
	STORED_SETTING, /* its row is not safe yet */
	STORED_PENDING,
	STORED_FIRING, /* its event is not safe yet */
};

struct delay_stored {
	struct journal_told told; /* of its row */
	struct list link;         /* in journal.stored, while it has a delay */
	struct journal *journal;
	struct delay_stored *chain; /* in delays.stored */
	struct delay *delay;        /* NULL: it has gone */
	uint64_t id;                /* DELAY_ID_STORED | its number */
	uint64_t late_ns;  /* that its clock does not know of: of other runs */
	uint64_t next_ns;  /* FIRING: when it is due again; 0: never */
	uint64_t replaces; /* SETTING: a delay that goes when it is safe */
	struct delay_told *setter;  /* SETTING: who is told; or NULL */
	struct delay_told *waiting; /* for what is being written */
	bool *taken;                /* set when its event is in the journal */
	uint32_t n_puts, n_done;    /* rows that somebody waits for */
	uint32_t n_refs; /* rows and events that are with the store */
	uint8_t state;   /* enum stored_state */
	bool has_row;
	bool ends;    /* it was cancelled meanwhile */
	bool changes; /* or changed */
	struct delay_change change;
};

/* The delay of that id, or NULL. */
struct delay *delay_store_find(const struct delays *d, uint64_t id);
/* Its event @m, NULL if there is none, and when it is due again. */
void delay_store_fire(
	struct sched *s, struct delay *delay, struct msg *m, uint64_t next_ns);
/* Cancel it: 0 or DELAY_E_FIRED. */
int delay_store_cancel(
	struct sched *s, struct delay *delay, struct delay_told *told);
/* Change it: as delay_adjust(). */
int delay_store_adjust(struct sched *s, struct delay *delay,
	const struct delay_change *change, struct delay_told *told);
/* Something of it has changed: its row is written anew. */
void delay_store_changed(struct sched *s, struct delay *delay);
/* Its slot is given back. */
void delay_store_gone(struct sched *s, struct delay_stored *st);

/* ---- for journals -------------------------------------------------------- */

struct store_row;

/* Its event goes into the record that is open: its row into the same job. 0 or
 * -ENOMEM. */
int delay_store_take(struct delay_stored *st);
/* That is safe, or could not be written. */
void delay_store_fired(struct sched *s, struct delay_stored *st, struct msg *m);
void delay_store_unfired(struct sched *s, struct delay_stored *st);
/* A row of another run. */
void delay_restore(
	struct sched *s, struct session *t, const struct store_row *row);
/* The mailbox goes, and they stay in the store. */
void delay_store_close(struct journal *j);
