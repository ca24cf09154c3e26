#pragma once
/* For journal.c and journal_write.c: what they share. */
#include "base/list.h"
#include "kernel/journal.h"

enum { LANE_URGENT, LANE_NORMAL, LANES };
enum { BATCH_WORDS = JOURNAL_BATCH / 64, BATCH_KEY = 17 };

/* A record in the store, or to be there. */
struct batch {
	struct batch *next;       /* in its lane, until it is safe */
	struct batch *next_dirty; /* to be written about */
	struct list link;         /* in journal.batches */
	struct journal *journal;
	uint64_t no;
	uint16_t n, n_left; /* events; that have not ended */
	uint16_t n_told;    /* ends that the store was told of */
	uint8_t lane;
	bool in_memory; /* its events are */
	bool decided;   /* whether they are to be */
	bool submitted; /* its record is with the store */
	bool safe;      /* ... and has been written */
	bool erased;    /* nothing of it is in the store any more */
	bool dirty, marked;
	bool closed;         /* no more events are added */
	uint16_t n_items;    /* with the store: jobs that tell of it */
	bool aside;          /* damaged: `bytes` go to a table of their own */
	uint32_t size, room; /* of bytes */
	uint64_t charge;     /* bytes of the events, as mailboxes count */
	uint64_t told_size, ended_size; /* of those that ended */
	uint8_t *bytes;                 /* the record, until it is safe */
	struct msg_queue msgs;          /* likewise its events, if in_memory */
	uint8_t *tries;  /* n: how often each was handed out; or NULL */
	uint64_t *rests; /* n: until when it rests; 0: not; or NULL */
	uint64_t ended[BATCH_WORDS];
};

/* A poster that waits for more than safety, of an event that is in the store
 * alone. */
struct waiter {
	struct waiter *next;
	uint64_t no, from, seq;
	uint32_t size;
	uint16_t place;
	uint8_t level;
};

struct lane {
	struct batch *first, *last; /* not safe yet; the last may be open */
	struct waiter *waiters, **waiters_end;
	uint64_t next;     /* the first record that has not been read */
	uint32_t n_behind; /* records that came behind those, for ever */
	bool unread;       /* there may be such */
	bool loading;
};

/* One more row to be written with the next job. */
struct side_write {
	struct side_write *next;
	struct store_write write;
	struct journal_told *told; /* once, when it is back; or NULL */
	uint8_t kind;              /* enum side_kind */
	uint8_t bytes[];           /* the key, then the data */
};

/* A poster to be told when the next job is done. */
struct told {
	uint64_t from, seq;
	uint32_t size;
};

/* Who waits until what has come by now is safe. */
struct safe_wait {
	struct safe_wait *next;
	uint64_t upto[LANES]; /* records */
	journal_done_fn done;
	void *arg;
};

/* What is being purged, or was when the last run ended. */
struct journal_purge {
	bool active;          /* by this run, step by step */
	uint64_t upto[LANES]; /* records */
	char event[JOURNAL_EVENT_MAX];
};

struct journal {
	struct session *session; /* NULL: it has gone */
	struct sched *sched;
	struct store *store;
	struct store_box *box;
	struct journal_purge *purge; /* or NULL */
	struct safe_wait *safe_waits;
	struct moved *moved; /* what the last run moved elsewhere */
	bool partial;        /* only events that ask for it are durable */
	struct journal *next_dirty; /* in sched.journals */
	bool dirty;
	struct lane lanes[LANES];
	struct batch *dirty_batches;
	struct side_write *sides, **sides_end;
	uint32_t n_sides;
	struct msg_queue early; /* with keys, while keys are being read */
	bool keys_known, timers_known, state_known;
	int state_status; /* why its durable state could not be read; or 0 */
	uint32_t n_ends;  /* of n_jobs: those that tell what has ended */
	bool ready;       /* all that a start needs has been read */
	struct journal_wait *waits; /* for that */
	struct list stored;         /* its timers: struct delay_stored */
	struct told *told;
	uint32_t n_told, told_room;
	uint32_t n_jobs;     /* with the store, writing */
	uint32_t n_loads;    /* reading */
	uint32_t n_looks;    /* of those: only to look */
	uint32_t n_away;     /* events that are on their way elsewhere */
	struct list batches; /* all that there are in memory */
	uint32_t n_loaded;   /* events in memory that are safe */
	uint64_t loaded_size;
	uint32_t n_pending; /* events that are not safe yet */
	uint64_t pending_size;
	uint64_t unwritten; /* bytes of records that are in memory alone */
	uint64_t n_backlog; /* events in the store alone */
	uint64_t backlog_size;
	struct timer retry; /* TIMER_JOURNAL: the store has failed */
};

