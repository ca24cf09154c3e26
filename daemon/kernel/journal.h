#pragma once
/* Journal: the durable side of one session's mailbox.
 *
 * Events that come are put into records of up to JOURNAL_BATCH, which the store
 * writes; when one is safe its events are accepted, in the order in which they
 * came. What few events there are stay in memory as well; behind
 * JOURNAL_WINDOW of them they are in the store alone until it is their turn.
 * mailbox.n and mailbox.size count both. An event that ends is marked in its
 * record, and the record goes with its last event: so what is handled soon
 * costs next to nothing beside its own bytes.
 *
 * The thread of the session's home. The store calls back there. */
#include <stdbool.h>
#include <stdint.h>

#include "kernel/msg.h"
#include "kernel/store.h"

enum {
	JOURNAL_BATCH = 256,        /* events in a record */
	JOURNAL_BATCH_SIZE = 65536, /* bytes: no more events are added then */
	JOURNAL_WINDOW = 4096,      /* events in memory, */
	JOURNAL_WINDOW_SIZE = 8 << 20, /* or bytes */
	JOURNAL_JOBS = 2,              /* handed to the store at once */
};

struct journal;
struct session;

/* Give @t, which is about to be found by others, its durable mailbox called
 * @name: what is in the store becomes its. 0; JOURNAL_E_HELD: another session
 * has it; JOURNAL_E_NONE: there is no store; JOURNAL_E_BROKEN: it
 * cannot be used, store.broken says why; -ENOMEM. */
enum { JOURNAL_E_HELD = 1, JOURNAL_E_NONE = 2, JOURNAL_E_BROKEN = 3 };
int journal_open(struct session *t, const char *name);
/* The same for one whose mailbox is in memory, but for events that ask for
 * durability: now that the first of them has come; JOURNAL_E_NAMELESS: it has
 * no name to be found by later. Or at its start, if some are in the store: then
 * what comes to nothing is of no interest. */
enum { JOURNAL_E_NAMELESS = 4 };
int journal_open_partial(struct session *t);
void journal_restore(struct session *t, const char *name);
bool journal_is_partial(const struct session *t);
/* What its mailbox is called in the store; NULL: it has no name. */
const char *journal_name(const struct session *t);
/* Why @t has no journal, for people. */
const char *journal_lacks(const struct session *t);
/* @t goes: what its mailbox holds stays in the store, whoever waits for it to
 * be handled is told so. */
void journal_close(struct session *t);
/* Bytes in memory. */
size_t journal_memory(const struct session *t);

/* Whether @m goes to the store, not only to the mailbox of @t, which has a
 * journal. */
bool journal_wants(const struct session *t, const struct msg *m);
/* @m, which it wants, for @t: as sched_post(). */
int journal_deliver(struct sched *s, struct session *t, struct msg *m);
/* The same, whatever the bounds: there is room, or shall be. 0 or -ENOMEM. */
int journal_take(struct sched *s, struct session *t, struct msg *m);
/* There may be room for those that wait for it. */
void journal_admit_parked(struct sched *s, struct session *t);
/* It has run: it may need more from the store. */
void journal_ran(struct sched *s, struct session *t);

/* @m, with an extra, ends with @status. If it is in a journal and was handled,
 * its poster is told when that is safe, and has not to be told any more. */
void journal_ended(struct sched *s, struct msg *m, int status);
/* @m, with an extra, has been given to a handler that keeps it. */
void journal_leased(struct msg *m);
/* @m has been given back, and is not to be tried before @due_ns, monotonic:
 * nor in the next run. */
void journal_rests(struct msg *m, uint64_t due_ns);
/* @m, with an extra, is let go without an end: it stays in the store. False:
 * it is in no journal. */
bool journal_keep(struct sched *s, struct session *t, struct msg *m);
/* Whether it stays so. */
bool journal_has(const struct msg *m);
/* An event that is on its way to another mailbox: where it is in the store, so
 * that it ends there when it has arrived, or is put back. The home's thread. */
struct journal_place {
	struct batch *batch; /* NULL: it is in no journal */
	uint32_t charge;
	uint16_t place;
};
struct journal_place journal_detach(struct msg *m);
/* The first @n of those places are about to be taken in by @to, which has a
 * journal; they have arrived, and end in @from, their source. */
void journal_moved_note(
	struct session *to, const struct journal_place *p, uint32_t n);
void journal_moved_end(
	struct session *from, const struct journal_place *p, uint32_t n);
void journal_attach(struct msg *m, const struct journal_place *p);
void journal_end_place(const struct journal_place *p);
/* Its mailbox has closed meanwhile: it stays where it is. */
void journal_leave_place(const struct journal_place *p);
/* Events of @t are being read. */
bool journal_is_reading(const struct session *t);

