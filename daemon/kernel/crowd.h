#pragma once
/* Crowd: hosted sessions as consumers of an alias that many consume, beside
 * clients. Who holds such an alias is a session of another floor, behind
 * crowd_ops: in mode shared it lends each event to one of them, in mode fanout
 * it posts a copy to each; both come by the session's own mailbox.
 *
 * What is lent stays its owner's, who is told how it ended. If the borrower
 * ends, fails or leaves before it has begun with it, it goes back.
 *
 * A session has joined for as long as its state lasts. The session's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msg;
struct sched;
struct session;

enum { CROWD_WINDOW = 16, CROWD_WINDOW_MAX = 65535, CROWD_NAME_MAX = 64 };

struct crowd_wish {
	const char *alias;
	size_t size;
	uint32_t mode;   /* BIND_SHARED or BIND_FANOUT */
	uint32_t window; /* shared: events lent at once; 0: CROWD_WINDOW */
};

/* What the other side knows of one that joins. */
struct crowd_member {
	uint64_t session, token; /* together never used again */
	uint32_t mode, window;
	bool blocks; /* its mailbox may, when it is full */
	char name[CROWD_NAME_MAX];
	char alias[256];
};

struct crowd_ops {
	/* Let @who consume what comes to @holder, which lives here, or, if that
	 * is NULL, to the alias, which seems free. Once more: its window may
	 * have changed. EVD_STATUS_OK and the id of the holder in *@slot, or
	 * why not in @text. */
	int (*join)(struct sched *s, struct session *holder,
		const struct crowd_member *who, uint64_t *slot, char *text,
		size_t size);
	/* @note, whose receiver is the holder, sender the member and seq its
	 * token, says that it leaves. Consumes it. */
	void (*leave)(struct sched *s, struct msg *note);
};

enum { CROWD_E_QUEUED = 1000 }; /* no EVD_STATUS_* */

/**
 * crowd_join() - have the events of an alias, or a share of them
 * @text: set to why not, of @size bytes
 *
 * CROWD_E_QUEUED: the holder lives elsewhere, and the event `_alias` will tell.
 * That also comes when the holder ends it.
 *
 * Return: EVD_STATUS_OK, CROWD_E_QUEUED, INVALID, TAKEN, LIMIT, UNSUPPORTED,
 * UNAVAILABLE, FAILED or NO_MEMORY.
 */
int crowd_join(struct session *s, const struct crowd_wish *wish, char *text,
	size_t size);
/* False: it has not joined that. */
bool crowd_leave(struct session *s, const char *alias, size_t size);
/* What it has joined or asked to, as Bind= has it: "jobs:shared:4 x:fanout". As
 * much of it as @size has room for. */
void crowds_text(const struct session *s, char *text, size_t size);

/* ---- for the kernel's own files, and the other side ------------------- */

/* @member is told that it has @alias, or does not have it (any more), and
 * why. */
void crowd_tell(struct sched *s, uint64_t member, const char *alias, int status,
	const char *text);
/* Its state is there: it joins what Bind= of its file says, or fails. */
void crowds_begin(struct session *s);
/* Its state has gone: it leaves all of them. It has ties. */
void crowds_end(struct session *s);
/* What it was lent and has not begun with goes back. */
void crowds_give_back(struct session *s);
size_t crowds_memory(const struct session *s); /* bytes; it has ties */