/* The head of a record, and a row of marks; little-endian. */
struct batch_head {
	uint16_t version, n;
	uint32_t reserved;
};
struct batch_marks {
	uint16_t n, has; /* MARKS_*: behind it, for each event, in this order */
	uint32_t reserved;
	uint64_t ended[BATCH_WORDS];
};
enum { BATCH_VERSION = 1, MARKS_TRIES = 1, MARKS_RESTS = 2, MARKS_CLOCKS = 4 };
/* Behind all: when rests, which are by the wall clock there, were written; in
 * another run that clock may have been set. */
struct marks_clocks {
	uint8_t boot[16]; /* store.boot, of which now_ns is */
	uint64_t now_ns, wall_ns;
};

void batch_key(uint8_t out[BATCH_KEY], const struct journal *j, unsigned lane,
	uint64_t no);
struct batch *batch_new(struct journal *j, unsigned lane, uint64_t no);
void batch_free(struct batch *b);
/* Free it if nobody has any use for it. */
void batch_release(struct batch *b);
/* The store is to be told of @b, or of @j. */
void batch_touch(struct batch *b);
void journal_touch(struct journal *j);
/* Nothing of it is left but memory. */
void journal_unref(struct journal *j);
/* The job of @b's record is back: it is safe, or @status says why not. */
void batch_written(struct batch *b, int status);

/* @m of @b is safe: it is accepted. */
void batch_event_safe(struct batch *b, struct msg *m);
/* What posters are told whose event is in the store, and nowhere else. */
extern const char journal_kept_text[];

/* The row of @box as it is now; it refers to @row. */
struct store_write journal_box_write(
	const struct store_box *box, struct store_box_row *row);

/* What the row beside that of @b says of its events; and its number. */
void batch_take_marks(struct batch *b, const struct store_row *row);
uint64_t batch_number(const struct store_row *row);

/* A record that is read: in memory; NULL: out of memory. */
struct batch *batch_of_row(
	struct journal *j, unsigned lane, const struct store_row *row);
/* End those of its events that are to be purged. */
void batch_purge_row(struct batch *b, const struct store_row *row);
/* One event leaves the backlog: it is in memory now, or has gone. */
void journal_leave_backlog(struct journal *j, uint64_t size);
/* Write a row with the events that this turn brings, or, @data NULL, erase one
 * with what it ends. 0 or -ENOMEM. */
int journal_write_raw(struct session *t, unsigned table, const void *key,
	size_t key_size, const void *data, size_t size);
/* The same as journal_purge_...() of what has been moved elsewhere. */
void journal_moved_read(struct journal *j);
bool journal_moved_takes(struct batch *b, struct msg *m, unsigned place);
bool journal_moved_has(const struct batch *b, unsigned place);
void journal_moved_passed(struct session *t);
void journal_moved_free(struct journal *j);
/* Before anything else is read: what the last run was about to purge. */
void journal_purge_read(struct journal *j);
/* @m of @b has just been read, and is to be purged: it has ended. */
bool journal_purge_takes(struct batch *b, struct msg *m, unsigned place);
/* Whether @m of @b is meant by @purge. */
bool journal_purge_means(const struct journal_purge *purge,
	const struct batch *b, const struct msg *m);
/* What was to be read for that may have been. */
void journal_purge_passed(struct session *t);

/* The store has failed: once more, a while later. */
void journal_retry_later(struct journal *j);
/* @b is not among those to become safe any more. */
void batch_leave_lane(struct batch *b);
/* Read the keys, the timers and the dead letters of other runs. */
void journal_read_rest(struct journal *j);
/* All that a start needs has been read, or is of no use any more. */
void journal_is_read(struct journal *j);
/* A row that side_link() has written with the next job; NULL: out of memory. */
struct side_write *side_new(struct journal *j, const struct store_write *w,
	enum side_kind kind, struct journal_told *told);
void side_link(struct journal *j, struct side_write *side);
/* @side goes without having been written. */
void side_drop(struct journal *j, struct side_write *side, int status);
/* Read on if few events are in memory. */
void journal_load(struct journal *j);
static inline bool
journal_is_unread(const struct journal *j)
{
	return j->lanes[LANE_URGENT].unread || j->lanes[LANE_NORMAL].unread;
}

static inline bool
batch_has_ended(const struct batch *b, unsigned place)
{
	return b->ended[place / 64] >> (place % 64) & 1;
}