/* Write a row of STORE_STATE or the like together with what this turn ends and
 * begins; @data NULL erases it. The key is behind the number of the mailbox. 0
 * or -ENOMEM. */
int journal_write(struct session *t, unsigned table, const void *key,
	size_t key_size, const void *data, size_t size);
/* Of a row beside the events: what it is written with, and what becomes of it
 * if that fails. */
enum side_kind {
	SIDE_ENDS,    /* what ends; it is tried again until it is written */
	SIDE_EVENTS,  /* new events; it is of no use if they cannot be stored */
	SIDE_RECORDS, /* new events that count already; tried again with them */
};
struct journal_told {
	void (*told)(struct journal_told *t, struct sched *s, int status);
};
/* The same of any journal, whose session may have gone; the key of @w is behind
 * the number of the mailbox. @told, if not NULL, once, never at once: 0 or a
 * negative errno. 0 or -ENOMEM. */
int journal_put(struct journal *j, const struct store_write *w,
	enum side_kind kind, struct journal_told *told);
/* What the session of @t has in the store is known: it may start, and timers
 * may be set for it. */
bool journal_is_ready(const struct session *t);
/* ... so that its state can be made. If not, it is told when it may, or fails.
 */
bool journal_lets_start(struct session *t);
/* Call ready() when that is so, or @t goes; never at once. */
struct journal_wait {
	struct journal_wait *next;
	void (*ready)(struct journal_wait *w, struct sched *s);
};
void journal_await(struct session *t, struct journal_wait *w);
/* The same of an idempotency key that was accepted now, or is forgotten. */
void journal_note_key(struct session *t, const char *key, uint8_t size);
void journal_drop_key(struct session *t, const char *key, uint8_t size);

/* The record @data of STORE_EVENTS: how many of its events are damaged; *n is
 * how many it has. Any thread. */
uint32_t journal_check_record(const uint8_t *data, size_t size, uint32_t *n);

/* The mailbox of @t is or is not paused, so that it is in the next run as well;
 * done(@arg) tells when that is safe, or cannot be written. False: @t is not
 * durable, or there is no memory: it is not called. */
typedef void (*journal_done_fn)(struct sched *s, void *arg, int status);
bool journal_pause(
	struct session *t, bool paused, journal_done_fn done, void *arg);

/* The mailbox of @t, which is durable, is one that a client asked for: it is
 * there again in the next run, as @traits say. done(@arg) tells when that is
 * safe, or cannot be written now: then it goes with what is written next. 0,
 * JOURNAL_E_MANY or -ENOMEM. */
enum { JOURNAL_E_MANY = 5, JOURNAL_STANDING_MAX = 1000 };
int journal_stand(
	struct session *t, uint64_t traits, journal_done_fn done, void *arg);
/* ... and no more. What it holds stays in the store. */
void journal_forget(struct session *t);

/* A purge of @t, which has a journal: of what it holds now and is called
 * @event, NULL: of all. done(@arg) tells when it is safe that all of it will be
 * purged, whatever happens; then the caller ends what is in memory, has the
 * rest ended, which counts in *@n and tells by done() when that is written, and
 * ends the purge. Meanwhile nothing is read. 0, JOURNAL_E_PURGING: one is under
 * way, or -ENOMEM: then done() is not called. */
enum { JOURNAL_E_PURGING = 6, JOURNAL_EVENT_MAX = 256 };
int journal_purge_begin(
	struct session *t, const char *event, journal_done_fn done, void *arg);
int journal_purge_rest(
	struct session *t, uint64_t *n, journal_done_fn done, void *arg);
void journal_purge_end(struct session *t);

/* done(@arg) tells when all that @t, which has a journal, has taken by now is
 * safe. False: it is, or there is no memory: it is not called. */
bool journal_when_safe(struct session *t, journal_done_fn done, void *arg);

/* Where what is in the store alone begins now, by lane; UINT64_MAX: nothing of
 * it is. */
struct journal_mark {
	uint64_t next[2];
};
struct journal_mark journal_mark(const struct session *t);

/* See the events of @t that were in the store alone at @from, in their order,
 * though they may have been read in since: see() is given each, for no longer
 * than the call, until it says false; then done(), and then no more. False:
 * there are none, or no memory: neither is called. */
struct journal_look {
	struct journal_mark from;
	bool (*see)(void *arg, const struct msg *m);
	journal_done_fn done;
	void *arg;
};
bool journal_look(struct session *t, const struct journal_look *look);

/* Events in the store alone. */
uint64_t journal_backlog(const struct session *t);
/* A TIMER_JOURNAL is due. */
void journal_retry(struct sched *s, struct timer *timer);
/* Hand what has changed to the store; at the end of a turn. */
void journals_flush(struct sched *s);
